"""What the outputs show of a run: its page and its row in the session's, pytest-html's
block, Markdown.

Of each run but the plain one, the snapshot has the lines that differ from the plain
one's. To accept a change: `python -m pytest tests/report/test_outputs.py
--snapshot-update`.
"""

from __future__ import annotations

import difflib
import html
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vnc_use.report.html import run_html
from pytest_vnc_use.report.markdown import run_markdown
from pytest_vnc_use.report.pages import write_report
from pytest_vnc_use.report.screenshots import data_uri
from pytest_vnc_use.runs.directory import FinishedTest, write_finished_test
from pytest_vnc_use.types import (
    ApprovalRequest,
    Click,
    Drift,
    Extracted,
    Frame,
    Judged,
    ModelExchange,
    Outcome,
    Proposal,
    Reading,
    Region,
    Ruling,
    RunEnded,
    RunEvent,
    StepStarted,
    Times,
    Transient,
    TypeText,
    Usage,
    Verdict,
    Wait,
)
from pytest_vnc_use.types.elements import Element
from support.vnc_servers import require_package

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

require_package("syrupy")

BOX = Region(20, 20, 90, 60)
DONE = RunEnded(Outcome.DONE, "The basket is open.")
BASKET, USER = (
    Element(role, name, BOX)
    for role, name in (("button", "Basket"), ("textbox", "User"))
)
FAILURE = """    def test_it(vnc_desktop):
>       assert "2" in vnc_desktop.read_file("orders.csv")
E       AssertionError: assert '2' in '1'

test_it.py:3: AssertionError"""
HIDDEN = {
    r"(?<![\d.])\d+(\.\d)? s\b|^\d+\.\d$": "<s>",
    r"\b[0-9a-f]{20,64}\b": "<digest>",
    r"^machine .*": "machine <machine>",
}


def drifted(
    step: Callable[..., Any], frames: list[Frame]
) -> tuple[dict[str, Any], FinishedTest | None]:
    """A recording whose gate stayed closed after its second step."""
    shapes: dict[str, Any] = {"times": Times(2.0, 0.5, 1.0)}
    steps = [
        step(1, Click(5, 6), "open it", elements=(BASKET,), **shapes),
        step(2, TypeText("al"), elements=(USER,)),
    ]
    drift = Drift(
        "312 pixels differ", frames[0].ref, frames[2].ref, Region(30, 40, 50, 60)
    )
    run = {
        "steps": steps,
        "planner": "recording",
        "task": "Buy <secret:CARD> apples",
        "events": [drift],
    }
    end = RunEnded(None, "the run failed", "RecordingDrifted: 312 pixels differ")
    return {**run, "end": end}, FinishedTest(
        "test_it", "failed", "call", "inconclusive", "a gate", attempt=2, worker="gw1"
    )


def healed(
    step: Callable[..., Any], frames: list[Frame]
) -> tuple[dict[str, Any], FinishedTest | None]:
    """A model continued where the recording drifted; the replay showed what no
    recording has.
    """
    drift = Drift("another button", frames[0].ref, frames[1].ref, BOX, healed=True)
    asked = ModelExchange(
        "planner",
        1,
        {"contents": ["go"]},
        {"ok": 1},
        1.25,
        model="g-3",
        usage=Usage(5),
        dollars=0.25,
    )
    steps = [
        step(
            1,
            Click(5, 5),
            model="g-3",
            times=Times(3.0, 0.5, 1.0, 0.25),
            transient_frames=(frames[2].ref,),
        )
    ]
    events = [
        ModelExchange("judge", 1, {}, {}, 1.25, model="g-3"),
        Transient("a toast", frames[2].ref, BOX),
    ]
    run = {
        "steps": steps,
        "first": [drift, asked],
        "events": events,
        "end": DONE,
        "model": "g-3",
    }
    return {**run, "planner": "recording, and after a drift gemini"}, FinishedTest(
        "test_it", "passed", seconds=3.0
    )


def judged(
    step: Callable[..., Any], frames: list[Frame]
) -> tuple[dict[str, Any], FinishedTest | None]:
    """A live run, denied once, whose claim fails."""
    denial = Ruling(
        "deny", "rule 1 'no'", "rule 1 'no' (in p.toml): the action is denied"
    )
    steps = [
        step(1, TypeText("alice", press_enter=True), "Sign in.", text="unused"),
        step(
            2,
            Click(5, 5),
            text="The turn's reason.",
            output="2",
            note="You did this before.",
            error="off the screen",
        ),
        step(3, Click(7, 7), ruling=denial, error="denied by rule 1 'no'"),
        step(4, Wait(0.5), repeated_requests=2, url="http://shop.test/"),
    ]
    apples = Verdict(
        "two apples",
        "fails",
        "only one",
        BOX,
        frames[2].ref,
        "g-3",
        votes=("fails", "fails"),
        screens=2,
    )
    read = Reading(
        "what is in it?", {"apples": 2}, "2 <b>", BOX, frames[2].ref, "g-3", Usage(700)
    )
    wrong = Extracted(
        Reading("and now?", "two", "it says two", model="g-3"), "int", "no integer"
    )
    again = ModelExchange(
        "planner", 1, {}, None, 0.5, error="no <tool> call", retry_in_s=2.0
    )
    unsure = Verdict("sent", "unsure", "no model is configured")
    events = [again, *map(Judged, (apples, unsure)), Extracted(read, "Basket"), wrong]
    run = {
        "steps": steps,
        "end": DONE,
        "events": events,
        "planner": "gemini (g-3)",
        "model": "g-3",
    }
    return {**run, "usage": Usage(900, 40, 70)}, FinishedTest(
        "test_it", "failed", "call", "product", "a claim failed"
    )


