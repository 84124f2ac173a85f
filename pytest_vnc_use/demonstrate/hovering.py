"""The choice of the places that mattered, among all places where the pointer rested.

A place matters if something appeared near the target of the next action while the
pointer rested there, such as a submenu. So the choice goes back from the action: what a
place showed decides about that place, and then is what the place before it must show.

    rested at     File        Export       toolbar
    shown then    menu        submenu      (nothing new)      click "PNG" in the submenu
    needed        yes: it     yes: it      no
                  shows       shows "PNG"
                  Export
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pytest_vnc_use.demonstrate.gestures import near
from pytest_vnc_use.recordings.format import Screen, merged
from pytest_vnc_use.recordings.gates import surroundings
from pytest_vnc_use.recordings.images import Mask, Pixels, differing as pixels_differing
from pytest_vnc_use.types import Action, Move
from pytest_vnc_use.types.actions import points


@dataclass(frozen=True)
class Rest:
    """A point where the pointer stopped; `screen` is the one before it came."""

    at: tuple[int, int]
    screen: Screen


def needed(hovers: Sequence[Rest], action: Action, screen: Screen) -> list[Rest]:
    """Return the hovers that changed the appearance of the action's target; `screen` is
    the one on which it acts.

    A hover at the target itself is left out, as the action moves the pointer there.
    """
    kept: list[Rest] = []
    after = screen
    for hover in reversed(hovers):
        is_at_target = any(near(hover.at, target) for target in points(action))
        if not is_at_target and _shows(hover.screen, action, after):
            kept.append(hover)
            action = Move(*hover.at)
        after = hover.screen
    return kept[::-1]


def restored(before: Screen, resting: Screen, now: Screen) -> Screen:
    """Return the current screen without the effects of resting.

    `before` is the screen before the pointer rested, `resting` the one while it did.
    Pixels that changed when the pointer came back are taken from `before`.
    """

    def pixels() -> Pixels:
        current: Pixels = now.pixels()
        has_changed = resting.pixels() != current
        return np.where(has_changed, before.pixels(), current)

    moving = [part.region for part in now.dynamic]
    parts = [*now.dynamic]
    for part in before.dynamic:
        if not part.region.meets_any(moving):
            parts.append(part)
    dynamic = merged(parts)
    return Screen(dynamic=dynamic, stable_s=now.stable_s, pixels=pixels)


def _shows(before: Screen, action: Action, after: Screen) -> bool:
    """Return whether the surroundings of an action's targets changed."""
    differs = differing(before, after)
    height, width = differs.shape
    around = surroundings(action, (width, height))
    return any(region.part_of(differs).any() for region in around)


def differing(one: Screen, other: Screen) -> Mask:
    """Mark where two screens differ, without dynamic regions."""
    differs = pixels_differing(one.pixels(), other.pixels())
    for part in (*one.dynamic, *other.dynamic):
        part.region.part_of(differs)[:] = False
    return differs
