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
    Step,
    Transient,
    TypeText,
    Verdict,
    Wait,
)
from support.images import frame_of

DONE = RunEnded(Outcome.DONE, "the basket is open")
DRIFTED = RunEnded(None, "the run failed", "RecordingDrifted: it looks different")
FAILED = RunEnded(None, "the run failed", "PlannerError: none\nTraceback")
GAVE_UP = RunEnded(Outcome.GAVE_UP, "there is no basket")
BOX = Region(10, 20, 60, 40)
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
def one_click(make_step) -> list[Step]:
    return [make_step(1, Click(5, 5))]


@pytest.fixture
def drifted(write_run, one_click, frames) -> Callable[..., Path]:
    """`drifted(name)`: a failed run, whose screen has a red box where its recording has
    none.
    """

    def drifted(name: str = "run-1", at: int = 100, test: str = "test_it") -> Path:
        path = write_run(one_click, task="Open the basket")
        directory = RunDirectory.open(path)
        seen = framed(at)
        directory.store(seen)
        problem = f"the screen is not as recorded ({at} pixels)"
        around = Region(at - 5, 45, at + 35, 75)
        directory.append(Drift(problem, frames[0].ref, seen.ref, around))
        directory.append(DRIFTED)
        ended = FinishedTest(
            test, "failed", triage="product", rule="it drifted", message=problem
        )
        write_finished_test(path, ended)
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


def peak_of_report(runs: list[Path], directory: Path) -> int:
    """Return how many bytes a report takes at most, without a garbage collector."""
    gc.disable()
    tracemalloc.start()
    try:
        write_report(runs, directory)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        gc.enable()


def test_screens_are_released_after_page_is_written(drifted, tmp_path: Path) -> None:
    """Else a report of 200 runs takes 5 GB. Screens are arrays, which no garbage
    collector counts.
    """
    runs = [drifted(f"drifted-{number}", at=10 + 10 * number) for number in range(8)]
    write_report(runs[:1], tmp_path / "first")
    one = peak_of_report(runs[:1], tmp_path / "one")
    eight = peak_of_report(runs, tmp_path / "eight")
    assert eight - one < 7 * 320 * 200 * 3, "a screen for each run"


@pytest.fixture
def wide(frames: list[Frame]) -> tuple[FrameRef, FrameRef]:
    """A wide screen, and the same with two changes at its corners."""
    before = Image.new("RGB", (1440, 900), "white")
    after = before.copy()
    for x, y in ((20, 20), (1300, 850), (60, 30)):
        after.paste("red", (x, y, x + 30, y + 20))
    stored = [frame_of(before), frame_of(after)]
    frames += stored
    return stored[0].ref, stored[1].ref


def test_far_apart_differences_are_each_enlarged(wide, write_run, one_click) -> None:
    drift = Drift("other", *wide, None)
    view = show_run(write_run(one_click, DRIFTED, events=[drift])).view
    assert view.deciding is not None
    upper_left = Region(0, 0, 360, 200)
    lower_right = Region(1080, 700, 1440, 900)
    assert view.deciding.pair.zooms == [upper_left, lower_right]


def test_screens_of_other_sizes_say_so(wide, write_run, one_click, frames) -> None:
    drift = Drift("other", frames[0].ref, wide[1], None)
    path = write_run(one_click, DRIFTED, events=[drift])
    page = html_of([path], path.parent, "run-1/index.html")
    assert "different sizes, 320×200 and 1440×900" in page


def test_drift_shows_only_its_boxes(write_run, one_click, frames) -> None:
    boxes = (Region(10, 20, 13, 24), Region(200, 100, 210, 110))
    whole = Region(10, 20, 210, 110)
    drift = Drift("other", frames[0].ref, frames[1].ref, whole, boxes=boxes)
    view = show_run(write_run(one_click, first=[drift])).view
    assert view.deciding
    pair = view.deciding.pair
    assert pair.boxes == boxes
    assert pair.note == "112 pixels differ, in 2 regions"


@pytest.mark.parametrize(
    ("result", "mode"),
    [("passed", "healed"), ("failed", "not healed"), ("", "not healed")],
)
def test_step_after_takeover_is_healed_if_passed(
    result: str, mode: str, write_run, one_click, frames
) -> None:
    drift = Drift("other", frames[0].ref, frames[1].ref, BOX, healed=True)
    planner = "recording, and after a drift callable (plans:plan)"
    path = write_run(one_click, planner=planner, first=[drift])
    if result:
        write_finished_test(path, FinishedTest("test_it.py::test_it", result))
    (step,) = show_run(path).view.steps
    assert step.mode == mode


