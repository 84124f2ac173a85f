"""The entry point for pytest: what every session loads, also one without a test on a
desktop.

These hooks are called for each test of each session, so they import nothing as long as
no test uses a desktop: that is the reason for the imports in functions of this module,
`fixtures` and `options`. Once a test uses one, `registration` registers the other
modules, each a plugin.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Generator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

import pytest

from pytest_vnc_use.plugin import fixtures, hookspecs, options
from pytest_vnc_use.plugin.registration import has_plugins, register_plugins

MARKER = (
    "vnc_task(task, *, expect=(), max_steps=None, max_seconds=None, max_tokens=None,"
    " max_dollars=None, votes=None, policy=None, planner=None, model=None, app=None,"
    " record=None, recording='', secrets=(), values={}): perform the task, a sentence, on a VNC desktop before"
    " the test's body runs, then judge each claim in expect, or without any that the"
    " task is done; expect=None leaves it to the body"
)
ALL_MARKER = (
    "vnc: pytest-vnc-use gives this marker to each test with a desktop, so that `-m"
    " vnc` selects all of them"
)
_LEARNED = pytest.StashKey[bool]()
_PACKAGE = "pytest_vnc_use."


class _PlainFinder(MetaPathFinder):
    """A finder of this package's modules, ahead of pytest's.

    pytest rewrites the assertions of all modules of a plugin. Where no bytecode can be
    kept, it parses them in each process, which takes a second. PYTEST_DONT_REWRITE in
    a docstring saves none of it: pytest finds it by parsing.
    """

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Find a module as Python does; None if it is not of this package."""
        if not name.startswith(_PACKAGE):
            return None
        return PathFinder.find_spec(name, path, target)


sys.meta_path.insert(0, _PlainFinder())


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare the hooks that a conftest.py may implement, and register options and
    fixtures.
    """
    pluginmanager.add_hookspecs(hookspecs)
    for plugin in (options, fixtures):
        pluginmanager.register(plugin, plugin.__name__)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers, read the settings, and register the other plugins if they
    may be needed.
    """
    for marker in (MARKER, ALL_MARKER):
        config.addinivalue_line("markers", marker)
    is_set = options.read_layers(config)
    if _has_desk(config):
        from pytest_vnc_use.plugin import ui

        register_plugins(config)
        config.pluginmanager.register(ui.DeskPlugin(config), ui.NAME)
    # with pytest-xdist the workers collect the tests
    if is_set or config.getoption("dist", "no") != "no":
        register_plugins(config)


def _has_desk(config: pytest.Config) -> bool:
    """Return whether a page shows the tests: of this session, of the process that
    started it, or of the controller of this worker.
    """
    if config.getoption("vnc_ui") or "VNC_DESK_SESSION" in os.environ:
        return True
    return "vnc_ui" in getattr(config, "workerinput", ())


def may_need_desktop(item: pytest.Item) -> bool:
    """Return whether the test may use a desktop. Imports nothing for a test without."""
    if item.get_closest_marker("vnc_task") or has_plugins(item.config):
        return True
    names = getattr(item, "fixturenames", ())
    return any(name.startswith("vnc_") for name in names)


def pytest_collect_file(
    file_path: Path,
    parent: pytest.Collector,
) -> pytest.Module | None:
    """Collect `test_*.vnc.toml` files: tests without Python."""
    if not file_path.match("test_*.vnc.toml"):
        return None
    from pytest_vnc_use.plugin import toml

    register_plugins(parent.config)
    return toml.TaskFile.from_parent(parent, path=file_path)


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(
    collector: pytest.Module | pytest.Class,
    name: str,
    obj: object,
) -> None:
    """Make marked tests request `vnc_agent` before pytest reads parameters, so that an
    override may have some.
    """
    function = getattr(obj, "__func__", obj)
    if not inspect.isfunction(function) or not collector.istestfunction(obj, name):
        return
    _learn_secrets(collector)
    needs_agent = pytest.mark.usefixtures("vnc_agent")
    tasks = _tasks_of(function)
    if tasks:
        # a class may inherit it from another file
        _declare_secrets(collector.config, tasks)
        needs_agent(function)
        return
    is_in_marked = collector.get_closest_marker("vnc_task") is not None
    if is_in_marked and needs_agent.mark not in collector.iter_markers():
        collector.add_marker(needs_agent)


def _learn_secrets(collector: pytest.Module | pytest.Class) -> None:
    """Learn the secrets of all markers in the collector's file, once, before a
    parameter of any test gets its id.
    """
    module = collector.getparent(pytest.Module)
    if module is None or _LEARNED in module.stash:
        return
    module.stash[_LEARNED] = True
    classes = filter(inspect.isclass, vars(module.obj).values())
    tasks: list[pytest.Mark] = []
    for owner in (module.obj, *classes):
        tasks += _tasks_of(owner)
        for function in filter(inspect.isfunction, vars(owner).values()):
            tasks += _tasks_of(function)
    if tasks:
        _declare_secrets(collector.config, tasks)


def _tasks_of(owner: object) -> list[pytest.Mark]:
    """Return the markers with a task of a function, a class or a module, which may
    list decorators.
    """
    marks = vars(owner).get("pytestmark", ())
    if not isinstance(marks, (list, tuple)):
        marks = [marks]
    tasks = []
    for mark in marks:
        mark = getattr(mark, "mark", mark)
        if isinstance(mark, pytest.Mark) and mark.name == "vnc_task":
            tasks.append(mark)
    return tasks


def _declare_secrets(config: pytest.Config, tasks: list[pytest.Mark]) -> None:
    from pytest_vnc_use.plugin import markers

    register_plugins(config)
    markers.learn_secrets(config, tasks)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Read the markers, and make `vnc_agent` the last fixture, after those that the
    test requests.

    A test with a desktop gets the marker `vnc`. The option `-m` is applied later.
    """
    if not may_need_desktop(item):
        return
    from pytest_vnc_use.plugin import markers, state

    if state.needs_desktop(item):
        register_plugins(item.config)
        item.add_marker("vnc")
    markers.read(item)
    tasks = state.state_of(item).marked.specs
    if tasks and isinstance(item, pytest.Function):
        names = [name for name in item.fixturenames if name != "vnc_agent"]
        names.append("vnc_agent")
        judged_before = "vnc_desktop" if "vnc_desktop" in names else "vnc_agent"
        names.insert(names.index(judged_before), "_vnc_checks")
        item.fixturenames = names


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail a test with invalid markers before it starts anything."""
    if may_need_desktop(item):
        from pytest_vnc_use.plugin import markers

        markers.check(item)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Run the marker's tasks before the body, and end the test after it.

    A hook of this module, as a body may be the first to request an agent.
    """
    if may_need_desktop(item):
        from pytest_vnc_use.plugin import runtest

        return (yield from runtest.run_call(item))
    result = yield
    if has_plugins(item.config):
        from pytest_vnc_use.plugin import ending

        ending.end_call(item)
    return result
