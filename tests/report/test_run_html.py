"""The block of a run holds every step's picture, says all that happened, and lets nothing through unescaped."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from PIL import Image

from pytest_vnc_use.report.annotate import action_path, region_path
from pytest_vnc_use.report.assets import AssetLink, data_uri, thumbnail
from pytest_vnc_use.report.html import run_html
from pytest_vnc_use.types import (
    ApprovalAsked,
    Click,
    Drifted,
    Extracted,
    Judged,
    KeyCombo,
    ModelExchange,
    Outcome,
    Proposal,
    Reading,
    Region,
    Ruling,
    RunEnded,
    StepStarted,
    Transient,
    TypeText,
    Usage,
    Verdict,
)
from support.vnc_servers import require

DONE = RunEnded(Outcome.DONE, "The basket is open.")
SIZE = (320, 200)


def evil(place: str) -> str:
    return f"</p><script>alert('{place}')</script><img src=x onerror=alert(2)>"


class Page(HTMLParser):
    """The content that a browser reads from a block: tags, visible text, pictures and the marks over them."""

    def __init__(self, block: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.pictures: list[str] = []
        self.marks: list[str] = []
        self.figures: list[str] = []
        self.text = ""
        self.feed(block)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.open.append(tag)
        if tag == "figure":
            self.figures.append(dict(attrs)["class"])

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.pictures += [value for name, value in attrs if name == "href"]
        if tag == "path" and ("class", "vnc-under") not in attrs:
            self.marks.append(dict(attrs)["d"])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.text += f"{data}\n"


def page_of(run) -> Page:
    return Page(run_html(run, link=data_uri))


def test_every_step_has_its_picture_then_comes_the_last_frame(write_run, make_step, frames):
    clicks = [Click(50, 50), Click(90, 90), KeyCombo(("ctrl", "s"))]
    page = page_of(write_run([make_step(number, click) for number, click in enumerate(clicks, 1)], DONE))
    assert page.pictures == [*3 * [data_uri(frames[0].png)], data_uri(frames[1].png)]
    assert page.marks == [action_path(click, SIZE) for click in clicks[:2]]


def test_pictures_may_be_the_runs_own_files_beside_the_report(write_run, make_step, frames):
    run = write_run([make_step(1, Click(50, 50))], DONE)
    link = AssetLink("assets/")
    page = Page(run_html(run, link=link))
    assert [link.pictures[address.removeprefix("assets/")] for address in page.pictures] == [
        frames[0].png,
        frames[1].png,
    ]
    assert all((run / "screens" / name).is_file() for name in link.pictures)


def test_the_header_tells_task_outcome_planner_and_run_folder(write_run, make_step):
    run = write_run([make_step(1, Click(5, 5))], DONE)
    text = page_of(run).text
    for fact in [
        "Open the basket",
        "done, says the planner",
        "The basket is open.",
        "scripted planner, no model was asked",
        "none, no claim was judged",
        "1 of at most 40",
        str(run),
    ]:
        assert f"{fact}\n" in text


def test_requests_that_were_sent_again_are_counted(write_run):
    again = ModelExchange("planner", 1, {}, None, 0.5, error="503", retry_in_s=2.0)
    answered = ModelExchange("planner", 2, {}, {}, 0.5)
    assert "retries\n1 among 2 requests to a model\n" in page_of(write_run(events=[again, answered])).text


def test_a_step_tells_what_and_why(write_run, make_step):
    steps = [
        make_step(1, TypeText("alice", press_enter=True), "Sign in.", words="unused"),
        make_step(2, Click(5, 5), words="The turn's reason.", output="2", note="You did this before."),
    ]
    text = page_of(write_run(steps, DONE)).text
    assert '1. type "alice", then press Enter\nSign in.\n' in text
    assert "2. click at (5, 5)\nThe turn's reason.\nreturned: 2\nthe planner is told: You did this before.\n" in text


def test_failed_and_denied_steps_stand_out(write_run, make_step):
    denial = Ruling("deny", "rule 1 'no'", "rule 1 'no' (in p.toml): the action is denied")
    steps = [
        make_step(1, Click(5, 5)),
        make_step(2, Click(6, 6), error="the point is off the screen"),
        make_step(3, Click(7, 7), ruling=denial, error="denied by rule 1 'no'"),
    ]
    page = page_of(write_run(steps, DONE))
    assert page.figures == ["vnc-plain", "vnc-bad", "vnc-bad", "vnc-plain"]
    assert "failed\n2. click at (6, 6)\nthe point is off the screen\n" in page.text
    assert f"denied\n3. click at (7, 7)\ndenied by the policy: {denial.explanation}\n" in page.text


def test_nothing_of_what_others_say_is_markup(write_run, make_step, frames):
    said = []

    def say(place: str) -> str:
        said.append(evil(place))
        return said[-1]

    ruling = Ruling("allow", say("rule"), say("explanation"))
    more = {"error": say("error"), "output": say("output"), "note": say("note")}
    step = make_step(1, TypeText(say("typed")), say("intent"), ruling=ruling, **more)
    verdict = Verdict(say("claim"), "fails", say("reason"), frame=frames[0].ref, model=say("judge"))
    end = RunEnded(None, say("message"), say("end"))
    page = page_of(write_run([step], end, task=say("task"), planner=say("planner"), events=[Judged(verdict)]))
    assert not {"script", "img"} & set(page.tags)
    assert [words for words in said if words not in page.text] == []


def test_a_verdict_is_worded_coloured_and_its_region_drawn(write_run, frames):
    verdicts = [
        Verdict("two apples", "fails", "there is one", Region(20, 20, 90, 60), frames[2].ref, "g-3"),
        Verdict("signed in", "holds", "the name is shown", Region(5, 5, 30, 30)),
        Verdict("sent", "unsure", "no model is configured"),
    ]
    page = page_of(write_run(end=DONE, events=[Judged(verdict) for verdict in verdicts]))
    assert page.figures == ["vnc-bad", "vnc-doubt", "vnc-plain", "vnc-good"], "what decides comes first"
    assert page.pictures == [
        data_uri(frames[2].png),
        *3 * [data_uri(frames[0].png)],
    ]
    assert page.marks == [region_path(region, SIZE) for region in (Region(20, 20, 90, 60), Region(5, 5, 30, 30))]
    assert "fails\ntwo apples\nthere is one\njudged by g-3\n" in page.text
    assert "unsure\nsent\nno model is configured\nno model judged\n" in page.text
    assert "claim fails\nclaim holds\nclaim unsure\n" in page.text


def test_thumbnails_are_small_and_open_the_page_at_their_step(write_run, make_step):
    run = write_run([make_step(1, Click(5, 5)), make_step(2, Click(6, 6))], DONE)
    block = run_html(run, link=thumbnail, page="runs/run-1/index.html", sentence="all is well", are_thumbs=True)
    assert len(re.findall(r'style="background-image: url\(data:image/webp;base64,[\w+/=]+\)"', block)) == 3
    assert not Page(block).pictures, "a browser reads an SVG image in a collapsed row too"
    assert Page(block).marks == [action_path(Click(at, at), SIZE) for at in (5, 6)]
    links = re.findall(r'<a class="vnc-thumb" href="(.*?)"', block)
    assert links == [f"runs/run-1/index.html{step}" for step in ("#step-1", "#step-2", "")]
    assert "all is well" in Page(block).text


def test_votes_and_looks_are_told(write_run):
    verdict = Verdict("saved", "holds", "a toast", model="g-3", votes=("holds", "fails", "holds"), looks=2)
    page = page_of(write_run(end=DONE, events=[Judged(verdict)]))
    assert "judged by g-3; votes: holds, fails, holds; asked on 2 screens\n" in page.text


def test_a_drift_at_which_a_model_went_on_is_not_called_healed(write_run, frames):
    """pytest-html's block is made before the test's teardown, so nobody knows whether the test passes."""
    drift = Drifted("another button", frames[0].ref, frames[1].ref, Region(20, 20, 90, 60), healed=True)
    page = Page(run_html(write_run(events=[drift]), link=data_uri))
    assert page.text.count("a model went on\n") == 2
    assert "healed" not in page.text


def test_what_was_there_for_a_moment_is_shown_with_its_region(write_run, frames):
    box = Region(20, 20, 90, 60)
    page = Page(run_html(write_run(events=[Transient(evil("toast"), frames[1].ref, box)]), link=data_uri))
    assert page.pictures[1:] == [data_uri(frames[1].png)]
    assert page.marks == [region_path(box, SIZE)]
    assert "not when it was recorded" in page.text
    assert evil("toast") in page.text
    assert "script" not in page.tags


def test_what_was_read_is_shown_with_its_region_and_what_is_wrong_with_it(write_run, frames):
    read = Reading("what is in it?", {"apples": 2}, "2 <b>", Region(20, 20, 90, 60), frames[2].ref, "g-3", Usage(700))
    wrong = Reading("and now?", "two", "it says two", model="g-3")
    page = page_of(write_run(end=DONE, events=[Extracted(read, "Basket"), Extracted(wrong, "int", "no integer")]))
    assert page.figures == ["vnc-plain", "vnc-plain", "vnc-doubt"]
    assert page.pictures[1:] == [data_uri(frames[2].png)]
    assert page.marks == [region_path(Region(20, 20, 90, 60), SIZE)]
    assert 'read as Basket\nwhat is in it?\nread: {"apples": 2}\n2 <b>\nread by g-3\n' in page.text
    assert 'it is no int\nand now?\nread: "two"\nno integer\nit says two\nread by g-3\n' in page.text
    assert "700 in" in page.text


# --- runs that broke -------------------------------------------------------------------------------------------------


def test_a_run_that_broke_before_its_first_step(write_run, frames):
    page = page_of(write_run(end=RunEnded(None, "the run broke", "ConnectionLost: gone")))
    assert page.pictures == [data_uri(frames[0].png)]
    assert "broke\nthe run broke\nConnectionLost: gone\n" in page.text
    assert "no step was taken" in page.text


def test_a_killed_run_shows_the_step_it_had_begun(write_run, make_step, frames):
    begun = StepStarted(2, 2, Proposal(Click(60, 60), "Open it."), Ruling("allow", "harmless"))
    page = page_of(write_run([make_step(1, Click(5, 5))], events=[begun]))
    assert page.pictures[1] == data_uri(frames[1].png)
    assert page.marks[1] == action_path(Click(60, 60), SIZE)
    assert "failed\n2. click at (60, 60)\nOpen it.\nbegun and never finished" in page.text
    assert "no end recorded" in page.text


def test_what_was_shown_in_between_stands_with_the_step(write_run, make_step, frames):
    run = write_run([make_step(1, Click(5, 5), passed=(frames[2].ref,)), make_step(2, Click(6, 6))], DONE)
    page = page_of(run)
    assert page.pictures[1] == data_uri(frames[2].png)
    assert len(page.pictures) == 4
    assert page.text.count("shown in between:") == 1
    assert page.text.index("1. click") < page.text.index("shown in between:") < page.text.index("2. click")


def test_a_trace_from_before_passing_frames_is_shown(write_run, make_step):
    run = write_run([make_step(1, Click(5, 5))], DONE)
    trace = run / "trace.jsonl"
    lines = [json.loads(line) for line in trace.read_text("utf-8").splitlines()]
    for line in lines:
        line.get("step", {}).pop("passed", None)
    trace.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    assert '"passed"' not in trace.read_text("utf-8")
    page = page_of(run)
    assert len(page.pictures) == 2
    assert "shown in between" not in page.text


def test_a_waiting_run_shows_what_it_waits_with(write_run, frames):
    asked = ApprovalAsked(1, Proposal(Click(60, 60)), Ruling("ask", "no rule matches", "it pays"))
    page = page_of(write_run(events=[asked]))
    assert page.figures == ["vnc-doubt", "vnc-doubt"]
    assert page.pictures[0] == data_uri(frames[0].png)
    assert page.marks == [action_path(Click(60, 60), SIZE)]
    assert "waits for a yes\n1. click at (60, 60)\nwaits for a yes: no rule matches: it pays\n" in page.text


def test_a_missing_picture_is_told_and_the_rest_is_shown(write_run, make_step, frames):
    run = write_run([make_step(1, Click(5, 5))], DONE)
    (run / "screens" / f"{frames[0].ref.digest}.png").unlink()
    page = page_of(run)
    assert page.pictures == [data_uri(frames[1].png)]
    assert f"no picture: the screen '{frames[0].ref.digest}' cannot be read" in page.text


def test_what_is_no_run_folder_is_told(tmp_path):
    assert "cannot be shown\n" in page_of(tmp_path).text
    assert "is not a run folder" in page_of(tmp_path).text


# --- in pytest-html --------------------------------------------------------------------------------------------------

CONFTEST = """
import base64, pathlib, pytest
from pytest_vnc_use.report.html import run_html
from pytest_vnc_use.report.assets import AssetLink, data_uri, keep_asset

