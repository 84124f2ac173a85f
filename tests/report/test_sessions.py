"""A session as its page, its links and its merged results show it: each test once, and
whatever else is wrong.
"""

from __future__ import annotations

import html
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
from pytest_vnc_use.triage import NOT_AS_RECORDED
from pytest_vnc_use.types import (
    Action,
    Click,
    Drag,
    Frame,
    FrameRef,
    Outcome,
    Proposal,
    Region,
    Ruling,
    RunEnded,
    RunStarted,
    Scroll,
    Step,
    Transient,
    TypeText,
    Wait,
)
from support.terminal import Terminal

DONE = RunEnded(Outcome.DONE, "the basket is open")
PASSED = ItemResult("t.py::test_a", "passed")
FAILED = ItemResult("t.py::test_b", "failed", "product", dollars=0.5)
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
    """`made(name, ended)` makes the directory of a done run; `ended` is the result of
    its test.
    """

    def make(name: str, ended: FinishedTest | None = None) -> Path:
        path = write_run([make_step(1, Click(5, 5))], DONE)
        path = path.rename(path.with_name(name))
        if ended:
            write_finished_test(path, ended)
        return path

    return make


def summaries(*runs: Path) -> list[RunSummary]:
    return [summary_of(show_run(run), "") for run in runs]


def figures(*runs: Path) -> tuple[RunFigures, ...]:
    return tuple(RunFigures(str(run)) for run in runs)


def results_of(
    *tests: ItemResult, started: str = "2026-01-01T03:00:00", **fields: object
) -> SessionResults:
    """The results of one session or job."""
    return replace(session_results(started, "2026-01-01T03:10:00", tests), **fields)


def test_failed_test_without_run_is_listed(made: Made, tmp_path: Path) -> None:
    run = made("made-1", FinishedTest("test_fine", "passed"))
    known = KnownResults([ItemResult("test_fine", "passed", runs=figures(run)), LOST])
    view = session_view(summaries(run), known)
    assert view.title == "1 of 2 tests did not pass"
    assert [(test.test, test.triage, test.message) for test in view.tests] == [
        ("test_lost", "infra", "worker 'gw0' crashed"),
        ("test_fine", "", ""),
    ]
    page = write_report([run], tmp_path / "out", known).read_text("utf-8")
    assert "1 of 2 tests did not pass" in page
    assert "worker &#39;gw0&#39; crashed" in page


def test_failed_test_without_run_is_in_one_file(made: Made, tmp_path: Path) -> None:
    run = made("made-1")
    report = write_report([run], tmp_path, KnownResults([LOST]), one_file=True)
    assert "worker &#39;gw0&#39; crashed" in report.read_text("utf-8")


def is_bad(run: Path, *results: ItemResult) -> bool:
    (test,) = session_view(summaries(run), KnownResults(results)).tests
    return test.is_bad


def test_run_without_test_is_not_bad(made: Made) -> None:
    assert not is_bad(made("made-1"))


def test_damaged_result_of_run_is_no_pass(made: Made) -> None:
    run = made("made-1", FinishedTest("test_it", "failed"))
    (run / "result.json").write_text("{")
    assert is_bad(run)


def test_unknown_result_of_run_is_no_pass(made: Made) -> None:
    assert is_bad(made("made-1", FinishedTest("test_it", "crashed")))


@pytest.mark.parametrize("result", ["failed", "crashed"])
def test_result_of_session_is_no_pass(made: Made, result: str) -> None:
    run = made("made-1")
    assert is_bad(run, ItemResult("test_it", result, runs=figures(run)))


def test_pass_that_run_directory_denies_is_no_pass(made: Made) -> None:
    failed = FinishedTest("test_a", "failed", message="the basket is empty")
    run = made("made-1", failed)
    passed = ItemResult("test_a", "passed", runs=figures(run))
    view = session_view(summaries(run), KnownResults([passed]))
    assert view.title == "1 of 1 test did not pass"
    (line,) = view.tests
    assert line.message == "the directory of its run has failed: the basket is empty"
    assert line.more == "the result beside the runs is passed"


