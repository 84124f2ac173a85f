"""What a failure is reported as, and where: terminal, JUnit's XML, vnc-results.json, pytest-html, GitHub.

One session under pytest-xdist, of tests that end in all ways, is looked at from all sides.
"""

from __future__ import annotations

import html
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pytest_vnc_use.errors import RunDirectoryError
from pytest_vnc_use.report.results import ItemResult, SessionResults, read_results, session_results
from pytest_vnc_use.report.summaries import lines, markdown
from support.pad_sessions import QUIET, results
from support.paths import PAD
from support.vnc_servers import require, require_pyside

PLANS = """
import pytest
from pytest_vnc_use.errors import QuotaExhausted
from pytest_vnc_use.planners.local.scripted import ScriptedPlanner
from pytest_vnc_use.types import Click, Decision

def out_of_quota(observation):
    raise QuotaExhausted("no more <b>today</b> | never")

@pytest.fixture
def vnc_planner(request):
    gives_up = [[Click(9, 9)], Decision("gave_up", "no basket")]
    scripts = {"test_agent": gives_up, "test_infra": out_of_quota}
    return ScriptedPlanner(scripts.get(request.node.name, [[Click(5, 5)]]))
"""
ENDS = """
import pytest

task = pytest.mark.vnc_task("Click it", expect=None)

@task
def test_passed(vnc_desktop):
    assert "press" in vnc_desktop.read_file("events.txt")

@task
def test_product(vnc_desktop):
    assert vnc_desktop.read_file("events.txt") == "3.00"

@task
def test_agent(vnc_desktop): ...

@task
def test_infra(vnc_desktop): ...

@pytest.mark.vnc_task("Click it", secrets="NOSUCH_PASSWORD", expect=None)
def test_settings(vnc_desktop): ...

@pytest.fixture
def orders(vnc_desktop):
    yield
    raise LookupError("in a teardown")

def test_teardown(orders): ...

@pytest.mark.xfail(raises=AssertionError)
def test_xfailed(vnc_desktop): assert 0

def test_skipped(vnc_desktop): pytest.skip("not today")

@pytest.mark.xfail(run=False)
def test_not_run(vnc_desktop): ...

@pytest.mark.skip
def test_by_mark(vnc_desktop): ...

def test_fails_first(orders): assert 0

def test_without_desktop(): assert 0
"""
ENDED = {
    "passed": ("passed", None),
    "product": ("failed", "product"),
    "agent": ("failed", "agent"),
    "infra": ("failed", "infra"),
    "settings": ("error", "settings"),
    "teardown": ("error", "inconclusive"),
    "xfailed": ("xfailed", None),
    "skipped": ("skipped", None),
    "not_run": ("xfailed", None),
    "by_mark": ("skipped", None),
    "fails_first": ("failed", "product"),
}


@dataclass(frozen=True)
class Session:
    """A session of pytest that is over."""

    path: Path
    output: str

    def text(self, name: str) -> str:
        return (self.path / name).read_text(encoding="utf-8")


