"""The results of a session: on the terminal, in vnc-results.json, on the page index.html, and in a GitHub summary.

They are made of the reports on all tests of a session, from all workers of pytest-xdist. Nothing is printed if no test
had to do with a desktop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_vnc_use import clock
from pytest_vnc_use.errors import RunDirectoryError
from pytest_vnc_use.plain_text import line
from pytest_vnc_use.plugin import costs, reporting
from pytest_vnc_use.plugin.recordings import LOST, UNWRITTEN
from pytest_vnc_use.plugin.redaction import secrets_of
from pytest_vnc_use.plugin.state import ATTACHED, SETTINGS, attached_to
from pytest_vnc_use.recordings import ALWAYS_WRITES
from pytest_vnc_use.report.reliability import reliabilities, reliability_lines, reliability_rows
from pytest_vnc_use.report.results import (
    ItemResult,
    RehearsalFigures,
    RunFigures,
    SessionResults,
    figures_of,
    session_problems,
    session_results,
    write_results,
)
from pytest_vnc_use.report.summaries import lines, tell_github
from pytest_vnc_use.runs.directory import from_json, make_room, open_trace
from pytest_vnc_use.settings.settings import Settings

FILE = "vnc-results.json"
_NOT_ENDED = "the test did not end"
"""The rule if there is no report on a test's call: its worker crashed, or its session ended in the middle."""
_CRASHED = "???"
"""The phase in pytest-xdist's report on a test whose worker died, of which nobody knows if it has a desktop."""
_LISTED = {
    "healed": "healed; check that each change is intended",
    "went_on": "not healed: a model continued after a drift, and the test did not pass",
    "transient": "with an unrecorded transient frame",
}
"""The notes that are listed at the session's end, because such a test is not as it was recorded, with their titles."""


def pytest_configure(config: pytest.Config) -> None:
    """Collect results, but not on a worker, nor if the session only sets up fixtures."""
    if not hasattr(config, "workerinput") and not config.getoption("setuponly", False):
        config.pluginmanager.register(_Session(config))


