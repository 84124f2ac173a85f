"""The reports of a test's runs while they last: notes on the test, lines on the
terminal, and calls of the hooks of hookspecs.py.
"""

from __future__ import annotations

import traceback
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_vnc_use.errors import causes
from pytest_vnc_use.plain_text import line
from pytest_vnc_use.plugin.redaction import secrets_of
from pytest_vnc_use.plugin.state import state_of
from pytest_vnc_use.plugin.terminal import print_line
from pytest_vnc_use.report.results import figures_of
from pytest_vnc_use.runs.transcript import step_line
from pytest_vnc_use.types import (
    Drift,
    Judged,
    RunEnded,
    RunStarted,
    StepFinished,
    StepStarted,
)

if TYPE_CHECKING:
    from pytest_vnc_use.types import RunEvent


class ItemObserver:
    """An observer of a test's runs."""

    def __init__(self, item: pytest.Item) -> None:
        self._item = item

    def observe(self, event: RunEvent) -> None:
        """Note the event on the test, print it, and call the hook for it, if there is
        one.
        """
        state = state_of(self._item)
        run_dir = state.runs[-1] if state.runs else None
        match event:
            case RunStarted():
                state.add_note("planner", event.planner)
                state.location = "before the first step"
            case StepStarted():
                state.location = f"at step {event.number}"
            case StepFinished(step):
                state.location = f"after step {step.number}"
                if self._item.config.get_verbosity() >= 1:
                    print_line(self._item.config, step_line(step))
                self._call("pytest_vnc_step", step=step, run_dir=run_dir)
            case Judged(verdict):
                self._call("pytest_vnc_verdict", verdict=verdict, run_dir=run_dir)
            case Drift():
                drift = replace(event, problem=self._hide(event.problem))
                self._call("pytest_vnc_drift", drift=drift, run_dir=run_dir)
            case RunEnded():
                if not event.error:
                    state.location = ""
                hook = self._item.ihook.pytest_vnc_run_end
                if run_dir and hook.get_hookimpls():
                    self._call("pytest_vnc_run_end", run=figures_of(run_dir))
            case _:
                pass  # the run directory keeps the other events

    def _hide(self, text: str) -> str:
        return secrets_of(self._item.config).hide(text)

    def _call(self, name: str, **data: object) -> None:
        """Call a hook. If it raises, note that on the test, whose result does not
        depend on it.
        """
        try:
            hook = getattr(self._item.ihook, name)
            if hook.get_hookimpls():
                hook(item=self._item, **deepcopy(data))  # a hook may change its copy
        except (KeyboardInterrupt, pytest.exit.Exception):
            raise
        except BaseException as exc:  # noqa: BLE001  a user's hook may raise anything; the test does not depend on it
            location = _location(name, exc)
            text = line(f"the hook {name}{location} raised {causes.named(exc)}")
            failure = self._hide(text)
            state = state_of(self._item)
            if failure not in state.notes.get("hook_error", ()):
                state.add_note("hook_error", failure)


def _location(function: str, error: BaseException) -> str:
    """Return where a function raised, or passed on, an error: its file and line."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.name == function:
            return f" at {Path(frame.filename).name}:{frame.lineno}"
    return ""
