"""What replays save against the runs that were recorded: measured figures only."""

from __future__ import annotations

import pytest

from pytest_vnc_use.recordings.format import Live
from pytest_vnc_use.recordings.record import Meter, saved_by
from pytest_vnc_use.types import ModelExchange, Usage


def call(dollars: float | None, *, tokens: int = 9, uncounted: bool = False) -> ModelExchange:
    return ModelExchange("planner", 1, {}, {}, 1.0, usage=Usage(tokens), dollars=dollars, uncounted=uncounted)


def metered(*calls: ModelExchange) -> Meter:
    meter = Meter()
    for each in calls:
        meter.add(each)
    meter.seconds = 2.04
    return meter


def test_dollars_need_every_call_counted() -> None:
    assert metered(call(0.1), call(0.2)).live() == Live(seconds=2.0, dollars=0.3)
    assert metered(call(0.1), call(None, tokens=0)).live() == Live(seconds=2.0, dollars=0.1)
    for meter in metered(), metered(call(None), call(0.1)), metered(call(0.1), call(0.1, uncounted=True)):
        assert meter.live() == Live(seconds=2.0)


def test_savings_exclude_replay_and_need_all_figures() -> None:
    known = (Live(seconds=20, dollars=0.5), metered(call(0.1)))
    assert saved_by([known, (Live(seconds=10, dollars=1), metered())]) == (pytest.approx(25.92), pytest.approx(1.4))
    assert saved_by([known, (Live(seconds=2.04), metered())]) == (pytest.approx(17.96), None)
    assert saved_by([]) is saved_by([known, (None, metered())]) is None
