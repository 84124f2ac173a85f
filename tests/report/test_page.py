"""The pages of runs: what a reviewer sees first, and what is shown where something is
missing or hostile.
"""

from __future__ import annotations

import gc
import hashlib
import io
import os
import re
import shutil
import tracemalloc
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest
from PIL import Image

from pytest_vnc_use.report.html import run_html
from pytest_vnc_use.report.pages import write_report
from pytest_vnc_use.report.phrases import format_outcome
from pytest_vnc_use.report.run_view import show_run
from pytest_vnc_use.report.screenshots import data_uri
from pytest_vnc_use.report.sessions import find_runs
from pytest_vnc_use.runs.directory import (
    FinishedTest,
    RunDirectory,
    read_trace,
    write_finished_test,
)
from pytest_vnc_use.types import (
    ApprovalRequest,
    Click,
    Drift,
    Frame,
    FrameRef,
    Judged,
    ModelExchange,
    Outcome,
    Proposal,
    Region,
    Ruling,
    RunEnded,
    Transient,
    TypeText,
    Verdict,
    Wait,
)
from support.images import frame_of

DONE = RunEnded(Outcome.DONE, "the basket is open")
BROKE = RunEnded(None, "the run failed", "RecordingDrifted: it looks different")
HOSTILE = (
    "<script>alert(1)</script><img src=x"
    " onerror=alert(2)>\"'`{{7*7}}</style></template>\x1b[31m\u202egnp\u2066"
)


