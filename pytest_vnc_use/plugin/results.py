"""The results of a session: in the terminal, vnc-results.json, the page index.html, pytest-html and a GitHub summary.

It receives the reports of all tests of a session, from all workers of
pytest-xdist, and prints nothing if no test had to do with a desktop.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vnc_use import clock
from pytest_vnc_use.plugin.recordings import LOST
from pytest_vnc_use.plugin.redaction import secrets_of
from pytest_vnc_use.plugin.state import ATTACHED, SETTINGS, attached_to
from pytest_vnc_use.settings.settings import Settings

if TYPE_CHECKING:
    from pytest_vnc_use.report.results import ItemResult, SessionResults

FILE = "vnc-results.json"
_NOT_ENDED = "the test did not end"
"""The rule if there is no report on a test's call: its worker crashed, or its session ended in the middle."""
_CRASHED = "???"
"""The phase in pytest-xdist's report on a test whose worker died, of which nobody knows if it has a desktop."""
_COLUMN = 2
"""The index of the triage column in pytest-html's table: after result and name."""


def pytest_configure(config: pytest.Config) -> None:
    """Collect results, but not on a worker, nor if the session only sets up fixtures."""
    if hasattr(config, "workerinput") or config.getoption("setuponly", False):
        return
    settings = config.stash[SETTINGS]
    config.pluginmanager.register(_Session(settings))
    if settings != Settings():
        config.pluginmanager.register(_TriageColumn())


