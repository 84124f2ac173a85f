"""Links into the report for the summary of a CI."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_vnc_use.cli import main
from pytest_vnc_use.report.results import ItemResult, RunFigures, read_results, session_results, write_results
from pytest_vnc_use.report.sessions import links
from pytest_vnc_use.types import Click, Outcome, RunEnded

FAILED = RunEnded(Outcome.GAVE_UP, "the basket is closed")
PAGE = "https://github.test/us/shop/actions/runs/1/artifacts/2"


@pytest.fixture
def session(write_run, make_step, tmp_path: Path) -> Path:
    """Two runs of tests that failed, one that passed, and a test without a run."""
    names = ("a-passed", "b-failed", "c-failed")
    for name in names:
        run = write_run([make_step(1, Click(5, 5))], FAILED)
        run.rename(run.with_name(name))
    directory = tmp_path / "runs"
    tests = [
        ItemResult("t.py::test_fine", "passed", runs=(RunFigures(str(directory / "a-passed")),)),
        ItemResult("t.py::test_b[<|x]", "failed", "product", runs=(RunFigures("/on/another/machine/b-failed"),)),
        ItemResult(
            "t.py::test_c", "error", "infra", runs=(RunFigures("gone"), RunFigures(str(directory / "c-failed")))
        ),
        ItemResult("t.py::test_lost", "error", "infra", message="its desktop did not start"),
    ]
    write_results(directory / "vnc-results.json", session_results("2026-01-01T03:00:00", "2026-01-01T03:10:00", tests))
    return directory


def test_each_failed_test_leads_to_its_run_in_report(session: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(session), "--links", PAGE]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "| | what decided it, in the report |",
        "|---:|---|",
        rf"| 1 | [t\.py\:\:test\_b\[\<\|x\]]({PAGE}#run-2) |",
        rf"| 2 | [t\.py\:\:test\_c]({PAGE}#run-3) |",
        "",
        r"t\.py\:\:test\_lost failed without a run\: its desktop did not start  ",
    ]


def test_numbers_are_those_of_report_in_one_file(session: Path, tmp_path: Path) -> None:
    assert main(["report", str(session), "--one-file", "-o", str(tmp_path / "page")]) == 0
    page = (tmp_path / "page" / "index.html").read_text("utf-8")
    assert "c-failed" in page.partition('id="run-3"')[2]


def test_links_without_failure_lead_to_report(write_run, make_step, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run([make_step(1, Click(5, 5))], RunEnded(Outcome.DONE, "it is open"))
    assert main(["report", str(run), "--links", PAGE]) == 0
    assert capsys.readouterr().out == f"[The report]({PAGE})\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--links", "javascript:alert(1)"], "--links must be the report's URL"),
        (["--links", f"{PAGE}) [x](y"], "--links must be the report's URL"),
        (["--links", PAGE, "-o", "out"], "--links cannot be combined"),
        (
            ["nothing", "-o", "out"],
            "PATH must be a run directory, or one with some, got 'nothing': it does not exist",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(
    session: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    told: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["report", str(session), *words]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert ".tmp" not in error


def test_problems_stand_below_tests_and_long_list_of_them_is_cut(session: Path) -> None:
    tests = read_results(session / "vnc-results.json").tests
    lines = links([session / "b-failed"], tests, PAGE, [f"shard {number}: gone" for number in range(103)]).splitlines()
    assert lines[2].startswith("| 1 |")
    assert (lines[3], lines[4], lines[-1]) == ("", "shard 0\\: gone  ", "and 3 more")


def test_runs_that_no_test_made_need_no_results(session: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (session / "vnc-results.json").unlink()
    assert main(["report", str(session), "--links", PAGE]) == 0
    assert capsys.readouterr().out == f"[The report]({PAGE})\n", "no test made these runs"
