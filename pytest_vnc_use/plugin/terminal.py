"""The user at the terminal while a test runs: the live line, what is printed, what is asked, `--vnc-record=accept`.

The live line says where a test's run is. It is shown only if nothing else writes to the terminal: with pytest's own
reporter, without -v, -q, -s and live logs, and while pytest captures the output of the test. It is erased when the run
ends, and before pytest prints. A hook or a planner of a user that prints with the capture disabled may leave a part of
it on the screen.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from _pytest.terminal import TerminalReporter  # `pytest.TerminalReporter` is newer than the oldest pytest that we take

from pytest_vnc_use.plugin.redaction import secrets_of
from pytest_vnc_use.plugin.state import SETTINGS
from pytest_vnc_use.runs.progress import LiveLine, can_show
from pytest_vnc_use.triage import sanitize

if TYPE_CHECKING:
    from pytest_vnc_use.recordings.accept import Answer, Question, Review, Reviewer

_STDOUT = 1
_LINE: pytest.StashKey[LiveLine] = pytest.StashKey()
_REVIEWER: pytest.StashKey[Reviewer] = pytest.StashKey()
"""The reviewer of the session, with the answers so far."""


@contextmanager
def at_terminal(config: pytest.Config) -> Iterator[None]:
    """Suspend pytest's capturing, also of the keyboard."""
    capturing = config.pluginmanager.getplugin("capturemanager")
    if capturing is None:  # with -p no:capture
        yield
        return
    capturing.suspend(in_=True)
    try:
        yield
    finally:
        capturing.resume()


def print_line(config: pytest.Config, text: str) -> None:
    """Print a line in pytest's own output while a test runs."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    capture = config.pluginmanager.get_plugin("capturemanager")
    if terminal and capture:
        with capture.global_and_fixture_disabled():
            terminal.ensure_newline()
            terminal.write_line(f"  {text}")
            terminal.flush()


def open_line(item: pytest.Item) -> list[LiveLine]:
    """Return the observer that shows the runs of a test on the terminal; none if the line is not shown."""
    config = item.config
    close_line(config)
    capture = config.pluginmanager.get_plugin("capturemanager")
    if capture is None or not is_wanted(config):
        return []
    with capture.global_and_fixture_disabled():  # standard output is the terminal only here
        if not can_show(_STDOUT):
            return []
        hide = secrets_of(config).hide
        config.stash[_LINE] = LiveLine(_STDOUT, item.name, hide, is_free=lambda: not os.isatty(_STDOUT))
    return [config.stash[_LINE]]


def is_wanted(config: pytest.Config) -> bool:
    """Return whether a session shows the line, if standard output is a terminal."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if type(terminal) is not TerminalReporter or not terminal.isatty or config.get_verbosity() != 0:
        return False
    if config.getoption("capture", "") != "fd" or config.stash[SETTINGS].record == "manual":
        return False
    has_logs = config.pluginmanager.has_plugin("logging-plugin")
    return not (has_logs and (config.getini("log_cli") or config.getoption("log_cli_level", None)))


def close_line(config: pytest.Config) -> None:
    """Erase the line for good."""
    if _LINE in config.stash:
        config.stash[_LINE].close()
        del config.stash[_LINE]


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(config: pytest.Config) -> None:
    """Erase the line before the terminal reports a part of a test, also if no event ended its run."""
    if _LINE in config.stash:
        config.stash[_LINE].erase()


def pytest_enter_pdb(config: pytest.Config) -> None:
    """Leave the terminal to the debugger."""
    if _LINE in config.stash:
        config.stash[_LINE].erase()


def review_of(item: pytest.Item) -> Review:
    """Return the review of a test's replay, which asks about each screen that differs from its recording."""
    from pytest_vnc_use.recordings.accept import Review, Reviewer

    config = item.config
    return Review(config.stash.setdefault(_REVIEWER, Reviewer(lambda question: _answer(config, question))), item.nodeid)


def _answer(config: pytest.Config, question: Question) -> Answer:
    """Return the user's answer. With `--vnc-ui` the page asks; without a terminal it is no."""
    from pytest_vnc_use.recordings.accept import NO, Answer

    if desk := config.pluginmanager.get_plugin("vnc_use_ui"):
        answer: Answer = desk.ask(question)
        return answer
    if hasattr(config, "workerinput"):
        return Answer("no", "a worker of pytest-xdist has no terminal, so run the test with -n 0 to answer")
    with at_terminal(config):
        if sys.stdin is None or not sys.stdin.isatty():
            return Answer("no", "stdin is no terminal, so run pytest at one to answer")
        try:  # Ctrl-C may come as soon as the question can be read
            sys.stdout.writelines(f"{sanitize(line, str)}\n" for line in _lines(question))
            sys.stdout.flush()
            key = input("> ").strip().lower()
            if key == "b":
                return Answer("bug", input("What is wrong? > ").strip())
        except (EOFError, KeyboardInterrupt):
            sys.stdout.write("\n")
            return NO
        return {"y": Answer("accept"), "m": Answer("mask"), "c": Answer("model")}.get(key, NO)


def _lines(question: Question) -> Iterator[str]:
    """Yield what is asked, and the keys that answer it."""
    yield f"\n\n{question.test}"
    yield question.problem
    for name, image in zip(("recorded", "now", "difference"), question.images, strict=True):
        yield f"  {name:<10} {image}"
    if question.claim:
        yield f"Does this hold on the screen now: {question.claim!r}?"
        yield "  y  it holds    b  it is a bug    anything else: no"
        return
    for act in question.acts:
        yield f"  The recording acts there: {act}"
    for target in question.moved:
        yield f"  Record the test again: {target}"
    keys = [] if question.moved else ["y  this screen is right, continue"]
    keys += [f"m  mask its {question.masked_px:,} px"] if question.masks else []
    keys += [] if "model" in question.refused else ["c  let the model continue"]
    yield "  " + "    ".join([*keys, "b  it is a bug", "anything else: no"])
