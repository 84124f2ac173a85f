"""What a planner that continues after a replay sees."""

from __future__ import annotations

from typing import Any

from pytest_vnc_use.runs.transcript import REPLAYED, seen_by_live
from pytest_vnc_use.types import NO_FRAME, Decision, Observation, Turn


def observed(*details: dict[str, Any]) -> Observation:
    turns = tuple(Turn(Decision("act", provider_details=each)) for each in details)
    return Observation("pay", NO_FRAME, NO_FRAME, turns, lambda _: b"")


def test_only_turns_before_its_own_were_replayed() -> None:
    seen = seen_by_live(observed({REPLAYED: True}, {REPLAYED: True}, {}, {REPLAYED: True}))
    assert [turn.decision.provider_details for turn in seen.turns] == [{}, {REPLAYED: True}]


def test_words_of_planner_are_its_own() -> None:
    """Such as those of one with a cache."""
    observation = observed({"replayed": 0}, {"replayed": 1})
    assert seen_by_live(observation) is observation
