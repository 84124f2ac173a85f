from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.desks import Served


@pytest.fixture
def served() -> Iterator[Served]:
    made = Served()
    yield made
    made.end()