def test_test_without_result_did_not_end(tmp_path: Path, frames) -> None:
    directory = RunDirectory.create(tmp_path, "run-1")
    started_at = "2026-01-02T03:04:05+00:00"
    frame = frames[0].ref
    started = RunStarted("run-1", "Click", started_at, "scripted", frame, test_id="t")
    directory.append(started)
    directory.append(DONE)
    view = session_view(summaries(directory.path))
    assert view.title == "1 of 1 test did not pass"
    assert view.tests[0].result == "did not end"
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
    view = session_view(summaries(*runs), KnownResults([result] if has_results else []))
    assert view.title == "1 test, none failed"
    (test,) = view.tests
    assert test.more == "attempt 2"
    assert test.duration_s == 6.0
    assert [run.path.name for run in test.runs] == ["made-2"]
    aside = [(name, run.path.name) for name, run in test.aside]
    assert aside == [("attempt 1: failed", "made-1"), ("rehearsal: failed", "made-3")]


def test_attempt_without_run_decides_test(made: Made) -> None:
    run = made("made-1", TRIES[0])
    failed = ItemResult(
        "test_it", "error", "infra", retried_for=("product",), runs=figures(run)
    )
    (test,) = session_view(summaries(run), KnownResults([failed])).tests
    assert test.is_bad
    assert test.runs == []
    assert len(test.aside) == 1


def test_second_session_is_no_attempt(made: Made) -> None:
    first = made("made-1", FinishedTest("test_it", "passed", seconds=1))
    second = made("made-2", FinishedTest("test_it", "passed", seconds=2))
    assert session_view(summaries(first, second)).title == "2 tests, none failed"


def test_rehearsal_alone_is_no_attempt(made: Made) -> None:
    view = session_view(summaries(made("made-3", TRIES[2]), made("made-4", TRIES[1])))
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
    unrecorded = [
        f"there is no recording of {name.rpartition('/')[2]!r} at '/r/{name}.json'"
        for name in names
    ]
    causes = [
        unrecorded,
        ["claim 'it is open' fails"],
        ["it took 3.2 s", "it took 4.9 s"],
        ["no such file: '/tmp/a/one'", "no such file: '/tmp/b/two'"],
        ["assert 'a' == 'b'"],
    ]
    failed = []
    for texts in causes:
        for name, text in zip(names, texts, strict=False):
            failed.append(ItemResult(name, "failed", message=text))
    grouped = []
    for group in session_view([], KnownResults(failed)).groups:
        grouped.append([test.message for test in group])
    assert sorted(grouped) == sorted(causes)


@pytest.mark.parametrize(
    ("rule", "grouped"),
    [(NOT_AS_RECORDED, [["a", "c"], ["b"]]), ("another one", [["a", "b", "c"]])],
)
def test_transients_are_grouped_if_they_look_alike(
    rule: str,
    grouped: list[list[str]],
    write_run,
    make_step,
    frames: list[Frame],
) -> None:
    """A transient may only have come beside what failed the tests."""
    runs = []
    message = "the test passed, but its replay showed a transient that is not recorded"
    for name, number in (("a", 0), ("b", 2), ("c", 0)):
        region = Region(10, 20, 60, 40)
        toast = Transient("a toast", frames[number].ref, region, 1)
        path = write_run([make_step(1, Click(5, 5))], DONE, events=[toast])
        path = path.rename(path.with_name(f"made-{name}"))
        ended = FinishedTest(name, "failed", rule=rule, message=message)
        write_finished_test(path, ended)
        runs.append(path)
    names = []
    for group in session_view(summaries(*runs)).groups:
        names.append([test.test for test in group])
    assert names == grouped


def test_title_names_other_problems() -> None:
    status = ("", "pytest ended with exit status 7")
    uncollected = ("", "t.py could not be collected")
    title = session_view([], KnownResults([PASSED], [status])).title
    assert title == "1 test, none failed; but pytest ended with exit status 7"
    title = session_view([], KnownResults([PASSED], [status, uncollected])).title
    assert title.endswith("status 7; and 1 more")


def test_missing_run_is_named() -> None:
    lost = ItemResult("test_it", "passed", runs=(RunFigures("runs/lost"),))
    (test,) = session_view([], KnownResults([lost])).tests
    assert test.more == "1 of its runs is missing"


def test_title_names_missing_results(made: Made, tmp_path: Path) -> None:
    run = made("made-1", FinishedTest("test_fine", "passed"))
    assert main(["report", str(run), "-o", str(tmp_path / "out")]) == 0
    page = (tmp_path / "out" / "index.html").read_text("utf-8")
    title = "1 test listed did not fail; but the results of the session were not found"
    assert title in page


