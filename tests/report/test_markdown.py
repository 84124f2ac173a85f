"""A run as Markdown: what it shows, and that untrusted text stays within its quote."""

from __future__ import annotations

import shlex
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from pytest_vnc_use.cli import main
from pytest_vnc_use.report.markdown import block, code, run_markdown
from pytest_vnc_use.report.pages import write_report
from pytest_vnc_use.runs.directory import (
    FinishedTest,
    RunDirectory,
    read_trace,
    write_finished_test,
)
from pytest_vnc_use.types import (
    CallFunction,
    Click,
    Drift,
    Judged,
    KeyCombo,
    Outcome,
    Region,
    RunEnded,
    Transient,
    TypeText,
    Verdict,
)
from pytest_vnc_use.types.elements import Element
from support.vnc_servers import require_package

BOX = Region(1, 2, 30, 40)
TEST = "tests/test_shop.py::test_buy[a b]"
EVIL = (
    "EVIL`` ``` ````\n\n# EVIL heading\n\n[EVIL](https://evil.example)"
    " <https://evil.example> https://evil.example <img src=x onerror=alert(1)><!-- EVIL"
    " @everyone #1 www.evil.example\r\n```\n~~~\n> EVIL\n- EVIL\n\n   "
    " EVIL\n\n***\n\nEVIL\n===\n&#35; \\` \u202e\u0000 $`EVIL`$ | EVIL |\n|---|---|"
)


def tokens(text: str) -> list[Any]:
    """Return what a parser of Markdown makes of a text, flat."""
    parser = require_package("markdown_it").MarkdownIt("commonmark")
    parser.enable(["table", "strikethrough"])
    flat: list[Any] = []
    for token in parser.parse(text):
        flat.append(token)
        flat += token.children or ()
    return flat


def contents(found: list[Any], kind: str) -> list[str]:
    return [token.content for token in found if token.type == kind]


def links(found: list[Any]) -> list[str]:
    return [token.attrs["href"] for token in found if token.type == "link_open"]


def append_start(run: Path, **changes: Any) -> None:
    """Change how a run began; its directory stays one's own."""
    RunDirectory.open(run).append(replace(read_trace(run).started, **changes))


@pytest.fixture
def drifted(write_run, make_step, frames) -> Path:
    """Return the directory of a replay that drifted after its second step."""
    button = Element("button", "Basket", BOX)
    field = Element("textbox", "User", BOX)
    steps = [
        make_step(1, Click(5, 6), "open it", elements=(button,)),
        make_step(2, TypeText("alice"), elements=(field,)),
    ]
    first, second, _ = [frame.ref for frame in frames]
    drift = Drift("312 pixels differ", first, second, Region(3, 4, 50, 60))
    claim = Verdict("two apples", "fails", "there are three", region=BOX, frame=second)
    end = RunEnded(None, "the run failed", "RecordingDrifted: 312 pixels differ")
    path: Path = write_run(
        steps,
        end,
        events=[drift, Judged(claim)],
        planner="recording",
        task="Buy <secret:CARD> apples",
    )
    append_start(path, test_id=TEST)
    ended = FinishedTest(TEST, "failed", triage="inconclusive", rule="a gate")
    write_finished_test(path, ended)
    return path


def test_links_lead_to_files_of_run(drifted: Path) -> None:
    assert "index.html" not in run_markdown(drifted, drifted)[0], "there is no page yet"
    write_report([drifted], drifted.parent)
    root = drifted.parent.parent
    text = run_markdown(drifted, root)[0]
    assert f"python -m pytest '{TEST}' --vnc-record=replay" in text
    paths = [link.partition("#")[0] for link in links(tokens(text))]
    assert len(paths) > 8
    assert [path for path in paths if not (root / path).exists()] == []


@pytest.fixture
def evil(write_run, make_step, frames) -> Path:
    """A run all of whose texts are hostile."""
    first, second, third = [frame.ref for frame in frames]
    no_frame = replace(second, digest=EVIL)
    named = {"elements": (Element(EVIL, EVIL, BOX),)}
    of_role = {"elements": (Element(EVIL, "", BOX),)}
    seen = {"transient_frames": (third, no_frame)}
    steps = [
        make_step(1, Click(5, 6), EVIL, **named, text=EVIL, error=EVIL),
        make_step(2, TypeText(EVIL), EVIL, **of_role, output=EVIL, note=EVIL),
        make_step(3, CallFunction(EVIL, {EVIL: EVIL})),
        make_step(4, KeyCombo((EVIL,)), url=EVIL, **seen),
    ]
    events = [
        Drift(EVIL, first, no_frame, BOX),
        Transient(EVIL, second, BOX),
        Judged(Verdict(EVIL, "fails", EVIL, model=EVIL, votes=("fails", "holds"))),
    ]
    end = RunEnded(Outcome.GAVE_UP, EVIL, EVIL)
    told = {"task": EVIL, "planner": EVIL, "model": EVIL}
    run: Path = write_run(steps, end, **told, events=events)
    append_start(run, test_id=EVIL, expect=(EVIL,), server=EVIL)
    ended = FinishedTest(EVIL, EVIL, EVIL, EVIL, EVIL, EVIL, EVIL, worker=EVIL)
    write_finished_test(run, ended)
    return run


