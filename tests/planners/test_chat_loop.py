"""The planner for chat completions inside the real loop: batches broken off, nonsense counted, nothing that escapes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pytest_vnc_use import RunResult, VncUseAgent
from pytest_vnc_use.planners.chat.planner import OpenAICompatible
from pytest_vnc_use.runs.directory import read_exchanges, read_trace
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import Click, KeyCombo, Outcome
from support.chat_server import MODEL, ChatRequest, ChatServer, call, error, said
from support.gemini_conversations import QUICK
from support.json_server import Reply
from support.memory_desktop import PaintedController

DONE = call("task_complete", summary="It is open.")


def run(tmp_path: Path, server: ChatServer, controller: PaintedController, **options: Any) -> RunResult:
    planner = OpenAICompatible(server.url, MODEL, backoff=QUICK)
    settings = Settings(runs_dir=str(tmp_path / "runs"))
    return VncUseAgent(settings=settings, controller=controller, planner=planner, **options).run("Open the basket")


def errors_of(result: RunResult) -> Sequence[str]:
    return [step.error for step in result.steps]


def test_batch_is_left_at_its_first_error_and_model_is_told(tmp_path: Path) -> None:
    batch = call(
        "batch",
        actions=[
            {"command": "click", "arguments": {"x": 500, "y": 500}},
            {"command": "press_key", "arguments": {"key": "Ctrl+nosuchkey"}},
            {"command": "type_text", "arguments": {"text": "never"}},
        ],
    )
    controller = PaintedController()
    with ChatServer([batch, call("press_key", key="Ctrl+Shift+P"), DONE]) as server:
        result = run(tmp_path, server, controller)
    assert (result.outcome, result.message) == (Outcome.DONE, "It is open.")
    assert controller.performed == [Click(160, 100), KeyCombo(("Ctrl", "Shift", "P"))]
    halted = "not performed: an earlier action of this turn failed"
    assert errors_of(result) == ["", "unknown key 'nosuchkey'", halted, ""]
    assert [step.turn for step in result.steps] == [1, 1, 1, 2]
    [told] = server.requests[1].of("tool")
    assert told["content"] == f"1. click: ok\n2. press_key: unknown key 'nosuchkey'\n3. type_text: {halted}"
    assert server.refusals == []


ASKS = call("verify", question="The basket is open, and <secret:PIN> is not shown")


def observed(answer: str, reason: str) -> Reply:
    return said(json.dumps({"reason": reason, "value": answer, "box_2d": None}))


def with_observer(tmp_path: Path, server: ChatServer, controller: PaintedController, **settings: Any) -> RunResult:
    fields = {"runs_dir": str(tmp_path / "runs"), "planner": "openai", "base_url": server.url, "model": MODEL}
    agent = VncUseAgent(settings=Settings(**fields, **settings), controller=controller, secrets={"PIN": "4711"})
    return agent.run("Open the basket")


def is_of_judge(request: ChatRequest) -> bool:
    return "tools" not in request.body


def test_model_may_ask_observer_who_sees_only_screen_as_it_is_now(tmp_path: Path) -> None:
    script = [call("click", x=500, y=500), ASKS, observed("no", "It is closed."), DONE]
    controller = PaintedController()
    with ChatServer(script) as server:
        result = with_observer(tmp_path, server, controller)
    assert [(step.output, step.error) for step in result.steps] == [("", ""), ("no: It is closed.", "")]
    [question] = filter(is_of_judge, server.requests)
    assert question.images == (controller.frame().png,)
    assert "<secret:PIN>" in question.texts[1]
    assert not [text for text in question.texts if "Open the basket" in text or "4711" in text]
    assert server.requests[-1].of("tool")[-1]["content"] == "no: It is closed."
    purposes = [exchange.purpose for exchange in read_exchanges(result.run_dir)]
    assert purposes == ["planner", "planner", "judge", "planner"]
    assert (result.outcome, read_trace(result.run_dir).verdicts) == (Outcome.DONE, ())


def test_observer_who_cannot_be_asked_is_told_to_model(tmp_path: Path) -> None:
    def answer(request: ChatRequest) -> Reply:
        if is_of_judge(request):
            return error(401, "invalid_api_key", "Incorrect.")
        return DONE if request.of("tool") else ASKS

    with ChatServer(answer) as server:
        result = with_observer(tmp_path, server, PaintedController())
    [step] = result.steps
    assert (result.outcome, step.error[:27]) == (Outcome.DONE, "verify raised KeyRejected: ")