class _Session:
    """A collector of the results of all tests, which reports them at the end."""

    def __init__(self, settings: Settings) -> None:
        from pytest_vnc_use.recordings import ALWAYS_WRITES

        self._path = Path(settings.results or Path(settings.runs_dir, FILE))
        self._is_given, self._is_set = bool(settings.results), settings != Settings()
        self._file = self._path.absolute()
        self._given_runs_dir, self._max_megabytes = Path(settings.runs_dir), settings.max_megabytes
        self._runs_dir = self._given_runs_dir.absolute()
        self._repeat = settings.repeat
        self._started_at = _now()
        self._tests: dict[str, ItemResult] = {}
        self._failed_elsewhere: set[str] = set()
        self._without_recording: set[str] = set()
        self._records_only = settings.record in ALWAYS_WRITES
        self._is_interrupted = False
        self._lines: list[str] = []
        self._results: SessionResults | None = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the report to the result of its test."""
        from pytest_vnc_use.report.results import ItemResult

        before = self._tests.get(report.nodeid) or _begun(ItemResult(report.nodeid, "error"))
        if hasattr(report, ATTACHED):
            self._tests[report.nodeid] = _after(self._tests.pop(report.nodeid, before), report)
            if any(text.startswith(LOST) for text in attached_to(report).get("recording", ())):
                self._without_recording.add(report.nodeid)
        elif report.nodeid in self._tests or (report.when == _CRASHED and (self._tests or self._is_set)):
            if report.outcome in ("failed", "rerun"):
                self._tests[report.nodeid] = _after_crash(before, report)
        elif report.failed:
            self._failed_elsewhere.add(report.nodeid)

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Note that a person pressed Ctrl-C; pytest calls this for `pytest.exit` too."""
        self._is_interrupted = excinfo.type is KeyboardInterrupt

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the results; where no file for them is given, only if a test with a desktop was not skipped.

        The session fails if it was for recordings, and one could not be written.
        """
        if self._without_recording and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if not self._is_given and all(test.result == "skipped" for test in self._tests.values()):
            return
        from pytest_vnc_use.report.reliability import reliability_lines

        self._results = results = self._of(session)
        repeated = [line for each in results.reliability for line in reliability_lines(each)]
        self._lines = [*self._counts(results), *repeated, *self._write(results), *self._pages(results)]

    def _counts(self, results: SessionResults) -> Iterator[str]:
        """Yield the lines that count failures. Where a person pressed Ctrl-C, the test that did not end is no failure.

        The written results keep it as one: a job that is cancelled is interrupted in the same way.
        """
        from pytest_vnc_use.report.summaries import lines

        left = [test for test in results.tests if self._is_interrupted and test.rule == _NOT_ENDED]
        if left:
            word = "test" if len(left) == 1 else "tests"
            rest = "; nothing was recorded of it" if self._records_only else ""
            yield f"{len(left)} {word} did not end, as you pressed Ctrl-C{rest}"
        yield from lines(replace(results, tests=tuple(test for test in results.tests if test not in left)))

    def _of(self, session: pytest.Session) -> SessionResults:
        """Return the results of the session so far, with its other problems."""
        from pytest_vnc_use.report.reliability import reliabilities
        from pytest_vnc_use.report.results import session_problems, session_results

        results = session_results(self._started_at, _now(), tuple(self._tests.values()))
        status, has_bad = int(session.exitstatus), any(test.is_bad for test in results.tests)
        elsewhere, lost = len(self._failed_elsewhere - {*self._tests}), sorted(self._without_recording)
        is_told = has_bad or bool(lost)
        problems = [
            *(f"the recording of {test} could not be written" for test in lost),
            *session_problems(status, _collection_errors(session.config), elsewhere, has_bad=is_told),
        ]
        redacted = tuple(map(secrets_of(session.config).hide_in_id, problems))
        again = reliabilities(results.tests, self._repeat)
        return replace(results, reliability=again, problems=redacted, exit_status=status)

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_results_summary(self, prefix: list[str]) -> None:
        """Add, for repeated tests, the reliability of each and where its runs differ, with both pictures."""
        if self._results and self._results.reliability:
            from pytest_vnc_use.report.reliability_html import reliability_html

            prefix.append(reliability_html(self._results.reliability))

    def _write(self, results: SessionResults) -> Iterator[str]:
        from pytest_vnc_use.errors import RunFolderError
        from pytest_vnc_use.report.results import write_results
        from pytest_vnc_use.report.summaries import tell_github

        try:
            write_results(self._file, results)
            yield f"results in {self._path}"
        except (OSError, RunFolderError) as exc:
            yield f"the results could not be written: {exc}"
        yield from tell_github(results)

    def _pages(self, results: SessionResults) -> Iterator[str]:
        """Make room, write the pages of this session beside its runs, and yield a line about each."""
        from pytest_vnc_use.errors import RunFolderError
        from pytest_vnc_use.report.page.session_view import KnownResults
        from pytest_vnc_use.report.page.writing import INDEX, write_report, written_runs
        from pytest_vnc_use.report.results import write_results
        from pytest_vnc_use.runs.folder import make_room

        try:
            if self._max_megabytes and self._runs_dir.is_dir():
                bad = [Path(run.folder) for test in results.tests if test.is_bad for run in test.runs]
                yield from filter(None, [make_room(self._runs_dir, self._max_megabytes, keep=bad)])
            runs = written_runs([run.folder for test in results.tests for run in test.runs])
            if self._file != (beside := self._runs_dir / FILE):
                write_results(beside, results)  # for `cua-vnc report`, which knows only the runs
            known = KnownResults(results.tests, [("", problem) for problem in results.problems])
            write_report(runs, self._runs_dir, known, quick=True)
            yield f"report in {self._given_runs_dir / INDEX}"
        except (OSError, RunFolderError) as exc:
            yield f"the report could not be written: {exc}"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the results."""
        from pytest_vnc_use.plain_text import line

        for text in self._lines:
            terminalreporter.write_line(line(f"vnc-use: {text}"))
        attached = [
            (str(report.nodeid), attached_to(report))
            for reports in terminalreporter.stats.values()
            for report in reports
            if hasattr(report, ATTACHED)
        ]
        runs = {run["folder"]: run for _, each in attached for run in each["runs"] if run["planner"]}
        planners = [run["planner"] for run in runs.values()]
        for planner in sorted(set(planners)):
            count = planners.count(planner)
            text = f"vnc-use: {count} {'run' if count == 1 else 'runs'} planned by {planner}"
            terminalreporter.write_line(line(text))
        tests_of: dict[str, dict[str, None]] = {}
        for nodeid, each in attached:
            for fault in each.get("hook_fault", ()):
                tests_of.setdefault(fault, {})[nodeid] = None
        if tests_of:
            title = "hooks that raised; the results of the tests do not depend on them"
            terminalreporter.section(title, yellow=True)
        for fault, tests in tests_of.items():
            first, *others = tests
            rest = f" and {len(others)} more" if others else ""
            terminalreporter.write_line(f"{fault} ({first}{rest})", yellow=True)


def _now() -> str:
    return clock.utc_now().isoformat(timespec="seconds")


