"""The line on a terminal that says where a run is: its text, and that it leaves nothing
behind.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from pytest_vnc_use.plain_text import columns_of
from pytest_vnc_use.runs.progress import LiveLine, can_show
from pytest_vnc_use.runs.redactor import Redactor
from pytest_vnc_use.types import (
    NO_FRAME,
    Click,
    GateAwaited,
    Limits,
    ModelExchange,
    ModelRequest,
    Outcome,
    Proposal,
    Ruling,
    RunEnded,
    RunEvent,
    RunStarted,
    Step,
    StepFinished,
    StepStarted,
    Usage,
)
from support.terminal import Terminal

STARTED = RunStarted(
    "id", "Buy", "now", "gemini (m)", NO_FRAME, limits=Limits(steps=40)
)
ASKED = ModelRequest("planner", "gemini-m", 10, 1, 100)
PROPOSAL = Proposal(Click(1, 2), "open the basket")
RULING = Ruling("allow", "policy")
STEP_STARTED = StepStarted(3, 3, PROPOSAL, RULING)
FINISHED = StepFinished(Step(3, 3, PROPOSAL, RULING, NO_FRAME, NO_FRAME))


def answered(
    dollars: float | None = 0.041, retry_in_s: float | None = None, error: str = ""
) -> ModelExchange:
    more: dict[str, Any] = {
        "model": "gemini-m",
        "usage": Usage(9, 0, 9),
        "dollars": dollars,
    }
    return ModelExchange("planner", 1, {}, {}, 2.0, error, retry_in_s, **more)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    screen = Terminal(60, 5)
    yield screen
    screen.close()


def text_after(
    *events: RunEvent, columns: int = 100, hide: Callable[[str], str] = str
) -> str:
    null = os.open(os.devnull, os.O_WRONLY)
    line = LiveLine(null, "test_basket", hide)
    os.close(null)
    for event in events:
        line.observe(event)
    text = line.text(columns)
    line.close()
    return re.sub(r"\d+ s([,)])", r"N s\1", text)


@pytest.mark.parametrize(
    ("events", "text"),
    [
        ((STARTED, ASKED), "0 of 40: asks gemini-m (N s)"),
        (
            (STARTED, ASKED, answered(), STEP_STARTED),
            "3 of 40: open the basket (N s, 4.1 cents)",
        ),
        (
            (STARTED, STEP_STARTED, FINISHED, ASKED),
            "3 of 40: asks gemini-m, last: open the basket (N s)",
        ),
        ((STARTED, answered(None), answered()), "0 of 40: waits for gemini (m) (N s)"),
        (
            (STARTED, GateAwaited(7.9)),
            "0 of 40: waits for the recorded screen, 8 s left (N s)",
        ),
        (
            (STARTED, ASKED, answered(None, 4.0, "503")),
            "0 of 40: asks gemini-m again in 4 s: 503 (N s)",
        ),
    ],
)
def test_text_names_step_activity_seconds_cents(
    events: tuple[RunEvent, ...], text: str
) -> None:
    assert text_after(*events) == f"test_basket: step {text}"


@pytest.mark.parametrize("columns", [20, 33, 60, 200])
def test_text_stays_on_line(columns: int) -> None:
    nasty = Proposal(Click(1, 2), "\x1b[2J\x1b]0;title\x07\r\n\u202e" + "篮子" * 99)
    line = text_after(STARTED, StepStarted(1, 1, nasty, RULING), columns=columns)
    assert columns_of(line) <= columns
    assert line.isprintable()


@pytest.mark.parametrize(
    "intent",
    [
        "type hunter2hunter2",
        "type hunter2\x1b[1mhunter2 hunter2\nhunter2",
        "x" * 38 + "hunter2hunter2",
    ],
)
def test_text_hides_secrets(intent: str) -> None:
    step = StepStarted(1, 1, Proposal(Click(1, 2), intent), RULING)
    hide = Redactor({"PASSWORD": "hunter2hunter2"}).hide_pieces
    assert "hunter2" not in text_after(STARTED, step, columns=80, hide=hide)


def shows(terminal: Terminal, *rows: str) -> bool:
    return terminal.read_until(
        lambda: (
            [re.sub(r"\(\d+ s\)", "(0 s)", row) for row in terminal.rows] == [*rows]
        ),
        10.0,
    )


@pytest.mark.parametrize(
    ("before", "shown", "erased", "text"),
    [
        ([], STARTED, RunEnded(Outcome.DONE, ""), "waits for gemini (m)"),
        (
            [STARTED, RunEnded(Outcome.DONE, "")],
            ModelRequest("judge", "m", 1, 1, 1),
            answered(0.0),
            "asks the judge",
        ),
    ],
    ids=["run", "judge"],
)
def test_line_drawn_below_output_and_erased(
    terminal: Terminal,
    before: list[RunEvent],
    shown: RunEvent,
    erased: RunEvent,
    text: str,
) -> None:
    os.write(terminal.slave, b"test_a.py ..")
    with closing(LiveLine(terminal.slave, "", str)) as line:
        for event in before:
            line.observe(event)
        line.observe(shown)
        assert shows(terminal, "test_a.py ..", f"step 0 of 40: {text} (0 s)")
        assert terminal.cursor == (0, 12)
        line.observe(erased)
        assert shows(terminal, "test_a.py ..")
        os.write(terminal.slave, b".")
        assert shows(terminal, "test_a.py ...")


@pytest.mark.parametrize(
    ("variables", "is_shown"),
    [
        ({}, True),
        ({"CI": "false"}, True),
        ({"CI": "woodpecker"}, False),
        ({"TERM": "dumb"}, False),
    ],
)
def test_can_show_only_interactive_terminal(
    terminal: Terminal,
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    is_shown: bool,
) -> None:
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert can_show(terminal.slave) is is_shown


def test_can_show_not_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    read, write = os.pipe()
    is_shown = can_show(write)
    os.close(read)
    os.close(write)
    assert not is_shown
