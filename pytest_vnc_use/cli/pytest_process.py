"""A test suite in a separate process: pytest, started and stopped from outside, and its
JUnit report.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO
from xml.etree import ElementTree

from pytest_vnc_use.errors import InfraError, RunDirectoryError, SettingsError
from pytest_vnc_use.runs.directory import read_trace
from pytest_vnc_use.settings.settings import argument

_STOPPED_WITHIN_S = 10.0
"""The time that an interrupted pytest may take to end its fixtures and their desktops.
"""

_COMPLETE = (0, 1, 5)
"""The exit codes of pytest after which its report is complete: all passed, some failed,
there were no tests.
"""
_WRONG_USAGE = 4
_UNCOLLECTED = "collection failure"
"""The message of pytest for every file that could not be collected, which does not say
why.
"""


@dataclass(frozen=True)
class FailedTest:
    """A failed test: its pytest id, the first line of the reason, and the ids of its
    runs, oldest first.
    """

    test: str
    message: str
    runs: tuple[str, ...]


@dataclass(frozen=True)
class SuiteResult:
    """The number of tests by result, the seconds that they took, and the tests that
    failed or raised an error.
    """

    passed: int
    failed: int
    errors: int
    skipped: int
    seconds: float
    failures: tuple[FailedTest, ...]


class Suite:
    """One call of pytest in a directory; its runs go to `runs_dir`. `options`: settings
    by field.

    Raises SettingsError for a path that is outside the directory, or is not a path.
    """

    def __init__(
        self,
        directory: Path,
        runs_dir: Path,
        paths: Sequence[str],
        keyword: str,
        options: Mapping[str, str],
    ) -> None:
        self._dir = directory
        self._runs_dir = runs_dir.resolve()
        settings = {**options, "runs_dir": str(self._runs_dir)}
        self._arguments = [argument(field, value) for field, value in settings.items()]
        if keyword:
            self._arguments.append(f"-k={keyword}")
        for path in paths:
            _check_inside(directory, path)
            self._arguments.append(path)
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = threading.Event()

    def run(self, timeout_s: float) -> SuiteResult:
        """Run pytest to its end.

        Raises InfraError if pytest takes longer, or does not report how the tests
        ended; SettingsError for wrong usage.
        """
        earlier = {path.name for path in self._runs_dir.glob("*")}
        with TemporaryDirectory() as directory:
            report = Path(directory, "junit.xml")
            output = Path(directory, "output.txt")
            # Without -u a buffer would hold back stdout, and a warning there would come
            # after the error on stderr.
            command = [
                sys.executable,
                "-u",
                "-m",
                "pytest",
                f"--junitxml={report}",
                "-o",
                "junit_family=xunit1",
                *self._arguments,
            ]
            with output.open("wb") as sink:
                code = self._run_process(command, sink, timeout_s)
            result = _read(report, self._runs_by_test(earlier))
            if result and (code in _COMPLETE or result.failures):
                return result
            text = output.read_text(encoding="utf-8", errors="replace")
        printed = [line for line in text.split("\n") if line.strip()]
        last_line = printed[-1] if printed else "it printed nothing"
        kind = SettingsError if code == _WRONG_USAGE else InfraError
        raise kind(f"pytest ended with exit code {code}: {last_line}")

    def stop(self) -> None:
        """Interrupt pytest, from any thread; it ends its desktops itself. Does nothing
        once it has ended.
        """
        self._stopped.set()
        if self._process and os.name == "posix":
            self._process.send_signal(signal.SIGINT)
        elif self._process:  # Windows has no such signal for one process
            self._process.terminate()

    def _run_process(
        self, command: Sequence[str], sink: IO[bytes], timeout_s: float
    ) -> int:
        """Run a command to its end, its output into `sink`; return its exit code."""
        with subprocess.Popen(
            command,
            cwd=self._dir,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
        ) as self._process:
            if self._stopped.is_set():  # before there was a process to interrupt
                self.stop()
            try:
                return self._process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self.stop()
                try:
                    self._process.wait(_STOPPED_WITHIN_S)
                except subprocess.TimeoutExpired:
                    self._process.kill()
                raise InfraError(
                    f"the tests took longer than {timeout_s:g} s and were stopped."
                    " Choose fewer, or allow more seconds"
                ) from None

    def _runs_by_test(self, earlier: Collection[str]) -> dict[str, list[str]]:
        """Return the ids of the new runs, by the id of their test."""
        runs: dict[str, list[str]] = {}
        for path in sorted(self._runs_dir.glob("*")):
            if path.name in earlier:
                continue
            # It is no run, or one without any screen: there is nothing to look at.
            with suppress(RunDirectoryError):
                test = read_trace(path).started.test_id
                runs.setdefault(test, []).append(path.name)
        return runs


def _check_inside(directory: Path, path: str) -> None:
    """Raise SettingsError for a test path that leads out of the directory."""
    directory = directory.resolve()
    file, _, _ = path.partition("::")
    try:
        is_inside = (directory / file).resolve().is_relative_to(directory)
    except (OSError, ValueError, RuntimeError):
        # no file can have that name; RuntimeError: links in a circle
        is_inside = False
    if path.startswith(("-", "@")) or not is_inside:
        raise SettingsError(
            f"a test path must be in the directory {str(directory)!r}, got {path!r}"
        )


def _read(report: Path, runs: Mapping[str, Sequence[str]]) -> SuiteResult | None:
    """Return the results in the report; None if pytest wrote none, or died while it
    wrote.
    """
    try:
        suite = ElementTree.parse(report).getroot().find("testsuite")
    except (FileNotFoundError, ElementTree.ParseError):
        return None
    if suite is None:
        return None
    failures = []
    for case in suite.iter("testcase"):
        failure = case.find("failure")
        if failure is None:
            failure = case.find("error")
        if failure is not None:
            test = _test_id(case)
            message = _first_line(failure)
            failures.append(FailedTest(test, message, tuple(runs.get(test, ()))))
    failed = int(suite.get("failures", 0))
    errors = int(suite.get("errors", 0))
    skipped = int(suite.get("skipped", 0))
    return SuiteResult(
        passed=int(suite.get("tests", 0)) - failed - errors - skipped,
        failed=failed,
        errors=errors,
        skipped=skipped,
        seconds=float(suite.get("time", 0)),
        failures=tuple(failures),
    )


def _test_id(case: ElementTree.Element) -> str:
    """Return an id such as `tests/test_shop.py::TestBasket::test_it[a]`; JUnit has a
    dotted class and a name.

    Return only the file if it could not be collected.
    """
    file = case.get("file", "")
    name = case.get("name", "")
    module = file.removesuffix(".py").replace("/", ".")
    if name in (file, module):
        return file
    classes = case.get("classname", "").removeprefix(module).split(".")
    return "::".join(filter(None, [file, *classes, name]))


def _first_line(failure: ElementTree.Element) -> str:
    """Return the first line that pytest marks with an E, or the first line of the
    message.
    """
    message = failure.get("message") or ""
    lines = (failure.text or message).splitlines()
    if message != _UNCOLLECTED:
        lines = message.splitlines() + lines
    for line in lines:
        if line.startswith("E "):
            return line[1:].strip()
    return lines[0].removeprefix("Failed: ") if lines else ""
