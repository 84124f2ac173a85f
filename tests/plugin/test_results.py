"""What a failure is told as, and where: terminal, JUnit's XML, vnc-results.json, pytest-html, GitHub.

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

from pytest_vnc_use.errors import RunFolderError
from pytest_vnc_use.report.results import ItemResult, SessionResults, read_results, session_results
from pytest_vnc_use.report.summaries import lines, markdown
from support.paths import PAD
from support.vnc_servers import require

QUIET = ("-p", "no:cacheprovider", "-p", "no:pytest-vnc")
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
import os
import pytest

@pytest.mark.vnc_task("Click it", expect=None)
def test_passed(vnc_desktop):
    assert "press" in vnc_desktop.read_file("events.txt")

@pytest.mark.vnc_task("Click it", expect=None)
def test_product(vnc_desktop):
    assert vnc_desktop.read_file("orders.csv" if 0 else "events.txt") == "3.00"

@pytest.mark.vnc_task("Click it", expect=None)
def test_agent(vnc_desktop): assert vnc_desktop

@pytest.mark.vnc_task("Click it", expect=None)
def test_infra(vnc_desktop): assert vnc_desktop

@pytest.mark.vnc_task("Click it", secrets="NOSUCH_PASSWORD", expect=None)
def test_settings(vnc_desktop): assert vnc_desktop

@pytest.fixture
def orders(vnc_desktop):
    yield
    raise LookupError("in a teardown")

def test_teardown(orders): ...

@pytest.mark.xfail(raises=AssertionError)
def test_xfailed(vnc_desktop): assert 0

def test_skipped(vnc_desktop): pytest.skip("not today")

def test_without_a_desktop(): assert 0
"""


