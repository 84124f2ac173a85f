"""Where a pointer rested, and whether that mattered for what was done next."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_vnc_use.demonstrate.hovering import Rest, differing, needed, restored
from pytest_vnc_use.recordings.format import DynamicRegion, Screen, dynamic_region
from pytest_vnc_use.types import Action, Click, KeyCombo, Region

BAR = (50, 50)
MENU = (50, 150)
ITEM = (250, 150)
FAR = (600, 350)


def screen(*shown: tuple[int, int], parts: tuple[DynamicRegion, ...] = ()) -> Screen:
    """A screen on which something shows at these points."""
    pixels = np.zeros((400, 800), np.uint32)
    for x, y in shown:
        pixels[y - 10 : y + 10, x - 10 : x + 10] = 0xFFFFFF
    return Screen(dynamic=parts, pixels=lambda: pixels)


Points = list[tuple[int, int]]


@pytest.mark.parametrize(
    ("rests", "action", "now", "kept"),
    [
        ([], Click(*ITEM), [], []),
        ([(BAR, [])], Click(*MENU), [MENU], [BAR]),
        ([(BAR, [])], Click(*FAR), [MENU], []),
        ([(BAR, [])], KeyCombo(("f5",)), [MENU], []),
        ([(MENU, [])], Click(*MENU), [MENU], []),
        ([(BAR, []), (MENU, [MENU])], Click(*ITEM), [MENU, ITEM], [BAR, MENU]),
        ([(BAR, []), (ITEM, [MENU])], Click(*ITEM), [MENU, ITEM], []),
        ([(BAR, []), (MENU, [MENU])], Click(*MENU), [MENU, ITEM], [BAR]),
    ],
)
def test_rests_that_mattered(
    rests: list[tuple[tuple[int, int], Points]],
    action: Action,
    now: Points,
    kept: Points,
) -> None:
    rested = [Rest(at, screen(*before)) for at, before in rests]
    assert [rest.at for rest in needed(rested, action, screen(*now))] == kept


def test_needed_ignores_dynamic_region() -> None:
    x, y = MENU
    region = Region(x - 20, y - 20, x + 20, y + 20)
    clock = dynamic_region(region, "always_changing")
    now = screen(MENU, parts=(clock,))
    assert needed([Rest(BAR, screen())], Click(*MENU), now) == []


def test_restored_undoes_what_coming_back_changed() -> None:
    """A program does not look the same again at BAR, and MENU came on its own while the
    pointer rested.
    """
    back = restored(screen(), screen(MENU, ITEM), screen(MENU, BAR))
    assert not differing(back, screen(MENU)).any()
