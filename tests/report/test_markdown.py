"""A run as Markdown: what it shows, and that untrusted text stays within its quote."""

from __future__ import annotations

import shlex
from dataclasses import replace
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
EVIL = (
    "EVIL`` ``` ````\n\n# EVIL heading\n\n[EVIL](https://evil.example)"
    " <https://evil.example> https://evil.example <img src=x onerror=alert(1)><!-- EVIL"
    " @everyone #1 www.evil.example\r\n```\n~~~\n> EVIL\n- EVIL\n\n   "
    " EVIL\n\n***\n\nEVIL\n===\n&#35; \\` \u202e\u0000 $`EVIL`$ | EVIL |\n|---|---|"
)


def tokens(text: str) -> list[Any]:
    """Return what a parser of Markdown makes of a text, flat."""
    parser = (
        require_package("markdown_it")
        .MarkdownIt("commonmark")
        .enable(["table", "strikethrough"])
    )
    return [
        each
        for token in parser.parse(text)
        for each in (token, *(token.children or ()))
    ]


def append_start(run: Path, **changes: Any) -> None:
    """Change how a run began; its directory stays one's own."""
    RunDirectory.open(run).append(replace(read_trace(run).started, **changes))


@pytest.fixture
def drifted(write_run, make_step, frames) -> Path:
    """Return the directory of a replay that drifted after its second step."""
    steps = [
        make_step(
            1, Click(5, 6), "open it", elements=(Element("button", "Basket", BOX),)
        ),
        make_step(2, TypeText("alice"), elements=(Element("textbox", "User", BOX),)),
    ]
    drift = Drift(
        "312 pixels differ", frames[0].ref, frames[1].ref, Region(3, 4, 50, 60)
    )
    claim = Judged(
        Verdict(
            "two apples", "fails", "there are three", region=BOX, frame=frames[1].ref
        )
    )
    end = RunEnded(None, "the run failed", "RecordingDrifted: 312 pixels differ")
    path: Path = write_run(
        steps,
        end,
        events=[drift, claim],
        planner="recording",
        task="Buy <secret:CARD> apples",
    )
    append_start(path, test_id="tests/test_shop.py::test_buy[a b]")
    write_finished_test(
        path,
        FinishedTest(
            "tests/test_shop.py::test_buy[a b]",
            "failed",
            triage="inconclusive",
            rule="a gate",
        ),
    )
    return path


def test_links_lead_to_files_of_run(drifted: Path) -> None:
    assert "index.html" not in run_markdown(drifted, drifted)[0], "there is no page yet"
    write_report([drifted], drifted.parent)
    text = run_markdown(drifted, drifted.parent.parent)[0]
    assert (
        "python -m pytest 'tests/test_shop.py::test_buy[a b]' --vnc-record=replay"
        in text
    )
    links = [each.attrs["href"] for each in tokens(text) if each.type == "link_open"]
    assert len(links) > 8
    assert all(
        (drifted.parent.parent / link.partition("#")[0]).exists() for link in links
    )