@dataclass(frozen=True)
class Session:
    """A session of pytest that is over."""

    place: Path
    output: str

    @property
    def results(self) -> SessionResults:
        return read_results(self.place / "told.json")


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    place = tmp_path_factory.mktemp("session")
    (place / "conftest.py").write_text(PLANS, encoding="utf-8")
    (place / "test_it.py").write_text(ENDS, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", *QUIET, "-n2", "-ra", "-o", "junit_family=xunit1"]
    told = ["--junitxml=junit.xml", "--html=report.html", "--self-contained-html", "--vnc-results=told.json"]
    environment = {**os.environ, "GITHUB_STEP_SUMMARY": str(place / "summary.md"), "COLUMNS": "200", "CI": ""}
    ran = subprocess.run(
        [*command, *told, "--vnc-server=qt", f"--vnc-app={shlex.join(PAD)}", "--vnc-scope=session"],
        cwd=place,
        env=environment,
        timeout=400,
        capture_output=True,
        text=True,
        check=False,
    )
    return Session(place, ran.stdout)


TRIAGES = {
    "test_it.py::test_passed": ("passed", None),
    "test_it.py::test_product": ("failed", "product"),
    "test_it.py::test_agent": ("failed", "agent"),
    "test_it.py::test_infra": ("failed", "infra"),
    "test_it.py::test_settings": ("error", "settings"),
    "test_it.py::test_teardown": ("error", "inconclusive"),
    "test_it.py::test_xfailed": ("xfailed", None),
    "test_it.py::test_skipped": ("skipped", None),
}


@pytest.mark.desktop
@pytest.mark.slow
def test_the_short_summary_says_it_first(session: Session) -> None:
    assert "FAILED test_it.py::test_infra - infra: QuotaExhausted: no more <b>today</b> | never" in session.output
    assert "FAILED test_it.py::test_agent - agent: the task ended as gave_up: no basket" in session.output
    assert "FAILED test_it.py::test_product - product: AssertionError: assert 'press" in session.output
    assert "ERROR test_it.py::test_teardown - inconclusive: LookupError: in a teardown" in session.output
    assert "ERROR test_it.py::test_settings - settings: vnc_task(secrets=…) names" in session.output
    assert "FAILED test_it.py::test_without_a_desktop - assert 0" in session.output


@pytest.mark.slow
def test_the_terminal_counts(session: Session) -> None:
    assert "vnc-use: 5 failed: 1 product, 1 agent, 1 infra, 1 inconclusive, 1 settings\n" in session.output
    assert "vnc-use: results in told.json\n" in session.output


@pytest.mark.slow
def test_the_results_of_all_workers_are_in_one_file(session: Session) -> None:
    tests = {test.test: test for test in session.results.tests}
    assert {name: (test.result, test.triage) for name, test in tests.items()} == TRIAGES
    agent = tests["test_it.py::test_agent"]
    assert (agent.message, agent.rule) == (
        "the task ended as gave_up: no basket",
        "the planner gave up, was repeating itself or answered no action, or the task is not seen to be done",
    )
    (run,) = agent.runs
    assert (run.outcome, run.message, run.steps, run.planner) == ("gave_up", "no basket", 1, "scripted")
    assert (session.place / run.folder / "trace.jsonl").is_file()
    assert run.steps_s > 0
    assert agent.duration_s >= run.steps_s
    assert session.results.started_at < session.results.ended_at


@pytest.mark.slow
def test_its_totals_are_sums(session: Session) -> None:
    totals = session.results.totals
    assert totals.results == {"passed": 1, "failed": 3, "error": 2, "xfailed": 1, "skipped": 1}
    assert totals.triage == {"product": 1, "agent": 1, "infra": 1, "inconclusive": 1, "settings": 1}
    assert (totals.tests, totals.runs, totals.steps, totals.dollars) == (8, 4, 3, None)


@pytest.mark.slow
def test_junit_has_it_as_properties(session: Session) -> None:
    suite = ElementTree.parse(session.place / "junit.xml").getroot()
    properties = {
        case.get("name"): {each.get("name"): each.get("value") for each in case.iter("property")}
        for case in suite.iter("testcase")
    }
    assert properties["test_agent"]["vnc_triage"] == "agent"
    assert properties["test_agent"]["vnc_outcome"] == "gave_up"
    assert properties["test_agent"]["vnc_planner"] == "scripted"
    assert (session.place / properties["test_agent"]["vnc_page"]).name == "index.html"
    assert properties["test_teardown"]["vnc_triage"] == "inconclusive"
    assert "vnc_triage" not in {*properties["test_xfailed"], *properties["test_passed"]}
    assert properties["test_without_a_desktop"] == {}


@pytest.mark.slow
def test_junit_has_the_picture_of_a_test_that_failed(session: Session) -> None:
    suite = ElementTree.parse(session.place / "junit.xml").getroot()
    told = {case.get("name"): case.findtext("system-out") or "" for case in suite.iter("testcase")}
    assert {name for name, text in told.items() if text} == {"test_product", "test_agent", "test_infra"}
    picture, page, last = told["test_product"].splitlines()
    assert last.startswith("last step: ")
    named = re.fullmatch(r"\[\[ATTACHMENT\|(runs/[^\[\]|]+/screens/\w+\.png)\]\]", picture)
    assert named
    assert (session.place / named[1]).is_file()
    assert (session.place / page.removeprefix("page of the run: ")).is_file()


@pytest.mark.slow
def test_the_html_report_says_what_each_failed_test_came_to(session: Session) -> None:
    report = (session.place / "report.html").read_text(encoding="utf-8")
    assert re.search(r"vnc-sentence[^>]{0,20}>QuotaExhausted: no more", html.unescape(html.unescape(report)))


@pytest.mark.slow
def test_the_html_report_has_a_column(session: Session) -> None:
    report = (session.place / "report.html").read_text(encoding="utf-8")
    assert '<th class="sortable" data-column-type="triage">Triage</th>' in report
    for triage in ("product", "agent", "infra", "settings", "inconclusive", ""):
        assert f"col-triage&#34;&gt;{triage}&lt;" in report or f"col-triage\\&#34;&gt;{triage}" in report, triage


@pytest.mark.slow
def test_github_is_told_in_a_table(session: Session) -> None:
    summary = (session.place / "summary.md").read_text(encoding="utf-8").splitlines()
    assert summary[0] == "### Tests of graphical programs"
    assert "5 failed: 1 product, 1 agent, 1 infra, 1 inconclusive, 1 settings  " in summary
    (row,) = [line for line in summary if "quota" in line.lower()]
    assert r"| infra | QuotaExhausted\: no more \<b\>today\<\/b\> \| never | 0 | 0 |" in row
    assert len([line for line in summary if line.startswith("| test")]) == 6


# --- tried again ------------------------------------------------------------------------------------------------------

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
TRIED_AGAIN = """
from pathlib import Path
import pytest
from pytest_vnc_use.errors import ConnectionLost, ProductFailed, QuotaExhausted
from pytest_vnc_use.types import Verdict

def tries(name):
    with open(name, "a") as file:
        file.write("x")
    return len(Path(name).read_text())

def test_infra(vnc_desktop):
    if tries("infra") == 1:
        raise QuotaExhausted("per minute")

def test_product(vnc_desktop):
    tries("product")
    raise ProductFailed("the total is 4.00")

def test_assertion(vnc_desktop):
    assert tries("assertion") == 0

def test_crash(vnc_desktop):
    tries("crash")
    vnc_desktop.ended = "the program 'shop' exited with -11 (SIGSEGV)"
    raise ConnectionLost("gone")

def test_unsure(vnc_desktop):
    if tries("unsure") == 1:
        assert Verdict("the total is 3.00", "unsure", "a dialog hides it")

def test_disk(vnc_desktop):
    if tries("disk") == 1:
        raise OSError(28, "No space left on device")

@pytest.fixture
def out_in_setup(vnc_desktop):
    if tries("setup") == 1:
        raise QuotaExhausted("per minute")

def test_setup(out_in_setup): ...
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("only", "twice"),
    [("InfraError", {"infra", "disk", "setup"}), ("Inconclusive", {"unsure"}), ("QuotaExhausted", {"infra", "setup"})],
)
def test_rerunfailures_tries_again_what_has_the_class(pytester: pytest.Pytester, only: str, twice: set[str]) -> None:
    pytester.makeconftest(OWN_DESKTOP)
    pytester.makepyfile(TRIED_AGAIN)
    result = pytester.runpytest_subprocess(*QUIET, "--reruns=1", f"--only-rerun={only}")
    tried = {file.name: file.read_text() for file in pytester.path.iterdir() if file.suffix == "" and file.is_file()}
    assert {name for name, marks in tried.items() if marks == "xx"} == twice
    result.assert_outcomes(passed=len(twice), failed=6 - len(twice - {"setup"}), errors="setup" not in twice)
    tests = {test.test.rpartition("::test_")[2]: test for test in read_results(Path("runs/vnc-results.json")).tests}
    assert {name for name, test in tests.items() if test.retried_for and test.result == "passed"} == twice
    assert tests["crash"].triage == tests["product"].triage == tests["assertion"].triage == "product"
    kinds = {"InfraError": "infra", "QuotaExhausted": "infra", "Inconclusive": "inconclusive"}
    result.stdout.fnmatch_lines([f"vnc-use: {len(twice)} tried again: {len(twice)} {kinds[only]}"])


@pytest.mark.slow
def test_expected_failures_stay_what_they_are(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(OWN_DESKTOP)
    pytester.makepyfile(
        """
        import pytest
        from pytest_vnc_use.errors import Inconclusive, InfraError, QuotaExhausted
        from pytest_vnc_use.types import Verdict

        @pytest.mark.xfail(raises=QuotaExhausted)
        def test_quota(vnc_desktop):
            raise QuotaExhausted("per minute")

        @pytest.mark.xfail(raises=Inconclusive)
        def test_unsure(vnc_desktop):
            assert Verdict("the total is 3.00", "unsure", "a dialog hides it")

        @pytest.mark.xfail(raises=InfraError)
        def test_disk(vnc_desktop):
            raise OSError(28, "No space left on device")

        @pytest.mark.xfail(strict=True)
        def test_passes(vnc_desktop): ...
        """
    )
    result = pytester.runpytest_subprocess(*QUIET)
    result.assert_outcomes(xfailed=3, failed=1)
    result.stdout.fnmatch_lines(["vnc-use: 1 failed: 1 inconclusive"])


def test_what_a_fixture_of_several_tests_raised_is_told_alike(pytester: pytest.Pytester) -> None:
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


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("-n2",)], ids=["alone", "on workers"])
def test_without_any_setting_a_test_on_a_desktop_of_its_own_is_told(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    """Without any setting, the collected test shows that there is something to report."""
    monkeypatch.delenv("VNC_USE_WATCH")
    monkeypatch.delenv("VNC_USE_REHEARSE")
    monkeypatch.setenv("COLUMNS", "200")
    pytester.makeconftest(OWN_DESKTOP)
    pytester.makepyfile(test_it="def test_it(vnc_desktop): assert 0\n\ndef test_other(vnc_desktop): ...")
    result = pytester.runpytest_subprocess(*QUIET, *options)
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["vnc-use: 1 failed: 1 product", "FAILED *::test_it - product: assert 0"])
    tests = read_results(Path("runs/vnc-results.json")).tests
    assert sorted((test.result, test.triage) for test in tests) == [("failed", "product"), ("passed", None)]


# --- a good guest -----------------------------------------------------------------------------------------------------


def test_without_a_test_on_a_desktop_nothing_is_told(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path / "summary.md"))
    monkeypatch.delenv("VNC_USE_WATCH")
    monkeypatch.delenv("VNC_USE_REHEARSE")
    monkeypatch.delenv("VNC_USE_QT_HOST_NETWORK", raising=False)
    pytester.makeconftest(OWN_DESKTOP)
    pytester.makepyfile(
        "import pytest\n\ndef test_it(): assert 0\n\n@pytest.mark.skip\ndef test_later(vnc_desktop): ..."
    )
    result = pytester.runpytest_subprocess(*QUIET, "--html=report.html", "--junitxml=junit.xml")
    result.assert_outcomes(failed=1, skipped=1)
    assert "vnc-use:" not in result.stdout.str()
    assert "Triage" not in (pytester.path / "report.html").read_text(encoding="utf-8")
    assert "vnc_" not in (pytester.path / "junit.xml").read_text(encoding="utf-8")
    assert not (pytester.path / "runs").exists()
    assert not (pytester.path / "summary.md").exists()


def test_results_that_cannot_be_written_end_no_session(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    (pytester.path / "file").touch()
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path / "no" / "folder" / "summary.md"))
    pytester.makeconftest(OWN_DESKTOP)
    pytester.makepyfile("def test_it(vnc_desktop): ...")
    result = pytester.runpytest_subprocess(*QUIET, "--vnc-results=file/told.json")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["vnc-use: the results could not be written: *file*"])
    result = pytester.runpytest_subprocess(*QUIET)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(
        [
            "vnc-use: results in runs/vnc-results.json",
            "vnc-use: the job summary for GitHub, GITHUB_STEP_SUMMARY='*summary.md', cannot be written: No such *",
        ]
    )
    assert "the results could not be written" not in result.stdout.str()
    assert read_results(pytester.path / "runs" / "vnc-results.json").tests[0].result == "passed"


@pytest.mark.desktop
def test_a_program_that_is_not_there_is_a_wrong_setting(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    require("Xtigervnc")
    monkeypatch.setenv("COLUMNS", "200")
    pytester.makepyfile("def test_it(vnc_agent): ...\n\ndef test_look(vnc_agent): vnc_agent.screenshot()")
    pytester.makeini("[pytest]\nvnc_results = deep/told.json\nvnc_planner = gemini\n")
    result = pytester.runpytest_subprocess(*QUIET, "--vnc-server=xvnc", "--vnc-app=nosuchprogram", "--tb=line")
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["ERROR *test_it - settings: cannot start 'nosuchprogram': *"])
    results = read_results(pytester.path / "deep" / "told.json")
    assert [(test.result, test.triage) for test in results.tests] == [("error", "settings")] * 2


# --- the parts --------------------------------------------------------------------------------------------------------


def test_nothing_that_a_model_says_is_markup_on_github() -> None:
    hostile = "![x](http://evil/) <img src=x> `a` | b\n# head @all **bold** &amp;" + "x" * 400
    (row,) = [line for line in markdown(of(hostile)).splitlines() if line.startswith(r"| test\_")]
    shown = row.split(" | ")[2]
    assert shown.startswith(r"\!\[x\]\(http\:\/\/evil\/\) \<img src\=x\> \`a\` \| b \# head \@all")
    assert shown.endswith("xx…")


def of(message: str, count: int = 1) -> SessionResults:
    tests = [ItemResult(f"test_{number}", "failed", "product", message=message) for number in range(count)]
    return session_results("2026-01-01T00:00:00+00:00", "2026-01-01T00:00:01+00:00", tests)


def test_github_is_told_of_healed_tests_and_of_those_that_were_not() -> None:
    healed = ItemResult("test_it.py::test_one", "passed", healed=("drifted",), went_on=("drifted before",))
    failed = ItemResult("test_it.py::test_two", "failed", "product", went_on=("drifted",))
    told = markdown(session_results("", "", [healed, failed])).splitlines()
    assert "1 healed  " in told
    assert "1 not healed: a model went on after a drift, and the test did not pass  " in told


def test_a_long_table_is_cut() -> None:
    told = markdown(of("no", count=103))
    assert told.count("\n| test") == 101
    assert told.endswith("and 3 more\n")
    assert [*lines(of("no", count=103))] == ["103 failed: 103 product"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "must be results in JSON"),
        ("[]", "must be pytest-vnc-use results up to version 1, got a list"),
        ('{"format": "pytest-vnc-use results", "version": 2}', "up to version 1, got .*'version': 2"),
        ('{"format": "pytest-vnc-use results", "version": 1}', "does not fit"),
    ],
)
def test_results_that_cannot_be_read_are_an_error_that_says_so(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "vnc-results.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(RunFolderError, match=told):
        read_results(file)


def test_a_job_without_tests_writes_results_if_a_file_is_named(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_without_a_desktop(): pass")
    pytester.runpytest_inprocess(*QUIET, "-k", "nothing", "--vnc-record=replay")
    assert not (pytester.path / "runs").exists()
    pytester.runpytest_inprocess(*QUIET, "-k", "nothing", "--vnc-results=told.json")
    assert read_results(pytester.path / "told.json").tests == ()
    copy = pytester.path / "runs" / "vnc-results.json"
    assert copy.read_bytes() == (pytester.path / "told.json").read_bytes(), "for who has only the runs"


def test_a_runs_folder_that_cannot_be_made_loses_no_results(pytester: pytest.Pytester) -> None:
    (pytester.path / "file").touch()
    pytester.makepyfile("def test_without_a_desktop(): pass")
    result = pytester.runpytest_inprocess(*QUIET, "--vnc-results=told.json", "--vnc-runs-dir=file/runs")
    result.stdout.fnmatch_lines(["vnc-use: results in told.json", "vnc-use: the report could not be written: *"])