class Tags(HTMLParser):
    """All tags of a page with their attributes, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture
def drifted(write_run, make_step, frames) -> Callable[..., Path]:
    """`drifted(name)`: a failed run, whose screen has a red box where its recording has
    none.
    """

    def drifted(name: str = "run-1", at: int = 100, test: str = "test_it") -> Path:
        path = write_run([make_step(1, Click(5, 5))], task="Open the basket")
        directory = RunDirectory.open(path)
        seen = framed(at)
        directory.store(seen)
        problem = f"the screen is not as recorded ({at} pixels)"
        directory.append(
            Drift(problem, frames[0].ref, seen.ref, Region(at - 5, 45, at + 35, 75))
        )
        directory.append(BROKE)
        write_finished_test(
            path,
            FinishedTest(
                test, "failed", triage="product", rule="it drifted", message=problem
            ),
        )
        return path.rename(path.with_name(name))

    return drifted


def framed(at: int) -> Frame:
    """White, with a red box of 30 x 20 pixels."""
    image = Image.new("RGB", (320, 200), "white")
    image.paste((200, 0, 0), (at, 50, at + 30, 70))
    return frame_of(image)


def html_of(runs: list[Path], directory: Path, name: str = "index.html") -> str:
    write_report(runs, directory)
    return (directory / name).read_text("utf-8")


def test_screens_are_released_after_page_is_written(drifted, tmp_path: Path) -> None:
    """Else a report of 200 runs takes 5 GB. Screens are arrays, which no garbage
    collector counts.
    """
    runs = [drifted(f"drifted-{number}", at=10 + 10 * number) for number in range(8)]
    write_report(runs[:1], tmp_path / "first")
    peaks = []
    gc.disable()
    try:
        for count in (1, 8):
            tracemalloc.start()
            write_report(runs[:count], tmp_path / str(count))
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    finally:
        gc.enable()
    assert peaks[1] - peaks[0] < 7 * 320 * 200 * 3, "a screen for each run"


def test_far_apart_differences_are_each_enlarged(write_run, make_step, frames) -> None:
    screens = [Image.new("RGB", (1440, 900), "white") for _ in range(2)]
    for at in ((20, 20), (1300, 850), (60, 30)):
        screens[1].paste("red", (*at, at[0] + 30, at[1] + 20))
    frames += map(frame_of, screens)
    far, other_size = (
        Drift("other", ref, frames[-1].ref, None)
        for ref in (frames[-2].ref, frames[0].ref)
    )
    path = write_run([make_step(1, Click(5, 5))], BROKE, events=[far])
    view = show_run(path).view
    assert view.deciding is not None
    assert [str(zoom) for zoom in view.deciding.pair.zooms] == [
        "0 0 360 200",
        "1080 700 360 200",
    ]
    RunDirectory.open(path).append(other_size)
    assert "different sizes, 320×200 and 1440×900" in html_of(
        [path], path.parent, "run-1/index.html"
    )


def test_drift_shows_only_its_boxes(write_run, make_step, frames) -> None:
    boxes = (Region(10, 20, 13, 24), Region(200, 100, 210, 110))
    drift = Drift(
        "other", frames[0].ref, frames[1].ref, Region(10, 20, 210, 110), boxes=boxes
    )
    view = show_run(write_run([make_step(1, Click(6, 6))], first=[drift])).view
    assert view.deciding
    pair = view.deciding.pair
    assert [str(box) for box in pair.boxes] == ["10 20 3 4", "200 100 10 10"]
    assert pair.note == "112 pixels differ, in 2 regions"


@pytest.mark.parametrize(
    ("result", "mode"),
    [("passed", "healed"), ("failed", "not healed"), ("", "not healed")],
)
def test_step_after_takeover_is_healed_if_passed(
    result: str, mode: str, write_run, make_step, frames
) -> None:
    drift = Drift(
        "other", frames[0].ref, frames[1].ref, Region(0, 0, 9, 9), healed=True
    )
    planner = "recording, and after a drift callable (plans:plan)"
    path = write_run([make_step(1, Click(6, 6))], planner=planner, first=[drift])
    if result:
        write_finished_test(path, FinishedTest("test_it.py::test_it", result))
    assert [step.mode for step in show_run(path).view.steps] == [mode]


def test_screenshots_are_copied_unless_page_beside_runs(
    drifted, tmp_path: Path
) -> None:
    run = drifted()
    before = {*run.rglob("screens/*")}
    write_report([run], run.parent)
    assert {*run.rglob("screens/*")} == before
    shutil.copytree(run.parent, tmp_path / "other")
    runs = find_runs([run.parent, tmp_path / "other"])
    write_report(runs, tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        *("index.html", "report.css", "report.js", "run-1", "run-1-2")
    ]
    shutil.rmtree(run.parent)
    page = Tags((tmp_path / "out" / "run-1" / "index.html").read_text("utf-8"))
    addresses = [
        attrs.get("src") or attrs.get("href")
        for tag, attrs in page.tags
        if tag in ("img", "image")
    ]
    assert addresses
    assert all(
        (tmp_path / "out" / "run-1" / str(address)).is_file() for address in addresses
    )


def test_one_file_holds_each_screenshot_once(drifted, tmp_path: Path) -> None:
    page = write_report(
        [drifted("run-a"), drifted("run-b")], tmp_path / "out", one_file=True
    )
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["index.html"]
    content = page.read_text("utf-8")
    rules = re.findall(r"\.(p\w+)\{[^}]*url\((data:image/.*?)\)\}", content)
    tags = Tags(content).tags
    shown = {str(attrs["class"]).split()[1] for tag, attrs in tags if tag == "i"}
    assert {name for name, _ in rules} == shown
    assert len({url for _, url in rules}) == len(rules) == 5, (
        "three screens and two shadings"
    )
    assert not [attrs for tag, attrs in tags if tag in ("img", "image", "link")]


@pytest.mark.parametrize(("result", "is_same"), [("failed", True), ("passed", False)])
def test_copied_screens_are_lossless_unless_test_passed(
    drifted, result: str, *, is_same: bool
) -> None:
    run = drifted()
    write_finished_test(run, FinishedTest("test_it", result))
    shown = show_run(run, copy=True)
    assert shown.view.deciding is not None
    copy = Image.open(
        io.BytesIO(shown.added[shown.view.deciding.pair.right.address])
    ).convert("RGB")
    original = Image.open(io.BytesIO(framed(100).png))
    assert copy.size == original.size
    assert (copy.tobytes() == original.tobytes()) == is_same


def test_unreadable_screenshot_is_named_in_its_place(
    write_run, make_step, tmp_path: Path
) -> None:
    (tmp_path / "secret.png").write_bytes(framed(9).png)
    svg = b"<svg onload=alert(1)>"
    damaged = hashlib.sha256(svg).hexdigest()
    digests = {
        damaged: "the screenshot is damaged",
        "b" * 64: "cannot be read",
        "../../../secret": "is damaged",
    }
    refs = [FrameRef(digest, 320, 200) for digest in digests]
    steps = [
        make_step(number, Click(5, 5), frame_before=ref)
        for number, ref in enumerate(refs, start=1)
    ]
    path = write_run(steps, DONE)
    (path / "screens" / f"{damaged}.png").write_bytes(svg)
    page = html_of([path], tmp_path / "out", "run-1/index.html")
    shown = [
        Tags(part.partition("</article>")[0]).text
        for part in page.split('<article class="step')[1:]
    ]
    assert [
        problem
        for problem, text in zip(digests.values(), shown, strict=True)
        if problem not in text
    ] == []


def test_text_of_anybody_is_harmless(
    write_run, make_step, frames, tmp_path: Path
) -> None:
    verdict = Verdict(HOSTILE, "fails", HOSTILE, None, frames[1].ref, HOSTILE)
    exchange = ModelExchange(
        "planner", 1, {HOSTILE: HOSTILE}, {"a": HOSTILE}, 0.5, HOSTILE, model=HOSTILE
    )
    step = make_step(
        1,
        TypeText(HOSTILE),
        HOSTILE,
        error=HOSTILE,
        output=HOSTILE,
        note=HOSTILE,
        url=HOSTILE,
    )
    end = RunEnded(None, HOSTILE, HOSTILE)
    path = write_run(
        [step], end, task=HOSTILE, planner=HOSTILE, events=[Judged(verdict), exchange]
    )
    (path / "logs").mkdir()
    (path / "logs" / "<b>role.txt").write_text(HOSTILE)
    write_finished_test(
        path,
        FinishedTest(HOSTILE, "failed", HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE),
    )
    path = path.rename(path.with_name('run"><script>'))
    assert "<script>" not in run_html(path, link=data_uri)
    for one_file in (False, True):
        out = tmp_path / f"out-{one_file}"
        write_report([path], out, one_file=one_file)
        for file in out.rglob("*.html"):
            content = file.read_text("utf-8")
            page = Tags(content)
            assert not [tag for tag, attrs in page.tags if "onerror" in attrs]
            assert not re.search(
                "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", content
            )
            if not one_file:
                assert "<script>" not in content
                assert "⟨U+202E⟩" in page.text
            assert content.count("alert(1)</script>") == 0


BROKEN = RunEnded(None, "the run failed", "PlannerError: none\nTraceback")


@pytest.mark.parametrize(
    ("end", "earlier", "later", "decided"),
    [
        (BROKEN, "", "", "PlannerError: none; the last step"),
        (RunEnded(Outcome.GAVE_UP, "there is no basket"), "", "", "the last step: "),
        (DONE, "", "", "a toast was there"),
        (BROKEN, "two", "", "PlannerError: none; the last step: "),
        (BROKEN, "two", "one", "The claim 'one' fails: it shows 1"),
        (DONE, "two", "", "The claim 'two' fails: it shows 1"),
    ],
)
def test_deciding_cause_follows_end_of_run(
    end: RunEnded, earlier: str, later: str, decided: str, write_run, make_step, frames
) -> None:
    """A claim after the end of a broken run was judged by a test that caught the error,
    and continued.
    """
    box = Region(10, 20, 60, 40)
    before, after = (
        (
            [Judged(Verdict(claim, "fails", "it shows 1", box, frames[1].ref, "m"))]
            if claim
            else []
        )
        for claim in (earlier, later)
    )
    toast = Transient("a toast was there", frames[1].ref, Region(0, 0, 9, 9))
    path = write_run([make_step(1, Click(5, 5))], events=[toast, *before, end, *after])
    view = show_run(path).view
    assert view.deciding is not None
    assert view.deciding.text.startswith(decided)
    assert [str(claim.pair.regions[0]) for claim in view.claims] == [
        "10 20 50 20"
    ] * len([*before, *after])


def test_damaged_trace_gives_page_that_says_so(drifted, tmp_path: Path) -> None:
    run = drifted()
    trace = (run / "trace.jsonl").read_bytes()
    started = len(b"\n".join(trace.split(b"\n")[:2])) + 1
    for size in [*range(0, len(trace), 397), len(trace) - 1]:
        (run / "trace.jsonl").write_bytes(trace[:size])
        view = show_run(run).view
        assert bool(view.problem) == (size < started), f"cut at {size}"
        if not view.problem and not trace[:size].endswith(b"\n"):
            number = trace[:size].count(b"\n") + 1
            assert view.damage == [
                f"trace.jsonl ends in the middle of line {number}: that line is"
                " left out"
            ]
    lines = trace.split(b"\n")
    lines[2:4] = b"\xff\x00 nothing", b'{"kind":"step","step":{"number":"x"}}'
    (run / "trace.jsonl").write_bytes(b"\n".join(lines))
    (run / "result.json").write_text(
        '{"format": "pytest-vnc-use result", "version": 99}'
    )
    view = show_run(run).view
    assert "result.json must be" in view.damage[0]
    assert view.damage[1:] == [
        f"line {number} of trace.jsonl is damaged: it is left out" for number in (3, 4)
    ]
    (run / "trace.jsonl").write_bytes(trace.replace(b'"version":1', b'"version":99', 1))
    assert "newer pytest-vnc-use" in show_run(run).view.problem
    assert "The run cannot be shown" in html_of(
        [run], tmp_path / "out", "run-1/index.html"
    )


def test_link_is_neither_read_nor_written_through(drifted, tmp_path: Path) -> None:
    runs = [
        drifted(f"run-{name}", test=f"test_{name}")
        for name in ("logs", "page", "trace", "fine", "index")
    ]
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "program.txt").write_text("the secret of another")
    for run, name in zip(runs, ("logs", "page"), strict=False):
        (run / name).symlink_to(outside)
    (runs[2] / "trace.jsonl").unlink()
    os.mkfifo(runs[2] / "trace.jsonl")
    (runs[3] / "result.json").unlink()
    (runs[3] / "result.json").symlink_to(outside / "program.txt")
    (runs[4] / "index.html").mkdir()
    page = html_of(runs, runs[0].parent)
    assert [path.name for path in outside.iterdir()] == ["program.txt"]
    files = [path for path in runs[0].parent.rglob("*.html") if path.is_file()]
    assert "the secret of another" not in "".join(
        path.read_text("utf-8") for path in files
    )
    assert page.count("its page is not written") == 2
    assert [
        f'href="run-{name}/index.html' in page for name in ("page", "fine", "index")
    ] == [False, True, False]


DRIFT = Drift(
    "other",
    FrameRef("0" * 64, 320, 200),
    FrameRef("0" * 64, 320, 200),
    Region(0, 0, 9, 9),
    healed=True,
)
ASKED = ApprovalRequest(1, Proposal(Wait()), Ruling("ask", "no rule matches"))


@pytest.mark.parametrize(
    ("planner", "events", "end", "text"),
    [
        ("recording", [], DONE, ("replayed as recorded", "plain")),
        (
            "recording, and after a drift g",
            [DRIFT],
            DONE,
            ("done, according to the planner", "plain"),
        ),
        ("gemini (g-3)", [], DONE, ("done, according to the planner", "plain")),
        ("manual", [], DONE, ("done by a user", "plain")),
        (
            "scripted",
            [],
            RunEnded(None, "", "ConnectionLost"),
            ("failed with an error", "bad"),
        ),
        ("scripted", [], None, ("no end recorded: still running, or killed", "bad")),
        ("scripted", [ASKED], None, ("waits for approval", "doubt")),
        ("scripted", [], RunEnded(Outcome.GAVE_UP, ""), ("gave up", "doubt")),
        (
            "scripted",
            [],
            RunEnded(Outcome.STEP_LIMIT, ""),
            ("step limit reached", "doubt"),
        ),
        (
            "scripted",
            [],
            RunEnded(Outcome.TIME_LIMIT, ""),
            ("time limit reached", "doubt"),
        ),
        ("scripted", [], RunEnded(Outcome.BUDGET, ""), ("budget used up", "doubt")),
        ("scripted", [], RunEnded(Outcome.DENIED, ""), ("denied", "bad")),
        ("scripted", [], RunEnded(Outcome.BLOCKED, ""), ("blocked", "bad")),
    ],
)
def test_no_outcome_is_shown_as_success(write_run, planner, events, end, text) -> None:
    assert (
        format_outcome(read_trace(write_run(end=end, planner=planner, events=events)))
        == text
    )
