"""`VncUseAgent` as a Python programmer has it: a real Qt program over VNC, the model's fake server over HTTP."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_vnc_use import Outcome, VncUseAgent
from pytest_vnc_use.runs.directory import read_exchanges, read_trace
from support.gemini_server import GeminiServer, Reply, calls, overloaded, text, wants_confirmation
from support.qt_desktop import QtDesktop

pytestmark = pytest.mark.desktop

CLICK = ("click", {"x": 500, "y": 500, "intent": "open the basket"})
RISKY = calls(("click", wants_confirmation({"x": 250, "y": 250}, "this buys two apples")), CLICK)


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


def presses(fresh_pad: QtDesktop) -> list[str]:
    return [line for line in fresh_pad.read_file("events.txt").splitlines() if line.startswith("press")]


def test_task_is_carried_out_and_claim_judged(fresh_pad: QtDesktop, model: Callable[..., GeminiServer]) -> None:
    holds = text(json.dumps({"reason": "it is written there", "verdict": "holds", "box_2d": [0, 0, 500, 500]}))
    model(calls(CLICK, ("type", {"text": "apples"})), text("done so"), holds)
    with VncUseAgent(fresh_pad.server) as agent:
        result = agent.run("Buy apples")
        assert (result.outcome, result.message) == (Outcome.DONE, "done so")
        assert presses(fresh_pad) == ["press 720 450 left"]
        assert "open the basket" in result.transcript
        verdict = agent.assess("apples are shown")
    assert verdict
    assert verdict.region is not None
    assert (verdict.region.right, verdict.region.bottom) == (720, 450)
    assert read_trace(result.run_dir).verdicts == (verdict,)


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


def test_each_attempt_at_model_is_in_run_dir(fresh_pad: QtDesktop, model: Callable[..., GeminiServer]) -> None:
    server = model(overloaded(), calls(CLICK), text("done"))
    with VncUseAgent(fresh_pad.server) as agent:
        result = agent.run("Buy apples")
    exchanges = list(read_exchanges(result.run_dir))
    assert [(exchange.attempt, bool(exchange.error)) for exchange in exchanges] == [(1, True), (2, False), (1, False)]
    assert "sha256:" in json.dumps(exchanges[0].request)
    written = (result.run_dir / "exchanges.jsonl").read_text(encoding="utf-8")
    assert server.api_key not in written
    assert "iVBOR" not in written


@pytest.mark.slow
def test_approval_from_another_process_after_first_has_died(
    fresh_pad: QtDesktop, model: Callable[..., GeminiServer]
) -> None:
    server = model(RISKY, text("bought"))
    program = "import sys; from pytest_vnc_use import VncUseAgent; agent = VncUseAgent(sys.argv[1]); "
    first = python(program + "print(agent.run('Buy', run_id='r1').outcome)", fresh_pad.server)
    assert first.stdout == "waiting_for_approval\n", first.stderr
    assert presses(fresh_pad) == []
    second = python(program + "print(agent.approve('r1').outcome)", fresh_pad.server)
    assert second.stdout == "done\n", second.stderr
    assert presses(fresh_pad) == ["press 360 225 left", "press 720 450 left"]
    assert server.refusals == []


def python(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
