"""The collection of tests with a desktop: finds them, and reads their markers."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from pytest_vnc_use.plugin.on_demand import register_the_rest


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    """Collect `test_*.vnc.toml` files: tests that need no Python."""
    if file_path.name.startswith("test_") and file_path.name.endswith(".vnc.toml"):
        from pytest_vnc_use.plugin.toml_items import TaskFile

        register_the_rest(parent.config)
        return TaskFile.from_parent(parent, path=file_path)
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Module | pytest.Class, name: str, obj: object) -> None:
    """Make marked tests ask for `vnc_agent` before pytest looks for parameters, so that an override may have some."""
    function = getattr(obj, "__func__", obj)
    if not inspect.isfunction(function) or not collector.istestfunction(obj, name):
        return
    from pytest_vnc_use.plugin import markers

    needs_agent = pytest.mark.usefixtures("vnc_agent")
    own = [mark for mark in getattr(function, "pytestmark", ()) if mark.name == "vnc_task"]
    if own:
        register_the_rest(collector.config)
        markers.learn_secrets(collector.config, own)
        needs_agent(function)
    elif collector.get_closest_marker("vnc_task") and needs_agent.mark not in collector.iter_markers():
        collector.add_marker(needs_agent)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Read the markers, and make `vnc_agent` the last fixture, after those that the test itself asks for."""
    from pytest_vnc_use.plugin import markers, stash

    if stash.is_ours(item):
        register_the_rest(item.config)
    markers.read(item)
    if item.stash[stash.SPECS] and isinstance(item, pytest.Function):
        item.fixturenames = [*(name for name in item.fixturenames if name != "vnc_agent"), "vnc_agent"]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail a test that has wrong markers."""
    check_markers(item)


def check_markers(item: pytest.Item) -> None:
    """Raise the error that was found in the test's markers when it was collected."""
    from pytest_vnc_use.plugin import markers

    if error := markers.error_of(item):
        register_the_rest(item.config)
        raise error
