"""The results of a session: on the terminal, in vnc-results.json, on the page
index.html, and in a GitHub summary.

They are made from the reports on all tests of a session, from all workers of
pytest-xdist. Nothing is printed if no test used a desktop.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest

from pytest_vnc_use import clock
from pytest_vnc_use.errors import RunDirectoryError
from pytest_vnc_use.plain_text import count_of, line
from pytest_vnc_use.plugin import costs
from pytest_vnc_use.plugin.redaction import secrets_of
from pytest_vnc_use.plugin.state import (
    ATTACHED,
    SETTINGS,
    Notes,
    attached_to,
    result_of,
)
from pytest_vnc_use.recordings import ALWAYS_WRITES
from pytest_vnc_use.report.reliability import (
    base_of,
    reliabilities,
    reliability_lines,
    reliability_rows,
)
from pytest_vnc_use.report.results import (
    RESULTS,
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
from pytest_vnc_use.types import Region

_NOT_ENDED = "the test did not end"
"""The rule if no report states how a test ended: its worker crashed, or its session
ended in the middle.
"""
_CRASHED = "???"
"""The phase in pytest-xdist's report on a test whose worker died, of which it is
unknown whether it has a desktop.
"""
_LISTED = {
    "healed": "healed; check that each change is intended",
    "not_healed": (
        "not healed: a model continued after a drift, and the test did not pass"
    ),
}
"""The notes that are listed at the session's end with these titles, because the test
was not as recorded.
"""
_TRANSIENT = "with a transient that is not recorded; accept what is right: cua-vnc ui --review {}"
_HOOKS_RAISED = "hooks that raised; the results of the tests do not depend on them"


def pytest_configure(config: pytest.Config) -> None:
    """Collect results, but not on a worker, nor if the session only sets up
    fixtures.
    """
    if hasattr(config, "workerinput") or config.getoption("setuponly", False):
        return
    config.pluginmanager.register(_ResultsCollector(config))


class _ResultsCollector:
    """A collector of the results of all tests, which reports them at the end."""

    def __init__(self, config: pytest.Config) -> None:
        self._settings = config.stash[SETTINGS]
        runs_dir = Path(self._settings.runs_dir)
        self._file = Path(self._settings.results or runs_dir / RESULTS)
        # a test may change the working directory
        self._runs_dir = runs_dir.absolute()
        self._absolute_file = self._file.absolute()
        html_path = config.getoption("htmlpath", None) or "."
        self._html_dir = dir_of(Path(html_path))
        self._started_at = _now()
        self._tests: dict[str, _TestSoFar] = {}
        """The tests by id, the one with the newest report last."""
        self._failed_elsewhere: set[str] = set()
        self._crashed: set[str] = set()
        self._earlier_runs = set(_names(self._runs_dir))
        self._is_interrupted = False
        self._lines: list[str] = []
        self._results: SessionResults | None = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the report to the result of its test."""
        if hasattr(report, ATTACHED):
            self._test_of(report).add(report)
        elif self._is_of_crash(report):
            if report.outcome in ("failed", "rerun"):
                self._crashed.add(report.nodeid)
                self._test_of(report).crash(report)
        elif report.failed:
            self._failed_elsewhere.add(report.nodeid)

    def _test_of(self, report: pytest.TestReport) -> _TestSoFar:
        nodeid = report.nodeid
        test = self._tests.pop(nodeid, None) or _TestSoFar(nodeid)
        self._tests[nodeid] = test
        return test

    def _is_of_crash(self, report: pytest.TestReport) -> bool:
        """Return whether pytest-xdist made the report, as the test's worker crashed."""
        if report.nodeid in self._tests:
            return True
        is_used = bool(self._tests) or self._settings != Settings()
        return report.when == _CRASHED and is_used

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(
        self,
        report: pytest.TestReport,
    ) -> tuple[str, str, str] | None:
        """Count a recording that did not repeat in pytest's last line, beside its test,
        which passed.
        """
        if report.when != "teardown" or report.failed:
            return None
        rehearsals = attached_to(report)["rehearsals"]
        if all(rehearsal["repeated"] for rehearsal in rehearsals):
            return None
        return "not repeated", "", ""

    def pytest_keyboard_interrupt(
        self,
        excinfo: pytest.ExceptionInfo[BaseException],
    ) -> None:
        """Note that a user pressed Ctrl-C; pytest calls this for `pytest.exit` too."""
        self._is_interrupted = excinfo.type is KeyboardInterrupt

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the results; without a file for them, only if a test with a desktop was
        not skipped.

        The session fails if it should write recordings, and one could not be written.
        """
        if self._crashed:
            self._add_runs_of_crashes()
        tests = self._tests.values()
        lost = sorted(test.nodeid for test in tests if "lost" in test.notes)
        if lost and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        items = [test.result for test in tests]
        are_skipped = all(item.result == "skipped" for item in items)
        if are_skipped and not self._settings.results:
            return
        problems = [f"the recording of {test} could not be written" for test in lost]
        problems += self._session_problems(session, has_lost=bool(lost))
        hide = secrets_of(session.config).hide_in_id
        self._results = replace(
            session_results(self._started_at, _now(), items),
            reliability=reliabilities(items, self._settings.repeat),
            problems=tuple(map(hide, problems)),
            exit_status=int(session.exitstatus),
        )
        self._lines += self._write(self._results)

    def _add_runs_of_crashes(self) -> None:
        """Add the runs that no report names, because the worker that made them was
        killed in their test.
        """
        known = set(self._earlier_runs)
        for test in self._tests.values():
            known.update(map(_name, test.result.runs))
        unknown = set(_names(self._runs_dir)) - known
        for name in sorted(unknown):
            run_dir = self._runs_dir / name
            with suppress(RunDirectoryError):  # it is no run
                started, *_ = open_trace(run_dir)
                if started.test_id in self._crashed:
                    crashed = self._tests[started.test_id]
                    crashed.add_crashed_run(figures_of(run_dir))

    def _session_problems(
        self,
        session: pytest.Session,
        *,
        has_lost: bool,
    ) -> Iterator[str]:
        """Return the problems outside of tests with a desktop. `has_lost`: a recording
        could not be written.
        """
        # the ids that could not be collected, as the terminal noted them: this plugin
        # may come later
        terminal = session.config.pluginmanager.get_plugin("terminalreporter")
        errors = terminal.stats.get("error", ()) if terminal else ()
        uncollected: dict[str, None] = {}
        for error in errors:
            if isinstance(error, pytest.CollectReport):
                uncollected[error.nodeid] = None
        tests = self._tests
        return session_problems(
            int(session.exitstatus),
            [*uncollected],
            failed=len(self._failed_elsewhere - tests.keys()),
            has_bad=has_lost or any(test.result.is_bad for test in tests.values()),
        )

    def _write(self, results: SessionResults) -> Iterator[str]:
        """Write the results, and yield the lines about them.

        After Ctrl-C, the test that did not end is not counted as a failure. The written
        results keep it as one: a job that is cancelled is interrupted in the same way.
        """
        counted = results
        tests = self._tests.values()
        ended = [test.result for test in tests if test.has_ended]
        interrupted = len(tests) - len(ended)
        if self._is_interrupted and interrupted:
            counted = replace(results, tests=tuple(ended))
            text = f"{count_of(interrupted, 'test')} did not end, as the session was"
            suffix = ""
            if self._settings.record in ALWAYS_WRITES:
                suffix = "; nothing was recorded of it"
            yield f"{text} interrupted{suffix}"
        yield from self._drafts()
        yield from lines(counted)
        for reliability in results.reliability:
            yield from reliability_lines(reliability)
        try:
            write_results(self._absolute_file, results)
            yield f"results in {self._file}"
        except (OSError, RunDirectoryError) as exc:
            yield f"the results could not be written: {exc}"
        yield from append_job_summary(results)
        try:
            yield from self._write_pages(results)
        except (OSError, RunDirectoryError) as exc:
            yield f"the report could not be written: {exc}"

    def _drafts(self) -> Iterator[str]:
        """Yield the tests that are not recorded, but whose steps by hand are kept."""
        if self._settings.record not in ("manual", "accept"):
            return
        # numpy, which the agents of the tests have imported
        from pytest_vnc_use.demonstrate import draft

        for test in self._tests:
            if kept := draft.format_kept(self._runs_dir, test):
                yield f"{test}: {kept}"

    def _write_pages(self, results: SessionResults) -> Iterator[str]:
        """Remove old runs, write the pages of this session beside its runs, and yield a
        line about each. Raises OSError, RunDirectoryError.
        """
        # numpy, Pillow, jinja2: 150 ms
        from pytest_vnc_use.report.pages import INDEX, write_session, written_runs
        from pytest_vnc_use.report.session_view import KnownResults

        directories: list[str] = []
        bad: list[Path] = []
        for test in results.tests:
            of_test = [run.directory for run in test.runs]
            directories += of_test
            if test.is_bad:
                bad += map(Path, of_test)
        limit = self._settings.max_megabytes
        if limit and self._runs_dir.is_dir():
            removed = make_room(self._runs_dir, limit, keep=bad)
            if removed:
                yield removed
        runs = written_runs(directories)
        beside = self._runs_dir / RESULTS
        if self._absolute_file != beside:
            # for `cua-vnc report`, which gets only the runs
            write_results(beside, results)
        known_results = KnownResults(
            results.tests,
            [("", problem) for problem in results.problems],
            reliability=results.reliability,
        )
        write_session(runs, self._runs_dir, known_results)
        yield f"report in {Path(self._settings.runs_dir, INDEX)}"

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_results_summary(self, prefix: list[str]) -> None:
        """Add, for repeated tests, the reliability of each and where its runs
        differ.
        """
        if self._results and self._results.reliability:
            # jinja2, which pytest-html has imported
            from pytest_vnc_use.report.templates import render

            rows = reliability_rows(
                self._results.reliability,
                lambda run: page_of(Path(run), self._html_dir),
            )
            prefix.append(render("reliability", rows=rows))

    def pytest_terminal_summary(
        self,
        terminalreporter: pytest.TerminalReporter,
    ) -> None:
        """Print the results: first what needs attention, then counts."""
        write = terminalreporter.write_line
        for title, texts in self._suspicious():
            if texts:
                terminalreporter.section(title, yellow=True)
            for text in texts:
                write(line(text), yellow=True)
        for test, rehearsal in self._rehearsals():
            for lesson in rehearsal.learnt:
                write(f"LEARNT {test}: {lesson} (rehearsal {rehearsal.number})")
        tests = self._tests.values()
        unwritten = _texts(tests, "lost") + _texts(tests, "unrecorded")
        for text in _counted("recording", unwritten):
            write(line(f"vnc-use: {text}"), red=True)
        for text in self._facts():
            write(line(f"vnc-use: {text}"))

    def _rehearsals(self) -> Iterator[tuple[str, RehearsalFigures]]:
        """Yield each rehearsal with the id of its test."""
        for test in self._tests.values():
            for rehearsal in test.result.rehearsals:
                yield test.nodeid, rehearsal

    def _suspicious(self) -> Iterator[tuple[str, list[str]]]:
        """Yield what needs attention, in sections with a title."""
        tests = self._tests.values()
        number = sum(test.result.is_unrepeated for test in tests)
        unrepeated: list[str] = []
        for nodeid, rehearsal in self._rehearsals():
            if not rehearsal.repeated:
                unrepeated += _unrepeated_lines(nodeid, rehearsal)
        yield f"{number} recorded, but did not repeat", unrepeated
        for name, title in _LISTED.items():
            kind = name.replace("_", " ").upper()
            noted = [test for test in tests if name in test.notes]
            listed: list[str] = []
            for test in noted:
                listed += [f"{kind} {test.nodeid}: {text}" for text in test.notes[name]]
            yield f"{len(noted)} {title}", listed
        yield self._transients()
        yield _HOOKS_RAISED, self._hook_failures()

    def _transients(self) -> tuple[str, list[str]]:
        """Return the section on transients. A repeated test is one test."""
        is_repeated = self._settings.repeat > 1
        repetitions = defaultdict[str, list[_TestSoFar]](list)
        for test in self._tests.values():
            name = base_of(test.nodeid) if is_repeated else test.nodeid
            repetitions[name].append(test)
        listed = []
        number = 0
        for name, tests in repetitions.items():
            texts = _transients_of(tests)
            listed += [f"TRANSIENT {name}: {text}" for text in texts]
            number += bool(texts)
        title = _TRANSIENT.format(self._settings.runs_dir)
        return f"{number} {title}", listed

    def _hook_failures(self) -> list[str]:
        """Return each failure of a hook, with the first test in which it occurred."""
        tests: dict[str, list[str]] = {}
        for test in self._tests.values():
            for notes in test.attempts.values():
                for failure in notes.get("hook_error", ()):
                    failed_in = tests.setdefault(failure, [])
                    if test.nodeid not in failed_in:
                        failed_in.append(test.nodeid)
        texts = []
        for failure, (first, *others) in tests.items():
            more = f" and {len(others)} more" if others else ""
            texts.append(f"{failure} ({first}{more})")
        return texts

    def _facts(self) -> Iterator[str]:
        """Yield what was recorded, saved, spent and written, and who planned."""
        tests = self._tests.values()
        repeated = [test for test in tests if not test.result.is_unrepeated]
        yield from _counted("recording", _texts(repeated, "rehearsal"))
        yield from _counted("recording", _texts(tests, "recording"))
        yield from _counted("test", _texts(tests, "drifted"))
        yield from _saved([test.notes for test in tests if "saved_s" in test.notes])
        attempts = []
        for test in tests:
            attempts += [(test.nodeid, notes) for notes in test.attempts.values()]
        yield from costs.summary(attempts)
        yield from self._lines
        planned = []
        for test in tests:
            planners = [run.planner for run in test.result.runs if run.planner]
            planned += [f"planned by {planner}" for planner in planners]
        yield from _counted("run", planned)


class _TestSoFar:
    """The result of one test, as its reports arrive: on setup, call and teardown, in
    one or more attempts.
    """

    def __init__(self, nodeid: str) -> None:
        self.nodeid = nodeid
        self.result = ItemResult(nodeid, "error")
        self.attempts: dict[int, Notes] = {}
        """The data attached to the newest report on each attempt."""
        self.has_ended = False
        """Whether a report states how the newest attempt ended."""
        self._start()

    @property
    def notes(self) -> Notes:
        """The data attached to the newest report; none if the test's worker crashed."""
        if not self.attempts:
            return {}
        return self.attempts[max(self.attempts)]

    def _start(self) -> None:
        """Start an attempt: it passes only by a report on its call."""
        self._set_unended(f"{_NOT_ENDED}: its session ended first")

    def _set_unended(self, message: str) -> None:
        """Note that no report states how the attempt ended."""
        self.has_ended = False
        self.result = replace(
            self.result,
            result="error",
            triage="infra",
            rule=_NOT_ENDED,
            message=message,
        )

    @property
    def _has_failed(self) -> bool:
        return self.has_ended and self.result.is_bad

    def add(self, report: pytest.TestReport) -> None:
        """Add a report with data of this plugin."""
        attached = attached_to(report)
        self.attempts[attached["attempt"]] = attached
        self._add_data(attached, report.duration)
        if str(report.outcome) == "rerun":  # of pytest-rerunfailures
            self._retry(str(attached.get("triage")))
            return
        if report.when == "setup":
            self._start()
        end = result_of(report)
        is_passed_phase = end == "passed" and report.when != "call"
        if self._has_failed or is_passed_phase:
            return
        self.has_ended = True
        if end in ("passed", "skipped"):
            attached = {}
        self.result = replace(
            self.result,
            result=end,
            triage=attached.get("triage"),
            rule=attached.get("rule", ""),
            message=attached.get("message", ""),
        )

    def _add_data(self, attached: Notes, duration_s: float) -> None:
        """Add the runs, the cost and the notes that are attached to a report."""
        self._add_runs(from_json(tuple[RunFigures, ...], attached["runs"]))
        result = self.result
        dollars = result.dollars
        if attached["dollars_since"] is not None:
            dollars = (dollars or 0.0) + attached["dollars_since"]
        rehearsals = from_json(tuple[RehearsalFigures, ...], attached["rehearsals"])
        healed = [*result.healed, *attached.get("healed", ())]
        not_healed = [*result.not_healed, *attached.get("not_healed", ())]
        self.result = replace(
            result,
            duration_s=result.duration_s + duration_s,
            dollars=dollars,
            healed=tuple(dict.fromkeys(healed)),
            not_healed=tuple(dict.fromkeys(not_healed)),
            rehearsals=rehearsals or result.rehearsals,
        )

    def _add_runs(self, new: Iterable[RunFigures]) -> None:
        """Add runs, or newer figures of runs that the result has."""
        runs: dict[str, RunFigures] = {}
        for run in (*self.result.runs, *new):
            runs[run.directory] = run
        checked = {}
        for run in runs.values():
            if run.checked_by and not run.rehearsal:
                checked[run.task] = run.checked_by
        self.result = replace(
            self.result,
            runs=tuple(runs.values()),
            checked_by=tuple(checked.values()) or ("none",),
        )

    def _retry(self, triage: str) -> None:
        retried_for = (*self.result.retried_for, triage)
        self.result = replace(self.result, retried_for=retried_for)

    def crash(self, report: pytest.TestReport) -> None:
        """Add the report of pytest-xdist on a test whose worker crashed."""
        if str(report.outcome) == "rerun":
            self._retry("infra")
            self._start()
        elif not self._has_failed:
            text = str(report.longrepr)
            self._set_unended(text.partition("\n")[0])
            report.longrepr = f"infra: {text}"

    def add_crashed_run(self, run: RunFigures) -> None:
        """Add a run that no report names."""
        self._add_runs([run])
        runs = sorted(self.result.runs, key=_name)
        self.result = replace(self.result, runs=tuple(runs))


