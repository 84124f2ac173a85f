"""The judge: what it asks, how its answers are read, and that what it cannot say is unsure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from pytest_vnc_use.errors import AnswerRefused, KeyRejected, PlannerError
from pytest_vnc_use.planners.gemini.planner import GeminiJudge
from pytest_vnc_use.types import Frame, ModelExchange, Region, Verdict, report_to_nobody
from support import gemini_server as gemini
from support.exchanges import into
from support.gemini_conversations import QUICK, frame_of
from support.gemini_rules import COMPUTER_USE_ONLY
from support.gemini_server import GeminiServer

CLAIM = "The basket shows 2 apples."
HOLDS = {"reason": "The row says 2 apples.", "verdict": "holds", "box_2d": [0, 250, 500, 750]}


@pytest.fixture
def frame() -> Frame:
    return frame_of(7)


@pytest.fixture
def court(frame: Frame) -> Iterator[Callable[..., tuple[GeminiServer, Callable[..., Verdict]]]]:
    """A server with these replies, and the question put to a judge that asks it."""
    with ExitStack() as servers:

        def convene(*replies: Any, **settings: Any) -> tuple[GeminiServer, Callable[..., Verdict]]:
            server = servers.enter_context(GeminiServer(replies))
            judge = GeminiJudge(**{"api_key": server.api_key, "base_url": server.url, "backoff": QUICK, **settings})
            return server, lambda report=report_to_nobody: judge.judge(CLAIM, frame, timeout_s=20.0, report=report)

        yield convene


def answer(**changes: Any) -> gemini.Reply:
    return gemini.text(json.dumps({**HOLDS, **changes}))


def test_a_claim_that_holds(court: Any, frame: Frame) -> None:
    exchanges: list[ModelExchange] = []
    server, ask = court(answer())
    verdict = ask(into(exchanges))
    assert verdict
    assert (verdict.claim, verdict.reason, verdict.frame) == (CLAIM, "The row says 2 apples.", frame.ref)
    assert verdict.region == Region(360, 0, 1080, 450)
    assert (verdict.model, verdict.usage.input) == ("gemini-3.8-flash-001", 1500)
    assert [exchange.purpose for exchange in exchanges] == ["judge"]
    [request] = server.requests
    assert "tools" not in request.body
    assert request.images == (frame.png,)
    assert CLAIM in request.contents[0]["parts"][0]["text"]
    generation = request.body["generationConfig"]
    assert generation["responseMimeType"] == "application/json"
    assert list(generation["responseJsonSchema"]["properties"]) == ["reason", "verdict", "box_2d"]


@pytest.mark.parametrize("kind", ["fails", "unsure"])
def test_only_holds_passes(court: Any, kind: str) -> None:
    _, ask = court(answer(verdict=kind))
    verdict = ask()
    assert (verdict.kind, verdict.holds) == (kind, False)


@pytest.mark.parametrize(
    ("box", "region"),
    [
        (None, None),
        ([0, 0, 1000, 1000], Region(0, 0, 1440, 900)),
        ([-5, 0, 2000, 500], Region(0, 0, 720, 900)),
        ([500, 500, 500, 500], None),
        ([900, 900, 100, 100], None),
    ],
)
def test_regions_are_pixels_inside_the_screen(court: Any, box: Any, region: Region | None) -> None:
    _, ask = court(answer(box_2d=box))
    assert ask().region == region


UNREADABLE = [
    "It holds, I think.",
    '{"reason": "cut o',
    '{"verdict": "holds"}',
    '{"reason": "", "verdict": "holds"}',
    '{"reason": "Yes.", "verdict": "yes"}',
    '{"reason": "Yes.", "verdict": "holds", "box_2d": [1, 2]}',
    '{"reason": "Yes.", "verdict": "holds", "box_2d": [0, 0, NaN, 9]}',
]


@pytest.mark.parametrize("words", UNREADABLE)
def test_an_unreadable_answer_is_asked_for_again_once(court: Any, words: str) -> None:
    server, ask = court(gemini.text(words), answer())
    verdict = ask()
    assert verdict
    assert verdict.usage.input == 3000
    assert len(server.requests) == 2


@pytest.mark.parametrize("words", UNREADABLE)
def test_two_unreadable_answers_are_unsure(court: Any, words: str) -> None:
    server, ask = court(gemini.text(words), gemini.text(words), answer())
    verdict = ask()
    assert verdict.kind == "unsure"
    assert "not the JSON that was asked for" in verdict.reason
    assert len(server.requests) == 2


def test_a_judge_that_cannot_be_asked_is_an_error_and_no_verdict(court: Any) -> None:
    _, ask = court(gemini.blocked_prompt())
    with pytest.raises(AnswerRefused):
        ask()
    _, ask = court(model=COMPUTER_USE_ONLY)
    with pytest.raises(PlannerError, match="requires the use of the Computer Use tool"):
        ask()
    _, ask = court(answer(), api_key="another key")
    with pytest.raises(KeyRejected):
        ask()