@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.when == "call":
        whole = item.config.option.self_contained_html
        assets = AssetLink("assets/")
        block = run_html(pathlib.Path({run!r}), link=data_uri if whole else assets)
        for name, png in assets.pictures.items():
            keep_asset(pathlib.Path("assets", name), png)
        others = base64.b64encode(pathlib.Path({picture!r}).read_bytes()).decode()
        report.extras = [
            dict(name=None, format_type="html", content=block, mime_type=None, extension=None),
            dict(name="another's", format_type="image", content=others, mime_type="image/png", extension="png"),
        ]
    return report
"""


@pytest.fixture
def html_report(pytester, write_run, make_step, frames):
    """`html_report(*options)`: path of a report with a run's block, and a picture of somebody else's."""
    run = write_run([make_step(1, Click(50, 50), evil("intent"))], DONE, task=evil("task"))
    picture = run / "screens" / f"{frames[2].ref.digest}.png"
    pytester.makeconftest(CONFTEST.format(run=str(run), picture=str(picture)))
    pytester.makepyfile("def test_it(): pass")

    def html_report(*options: str):
        pytester.runpytest_subprocess("--html=report.html", "-o", "render_collapsed=none", *options)
        return pytester.path / "report.html"

    return html_report


def test_a_self_contained_report_holds_the_block(html_report, frames):
    assert _pictures_in(html_report("--self-contained-html")) == [
        data_uri(frames[0].png),
        data_uri(frames[1].png),
    ]


def test_a_report_with_assets_finds_its_pictures(html_report, frames):
    report = html_report()
    pictures = [(report.parent / address).read_bytes() for address in _pictures_in(report)]
    assert pictures == [frames[0].png, frames[1].png]


def _pictures_in(report) -> list[str]:
    blob = re.search(r'data-jsonblob="(.*?)"', report.read_text("utf-8"))
    (tests,) = json.loads(html.unescape(blob[1]))["tests"].values()
    (block,) = [extra["content"] for extra in tests[0]["extras"] if extra["format_type"] == "html"]
    return Page(block).pictures


@pytest.mark.browser
def test_a_browser_shows_the_block_and_leaves_pictures_of_others_alone(html_report, frames, chromium):
    dom = chromium(html_report("--self-contained-html"))
    block, rest = dom[dom.index('<div class="vnc-run">') :].split('<div class="media', 1)
    assert data_uri(frames[0].png) in block
    assert f'd="{action_path(Click(50, 50), SIZE)}"' in block
    assert html.escape(evil("intent"), quote=False) in block
    assert data_uri(frames[2].png) not in block
    assert f'<img src="{data_uri(frames[2].png)}"' in rest


@pytest.mark.browser
def test_a_drift_is_seen_without_enlarging_it_and_its_frame_covers_nothing_of_it(write_run, drift, chromium, tmp_path):
    page, shot = tmp_path / "page.html", tmp_path / "page.png"
    page.write_text(run_html(write_run(events=[drift]), link=data_uri), encoding="utf-8")
    chromium(page, "--window-size=1280,900", f"--screenshot={shot}")
    with Image.open(shot) as picture:
        counts = {colour: count for count, colour in picture.convert("RGB").getcolors(1 << 24)}
    assert counts[0, 0, 255] == counts[0, 255, 0] > 40 * 20
    assert counts[230, 0, 126] > 100


@pytest.mark.parametrize(
    ("region", "zoom"),
    [
        (Region(1077, 791, 1117, 811), "scale(3.000) translate(-857.0px, -600.0px)"),
        (Region(0, 0, 10, 10), "scale(3.000) translate(-0.0px, -0.0px)"),
        (Region(0, 0, 1440, 900), "scale(1.000) translate(-0.0px, -0.0px)"),
    ],
)
def test_of_a_drift_the_surroundings_are_shown(write_run, drift, region, zoom):
    block = run_html(write_run(events=[replace(drift, region=region)]), link=data_uri)
    assert block.count(f'style="--zoom: {zoom}"') == 2


@pytest.fixture
def chromium(tmp_path):
    """`chromium(page)`: the page's document after its scripts have run, or what other `output` is asked for."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        require("chromium")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]

    def chromium(page, *output) -> str:
        profile = f"--user-data-dir={tmp_path / 'profile'}"
        command = [program, *options, *(output or ["--dump-dom"]), profile, page.as_uri()]
        return subprocess.run(command, check=True, capture_output=True, encoding="utf-8", timeout=400).stdout

    return chromium


def test_a_run_without_a_recording_is_told_as_such(unrecorded):
    told = "RecordingError: there is no recording of 't.py::test_a' at 'here/a.json': run it with --vnc-record=auto"
    assert page_of(unrecorded).text.strip() == f"never started\n{told}"
