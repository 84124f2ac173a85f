"""When a screen counts as settled after an action: the rules, and the judgement as a pure function of what was seen."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_vnc_use.backends.activity import Activity
from pytest_vnc_use.types import SettledReason


@dataclass(frozen=True)
class SettleRules:
    """How long to wait for the screen, in seconds; the defaults captured the right frame 150 times in 150.

    A first change is awaited until `first_change_s` after the action began, then `quiet_s` without another one. A tile
    that changed `animated_updates` times over `animated_span_s` since the action ended is animated and left out.
    `limit_s` bounds the whole wait.
    """

    first_change_s: float = 0.5
    quiet_s: float = 0.2
    animated_updates: int = 6
    animated_span_s: float = 0.25
    limit_s: float = 5.0


@dataclass(frozen=True)
class Mark:
    """When the last action began and ended, on the monotonic clock."""

    began_s: float
    ended_s: float


@dataclass(frozen=True)
class Judgement:
    """Why the screen counts as settled, from `at_s` on unless it changes before."""

    reason: SettledReason
    at_s: float


def judge(activity: Activity, mark: Mark, rules: SettleRules) -> Judgement:
    """What to make of a screen that changes no more."""
    animated = activity.animated(rules.animated_updates, rules.animated_span_s)
    last_change_s = activity.last_change_s(except_tiles=animated)
    reason: SettledReason = "animated" if animated.any() else "settled"
    if last_change_s >= mark.began_s:
        return Judgement(reason, max(last_change_s, mark.ended_s) + rules.quiet_s)
    if not animated.any():
        reason = "nothing_changed"
    return Judgement(reason, max(mark.began_s + rules.first_change_s, mark.ended_s + rules.quiet_s))
