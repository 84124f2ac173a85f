"""A key that a command prints: fetched once, sent to the planner's service only, and never shown."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest

from pytest_vnc_use.agent.build import ambient_secrets, build_judge, build_planner
from pytest_vnc_use.errors import KeyMissing, SettingsError
from pytest_vnc_use.settings.settings import Settings
from support.chat_server import ChatServer, call, said
from support.players import History, Talk, frame_of


def python(code: str) -> str:
    """Return a command that runs Python code."""
    return shlex.join([sys.executable, "-S", "-c", code])


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (python("print('secret-1'); raise SystemExit(3)"), "its exit code was 3"),
        (python("print('secret-1 and words')"), "its output must be one word"),
        (python("pass"), "it printed nothing"),
        ("'unclosed", "No closing quotation"),
        ("/no/such/program", "No such file"),
        (python("import time; print('secret-1', flush=True); time.sleep(60)"), "it did not end within 2 s"),
    ],
)
def test_failure_is_one_error_without_output(command: str, problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_vnc_use.agent.build.KEY_COMMAND_S", 2.0)
    with pytest.raises(SettingsError, match=problem) as failed:
        build_planner(Settings(planner="gemini", api_key_command=command))
    assert "secret-1" not in str(failed.value).replace(repr(command), "")


def test_judge_of_another_service_does_not_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(KeyMissing):
        build_judge(Settings(planner="gemini", judge="anthropic", api_key_command=python("print('fetched-key')")))


def test_refused_key_is_fetched_again_for_planner_and_judge(tmp_path: Path) -> None:
    counted = tmp_path / "runs"
    command = python(
        f"file = open({str(counted)!r}, 'a'); file.write('x'); print(['old-key', 'new-key'][min(file.tell(), 2) - 1])"
    )
    with ChatServer(
        [call("wait"), said('{"reason": "So.", "verdict": "holds", "box_2d": null}')], api_key="new-key"
    ) as server:
        settings = Settings(planner="openai", base_url=server.url, model="some-model", api_key_command=command)
        planner, judge = build_planner(settings), build_judge(settings)
        assert Talk(server, planner, history=History()).decide().kind == "act"
        assert judge.judge("It is so.", frame_of(1), timeout_s=20.0)
        assert counted.read_text() == "xx"
        assert build_planner(settings)
    assert counted.read_text() == "xx", "once fetched, it is kept"
    assert "new-key" not in os.environ.values()
    assert "new-key" in ambient_secrets(settings).values()
