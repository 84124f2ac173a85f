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


def authored_name(item: pytest.Item) -> tuple[str, set[str]]:
    """Return the name of the test and of its parameters as its author wrote them, without those of repetitions.

    A parameter that begins with two underscores repeats the test: pytest-repeat, pytest-loop and pytest-flakefinder add
    one, as the first or the last.
    """
    name = item.nodeid.partition("::")[2]
    callspec = getattr(item, "callspec", None)
    if callspec is None:  # a test of a file of tasks
        for repetition in names_of_repetitions(item.config):
            name = name.removesuffix(f"[{repetition}]")
        return name, set()
    parameters = [*callspec.params]
    if any(map(_repeats, parameters)):
        ids = [*callspec._idlist]  # pytest offers only their joined text, where "1-2" may be one id or two
        for end in (0, -1):
            while parameters and _repeats(parameters[end]):
                del parameters[end], ids[end]
        name = name.removesuffix(f"[{callspec.id}]") + (f"[{'-'.join(ids)}]" if ids else "")
    return name, set(parameters)


def _repeats(parameter: str) -> bool:
    return parameter == ARGUMENT or parameter.startswith("__")
