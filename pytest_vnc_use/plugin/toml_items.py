"""The pytest items for files of tasks."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.plugin.repeat import names_of_repetitions
from pytest_vnc_use.plugin.toml_format import read_task_file

if TYPE_CHECKING:
    from pytest_vnc_use.agent.agent import VncUseAgent


class TaskFile(pytest.Module):
    """A file of tasks, to pytest an empty module; toml_format.py describes its format."""

    def _getobj(self) -> ModuleType:
        return ModuleType(self.path.name)

    def collect(self) -> Iterator[pytest.Function]:
        """Yield an item for each test and repetition. Raises CollectError if the file is wrong."""
        try:
            tests = read_task_file(self.path)
        except SettingsError as exc:
            raise self.CollectError(str(exc)) from exc
        repetitions = [f"[{name}]" for name in names_of_repetitions(self.config)] or [""]
        for test, repetition in itertools.product(tests, repetitions):
            item = TaskFileTest.from_parent(self, name=test.name + repetition, callobj=_no_body)
            item.line = test.line
            for spec in reversed(test.specs):
                item.add_marker(pytest.mark.vnc_task(spec.task, **spec.as_given))
            yield item


class TaskFileTest(pytest.Function):
    """One test of a file of tasks: a function without a body, marked with its tasks."""

    line = 1

    def reportinfo(self) -> tuple[Path, int, str]:
        """Return the file, the line from 0, and the name of the test."""
        return self.path, self.line - 1, self.name


def _no_body(vnc_agent: VncUseAgent) -> None:
    """Do nothing: the tasks run before this, and their claims are the test."""
