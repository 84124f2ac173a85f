"""A session as its page, its links and its merged results show it: each test once, and
whatever else is wrong.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_vnc_use.cli import main
from pytest_vnc_use.errors import RunDirectoryError
from pytest_vnc_use.report.pages import write_report, write_run_page, write_session
from pytest_vnc_use.report.reliability import NEAR_PX, reliabilities, same_step
from pytest_vnc_use.report.results import (
    ItemResult,
    RunFigures,
    SessionResults,
    read_results,
    session_problems,
    session_results,
    write_results,
)
from pytest_vnc_use.report.run_view import show_run
from pytest_vnc_use.report.session_view import (
    KnownResults,
    RunSummary,
    session_view,
    summary_of,
)
from pytest_vnc_use.report.sessions import merged, results_beside
from pytest_vnc_use.runs.directory import (
    FinishedTest,
    RunDirectory,
    write_finished_test,
)
from pytest_vnc_use.types import (
    Action,
    Click,
    Drag,
    FrameRef,
    Outcome,
    Proposal,
    Ruling,
    RunEnded,
    RunStarted,
    Scroll,
    Step,
    TypeText,
    Wait,
)
from support.terminal import Terminal

DONE = RunEnded(Outcome.DONE, "the basket is open")
PASSED, FAILED = (
    ItemResult("t.py::test_a", "passed"),
    ItemResult("t.py::test_b", "failed", "product", dollars=0.5),
)
LOST = ItemResult(
    "test_lost", "error", "infra", "the test did not end", "worker 'gw0' crashed"
)
PAGE = "https://github.test/us/shop/actions/runs/1/artifacts/2"
RESULTS = "vnc-results.json"
NONE_RAN = "at least one job must run a test on a desktop, none did"
NO_JOB = (
    "'jobs/2' must have one vnc-results.json below it, it has none: its job did not end"
)
Made = Callable[..., Path]


@pytest.fixture
def made(write_run, make_step) -> Made:
    """`made(name, ended)`: the directory of a done run, whose test ended so."""

    def made(name: str, ended: FinishedTest | None = None) -> Path:
        path = write_run([make_step(1, Click(5, 5))], DONE)
        path = path.rename(path.with_name(name))
        if ended:
            write_finished_test(path, ended)
        return path

    return made


def shown(*runs: Path) -> list[RunSummary]:
    return [summary_of(show_run(run), "") for run in runs]


def figures(*runs: Path) -> tuple[RunFigures, ...]:
    return tuple(RunFigures(str(run)) for run in runs)


def part(
    *tests: ItemResult, started: str = "2026-01-01T03:00:00", **more: object
) -> SessionResults:
    return replace(session_results(started, "2026-01-01T03:10:00", tests), **more)


def test_failed_test_without_run_is_listed(made: Made, tmp_path: Path) -> None:
    run = made("made-1", FinishedTest("test_fine", "passed"))
    known = KnownResults([ItemResult("test_fine", "passed", runs=figures(run)), LOST])
    view = session_view(shown(run), known)
    assert view.title == "1 of 2 tests did not pass"
    assert [(test.test, test.triage, test.message) for test in view.tests] == [
        ("test_lost", "infra", "worker 'gw0' crashed"),
        ("test_fine", "", ""),
    ]
    for one_file in (False, True):
        page = write_report(
            [run], tmp_path / f"out-{one_file}", known, one_file=one_file
        ).read_text("utf-8")
        assert "1 of 2 tests did not pass" in page
        assert "worker &#39;gw0&#39; crashed" in page


@pytest.mark.parametrize("has_results", [False, True])
@pytest.mark.parametrize(
    "stored",
    [None, FinishedTest("test_it", "crashed"), FinishedTest("test_it", "failed")],
)
def test_result_of_session_or_run_is_no_pass(
    made: Made, stored: FinishedTest | None, has_results: bool
) -> None:
    """A word that pytest does not know is no pass, nor is a damaged file."""
    run = made("made-1", stored)
    if stored and stored.result == "failed":
        (run / "result.json").write_text("{")
    result = ItemResult(
        "test_it", stored.result if stored else "failed", "product", runs=figures(run)
    )
    (test,) = session_view(
        shown(run), KnownResults([result] if has_results else [])
    ).tests
    assert test.is_bad == (has_results or stored is not None)


def test_pass_that_run_directory_denies_is_no_pass(made: Made) -> None:
    run = made(
        "made-1", FinishedTest("test_a", "failed", message="the basket is empty")
    )
    view = session_view(
        shown(run), KnownResults([ItemResult("test_a", "passed", runs=figures(run))])
    )
    assert view.title == "1 of 1 test did not pass"
    (line,) = view.tests
    assert line.message == "the directory of its run has failed: the basket is empty"
    assert line.more == "the result beside the runs is passed"


def test_test_without_result_did_not_end(tmp_path: Path, frames) -> None:
    directory = RunDirectory.create(tmp_path, "run-1")
    directory.append(
        RunStarted(
            "run-1",
            "Click",
            "2026-01-02T03:04:05+00:00",
            "scripted",
            frames[0].ref,
            test_id="t",
        )
    )
    directory.append(DONE)
    view = session_view(shown(directory.path))
    assert (view.title, view.tests[0].result) == (
        "1 of 1 test did not pass",
        "did not end",
    )
    assert show_run(directory.path).view.sentence.startswith("The test did not end")


TRIES = [
    FinishedTest("test_it", "failed", triage="product", seconds=1.0),
    FinishedTest("test_it", "passed", attempt=2, seconds=2.0),
    FinishedTest("test_it", "failed", is_rehearsal=True, seconds=3.0),
]


@pytest.mark.parametrize("has_results", [False, True])
def test_last_attempt_decides_test(made: Made, has_results: bool) -> None:
    runs = [
        made(f"made-{number}", ended) for number, ended in enumerate(TRIES, start=1)
    ]
    result = ItemResult(
        "test_it",
        "passed",
        duration_s=6.0,
        retried_for=("product",),
        runs=figures(*runs),
    )
    view = session_view(shown(*runs), KnownResults([result] if has_results else []))
    assert view.title == "1 test, none failed"
    (test,) = view.tests
    assert (test.more, test.duration_s) == ("attempt 2", 6.0)
    assert [run.path.name for run in test.runs] == ["made-2"]
    aside = [(name, run.path.name) for name, run in test.aside]
    assert aside == [("attempt 1: failed", "made-1"), ("rehearsal: failed", "made-3")]
    result = ItemResult(
        "test_it", "error", "infra", retried_for=("product",), runs=figures(runs[0])
    )
    (test,) = session_view(shown(runs[0]), KnownResults([result])).tests
    assert (test.is_bad, test.runs, len(test.aside)) == (
        True,
        [],
        1,
    ), "it failed before its second run"


def test_second_session_and_rehearsal_alone_are_no_attempts(made: Made) -> None:
    runs = [
        made(f"made-{number}", FinishedTest("test_it", "passed", seconds=number))
        for number in (1, 2)
    ]
    assert session_view(shown(*runs)).title == "2 tests, none failed"
    view = session_view(shown(made("made-3", TRIES[2]), made("made-4", TRIES[1])))
    assert view.title == "1 test, none failed"
    assert sorted(test.result for test in view.tests) == ["passed", "rehearsal"]
    assert [badge.text for badge in view.counts] == ["1 passed"]
    assert view.facts[:2] == [("tests", "1"), ("not counted", "1 rehearsal")]


def test_same_cause_is_grouped_across_test_names() -> None:
    names = [
        "a/t.py::test_open",
        "a/t.py::test_9",
        "t.py::test_p[x y]",
        "t.py::TestIt::test_open",
        "t.py::test_p[2]",
    ]
    causes = [
        [
            f"there is no recording of {each.rpartition('/')[2]!r} at '/r/{each}.json'"
            for each in names
        ],
        ["claim 'it is open' fails"],
        ["it took 3.2 s", "it took 4.9 s"],
        ["no such file: '/tmp/a/one'", "no such file: '/tmp/b/two'"],
        ["assert 'a' == 'b'"],
    ]
    failed = [
        ItemResult(name, "failed", message=text)
        for texts in causes
        for name, text in zip(names, texts, strict=False)
    ]
    groups = session_view([], KnownResults(failed)).groups
    assert sorted([test.message for test in group] for group in groups) == sorted(
        causes
    )


def test_title_names_other_problems_and_missing_results(
    made: Made, tmp_path: Path
) -> None:
    problems = [
        ("", "pytest ended with exit status 7"),
        ("", "t.py could not be collected"),
    ]
    title = session_view([], KnownResults([PASSED], problems[:1])).title
    assert title == "1 test, none failed; but pytest ended with exit status 7"
    assert session_view([], KnownResults([PASSED], problems)).title.endswith(
        "status 7; and 1 more"
    )
    lost = ItemResult("test_it", "passed", runs=(RunFigures("runs/lost"),))
    assert (
        session_view([], KnownResults([lost])).tests[0].more
        == "1 of its runs is missing"
    )
    run = made("made-1", FinishedTest("test_fine", "passed"))
    assert main(["report", str(run), "-o", str(tmp_path / "out")]) == 0
    page = (tmp_path / "out" / "index.html").read_text("utf-8")
    assert (
        "1 test listed did not fail; but the results of the session were not found"
        in page
    )


def test_last_session_of_run_directory_is_reported(
    made: Made,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    earlier = made("made-1", FinishedTest("test_a", "failed", message="of yesterday"))
    trace = earlier / "trace.jsonl"
    header, rest = trace.read_text().split("\n", 1)
    trace.write_text(
        json.dumps({**json.loads(header), "started_at": 1e9}) + "\n" + rest
    )
    runs = tmp_path / "runs"
    tests = [
        ItemResult(
            "test_a",
            "passed",
            runs=figures(made("made-2", FinishedTest("test_a", "passed"))),
        )
    ]
    write_results(runs / RESULTS, part(*tests, started="2002-01-01T03:00:00+00:00"))
    assert main(["report", str(runs)]) == 0
    assert (
        capsys.readouterr().err
        == "1 run of earlier sessions is left out. To see one, name its directory\n"
    )
    page = (runs / "index.html").read_text("utf-8")
    assert ("1 test, none failed" in page, "of yesterday" in page) == (True, False)
    monkeypatch.chdir(tmp_path)
    assert main(["report", str(earlier.relative_to(tmp_path)), "--markdown"]) == 0
    assert "of yesterday" in capsys.readouterr().out


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Jobs 1 and 3 of three, and the file for GitHub's summary."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    for job, test in (("1", PASSED), ("3", ItemResult("t.py::test_c | `c`", "passed"))):
        write_results(Path("jobs", job, "runs", RESULTS), part(test))
    return tmp_path


def merge(*words: str) -> int:
    return main(["report", "-o", "r", "--merge", *words])


def test_merged_jobs_have_each_test_once() -> None:
    whole = merged(
        {"1": part(PASSED), "2": part(FAILED, started="2026-01-01T02:00:00")}
    )
    assert [test.test for test in whole.tests] == ["t.py::test_a", "t.py::test_b"]
    assert (whole.totals.tests, whole.totals.results, whole.totals.dollars) == (
        2,
        {"passed": 1, "failed": 1},
        0.5,
    )
    assert (whole.started_at, whole.ended_at) == (
        "2026-01-01T02:00:00",
        "2026-01-01T03:10:00",
    )
    assert whole.problems == ()
    bad = ItemResult("t.py::test_a", "error", "infra")
    for order in (
        {"1": part(PASSED), "2": part(bad)},
        {"1": part(bad), "2": part(PASSED)},
    ):
        assert merged(order).tests == (bad,)
        assert merged(order).problems == (
            "t.py::test_a is in 1 and in 2: each test must be in one of them",
        )


def test_merged_repetitions_are_counted_together() -> None:
    one, two = (
        ItemResult(f"t.py::test_a[run{number}]", result)
        for number, result in ((1, "passed"), (2, "failed"))
    )
    parts = {name: part(test) for name, test in (("1", one), ("2", two))}
    assert merged(parts).reliability == (), "the ids only look like repetitions"
    each = {
        name: replace(p, reliability=reliabilities(p.tests, 2))
        for name, p in parts.items()
    }
    (reliability,) = merged(each).reliability
    assert (reliability.repeated, reliability.passed) == (2, 1)


def test_merge_writes_results_page_and_summary(
    jobs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert merge("jobs/1", "jobs/3") == 0
    assert (
        capsys.readouterr().out
        == f"0 runs in r/index.html\n2 passed in 2 of 2 jobs: r/{RESULTS}\n"
    )
    assert [test.test for test in read_results(Path("r", RESULTS)).tests] == [
        "t.py::test_a",
        "t.py::test_c | `c`",
    ]
    assert "2 passed" in Path("summary.md").read_text()
    write_results(Path("empty", RESULTS), part(exit_status=5))
    assert merge("jobs/1", "empty") == 0, "a job without a test is fine beside others"
    for bad in (FAILED, ItemResult("t.py::test_a", "crashed")):
        write_results(Path("jobs/1/runs", RESULTS), part(bad))
        assert merge("jobs/1", "jobs/3") == 1


@pytest.mark.parametrize(
    ("arguments", "read", "problem"),
    [
        (["jobs/1", "jobs/2", "jobs/3"], "2 passed in 2 of 3 jobs", NO_JOB),
        (
            ["jobs/1", "jobs/3", "--jobs=4"],
            "2 passed in 2 of 4 jobs",
            "2 of 4 jobs are missing",
        ),
        (
            ["jobs/1", "jobs/1/runs"],
            "1 passed in 1 of 2 jobs",
            "'jobs/1/runs' must be another job's, it has the res",
        ),
        (["empty/8", "empty/9"], "no tests in 2 of 2 jobs", NONE_RAN),
        (
            ["jobs/1", "red"],
            "1 passed in 2 of 2 jobs",
            "red: b.py could not be collected",
        ),
    ],
)
def test_merge_reports_wrong_job_everywhere(
    jobs: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    read: str,
    problem: str,
) -> None:
    for job in ("8", "9"):
        write_results(Path("empty", job, "runs", RESULTS), part(exit_status=5))
    write_results(Path("red", RESULTS), part(problems=("b.py could not be collected",)))
    Path("jobs/2/runs").mkdir(parents=True)
    assert merge(*arguments) == 1
    out = capsys.readouterr().out
    assert (read in out, f"\n{problem}" in out) == (True, True), out
    title = re.findall("<h1>(.*?)</h1>", Path("r/index.html").read_text("utf-8"))[
        0
    ].replace("&#39;", "'")
    assert problem in read_results(Path("r", RESULTS)).problems[0]
    assert problem in title
    assert ("listed did not fail; but" in title) == (
        " of 2" not in read or "another job" in problem
    )
    assert problem in Path("summary.md").read_text().replace("\\", "")
    assert main(["report", "r", "-o", "again"]) == 0
    assert problem in Path("again/index.html").read_text("utf-8").replace(
        "&#39;", "'"
    ), "merged results keep it"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            ["-o", "r", "--merge", "jobs/9"],
            "--merge needs a directory with results or runs, got 'jobs/9'",
        ),
        (
            ["-o", "r", "--merge", "bad"],
            "got 'bad': 'bad' has results that cannot be read: ",
        ),
        (
            ["-o", "r", "--merge", "jobs/1", "--jobs=none"],
            "--jobs must be a whole number from 1, got 'none'",
        ),
        (["--merge", "jobs/1"], "--merge needs -o DIR"),
        (["jobs", "--links", PAGE, "-o", "out"], "--links cannot be combined"),
        (["jobs", "--links", f"{PAGE}) [x](y"], "--links must be the report's URL"),
        (
            ["nothing", "-o", "out"],
            (
                "PATH must be a run directory, or one with some, got 'nothing': it does"
                " not exist"
            ),
        ),
    ],
)
def test_report_wrong_usage_exits_with_2(
    jobs: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], problem: str
) -> None:
    Path("bad").mkdir()
    Path("bad", RESULTS).write_text("{")
    assert main(["report", *arguments]) == 2
    error = capsys.readouterr().err
    assert (problem in error, error.count("\n"), "Errno" in error) == (
        True,
        1,
        False,
    ), error


def test_merge_shows_runs_of_jobs(made: Made, tmp_path: Path) -> None:
    run = made("made-1", FinishedTest("test_it", "passed"))
    tests = [
        ItemResult("test_it", "passed", runs=figures(run)),
        ItemResult("test_twice", "passed"),
    ]
    write_results(tmp_path / "1" / RESULTS, part(*tests))
    write_results(
        tmp_path / "2" / RESULTS,
        part(ItemResult("test_twice", "failed", "product", message="no basket")),
    )
    run.rename(tmp_path / "1" / "made-1")
    assert (
        main(
            [
                "report",
                "--merge",
                str(tmp_path / "1"),
                str(tmp_path / "2"),
                "-o",
                str(tmp_path / "out"),
            ]
        )
        == 1
    )
    page = (tmp_path / "out" / "index.html").read_text("utf-8")
    assert "1 of 2 tests did not pass" in page
    assert re.findall(r'class="badge \w+">(\d.*?)<', page) == [
        "1 failed",
        "1 passed",
    ], "the badges count tests"
    assert "made-1/index.html" in page


@pytest.mark.parametrize(
    ("status", "uncollected", "failed", "has_bad", "problems"),
    [
        (0, [], 0, False, []),
        (1, [], 0, True, []),
        (1, [], 1, True, ["1 test without a desktop failed"]),
        (1, [], 0, False, ["pytest ended with exit status 1, but no test here failed"]),
        (
            1,
            ["t.py"],
            2,
            False,
            ["t.py could not be collected", "2 tests without a desktop failed"],
        ),
        (
            2,
            [""],
            0,
            False,
            ["the session could not be collected", "pytest was interrupted"],
        ),
        (3, [], 0, True, ["pytest ended with an internal error (exit status 3)"]),
    ],
)
def test_session_problems_follow_exit_status(
    status: int,
    uncollected: Sequence[str],
    failed: int,
    has_bad: bool,
    problems: list[str],
) -> None:
    printed = session_problems(status, uncollected, failed, has_bad=has_bad)
    assert all(
        text.startswith(start) for text, start in zip(printed, problems, strict=True)
    )


@pytest.fixture
def session(made: Made, tmp_path: Path) -> Path:
    """Two runs of tests that failed, one that passed, and a test without a run."""
    directory = tmp_path / "runs"
    names = [made(name).name for name in ("a-passed", "b-failed", "c-failed")]
    tests = [
        ItemResult("t.py::test_fine", "passed", runs=figures(directory / names[0])),
        ItemResult(
            "t.py::test_b[<|x]",
            "failed",
            "product",
            runs=(RunFigures("/on/another/machine/b-failed"),),
        ),
        ItemResult(
            "t.py::test_c",
            "error",
            "infra",
            runs=figures(Path("gone"), directory / names[2]),
        ),
        ItemResult(
            "t.py::test_lost", "error", "infra", message="its desktop did not start"
        ),
    ]
    write_results(directory / RESULTS, part(*tests))
    return directory


def test_links_lead_to_runs_in_one_file(
    session: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(session), "--links", PAGE]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "| | what decided it, in the report |",
        "|---:|---|",
        rf"| 1 | [t\.py\:\:test\_b\[\<\|x\]]({PAGE}#run-2) |",
        rf"| 2 | [t\.py\:\:test\_c]({PAGE}#run-3) |",
        "",
        r"t\.py\:\:test\_lost failed without a run\: its desktop did not start  ",
    ]
    assert (
        main(["report", str(session), "--one-file", "-o", str(tmp_path / "page")]) == 0
    )
    assert (
        "c-failed"
        in (tmp_path / "page" / "index.html")
        .read_text("utf-8")
        .partition('id="run-3"')[2]
    )


def test_malformed_results_are_named_without_content(tmp_path: Path) -> None:
    file, outside = tmp_path / "runs" / RESULTS, tmp_path / "outside.json"
    file.parent.mkdir()
    outside.write_text(json.dumps(["hunter2"]))
    file.symlink_to(outside)
    assert (
        "it must not be a symbolic link" in results_beside([file.parent]).problems[0][1]
    )
    with pytest.raises(RunDirectoryError, match=r"got a list$"):
        read_results(outside)


def test_report_replaces_older_report_but_no_foreign_file(
    made: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = made("made-1")
    for option in ([], ["--one-file"], []):
        assert main(["report", str(run), "-o", str(tmp_path / "site"), *option]) == 0
    foreign = tmp_path / "index.html"
    foreign.write_text("mine")
    assert main(["report", str(run), "-o", str(tmp_path)]) == 2
    assert (capsys.readouterr().err.count("\n"), foreign.read_text()) == (1, "mine")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (Click(10, 10), Click(10 + NEAR_PX, 10 - NEAR_PX), True),
        (Click(10, 10), Click(11 + NEAR_PX, 10), False),
        (Click(10, 10), Click(10, 10, count=2), False),
        (Scroll(10, 10, "down", 3), Scroll(10, 10, "down", 9), False),
        (Drag(1, 1, 90, 90), Drag(2, 2, 95, 95), True),
        (TypeText("a"), TypeText("b"), False),
        (Wait(1.0), Click(1, 1), False),
    ],
)
def test_two_steps_are_same(one: Action, other: Action, same: bool) -> None:
    """Places may differ by a little, how often and how far may not."""
    frame = FrameRef("0" * 64, 800, 600)
    first, second = (
        Step(1, 1, Proposal(action), Ruling("allow", ""), frame, frame)
        for action in (one, other)
    )
    assert same_step(first, second) is same


@pytest.fixture
def page_of_ended_run(made: Made) -> Path:
    """The page of a run whose test has ended, and that has no screenshots any more."""
    run = made("made-1", FinishedTest("test_fine", "passed"))
    write_run_page(run, run.parent)
    shutil.rmtree(run / "screens")
    return run / "index.html"


def test_page_of_ended_test_is_kept(page_of_ended_run: Path) -> None:
    run = page_of_ended_run.parent
    known = KnownResults([ItemResult("test_fine", "passed", runs=figures(run)), LOST])
    written = page_of_ended_run.read_text("utf-8")
    session = write_session([run], run.parent, known).read_text("utf-8")
    assert 'href="made-1/index.html">test_fine' in session
    assert "1 of 2 tests did not pass" in session
    assert page_of_ended_run.read_text("utf-8") == written
    assert "no screenshot" not in written


def test_page_of_continued_run_is_rewritten(page_of_ended_run: Path) -> None:
    run = page_of_ended_run.parent
    RunDirectory.open(run).append(RunEnded(Outcome.GAVE_UP, "there is no basket"))
    write_session([run], run.parent, KnownResults())
    assert "gave up" in page_of_ended_run.read_text("utf-8")


def test_page_of_run_elsewhere_is_left_to_session(made: Made, tmp_path: Path) -> None:
    run = made("made-1", FinishedTest("test_fine", "passed"))
    write_run_page(run, tmp_path)
    assert not (run / "index.html").exists()
    write_session([run], tmp_path, KnownResults())
    assert "test_fine" in (tmp_path / "made-1" / "index.html").read_text("utf-8")


@pytest.fixture
def many_runs(made: Made) -> Path:
    """The directory of 20 runs, which are written by several processes."""
    for number in range(20):
        run = made(f"made-{number:02}", FinishedTest(f"test_{number}", "passed"))
    return run.parent


@pytest.mark.slow
@pytest.mark.parametrize("option", ["--one-file", "-oreport"])
def test_many_runs_are_written_in_order(
    many_runs: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    monkeypatch.chdir(many_runs.parent)
    assert main(["report", "runs", "-opage", option]) == 0
    (page,) = Path().glob("*/index.html")
    listed = re.findall(r">test_(\d+)</a>", page.read_text("utf-8"))
    assert listed == [str(number) for number in range(20)]


@pytest.mark.slow
@pytest.mark.parametrize("is_terminal", [True, False])
def test_report_progress_is_shown_on_terminal(
    many_runs: Path, *, is_terminal: bool
) -> None:
    command = [sys.executable, "-m", "pytest_vnc_use.cli", "report", str(many_runs)]
    with closing(Terminal()) as terminal:
        stderr = terminal.slave if is_terminal else subprocess.PIPE
        done = subprocess.run(
            command,
            stdout=terminal.slave,
            stderr=stderr,
            env={**os.environ, "TERM": "xterm", "CI": ""},
            check=True,
        )
        terminal.read_until(lambda: "index.html" in "".join(terminal.rows))
    assert "".join(terminal.rows).startswith("20 runs in ")
    assert (b"runs: 19 of 20" in terminal.raw) == is_terminal
    assert not done.stderr