def _transients_of(repetitions: Sequence[_TestSoFar]) -> list[str]:
    """Return the transients of a test, each region once, with the number of its
    repetitions that showed it.
    """
    texts: dict[Region, str] = {}
    times = Counter[Region]()
    for test in repetitions:
        regions = from_json(tuple[Region, ...], test.notes.get("transient_regions", ()))
        shown = set()
        for region, text in zip(regions, test.notes.get("transient", ()), strict=True):
            known = next(filter(region.meets, texts), region)
            texts.setdefault(known, text)
            shown.add(known)
        times.update(shown)
    if len(repetitions) == 1:
        return [*texts.values()]
    of = f"of {len(repetitions)} runs"
    return [f"{text}, in {times[region]} {of}" for region, text in texts.items()]


def _name(run: RunFigures) -> str:
    return Path(run.directory).name


def dir_of(html_path: Path) -> Path:
    """Return the directory of pytest-html's report."""
    path = Path(os.path.expandvars(html_path)).expanduser()
    return path.absolute().parent


def page_of(run: Path, directory: Path) -> str:
    """Return the URL of a run's page in a page in `directory`."""
    page = run.absolute() / "index.html"
    try:
        path = os.path.relpath(page, directory)
    except ValueError:  # on Windows, another drive
        return page.as_uri()
    return quote(path.replace(os.sep, "/"))


