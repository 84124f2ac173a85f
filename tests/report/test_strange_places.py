"""Reports over files that are not ours, results that contradict the runs, and paths without a name."""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pytest_vnc_use.cli import main
from pytest_vnc_use.errors import RunDirectoryError
from pytest_vnc_use.report.results import ItemResult, RunFigures, read_results, session_results, write_results
from pytest_vnc_use.report.run_view import show_run
from pytest_vnc_use.report.session_view import KnownResults, session_view
from pytest_vnc_use.report.sessions import results_beside
from pytest_vnc_use.runs.directory import EndedTest, write_ended_test
from pytest_vnc_use.types import Click, Outcome, RunEnded

DONE = RunEnded(Outcome.DONE, "the basket is open")


@pytest.fixture
def run(write_run, make_step) -> Path:
    path: Path = write_run([make_step(1, Click(5, 5))], DONE)
    return path


@pytest.mark.parametrize("name", ["index.html", "report.css", "report.js"])
def test_file_none_of_report_stays(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / name).write_text("mine")
    assert main(["report", str(run), "-o", str(tmp_path / "site")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert [file.name for file in (tmp_path / "site").iterdir()] == [name]
    assert (tmp_path / "site" / name).read_text() == "mine"


@pytest.mark.parametrize("option", [[], ["--one-file"]])
def test_report_is_written_over_older_one(run: Path, tmp_path: Path, option: list[str]) -> None:
    for _ in range(2):
        assert main(["report", str(run), "-o", str(tmp_path / "site"), *option]) == 0


def test_here_is_run_directory_like_any_other(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(run.parent)]) == 0
    own = (run / "index.html").read_bytes()
    monkeypatch.chdir(run)
    assert main(["report", "."]) == 0
    assert (run / "index.html").read_bytes() == own
    assert capsys.readouterr().out.splitlines()[-1] == "1 run in vnc-report/index.html"
    assert main(["report", "--markdown", ".", "-o", "text"]) == 0
    assert [file.name for file in (run / "text").iterdir()] == [f"{run.name}.md"]


@contextmanager
def at_most(megabytes: int) -> Iterator[None]:
    """Let this process have so much memory more."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + megabytes * 1_000_000, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def test_huge_results_are_problem_to_tell(run: Path) -> None:
    file = run.parent / "vnc-results.json"
    file.touch()
    os.truncate(file, 1 << 40)
    with at_most(500):
        told = results_beside([run.parent])
    assert "it must have at most 100000000 bytes" in told.problems[0][1]


def test_results_link_are_not_read(run: Path, tmp_path: Path) -> None:
    (tmp_path / "outside.json").write_text(json.dumps(["hunter2"]))
    (run.parent / "vnc-results.json").symlink_to(tmp_path / "outside.json")
    told = results_beside([run.parent])
    assert "it must not be a symbolic link" in told.problems[0][1]


def test_message_does_not_hold_what_is_no_result(tmp_path: Path) -> None:
    (tmp_path / "vnc-results.json").write_text(json.dumps(["hunter2"]))
    with pytest.raises(RunDirectoryError, match=r"got a list$"):
        read_results(tmp_path / "vnc-results.json")


def test_session_that_broke_is_never_green(run: Path) -> None:
    write_results(run.parent / "vnc-results.json", session_results("", "", [ItemResult("test_a", "passed")]))
    content = json.loads((run.parent / "vnc-results.json").read_text())
    (run.parent / "vnc-results.json").write_text(json.dumps({**content, "exit_status": 3}))
    title = session_view([show_run(run)], results_beside([run.parent])).title
    assert "; but pytest ended with an internal error" in title


def test_pass_that_directory_of_its_run_denies_is_no_pass(run: Path) -> None:
    write_ended_test(run, EndedTest("test_a", "failed", message="the basket is empty"))
    told = KnownResults([ItemResult("test_a", "passed", runs=(RunFigures(str(run)),))])
    view = session_view([show_run(run)], told)
    assert view.title == "1 of 1 test did not pass"
    (line,) = view.tests
    assert (line.message, line.more) == (
        "the directory of its run says failed: the basket is empty",
        "the result beside the runs says passed",
    )


@pytest.mark.parametrize(
    ("messages", "groups"),
    [
        (["assert 'a' == 'b'", "assert 'x' == 'y'"], 2),
        (["it took 3.2 s", "it took 4.9 s"], 1),
        (["no such file: '/tmp/a/one'", "no such file: '/tmp/b/two'"], 1),
    ],
)
def test_only_numbers_and_paths_vary_within_group(messages: list[str], groups: int) -> None:
    told = KnownResults([ItemResult(f"test_{number}", "failed", message=text) for number, text in enumerate(messages)])
    assert len(session_view([], told).groups) == groups
