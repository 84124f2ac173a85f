"""The entry point for pytest: options, the marker, fixtures and hooks.

The files of this folder are plugins. Those in `AT_ONCE` are registered at once. The others are registered once there is
a test with a desktop (on_demand.py), so a session without one pays nothing. Heavy modules are imported where they are
used.

The hooks in the order of a session: the hook, its file, its place among the implementations of other plugins, and why.
`first` and `last` come before and after the others; `wraps` means around them, `outermost` and `innermost` around all
or none of the other wrappers. Of several outermost wrappers, the one that is registered last is the outermost.

    pytest_addoption                  options                     ini options, some as options too
    pytest_addhooks                   __init__                    the hooks of hookspecs.py, for a conftest.py
    pytest_configure                  __init__                    markers and settings; the rest needs them
                                      redaction                   knows the secrets before anything is printed
                                      reporting                   triage, session_results, html_report follow
                                      session_results             one collector, on the controller only
                                      html_report                 only if pytest-html writes a report
                                      costs                       one account for the whole session
                                      triage                      `pytest.raises` marks the errors that it names
                                      recordings                  one person cannot demonstrate to many workers
    pytest_sessionstart               redaction        first      pytest opens its logs after pytest_configure
    pytest_configure_node             costs                       a worker uses the session's account
                                      session_results             a worker notes the tests that it begins
    pytest_collect_file               collecting                  `test_*.vnc.toml`
    pytest_pycollect_makeitem         collecting       first      `vnc_agent` is asked for before its parameters
    pytest_make_parametrize_id        redaction        first      a secret's name in the place of its value
    pytest_generate_tests             repeat           last       `--vnc-repeat`, after the test's parameters
    pytest_itemcollected              collecting                  reads the markers, and gives the marker `vnc`
    pytest_collectreport              redaction        outermost  no other plugin sees a secret
    pytest_html_results_table_header  session_results             columns for triage and cost
    pytest_collection_finish          ended_tests                 a dead worker's tests are known by its notes
    pytest_timeout_set_timer          rehearsals       first      a rehearsal gets as much time as the test
    pytest_runtest_setup              collecting       first      a test with wrong markers starts nothing
                                      triage           first      a repeated test starts without old notes
                                      ended_tests      first      notes the test, in case its setup ends the worker
    pytest_runtest_call               calling          innermost  what the end of the test shows
                                      recordings       wraps      a healed test may fail, once its body passed
                                      playwright_page  wraps      the calls of Playwright, for the report
    pytest_pyfunc_call                calling          wraps      the tasks before the body
    pytest_runtest_teardown           rehearsals       first      notes the next test before fixtures end
    pytest_runtest_makereport         costs            first      the report includes the cost
                                      triage           innermost  all other wrappers see the triage
                                      reporting        wraps      pictures and properties, of whatever outcome
                                      recordings       outermost  a recording needs the final outcome
                                      rehearsals       outermost  needs the written recording
                                      ended_tests      outermost  result.json has the rehearsals too
    pytest_runtest_logreport          redaction        outermost  no other plugin sees a secret
                                      html_report      first      reduces the report before pytest-html takes it
                                      live_line        first      its line must not mix with pytest's
                                      html_report                 keeps the pictures beside the report
                                      session_results             the results of all workers
                                      rehearsals                  no plugin: it catches a rehearsal's reports
    pytest_html_results_table_row     session_results             cells for triage and cost
    pytest_enter_pdb                  live_line                   leaves the terminal to the debugger
    pytest_warning_recorded           redaction        first      no other plugin sees a secret
    pytest_keyboard_interrupt         redaction        first      likewise, in what ended the session
                                      session_results             a test that a person stopped is no failure
    pytest_handlecrashitem            session_results  first      before pytest-rerunfailures repeats the test
    pytest_sessionfinish              session_results             vnc-results.json, the job summary
                                      junit            wraps      pictures for JUnit, once pytest wrote the XML
    pytest_html_results_summary       session_results             the reliability of repeated tests
                                      html_report                 says that pictures are left out
    pytest_terminal_summary           session_results             results
                                      recordings                  healed tests, transient frames
                                      rehearsals                  recordings that did not repeat
                                      reporting                   planners
                                      hooks                       users' hooks that raised
                                      costs                       the cost of the models
                                      junit                       why no picture is attached

Only attachments.py sets attributes of its own on pytest's reports. No file of this folder changes an exception that a
user raised. The triage is in the report, and in a second exception that stands in for the raised one while
pytest-rerunfailures looks at it (triage.py).
"""

from __future__ import annotations

import pytest

from pytest_vnc_use.plugin import calling, collecting, fixtures, options

AT_ONCE = (options, collecting, fixtures, calling)
"""Registered by a hook: for each name in `pytest_plugins`, pytest reads the entry points of all installed packages."""

MARKER = (
    "vnc_task(task, *, expect=(), steps=None, seconds=None, tokens=None, dollars=None, votes=None, policy=None, "
    "planner=None, model=None, app=None, record=None, secrets=()): carry out the task, a sentence, on a VNC desktop "
    "before the test's body runs, then judge each claim in expect, or without any that the task is done; expect=None "
    "leaves it to the body"
)

OF_ALL = "vnc: pytest-vnc-use gives this marker to each test with a desktop, so that `-m vnc` selects all of them"


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare the hooks that a conftest.py may implement, and register the other plugins."""
    from pytest_vnc_use.plugin import hookspecs

    pluginmanager.add_hookspecs(hookspecs)
    for plugin in AT_ONCE:
        pluginmanager.register(plugin, plugin.__name__)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers, read the settings, and register the other plugins if they may be needed."""
    for marker in (MARKER, OF_ALL):
        config.addinivalue_line("markers", marker)
    something_is_set = False
    if options.may_be_set(config):
        from pytest_vnc_use.plugin import session_settings

        something_is_set = session_settings.read_layers(config)
        session_settings.warn_of_old_options(config)
    tests_are_elsewhere = config.getoption("dist", "no") != "no"
    if something_is_set or tests_are_elsewhere:
        from pytest_vnc_use.plugin import on_demand

        on_demand.register_the_rest(config)
