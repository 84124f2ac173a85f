"""What pytest sees: options, the marker, fixtures and hooks.

The files of this folder are plugins. Those in `pytest_plugins` are registered at once, the others once there is a test
with a desktop (on_demand.py): a session without one pays for nothing. What is heavy is imported where it is used.

In the order of a session:

    pytest_addoption              options            the options, and their ini twins
    pytest_addhooks               here               `pytest_vnc_step`, for a conftest.py
    pytest_configure              here               the marker, the layers of settings
                                  costs, recordings  the session's account; one person at one terminal
                                  reporting          registers triage and session_results
    pytest_collect_file           collecting         `test_*.vnc.toml`
    pytest_pycollect_makeitem     collecting         a marked test asks for `vnc_agent`; first, before its parameters
    pytest_generate_tests         repeat             `--vnc-repeat`; last, after the test's own parameters
    pytest_itemcollected          collecting         markers are read
    pytest_runtest_protocol       desktops_ahead     which test comes next
    pytest_runtest_setup          collecting         wrong markers; first
                                  triage             what earlier attempts at the test left is forgotten; first
                                  broken_calls       likewise; first
    pytest_fixture_setup          proofs             which fixtures are set up; first
                                  broken_calls       errors that a fixture has caught
    pytest_runtest_call           proofs             when the body begins; outermost
                                  recordings         a healed test may fail
                                  broken_calls       errors that the body has caught
    pytest_pyfunc_call            calling            the tasks, the body, the judge
    pytest_runtest_teardown       rehearsals         keeps for a rehearsal what the next test shares; first
                                  desktops_ahead     the next desktop starts
    pytest_runtest_makereport     triage             innermost, so that all others see what it found
                                  proofs, reporting  what was proven; pictures and properties
                                  costs              what the test cost; first
                                  recordings         the recording is written; outermost
                                  rehearsals         then rehearsed; outermost
                                  kept_errors        then screens are let go; outermost of all
    pytest_runtest_logreport      session_results    on the controller, of all workers
    pytest_sessionfinish          session_results    vnc-results.json, the job summary
    pytest_terminal_summary       session_results, recordings, rehearsals, reporting, costs

Of several `tryfirst` wrappers, the one that is registered last is the outermost.
"""

from __future__ import annotations

import pytest

pytest_plugins = [
    "pytest_vnc_use.plugin.options",
    "pytest_vnc_use.plugin.collecting",
    "pytest_vnc_use.plugin.fixtures",
    "pytest_vnc_use.plugin.calling",
]

MARKER = (
    "vnc_task(task, *, expect=(), steps=None, seconds=None, tokens=None, dollars=None, votes=None, policy=None, "
    "model=None, app=None, record=None, secrets=()): carry out the task, a sentence, on a VNC desktop before the "
    "test's body runs; each claim in expect is then judged; where no claim holds and the body asserts nothing, the "
    "task's end state is judged, unless expect=None says that the body checks"
)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    from pytest_vnc_use.plugin import hookspecs

    pluginmanager.add_hookspecs(hookspecs)


def pytest_configure(config: pytest.Config) -> None:
    from pytest_vnc_use.plugin.on_demand import register_the_rest
    from pytest_vnc_use.plugin.options import read_layers, warn_of_old_spellings

    config.addinivalue_line("markers", MARKER)
    something_is_set = read_layers(config)
    if something_is_set:
        warn_of_old_spellings(config)
    tests_are_elsewhere = config.getoption("dist", "no") != "no"
    if something_is_set or tests_are_elsewhere:
        register_the_rest(config)
