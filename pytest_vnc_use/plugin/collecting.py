"""The collection of tests with a desktop: finds them, and reads their markers.

pytest calls these hooks for each test of each session. They import nothing as long as no test has to do with a desktop.
"""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

_LEARNED = pytest.StashKey[bool]()


def has_the_rest(config: pytest.Config) -> bool:
    """Return whether the plugins of on_demand.py are registered."""
    return bool(config.pluginmanager.has_plugin("vnc_use_reporting"))


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    """Collect `test_*.vnc.toml` files: tests that need no Python."""
    if file_path.name.startswith("test_") and file_path.name.endswith(".vnc.toml"):
        from pytest_vnc_use.plugin import on_demand, toml_items

        on_demand.register_the_rest(parent.config)
        return toml_items.TaskFile.from_parent(parent, path=file_path)
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Module | pytest.Class, name: str, obj: object) -> None:
    """Make marked tests ask for `vnc_agent` before pytest looks for parameters, so that an override may have some."""
    function = getattr(obj, "__func__", obj)
    if not inspect.isfunction(function) or not collector.istestfunction(obj, name):
        return
    _learn_secrets(collector)
    needs_agent = pytest.mark.usefixtures("vnc_agent")
    own = [mark for mark in getattr(function, "pytestmark", ()) if mark.name == "vnc_task"]
    if own:
        from pytest_vnc_use.plugin import markers, on_demand

        on_demand.register_the_rest(collector.config)
        markers.learn_secrets(collector.config, own)
        needs_agent(function)
    elif collector.get_closest_marker("vnc_task") and needs_agent.mark not in collector.iter_markers():
        collector.add_marker(needs_agent)


def _learn_secrets(collector: pytest.Module | pytest.Class) -> None:
    """Learn the secrets of all markers in the collector's file, once, before a parameter of any test gets its id."""
    module = collector.getparent(pytest.Module)
    if module is None or _LEARNED in module.stash:
        return
    module.stash[_LEARNED] = True
    things = [each for each in vars(module.obj).values() if inspect.isfunction(each) or inspect.isclass(each)]
    methods = [each for kind in things if inspect.isclass(kind) for each in vars(kind).values()]
    things += filter(inspect.isfunction, methods)
    marks = [mark for each in (module.obj, *things) for mark in _marks_on(each) if mark.name == "vnc_task"]
    if marks:
        from pytest_vnc_use.plugin import markers, on_demand

        on_demand.register_the_rest(collector.config)
        markers.learn_secrets(collector.config, marks)


def _marks_on(thing: object) -> list[pytest.Mark]:
    """Return the marks that a module, a class or a function has by itself."""
    found = vars(thing).get("pytestmark", ())
    marks = [getattr(each, "mark", each) for each in (found if isinstance(found, (list, tuple)) else [found])]
    return [mark for mark in marks if isinstance(mark, pytest.Mark)]


def pytest_itemcollected(item: pytest.Item) -> None:
    """Read the markers, and make `vnc_agent` the last fixture, after those that the test itself asks for.

    A test with a desktop gets the marker `vnc`. The option `-m` is applied later.
    """
    if not _may_be_ours(item):
        return
    from pytest_vnc_use.plugin import markers, on_demand, stash

    if stash.is_ours(item):
        on_demand.register_the_rest(item.config)
        item.add_marker("vnc")
    markers.read(item)
    if item.stash[stash.SPECS] and isinstance(item, pytest.Function):
        names = [name for name in item.fixturenames if name != "vnc_agent"]
        at = names.index("vnc_desktop") if "vnc_desktop" in names else len(names)
        item.fixturenames = [*names[:at], "_vnc_judged", *names[at:], "vnc_agent"]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail a test that has wrong markers."""
    check_markers(item)


def check_markers(item: pytest.Item) -> None:
    """Raise the error that was found in the test's markers when it was collected."""
    if not _may_be_ours(item):
        return
    from pytest_vnc_use.plugin import markers, on_demand

    if error := markers.error_of(item):
        on_demand.register_the_rest(item.config)
        raise error


def _may_be_ours(item: pytest.Item) -> bool:
    """Return whether the test may have to do with a desktop. Says no without an import."""
    fixtures = getattr(item, "fixturenames", ())
    is_asked_for = item.get_closest_marker("vnc_task") or any(name.startswith("vnc_") for name in fixtures)
    return bool(is_asked_for) or has_the_rest(item.config)
