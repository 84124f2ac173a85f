"""The rules by which a screen counts as settled after an action; the decision is a pure function of the activity."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pytest_vnc_use.backends.screen.activity import Activity, Tiles
from pytest_vnc_use.types import SettledReason


@dataclass(frozen=True)
class SettleRules:
    """The waiting times for a screen, in seconds.

    A first change is awaited until `first_change_s` after the action began. Then the screen must rest for `quiet_s`;
    moving tiles do not count. A button that only shows its press has not answered yet. Nor has a line that only shows
    the typed text. With `any_change` both are enough. `limit_s` limits the whole wait.
    """

    first_change_s: float = 0.5
    quiet_s: float = 0.2
    limit_s: float = 5.0
    any_change: bool = False

    def shortened(self) -> SettleRules:
        """Return shorter rules for a screen that the caller continues to watch.

        Of 150 frames these rules missed the end of 39; the watch missed none.
        """
        return replace(self, first_change_s=0.6 * self.first_change_s, quiet_s=0.5 * self.quiet_s)


@dataclass(frozen=True)
class ActionWindow:
    """The moments when the last action began and ended, on the monotonic clock.

    `clicked` is the pixel that it clicked. `entered` is set if its last key is Enter, which sends a line of text or
    presses a default button.
    """

    began_s: float
    ended_s: float
    clicked: tuple[int, int] | None = None
    entered: bool = False


@dataclass(frozen=True)
class SettleDecision:
    """The reason why the screen counts as settled, from `at_s` on unless it changes before."""

    reason: SettledReason
    at_s: float


def decide(activity: Activity, mark: ActionWindow, rules: SettleRules, now_s: float) -> SettleDecision:
    """Return the decision for a screen that changes no more."""
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
    """Return the tiles that only show the action itself, such as a pressed button or typed text."""
    if mark.entered:
        return activity.line_since(mark.began_s, except_tiles=moving)
    return activity.around(mark.clicked)
