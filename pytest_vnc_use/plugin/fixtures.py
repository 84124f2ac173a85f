"""The fixtures of the plugin. Override any of them in a conftest.py."""

# Every session loads this module, so each fixture imports what it needs only when a
# test requests it.

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_vnc_use.agent.agent import VncUseAgent
    from pytest_vnc_use.settings.settings import Settings
    from pytest_vnc_use.types.protocols import Desktop, Judge, Planner

_REPLAY_MODES = {"manual": "accept", "rewrite": "auto"}
"""The mode that replays a recording with other values, by the mode that made it."""


@pytest.fixture
def _vnc_plugins(pytestconfig: pytest.Config) -> None:
    """Register the plugins for tests with a desktop, before other fixtures are set up.

    Each fixture that needs them requests this one, as a user may override the others.
    """
    from pytest_vnc_use.plugin.registration import register_plugins

    register_plugins(pytestconfig)


@pytest.fixture
def vnc_settings(_vnc_plugins: None, request: pytest.FixtureRequest) -> Settings:
    """Return the test's settings: defaults < ini < environment < command line < marker.

    Override to change them in code.

    Of the command line, only `--vnc-record=replay` overrides a marker. If a test has
    several markers, these are the settings on which all agree; a setting of one marker
    applies to its task.
    """
    from pytest_vnc_use.plugin import markers, options, reruns, state
    from pytest_vnc_use.settings.layers import merge

    specs = state.state_of(request.node).marked.specs
    marker_layer = (markers.agreed(specs), lambda name: f"vnc_task({name}=…)")
    settings = merge(*options.layers_of(request.config), marker_layer)
    replay_mode = _REPLAY_MODES.get(settings.record)
    if replay_mode and reruns.is_recorded_with_other_values(request.node):
        return replace(settings, record=replay_mode)
    return settings


@pytest.fixture
def vnc_app(vnc_settings: Settings) -> str | Sequence[str]:
    """Return the program under test, a command line or an argv.

    Override if a test must build the program first.
    """
    return vnc_settings.app


@pytest.fixture
def vnc_home(vnc_settings: Settings) -> str | Path:
    """Return the directory that is copied into the program's HOME, "" for an empty one.

    Override if a test must create the directory first.
    """
    return vnc_settings.home


@pytest.fixture
def vnc_desktop(
    _vnc_plugins: None,
    request: pytest.FixtureRequest,
    vnc_settings: Settings,
    vnc_app: str | Sequence[str],
    vnc_home: str | Path,
) -> Iterator[Desktop]:
    """Return the test's desktop, with `.server`, `.read_file(name)`, `.write_file(name,
    text)` and `.run(command)`.

    With the scope `test`, the desktop is stopped or reset after the test. With `module`
    or `session`, the next test gets it as it is, unless its program has ended or that
    test needs another desktop.
    """
    from pytest_vnc_use.plugin import desktops

    yield from desktops.lease_for_test(request, vnc_settings, vnc_app, vnc_home)


@pytest.fixture
def vnc_functions(
    request: pytest.FixtureRequest,
    vnc_settings: Settings,
) -> Sequence[Callable[..., object]]:
    """Return Python functions that the model may call by name; docstring and type hints
    describe them.

    They come from the module that the setting `vnc_functions` names. With `vnc_cdp`,
    other functions read the browser's page; with `vnc_elements`, one lists the elements
    that programs show.
    """
    if not (vnc_settings.cdp or vnc_settings.elements or vnc_settings.functions):
        return ()
    from pytest_vnc_use.agent import build

    return build.desktop_functions(vnc_settings, request.getfixturevalue("vnc_desktop"))


@pytest.fixture
def vnc_planner(
    _vnc_plugins: None,
    request: pytest.FixtureRequest,
    vnc_settings: Settings,
    vnc_functions: Sequence[Callable[..., object]],
) -> Planner:
    """Return the planner, which decides what to do.

    Override to plan with something other than the configured model.
    """
    from pytest_vnc_use.plugin import agents

    return agents.planner_of(request.node, vnc_settings, vnc_functions)


@pytest.fixture
def vnc_judge(
    _vnc_plugins: None,
    request: pytest.FixtureRequest,
    vnc_settings: Settings,
) -> Judge | None:
    """Return the judge of claims; None for the judge that the settings name.

    Override to judge with something else.
    """
    from pytest_vnc_use.plugin import agents

    return agents.user_judge_of(request.node, vnc_settings)


@pytest.fixture
def _vnc_checks(
    request: pytest.FixtureRequest,
    vnc_settings: Settings,
    vnc_judge: Judge | None,
) -> None:
    """Check the recording and the judge of a test with tasks before it has a desktop.

    No test requests this fixture: `pytest_itemcollected` inserts it.
    """
    from pytest_vnc_use.plugin import agents

    if not vnc_settings.server:
        # The built-in `vnc_desktop` reports the missing server, which a user should see
        # before a missing judge. An override needs no server; whether there is one,
        # only a private name of pytest shows.
        manager = request._fixturemanager
        definitions = manager.getfixturedefs("vnc_desktop", request.node) or ()
        if len(definitions) == 1:
            request.getfixturevalue("vnc_desktop")
    agents.check_recording(request.node, vnc_settings)
    agents.check_judge(request.node, vnc_settings, vnc_judge)


@pytest.fixture
def vnc_agent(
    _vnc_plugins: None,
    request: pytest.FixtureRequest,
    vnc_settings: Settings,
    vnc_desktop: Desktop,
    vnc_planner: Planner,
    vnc_judge: Judge | None,
    vnc_functions: Sequence[Callable[..., object]],
) -> Iterator[VncUseAgent]:
    """Return the agent: it runs tasks (`run`), judges claims (`verify`, `check`,
    `saw`), reads values (`extract`).

    It also takes a `screenshot` and performs input: `click`, `type_text`, `key`,
    `scroll`, `drag`. A task that does not end as done, or is judged as not done, fails
    the test.
    """
    from pytest_vnc_use.plugin import agents

    yield from agents.agent_of_test(
        request, vnc_settings, vnc_desktop, vnc_planner, vnc_judge, vnc_functions
    )