def test_text_of_anybody_stays_within_its_quote(write_run, make_step, frames) -> None:
    steps = [
        make_step(
            1,
            Click(5, 6),
            EVIL,
            elements=(Element(EVIL, EVIL, BOX),),
            text=EVIL,
            error=EVIL,
        ),
        make_step(
            2,
            TypeText(EVIL),
            EVIL,
            elements=(Element(EVIL, "", BOX),),
            output=EVIL,
            note=EVIL,
        ),
        make_step(3, CallFunction(EVIL, {EVIL: EVIL})),
        make_step(
            4,
            KeyCombo((EVIL,)),
            url=EVIL,
            transient_frames=(frames[2].ref, replace(frames[1].ref, digest=EVIL)),
        ),
    ]
    events = [
        Drift(EVIL, frames[0].ref, replace(frames[1].ref, digest=EVIL), BOX),
        Transient(EVIL, frames[1].ref, BOX),
        Judged(Verdict(EVIL, "fails", EVIL, model=EVIL, votes=("fails", "holds"))),
    ]
    run = write_run(
        steps,
        RunEnded(Outcome.GAVE_UP, EVIL, EVIL),
        task=EVIL,
        planner=EVIL,
        model=EVIL,
        events=events,
    )
    started = replace(
        read_trace(run).started, test_id=EVIL, expect=(EVIL,), server=EVIL
    )
    RunDirectory.open(run).append(started)
    write_finished_test(
        run, FinishedTest(EVIL, EVIL, EVIL, EVIL, EVIL, EVIL, EVIL, worker=EVIL)
    )
    text = run_markdown(run, run.parent)[0]
    found = tokens(text)
    types = {each.type for each in found}
    assert not types & {
        "html_block",
        "html_inline",
        "blockquote_open",
        "table_open",
        "code_block",
        "hr",
        "image",
    }
    assert all(
        each.attrs["href"].startswith("run-1")
        for each in found
        if each.type == "link_open"
    )
    outside = "".join(each.content for each in found if each.type == "text")
    for word in ("EVIL", "evil", "everyone", "www", "@", "#1", "onerror"):
        assert word not in outside
    starts = [
        number for number, each in enumerate(found) if each.type == "heading_open"
    ]
    titles = [found[each + 1].content for each in starts]
    assert (
        "; ".join(title for title in titles if "EVIL" not in title)
        == "What was to be done; What decided it; Steps; Claims; pytest's output;"
        " Repeat it; About the run"
    )
    assert titles[0].startswith("`")
    assert "\u202e" not in text
    assert "\x00" not in text
    assert "The command is left out" in text


@pytest.mark.parametrize("text", ["", "`", "``a", "a``", "a\n```\nb", "\\`"])
def test_quote_ends_after_text(text: str) -> None:
    parsed = tokens(f"before {code(text)} after\n\n{block(text)}\n\nlast")
    assert [
        token.type for token in parsed if token.type in ("code_inline", "fence")
    ] == ["code_inline", "fence"]
    outside = [
        token.content
        for token in parsed
        if token.type == "text" and token.content.strip()
    ]
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
    (line,) = (
        each
        for each in run_markdown(drifted, drifted)[0].splitlines()
        if each.startswith("cua-vnc run")
    )
    assert shlex.split(line) == [
        "cua-vnc",
        "run",
        "--vnc=localhost::5901",
        f"--task={task}",
        "--expect=it's done",
    ]


def test_command_prints_or_writes(
    drifted: Path, unrecorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "--markdown", str(drifted)]) == 0
    assert capsys.readouterr().out.startswith("# `tests/test_shop.py")
    assert main(["report", "--markdown", str(unrecorded)]) == 0
    error = (
        "RecordingError: there is no recording of 't.py::test_a' at 'here/a.json': run"
        " it with --vnc-record=auto"
    )
    assert (
        capsys.readouterr().out
        == f"# Run `run-0`\n\nThe run never started: `{error}`\n"
    )
    assert (
        main(
            ["report", "--markdown", str(drifted), "-o", str(tmp_path / "to" / "here")]
        )
        == 0
    )
    file = tmp_path / "to" / "here" / "run-1.md"
    assert capsys.readouterr().out == f"{file}\n"
    assert "(../../runs/run-1/screens/" in file.read_text("utf-8")
    damaged = drifted.parent / "run-2"
    damaged.mkdir()
    (damaged / "trace.jsonl").write_text("no JSON\n")
    assert main(["report", "--markdown", str(damaged)]) == 1
    assert "The run cannot be shown: `" in capsys.readouterr().out
    assert (
        main(["report", "--markdown", str(drifted.parent), "-o", str(tmp_path / "all")])
        == 1
    )
    assert {path.name for path in (tmp_path / "all").iterdir()} == {
        "run-0.md",
        "run-1.md",
        "run-2.md",
    }
    assert main(["report", str(drifted.parent), "-o", str(tmp_path / "pages")]) == 0, (
        "each page says it"
    )