def ended_session(path: Path) -> Session:
    require_pyside()
    (path / "conftest.py").write_text(PLANS, encoding="utf-8")
    (path / "test_it.py").write_text(ENDS, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", *QUIET, "-n2", "-ra", "-o", "junit_family=xunit1"]
    command += ["--junitxml=junit.xml", "--html=report.html", "--self-contained-html", "--vnc-results=told.json"]
    command += ["--vnc-server=qt", f"--vnc-app={shlex.join(PAD)}", "--vnc-scope=session"]
    environment = {**os.environ, "GITHUB_STEP_SUMMARY": str(path / "summary.md"), "COLUMNS": "200", "CI": ""}
    ran = subprocess.run(command, cwd=path, env=environment, timeout=400, capture_output=True, text=True, check=False)
    return Session(path, ran.stdout)


def check_terminal(session: Session) -> None:
    for line in (
        "FAILED test_it.py::test_infra - infra: QuotaExhausted: no more <b>today</b> | never",
        "FAILED test_it.py::test_agent - agent: the task ended as gave_up: no basket",
        "FAILED test_it.py::test_product - product: AssertionError: assert 'press",
        "ERROR test_it.py::test_teardown - inconclusive: LookupError: in a teardown",
        "ERROR test_it.py::test_settings - settings: vnc_task(secrets=…) names",
        "FAILED test_it.py::test_without_desktop - assert 0",
        "vnc-use: 6 failed: 2 product, 1 agent, 1 infra, 1 inconclusive, 1 settings\n",
        "vnc-use: results in told.json\n",
    ):
        assert line in session.output


def check_results_file(session: Session) -> None:
    told = read_results(session.path / "told.json")
    tests = {test.test.removeprefix("test_it.py::test_"): test for test in told.tests}
    assert {name: (test.result, test.triage) for name, test in tests.items()} == ENDED
    agent = tests["agent"]
    assert agent.message == "the task ended as gave_up: no basket"
    assert agent.rule.startswith("the planner gave up, was repeating itself or answered no action")
    (run,) = agent.runs
    assert (run.outcome, run.message, run.steps, run.planner) == ("gave_up", "no basket", 1, "scripted")
    assert (session.path / run.directory / "trace.jsonl").is_file()
    assert 0 < run.steps_s <= agent.duration_s
    assert told.started_at < told.ended_at
    totals = told.totals
    assert totals.results == {"passed": 1, "failed": 4, "error": 2, "xfailed": 2, "skipped": 2}
    assert totals.triage == {"product": 2, "agent": 1, "infra": 1, "inconclusive": 1, "settings": 1}
    assert (totals.tests, totals.runs, totals.steps, totals.dollars) == (11, 4, 3, None)


def check_junit(session: Session) -> None:
    cases = {
        case.get("name"): case for case in ElementTree.parse(session.path / "junit.xml").getroot().iter("testcase")
    }
    properties = {
        name: {noted.get("name"): noted.get("value") for noted in case.iter("property")} for name, case in cases.items()
    }
    agent = properties["test_agent"]
    assert (agent["vnc_triage"], agent["vnc_outcome"], agent["vnc_planner"]) == ("agent", "gave_up", "scripted")
    assert (session.path / str(agent["vnc_page"])).name == "index.html"
    assert properties["test_teardown"]["vnc_triage"] == "inconclusive"
    assert "vnc_triage" not in {*properties["test_xfailed"], *properties["test_passed"]}
    assert properties["test_without_desktop"] == {}
    output = {name: case.findtext("system-out") or "" for name, case in cases.items()}
    assert {name for name, text in output.items() if text} == {"test_product", "test_agent", "test_infra"}
    screenshot, page, last = output["test_product"].splitlines()
    assert last.startswith("last step: ")
    named = re.fullmatch(r"\[\[ATTACHMENT\|(runs/[^\[\]|]+/screens/\w+\.png)\]\]", screenshot)
    assert named
    assert (session.path / named[1]).is_file()
    assert (session.path / page.removeprefix("page of the run: ")).is_file()


def check_html_report(session: Session) -> None:
    report = session.text("report.html")
    assert re.search(
        r"sentence[^>]{0,20}>The test failed: QuotaExhausted: no more", html.unescape(html.unescape(report))
    )
    assert '<th class="sortable" data-column-type="triage">Triage</th>' in report
    for triage in ("product", "agent", "infra", "settings", "inconclusive", ""):
        assert f"col-triage&#34;&gt;{triage}&lt;" in report or f"col-triage\\&#34;&gt;{triage}" in report, triage


def check_github_summary(session: Session) -> None:
    summary = session.text("summary.md").splitlines()
    assert summary[0] == "### Tests of graphical programs"
    assert "6 failed: 2 product, 1 agent, 1 infra, 1 inconclusive, 1 settings  " in summary
    (row,) = [line for line in summary if "quota" in line.lower()]
    assert r"| infra | QuotaExhausted\: no more \<b\>today\<\/b\> \| never | 0 | 0 |" in row
    assert len([line for line in summary if line.startswith("| test")]) == 7


def test_session_on_workers_is_reported_everywhere(tmp_path: Path) -> None:
    session = ended_session(tmp_path)
    check_terminal(session)
    check_results_file(session)
    check_junit(session)
    check_html_report(session)
    check_github_summary(session)


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

def again(only):
    return pytest.mark.flaky(reruns=1, only_rerun=only)

def first(request):
    name = Path(request.node.name)
    name.exists() or name.touch()
    with name.open("a") as file:
        file.write("x")
    return len(name.read_text()) == 1

QUOTA, DISK = QuotaExhausted("per minute"), OSError(28, "No space left on device")
ERRORS = {
    "quota_InfraError": QUOTA,
    "quota_QuotaExhausted": QUOTA,
    "quota_Inconclusive": QUOTA,
    "disk_InfraError": DISK,
    "disk_QuotaExhausted": DISK,
    "product_InfraError": ProductFailed("the total is 4.00"),
    "assertion_InfraError": AssertionError("4.00"),
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

@pytest.fixture
def out_in_setup(request, vnc_desktop):
    if first(request):
        raise QUOTA

@pytest.mark.flaky(reruns=1, only_rerun="InfraError")
def test_setup(out_in_setup): ...

@pytest.mark.xfail(raises=QuotaExhausted)
def test_xfail_quota(vnc_desktop):
    raise QuotaExhausted("per minute")

@pytest.mark.xfail(raises=Inconclusive)
def test_xfail_unsure(vnc_desktop):
    assert Verdict("the total is 3.00", "unsure", "a dialog hides it")

@pytest.mark.xfail(raises=InfraError)
def test_xfail_disk(vnc_desktop):
    raise OSError(28, "No space left on device")

@pytest.mark.xfail(strict=True)
def test_xfail_passes(vnc_desktop): ...
"""
RERUN = {
    "raised[quota_InfraError]": ("passed", None),
    "raised[quota_QuotaExhausted]": ("passed", None),
    "raised[quota_Inconclusive]": ("failed", "infra"),
    "raised[disk_InfraError]": ("passed", None),
    "raised[disk_QuotaExhausted]": ("failed", "infra"),
    "raised[product_InfraError]": ("failed", "product"),
    "raised[assertion_InfraError]": ("failed", "product"),
    "raised[drift_Inconclusive]": ("passed", None),
    "crash": ("failed", "product"),
    "setup": ("passed", None),
    "xfail_quota": ("xfailed", "infra"),
    "xfail_unsure": ("xfailed", "inconclusive"),
    "xfail_disk": ("xfailed", "infra"),
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
    result.stdout.fnmatch_lines(["vnc-use: 6 failed: 3 product, 2 infra, 1 inconclusive", "vnc-use: 5 tried again: *"])


def test_error_of_shared_fixture_is_reported_alike(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        from pytest_vnc_use.errors import DesktopError

        class OutOfDesktops(DesktopError):
            def __init__(self, count, place):
                super().__init__(f"all {count} are in use in {place}")

        @pytest.fixture(scope="module")
        def vnc_desktop():
            raise OutOfDesktops(3, "the lab")

        def test_one(vnc_desktop): ...
        def test_two(vnc_desktop): ...
        """
    )
    result = pytester.runpytest_subprocess(*QUIET)
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["infra: OutOfDesktops: all 3 are in use in the lab"] * 2)


