"""The line that says where a test is, on an interactive terminal, and nowhere else."""

from __future__ import annotations

from contextlib import closing
from threading import Event

import pytest

from support.forked_python import ForkedPython
from support.gemini_server import GeminiServer, Reply, Request, calls, text
from support.pad_sessions import QUIET
from support.paths import PAD_LINE
from support.terminal import Terminal

TESTS = """
import pytest

def test_first():
    pass

@pytest.mark.vnc_task("Click around", expect=None)
def test_it(vnc_agent):
    print("noise")
    assert vnc_agent.runs
"""


@pytest.mark.desktop
def test_live_line_shows_step_and_is_erased(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_end = Event()

    def answer(request: Request) -> Reply:
        """Click, then think until the event."""
        if len(request.contents) == 1:
            return calls(
                ("click", {"x": 5, "y": 5, "intent": "\x1b]0;no\x07open the basket"})
            )
        may_end.wait(300)
        return text("done")

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("CI", raising=False)
    file = pytester.makepyfile(TESTS)
    options = [
        "--vnc-server=qt",
        f"--vnc-app={PAD_LINE}",
        "--vnc-planner=gemini",
        *QUIET,
        "--disable-warnings",
    ]
    with closing(Terminal(100, 24)) as terminal, GeminiServer(answer) as server:
        monkeypatch.setenv("GOOGLE_API_KEY", server.api_key)
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
        session = ForkedPython("pytest", *options, stdout=terminal.slave)
        try:
            asks = (
                "test_it: step 1 of 40: asks gemini-3.8-flash, last:  ]0;no open the"
                " basket ("
            )
            is_shown = terminal.read_until(
                lambda: any(row.startswith(asks) for row in terminal.rows), 90.0
            )
            assert is_shown, "\n".join(terminal.rows)
            assert terminal.rows[-1].endswith(" cents)")
            assert terminal.rows[-2] == f"{file.name} ."
            may_end.set()
            assert terminal.read_until(
                lambda: any(" passed" in row for row in terminal.rows)
            )
            assert session.wait(90) == 0
        finally:
            session.kill()
        assert any(row.startswith(f"{file.name} ..") for row in terminal.rows)
        assert not any("test_it: step" in row for row in terminal.rows)
