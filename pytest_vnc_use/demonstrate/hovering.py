"""Which of the places that a pointer rested at mattered: those that made appear what was acted on next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pytest_vnc_use.demonstrate.gestures import near
from pytest_vnc_use.recordings.format import Screen, merged
from pytest_vnc_use.recordings.gates import mask_of, surroundings
from pytest_vnc_use.recordings.pictures import Mask, Pixels, differing as pixels_differing
from pytest_vnc_use.safety.rules import points
from pytest_vnc_use.types import Action, Move


@dataclass(frozen=True)
class Rest:
    """The pointer came to rest at a point; `screen` is the one before it came."""

    at: tuple[int, int]
    screen: Screen


def needed(rests: Sequence[Rest], action: Action, screen: Screen) -> list[Rest]:
    """The rests without which the target of an action, on that screen, would have looked different.

    One at the target itself is not: an action takes the pointer there.
    """
    kept: list[Rest] = []
    for rest in reversed(rests):
        targets = points(action)
        if not any(near(rest.at, target) for target in targets) and _shows(rest.screen, action, screen):
            kept.insert(0, rest)
            action = Move(*rest.at)
        screen = rest.screen
    return kept


def restored(before: Screen, resting: Screen, now: Screen) -> Screen:
    """The screen now that the pointer is back, as if it had rested nowhere.

    What it changed by coming back is as `before` it left: not every program looks the same again.
    """

    def pixels() -> Pixels:
        here: Pixels = now.pixels()
        return np.where(resting.pixels() != here, before.pixels(), here)

    apart = [part for part in before.volatile if not any(part.region.meets(other.region) for other in now.volatile)]
    return Screen(volatile=merged((*apart, *now.volatile)), quiet_s=now.quiet_s, pixels=pixels)


def _shows(before: Screen, action: Action, after: Screen) -> bool:
    """Whether the surroundings of an action's targets became others."""
    differs = differing(before, after)
    height, width = differs.shape
    return bool((differs & mask_of(surroundings(action, (width, height)), differs.shape)).any())


def differing(one: Screen, other: Screen) -> Mask:
    """Where two screens show something else, but for what moves by itself."""
    before, after = one.pixels(), other.pixels()
    regions = [part.region for part in (*one.volatile, *other.volatile)]
    differs: Mask = pixels_differing(before, after) & ~mask_of(regions, after.shape)
    return differs
