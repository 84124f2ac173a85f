"""The page of a session: every test of it, with or without a run, once however often it was tried."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_vnc_use.cli import main
from pytest_vnc_use.report.pages import write_report
from pytest_vnc_use.report.results import ItemResult, RunFigures, session_results, write_results
from pytest_vnc_use.report.run_view import show_run
from pytest_vnc_use.report.session_view import KnownResults, session_view
from pytest_vnc_use.report.sessions import results_beside, results_of_shards
from pytest_vnc_use.runs.directory import EndedTest, RunDirectory, write_ended_test
from pytest_vnc_use.types import Click, Outcome, RunEnded, RunStarted

DONE = RunEnded(Outcome.DONE, "the basket is open")
LOST = ItemResult("test_lost", "error", "infra", "the test did not end", "worker 'gw0' crashed")
Made = Callable[..., Path]


@pytest.fixture
def made(write_run, make_step) -> Made:
    """`made(name, ended)`: the directory of a done run, whose test ended so."""

    def made(name: str, ended: EndedTest | None = None) -> Path:
        path = write_run([make_step(1, Click(5, 5))], DONE)
        path = path.rename(path.with_name(name))
        if ended:
            write_ended_test(path, ended)
        return path

    return made


def shown(*runs: Path):
    return [show_run(run) for run in runs]


def figures(*runs: Path) -> tuple[RunFigures, ...]:
    return tuple(RunFigures(str(run)) for run in runs)


def test_test_that_failed_without_run_stands_on_page(made: Made, tmp_path: Path) -> None:
    run = made("made-1", EndedTest("test_fine", "passed"))
    told = KnownResults([ItemResult("test_fine", "passed", runs=figures(run)), LOST])
    view = session_view(shown(run), told)
    assert view.title == "1 of 2 tests did not pass"
    assert [(test.test, test.triage, test.message) for test in view.tests] == [
        ("test_lost", "infra", "worker 'gw0' crashed"),
        ("test_fine", "", ""),
    ]
    for one_file in (False, True):
        page = write_report([run], tmp_path / f"out-{one_file}", told, one_file=one_file).read_text("utf-8")
        assert "1 of 2 tests did not pass" in page
        assert "worker &#39;gw0&#39; crashed" in page


def test_page_of_session_without_runs_replaces_page_before(made: Made, tmp_path: Path) -> None:
    page = write_report([made("made-1", EndedTest("test_fine", "passed"))], tmp_path / "runs")
    assert "1 test, none failed" in page.read_text("utf-8")
    write_report([], tmp_path / "runs", KnownResults([LOST]))
    assert "1 of 1 test did not pass" in page.read_text("utf-8")


def test_result_of_session_counts_not_end_of_run(made: Made) -> None:
    run = made("made-1")
    view = session_view(
        shown(run), KnownResults([ItemResult("test_it", "failed", "product", "it says so", "no", runs=figures(run))])
    )
    (test,) = view.tests
    assert (test.result, test.is_bad, [run.path.name for run in test.runs]) == ("failed", True, ["made-1"])


def test_test_whose_result_was_never_written_did_not_end(tmp_path: Path, frames, make_step) -> None:
    directory = RunDirectory.create(tmp_path, "run-1")
    started = RunStarted("run-1", "Click", "2026-01-02T03:04:05+00:00", "scripted", frames[0].ref, test_id="test_it")
    for event in (started, DONE):
        directory.append(event)
    view = session_view(shown(directory.path))
    assert view.title == "1 of 1 test did not pass"
    assert view.tests[0].result == "did not end"
    assert show_run(directory.path).view.sentence.startswith("The test did not end")


def test_damaged_result_is_not_pass(made: Made) -> None:
    run = made("made-1", EndedTest("test_it", "failed"))
    (run / "result.json").write_text("{")
    assert session_view(shown(run)).title == "1 of 1 test did not pass"


TRIES = [
    EndedTest("test_it", "failed", triage="product", seconds=1.0),
    EndedTest("test_it", "passed", attempt=2, seconds=2.0),
    EndedTest("test_it", "failed", is_rehearsal=True, seconds=3.0),
]


@pytest.mark.parametrize("has_results", [False, True])
def test_test_counts_once_and_its_last_attempt_decides(made: Made, has_results: bool) -> None:
    runs = [made(f"made-{number}", ended) for number, ended in enumerate(TRIES, start=1)]
    result = ItemResult("test_it", "passed", duration_s=6.0, retried_for=("product",), runs=figures(*runs))
    view = session_view(shown(*runs), KnownResults([result] if has_results else []))
    assert view.title == "1 test, none failed"
    (test,) = view.tests
    assert (test.more, test.duration_s) == ("attempt 2", 6.0)
    assert [run.path.name for run in test.runs] == ["made-2"]
    assert [(name, run.path.name) for name, run in test.aside] == [
        ("attempt 1: failed", "made-1"),
        ("rehearsal: failed", "made-3"),
    ]


def test_second_session_is_not_attempt(made: Made) -> None:
    runs = [made(f"made-{number}", EndedTest("test_it", "passed", seconds=number)) for number in (1, 2)]
    assert session_view(shown(*runs)).title == "2 tests, none failed"


def test_rehearsal_alone_is_no_test(made: Made) -> None:
    view = session_view(shown(made("made-1", TRIES[2]), made("made-2", TRIES[1])))
    assert view.title == "1 test, none failed"
    assert sorted(test.result for test in view.tests) == ["passed", "rehearsal"]
    assert [badge.text for badge in view.counts] == ["1 passed"]
    assert view.facts[:2] == [("tests", "1"), ("not counted", "1 rehearsal")]


def test_attempt_that_failed_before_its_run_is_not_hidden_by_run_before(made: Made) -> None:
    run = made("made-1", TRIES[0])
    result = ItemResult("test_it", "error", "infra", message="no desktop", retried_for=("product",), runs=figures(run))
    (test,) = session_view(shown(run), KnownResults([result])).tests
    assert (test.is_bad, test.runs, len(test.aside)) == (True, [], 1)


def test_shards_are_one_page_that_says_what_is_missing(made: Made, tmp_path: Path, capsys) -> None:
    run = made("made-1", EndedTest("test_it", "passed"))
    results = {
        "shard-1": [ItemResult("test_it", "passed", runs=figures(run)), ItemResult("test_twice", "passed")],
        "shard-2": [ItemResult("test_twice", "failed", "product", message="no basket")],
        "shard-3": None,
    }
    for name, tests in results.items():
        (tmp_path / name).mkdir()
        if tests is not None:
            write_results(tmp_path / name / "vnc-results.json", session_results("", "", tests))
    run.rename(tmp_path / "shard-1" / "made-1")
    shards = [str(tmp_path / name) for name in (*results, "shard-4")]
    assert main(["report", "--merge", *shards, "-o", str(tmp_path / "out")]) == 1
    page = (tmp_path / "out" / "index.html").read_text("utf-8")
    assert "1 of 2 tests did not pass" in page, "a test counts once"
    assert page.count("one of 2 results of this test") == 3, "in its group too"
    assert re.findall(r'class="badge \w+">(\d.*?)<', page) == ["1 failed", "1 passed"], "the badges count tests"
    assert "<dd>1 more result of tests that ran more than once</dd>" in page
    assert "shard shard-3: it has no vnc-results.json" in page
    assert "shard shard-4: there is no such directory" in page
    assert "made-1/index.html" in page
    capsys.readouterr()
    assert main(["report", "--merge", *shards]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_run_not_here_is_told_beside_its_test(tmp_path: Path) -> None:
    lost = ItemResult("test_it", "passed", runs=(RunFigures("runs/lost"),))
    assert session_view([], KnownResults([lost])).tests[0].more == "1 of its runs is not here"


def test_without_results_nobody_says_that_no_test_failed(made: Made, tmp_path: Path) -> None:
    run = made("made-1", EndedTest("test_fine", "passed"))
    assert main(["report", str(run), "-o", str(tmp_path / "out")]) == 0
    page = (tmp_path / "out" / "index.html").read_text("utf-8")
    assert "none failed" not in page
    assert "1 test known here did not fail; but the results of the session were not found" in page


def test_runs_that_no_test_made_have_no_results_to_miss(write_run, make_step, tmp_path: Path) -> None:
    run = write_run([make_step(1, Click(5, 5))], DONE)
    assert main(["report", str(run), "-o", str(tmp_path / "out")]) == 0
    assert "were not found" not in (tmp_path / "out" / "index.html").read_text("utf-8")


def test_missing_shard_is_in_title(tmp_path: Path) -> None:
    write_results(tmp_path / "s1" / "vnc-results.json", session_results("", "", [ItemResult("test_it", "passed")]))
    (tmp_path / "s2").mkdir()
    told = results_of_shards([tmp_path / "s1", tmp_path / "s2"])
    assert session_view([], told).title.startswith(
        "1 test known here did not fail; but shard s2: it has no vnc-results.json"
    )


def test_copy_of_results_beside_runs_counts_once(tmp_path: Path) -> None:
    for directory in (tmp_path, tmp_path / "runs"):
        write_results(directory / "vnc-results.json", session_results("", "", [LOST]))
    assert results_beside([tmp_path, tmp_path / "runs"]).results == [LOST]
    assert main(["report", "--merge", str(tmp_path), "-o", str(tmp_path / "all")]) == 1


@pytest.mark.parametrize("has_results", [False, True])
def test_result_that_pytest_does_not_know_is_no_pass(made: Made, has_results: bool) -> None:
    run = made("made-1", EndedTest("test_it", "crashed"))
    told = KnownResults([ItemResult("test_it", "crashed", runs=figures(run))] if has_results else [])
    assert session_view(shown(run), told).title == "1 of 1 test did not pass"
