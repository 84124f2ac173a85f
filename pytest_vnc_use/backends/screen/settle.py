"""When a screen counts as settled after an action: the rules, and the decision as a pure function of what was seen."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pytest_vnc_use.backends.screen.activity import Activity, Tiles
from pytest_vnc_use.types import SettledReason


@dataclass(frozen=True)
class SettleRules:
    """How long to wait for the screen, in seconds.

    A first change is awaited until `first_change_s` after the action began, then `quiet_s` without another one, what
    moves by itself left out. A button that shows no more than that it was pressed, or a line no more than what was
    entered, has not answered yet, unless `any_change` will do. `limit_s` bounds the whole wait.
    """

    first_change_s: float = 0.5
    quiet_s: float = 0.2
    limit_s: float = 5.0
    any_change: bool = False

    def shortened(self) -> SettleRules:
        """For a screen that is watched on: of 150 frames it missed the end of 39, the watch none."""
        return replace(self, first_change_s=0.6 * self.first_change_s, quiet_s=0.5 * self.quiet_s)


@dataclass(frozen=True)
class ActionWindow:
    """When the last action began and ended, on the monotonic clock; which pixel it `clicked`, whether it `entered`.

    An action enters where its last key is the one that has a line of text answered, and a default button pressed.
    """

    began_s: float
    ended_s: float
    clicked: tuple[int, int] | None = None
    entered: bool = False


@dataclass(frozen=True)
class SettleDecision:
    """Why the screen counts as settled, from `at_s` on unless it changes before."""

    reason: SettledReason
    at_s: float


def decide(activity: Activity, mark: ActionWindow, rules: SettleRules, now_s: float) -> SettleDecision:
    """What to make of a screen that changes no more."""
    moving = activity.moving(now_s)
    last_change_s = activity.last_change_s(except_tiles=moving)
    quiet_s = max(last_change_s, mark.ended_s) + rules.quiet_s
    shows_the_action = np.False_ if rules.any_change else _shows(activity, mark, moving)
    if activity.last_change_s(except_tiles=moving | shows_the_action) >= mark.began_s:
        return SettleDecision("animated" if moving.any() else "settled", quiet_s)
    awaited_s = max(quiet_s, mark.began_s + rules.first_change_s)
    if last_change_s >= mark.began_s:
        return SettleDecision("animated" if moving.any() else "settled", awaited_s)
    return SettleDecision("animated" if (moving & ~activity.known).any() else "nothing_changed", awaited_s)


def _shows(activity: Activity, mark: ActionWindow, moving: Tiles) -> Tiles:
    """The tiles in which a screen shows the action itself, and no answer to it yet."""
    if mark.entered:
        return activity.line_since(mark.began_s, except_tiles=moving)
    return activity.around(mark.clicked)
