"""The pytest plugin: options, marker, fixtures and the call; adapters without logic of their own.

Whatever is heavy is imported where a test needs it, so that a session without `vnc_task` pays for nothing.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import shlex
import sys
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_vnc_use.settings import FIELDS, TOPICS, Settings, environment_layer, merge, option_name

if TYPE_CHECKING:
    from pytest_vnc_use.agent import VncUseAgent
    from pytest_vnc_use.ports import Desktop, Judge, Planner
    from pytest_vnc_use.sharing import Desktops

MARKER = (
    "vnc_task(task, *, expect=(), steps=None, seconds=None, tokens=None, dollars=None, votes=None, policy=None, "
    "model=None, app=None, record=None, secrets=()): carry out the task, a sentence, on a VNC desktop before the "
    "test's body runs; each claim in expect is then judged; where no claim holds and the body asserts nothing, the "
    "task's end state is judged, unless expect=None says that the body checks"
)
LAYERS = pytest.StashKey[list[tuple[Mapping[str, object], Callable[[str], str]]]]()


# --- options and the marker ------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    for name, field in FIELDS.items():
        if name in TOPICS:
            group = parser.getgroup(f"vnc-use-{TOPICS[name]}", f"tests over VNC (pytest-vnc-use), {TOPICS[name]}")
        about = field.metadata["help"]
        default = "" if field.default in ("", (), None) else f" (default: {_shown(field.default)})"
        shown = {"metavar": _metavar(name), "help": about + default}
        group.addoption(option_name(name), dest=f"vnc_{name}", default=None, **shown)
        parser.addini(f"vnc_{name}", f"{about}; as {option_name(name)}", default=None)


def _metavar(name: str) -> str:
    return name.split("_")[-1].upper()


def _shown(value: object) -> str:
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    from pytest_vnc_use import hooks

    pluginmanager.add_hookspecs(hooks)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)
    config.stash[LAYERS] = [
        ({name: _ini(config, name) for name in FIELDS}, lambda name: f"ini option vnc_{name}"),
        environment_layer(),
        ({name: config.getoption(f"vnc_{name}") for name in FIELDS}, option_name),
    ]
    something_is_set = any(value is not None for layer, _ in config.stash[LAYERS] for value in layer.values())
    tests_are_elsewhere = config.getoption("dist", "no") != "no"
    if something_is_set or tests_are_elsewhere:
        _register_the_rest(config)


def _register_the_rest(config: pytest.Config) -> None:
    """What is of use once there is a test with a desktop, or may be one on a worker; nobody else waits for it."""
    if config.pluginmanager.has_plugin("vnc_use_reporting"):
        return
    from pytest_vnc_use import (
        broken_calls,
        kept_errors,
        next_desktops,
        notes,
        proving,
        recorded_items,
        rehearsing,
        repeating,
        reporting,
        spending,
    )

    config.stash[notes.SETTINGS] = _settings(config)
    config.pluginmanager.register(reporting, "vnc_use_reporting")
    config.pluginmanager.register(spending, "vnc_use_spending")
    config.pluginmanager.register(repeating, "vnc_use_repeating")
    config.pluginmanager.register(proving, "vnc_use_proving")
    config.pluginmanager.register(recorded_items, "vnc_use_recorded_items")
    config.pluginmanager.register(next_desktops, "vnc_use_next_desktops")
    config.pluginmanager.register(rehearsing, "vnc_use_rehearsing")
    config.pluginmanager.register(broken_calls, "vnc_use_broken_calls")
    config.pluginmanager.register(kept_errors, "vnc_use_kept_errors")


def _settings(config: pytest.Config) -> Settings:
    from pytest_vnc_use.errors import SettingsError

    try:
        settings = merge(*config.stash[LAYERS])
        if settings.policy:
            from pytest_vnc_use.policy import load_policy

            load_policy(settings.policy)
    except SettingsError as exc:
        from pytest_vnc_use.failure import harmless

        raise pytest.UsageError(harmless(str(exc), str)) from exc
    return settings


def _ini(config: pytest.Config, name: str) -> object:
    """An ini option, also of a native type of TOML; a path in it is relative to the ini file."""
    try:
        with warnings.catch_warnings():  # of pytest 9, about a list in [tool.pytest.ini_options]
            warnings.simplefilter("ignore", DeprecationWarning)
            value = config.getini(f"vnc_{name}")
    except (TypeError, pytest.UsageError):  # pytest takes nothing but text for an option that may be anything
        value = _native(config, f"vnc_{name}")
    if isinstance(value, str) and value and name in ("policy", "prices", "runs_dir", "results"):
        return str(config.rootpath / value)
    return value


def _native(config: pytest.Config, key: str) -> object:
    """The value of an option in [tool.pytest], or in [pytest] of pytest.toml, as TOML has it."""
    tomllib = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    assert config.inipath is not None
    tables = tomllib.loads(config.inipath.read_text(encoding="utf-8"))
    native: object = {**tables.get("tool", {}).get("pytest", {}), **tables.get("pytest", {})}.get(key)
    return native


# --- collecting ------------------------------------------------------------------------------------------------------


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    """`test_*.vnc.toml` files hold tests for which nobody needs to write Python."""
    if file_path.name.startswith("test_") and file_path.name.endswith(".vnc.toml"):
        from pytest_vnc_use.task_items import TaskFile

        _register_the_rest(parent.config)
        return TaskFile.from_parent(parent, path=file_path)
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Module | pytest.Class, name: str, obj: object) -> None:
    """Marked tests ask for the fixture before pytest looks for parameters, so that an override may have some."""
    function = getattr(obj, "__func__", obj)
    if not inspect.isfunction(function) or not collector.istestfunction(obj, name):
        return
    needs_agent = pytest.mark.usefixtures("vnc_agent")
    if any(mark.name == "vnc_task" for mark in getattr(function, "pytestmark", ())):
        needs_agent(function)
    elif collector.get_closest_marker("vnc_task") and needs_agent.mark not in collector.iter_markers():
        collector.add_marker(needs_agent)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Read the markers, and have the fixture ready for the call phase: last, after those the test itself asks for."""
    from pytest_vnc_use import marked_items, notes

    if notes.is_ours(item):
        _register_the_rest(item.config)
    marked_items.read(item)
    if item.stash[notes.SPECS] and isinstance(item, pytest.Function):
        item.fixturenames = [*(name for name in item.fixturenames if name != "vnc_agent"), "vnc_agent"]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    _check_markers(item)


