"""The pytest plugin: options, marker, fixtures and report hooks; adapters without logic of their own.

Whatever is heavy is imported where a test needs it, so that a session without `vnc_task` pays for nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vnc_use.errors import InfraError, SettingsError, VncUseError
from pytest_vnc_use.ports import Desktop, Planner
from pytest_vnc_use.settings import FIELDS, Settings, TaskSpec, environment_layer, merge, option_name, task_spec
from pytest_vnc_use.types import RunEvent, RunStarted, StepFinished

if TYPE_CHECKING:
    from pytest_vnc_use.agent import VncUseAgent

MARKER = (
    "vnc_task(task, *, expect=(), steps=None, seconds=None, policy=None, model=None, secrets=()): "
    "carry out the task, a sentence, on a VNC desktop before the test's body runs; each claim in expect is then "
    "judged, and an empty body is judged by the task's end state"
)
LAYERS = pytest.StashKey[list[tuple[Mapping[str, object], Callable[[str], str]]]]()
SPECS = pytest.StashKey[tuple[TaskSpec, ...]]()
RUNS = pytest.StashKey[list[Path]]()
PLANNER_PROPERTY = "vnc_planner"


@contextmanager
def _told_plainly() -> Iterator[None]:
    """What this package raises becomes a failure that pytest shows as its message, without a way through the engine."""
    try:
        yield
    except InfraError as exc:
        pytest.fail(f"infra: {type(exc).__name__}: {exc}", pytrace=False)
    except SettingsError as exc:
        pytest.fail(f"settings: {exc}", pytrace=False)
    except VncUseError as exc:
        pytest.fail(str(exc), pytrace=False)


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
        ({name: config.getini(f"vnc_{name}") for name in FIELDS}, lambda name: f"ini option vnc_{name}"),
        environment_layer(),
        ({name: config.getoption(f"vnc_{name}") for name in FIELDS}, option_name),
    ]
    try:
        settings = merge(*config.stash[LAYERS])
        if settings.policy:
            from pytest_vnc_use.policy import load_policy

            load_policy(settings.policy)
    except SettingsError as exc:
        raise pytest.UsageError(str(exc)) from exc


def pytest_itemcollected(item: pytest.Item) -> None:
    """Read the markers, outermost first and top to bottom, and have the fixture ready for the call phase."""
    try:
        specs = [task_spec(mark.args, mark.kwargs) for mark in item.iter_markers("vnc_task")]
    except SettingsError as exc:
        raise pytest.UsageError(f"{item.nodeid}: {exc}") from exc
    item.stash[SPECS] = tuple(reversed(specs))
    if specs and isinstance(item, pytest.Function) and "vnc_agent" not in item.fixturenames:
        item.fixturenames.append("vnc_agent")


# --- fixtures --------------------------------------------------------------------------------------------------------


@pytest.fixture
def vnc_settings(request: pytest.FixtureRequest) -> Settings:
    """The test's settings: defaults < ini < environment < command line < marker. Override to change them in code."""
    own = [(spec.settings, lambda name: f"vnc_task({name}=…)") for spec in request.node.stash[SPECS]]
    with _told_plainly():
        return merge(*request.config.stash[LAYERS], *own)


@pytest.fixture
def vnc_desktop(vnc_settings: Settings) -> Iterator[Desktop]:
    """The desktop that the test drives: `.server`, `.read_file(name)`, `.write_file(name, text)`."""
    from pytest_vnc_use import assembly

    with _told_plainly():
        desktop = assembly.lease_desktop(vnc_settings)
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

    with _told_plainly():
        return assembly.build_planner(vnc_settings, vnc_functions)


@pytest.fixture
def vnc_agent(
    request: pytest.FixtureRequest,
    vnc_settings: Settings,
    vnc_desktop: Desktop,
    vnc_planner: Planner,
    vnc_functions: Sequence[Callable[..., object]],
) -> Iterator[VncUseAgent]:
    """Runs tasks (`run`), judges claims (`verify`), looks (`screenshot`), lends its hands (`click`, `type_text`, …)."""
    from pytest_vnc_use.agent import VncUseAgent

    with _told_plainly():
        agent = VncUseAgent(
            settings=dataclasses.replace(vnc_settings, server=vnc_desktop.server),
            hitl_mode=False,
            planner=vnc_planner,
            functions=vnc_functions,
            secrets=_declared_secrets(request.node),
            observers=[_ItemObserver(request.node)],
            test_id=request.node.nodeid,
        )
    request.node.stash[RUNS] = agent.runs
    yield agent
    agent.close()


def _declared_secrets(item: pytest.Item) -> dict[str, str]:
    secrets = {name: value for spec in item.stash[SPECS] for name, value in spec.secrets.items()}
    for name, value in secrets.items():
        if not value:
            raise SettingsError(f"vnc_task(secrets=…) names the environment variable {name!r}, which is not set")
    return secrets


class _ItemObserver:
    """Passes a run's steps to the hook, and its planner's name to the reports."""

    def __init__(self, item: pytest.Item) -> None:
        self._item = item

    def observe(self, event: RunEvent) -> None:
        if isinstance(event, StepFinished):
            self._item.ihook.pytest_vnc_step(item=self._item, step=event.step)
        elif isinstance(event, RunStarted):
            self._item.user_properties.append((PLANNER_PROPERTY, event.planner))


# --- the test --------------------------------------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """The marker's tasks run in the call phase, before the body."""
    specs = pyfuncitem.stash.get(SPECS, ())
    if specs:
        from pytest_vnc_use import scenario

        with _told_plainly():
            agent: VncUseAgent = pyfuncitem.funcargs["vnc_agent"]  # type: ignore[assignment]  # the fixture's type
            scenario.carry_out(agent, specs, judge_end_state=scenario.checks_nothing(pyfuncitem.obj))
    return (yield)


def pytest_vnc_step(item: pytest.Item, step: Any) -> None:
    """With -v, each step is shown as it happens."""
    terminal = item.config.pluginmanager.get_plugin("terminalreporter")
    capture = item.config.pluginmanager.get_plugin("capturemanager")
    if terminal is None or capture is None or item.config.get_verbosity() < 1:
        return
    from pytest_vnc_use.agent import step_line

    with capture.global_and_fixture_disabled():
        terminal.ensure_newline()
        terminal.write_line(f"  {step_line(step)}")


# --- reports ---------------------------------------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Every step's picture goes into pytest-html's report, where one is written."""
    report = yield
    runs = item.stash.get(RUNS, [])
    html_path = item.config.getoption("htmlpath", None)
    if call.when == "call" and runs and html_path:
        report.extras = [*getattr(report, "extras", []), *_extras(item.config, runs, Path(html_path))]  # type: ignore[attr-defined]
    return report


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
        terminalreporter.write_line(f"vnc-use: {planners.count(planner)} runs planned by {planner}")