def test_page_beside_runs_copies_no_screenshot(drifted) -> None:
    run = drifted()
    before = {*run.rglob("screens/*")}
    write_report([run], run.parent)
    assert {*run.rglob("screens/*")} == before


def test_report_elsewhere_copies_screenshots(drifted, tmp_path: Path) -> None:
    run = drifted()
    out = tmp_path / "out"
    page = Tags(html_of([run], out, "run-1/index.html"))
    shutil.rmtree(run.parent)
    images = [attrs for tag, attrs in page.tags if tag in ("img", "image")]
    urls = [str(attrs.get("src") or attrs.get("href")) for attrs in images]
    assert urls
    assert all((out / "run-1" / url).is_file() for url in urls)


def test_runs_of_one_name_get_pages_of_their_own(drifted, tmp_path: Path) -> None:
    run = drifted()
    shutil.copytree(run.parent, tmp_path / "other")
    write_report(find_runs([run.parent, tmp_path / "other"]), tmp_path / "out")
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["index.html", "report.css", "report.js", "run-1", "run-1-2"]


def test_one_file_holds_each_screenshot_once(drifted, tmp_path: Path) -> None:
    runs = [drifted("run-a"), drifted("run-b")]
    page = write_report(runs, tmp_path / "out", one_file=True)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["index.html"]

    content = page.read_text("utf-8")
    tags = Tags(content).tags
    assert not [tag for tag, _ in tags if tag in ("img", "image", "link")]

    # each screenshot is the background of a class
    rules = re.findall(r"\.(p\w+)\{[^}]*url\((data:image/.*?)\)\}", content)
    urls = dict(rules)
    shown = {str(attrs["class"]).split()[1] for tag, attrs in tags if tag == "i"}
    assert set(urls) == shown
    assert len(rules) == 5, "three screens and two shadings"
    assert len(set(urls.values())) == 5


@pytest.mark.parametrize(("result", "is_same"), [("failed", True), ("passed", False)])
def test_copied_screens_are_lossless_unless_test_passed(
    drifted, result: str, *, is_same: bool
) -> None:
    run = drifted()
    write_finished_test(run, FinishedTest("test_it", result))
    shown = show_run(run, copy=True)
    assert shown.view.deciding is not None
    screenshot = shown.view.deciding.pair.right
    copy = Image.open(io.BytesIO(shown.added[screenshot.address])).convert("RGB")
    original = Image.open(io.BytesIO(framed(100).png))
    assert copy.size == original.size
    assert (copy.tobytes() == original.tobytes()) == is_same


def test_unreadable_screenshot_is_named_in_its_place(
    write_run, make_step, tmp_path: Path
) -> None:
    (tmp_path / "secret.png").write_bytes(framed(9).png)
    svg = b"<svg onload=alert(1)>"
    damaged = hashlib.sha256(svg).hexdigest()
    digests = (damaged, "b" * 64, "../../../secret")
    steps = [
        make_step(number, Click(5, 5), frame_before=FrameRef(digest, 320, 200))
        for number, digest in enumerate(digests, start=1)
    ]
    path = write_run(steps, DONE)
    (path / "screens" / f"{damaged}.png").write_bytes(svg)
    page = html_of([path], tmp_path / "out", "run-1/index.html")
    articles = page.split('<article class="step')[1:]
    texts = [Tags(article.partition("</article>")[0]).text for article in articles]
    assert "the screenshot is damaged" in texts[0]
    assert "cannot be read" in texts[1]
    assert "is damaged" in texts[2]
    assert len(texts) == 3


CONTROLS = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"


@pytest.fixture
def hostile(write_run, make_step, frames) -> Path:
    """A run all of whose texts are hostile, its name too."""
    verdict = Verdict(HOSTILE, "fails", HOSTILE, None, frames[1].ref, HOSTILE)
    exchange = ModelExchange(
        "planner", 1, {HOSTILE: HOSTILE}, {"a": HOSTILE}, 0.5, HOSTILE, model=HOSTILE
    )
    texts = dict.fromkeys(("error", "output", "note", "url"), HOSTILE)
    step = make_step(1, TypeText(HOSTILE), HOSTILE, **texts)
    end = RunEnded(None, HOSTILE, HOSTILE)
    events = [Judged(verdict), exchange]
    path: Path = write_run([step], end, task=HOSTILE, planner=HOSTILE, events=events)
    (path / "logs").mkdir()
    (path / "logs" / "<b>role.txt").write_text(HOSTILE)
    ended = FinishedTest(HOSTILE, "failed", HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE)
    write_finished_test(path, ended)
    return path.rename(path.with_name('run"><script>'))