def _check_markers(item: pytest.Item) -> None:
    from pytest_vnc_use import marked_items

    if error := marked_items.error_of(item):
        _register_the_rest(item.config)
        raise error


# --- fixtures --------------------------------------------------------------------------------------------------------


@pytest.fixture
def vnc_settings(request: pytest.FixtureRequest) -> Settings:
    """The test's settings: defaults < ini < environment < command line < marker. Override to change them in code.

    Of several markers, what they all say alike; what only one says holds for its own task.
    """
    from pytest_vnc_use import marked_items, notes

    agreed = marked_items.agreed(request.node.stash[notes.SPECS])
    return merge(*request.config.stash[LAYERS], (agreed, lambda name: f"vnc_task({name}=…)"))


@pytest.fixture
def vnc_app(vnc_settings: Settings) -> str | Sequence[str]:
    """The program under test, a command line or its words. Override where a test has to make it first."""
    return vnc_settings.app


@pytest.fixture
def vnc_desktop(
    request: pytest.FixtureRequest, vnc_settings: Settings, vnc_app: str | Sequence[str]
) -> Iterator[Desktop]:
    """The desktop that the test drives: `.server`, `.read_file(name)`, `.write_file(name, text)`, `.run(command)`.

    With the scope `test` it is the test's own, and ends with it, or is reset; with `module` or `session` it is kept as
    it is for the next test, unless its program has ended or the next test wants another.
    """
    from pytest_vnc_use import assembly, next_desktops
    from pytest_vnc_use.setting_paths import absolute_desktop

    app = shlex.join(map(str, vnc_app)) if isinstance(vnc_app, (list, tuple)) else str(vnc_app)
    settings = absolute_desktop(vnc_settings, request.config.invocation_params.dir)
    settings = settings if app == vnc_settings.app else dataclasses.replace(settings, app=app)
    desktops = _desktops(request.config)
    if settings.scope == "test":
        desktop = desktops.lease(settings, request.node.nodeid)
        request.node.stash[next_desktops.WANTED] = settings
        yield assembly.browsable(settings, desktop)
        try:
            next_desktops.start(request.node)
        finally:
            desktop.stop()
    else:
        owner = (settings.scope == "module" and request.node.getparent(pytest.Module)) or request.session
        owner.addfinalizer(functools.partial(desktops.end_shared, owner.nodeid))
        yield assembly.browsable(settings, desktops.share(settings, owner.nodeid))


def _desktops(config: pytest.Config) -> Desktops:
    from pytest_vnc_use.notes import DESKTOPS

    if DESKTOPS not in config.stash:
        from pytest_vnc_use.sharing import Desktops

        config.stash[DESKTOPS] = Desktops()
        config.add_cleanup(config.stash[DESKTOPS].close)
    return config.stash[DESKTOPS]


@pytest.fixture
def vnc_functions(request: pytest.FixtureRequest, vnc_settings: Settings) -> Sequence[Callable[..., object]]:
    """Python functions that the model may call by name; docstring and type hints describe them.

    With `--vnc-cdp` those that read the browser's page, with `--vnc-elements` one that lists what programs show.
    """
    if not vnc_settings.cdp and not vnc_settings.elements:
        return ()
    from pytest_vnc_use import assembly

    return assembly.desktop_functions(vnc_settings, request.getfixturevalue("vnc_desktop"))


