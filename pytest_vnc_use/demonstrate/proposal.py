"""The source text of a test that repeats a recorded run."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.runs.folder import Trace
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import SECRET_MARK

_TEST = '''\
"""{origin}"""

import pytest


@pytest.mark.vnc_task(
{arguments}
)
def {name}() -> None:
    """{judged}"""
'''


def proposed_test(trace: Trace, name: str) -> str:
    """Return Python source of a test of that name, with the run's task, claims, limits, program and names of secrets.

    Raises SettingsError if a test cannot have that name.
    """
    if not name.isidentifier():
        raise SettingsError(f"the name of a test must be letters, digits and underscores, got {name!r}")
    judged = "The claims above are judged" if trace.started.expect else "The end state of the task is judged"
    return test_source(
        name if name.startswith("test_") else f"test_{name}",
        f"Proposed from the run {trace.started.run_id}.",
        [repr(trace.started.task), *(f"{key}={value!r}" for key, value in _arguments(trace).items())],
        f"{judged}; assert what a file or a program can tell.",
    )


def test_source(name: str, origin: str, arguments: Sequence[str], judged: str) -> str:
    """Return Python source of one test; `arguments` are its marker's, as source, `judged` is its docstring."""
    lines = "\n".join(f"    {argument}," for argument in arguments)
    return _TEST.format(name=name, origin=origin, arguments=lines, judged=judged)


def _arguments(trace: Trace) -> dict[str, object]:
    """Return the marker's keywords, without those that equal the defaults."""
    started, default = trace.started, Settings()
    secrets = SECRET_MARK.findall("\n".join([started.task, *started.expect]))
    given = {
        "expect": list(started.expect) or None,
        "steps": started.limits.steps if started.limits.steps != default.steps else None,
        "seconds": started.limits.seconds if started.limits.seconds != default.seconds else None,
        "app": started.settings.get("app") or None,
        "secrets": list(dict.fromkeys(secrets)) or None,
    }
    return {key: value for key, value in given.items() if value is not None}
