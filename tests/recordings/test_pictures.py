"""What changed is kept by whole tiles."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_vnc_use.recordings.images import TILE_PX, tiled


@pytest.mark.parametrize("size", [(900, 1440), (901, 1447), (7, 9), (8, 8), (1, 1)])
def test_a_tile_is_marked_whole_where_one_of_its_pixels_is(size: tuple[int, int]) -> None:
    marked = np.zeros(size, np.bool_)
    chosen = np.random.default_rng(1).integers(0, size, (20, 2))
    expected = marked.copy()
    for row, column in chosen:
        marked[row, column] = True
        top, left = row - row % TILE_PX, column - column % TILE_PX
        expected[top : top + TILE_PX, left : left + TILE_PX] = True
    assert (tiled(marked) == expected).all()
    assert not tiled(np.zeros(size, np.bool_)).any()