@pytest.fixture
def without_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("VNC_USE_WATCH", "VNC_USE_REHEARSE", "VNC_USE_QT_HOST_NETWORK"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.slow
@pytest.mark.usefixtures("without_settings")
@pytest.mark.parametrize("options", [(), ("-n2",)], ids=["alone", "on workers"])
def test_user_desktop_without_settings_is_reported(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    pytester.makeconftest(OWN_DESKTOP)
    pytester.makepyfile(test_it="def test_it(vnc_desktop): assert 0\n\ndef test_other(vnc_desktop): ...")
    result = pytester.runpytest_subprocess(*QUIET, *options)
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["vnc-use: 1 failed: 1 product", "FAILED *::test_it - product: assert 0"])
    assert {name: (test.result, test.triage) for name, test in results().items()} == {
        "it": ("failed", "product"),
        "other": ("passed", None),
    }


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
    result = pytester.runpytest_inprocess(*QUIET, "--setup-only")
    assert "vnc-use:" not in result.stdout.str()
    pytester.runpytest_inprocess(*QUIET, "-k", "nothing", "--vnc-record=replay")
    assert not (pytester.path / "runs").exists()
    assert not (pytester.path / "summary.md").exists()


def test_unwritable_results_end_no_session(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    (pytester.path / "file").touch()
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path / "no" / "directory" / "summary.md"))
    pytester.makeconftest(OWN_DESKTOP)
    pytester.makepyfile("def test_it(vnc_desktop): ...")
    result = pytester.runpytest_inprocess(*QUIET, "--vnc-results=file/told.json", "--vnc-runs-dir=file/runs")
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
    pytester.runpytest_inprocess(*QUIET, "-k", "nothing", "--vnc-results=deep/told.json")
    assert read_results(pytester.path / "deep" / "told.json").tests == ()
    copy = pytester.path / "runs" / "vnc-results.json"
    assert copy.read_bytes() == (pytester.path / "deep" / "told.json").read_bytes(), "for who has only the runs"


@pytest.mark.desktop
def test_missing_program_is_wrong_setting(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    require("Xtigervnc")
    monkeypatch.setenv("COLUMNS", "200")
    pytester.makepyfile("def test_it(vnc_agent): ...\n\ndef test_look(vnc_agent): vnc_agent.screenshot()")
    pytester.makeini("[pytest]\nvnc_planner = gemini\n")
    result = pytester.runpytest_subprocess(*QUIET, "--vnc-server=xvnc", "--vnc-app=nosuchprogram", "--tb=line")
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["ERROR *test_it - settings: cannot start 'nosuchprogram': *"])
    assert [(test.result, test.triage) for test in results().values()] == [("error", "settings")] * 2


def results_with(message: str, count: int = 1) -> SessionResults:
    tests = [ItemResult(f"test_{number}", "failed", "product", message=message) for number in range(count)]
    return session_results("2026-01-01T00:00:00+00:00", "2026-01-01T00:00:01+00:00", tests)


def test_text_of_model_is_no_markup_on_github() -> None:
    hostile = "![x](http://evil/) <img src=x> `a` | b\n# head @all **bold** &amp;" + "x" * 400
    (row,) = [line for line in markdown(results_with(hostile)).splitlines() if line.startswith(r"| test\_")]
    shown = row.split(" | ")[2]
    assert shown.startswith(r"\!\[x\]\(http\:\/\/evil\/\) \<img src\=x\> \`a\` \| b \# head \@all")
    assert shown.endswith("xx…")


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


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "must be results in JSON"),
        ("[]", "must be pytest-vnc-use results up to version 1, got a list"),
        ('{"format": "pytest-vnc-use results", "version": 2}', "up to version 1, got .*'version': 2"),
        ('{"format": "pytest-vnc-use results", "version": 1}', "does not fit"),
    ],
)
def test_unreadable_results_are_error(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "vnc-results.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(RunDirectoryError, match=problem):
        read_results(file)
