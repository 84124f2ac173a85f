"""The pytest plugin: options, marker, fixtures and report hooks; adapters without logic of their own.

Whatever is heavy is imported where a test needs it, so that a session without `vnc_task` pays for nothing.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vnc_use.errors import SettingsError, VncUseError
from pytest_vnc_use.ports import Desktop, Planner
from pytest_vnc_use.settings import FIELDS, Settings, TaskSpec, environment_layer, merge, option_name, task_spec
from pytest_vnc_use.types import RunEnded, RunEvent, RunStarted, StepFinished, StepStarted

if TYPE_CHECKING:
    from pytest_vnc_use.agent import VncUseAgent

MARKER = (
    "vnc_task(task, *, expect=(), steps=None, seconds=None, policy=None, model=None, secrets=()): "
    "carry out the task, a sentence, on a VNC desktop before the test's body runs; each claim in expect is then "
    "judged, and a body that checks nothing is judged by the task's end state"
)
LAYERS = pytest.StashKey[list[tuple[Mapping[str, object], Callable[[str], str]]]]()
SPECS = pytest.StashKey[tuple[TaskSpec, ...]]()
PROBLEM = pytest.StashKey[str]()
RUNS = pytest.StashKey[list[Path]]()
PLACE = pytest.StashKey[str]()
"""Where a run that has not ended is: "at step 3"."""
HIDE = pytest.StashKey[Callable[[str], str]]()
PLANNER_PROPERTY = "vnc_planner"
FIXTURES = frozenset({"vnc_settings", "vnc_desktop", "vnc_planner", "vnc_agent"})


# --- options and the marker ------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("vnc-use", "tests of graphical programs over VNC (pytest-vnc-use)")
    for name, field in FIELDS.items():
        about = field.metadata["help"]
        default = "" if field.default in ("", ()) else f" (default: {_shown(field.default)})"
        group.addoption(option_name(name), default=None, metavar=_metavar(name), help=about + default)
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
    try:
        settings = merge(*config.stash[LAYERS])
        if settings.policy:
            _check_policy(settings.policy)
    except SettingsError as exc:
        raise pytest.UsageError(str(exc)) from exc


def _ini(config: pytest.Config, name: str) -> object:
    """An ini option; a path in it is relative to the ini file."""
    value = config.getini(f"vnc_{name}")
    return str(config.rootpath / value) if value and name in ("policy", "runs_dir") else value


# --- collecting ------------------------------------------------------------------------------------------------------


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
    item.stash[SPECS] = ()
    try:
        item.stash[SPECS] = _specs(item)
    except SettingsError as exc:
        _refuse(item, f"{item.nodeid}: {exc}")
    if item.stash[SPECS] and isinstance(item, pytest.Function):
        item.fixturenames = [*(name for name in item.fixturenames if name != "vnc_agent"), "vnc_agent"]


def _refuse(item: pytest.Item, problem: str) -> None:
    """A wrong marker ends the session; on a worker of pytest-xdist, whose end nobody is told of, it fails the test."""
    if not hasattr(item.config, "workerinput"):
        raise pytest.UsageError(problem)
    item.stash[PROBLEM] = problem


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if PROBLEM in item.stash:
        pytest.fail(item.stash[PROBLEM], pytrace=False)
    _check_no_later_marker(item)


def _check_no_later_marker(item: pytest.Item) -> None:
    """A task that comes too late to be carried out must not pass for done."""
    if len(_marks(item)) != len(item.stash.get(SPECS, ())):
        pytest.fail(
            "vnc_task was added after the test was collected; put it on the function or its class", pytrace=False
        )


def _specs(item: pytest.Item) -> tuple[TaskSpec, ...]:
    """What the item's markers say, checked as far as can be without a desktop. Raises SettingsError."""
    specs = tuple(task_spec(mark.args, mark.kwargs) for mark in _marks(item))
    if specs:
        _check_callable(item)
    for path in {str(spec.settings["policy"]) for spec in specs if "policy" in spec.settings}:
        _check_policy(path)
    models = {str(spec.settings.get("model")) for spec in specs}
    if len(models) > 1:
        told = " and ".join(map(repr, sorted(models)))
        raise SettingsError(f"vnc_task(model=…) must be the same in all markers of a test, got {told}")
    return specs


def _marks(item: pytest.Item) -> list[pytest.Mark]:
    """Outermost first, decorators from top to bottom; those of the test's parameters come last."""
    of_parameters = [mark for mark in getattr(getattr(item, "callspec", None), "marks", ()) if mark.name == "vnc_task"]
    outer = list(item.iter_markers("vnc_task"))
    for mark in of_parameters:
        outer.remove(mark)
    return [*reversed(outer), *of_parameters]


