"""The entry point for pytest: options, the marker, fixtures and hooks.

The files of this folder are plugins. Those in `AT_ONCE` are registered at once. The others are registered once there is
a test with a desktop (on_demand.py), so a session without one pays nothing. Heavy modules are imported where they are
used.

The hooks in the order of a session:

    pytest_addoption              options            the options, and their ini twins
    pytest_addhooks               here               those of hookspecs.py, for a conftest.py
    pytest_load_initial_conftests options            turns old options into ini options
    pytest_configure              here               the marker, the layers of settings
                                  costs, recordings  the session's account; one person at one terminal
                                  reporting          registers triage, session_results and html_report
    pytest_sessionstart           redaction          live logs are redacted from here on; first
    pytest_xdist_setupnodes       forked_workers     workers are forked, with `vnc_fork_workers`
    pytest_collect_file           collecting         `test_*.vnc.toml`
    pytest_pycollect_makeitem     collecting         a marked test asks for `vnc_agent`; first, before its parameters
    pytest_make_parametrize_id    redaction          a secret's name in the place of its value; first
    pytest_generate_tests         repeat             `--vnc-repeat`; last, after the test's own parameters
    pytest_itemcollected          collecting         reads the markers
    pytest_collectreport          redaction          no secret in a report; outermost
    pytest_collection_finish      ended_tests        notes on a worker which tests have a desktop
    pytest_runtest_protocol       desktops_ahead     notes the next test
    pytest_runtest_setup          collecting         wrong markers; first
                                  triage             forgets the notes on earlier attempts at the test; first
                                  broken_calls       likewise; first
                                  ended_tests        notes on a worker that the test has begun; first
    pytest_fixture_setup          proofs             notes which fixtures are set up; first
                                  broken_calls       errors that a fixture caught
    pytest_runtest_call           proofs             notes when the body begins; outermost
                                  recordings         may fail a healed test
                                  playwright_page    the calls of Playwright, for the report
                                  broken_calls       errors that the body caught
    pytest_pyfunc_call            calling            the tasks, the body, the judge
    pytest_runtest_teardown       rehearsals         notes the next test, for a rehearsal; first
                                  desktops_ahead     the next desktop starts
    pytest_runtest_makereport     triage             innermost, so that all others see the triage
                                  proofs, reporting  what was proven; pictures and properties
                                  costs              the cost of the test; first
                                  recordings         writes the recording; outermost
                                  rehearsals         then rehearses it; outermost
                                  ended_tests        then writes result.json; outermost
                                  kept_errors        then lets go of screens; outermost of all
    pytest_runtest_logreport      redaction          no secret in a report, whoever gets it; outermost
                                  html_report        keeps pytest-html's report small; first
                                  live_line          erases its line on the terminal; first
                                  session_results    on the controller, for all workers
    pytest_enter_pdb              live_line          leaves the terminal to the debugger
    pytest_warning_recorded       redaction          no secret in a warning; first
    pytest_keyboard_interrupt     redaction          no secret in what ended the session; first
    pytest_sessionfinish          session_results    vnc-results.json, the job summary
                                  junit              pictures in JUnit's XML; after pytest wrote it
    pytest_terminal_summary       session_results, recordings, rehearsals, reporting, hooks, costs

Of several `tryfirst` wrappers, the one that is registered last is the outermost.
"""

from __future__ import annotations

import pytest

from pytest_vnc_use.plugin import calling, collecting, fixtures, options

AT_ONCE = (options, collecting, fixtures, calling)
"""Registered by a hook: for each name in `pytest_plugins`, pytest reads the entry points of all installed packages."""

MARKER = (
    "vnc_task(task, *, expect=(), steps=None, seconds=None, tokens=None, dollars=None, votes=None, policy=None, "
    "planner=None, model=None, app=None, record=None, secrets=()): carry out the task, a sentence, on a VNC desktop "
    "before the test's body runs; each claim in expect is then judged; where no claim holds and the body asserts "
    "nothing, the task's end state is judged, unless expect=None says that the body checks"
)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare the hooks that a conftest.py may implement, and register the other plugins."""
    from pytest_vnc_use.plugin import hookspecs

    pluginmanager.add_hookspecs(hookspecs)
    for plugin in AT_ONCE:
        pluginmanager.register(plugin, plugin.__name__)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker, read the settings, and register the other plugins if they may be needed."""
    from pytest_vnc_use.plugin.on_demand import register_the_rest

    config.addinivalue_line("markers", MARKER)
    something_is_set = options.read_layers(config)
    tests_are_elsewhere = config.getoption("dist", "no") != "no"
    if something_is_set or tests_are_elsewhere:
        register_the_rest(config)
