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


def rest(at: tuple[int, int], *shown: tuple[int, int]) -> Rest:
    """A rest of the pointer, before which something showed at these points."""
    return Rest(at, screen(*shown))


Points = list[tuple[int, int]]
ON_BAR = rest(BAR)
"""It opened the menu."""
ON_MENU = rest(MENU, MENU)
"""It opened the submenu with the item."""


@pytest.mark.parametrize(
    ("rests", "action", "shown", "mattered"),
    [
        ([], Click(*ITEM), [], []),
        ([ON_BAR], Click(*MENU), [MENU], [BAR]),
        ([ON_BAR], Click(*FAR), [MENU], []),
        ([ON_BAR], KeyCombo(("f5",)), [MENU], []),
        ([rest(MENU)], Click(*MENU), [MENU], []),
        ([ON_BAR, ON_MENU], Click(*ITEM), [MENU, ITEM], [BAR, MENU]),
        ([ON_BAR, rest(ITEM, MENU)], Click(*ITEM), [MENU, ITEM], []),
        ([ON_BAR, ON_MENU], Click(*MENU), [MENU, ITEM], [BAR]),
    ],
    ids=[
        "no rest",
        "click in menu",
        "click elsewhere",
        "key",
        "click where it rested",
        "click in submenu",
        "click where it rested, in submenu",
        "click in menu beside submenu",
    ],
)
def test_rests_that_mattered(
    rests: list[Rest], action: Action, shown: Points, mattered: Points
) -> None:
    kept = needed(rests, action, screen(*shown))
    assert [rest.at for rest in kept] == mattered


def test_needed_ignores_dynamic_region() -> None:
    x, y = MENU
    region = Region(x - 20, y - 20, x + 20, y + 20)
    clock = dynamic_region(region, "always_changing")
    now = screen(MENU, parts=(clock,))
    assert needed([ON_BAR], Click(*MENU), now) == []


def test_restored_undoes_what_coming_back_changed() -> None:
    """A program does not look the same again at BAR, and MENU came on its own while the
    pointer rested.
    """
    before = screen()
    resting = screen(MENU, ITEM)
    now = screen(MENU, BAR)
    back = restored(before, resting, now)
    assert not differing(back, screen(MENU)).any()