def assert_harmless(content: str) -> None:
    assert not [tag for tag, attrs in Tags(content).tags if "onerror" in attrs]
    assert not re.search(CONTROLS, content)
    assert "alert(1)</script>" not in content


def test_block_of_hostile_run_is_harmless(hostile: Path) -> None:
    assert "<script>" not in run_html(hostile, link=data_uri)


@pytest.mark.parametrize("pattern", ["index.html", "run*/index.html"])
def test_page_of_hostile_run_is_harmless(
    hostile: Path, tmp_path: Path, pattern: str
) -> None:
    write_report([hostile], tmp_path / "out")
    (page,) = (tmp_path / "out").glob(pattern)
    content = page.read_text("utf-8")
    assert_harmless(content)
    assert "<script>" not in content
    assert "⟨U+202E⟩" in Tags(content).text


def test_one_file_of_hostile_run_is_harmless(hostile: Path, tmp_path: Path) -> None:
    page = write_report([hostile], tmp_path / "out", one_file=True)
    assert_harmless(page.read_text("utf-8"))


@pytest.fixture
def judged(frames: list[Frame]) -> Callable[..., list[Judged]]:
    """`judged(claim)`: the verdict that it fails; nothing without a claim."""

    def judged(claim: str) -> list[Judged]:
        verdict = Verdict(claim, "fails", "it shows 1", BOX, frames[1].ref, "m")
        return [Judged(verdict)] if claim else []

    return judged


@pytest.mark.parametrize(
    ("end", "earlier", "later", "decided"),
    [
        (FAILED, "", "", "PlannerError: none; the last step"),
        (GAVE_UP, "", "", "the last step: "),
        (DONE, "", "", "a toast was there"),
        (FAILED, "two", "", "PlannerError: none; the last step: "),
        (FAILED, "two", "one", "The claim 'one' fails: it shows 1"),
        (DONE, "two", "", "The claim 'two' fails: it shows 1"),
    ],
)
def test_deciding_cause_follows_end_of_run(
    end: RunEnded,
    earlier: str,
    later: str,
    decided: str,
    judged: Callable[..., list[Judged]],
    write_run,
    one_click,
    frames,
) -> None:
    """A claim after the end of a failed run was judged by a test that caught the error,
    and continued.
    """
    toast = Transient("a toast was there", frames[1].ref, BOX)
    events = [toast, *judged(earlier), end, *judged(later)]
    view = show_run(write_run(one_click, events=events)).view
    assert view.deciding is not None
    assert view.deciding.text.startswith(decided)


@pytest.mark.parametrize(
    ("came_after", "step", "place"),
    [([2, 3], 2, "after step 2"), ([0], 3, "at the end")],
    ids=["known", "old trace"],
)
def test_deciding_transient_is_first_at_its_step(
    came_after: list[int], step: int, place: str, write_run, make_step, frames
) -> None:
    """A trace of an earlier version does not say after which step it came."""
    done = [make_step(number, Click(5, 5)) for number in (1, 2, 3)]
    toasts = []
    for number in came_after:
        problem = f"a toast after {number}"
        toasts.append(Transient(problem, frames[2].ref, BOX, number))
    path = write_run(done, DONE, events=toasts)
    trace = path / "trace.jsonl"
    text = trace.read_text("utf-8").replace(',"step":0', "")
    assert '"step":0' not in text
    trace.write_text(text, "utf-8")

    view = show_run(path).view
    deciding = view.deciding
    assert deciding is not None
    assert deciding.text == toasts[0].problem
    assert deciding.step == step
    assert deciding.pair.left_name == place
    assert [shown.number for shown in view.steps if shown.is_deciding] == [step]


def test_claim_is_shown_with_its_region(
    judged: Callable[..., list[Judged]], write_run, one_click
) -> None:
    events = [*judged("one"), DONE, *judged("two")]
    view = show_run(write_run(one_click, events=events)).view
    assert [claim.pair.regions for claim in view.claims] == [[BOX], [BOX]]


@pytest.fixture
def trace(drifted) -> Path:
    """The trace of a run."""
    return drifted() / "trace.jsonl"


def problem_of(trace: Path, content: bytes) -> str:
    """Return what is wrong with a run whose trace is that; "" if it can be shown."""
    trace.write_bytes(content)
    return str(show_run(trace.parent).view.problem)


def test_trace_cut_before_start_cannot_be_shown(trace: Path) -> None:
    content = trace.read_bytes()
    header, start, *_ = content.splitlines(keepends=True)
    needed = len(header + start)
    sizes = [*range(0, len(content), 397), needed - 1, needed, len(content) - 1]
    shown = [size for size in sizes if not problem_of(trace, content[:size])]
    assert shown == [size for size in sizes if size >= needed]


