"""What a failure is reported as, and where: terminal, JUnit's XML, vnc-results.json, pytest-html, GitHub.

One session of tests that end in all ways: tests/test_snapshot.py.
"""

from __future__ import annotations

import pytest

from pytest_vnc_use.report.results import ItemResult, SessionResults, read_results, session_results
from pytest_vnc_use.report.summaries import lines, markdown
from support.pad_sessions import QUIET, results

OWN_DESKTOP = """
import pytest

class Desktop:
    ended = ""
    def program_fault(self):
        return self.ended

@pytest.fixture
def vnc_desktop():
    return Desktop()
"""
RERUNS = """
from pathlib import Path
import pytest
from pytest_vnc_use.errors import ConnectionLost, Inconclusive, InfraError, ProductFailed, QuotaExhausted
from pytest_vnc_use.types import Verdict

def first(request):
    name = Path(request.node.name)
    name.exists() or name.touch()
    with name.open("a") as file:
        file.write("x")
    return len(name.read_text()) == 1

QUOTA = QuotaExhausted("per minute")
ERRORS = {
    "quota_InfraError": QUOTA,
    "product_InfraError": ProductFailed("the total is 4.00"),
    "drift_Inconclusive": Inconclusive("a dialog hides it"),
}

@pytest.mark.parametrize("name", [
    pytest.param(name, marks=pytest.mark.flaky(reruns=1, only_rerun=name.partition("_")[2]), id=name) for name in ERRORS
])
def test_raised(name, request, vnc_desktop):
    if first(request):
        raise ERRORS[name]

@pytest.mark.flaky(reruns=1, only_rerun="InfraError")
def test_crash(request, vnc_desktop):
    if first(request):
        vnc_desktop.ended = "the program 'shop' exited with -11 (SIGSEGV)"
        raise ConnectionLost("gone")

@pytest.mark.xfail(raises=Inconclusive)
def test_xfail_unsure(vnc_desktop):
    assert Verdict("the total is 3.00", "unsure", "a dialog hides it")

@pytest.mark.xfail(strict=True)
def test_xfail_passes(vnc_desktop): ...
"""
RERUN = {
    "raised[quota_InfraError]": ("passed", None),
    "raised[product_InfraError]": ("failed", "product"),
    "raised[drift_Inconclusive]": ("passed", None),
    "crash": ("failed", "product"),
    "xfail_unsure": ("xfailed", "inconclusive"),
    "xfail_passes": ("failed", "inconclusive"),
}


@pytest.mark.slow
def test_rerunfailures_finds_triage_and_xfail_class(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(OWN_DESKTOP)
    pytester.makepyfile(test_it=RERUNS)
    result = pytester.runpytest_subprocess(*QUIET)
    tests = results()
    assert {name: (test.result, test.triage) for name, test in tests.items()} == RERUN
    reruns = {name for name, test in tests.items() if test.retried_for}
    assert reruns == {name for name, (result, _) in RERUN.items() if result == "passed"}
    result.stdout.fnmatch_lines(["vnc-use: 3 failed: 2 product, 1 inconclusive", "vnc-use: 2 tried again: *"])


@pytest.mark.usefixtures("without_settings")
def test_user_desktop_without_settings_is_reported(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    pytester.makeconftest(OWN_DESKTOP)
    pytester.makepyfile(
        test_it="""
        import pytest
        from pytest_vnc_use.errors import DesktopError

        class TestShared:
            @pytest.fixture(scope="class")
            def vnc_desktop(self):
                raise DesktopError("all 3 are in use")

            def test_one(self, vnc_desktop): ...
            def test_two(self, vnc_desktop): ...

        def test_fails(vnc_desktop): assert 0
        """
    )
    result = pytester.runpytest_subprocess(*QUIET)
    result.assert_outcomes(failed=1, errors=2)
    result.stdout.fnmatch_lines(["infra: DesktopError: all 3 are in use"] * 2)
    result.stdout.fnmatch_lines(["vnc-use: 3 failed: 1 product, 2 infra", "FAILED *::test_fails - product: assert 0"])


@pytest.mark.usefixtures("without_settings")
def test_session_without_desktop_writes_nothing(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path / "summary.md"))
    pytester.makeconftest(OWN_DESKTOP)
    pytester.makepyfile(
        "import pytest\n\ndef test_it(): assert 0\n\n@pytest.mark.skip\ndef test_later(vnc_desktop): ..."
    )
    result = pytester.runpytest_subprocess(*QUIET, "--html=report.html", "--junitxml=junit.xml")
    result.assert_outcomes(failed=1, skipped=1)
    assert "vnc-use:" not in result.stdout.str()
    assert "Triage" not in (pytester.path / "report.html").read_text(encoding="utf-8")
    assert "vnc_" not in (pytester.path / "junit.xml").read_text(encoding="utf-8")
    pytester.runpytest_subprocess(*QUIET, "-k", "nothing", "--vnc-record=replay")
    assert not (pytester.path / "runs").exists()
    assert not (pytester.path / "summary.md").exists()


def test_unwritable_results_end_no_session(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    (pytester.path / "file").touch()
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path / "no" / "directory" / "summary.md"))
    pytester.makeconftest(OWN_DESKTOP)
    pytester.makepyfile("def test_it(vnc_desktop): ...")
    result = pytester.runpytest_subprocess(*QUIET, "--vnc-results=file/told.json", "--vnc-runs-dir=file/runs")
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(
        [
            "vnc-use: the results could not be written: *file*",
            "vnc-use: the job summary for GitHub, GITHUB_STEP_SUMMARY='*summary.md', cannot be written: No such *",
            "vnc-use: the report could not be written: *",
        ]
    )


def test_results_file_is_written_where_named(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_without_desktop(): pass")
    pytester.runpytest_subprocess(*QUIET, "-k", "nothing", "--vnc-results=deep/told.json")
    assert read_results(pytester.path / "deep" / "told.json").tests == ()
    copy = pytester.path / "runs" / "vnc-results.json"
    assert copy.read_bytes() == (pytester.path / "deep" / "told.json").read_bytes(), "for who has only the runs"


def results_with(message: str, count: int = 1) -> SessionResults:
    tests = [ItemResult(f"test_{number}", "failed", "product", message=message) for number in range(count)]
    return session_results("2026-01-01T00:00:00+00:00", "2026-01-01T00:00:01+00:00", tests)


def test_github_summary_counts_healed_and_cuts_rows() -> None:
    healed = ItemResult("test_it.py::test_one", "passed", healed=("drifted",), went_on=("drifted before",))
    failed = ItemResult("test_it.py::test_two", "failed", "product", went_on=("drifted",))
    shown = markdown(session_results("", "", [healed, failed])).splitlines()
    assert "1 healed  " in shown
    assert "1 not healed: a model continued after a drift, and the test did not pass  " in shown
    long = results_with("no", count=103)
    assert markdown(long).count("\n| test") == 101
    assert markdown(long).endswith("and 3 more\n")
    assert [*lines(long)] == ["103 failed: 103 product"]
