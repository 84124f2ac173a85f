"""`--vnc-record=accept`: a replay asks at the terminal about each screen that differs from its recording."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

from pytest_vnc_use.recordings.accept import NO, Answer, Question, Review, Reviewer
from pytest_vnc_use.triage.failure_text import sanitize

_NO_TERMINAL = Answer("no", "stdin is no terminal, so run pytest at one to answer")
_NO_WORKER = Answer("no", "a worker of pytest-xdist has no terminal, so run the test with -n 0 to answer")
_REVIEWER = pytest.StashKey[Reviewer]()
"""The reviewer of the session, with the answers so far."""


def review_of(item: pytest.Item, at_the_terminal: Callable[[pytest.Config], AbstractContextManager[None]]) -> Review:
    """Return the review of a test's replay. With `--vnc-ui` the page asks.

    Without a terminal, as on a worker of pytest-xdist, the answer is no.
    """
    config = item.config

    def ask(question: Question) -> Answer:
        if desk := config.pluginmanager.get_plugin("vnc_use_ui"):
            answer: Answer = desk.ask(question)
            return answer
        if hasattr(config, "workerinput"):
            return _NO_WORKER
        with at_the_terminal(config):
            return _asked(question)

    return Review(config.stash.setdefault(_REVIEWER, Reviewer(ask)), item.nodeid)


def _asked(question: Question) -> Answer:
    if sys.stdin is None or not sys.stdin.isatty():
        return _NO_TERMINAL
    try:  # Ctrl-C may come as soon as the question can be read
        sys.stdout.writelines(f"{sanitize(line, str)}\n" for line in _lines(question))
        sys.stdout.flush()
        key = input("> ").strip().lower()
        if key == "b":
            return Answer("bug", input("What is wrong? > ").strip())
    except (EOFError, KeyboardInterrupt):
        sys.stdout.write("\n")
        return NO
    return {"y": Answer("accept"), "m": Answer("mask")}.get(key, NO)


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
    keys = [] if question.moved else ["y  this screen is right, go on"]
    keys += [f"m  mask its {question.masked_px:,} px"] if question.masks else []
    yield "  " + "    ".join([*keys, "b  it is a bug", "anything else: no"])