def test_last_session_of_run_directory_is_reported(
    made: Made,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    earlier = made("made-1", FinishedTest("test_a", "failed", message="of yesterday"))
    trace = earlier / "trace.jsonl"
    header, *events = trace.read_text().splitlines(keepends=True)
    old_header = json.dumps({**json.loads(header), "started_at": 1e9})
    trace.write_text("".join([f"{old_header}\n", *events]))
    run = made("made-2", FinishedTest("test_a", "passed"))
    runs = run.parent
    passed = ItemResult("test_a", "passed", runs=figures(run))
    write_results(
        runs / RESULTS, results_of(passed, started="2002-01-01T03:00:00+00:00")
    )
    assert main(["report", str(runs)]) == 0
    left_out = "1 run of earlier sessions is left out. To see one, name its directory\n"
    assert capsys.readouterr().err == left_out
    page = (runs / "index.html").read_text("utf-8")
    assert "1 test, none failed" in page
    assert "of yesterday" not in page
    monkeypatch.chdir(tmp_path)
    assert main(["report", str(earlier.relative_to(tmp_path)), "--markdown"]) == 0
    assert "of yesterday" in capsys.readouterr().out


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Jobs 1 and 3 of three, and the file for GitHub's summary."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    for job, test in (("1", PASSED), ("3", ItemResult("t.py::test_c | `c`", "passed"))):
        write_results(Path("jobs", job, "runs", RESULTS), results_of(test))
    return tmp_path


def merge(*words: str) -> int:
    return main(["report", "-o", "r", "--merge", *words])


def test_merged_jobs_have_each_test_once() -> None:
    earlier = results_of(FAILED, started="2026-01-01T02:00:00")
    whole = merged({"1": results_of(PASSED), "2": earlier})
    assert [test.test for test in whole.tests] == ["t.py::test_a", "t.py::test_b"]
    assert whole.totals.tests == 2
    assert whole.totals.results == {"passed": 1, "failed": 1}
    assert whole.totals.dollars == 0.5
    assert whole.started_at == "2026-01-01T02:00:00"
    assert whole.ended_at == "2026-01-01T03:10:00"
    assert whole.problems == ()


BAD = ItemResult("t.py::test_a", "error", "infra")


@pytest.mark.parametrize(
    ("first", "second"),
    [(PASSED, BAD), (BAD, PASSED)],
    ids=["fails in second", "fails in first"],
)
def test_merged_test_of_two_jobs_has_worse_result(
    first: ItemResult, second: ItemResult
) -> None:
    whole = merged({"1": results_of(first), "2": results_of(second)})
    assert whole.tests == (BAD,)
    problem = "t.py::test_a is in 1 and in 2: each test must be in one of them"
    assert whole.problems == (problem,)


REPETITIONS = {
    "1": results_of(ItemResult("t.py::test_a[run1]", "passed")),
    "2": results_of(ItemResult("t.py::test_a[run2]", "failed")),
}


def test_merged_repetitions_are_counted_together() -> None:
    parts = {
        job: replace(results, reliability=reliabilities(results.tests, 2))
        for job, results in REPETITIONS.items()
    }
    (reliability,) = merged(parts).reliability
    assert reliability.repeated == 2
    assert reliability.passed == 1


def test_merged_ids_like_repetitions_are_not_counted() -> None:
    assert merged(REPETITIONS).reliability == ()


def test_merge_writes_results_page_and_summary(
    jobs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert merge("jobs/1", "jobs/3") == 0
    printed = capsys.readouterr().out
    assert printed == f"0 runs in r/index.html\n2 passed in 2 of 2 jobs: r/{RESULTS}\n"
    tests = [test.test for test in read_results(Path("r", RESULTS)).tests]
    assert tests == ["t.py::test_a", "t.py::test_c | `c`"]
    assert "2 passed" in Path("summary.md").read_text()


def test_merge_job_without_test_beside_others_exits_with_0(jobs: Path) -> None:
    write_results(Path("empty", RESULTS), results_of(exit_status=5))
    assert merge("jobs/1", "empty") == 0


@pytest.mark.parametrize("bad", [FAILED, ItemResult("t.py::test_a", "crashed")])
def test_merge_bad_test_exits_with_1(jobs: Path, bad: ItemResult) -> None:
    write_results(Path("jobs/1/runs", RESULTS), results_of(bad))
    assert merge("jobs/1", "jobs/3") == 1


@pytest.mark.parametrize(
    ("arguments", "summary", "problem"),
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
    summary: str,
    problem: str,
) -> None:
    for job in ("8", "9"):
        write_results(Path("empty", job, "runs", RESULTS), results_of(exit_status=5))
    write_results(
        Path("red", RESULTS), results_of(problems=("b.py could not be collected",))
    )
    Path("jobs/2/runs").mkdir(parents=True)
    assert merge(*arguments) == 1
    out = capsys.readouterr().out
    assert summary in out
    assert f"\n{problem}" in out
    assert problem in read_results(Path("r", RESULTS)).problems[0]
    page = html.unescape(Path("r/index.html").read_text("utf-8"))
    (title,) = re.findall("<h1>(.*?)</h1>", page)
    assert problem in title
    is_job_missing = " of 2" not in summary or "another job" in problem
    assert ("listed did not fail; but" in title) == is_job_missing
    assert problem in Path("summary.md").read_text().replace("\\", "")
    assert main(["report", "r", "-o", "again"]) == 0
    again = html.unescape(Path("again/index.html").read_text("utf-8"))
    assert problem in again, "merged results keep it"


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
    assert problem in error
    assert error.count("\n") == 1
    assert "Errno" not in error


def test_merge_shows_runs_of_jobs(made: Made, tmp_path: Path) -> None:
    run = made("made-1", FinishedTest("test_it", "passed"))
    passed = ItemResult("test_it", "passed", runs=figures(run))
    twice = ItemResult("test_twice", "passed")
    failed = ItemResult("test_twice", "failed", "product", message="no basket")
    one = tmp_path / "1"
    two = tmp_path / "2"
    write_results(one / RESULTS, results_of(passed, twice))
    write_results(two / RESULTS, results_of(failed))
    run.rename(one / "made-1")
    out = tmp_path / "out"
    assert main(["report", "--merge", str(one), str(two), "-o", str(out)]) == 1
    page = (out / "index.html").read_text("utf-8")
    assert "1 of 2 tests did not pass" in page
    badges = re.findall(r'class="badge \w+">(\d.*?)<', page)
    assert badges == ["1 failed", "1 passed"], "the badges count tests"
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
    fine = figures(made("a-passed"))
    made("b-failed")
    elsewhere = figures(Path("/on/another/machine/b-failed"))
    one_gone = figures(Path("gone"), made("c-failed"))
    no_desktop = "its desktop did not start"
    tests = [
        ItemResult("t.py::test_fine", "passed", runs=fine),
        ItemResult("t.py::test_b[<|x]", "failed", "product", runs=elsewhere),
        ItemResult("t.py::test_c", "error", "infra", runs=one_gone),
        ItemResult("t.py::test_lost", "error", "infra", message=no_desktop),
    ]
    write_results(tmp_path / "runs" / RESULTS, results_of(*tests))
    return tmp_path / "runs"


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
    out = tmp_path / "page"
    assert main(["report", str(session), "--one-file", "-o", str(out)]) == 0
    page = (out / "index.html").read_text("utf-8")
    assert "c-failed" in page.partition('id="run-3"')[2]


def test_results_that_are_link_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "outside.json").write_text("{}")
    (tmp_path / RESULTS).symlink_to(tmp_path / "outside.json")
    ((_, problem),) = results_beside([tmp_path]).problems
    assert "it must not be a symbolic link" in problem


def test_malformed_results_are_named_without_content(tmp_path: Path) -> None:
    file = tmp_path / RESULTS
    file.write_text(json.dumps(["hunter2"]))
    with pytest.raises(RunDirectoryError, match=r"got a list$"):
        read_results(file)


def report(run: Path, directory: Path, *options: str) -> int:
    return main(["report", str(run), "-o", str(directory), *options])


def test_report_replaces_older_report(made: Made, tmp_path: Path) -> None:
    run = made("made-1")
    assert report(run, tmp_path) == 0
    assert report(run, tmp_path, "--one-file") == 0
    assert report(run, tmp_path) == 0


def test_report_replaces_no_foreign_file(
    made: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    foreign = tmp_path / "index.html"
    foreign.write_text("mine")
    assert report(made("made-1"), tmp_path) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert foreign.read_text() == "mine"


def step_of(action: Action) -> Step:
    frame = FrameRef("0" * 64, 800, 600)
    return Step(1, 1, Proposal(action), Ruling("allow", ""), frame, frame)


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
    """Points may differ by a little; count, distance and text may not."""
    assert same_step(step_of(one), step_of(other)) is same


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
    environment = {**os.environ, "TERM": "xterm", "CI": ""}
    with closing(Terminal()) as terminal:
        done = subprocess.run(
            command,
            stdout=terminal.slave,
            stderr=terminal.slave if is_terminal else subprocess.PIPE,
            env=environment,
            check=True,
        )
        terminal.read_until(lambda: "index.html" in "".join(terminal.rows))
    assert "".join(terminal.rows).startswith("20 runs in ")
    assert (b"runs: 19 of 20" in terminal.raw) == is_terminal
    assert not done.stderr
