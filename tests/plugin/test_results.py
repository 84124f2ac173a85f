"""What a failure is reported as, and where: terminal, JUnit's XML, vnc-results.json,
pytest-html, GitHub.

One session of tests that end in all ways: tests/test_snapshot.py.
"""

from __future__ import annotations

import pytest

from pytest_vnc_use.errors import DesktopError, ScreenBlank
from pytest_vnc_use.report.results import ItemResult, read_results, session_results
from pytest_vnc_use.report.summaries import lines, markdown
from pytest_vnc_use.triage import DesktopFailure, failure_of
from support.pad_sessions import QUIET, results

OWN_DESKTOP = """
import pytest

class Desktop:
    ended = ""
    def program_exit_reason(self):
        return self.ended

@pytest.fixture
def vnc_desktop():
    return Desktop()
"""
RERUNS = """
import pytest
from pytest_vnc_use.errors import ConnectionLost, Inconclusive, InfraError, ProductFailed, QuotaExhausted

ERRORS = {
    "quota_InfraError": QuotaExhausted("per minute"),
    "product_InfraError": ProductFailed("the total is 4.00"),
    "drift_Inconclusive": Inconclusive("a dialog hides it"),
}

@pytest.mark.parametrize("name", [
    pytest.param(name, marks=pytest.mark.flaky(reruns=1, only_rerun=name.partition("_")[2]), id=name) for name in ERRORS
])
def test_raised(name, request, vnc_desktop):
    if request.node.execution_count == 1:
        raise ERRORS[name]

@pytest.mark.flaky(reruns=1, only_rerun="InfraError")
def test_crash(request, vnc_desktop):
    if request.node.execution_count == 1:
        vnc_desktop.ended = "the program 'shop' exited with -11 (SIGSEGV)"
        raise ConnectionLost("gone")

"""
RERUN = {
    "raised[quota_InfraError]": ("passed", None),
    "raised[product_InfraError]": ("failed", "product"),
    "raised[drift_Inconclusive]": ("passed", None),
    "crash": ("failed", "product"),
}


