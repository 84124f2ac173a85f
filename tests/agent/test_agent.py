"""`VncUseAgent` as a Python programmer has it: a real Qt program over VNC, the model's fake server over HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_vnc_use import Outcome, VncUseAgent
from pytest_vnc_use.runs.directory import read_exchanges, read_trace
from support.gemini_server import GeminiServer, Reply, calls, overloaded, text
from support.qt_desktop import QtDesktop

pytestmark = pytest.mark.desktop

CLICK = ("click", {"x": 500, "y": 500, "intent": "open the basket"})


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., GeminiServer]]:
    """Start a fake server that answers with these replies; the environment leads to it. Runs go to a tmp_path."""
    servers: list[GeminiServer] = []

    def start(*replies: Reply) -> GeminiServer:
        server = GeminiServer(replies).__enter__()
        servers.append(server)
        monkeypatch.setenv("GOOGLE_API_KEY", server.api_key)
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
        return server

    monkeypatch.chdir(tmp_path)
    yield start
    for server in servers:
        server.__exit__()


def test_task_is_carried_out_and_claim_judged(fresh_pad: QtDesktop, model: Callable[..., GeminiServer]) -> None:
    holds = text(json.dumps({"reason": "it is written there", "verdict": "holds", "box_2d": [0, 0, 500, 500]}))
    server = model(overloaded(), calls(CLICK, ("type", {"text": "apples"})), text("done so"), holds)
    with VncUseAgent(fresh_pad.server) as agent:
        result = agent.run("Buy apples")
        assert (result.outcome, result.message) == (Outcome.DONE, "done so")
        assert "press 720 450 left" in fresh_pad.read_file("events.txt")
        assert "open the basket" in result.transcript
        exchanges = list(read_exchanges(result.run_dir))
        verdict = agent.assess("apples are shown")
    assert verdict
    assert verdict.region is not None
    assert (verdict.region.right, verdict.region.bottom) == (720, 450)
    assert read_trace(result.run_dir).verdicts == (verdict,)
    assert [(exchange.attempt, bool(exchange.error)) for exchange in exchanges] == [(1, True), (2, False), (1, False)]
    assert "sha256:" in json.dumps(exchanges[0].request)
    written = (result.run_dir / "exchanges.jsonl").read_text(encoding="utf-8")
    assert server.api_key not in written
    assert "iVBOR" not in written


def test_hands_answer_with_what_is_then_on_screen(fresh_pad: QtDesktop, tmp_path: Path) -> None:
    with VncUseAgent(fresh_pad.server) as agent:
        before = agent.screenshot()
        after = agent.click(100, 100, count=2)
        agent.type_text("é!")
        assert after.png != before
    events = fresh_pad.read_file("events.txt").splitlines()
    assert events[:2] == ["press 100 100 left", "release 100 100 left"]
    assert events[2] in ("double 100 100 left", "press 100 100 left")  # the second if the machine has much else to do
    assert events[-2:] == ["text é", "text !"]