def _texts(tests: Iterable[_TestSoFar], name: str) -> list[str]:
    """Return the texts of one note on all tests."""
    texts: list[str] = []
    for test in tests:
        texts += test.notes.get(name, ())
    return texts


def _counted(noun: str, texts: Iterable[str]) -> Iterator[str]:
    """Yield each text with the number of its occurrences."""
    numbers = Counter(texts)
    for text, number in sorted(numbers.items()):
        yield f"{count_of(number, noun)} {text}"


def _unrepeated_lines(test: str, rehearsal: RehearsalFigures) -> Iterator[str]:
    place = f"in rehearsal {rehearsal.number}: " if rehearsal.number else ""
    yield f"NOT REPEATED {test}: {place}{rehearsal.problem}"
    if rehearsal.recorded:
        yield f"  as recorded: {rehearsal.recorded}"
        yield f"  now: {rehearsal.seen}"
    first, *others = rehearsal.advice.split("\n")
    yield f"  what to do: {first}"
    for advice in others:
        yield f"    {advice}"


def _saved(replayed: Sequence[Notes]) -> Iterator[str]:
    """Yield what the replays saved compared with the recorded runs."""
    seconds = sum(notes["saved_s"] for notes in replayed)
    if seconds <= 0:
        return
    tests = count_of(len(replayed), "replayed test")
    text = f"{tests} saved {seconds:,.1f} s compared with the recorded runs"
    dollars = [notes["saved_dollars"] for notes in replayed if "saved_dollars" in notes]
    if dollars:
        text += f", and ${sum(dollars):.4f} at the prices of the time of recording"
    unknown = len(replayed) - len(dollars)
    if dollars and unknown:
        text += f", without {unknown} of unknown cost"
    yield text


def _names(directory: Path) -> list[str]:
    with suppress(OSError):  # nothing has run yet
        return [path.name for path in directory.iterdir()]
    return []


def _now() -> str:
    return clock.utc_now().isoformat(timespec="seconds")