def _collection_errors(config: pytest.Config) -> list[str]:
    """Return the node ids that could not be collected, as the terminal noted them: this plugin may come later."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    errors = terminal.stats.get("error", []) if terminal else []
    return [*dict.fromkeys(each.nodeid for each in errors if isinstance(each, pytest.CollectReport))]


# --- one test ---------------------------------------------------------------------------------------------------------


def _after(result: ItemResult, report: Any) -> ItemResult:
    """Return the result of a test after one more report: of setup, call or teardown, in one or more attempts."""
    attached = attached_to(report)
    result = _with_figures(result, report)
    if report.outcome == "rerun":
        return replace(result, retried_for=(*result.retried_for, str(attached.get("triage"))))
    if report.when == "setup":
        result = _begun(result)
    if _is_settled(result):
        return result
    if report.passed and not hasattr(report, "wasxfail"):
        return _with_end(result, "passed") if report.when == "call" else result
    if not report.failed and not hasattr(report, "wasxfail"):
        return _with_end(result, result_of(report))
    return _with_end(result, result_of(report), attached.get("triage"), attached.get("rule", ""), attached["message"])


def _with_figures(result: ItemResult, report: Any) -> ItemResult:
    """Return the result with the runs, rehearsals, time and money of one more report."""
    from pytest_vnc_use.report.results import RehearsalFigures, RunFigures
    from pytest_vnc_use.runs.folder import from_json

    new = attached_to(report)
    runs = {run.folder: run for run in (*result.runs, *from_json(tuple[RunFigures, ...], new["runs"]))}
    rehearsals = from_json(tuple[RehearsalFigures, ...], new["rehearsals"])
    dollars = result.dollars if new["dollars_since"] is None else (result.dollars or 0.0) + new["dollars_since"]
    result = replace(
        result,
        duration_s=result.duration_s + report.duration,
        runs=tuple(runs.values()),
        dollars=dollars,
        healed=tuple(dict.fromkeys((*result.healed, *new.get("healed", ())))),
        went_on=tuple(dict.fromkeys((*result.went_on, *new.get("went_on", ())))),
        rehearsals=rehearsals or result.rehearsals,
    )
    checked = {run.task: run.checked_by for run in result.runs if run.checked_by and not run.rehearsal}
    return replace(result, checked_by=tuple(checked.values()) or ("none",))


def _begun(result: ItemResult) -> ItemResult:
    """Return the result at the start of an attempt: it passes only once a report on its call says so."""
    return _with_end(result, "error", "infra", _NOT_ENDED, f"{_NOT_ENDED}: its session ended first")


def _after_crash(result: ItemResult, report: pytest.TestReport) -> ItemResult:
    """Return the result of a test that crashed its worker, of which pytest-xdist makes such a report.

    If pytest-rerunfailures tries the test again, the report says so.
    """
    if str(report.outcome) == "rerun":
        return _begun(replace(result, retried_for=(*result.retried_for, "infra")))
    if _is_settled(result):
        return result
    return _with_end(result, "error", "infra", _NOT_ENDED, str(report.longrepr).partition("\n")[0])


def _is_settled(result: ItemResult) -> bool:
    return result.is_bad and result.rule != _NOT_ENDED


def _with_end(result: ItemResult, how: str, triage: str | None = None, rule: str = "", message: str = "") -> ItemResult:
    return replace(result, result=how, triage=triage, rule=rule, message=message)


def result_of(report: Any) -> str:
    """Return the result of a report in pytest's words."""
    if hasattr(report, "wasxfail"):
        return "xfailed" if report.skipped else "xpassed"
    if report.failed:
        return "failed" if report.when == "call" else "error"
    return str(report.outcome)


# --- pytest-html ------------------------------------------------------------------------------------------------------


class _TriageColumn:
    """Columns of pytest-html's table; they are there if any setting of this plugin is given.

    They cannot depend on tests with a desktop, because pytest-html asks for columns before any test is known.
    """

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_results_table_header(self, cells: list[str]) -> None:
        """Insert the headers of the columns."""
        from pytest_vnc_use.report.templates import render

        heads = {"triage": "Triage", "cost": "Cost"}
        cells[_COLUMN:_COLUMN] = [render("column_head", column=column, text=text) for column, text in heads.items()]

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_results_table_row(self, report: Any, cells: list[str]) -> None:
        """Insert the triage of a test that failed, and the cost, or empty cells."""
        from pytest_vnc_use.report.templates import render

        if not cells:
            return
        attached = attached_to(report)
        failed = getattr(report, "outcome", "") in ("failed", "rerun")
        dollars = attached.get("dollars")
        texts = {
            "triage": attached.get("triage", "") if failed else "",
            "cost": f"${dollars:.4f}" if isinstance(dollars, float) else "",
        }
        cells[_COLUMN:_COLUMN] = [render("column_cell", column=column, text=text) for column, text in texts.items()]