def _check_callable(item: pytest.Item) -> None:
    """Raises SettingsError where the hook that carries out the task, pytest_pyfunc_call, is not called."""
    from unittest import TestCase

    if not isinstance(item, pytest.Function):
        raise SettingsError(f"vnc_task marks a test function, got a {type(item).__name__}")
    if item.cls and issubclass(item.cls, TestCase):
        raise SettingsError(
            f"vnc_task cannot mark a test of the unittest.TestCase {item.cls.__name__!r}, which runs it by itself; "
            "make it a function, or a method of a plain class"
        )
    if inspect.iscoroutinefunction(item.obj) and not _has_event_loop(item):
        raise SettingsError(
            "vnc_task cannot mark an `async def` that no plugin runs; write `def`, as nothing here needs to be awaited"
        )


def _has_event_loop(item: pytest.Function) -> bool:
    """Whether a plugin runs the item's coroutine: by an item of its own, as a fixture (anyio), or by a mark."""
    marked = item.get_closest_marker("asyncio") or item.get_closest_marker("trio")
    return type(item) is not pytest.Function or "anyio_backend" in item.fixturenames or marked is not None


def _check_policy(path: str) -> None:
    from pytest_vnc_use.policy import load_policy

    load_policy(path)


# --- fixtures --------------------------------------------------------------------------------------------------------


@pytest.fixture
def vnc_settings(request: pytest.FixtureRequest) -> Settings:
    """The test's settings: defaults < ini < environment < command line < marker. Override to change them in code.

    Of several markers, what they all say alike; what only one says holds for its own task.
    """
    agreed = _agreed(request.node.stash[SPECS])
    return merge(*request.config.stash[LAYERS], (agreed, lambda name: f"vnc_task({name}=…)"))


def _agreed(specs: Sequence[TaskSpec]) -> dict[str, object]:
    first = specs[0].settings if specs else {}
    return {name: value for name, value in first.items() if all(spec.settings.get(name) == value for spec in specs)}


@pytest.fixture
def vnc_desktop(request: pytest.FixtureRequest, vnc_settings: Settings) -> Iterator[Desktop]:
    """The desktop that the test drives: `.server`, `.read_file(name)`, `.write_file(name, text)`, `.run(command)`."""
    from pytest_vnc_use import assembly

    desktop = assembly.lease_desktop(vnc_settings, request.node.nodeid)
    yield desktop
    desktop.stop()


@pytest.fixture
def vnc_functions() -> Sequence[Callable[..., object]]:
    """Python functions that the model may call by name; docstring and type hints describe them."""
    return ()


@pytest.fixture
def vnc_planner(vnc_settings: Settings, vnc_functions: Sequence[Callable[..., object]]) -> Planner:
    """Who decides what to do. Override to plan with something else than the model that the settings name."""
    from pytest_vnc_use import assembly

    return assembly.build_planner(vnc_settings, vnc_functions)


@pytest.fixture
def vnc_agent(
    request: pytest.FixtureRequest,
    vnc_settings: Settings,
    vnc_desktop: Desktop,
    vnc_planner: Planner,
    vnc_functions: Sequence[Callable[..., object]],
) -> Iterator[VncUseAgent]:
    """Runs tasks (`run`), judges claims (`verify`), looks (`screenshot`), lends its hands (`click`, `type_text`, …).

    A task that does not end as done fails the test; `run(task, check=False)` returns its result instead.
    """
    from pytest_vnc_use.agent import VncUseAgent

    item, secrets = request.node, _declared_secrets(request.node)
    agent = VncUseAgent(
        vnc_password=vnc_desktop.password,
        settings=dataclasses.replace(vnc_settings, server=vnc_desktop.server),
        hitl_mode=False,
        planner=vnc_planner,
        functions=vnc_functions,
        secrets=secrets,
        observers=[_ItemObserver(item)],
        test_id=item.nodeid,
        check=True,
    )
    item.stash[RUNS] = agent.runs
    item.stash[HIDE] = _redaction(secrets, vnc_settings, vnc_desktop)
    yield agent
    agent.close()


def _declared_secrets(item: pytest.Item) -> dict[str, str]:
    secrets = {name: value for spec in item.stash[SPECS] for name, value in spec.secrets.items()}
    for name, value in secrets.items():
        if not value:
            raise SettingsError(f"vnc_task(secrets=…) names the environment variable {name!r}, which is not set")
    return secrets