def test_text_of_anybody_stays_within_its_quote(evil: Path) -> None:
    text = run_markdown(evil, evil.parent)[0]
    found = tokens(text)
    structures = {"blockquote_open", "table_open", "code_block", "hr"}
    foreign = {"html_block", "html_inline", "image"}
    assert not {token.type for token in found} & (structures | foreign)
    assert all(link.startswith("run-1") for link in links(found))
    outside = "".join(contents(found, "text"))
    words = ("EVIL", "evil", "everyone", "www", "@", "#1", "onerror")
    assert [word for word in words if word in outside] == []
    assert "\u202e" not in text
    assert "\x00" not in text
    assert "The command is left out" in text


def test_text_of_anybody_is_no_heading(evil: Path) -> None:
    found = tokens(run_markdown(evil, evil.parent)[0])
    after = pairwise(found)
    titles = [text.content for token, text in after if token.type == "heading_open"]
    assert titles[0].startswith("`")
    assert [title for title in titles if "EVIL" not in title] == [
        "What was to be done",
        "What decided it",
        "Steps",
        "Claims",
        "pytest's output",
        "Repeat it",
        "About the run",
    ]


@pytest.mark.parametrize("text", ["", "`", "``a", "a``", "a\n```\nb", "\\`"])
def test_quote_ends_after_text(text: str) -> None:
    parsed = tokens(f"before {code(text)} after\n\n{block(text)}\n\nlast")
    types = [token.type for token in parsed]
    assert types.count("code_inline") == types.count("fence") == 1
    assert types.index("code_inline") < types.index("fence")
    outside = [content for content in contents(parsed, "text") if content.strip()]
    assert outside == ["before ", " after", "last"]


def test_command_is_quoted(drifted: Path) -> None:
    task = "Buy '$(touch pwned)' \"now\""
    append_start(
        drifted,
        test_id="",
        task=task,
        expect=("it's done",),
        settings={"server": "localhost::5901"},
    )
    lines = run_markdown(drifted, drifted)[0].splitlines()
    (command,) = [line for line in lines if line.startswith("cua-vnc run")]
    assert shlex.split(command) == [
        "cua-vnc",
        "run",
        "--vnc=localhost::5901",
        f"--task={task}",
        "--expect=it's done",
    ]


def printed_markdown(*arguments: object) -> int:
    return main(["report", "--markdown", *map(str, arguments)])


def test_command_prints_run(drifted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed_markdown(drifted) == 0
    assert capsys.readouterr().out.startswith("# `tests/test_shop.py")


def test_command_prints_why_run_never_started(
    unrecorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert printed_markdown(unrecorded) == 0
    error = (
        "RecordingError: there is no recording of 't.py::test_a' at 'here/a.json': run"
        " it with --vnc-record=auto"
    )
    printed = capsys.readouterr().out
    assert printed == f"# Run `run-0`\n\nThe run never started: `{error}`\n"


def test_command_writes_file_and_prints_it(
    drifted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert printed_markdown(drifted, "-o", tmp_path / "to" / "here") == 0
    file = tmp_path / "to" / "here" / "run-1.md"
    assert capsys.readouterr().out == f"{file}\n"
    assert "(../../runs/run-1/screens/" in file.read_text("utf-8")


@pytest.fixture
def damaged(drifted: Path) -> Path:
    """A run whose trace cannot be read, beside a run that drifted."""
    run = drifted.parent / "run-2"
    run.mkdir()
    (run / "trace.jsonl").write_text("no JSON\n")
    return run


def test_command_on_damaged_run_exits_with_1(
    damaged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert printed_markdown(damaged) == 1
    assert "The run cannot be shown: `" in capsys.readouterr().out


def test_damaged_run_fails_markdown_but_no_pages(damaged: Path, tmp_path: Path) -> None:
    assert printed_markdown(damaged.parent, "-o", tmp_path / "all") == 1
    written = sorted(path.name for path in (tmp_path / "all").iterdir())
    assert written == ["run-1.md", "run-2.md"]
    pages = ["report", str(damaged.parent), "-o", str(tmp_path / "pages")]
    assert main(pages) == 0, "each page says it"