def asserted(
    step: Callable[..., Any], frames: list[Frame]
) -> tuple[dict[str, Any], FinishedTest | None]:
    """The body's assertion failed."""
    failed = FinishedTest(
        "test_it",
        "failed",
        triage="product",
        failure=FAILURE,
        message="assert '2' in '1'",
    )
    return {"steps": [step(1, Click(5, 5))], "end": DONE}, failed


def ending(
    end: RunEnded | None, *events: RunEvent
) -> Callable[..., tuple[dict[str, Any], FinishedTest | None]]:
    """A run without a test that ended so, or not at all."""
    return lambda step, frames: (
        {"steps": [step(1, Click(5, 5))], "end": end, "events": events},
        None,
    )


CLICK = Proposal(Click(60, 60))
PLAIN = ending(DONE)
RUNS: dict[str, Callable[..., tuple[dict[str, Any], FinishedTest | None]]] = {
    "drifted": drifted,
    "healed": healed,
    "judged": judged,
    "asserted": asserted,
    "broken": ending(
        RunEnded(None, "the run failed", "ConnectionLost: gone\nTraceback")
    ),
    "begun": ending(None, StepStarted(2, 2, CLICK, Ruling("allow", "harmless"))),
    "waits": ending(
        None, ApprovalRequest(2, CLICK, Ruling("ask", "no rule matches", "it pays"))
    ),
}


@pytest.fixture
def outputs(write_run, make_step, frames: list[Frame]) -> Callable[..., list[str]]:
    """`outputs(run)`: the lines of all outputs."""

    def outputs(
        run_of: Callable[..., tuple[dict[str, Any], FinishedTest | None]],
    ) -> list[str]:
        values, ended = run_of(make_step, frames)
        run: Path = write_run(**values)
        if ended:
            write_finished_test(run, ended)
        (run / "logs").mkdir()
        (run / "logs" / "program.txt").write_text("started\n")
        write_report([run], run.parent)
        pages = [(path / "index.html").read_text("utf-8") for path in (run.parent, run)]
        texts = [
            *pages,
            run_html(run, link=data_uri, machine="runner-7"),
            run_markdown(run, run.parent)[0],
        ]
        lines = (
            "\n-----\n".join(shown(text) for text in texts)
            .replace(str(run), "<run>")
            .splitlines()
        )
        shutil.rmtree(run.parent)
        return lines

    return outputs


def test_plain_run_is_shown_as_before(
    outputs: Callable[..., list[str]], snapshot: SnapshotAssertion
) -> None:
    assert "\n".join(outputs(PLAIN)) == snapshot


@pytest.mark.parametrize("name", RUNS)
def test_run_is_shown_as_before(
    outputs: Callable[..., list[str]], snapshot: SnapshotAssertion, name: str
) -> None:
    lines = [
        *difflib.unified_diff(outputs(PLAIN), outputs(RUNS[name]), n=0, lineterm="")
    ][2:]
    assert "\n".join(line for line in lines if not line.startswith("@@")) == snapshot


def shown(text: str) -> str:
    """Return the text that a reader sees, without what differs from machine to
    machine.
    """
    if not text.startswith("#"):
        text = text.replace("</dt> <dd>", ": ")
        text = re.sub(
            r"<(style|script|form|dialog|thead)\b.*?</\1>|<[^>]+>",
            "\n",
            text,
            flags=re.DOTALL,
        )
        text = html.unescape(re.sub(r"\s*\n\s*", "\n", text))
    for pattern, sign in HIDDEN.items():
        text = re.sub(pattern, sign, text, flags=re.MULTILINE)
    return text


def test_run_that_never_started_says_why(tmp_path: Path, unrecorded: Path) -> None:
    write_report([unrecorded], tmp_path / "out")
    page = (tmp_path / "out" / "run-0" / "index.html").read_text("utf-8")
    for text in (page, run_html(unrecorded, link=data_uri)):
        assert (
            "The run never started: RecordingError: there is no recording of"
            " 't.py::test_a'" in shown(text)
        )
        assert "cannot be shown" not in text
    assert "is not a run directory" in shown(run_html(tmp_path, link=data_uri))
