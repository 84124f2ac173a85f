"""What goes wrong with a model's service: what is asked again, what is not, what it costs in time, what it leaks."""

from __future__ import annotations

import dataclasses
import time
import traceback
from typing import Any

import pytest

from pytest_vnc_use.errors import AnswerRefused, KeyMissing, KeyRejected, ModelUnavailable, PlannerError, QuotaExhausted
from pytest_vnc_use.planners.anthropic import AnthropicComputer, AnthropicJudge
from pytest_vnc_use.planners.common.http import Backoff
from pytest_vnc_use.planners.gemini.planner import GeminiComputerUse, GeminiJudge
from pytest_vnc_use.planners.openai import OpenAIComputer, OpenAIJudge
from support import gemini_server as gemini, messages_server, responses_server
from support.chat_server import said
from support.json_server import Reply
from support.messages_server import message
from support.players import PLAYERS, QUICK
from support.responses_server import computer_call, response, thought

KEY = "sk-a-secret-key"
PROVIDERS = {name.removeprefix("openai-compatible, "): player for name, player in PLAYERS.items()}
GEMINI = PROVIDERS["gemini"]
CLICKED = {"type": "click", "button": "left", "x": 720, "y": 450}
GEMINIS = {"functionCall": {"name": "click", "args": {"x": 500, "y": 500}}, "thoughtSignature": "AAEC"}
USE = {"type": "tool_use", "id": "toolu_1", "name": "left_click", "toolset_name": "computer", "input": {}}
AGAIN: dict[str, list[Reply]] = {
    "gemini": [
        gemini.rate_limited(0.05),
        gemini.not_json(),
        gemini.empty(),
        gemini.stopped("A_REASON_OF_NEXT_YEAR"),
        gemini.candidate([{"text": "cut off in the mid"}], "MAX_TOKENS"),
        *[gemini.candidate([GEMINIS], reason) for reason in ("UNEXPECTED_TOOL_CALL", "OTHER")],
        gemini.candidate([{"text": "half a character: \ud83d"}]),
        gemini.Reply({"candidates": [{"finishReason": "STOP", "content": "It is open."}]}),
    ],
    "anthropic": [
        messages_server.overloaded(),
        Reply({"content": "It is open.", "stop_reason": "end_turn"}),
        message([USE], "max_tokens"),
        message([{"type": "text", "text": "…"}], "pause_turn"),
        message([USE, USE], "tool_use"),
    ],
    "openai": [
        response(responses_server.said("cut"), status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
        response(status="failed", error={"code": "server_error", "message": "It failed."}),
        response(computer_call(CLICKED), thought()),
        response({**computer_call(CLICKED), "call_id": "1"}, {**computer_call(CLICKED), "call_id": "1"}),
    ],
    "commands": [
        said("I will", finish_reason="error"),  # OpenRouter
        said("", finish_reason="abort"),  # vLLM
        Reply({"choices": [{"finish_reason": "stop"}]}),
    ],
}


@pytest.mark.parametrize(
    ("name", "failure"), [(name, failure) for name, failures in AGAIN.items() for failure in failures]
)
def test_decide_passing_failure_asks_again(name: str, failure: Reply) -> None:
    provider = PROVIDERS[name]
    settings = {"detect_prompt_injection": False} if name == "gemini" else {}
    with provider.talk([failure, failure, provider.click()], **settings) as talk:
        assert talk.decide().kind == "act"
        told = [(each.attempt, bool(each.error), each.retry_in_s is not None) for each in talk.exchanges]
        assert told == [(1, True, True), (2, True, True), (3, False, False)]


REFUSAL = {**responses_server.said(""), "content": [{"type": "refusal", "refusal": "Not this."}]}
FILTERED = response(status="incomplete", incomplete_details={"reason": "content_filter"})
LASTING: list[tuple[str, Reply, type[Exception], str]] = [
    ("gemini", gemini.daily_quota(), QuotaExhausted, "the daily quota is used up"),
    ("gemini", gemini.error(400, "INVALID_ARGUMENT", "Bad shape."), PlannerError, "refused the request: 400 .*Bad"),
    ("gemini", gemini.blocked_prompt("A_REASON_OF_NEXT_YEAR"), AnswerRefused, "blocked the prompt: A_REASON_OF_NEXT_Y"),
    ("gemini", gemini.candidate([{"text": "half of it"}], "SAFETY"), AnswerRefused, "blocked the answer: SAFETY"),
    ("anthropic", messages_server.refused("cyber", "Not this."), AnswerRefused, "refused to answer: cyber: Not this."),
    ("anthropic", message([], "model_context_window_exceeded"), PlannerError, "longer than the model's context"),
    ("openai", response(REFUSAL), AnswerRefused, "the model refused to answer: Not this."),
    ("openai", FILTERED, AnswerRefused, "blocked the answer: content_filter"),
    ("commands", said(None, refusal="I cannot."), AnswerRefused, "the model's service refused: I cannot"),
]
REPEATED: list[tuple[str, Reply, type[Exception], str]] = [
    ("gemini", gemini.overloaded(), ModelUnavailable, "503 UNAVAILABLE: The model is overloaded"),
    ("commands", said("I will", finish_reason="error"), ModelUnavailable, "finish_reason 'error', after 'I will'"),
    ("commands", Reply({"code": 1305, "msg": "Too many."}), ModelUnavailable, "no choice with a message: .*Too many"),
]


@pytest.mark.parametrize(("row", "requests"), [*((row, 1) for row in LASTING), *((row, 5) for row in REPEATED)])
def test_decide_failing_service_raises_after_requests(
    row: tuple[str, Reply, type[Exception], str], requests: int
) -> None:
    name, failure, error, problem = row
    settings = {"detect_prompt_injection": False} if name == "gemini" else {}
    with PROVIDERS[name].talk(lambda request: failure, **settings) as talk:
        with pytest.raises(error, match=problem):
            talk.decide()
        assert len(talk.server.requests) == requests
        assert talk.exchanges[-1].retry_in_s is None


@pytest.mark.parametrize(
    ("answer", "requests"),
    [(gemini.stopped("OTHER"), 1), (gemini.candidate([GEMINIS], "OTHER"), 1), (gemini.empty(), 5)],
)
def test_decide_withheld_answer_with_detection_is_refused(answer: Reply, requests: int) -> None:
    with GEMINI.talk(lambda request: answer, detect_prompt_injection=True) as talk:
        with pytest.raises(AnswerRefused, match="withheld its answer, as on a prompt injection: "):
            talk.decide()
        assert len(talk.server.requests) == requests


def test_decide_waits_as_service_asks_within_its_time() -> None:
    with GEMINI.talk([gemini.rate_limited(0.4), GEMINI.click(), gemini.rate_limited(37)]) as talk:
        started = time.monotonic()
        talk.decide()
        assert time.monotonic() - started >= 0.4
        assert talk.exchanges[0].retry_in_s == 0.4
        with pytest.raises(QuotaExhausted, match="asks to wait 37 s"):
            talk.decide(timeout_s=5.0)
        assert time.monotonic() - started < 30.0


def test_decide_hanging_attempt_leaves_time_for_another() -> None:
    with GEMINI.talk([gemini.hang(), GEMINI.click()], backoff=dataclasses.replace(QUICK, each_s=0.4)) as talk:
        assert talk.decide(timeout_s=20.0).kind == "act"
        assert "did not answer within 0.4 s" in talk.exchanges[0].error


def test_backoff_waits_double_up_to_limit() -> None:
    waits = [Backoff(first_wait_s=1.0, max_wait_s=5.0).wait_s(attempt) for attempt in (1, 2, 3, 4)]
    assert all(nominal <= wait <= nominal * 1.25 for nominal, wait in zip((1, 2, 4, 5), waits, strict=True))


@pytest.mark.parametrize(("answer", "uncounted"), [(gemini.not_json(), True), (gemini.overloaded(), False)])
def test_exchange_without_tokens_is_uncounted_unless_error(answer: Reply, uncounted: bool) -> None:
    with GEMINI.talk([answer, gemini.text("It is open."), gemini.text("It is open.")]) as talk:
        talk.decide()
        assert talk.exchanges[0].uncounted == uncounted


@pytest.mark.parametrize(
    ("name", "planner", "judge", "variables", "url"),
    [
        ("gemini", GeminiComputerUse, GeminiJudge, ("GOOGLE_API_KEY", "GEMINI_API_KEY"), "GOOGLE_GEMINI_BASE_URL"),
        ("anthropic", AnthropicComputer, AnthropicJudge, ("ANTHROPIC_API_KEY",), "ANTHROPIC_BASE_URL"),
        ("openai", OpenAIComputer, OpenAIJudge, ("OPENAI_API_KEY",), "OPENAI_BASE_URL"),
    ],
)
def test_key_and_url_come_from_environment(
    name: str, planner: Any, judge: Any, variables: tuple[str, ...], url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("GOOGLE_API_KEY", "GEMINI_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(variable, "another key")
    for variable in variables:
        monkeypatch.delenv(variable)
    for asker in (planner, judge):
        with pytest.raises(KeyMissing, match=rf"Set {variables[0]}\. In Python a planner or judge also takes api_key="):
            asker()
        with pytest.raises(KeyRejected, match="printable ASCII"):
            asker(api_key="schlüssel")
    with PROVIDERS[name].talk([PROVIDERS[name].click()]) as talk:
        monkeypatch.setenv(variables[-1], talk.server.api_key)
        monkeypatch.setenv(url, f"{talk.server.url}/")
        assert planner().decide(talk.history.observation(), timeout_s=20.0).kind == "act"


@pytest.mark.parametrize("name", PROVIDERS)
def test_refused_key_is_renewed_once(name: str) -> None:
    """A function that gives keys, such as that of a key command, is asked for another one."""
    asked: list[str] = []

    def key(refused: str) -> str:
        asked.append(refused)
        return KEY if refused == "sk-an-old-key" else "sk-an-old-key"

    provider = PROVIDERS[name]
    with provider.talk([provider.click()] * 2, api_key=key) as talk:
        talk.server.api_key, talk.is_refused = KEY, True
        assert [talk.decide().kind, talk.decide().kind] == ["act", "act"]
        errors = [exchange.error[:38] for exchange in talk.exchanges]
        assert errors == ["the API key is missing or was refused:", "", ""]
        assert asked == ["", "sk-an-old-key"]
        assert not any(each in repr(talk.exchanges) for each in (KEY, "sk-an-old"))
        talk.server.api_key = "sk-another"
        with pytest.raises(KeyRejected):
            talk.decide()
    assert asked == ["", "sk-an-old-key", KEY]


@pytest.mark.parametrize("answer", [gemini.daily_quota(), gemini.not_json()])
def test_no_frame_of_traceback_holds_key(answer: Reply) -> None:
    """As `pytest --tb=long --showlocals` would print it."""
    with GEMINI.talk(lambda request: answer) as talk, pytest.raises(PlannerError) as caught:
        talk.decide(timeout_s=0.5)
    error: BaseException | None = caught.value
    while error is not None:
        for frame, _ in traceback.walk_tb(error.__traceback__):
            if frame.f_code.co_filename != __file__ and "players" not in frame.f_code.co_filename:
                assert gemini.API_KEY not in repr(frame.f_locals)
        error = error.__cause__ or error.__context__
