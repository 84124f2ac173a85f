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
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

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
    Step,
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
BASKET = Element("button", "Basket", BOX)
USER = Element("textbox", "User", BOX)
FAILURE = """    def test_it(vnc_desktop):
>       assert "2" in vnc_desktop.read_file("orders.csv")
E       AssertionError: assert '2' in '1'

test_it.py:3: AssertionError"""
HIDDEN = {
    r"(?<![\d.])\d+(\.\d)? s\b|^\d+\.\d$": "<s>",
    r"\b[0-9a-f]{20,64}\b": "<digest>",
    r"^machine .*": "machine <machine>",
}


class Shown(NamedTuple):
    """A run, and how its test ended."""

    run: dict[str, Any]
    test: FinishedTest | None = None


Make = Callable[[Callable[..., Step], list[Frame]], Shown]


def drifted(step: Callable[..., Step], frames: list[Frame]) -> Shown:
    """A recording whose gate stayed closed after its second step."""
    recorded, _, seen = [frame.ref for frame in frames]
    times = Times(2.0, 0.5, 1.0)
    run = {
        "task": "Buy <secret:CARD> apples",
        "planner": "recording",
        "steps": [
            step(1, Click(5, 6), "open it", elements=(BASKET,), times=times),
            step(2, TypeText("al"), elements=(USER,)),
        ],
        "events": [Drift("312 pixels differ", recorded, seen, Region(30, 40, 50, 60))],
        "end": RunEnded(None, "the run failed", "RecordingDrifted: 312 pixels differ"),
    }
    ended = FinishedTest("test_it", "failed", "call", "inconclusive", "a gate")
    return Shown(run, replace(ended, attempt=2, worker="gw1"))


def healed(step: Callable[..., Step], frames: list[Frame]) -> Shown:
    """A model continued where the recording drifted; the replay showed what no
    recording has.
    """
    recorded, seen, toast = [frame.ref for frame in frames]
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
    by_model = step(
        1,
        Click(5, 5),
        model="g-3",
        times=Times(3.0, 0.5, 1.0, 0.25),
        transient_frames=(toast,),
    )
    run = {
        "planner": "recording, and after a drift gemini",
        "model": "g-3",
        "first": [Drift("another button", recorded, seen, BOX, healed=True), asked],
        "steps": [by_model],
        "events": [
            ModelExchange("judge", 1, {}, {}, 1.25, model="g-3"),
            Transient("a toast", toast, BOX),
        ],
        "end": DONE,
    }
    return Shown(run, FinishedTest("test_it", "passed", seconds=3.0))


def judged(step: Callable[..., Step], frames: list[Frame]) -> Shown:
    """A live run, denied once, whose claim fails."""
    seen = frames[2].ref
    denial = Ruling(
        "deny", "rule 1 'no'", "rule 1 'no' (in p.toml): the action is denied"
    )
    repeated = step(
        2,
        Click(5, 5),
        text="The turn's reason.",
        output="2",
        note="You did this before.",
        error="off the screen",
    )
    steps = [
        step(1, TypeText("alice", press_enter=True), "Sign in.", text="unused"),
        repeated,
        step(3, Click(7, 7), ruling=denial, error="denied by rule 1 'no'"),
        step(4, Wait(0.5), repeated_requests=2, url="http://shop.test/"),
    ]
    again = ModelExchange(
        "planner", 1, {}, None, 0.5, error="no <tool> call", retry_in_s=2.0
    )
    apples = Verdict(
        "two apples",
        "fails",
        "only one",
        BOX,
        seen,
        "g-3",
        votes=("fails", "fails"),
        screens=2,
    )
    unsure = Verdict("sent", "unsure", "no model is configured")
    read = Reading(
        "what is in it?", {"apples": 2}, "2 <b>", BOX, seen, "g-3", Usage(700)
    )
    misread = Reading("and now?", "two", "it says two", model="g-3")
    run = {
        "planner": "gemini (g-3)",
        "model": "g-3",
        "usage": Usage(900, 40, 70),
        "steps": steps,
        "events": [
            again,
            Judged(apples),
            Judged(unsure),
            Extracted(read, "Basket"),
            Extracted(misread, "int", "no integer"),
        ],
        "end": DONE,
    }
    failed = FinishedTest("test_it", "failed", "call", "product", "a claim failed")
    return Shown(run, failed)