@pytest.fixture
def vnc_planner(
    request: pytest.FixtureRequest, vnc_settings: Settings, vnc_functions: Sequence[Callable[..., object]]
) -> Planner:
    """Who decides what to do. Override to plan with something else than the model that the settings name."""
    from pytest_vnc_use import assembly, recorded_items

    build = functools.partial(assembly.build_planner, vnc_settings, vnc_functions)
    return recorded_items.planner_of(request.node, vnc_settings, build)


@pytest.fixture
def vnc_judge(request: pytest.FixtureRequest, vnc_settings: Settings) -> Judge | None:
    """Who judges claims; None for the judge that the settings name. Override to judge with something else."""
    from pytest_vnc_use import recorded_items

    return recorded_items.judge_of(request.node, vnc_settings)


@pytest.fixture
def vnc_agent(
    request: pytest.FixtureRequest,
    vnc_settings: Settings,
    vnc_desktop: Desktop,
    vnc_planner: Planner,
    vnc_judge: Judge | None,
    vnc_functions: Sequence[Callable[..., object]],
) -> Iterator[VncUseAgent]:
    """Runs tasks (`run`), judges claims (`verify`, `check`, `saw`), reads values (`extract`), looks (`screenshot`).

    It also lends its hands: `click`, `type_text`, `key`, `scroll`, `drag`.

    A task that does not end as done fails the test; `run(task, check=False)` returns its result instead.
    """
    _register_the_rest(request.config)
    from pytest_vnc_use import marked_items, next_desktops, notes, proving, recorded_items, reporting, spending
    from pytest_vnc_use.agent import VncUseAgent
    from pytest_vnc_use.setting_paths import absolute_files

    item, secrets = request.node, marked_items.declared_secrets(request.node)
    vnc_settings = absolute_files(vnc_settings, request.config.invocation_params.dir)
    recorded = recorded_items.recorded_test(item, vnc_settings, vnc_planner, secrets, vnc_desktop.password)
    replays = recorded is not None and recorded.mode == "replay"
    follower = proving.Follower(item)
    agent = VncUseAgent(
        vnc_password=vnc_desktop.password,
        settings=dataclasses.replace(vnc_settings, server=vnc_desktop.server),
        hitl_mode=False,
        planner=vnc_planner,
        judge=vnc_judge,
        functions=vnc_functions,
        secrets=secrets,
        observers=[reporting.ItemObserver(item), next_desktops.LastRun(item, replays=replays), follower],
        test_id=item.nodeid,
        check=True,
        desktop=vnc_desktop,
        budget=spending.budget_of(item, vnc_settings),
        recorded=recorded,
    )
    item.stash[notes.RUNS], item.stash[notes.ENDS] = agent.runs, agent.ends
    item.stash[notes.HIDE] = _redaction(secrets, vnc_settings, vnc_desktop)
    item.stash[notes.AGENT] = agent
    yield agent
    try:
        proving.judge_after_teardown(item, agent)
    finally:
        del item.stash[notes.AGENT]  # pytest keeps the item to the session's end, and with it the screens
        agent.close()
        follower.close()
    if failed := agent.unmet():
        raise failed  # of a check that was made where no call of the test's could tell it


def _redaction(secrets: Mapping[str, str], settings: Settings, desktop: Desktop) -> Callable[[str], str]:
    """For what a program under test printed, which the agent never sees."""
    from pytest_vnc_use import assembly
    from pytest_vnc_use.logging_utils import Redactor

    return Redactor({**secrets, **assembly.ambient_secrets(settings, desktop.password)}).hide


# --- the test --------------------------------------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """The marker's tasks run in the call phase, before the body; soft checks are told after it."""
    _check_markers(pyfuncitem)
    from pytest_vnc_use import notes

    if "vnc_agent" not in pyfuncitem.funcargs:
        result = yield
        if notes.AGENT in pyfuncitem.stash:  # which the body has fetched by itself
            _judge(pyfuncitem, pyfuncitem.stash[notes.AGENT])
        return result
    from unittest import SkipTest

    from pytest_vnc_use import marked_items, proving, scenario

    agent: VncUseAgent = pyfuncitem.funcargs["vnc_agent"]  # type: ignore[assignment]  # the fixture's type
    tell = functools.partial(pyfuncitem.add_report_section, "call", "checks")
    with scenario.checks_told(agent, tell, skips=(pytest.skip.Exception, SkipTest)):
        if specs := marked_items.tasks_of(pyfuncitem):
            scenario.carry_out(agent, specs, judge_end_state=not proving.body_asserts(pyfuncitem))
        pyfuncitem.stash[notes.BEFORE_BODY] = len(agent.runs)
        result = yield
        _judge(pyfuncitem, agent)
        return result


def _judge(item: pytest.Function, agent: object) -> None:
    """Have judged what nothing else says; an agent of the user's own kind need not know of that."""
    from pytest_vnc_use import broken_calls, proving
    from pytest_vnc_use.agent import VncUseAgent

    broken_calls.of_test(item.config).check()
    if isinstance(agent, VncUseAgent):
        proving.judge_after_call(item, agent)
        agent.end_body()
