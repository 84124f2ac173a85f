"""The problems of a session: whatever made pytest red is told, also if all tests with a desktop passed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_vnc_use import cli
from pytest_vnc_use.report.results import ItemResult, read_results, session_problems, session_results, write_results
from pytest_vnc_use.report.session_view import KnownResults, session_view

PASSED = ItemResult("t.py::test_a", "passed")


@pytest.mark.parametrize(
    ("status", "uncollected", "failed", "has_bad", "told"),
    [
        (0, [], 0, False, []),
        (5, [], 0, False, []),
        (1, [], 0, True, []),
        (1, [], 1, True, ["1 test without a desktop failed"]),
        (1, [], 0, False, ["pytest ended with exit status 1, but no test here failed"]),
        (1, ["t.py"], 2, False, ["t.py could not be collected", "2 tests without a desktop failed"]),
        (2, [""], 0, False, ["the session could not be collected", "pytest was interrupted"]),
        (3, [], 0, True, ["pytest ended with an internal error (exit status 3)"]),
        (4, [], 0, False, ["pytest ended with a usage error"]),
        (7, [], 0, False, ["pytest ended with exit status 7"]),
    ],
)
def test_each_way_to_end_is_told(
    status: int, uncollected: Sequence[str], failed: int, has_bad: bool, told: list[str]
) -> None:
    problems = [*session_problems(status, uncollected, failed, has_bad=has_bad)]
    assert [problem.partition(":")[0].startswith(start) for problem, start in zip(problems, told, strict=True)] == [
        True
    ] * len(told)


def test_title_says_what_else_is_wrong() -> None:
    problems = [("", "pytest ended with exit status 7"), ("", "t.py could not be collected")]
    assert session_view([], KnownResults([PASSED], problems[:1])).title == (
        "1 test, none failed; but pytest ended with exit status 7"
    )
    assert session_view([], KnownResults([PASSED], problems)).title.endswith("status 7; and 1 more")


@pytest.mark.slow
def test_red_session_is_red_everywhere(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The module that breaks is collected first, before anything shows that the session has a desktop."""
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    pytester.makeconftest("import pytest\n\n@pytest.fixture\ndef vnc_desktop(): ...")
    pytester.makepyfile(
        test_1_broken="raise LookupError('hunter2-hunter2')",
        test_2="def test_fine(vnc_desktop): ...\n\ndef test_plain(): assert 0",
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "--continue-on-collection-errors")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    results = read_results(Path("runs/vnc-results.json"))
    problems = ("test_1_broken.py could not be collected", "1 test without a desktop failed")
    assert (results.exit_status, results.totals.results, results.problems) == (1, {"passed": 1}, problems)
    told = [Path(name).read_text("utf-8") for name in ("runs/vnc-results.json", "runs/index.html", "summary.md")]
    assert "hunter2" not in "".join(told)
    assert "1 test, none failed; but test_1_broken.py could not be collected; and 1 more" in told[1]
    assert r"test\_1\_broken\.py could not be collected" in told[2]
    capsys.readouterr()
    assert cli.main(["report", "--merge", "runs", "-o", "all"]) == 1
    assert problems[0] in capsys.readouterr().out


def test_merged_shards_keep_problems_of_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    fine = session_results("", "", [PASSED])
    red = session_results("", "", [ItemResult("t.py::test_b", "passed")])
    write_results(Path("s1/vnc-results.json"), fine)
    write_results(Path("s2/vnc-results.json"), type(red)(**{**vars(red), "problems": ("b.py could not be collected",)}))
    assert cli.main(["report", "--merge", "s1", "s2", "-o", "all"]) == 1
    assert "s2: b.py could not be collected\n" in capsys.readouterr().out
    assert cli.main(["report", "--merge", "all", "-o", "again"]) == 1, "a merge of merges forgets nothing"
    assert read_results(Path("again/vnc-results.json")).problems == ("all: s2: b.py could not be collected",)
    for shards, code in ((["all"], 0), (["--merge", "s1", "s2"], 1)):
        assert cli.main(["report", *shards, "-o", "out"]) == code
        page = Path("out/index.html").read_text("utf-8")
        assert "2 tests, none failed; but " in page
        assert "b.py could not be collected" in page


UNCOLLECTED = ("test_bad.py could not be collected", "pytest was interrupted (exit status 2): tests may be missing")


@pytest.fixture
def shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory with shards that have no test; the module of those in `coll` could not be collected."""
    monkeypatch.chdir(tmp_path)
    empty = session_results("2026-01-01T03:00:00", "2026-01-01T03:10:00", [])
    for shard in ("1", "2"):
        write_results(Path("empty", shard, "runs", "vnc-results.json"), replace(empty, exit_status=5))
        broken = replace(empty, exit_status=2, problems=UNCOLLECTED)
        write_results(Path("coll", shard, "runs", "vnc-results.json"), broken)
    return tmp_path


def test_shards_without_test_are_page_that_says_so(shards: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", "--merge", "empty/1", "empty/2", "-o", "r"]) == 1
    told = "at least one job must run a test on a desktop, none did"
    assert capsys.readouterr().out.splitlines()[0] == "0 runs in r/index.html"
    assert f"no test ran: {told}" in Path("r/index.html").read_text("utf-8")


@pytest.mark.parametrize("more", [[], ["--one-file"]])
def test_page_names_what_could_not_be_collected(shards: Path, more: list[str]) -> None:
    assert cli.main(["report", "coll/1/runs", *more, "-o", "one"]) == 0
    assert "no test ran: test_bad.py could not be collected; and 1 more" in Path("one/index.html").read_text("utf-8")
    assert cli.main(["report", "--merge", "coll/1", "coll/2", "-o", "r", *more]) == 1
    page = Path("r/index.html").read_text("utf-8")
    assert "no test ran: shard 1: test_bad.py could not be collected" in page
    assert "shard 2: test_bad.py could not be collected" in page


def test_page_of_one_session_without_run_goes_beside_its_results(shards: Path) -> None:
    assert cli.main(["report", "coll/1/runs"]) == 0
    assert Path("coll/1/runs/index.html").is_file()


def test_results_that_cannot_be_read_are_no_page(shards: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("empty/1/runs/vnc-results.json").write_text("{")
    assert cli.main(["report", "--merge", "empty/1", "-o", "r"]) == 2
    error = capsys.readouterr().err
    assert "--merge needs a directory with results or runs, got 'empty/1': vnc-results.json: " in error
    assert "must be results in JSON" in error


PAGE = "https://github.test/page"


def test_links_name_what_has_no_run(shards: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fine = replace(session_results("", "", [PASSED]), exit_status=0)
    write_results(Path("fine/vnc-results.json"), fine)
    assert cli.main(["report", "--merge", "fine", "coll/1", "gone", "--links", PAGE]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[:3] == [
        f"[The report]({PAGE})",
        "",
        r"shard 1\: test\_bad\.py could not be collected  ",
    ]
    assert r"shard gone\: there is no such directory\: its tests are missing here  " in out


def test_links_name_what_merged_results_know(shards: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_results(Path("fine/vnc-results.json"), session_results("", "", [PASSED]))
    assert cli.main(["report", "--merge", "fine", "gone", "-o", "r"]) == 1
    capsys.readouterr()
    assert cli.main(["report", "r", "--links", PAGE]) == 0
    assert "its job did not end" in capsys.readouterr().out