def _redaction(secrets: Mapping[str, str], settings: Settings, desktop: Desktop) -> Callable[[str], str]:
    """For what a program under test printed, which the agent never sees."""
    from pytest_vnc_use import assembly
    from pytest_vnc_use.logging_utils import Redactor

    return Redactor({**secrets, **assembly.ambient_secrets(settings, desktop.password)}).hide


class _ItemObserver:
    """Passes a run's steps to the hook, its planner's name to the reports, and where it is to a failure."""

    def __init__(self, item: pytest.Item) -> None:
        self._item = item

    def observe(self, event: RunEvent) -> None:
        match event:
            case RunStarted():
                self._item.user_properties.append((PLANNER_PROPERTY, event.planner))
                self._item.stash[PLACE] = "before the first step"
            case StepStarted():
                self._item.stash[PLACE] = f"at step {event.number}"
            case StepFinished():
                self._item.stash[PLACE] = f"after step {event.step.number}"
                self._item.ihook.pytest_vnc_step(item=self._item, step=event.step)
            case RunEnded() if not event.error:
                self._item.stash[PLACE] = ""
            case _:
                pass  # what a run folder keeps, and no report of pytest's


# --- the test --------------------------------------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """The marker's tasks run in the call phase, before the body."""
    _check_no_later_marker(pyfuncitem)
    if specs := pyfuncitem.stash.get(SPECS, ()):
        from pytest_vnc_use import scenario

        agent: VncUseAgent = pyfuncitem.funcargs["vnc_agent"]  # type: ignore[assignment]  # the fixture's type
        scenario.carry_out(agent, specs, judge_end_state=scenario.checks_nothing(pyfuncitem.obj))
    return (yield)


def pytest_vnc_step(item: pytest.Item, step: Any) -> None:
    """With -v, each step is shown as it happens."""
    terminal = item.config.pluginmanager.get_plugin("terminalreporter")
    capture = item.config.pluginmanager.get_plugin("capturemanager")
    if terminal is None or capture is None or item.config.get_verbosity() < 1:
        return
    from pytest_vnc_use.transcript import step_line

    with capture.global_and_fixture_disabled():
        terminal.ensure_newline()
        terminal.write_line(f"  {step_line(step)}")


# --- reports ---------------------------------------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failure is told plainly; every step's picture goes into pytest-html's report, where one is written."""
    report = yield
    if report.failed and FIXTURES.intersection(getattr(item, "fixturenames", ())):
        _tell_plainly(item, call, report)
    runs = item.stash.get(RUNS, [])
    html_path = item.config.getoption("htmlpath", None)
    if call.when == "call" and runs and html_path:
        report.extras = [*getattr(report, "extras", []), *_extras(item.config, runs, Path(html_path))]  # type: ignore[attr-defined]
    return report


def _tell_plainly(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """What this package raises is shown as its message, without a way through the engine."""
    from pytest_vnc_use import failure

    error = call.excinfo.value if call.excinfo else None
    desktop: Any = getattr(item, "funcargs", {}).get("vnc_desktop")
    fault = failure.program_fault(desktop, error) if desktop and call.when != "teardown" else ""
    hide = item.stash.get(HIDE, str)
    if isinstance(error, VncUseError):
        told = failure.told(error, fault, [*_place(item), *failure.lines_in(item.path, error)], hide)
        plain = pytest.fail.Exception(told, pytrace=False).with_traceback(error.__traceback__)
        report.longrepr = item.repr_failure(pytest.ExceptionInfo.from_exception(plain))
    elif fault and (add_section := getattr(report.longrepr, "addsection", None)):
        add_section("program under test", failure.harmless(fault, hide))


def _place(item: pytest.Item) -> list[str]:
    place = item.stash.get(PLACE, "")
    return [f"{place} of the run in {item.stash[RUNS][-1]}"] if place else []


def _extras(config: pytest.Config, runs: list[Path], html_path: Path) -> list[dict[str, object]]:
    from pytest_vnc_use.report.extras import run_html
    from pytest_vnc_use.report.links import asset_writer, data_uri

    self_contained = config.getoption("self_contained_html")
    link = data_uri if self_contained else asset_writer(html_path.parent / "assets", "assets/")
    contents = [run_html(run, link=link) for run in runs]
    return [
        {"name": None, "format_type": "html", "content": content, "mime_type": None, "extension": None}
        for content in contents
    ]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say who planned: a model, or a script."""
    planners = [
        value
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", None) == "call"
        for name, value in report.user_properties
        if name == PLANNER_PROPERTY
    ]
    for planner in sorted(set(planners)):
        count = planners.count(planner)
        terminalreporter.write_line(f"vnc-use: {count} {'run' if count == 1 else 'runs'} planned by {planner}")