class _Session:
    """A collector of the results of all tests, which reports them at the end."""

    def __init__(self, config: pytest.Config) -> None:
        self._settings = settings = config.stash[SETTINGS]
        self._html_dir = reporting.dir_of(Path(config.getoption("htmlpath", None) or "."))
        self._file = Path(settings.results or Path(settings.runs_dir, FILE))
        self._runs_dir = Path(settings.runs_dir).absolute()  # a test may change the working directory
        self._absolute_file = self._file.absolute()
        self._started_at = _now()
        self._tests: dict[str, ItemResult] = {}
        self._attempts: dict[str, dict[int, Mapping[str, Any]]] = {}
        """For each test, what the newest report on each of its attempts has attached."""
        self._failed_elsewhere: set[str] = set()
        self._crashed: set[str] = set()
        self._earlier_runs = {*_names(self._runs_dir)}
        self._is_interrupted = False
        self._lines: list[str] = []
        self._results: SessionResults | None = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the report to the result of its test."""
        before = self._tests.get(report.nodeid) or _begun(ItemResult(report.nodeid, "error"))
        if hasattr(report, ATTACHED):
            self._tests[report.nodeid] = _after(self._tests.pop(report.nodeid, before), report)
            attached = attached_to(report)
            self._attempts.setdefault(report.nodeid, {})[attached["attempt"]] = attached
        elif report.nodeid in self._tests or (
            report.when == _CRASHED and (self._tests or self._settings != Settings())
        ):
            if report.outcome in ("failed", "rerun"):
                self._crashed.add(report.nodeid)
                self._tests[report.nodeid] = _after_crash(before, report)
        elif report.failed:
            self._failed_elsewhere.add(report.nodeid)

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Note that a user pressed Ctrl-C; pytest calls this for `pytest.exit` too."""
        self._is_interrupted = excinfo.type is KeyboardInterrupt

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the results; where no file for them is given, only if a test with a desktop was not skipped.

        The session fails if it was for recordings, and one could not be written.
        """
        lost = sorted(
            test for test, notes in self._last() if any(text.startswith(LOST) for text in notes.get("recording", ()))
        )
        if lost and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if not self._settings.results and all(test.result == "skipped" for test in self._tests.values()):
            return
        self._add_runs_of_crashes()
        self._results = results = self._of(session, lost)
        repeated = [text for reliability in results.reliability for text in reliability_lines(reliability)]
        self._lines = [*self._counts(results), *repeated, *self._write(results), *self._pages(results)]

    def _add_runs_of_crashes(self) -> None:
        """Add the runs that no report names, because the worker that made them was killed in their test."""
        named = {Path(run.directory).name for test in self._tests.values() for run in test.runs}
        for name in sorted({*_names(self._runs_dir)} - named - self._earlier_runs) if self._crashed else ():
            with suppress(RunDirectoryError):  # it is no run
                if (test := open_trace(run_dir := self._runs_dir / name)[0].test_id) in self._crashed:
                    result = _with_runs(self._tests[test], [figures_of(run_dir)])
                    in_time = sorted(result.runs, key=lambda run: Path(run.directory).name)
                    self._tests[test] = replace(result, runs=tuple(in_time))

    def _of(self, session: pytest.Session, lost: list[str]) -> SessionResults:
        """Return the results of the session so far, with its other problems."""
        results = session_results(self._started_at, _now(), tuple(self._tests.values()))
        status, has_bad = int(session.exitstatus), any(test.is_bad for test in results.tests)
        elsewhere = len(self._failed_elsewhere - {*self._tests})
        uncollected = _collection_errors(session.config)
        problems = [
            *(f"the recording of {test} could not be written" for test in lost),
            *session_problems(status, uncollected, elsewhere, has_bad=has_bad or bool(lost)),
        ]
        redacted = tuple(map(secrets_of(session.config).hide_in_id, problems))
        again = reliabilities(results.tests, self._settings.repeat)
        return replace(results, reliability=again, problems=redacted, exit_status=status)

    def _counts(self, results: SessionResults) -> Iterator[str]:
        """Yield the lines that count failures. Where a user pressed Ctrl-C, the test that did not end is no failure.

        The written results keep it as one: a job that is cancelled is interrupted in the same way.
        """
        left = [test for test in results.tests if self._is_interrupted and test.rule == _NOT_ENDED]
        if left:
            rest = "; nothing was recorded of it" if self._settings.record in ALWAYS_WRITES else ""
            yield f"{_count(len(left), 'test')} did not end, as you pressed Ctrl-C{rest}"
        yield from lines(replace(results, tests=tuple(test for test in results.tests if test not in left)))

    def _write(self, results: SessionResults) -> Iterator[str]:
        try:
            write_results(self._absolute_file, results)
            yield f"results in {self._file}"
        except (OSError, RunDirectoryError) as exc:
            yield f"the results could not be written: {exc}"
        yield from tell_github(results)

    def _pages(self, results: SessionResults) -> Iterator[str]:
        """Make room, write the pages of this session beside its runs, and yield a line about each."""
        from pytest_vnc_use.report.pages import INDEX, write_report, written_runs
        from pytest_vnc_use.report.session_view import KnownResults

        try:
            if self._settings.max_megabytes and self._runs_dir.is_dir():
                bad = [Path(run.directory) for test in results.tests if test.is_bad for run in test.runs]
                yield from filter(None, [make_room(self._runs_dir, self._settings.max_megabytes, keep=bad)])
            runs = written_runs([run.directory for test in results.tests for run in test.runs])
            if self._absolute_file != (beside := self._runs_dir / FILE):
                write_results(beside, results)  # for `cua-vnc report`, which knows only the runs
            problems = [("", problem) for problem in results.problems]
            known = KnownResults(results.tests, problems, reliability=results.reliability)
            write_report(runs, self._runs_dir, known, quick=True)
            yield f"report in {Path(self._settings.runs_dir, INDEX)}"
        except (OSError, RunDirectoryError) as exc:
            yield f"the report could not be written: {exc}"

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_results_summary(self, prefix: list[str]) -> None:
        """Add, for repeated tests, the reliability of each and where its runs differ."""
        if self._results and self._results.reliability:
            from pytest_vnc_use.report.templates import render

            rows = reliability_rows(self._results.reliability, lambda run: reporting.page_of(Path(run), self._html_dir))
            prefix.append(render("reliability", rows=rows))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the results: what needs a look, then counts."""
        last, tests = [*self._last()], self._tests.values()
        rehearsed = [(test.test, rehearsal) for test in tests for rehearsal in test.rehearsals]
        unrepeated = [(test, rehearsal) for test, rehearsal in rehearsed if not rehearsal.repeated]
        listed = {f"{len(unrepeated)} recorded, but did not repeat": [*_unrepeated(unrepeated)]}
        for name, title in _LISTED.items():
            lines = [(test, text) for test, notes in last for text in notes.get(name, ())]
            title = f"{len({test for test, _ in lines})} {title}"
            listed[title] = [f"{name.replace('_', ' ').upper()} {test}: {text}" for test, text in lines]
        listed["hooks that raised; the results of the tests do not depend on them"] = [*self._hook_failures()]
        for title, texts in listed.items():
            if texts:
                terminalreporter.section(title, yellow=True)
            for text in texts:
                terminalreporter.write_line(line(text), yellow=True)
        for test, rehearsal in rehearsed:
            for region in rehearsal.learnt:
                terminalreporter.write_line(
                    f"LEARNT {test}: another look in rehearsal {rehearsal.number}, from {region}"
                )
        planners = [run.planner for test in tests for run in test.runs if run.planner]
        rehearsals = [
            text for _, notes in last for text in notes.get("rehearsal", ()) if not text.startswith("did not")
        ]
        written = [text for _, notes in last for text in notes.get("recording", ())]
        attempts = [(test, notes) for test, by_attempt in self._attempts.items() for notes in by_attempt.values()]
        for text in (
            *(f"{_count(rehearsals.count(text), 'recording')} {text}" for text in sorted({*rehearsals})),
            *(f"{_count(written.count(text), 'recording')} {text}" for text in sorted({*written})),
            *_saved([notes for _, notes in last if "saved_s" in notes]),
            *costs.summary(attempts),
            *self._lines,
            *(f"{_count(planners.count(planner), 'run')} planned by {planner}" for planner in sorted({*planners})),
        ):
            terminalreporter.write_line(line(f"vnc-use: {text}"), red=f" {UNWRITTEN}" in text)

    def _last(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield each test with what the last report on its last attempt has attached."""
        for test, attempts in self._attempts.items():
            yield test, attempts[max(attempts)]

    def _hook_failures(self) -> Iterator[str]:
        tests_of: dict[str, dict[str, None]] = {}
        for test, attempts in self._attempts.items():
            for notes in attempts.values():
                for failure in notes.get("hook_fault", ()):
                    tests_of.setdefault(failure, {})[test] = None
        for failure, (first, *others) in tests_of.items():
            yield f"{failure} ({first}{f' and {len(others)} more' if others else ''})"


def _unrepeated(rehearsals: Iterable[tuple[str, Any]]) -> Iterator[str]:
    for test, rehearsal in rehearsals:
        yield f"NOT REPEATED {test}: in rehearsal {rehearsal.number}: {rehearsal.problem}"
        if rehearsal.recorded:
            yield f"  as recorded: {rehearsal.recorded}"
            yield f"  now: {rehearsal.seen}"
        yield f"  what to do: {rehearsal.advice}"


def _saved(replayed: list[Mapping[str, Any]]) -> Iterator[str]:
    """Yield what the replays saved compared with the recorded runs."""
    seconds = sum(notes["saved_s"] for notes in replayed)
    dollars = [notes["saved_dollars"] for notes in replayed if "saved_dollars" in notes]
    if seconds <= 0:
        return
    text = f"{_count(len(replayed), 'replayed test')} saved {seconds:,.1f} s compared with the recorded runs"
    if dollars:
        unknown = len(replayed) - len(dollars)
        rest = f", without {unknown} of unknown cost" if unknown else ""
        text += f", and ${sum(dollars):.4f} at the prices of the time of recording{rest}"
    yield text


def _count(number: int, noun: str) -> str:
    return f"{number} {noun if number == 1 else f'{noun}s'}"


def _names(directory: Path) -> list[str]:
    with suppress(OSError):  # nothing has run yet
        return [path.name for path in directory.iterdir()]
    return []


def _now() -> str:
    return clock.utc_now().isoformat(timespec="seconds")


def _collection_errors(config: pytest.Config) -> list[str]:
    """Return the node ids that could not be collected, as the terminal noted them: this plugin may come later."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    errors = terminal.stats.get("error", []) if terminal else []
    return [*dict.fromkeys(error.nodeid for error in errors if isinstance(error, pytest.CollectReport))]


def _after(result: ItemResult, report: Any) -> ItemResult:
    """Return the result of a test after one more report: of setup, call or teardown, in one or more attempts."""
    new = attached_to(report)
    result = replace(
        _with_runs(result, from_json(tuple[RunFigures, ...], new["runs"])),
        duration_s=result.duration_s + report.duration,
        dollars=result.dollars if new["dollars_since"] is None else (result.dollars or 0.0) + new["dollars_since"],
        healed=tuple(dict.fromkeys((*result.healed, *new.get("healed", ())))),
        went_on=tuple(dict.fromkeys((*result.went_on, *new.get("went_on", ())))),
        rehearsals=from_json(tuple[RehearsalFigures, ...], new["rehearsals"]) or result.rehearsals,
    )
    if report.outcome == "rerun":
        return replace(result, retried_for=(*result.retried_for, str(new.get("triage"))))
    if report.when == "setup":
        result = _begun(result)
    if _is_settled(result):
        return result
    end = result_of(report)
    if report.passed and end == "passed":
        return _with_end(result, end) if report.when == "call" else result
    if end == "skipped":
        return _with_end(result, end)
    return _with_end(result, end, new.get("triage"), new.get("rule", ""), new["message"])


def _with_runs(result: ItemResult, new: Iterable[RunFigures]) -> ItemResult:
    """Return the result with more runs, or with newer figures of those that it has."""
    runs = {run.directory: run for run in (*result.runs, *new)}
    checked = {run.task: run.checked_by for run in runs.values() if run.checked_by and not run.rehearsal}
    return replace(result, runs=tuple(runs.values()), checked_by=tuple(checked.values()) or ("none",))


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