@pytest.mark.slow
def test_rerunfailures_finds_triage(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(OWN_DESKTOP)
    pytester.makepyfile(test_it=RERUNS)
    result = pytester.runpytest_subprocess(*QUIET)
    tests = results()
    assert {name: (test.result, test.triage) for name, test in tests.items()} == RERUN
    reruns = {name for name, test in tests.items() if test.retried_for}
    assert reruns == {name for name, (result, _) in RERUN.items() if result == "passed"}
    result.stdout.fnmatch_lines(
        ["vnc-use: 2 failed: 2 product", "vnc-use: 2 tried again: *"]
    )


@pytest.mark.usefixtures("without_settings")
def test_user_desktop_without_settings_is_reported(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    result.stdout.fnmatch_lines(
        [
            "vnc-use: 3 failed: 1 product, 2 infra",
            "FAILED *::test_fails - product: assert 0",
        ]
    )


@pytest.mark.usefixtures("without_settings")
def test_session_without_desktop_writes_only_named_results(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path / "summary.md"))
    pytester.makeconftest(OWN_DESKTOP)
    pytester.makepyfile(
        "import pytest\n\ndef test_it(): assert 0\n\n@pytest.mark.skip\ndef"
        " test_later(vnc_desktop): ..."
    )
    result = pytester.runpytest_subprocess(
        *QUIET, "--html=report.html", "--junitxml=junit.xml"
    )
    result.assert_outcomes(failed=1, skipped=1)
    assert "vnc-use:" not in result.stdout.str()
    assert "Triage" not in (pytester.path / "report.html").read_text(encoding="utf-8")
    assert "vnc_" not in (pytester.path / "junit.xml").read_text(encoding="utf-8")
    nothing = (*QUIET, "-k", "nothing")
    pytester.runpytest_subprocess(*nothing, "--vnc-record=replay")
    runs = pytester.path / "runs"
    assert not runs.exists()
    assert not (pytester.path / "summary.md").exists()
    pytester.runpytest_subprocess(*nothing, "--vnc-results=deep/named.json")
    named = pytester.path / "deep" / "named.json"
    assert read_results(named).tests == ()
    beside_runs = (runs / "vnc-results.json").read_bytes()
    assert beside_runs == named.read_bytes(), "for who has only the runs"


def test_unwritable_results_end_no_session(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    (pytester.path / "file").touch()
    monkeypatch.setenv(
        "GITHUB_STEP_SUMMARY", str(pytester.path / "no" / "directory" / "summary.md")
    )
    pytester.makeconftest(OWN_DESKTOP)
    pytester.makepyfile("def test_it(vnc_desktop): ...")
    result = pytester.runpytest_subprocess(
        *QUIET, "--vnc-results=file/named.json", "--vnc-runs-dir=file/runs"
    )
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(
        [
            "vnc-use: the results could not be written: *file*",
            (
                "vnc-use: the job summary for GitHub,"
                " GITHUB_STEP_SUMMARY='*summary.md', cannot be written: No such *"
            ),
            "vnc-use: the report could not be written: *",
        ]
    )


def test_github_summary_counts_healed() -> None:
    healed = ItemResult(
        "test_it.py::test_one",
        "passed",
        healed=("drifted",),
        not_healed=("drifted before",),
    )
    failed = ItemResult(
        "test_it.py::test_two", "failed", "product", not_healed=("drifted",)
    )
    shown = markdown(session_results("", "", [healed, failed])).splitlines()
    assert "1 healed  " in shown
    not_healed = "1 not healed: a model continued after a drift, and the test did not"
    assert f"{not_healed} pass  " in shown


def test_github_summary_of_many_failures_is_cut() -> None:
    names = [f"test_{number}" for number in range(103)]
    tests = [ItemResult(name, "failed", "product") for name in names]
    results = session_results("", "", tests)
    assert markdown(results).count("\n| test") == 101
    assert markdown(results).endswith("and 3 more\n")
    assert [*lines(results)] == ["103 failed: 103 product"]


@pytest.mark.parametrize(
    ("end", "line"),
    [
        (
            "raise KeyboardInterrupt",
            (
                "1 test did not end, as the session was interrupted; nothing was"
                " recorded of it\n"
            ),
        ),
        ("pytest.exit('enough')", "1 failed: 1 infra\n"),
    ],
)
def test_test_in_which_session_ends_is_infra(
    pytester: pytest.Pytester, end: str, line: str
) -> None:
    pytester.makeconftest(OWN_DESKTOP)
    pytester.makepyfile(
        "import pytest\ndef test_before(vnc_desktop): ...\ndef test_ends(vnc_desktop):"
        f" {end}"
    )
    result = pytester.runpytest_subprocess(*QUIET, "--vnc-record=rewrite")
    assert result.ret != pytest.ExitCode.OK
    ended = results()["ends"]
    assert ended.result == "error"
    assert ended.triage == "infra"
    assert f"vnc-use: {line}" in result.stdout.str()
    assert ("1 infra" in result.stdout.str()) == ("infra" in line)


class Hanging:
    server = "localhost::1"
    password = None

    def program_hangs(self) -> bool:
        return True


def test_blank_screen_of_hanging_program_is_its_fault() -> None:
    assert failure_of(Hanging(), ScreenBlank("one colour only")).hangs  # type: ignore[arg-type]  # a user's own
    assert not failure_of(Hanging(), DesktopError("no way there"))  # type: ignore[arg-type]  # as above


@pytest.mark.parametrize(
    ("end", "has_failed"),
    [
        ("exited with -11 (SIGSEGV)", True),
        ("exited with 139", True),
        ("exited with 0", False),
    ],
)
def test_program_has_failed_unless_it_was_closed(end: str, *, has_failed: bool) -> None:
    failure = DesktopFailure(f"the program 'pad' {end}\nWARNING", of_program=True)
    assert failure.has_failed == has_failed


def test_parameter_sets_checked_by_body_are_counted() -> None:
    names = [f"t.py::test_a[{number}]" for number in range(12)]
    tests = []
    for name in (*names, "t.py::test_b[x]"):
        tests.append(ItemResult(name, "passed", checked_by=("body",)))
    assert [*lines(session_results("", "", tests))] == [
        "13 checked by the test's body alone (expect=None): t.py::test_a (12 sets),"
        " t.py::test_b[x]"
    ]
