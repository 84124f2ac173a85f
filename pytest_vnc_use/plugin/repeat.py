"""The option `--vnc-repeat K`: each test with a desktop is collected K times. See report/reliability.py.

A plugin, registered by on_demand.py.
"""

from __future__ import annotations

import pytest

from pytest_vnc_use.plugin.stash import FIXTURES, SETTINGS

ARGUMENT = "vnc_repetition"


@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Add a parameter for the repetitions to each test with a desktop."""
    names = names_of_repetitions(metafunc.config)
    if names and not FIXTURES.isdisjoint(metafunc.fixturenames):
        metafunc.fixturenames.append(ARGUMENT)
        metafunc.parametrize(ARGUMENT, range(1, len(names) + 1), ids=names)


def names_of_repetitions(config: pytest.Config) -> list[str]:
    """Return the names of the repetitions, such as `["run1", "run2"]`; none if each test is carried out once."""
    repeat = config.stash[SETTINGS].repeat
    return [f"run{number}" for number in range(1, repeat + 1)] if repeat > 1 else []