def test_trace_cut_within_line_names_it(trace: Path) -> None:
    lines = trace.read_bytes().splitlines(keepends=True)
    cut = b"".join(lines[:3]) + lines[3][:9]
    assert problem_of(trace, cut) == ""
    damage = "trace.jsonl ends in the middle of line 4: that line is left out"
    assert show_run(trace.parent).view.damage == [damage]


def test_damaged_lines_and_result_are_named(trace: Path) -> None:
    lines = trace.read_bytes().split(b"\n")
    lines[2] = b"\xff\x00 nothing"
    lines[3] = b'{"kind":"step","step":{"number":"x"}}'
    trace.write_bytes(b"\n".join(lines))
    newer = '{"format": "pytest-vnc-use result", "version": 99}'
    trace.with_name("result.json").write_text(newer)
    of_result, *of_trace = show_run(trace.parent).view.damage
    assert "result.json must be" in of_result
    assert of_trace == [
        "line 3 of trace.jsonl is damaged: it is left out",
        "line 4 of trace.jsonl is damaged: it is left out",
    ]


def test_trace_of_newer_version_gives_page_that_says_so(
    trace: Path, tmp_path: Path
) -> None:
    newer = trace.read_bytes().replace(b'"version":1', b'"version":99', 1)
    assert "newer pytest-vnc-use" in problem_of(trace, newer)
    page = html_of([trace.parent], tmp_path / "out", "run-1/index.html")
    assert "The run cannot be shown" in page


def test_link_is_neither_read_nor_written_through(drifted, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "program.txt").write_text("the secret of another")
    names = ("logs", "page", "trace", "result", "index")
    runs = [drifted(f"run-{name}", test=f"test_{name}") for name in names]
    logs, page, trace, result, index = runs
    (logs / "logs").symlink_to(outside)
    (page / "page").symlink_to(outside)
    (trace / "trace.jsonl").unlink()
    os.mkfifo(trace / "trace.jsonl")
    (result / "result.json").unlink()
    (result / "result.json").symlink_to(outside / "program.txt")
    (index / "index.html").mkdir()

    written = html_of(runs, logs.parent)
    assert [path.name for path in outside.iterdir()] == ["program.txt"]
    for path in logs.parent.rglob("*.html"):
        if path.is_file():
            assert "the secret of another" not in path.read_text("utf-8")
    assert written.count("its page is not written") == 2
    linked = [name for name in names if f'href="run-{name}/index.html' in written]
    assert linked == ["logs", "trace", "result"]


NO_SCREEN = FrameRef("0" * 64, 320, 200)
HEALED = Drift("other", NO_SCREEN, NO_SCREEN, BOX, healed=True)
ASKED = ApprovalRequest(1, Proposal(Wait()), Ruling("ask", "no rule matches"))
BY_PLANNER = "done, according to the planner"


@pytest.mark.parametrize(
    ("planner", "events", "phrase"),
    [
        ("recording", [], "replayed as recorded"),
        ("recording, and after a drift g", [HEALED], BY_PLANNER),
        ("gemini (g-3)", [], BY_PLANNER),
        ("manual", [], "done by a user"),
    ],
)
def test_outcome_done_names_planner_and_is_plain(
    write_run, planner: str, events: list[Drift], phrase: str
) -> None:
    run = write_run(end=DONE, planner=planner, events=events)
    assert format_outcome(read_trace(run)) == (phrase, "plain")


@pytest.mark.parametrize(
    ("events", "end", "phrase", "kind"),
    [
        ([], RunEnded(None, "", "ConnectionLost"), "failed with an error", "bad"),
        ([], None, "no end recorded: still running, or killed", "bad"),
        ([ASKED], None, "waits for approval", "doubt"),
        ([], RunEnded(Outcome.GAVE_UP, ""), "gave up", "doubt"),
        ([], RunEnded(Outcome.STEP_LIMIT, ""), "step limit reached", "doubt"),
        ([], RunEnded(Outcome.TIME_LIMIT, ""), "time limit reached", "doubt"),
        ([], RunEnded(Outcome.BUDGET, ""), "budget used up", "doubt"),
        ([], RunEnded(Outcome.DENIED, ""), "denied", "bad"),
        ([], RunEnded(Outcome.BLOCKED, ""), "blocked", "bad"),
    ],
)
def test_outcome_not_done_is_doubtful_or_bad(
    write_run,
    events: list[ApprovalRequest],
    end: RunEnded | None,
    phrase: str,
    kind: str,
) -> None:
    run = write_run(end=end, events=events)
    assert format_outcome(read_trace(run)) == (phrase, kind)
