"""Where a pointer rested, and whether that mattered for what was done next."""

from __future__ import annotations

import numpy as np

from pytest_vnc_use.demonstrate.hovering import Rest, differing, needed, restored
from pytest_vnc_use.recordings.format import DynamicRegion, Screen, dynamic_region
from pytest_vnc_use.types import Action, Click, KeyCombo, Region

BAR, MENU, ITEM, FAR = (50, 50), (50, 150), (250, 150), (600, 350)


def screen(*shown: tuple[int, int], parts: tuple[DynamicRegion, ...] = ()) -> Screen:
    """A screen on which something shows at these points."""
    pixels = np.zeros((400, 800), np.uint32)
    for x, y in shown:
        pixels[y - 10 : y + 10, x - 10 : x + 10] = 0xFFFFFF
    return Screen(dynamic=parts, pixels=lambda: pixels)


Points = list[tuple[int, int]]
RESTS: list[tuple[list[tuple[tuple[int, int], Points]], Action, Points, Points]] = [
    ([], Click(*ITEM), [], []),
    ([(BAR, [])], Click(*MENU), [MENU], [BAR]),
    ([(BAR, [])], Click(*FAR), [MENU], []),
    ([(BAR, [])], KeyCombo(("f5",)), [MENU], []),
    ([(MENU, [])], Click(*MENU), [MENU], []),
    ([(BAR, []), (MENU, [MENU])], Click(*ITEM), [MENU, ITEM], [BAR, MENU]),
    ([(BAR, []), (ITEM, [MENU])], Click(*ITEM), [MENU, ITEM], []),
    ([(BAR, []), (MENU, [MENU])], Click(*MENU), [MENU, ITEM], [BAR]),
]


def test_rests_that_mattered() -> None:
    for rests, action, now, kept in RESTS:
        rested = [Rest(at, screen(*before)) for at, before in rests]
        assert [rest.at for rest in needed(rested, action, screen(*now))] == kept, (
            rests,
            action,
        )


def test_needed_ignores_dynamic_region() -> None:
    clock = dynamic_region(
        Region(MENU[0] - 20, MENU[1] - 20, MENU[0] + 20, MENU[1] + 20),
        "always_changing",
    )
    assert (
        needed([Rest(BAR, screen())], Click(*MENU), screen(MENU, parts=(clock,))) == []
    )


def test_restored_undoes_what_coming_back_changed() -> None:
    """A program does not look the same again at BAR, and MENU came on its own while the
    pointer rested.
    """
    back = restored(screen(), screen(MENU, ITEM), screen(MENU, BAR))
    assert not differing(back, screen(MENU)).any()
