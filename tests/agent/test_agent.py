"""`VncUseAgent` as a Python programmer has it: a real Qt program over VNC, the model's fake server over HTTP."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_vnc_use import Outcome, VncUseAgent
from pytest_vnc_use.runs.directory import read_exchanges, read_trace
from support.gemini_server import GeminiServer, calls, overloaded, text
from support.qt_desktop import QtDesktop

pytestmark = pytest.mark.desktop

CLICK = ("click", {"x": 500, "y": 500, "intent": "open the basket"})


def test_task_is_carried_out_and_claim_judged(
    fresh_pad: QtDesktop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    holds = text(json.dumps({"reason": "it is written there", "verdict": "holds", "box_2d": [0, 0, 500, 500]}))
    answers = [overloaded(), calls(CLICK, ("type", {"text": "apples é!"})), text("done so"), holds]
    monkeypatch.chdir(tmp_path)
    with GeminiServer(answers) as server:
        monkeypatch.setenv("GOOGLE_API_KEY", server.api_key)
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
        agent = VncUseAgent(fresh_pad.server)
        result = agent.run("Buy apples")
        assert (result.outcome, result.message) == (Outcome.DONE, "done so")
        events = fresh_pad.read_file("events.txt").splitlines()
        assert ("press 720 450 left" in events, events[-2:]) == (True, ["text é", "text !"])
        assert "open the basket" in result.transcript
        exchanges = list(read_exchanges(result.run_dir))
        verdict = agent.assess("apples are shown")
        before = agent.screenshot()
        assert agent.click(100, 100).png != before
        agent.close()
    assert verdict
    assert verdict.region is not None
    assert (verdict.region.right, verdict.region.bottom) == (720, 450)
    assert read_trace(result.run_dir).verdicts == (verdict,)
    assert [(exchange.attempt, bool(exchange.error)) for exchange in exchanges] == [(1, True), (2, False), (1, False)]
    assert "sha256:" in json.dumps(exchanges[0].request)
    written = (result.run_dir / "exchanges.jsonl").read_text(encoding="utf-8")
    assert server.api_key not in written
    assert "iVBOR" not in written
