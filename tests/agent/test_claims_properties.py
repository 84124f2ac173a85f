"""Whatever judges say, in whatever order: a test with an unmet claim never passes, and an outage is no verdict."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from pytest_vnc_use import VncUseAgent
from pytest_vnc_use.errors import Inconclusive, InfraError, ProductFailed, TaskFailed
from pytest_vnc_use.plugin.markers import TaskSpec
from pytest_vnc_use.plugin.runtest import run_tasks, soft_checks
from support.judges import OUTAGE, ListJudge, agent_before

CLAIM = "the basket shows 2 apples"
ABSENT = "an error is shown"
MET = ("holds", "fails")
KINDS = ("holds", "fails", "unsure")
WAYS = ("assert", "assert not", "check", "expect", "end state", "saw")
ANSWER = st.sampled_from([*KINDS, OUTAGE])
UNHURRIED = settings(deadline=None, database=None, max_examples=80)


def lost(said: Sequence[str]) -> bool:
    return OUTAGE in said


def carried_out(agent: VncUseAgent, ways: Sequence[str]) -> None:
    """A test that puts a claim in these ways, one after the other, and ends as the plugin ends it."""
    with soft_checks(agent, lambda text: None):
        for way in ways:
            match way:
                case "assert":
                    agent.verify(CLAIM)
                case "assert not":
                    assert not agent.assess(ABSENT)
                case "check":
                    agent.check(CLAIM)
                case "expect":
                    run_tasks(agent, [TaskSpec("Buy apples", (CLAIM,))])
                case "end state":
                    run_tasks(agent, [TaskSpec("Buy apples")])
                case "saw":
                    agent.saw(CLAIM)


@pytest.mark.slow
@UNHURRIED
@given(ways=st.lists(st.sampled_from(WAYS), min_size=1, max_size=6), said=st.lists(ANSWER, min_size=30, max_size=30))
def test_test_with_unmet_claim_never_passes(ways: list[str], said: list[str]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        judge = ListJudge(said)
        agent = agent_before(judge, Path(directory), test_id="test_it")
        try:
            carried_out(agent, ways)
        except (AssertionError, TaskFailed, InfraError) as exc:
            error: Exception | None = exc
        else:
            error = None
    asked = said[: len(judge.asked)]
    unmet = [verdict for verdict in agent.verdicts if verdict.kind != MET[verdict.claim == ABSENT]]
    assert isinstance(error, InfraError) == lost(asked)
    assert (error is not None) == (bool(unmet) or lost(asked))
    if error is None:
        assert len(agent.verdicts) == len(ways)
    if isinstance(error, ProductFailed):
        assert "fails" in [verdict.kind for verdict in unmet]
    if isinstance(error, Inconclusive):
        assert "unsure" in [verdict.kind for verdict in unmet]


@pytest.mark.parametrize("way", WAYS)
def test_outage_at_any_point_is_neither_success_nor_product(way: str, tmp_path: Path) -> None:
    agent = agent_before(ListJudge([OUTAGE]), tmp_path, test_id="test_it")
    with pytest.raises(InfraError):
        carried_out(agent, [way])
    assert agent.verdicts == []
