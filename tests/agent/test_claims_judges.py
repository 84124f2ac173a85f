"""What becomes of a claim before judges of every kind, in Gemini's wire format: right, wrong at times, split, slow …"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from pytest_vnc_use import VncUseAgent
from pytest_vnc_use.errors import InfraError, ModelUnavailable, ProductFailed
from pytest_vnc_use.planners.common.http import Backoff
from pytest_vnc_use.planners.gemini.planner import GeminiJudge
from support import gemini_server
from support.gemini_server import GeminiServer, Reply
from support.judges import agent_before

QUICK = Backoff(attempts=2, first_wait_s=0.01)
CLAIM = "the basket shows 2 apples"


def says(verdict: str) -> Reply:
    return gemini_server.text(json.dumps({"reason": f"I see that it {verdict}", "verdict": verdict, "box_2d": None}))


@pytest.fixture
def before(tmp_path: Path) -> Iterator[Callable[..., tuple[GeminiServer, VncUseAgent]]]:
    """An agent whose claims go to a judge that answers so."""
    with ExitStack() as servers:

        def convene(script: Any, **settings: Any) -> tuple[GeminiServer, VncUseAgent]:
            server = servers.enter_context(GeminiServer(script))
            judge = GeminiJudge(
                api_key=server.api_key, base_url=server.url, backoff=Backoff(attempts=2, first_wait_s=0.01)
            )
            return server, agent_before(judge, tmp_path, **settings)

        yield convene


@pytest.mark.slow
def test_judge_wrong_one_time_in_eight_is_outvoted(before: Any) -> None:
    answers = ["holds"] * 3 + ["fails"] + ["holds"] * 4
    server, agent = before(map(says, itertools.cycle(answers)))
    assert [bool(agent.assess(CLAIM, votes=1)) for _ in range(8)].count(False) == 1
    assert all(agent.assess(CLAIM, votes=3) for _ in range(16))
    asked_thrice = sum(len(verdict.votes) == 3 for verdict in agent.verdicts[8:])
    assert 0 < asked_thrice == len(server.requests) - 8 - 2 * 16


def test_malformed_answer_is_vote_for_nothing(before: Any) -> None:
    malformed = [gemini_server.text("It holds, I think."), gemini_server.text('{"verdict": "holds"}')]
    server, agent = before([*malformed, says("holds"), says("holds")])
    verdict = agent.assess(CLAIM, votes=3)
    assert verdict.votes == ("unsure", "holds", "holds")
    assert len(server.requests) == 4
    assert verdict.usage.input == 4 * gemini_server.USAGE["promptTokenCount"]


@pytest.mark.slow
def test_judge_slow_is_outage_once_time_is_up(before: Any) -> None:
    _, agent = before([says("holds"), gemini_server.hang(60.0)], max_seconds=2.0)
    with pytest.raises(ModelUnavailable, match="did not answer within"):
        agent.assess(CLAIM, votes=3)
    assert agent.verdicts == []


DOWN = [
    gemini_server.overloaded(),
    gemini_server.html_502(),
    gemini_server.not_json(),
    gemini_server.blocked_prompt(),
    gemini_server.error(403, "PERMISSION_DENIED", "no"),
]


@pytest.mark.parametrize("reply", DOWN, ids=lambda reply: str(reply.status))
def test_judge_down_reads_as_neither_success_nor_failure(before: Any, reply: Reply) -> None:
    _, agent = before(itertools.repeat(reply))
    for ask in (agent.verify, agent.saw, agent.check):
        with pytest.raises(InfraError):
            ask(CLAIM)
    assert (agent.verdicts, agent.unmet()) == ([], None)


def test_judge_that_goes_down_after_failed_check_leaves_check_failed(before: Any) -> None:
    _, agent = before([says("fails"), gemini_server.blocked_prompt()])
    assert not agent.check(CLAIM)
    with pytest.raises(InfraError):
        agent.check("the basket is open")
    assert isinstance(agent.unmet(), ProductFailed)