def asserted(step: Callable[..., Step], frames: list[Frame]) -> Shown:
    """The body's assertion failed."""
    failed = FinishedTest(
        "test_it",
        "failed",
        triage="product",
        failure=FAILURE,
        message="assert '2' in '1'",
    )
    return Shown({"steps": [step(1, Click(5, 5))], "end": DONE}, failed)


def ending(end: RunEnded | None, *events: RunEvent) -> Make:
    """A run without a test that ended so, or not at all."""

    def ended(step: Callable[..., Step], frames: list[Frame]) -> Shown:
        return Shown({"steps": [step(1, Click(5, 5))], "end": end, "events": events})

    return ended


CLICK = Proposal(Click(60, 60))
PLAIN = ending(DONE)
LOST = RunEnded(None, "the run failed", "ConnectionLost: gone\nTraceback")
RUNS: dict[str, Make] = {
    "drifted": drifted,
    "healed": healed,
    "judged": judged,
    "asserted": asserted,
    "broken": ending(LOST),
    "begun": ending(None, StepStarted(2, 2, CLICK, Ruling("allow", "harmless"))),
    "waits": ending(
        None, ApprovalRequest(2, CLICK, Ruling("ask", "no rule matches", "it pays"))
    ),
}


@pytest.fixture
def outputs(write_run, make_step, frames: list[Frame]) -> Callable[..., list[str]]:
    """`outputs(run)`: the lines of all outputs."""

    def outputs(make: Make) -> list[str]:
        made = make(make_step, frames)
        run: Path = write_run(**made.run)
        if made.test:
            write_finished_test(run, made.test)
        (run / "logs").mkdir()
        (run / "logs" / "program.txt").write_text("started\n")
        write_report([run], run.parent)
        texts = [
            (run.parent / "index.html").read_text("utf-8"),
            (run / "index.html").read_text("utf-8"),
            run_html(run, link=data_uri, machine="runner-7"),
            run_markdown(run, run.parent)[0],
        ]
        shutil.rmtree(run.parent)
        text = "\n-----\n".join(map(shown, texts))
        return text.replace(str(run), "<run>").splitlines()

    return outputs


def test_plain_run_is_shown_as_before(
    outputs: Callable[..., list[str]], snapshot: SnapshotAssertion
) -> None:
    assert "\n".join(outputs(PLAIN)) == snapshot


@pytest.mark.parametrize("name", RUNS)
def test_run_is_shown_as_before(
    outputs: Callable[..., list[str]], snapshot: SnapshotAssertion, name: str
) -> None:
    plain = outputs(PLAIN)
    _, _, *lines = difflib.unified_diff(plain, outputs(RUNS[name]), n=0, lineterm="")
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


NEVER_STARTED = (
    "The run never started: RecordingError: there is no recording of 't.py::test_a'"
)


def test_page_of_run_that_never_started_says_why(
    tmp_path: Path, unrecorded: Path
) -> None:
    write_report([unrecorded], tmp_path / "out")
    page = (tmp_path / "out" / "run-0" / "index.html").read_text("utf-8")
    assert NEVER_STARTED in shown(page)
    assert "cannot be shown" not in page


def test_block_of_run_that_never_started_says_why(unrecorded: Path) -> None:
    block = run_html(unrecorded, link=data_uri)
    assert NEVER_STARTED in shown(block)
    assert "cannot be shown" not in block


def test_block_of_other_directory_says_so(tmp_path: Path) -> None:
    assert "is not a run directory" in shown(run_html(tmp_path, link=data_uri))
