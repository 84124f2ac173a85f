"""The calls of this plugin's hooks, and the report on those that raise.

A plugin, registered by on_demand.py.
"""

from __future__ import annotations

import traceback
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_vnc_use.plugin.redaction import secrets_of
from pytest_vnc_use.plugin.stash import RUNS

if TYPE_CHECKING:
    from pytest_vnc_use.types import RunEvent

FAULT = "vnc_hook_fault"
"""A property of a test: which hook raised, where, and the error."""
_OF_A_PERSON = (KeyboardInterrupt, pytest.exit.Exception)


class HookCalls:
    """An observer that calls the hooks of hookspecs.py for the runs of a test."""

    def __init__(self, item: pytest.Item) -> None:
        self._item = item

    def observe(self, event: RunEvent) -> None:
        """Call the hook for the event, if there is one."""
        from pytest_vnc_use.types import Drifted, Judged, RunEnded, StepFinished

        match event:
            case StepFinished():
                self._call("pytest_vnc_step", step=event.step, run_folder=self._run_folder())
            case Judged():
                self._call("pytest_vnc_verdict", verdict=event.verdict, run_folder=self._run_folder())
            case Drifted():
                drift = replace(event, problem=secrets_of(self._item.config).hide(event.problem))
                self._call("pytest_vnc_drift", drift=drift, run_folder=self._run_folder())
            case RunEnded():
                self._end()
            case _:
                pass  # no hook stands for the other events

    def _end(self) -> None:
        from pytest_vnc_use.report.results import figures_of

        folder = self._run_folder()
        if folder and self._item.ihook.pytest_vnc_run_end.get_hookimpls():  # else nobody needs the file read
            self._call("pytest_vnc_run_end", run=figures_of(folder))

    def _run_folder(self) -> Path | None:
        runs = self._item.stash.get(RUNS, [])
        return runs[-1] if runs else None

    def _call(self, name: str, **data: object) -> None:
        """Call a hook. If it raises, note that on the test, whose result does not depend on it."""
        try:
            getattr(self._item.ihook, name)(item=self._item, **deepcopy(data))  # what a hook changes is its own
        except _OF_A_PERSON:
            raise
        except BaseException as exc:  # noqa: BLE001  a user's hook may raise anything; the test does not depend on it
            fault = FAULT, _format(name, exc)
            if fault not in self._item.user_properties:
                self._item.user_properties.append(fault)


def _format(name: str, error: BaseException) -> str:
    from pytest_vnc_use.plain_text import line

    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.name == name]
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return line(f"the hook {name}{place} raised {type(error).__name__}: {_words(error)}")


def _words(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as exc:  # noqa: BLE001  a user's own __str__ may raise anything
        return f"its text cannot be shown, because str() raised {type(exc).__name__}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List the hooks that raised, each with one of the tests where it did."""
    tests_of: dict[str, list[str]] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, fault in getattr(report, "user_properties", ()):
                if name == FAULT and report.nodeid not in tests_of.setdefault(str(fault), []):
                    tests_of[str(fault)].append(report.nodeid)
    if tests_of:
        terminalreporter.section("hooks that raised; the results of the tests do not depend on them", yellow=True)
    for fault, tests in tests_of.items():
        others = f" and {len(tests) - 1} more" if len(tests) > 1 else ""
        terminalreporter.write_line(f"{fault} ({tests[0]}{others})", yellow=True)
