"""The results of a session: on the terminal, in vnc-results.json, on the page index.html, and in a GitHub summary.

They are made of the reports on all tests of a session, from all workers of pytest-xdist. Nothing is printed if no test
used a desktop.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from pytest_vnc_use import clock
from pytest_vnc_use.errors import RunDirectoryError
from pytest_vnc_use.plain_text import line
from pytest_vnc_use.plugin import costs
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
from pytest_vnc_use.report.summaries import append_job_summary, lines
from pytest_vnc_use.runs.directory import from_json, make_room, open_trace
from pytest_vnc_use.settings.settings import Settings

FILE = "vnc-results.json"
_NOT_ENDED = "the test did not end"
"""The rule if there is no report on a test's call: its worker crashed, or its session ended in the middle."""
_CRASHED = "???"
"""The phase in pytest-xdist's report on a test whose worker died, of which it is unknown whether it has a desktop."""
_LISTED = {
    "healed": "healed; check that each change is intended",
    "not_healed": "not healed: a model continued after a drift, and the test did not pass",
    "transient": "with an unrecorded transient frame; check that each is harmless",
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
        self._html_dir = dir_of(Path(config.getoption("htmlpath", None) or "."))
        self._file = Path(settings.results or Path(settings.runs_dir, FILE))
        self._runs_dir = Path(settings.runs_dir).absolute()  # a test may change the working directory
        self._absolute_file = self._file.absolute()
        self._started_at = _now()
        self._tests: dict[str, ItemResult] = {}
        self._attempts: dict[str, dict[int, Mapping[str, Any]]] = {}
        """For each test, the data attached to the newest report on each attempt."""
        self._failed_elsewhere: set[str] = set()
        self._crashed: set[str] = set()
        self._earlier_runs = {*_names(self._runs_dir)}
        self._is_interrupted = False
        self._lines: list[str] = []
        self._results: SessionResults | None = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the report to the result of its test."""
        before = self._tests.get(report.nodeid) or _started(ItemResult(report.nodeid, "error"))
        if hasattr(report, ATTACHED):
            self._tests[report.nodeid] = _after(self._tests.pop(report.nodeid, before), report)
            attached = attached_to(report)
            self._attempts.setdefault(report.nodeid, {})[attached["attempt"]] = attached
        elif report.nodeid in self._tests or (
            report.when == _CRASHED and (self._tests or self._settings != Settings())
        ):  # its worker crashed: pytest-xdist made the report
            if str(report.outcome) == "rerun":  # of pytest-rerunfailures
                before = _started(replace(before, retried_for=(*before.retried_for, "infra")))
            elif report.failed and not _is_settled(before):
                before = _with_end(before, "error", "infra", _NOT_ENDED, str(report.longrepr).partition("\n")[0])
            if report.outcome in ("failed", "rerun"):
                self._crashed.add(report.nodeid)
                self._tests[report.nodeid] = before
        elif report.failed:
            self._failed_elsewhere.add(report.nodeid)

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Note that a user pressed Ctrl-C; pytest calls this for `pytest.exit` too."""
        self._is_interrupted = excinfo.type is KeyboardInterrupt

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the results; without a file for them, only if a test with a desktop was not skipped.

        The session fails if it should write recordings, and one could not be written.
        """
        lost = sorted({test for test, text in _noted(self._last(), "recording") if text.startswith(LOST)})
        if lost and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if not self._settings.results and all(test.result == "skipped" for test in self._tests.values()):
            return
        if self._crashed:
            self._add_runs_of_crashes()
        results = session_results(self._started_at, _now(), tuple(self._tests.values()))
        rows = reliabilities(results.tests, self._settings.repeat)
        problems = tuple(self._problems(session, results, lost))
        self._results = replace(results, reliability=rows, problems=problems, exit_status=int(session.exitstatus))
        self._lines = [*self._written(self._results)]

    def _add_runs_of_crashes(self) -> None:
        """Add the runs that no report names, because the worker that made them was killed in their test."""
        reported = {Path(run.directory).name for test in self._tests.values() for run in test.runs}
        for name in sorted({*_names(self._runs_dir)} - reported - self._earlier_runs):
            with suppress(RunDirectoryError):  # it is no run
                if (test := open_trace(run_dir := self._runs_dir / name)[0].test_id) in self._crashed:
                    result = _with_runs(self._tests[test], [figures_of(run_dir)])
                    by_name = sorted(result.runs, key=lambda run: Path(run.directory).name)
                    self._tests[test] = replace(result, runs=tuple(by_name))

    def _problems(self, session: pytest.Session, results: SessionResults, lost: Sequence[str]) -> Iterator[str]:
        """Yield the problems of the session that are not of a test, without secrets."""
        # the ids that could not be collected, as the terminal noted them: this plugin may come later
        terminal = session.config.pluginmanager.get_plugin("terminalreporter")
        errors = terminal.stats.get("error", []) if terminal else []
        uncollected = [*dict.fromkeys(error.nodeid for error in errors if isinstance(error, pytest.CollectReport))]
        failed_elsewhere = len(self._failed_elsewhere - {*self._tests})
        has_bad = bool(lost) or any(test.is_bad for test in results.tests)
        unwritten = [f"the recording of {test} could not be written" for test in lost]
        others = session_problems(int(session.exitstatus), uncollected, failed_elsewhere, has_bad=has_bad)
        yield from map(secrets_of(session.config).hide_in_id, [*unwritten, *others])

    def _written(self, results: SessionResults) -> Iterator[str]:
        """Write the results, and yield the lines about them.

        After Ctrl-C, the test that did not end is not counted as a failure. The written results keep it as one: a job
        that is cancelled is interrupted in the same way.
        """
        interrupted = [test for test in results.tests if self._is_interrupted and test.rule == _NOT_ENDED]
        if interrupted:
            suffix = "; nothing was recorded of it" if self._settings.record in ALWAYS_WRITES else ""
            yield f"{_count(len(interrupted), 'test')} did not end, as the session was interrupted{suffix}"
        yield from lines(replace(results, tests=tuple(test for test in results.tests if test not in interrupted)))
        for reliability in results.reliability:
            yield from reliability_lines(reliability)
        try:
            write_results(self._absolute_file, results)
            yield f"results in {self._file}"
        except (OSError, RunDirectoryError) as exc:
            yield f"the results could not be written: {exc}"
        yield from append_job_summary(results)
        yield from self._pages(results)

    def _pages(self, results: SessionResults) -> Iterator[str]:
        """Make room, write the pages of this session beside its runs, and yield a line about each."""
        from pytest_vnc_use.report.pages import INDEX, write_report, written_runs  # numpy, Pillow, jinja2: 150 ms
        from pytest_vnc_use.report.session_view import KnownResults

        try:
            if self._settings.max_megabytes and self._runs_dir.is_dir():
                bad = [Path(run.directory) for test in results.tests if test.is_bad for run in test.runs]
                yield from filter(None, [make_room(self._runs_dir, self._settings.max_megabytes, keep=bad)])
            runs = written_runs([run.directory for test in results.tests for run in test.runs])
            if self._absolute_file != (beside := self._runs_dir / FILE):
                write_results(beside, results)  # for `cua-vnc report`, which gets only the runs
            problems = [("", problem) for problem in results.problems]
            known_results = KnownResults(results.tests, problems, reliability=results.reliability)
            write_report(runs, self._runs_dir, known_results, quick=True)
            yield f"report in {Path(self._settings.runs_dir, INDEX)}"
        except (OSError, RunDirectoryError) as exc:
            yield f"the report could not be written: {exc}"

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_results_summary(self, prefix: list[str]) -> None:
        """Add, for repeated tests, the reliability of each and where its runs differ."""
        if self._results and self._results.reliability:
            from pytest_vnc_use.report.templates import render  # jinja2, which pytest-html has imported

            rows = reliability_rows(self._results.reliability, lambda run: page_of(Path(run), self._html_dir))
            prefix.append(render("reliability", rows=rows))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the results: what needs a look, then counts."""
        last, tests = [*self._last()], self._tests.values()
        attempts = [(test, notes) for test, by_attempt in self._attempts.items() for notes in by_attempt.values()]
        rehearsed = [(test.test, rehearsal) for test in tests for rehearsal in test.rehearsals]
        unrepeated = [(test, rehearsal) for test, rehearsal in rehearsed if not rehearsal.repeated]
        listed = {f"{len(unrepeated)} recorded, but did not repeat": [*_unrepeated(unrepeated)]}
        for name, title in _LISTED.items():
            noted, kind = _noted(last, name), name.replace("_", " ").upper()
            listed[f"{len({test for test, _ in noted})} {title}"] = [f"{kind} {test}: {text}" for test, text in noted]
        failures: dict[str, dict[str, None]] = {}
        for test, failure in _noted(attempts, "hook_error"):
            failures.setdefault(failure, {})[test] = None
        listed["hooks that raised; the results of the tests do not depend on them"] = [
            f"{failure} ({first}{f' and {len(others)} more' if others else ''})"
            for failure, (first, *others) in failures.items()
        ]
        for title, texts in listed.items():
            if texts:
                terminalreporter.section(title, yellow=True)
            for text in texts:
                terminalreporter.write_line(line(text), yellow=True)
        for test, rehearsal in rehearsed:
            for region in rehearsal.learnt:
                variant = f"new variant in rehearsal {rehearsal.number}, from {region}"
                terminalreporter.write_line(f"LEARNT {test}: {variant}")
        repeated = [text for _, text in _noted(last, "rehearsal") if not text.startswith("did not")]
        for text in (
            *_counted("recording", repeated),
            *_counted("recording", [text for _, text in _noted(last, "recording")]),
            *_saved([notes for _, notes in last if "saved_s" in notes]),
            *costs.summary(attempts),
            *self._lines,
            *_counted("run", [f"planned by {run.planner}" for test in tests for run in test.runs if run.planner]),
        ):
            terminalreporter.write_line(line(f"vnc-use: {text}"), red=f" {UNWRITTEN}" in text)

    def _last(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield each test with the data attached to the last report on its last attempt."""
        for test, attempts in self._attempts.items():
            yield test, attempts[max(attempts)]


def dir_of(html_path: Path) -> Path:
    """Return the directory of pytest-html's report."""
    return Path(os.path.expandvars(html_path)).expanduser().absolute().parent


def page_of(run: Path, directory: Path) -> str:
    """Return the URL of a run's page in a page in `directory`."""
    try:
        path = os.path.relpath(run.absolute() / "index.html", directory)
    except ValueError:  # on Windows, another drive
        return (run.absolute() / "index.html").as_uri()
    return quote(path.replace(os.sep, "/"))


def _noted(tests: Iterable[tuple[str, Mapping[str, Any]]], name: str) -> list[tuple[str, str]]:
    """Return each text of a note with its test."""
    return [(test, text) for test, notes in tests for text in notes.get(name, ())]


def _counted(noun: str, texts: Sequence[str]) -> Iterator[str]:
    for text in sorted({*texts}):
        yield f"{_count(texts.count(text), noun)} {text}"


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
        suffix = f", without {unknown} of unknown cost" if unknown else ""
        text += f", and ${sum(dollars):.4f} at the prices of the time of recording{suffix}"
    yield text


def _count(number: int, noun: str) -> str:
    return f"{number} {noun if number == 1 else f'{noun}s'}"


def _names(directory: Path) -> list[str]:
    with suppress(OSError):  # nothing has run yet
        return [path.name for path in directory.iterdir()]
    return []


def _now() -> str:
    return clock.utc_now().isoformat(timespec="seconds")


def _after(result: ItemResult, report: Any) -> ItemResult:
    """Return the result of a test after one more report: of setup, call or teardown, in one or more attempts."""
    new = attached_to(report)
    result = replace(
        _with_runs(result, from_json(tuple[RunFigures, ...], new["runs"])),
        duration_s=result.duration_s + report.duration,
        dollars=result.dollars if new["dollars_since"] is None else (result.dollars or 0.0) + new["dollars_since"],
        healed=tuple(dict.fromkeys((*result.healed, *new.get("healed", ())))),
        not_healed=tuple(dict.fromkeys((*result.not_healed, *new.get("not_healed", ())))),
        rehearsals=from_json(tuple[RehearsalFigures, ...], new["rehearsals"]) or result.rehearsals,
    )
    if report.outcome == "rerun":
        return replace(result, retried_for=(*result.retried_for, str(new.get("triage"))))
    if report.when == "setup":
        result = _started(result)
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


def _started(result: ItemResult) -> ItemResult:
    """Return the result at the start of an attempt: it passes only by a report on its call."""
    return _with_end(result, "error", "infra", _NOT_ENDED, f"{_NOT_ENDED}: its session ended first")


def _is_settled(result: ItemResult) -> bool:
    return result.is_bad and result.rule != _NOT_ENDED


def _with_end(result: ItemResult, end: str, triage: str | None = None, rule: str = "", message: str = "") -> ItemResult:
    return replace(result, result=end, triage=triage, rule=rule, message=message)


def result_of(report: Any) -> str:
    """Return the result of a report by pytest's name."""
    if hasattr(report, "wasxfail"):
        return "xfailed" if report.skipped else "xpassed"
    if report.failed:
        return "failed" if report.when == "call" else "error"
    return str(report.outcome)
