"""The entry point for pytest: what every session loads, also one without a test on a desktop.

These hooks are called for each test of each session, so they import nothing as long as no test uses a desktop: that is
the reason for the imports in functions of this module, `fixtures` and `options`. Once a test uses one,
`register_plugins` registers the other modules, each a plugin.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Generator
from pathlib import Path

import pytest

from pytest_vnc_use.plugin import fixtures, hookspecs, options

MARKER = (
    "vnc_task(task, *, expect=(), max_steps=None, max_seconds=None, max_tokens=None, max_dollars=None, votes=None, "
    "policy=None, planner=None, model=None, app=None, record=None, secrets=()): perform the task, a sentence, on a "
    "VNC desktop before the test's body runs, then judge each claim in expect, or without any that the task is done; "
    "expect=None leaves it to the body"
)
ALL_MARKER = "vnc: pytest-vnc-use gives this marker to each test with a desktop, so that `-m vnc` selects all of them"
_LEARNED = pytest.StashKey[bool]()


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare the hooks that a conftest.py may implement, and register options and fixtures."""
    pluginmanager.add_hookspecs(hookspecs)
    for plugin in (options, fixtures):
        pluginmanager.register(plugin, plugin.__name__)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers, read the settings, and register the other plugins if they may be needed."""
    for marker in (MARKER, ALL_MARKER):
        config.addinivalue_line("markers", marker)
    is_set = options.read_layers(config)
    has_desk = config.getoption("vnc_ui") or "VNC_DESK_SESSION" in os.environ
    if has_desk or "vnc_ui" in getattr(config, "workerinput", ()):
        from pytest_vnc_use.plugin import ui

        register_plugins(config)
        config.pluginmanager.register(ui.DeskPlugin(config), "vnc_use_ui")
    if is_set or config.getoption("dist", "no") != "no":  # with pytest-xdist the workers collect the tests
        register_plugins(config)


def register_plugins(config: pytest.Config) -> None:
    """Register the plugins for tests with a desktop, once there is such a test, or may be one on a worker."""
    if has_plugins(config):
        return
    from pytest_vnc_use.plugin import (
        costs,
        markers,
        playwright_page,
        recordings,
        redaction,
        results,
        runtest,
        state,
        terminal,
        triage,
    )

    config.stash[state.SETTINGS] = state.read_settings(config)
    plugins = [redaction, redaction.Redaction(config), runtest, triage, results, terminal, costs, markers, recordings]
    if any(config.getoption(name, None) for name in ("htmlpath", "xmlpath", "allure_report_dir")):
        from pytest_vnc_use.plugin import reporting

        plugins.insert(5, reporting)
    if any(map(config.pluginmanager.has_plugin, playwright_page.NAMES)):
        plugins.append(playwright_page)
    for plugin in plugins:
        name = getattr(plugin, "__name__", type(plugin).__name__).rpartition(".")[2]
        config.pluginmanager.register(plugin, f"vnc_use_{name}")


def has_plugins(config: pytest.Config) -> bool:
    """Return whether the other plugins are registered."""
    return bool(config.pluginmanager.has_plugin("vnc_use_runtest"))


def may_need_desktop(item: pytest.Item) -> bool:
    """Return whether the test may use a desktop. Imports nothing for a test without."""
    names = getattr(item, "fixturenames", ())
    is_asked_for = item.get_closest_marker("vnc_task") or any(name.startswith("vnc_") for name in names)
    return bool(is_asked_for) or has_plugins(item.config)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    """Collect `test_*.vnc.toml` files: tests without Python."""
    if file_path.name.startswith("test_") and file_path.name.endswith(".vnc.toml"):
        from pytest_vnc_use.plugin import toml

        register_plugins(parent.config)
        return toml.TaskFile.from_parent(parent, path=file_path)
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Module | pytest.Class, name: str, obj: object) -> None:
    """Make marked tests request `vnc_agent` before pytest reads parameters, so that an override may have some."""
    function = getattr(obj, "__func__", obj)
    if not inspect.isfunction(function) or not collector.istestfunction(obj, name):
        return
    _learn_secrets(collector)
    needs_agent = pytest.mark.usefixtures("vnc_agent")
    marks = [mark for mark in getattr(function, "pytestmark", ()) if mark.name == "vnc_task"]
    if marks:
        from pytest_vnc_use.plugin import markers

        register_plugins(collector.config)
        markers.learn_secrets(collector.config, marks)
        needs_agent(function)
    elif collector.get_closest_marker("vnc_task") and needs_agent.mark not in collector.iter_markers():
        collector.add_marker(needs_agent)


def _learn_secrets(collector: pytest.Module | pytest.Class) -> None:
    """Learn the secrets of all markers in the collector's file, once, before a parameter of any test gets its id."""
    module = collector.getparent(pytest.Module)
    if module is None or _LEARNED in module.stash:
        return
    module.stash[_LEARNED] = True
    classes = [value for value in vars(module.obj).values() if inspect.isclass(value)]
    members = [value for namespace in (module.obj, *classes) for value in vars(namespace).values()]
    marks: list[object] = []
    for owner in (module.obj, *classes, *filter(inspect.isfunction, members)):
        owner_marks = vars(owner).get("pytestmark", ())
        marks += owner_marks if isinstance(owner_marks, (list, tuple)) else [owner_marks]
    unwrapped = [getattr(mark, "mark", mark) for mark in marks]  # a module may list decorators
    tasks = [mark for mark in unwrapped if isinstance(mark, pytest.Mark) and mark.name == "vnc_task"]
    if tasks:
        from pytest_vnc_use.plugin import markers

        register_plugins(collector.config)
        markers.learn_secrets(collector.config, tasks)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Read the markers, and make `vnc_agent` the last fixture, after those that the test requests.

    A test with a desktop gets the marker `vnc`. The option `-m` is applied later.
    """
    if not may_need_desktop(item):
        return
    from pytest_vnc_use.plugin import markers, state

    if state.needs_desktop(item):
        register_plugins(item.config)
        item.add_marker("vnc")
    markers.read(item)
    if state.state_of(item).specs and isinstance(item, pytest.Function):
        names = [name for name in item.fixturenames if name != "vnc_agent"]
        at = names.index("vnc_desktop") if "vnc_desktop" in names else len(names)
        item.fixturenames = [*names[:at], "_vnc_judged", *names[at:], "vnc_agent"]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail a test with invalid markers before it starts anything."""
    if may_need_desktop(item):
        from pytest_vnc_use.plugin import markers

        markers.check(item)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Run the marker's tasks before the body. A hook of this module, as a body may be the first to request an agent."""
    if not may_need_desktop(pyfuncitem):
        return (yield)
    from pytest_vnc_use.plugin import runtest

    return (yield from runtest.call_function(pyfuncitem))


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test that would pass if its last task failed, its program crashed, or a replay's end is missing."""
    result = yield
    if has_plugins(item.config):
        from pytest_vnc_use.plugin import runtest

        runtest.check_end(item)
    return result
