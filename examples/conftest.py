"""The examples' desktop and planner: the shop on Qt's own VNC platform, and scripts where no model is configured."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from scripts import SCRIPTS, Turn

from pytest_vnc_use.planners.scripted import AT_ITS_END, ScriptedPlanner
from pytest_vnc_use.ports import Planner
from pytest_vnc_use.settings import Settings
from pytest_vnc_use.types import Decision, Observation

SHOP = Path(__file__).parent / "shop"
WITH_A_MODEL = "run it with a key in GOOGLE_API_KEY and --vnc-planner=gemini"


DEBIAN = "libegl1 libgl1 libglib2.0-0 libxkbcommon0 libfontconfig1 libdbus-1-3 fonts-dejavu-core"


@pytest.fixture(scope="session", autouse=True)
def qt_is_installed() -> None:
    """One line instead of a failure for each test."""
    try:
        import PySide6.QtWidgets  # noqa: F401
    except ImportError as exc:
        pytest.exit(
            f"the shop needs Qt, and {exc}; "
            f"python -m pip install -e '.[demo]' brings PySide6, and on Debian apt-get install {DEBIAN} what it loads",
            returncode=pytest.ExitCode.USAGE_ERROR,
        )


@pytest.fixture
def vnc_settings(vnc_settings: Settings) -> Settings:
    """The shop, started for each test, unless another desktop or another program is given."""
    server = vnc_settings.server or "qt"
    shop = shlex.join([sys.executable, str(SHOP)]) if server in ("qt", "xvnc") else ""
    settings = replace(vnc_settings, server=server, app=vnc_settings.app or shop)
    if settings.server == "qt" and sys.platform != "linux":
        pytest.skip("Qt's VNC platform needs Linux; show the shop on a VNC desktop and give --vnc-server=host::port")
    return settings


@pytest.fixture(autouse=True)
def needs_a_model(request: pytest.FixtureRequest, vnc_settings: Settings) -> None:
    """Skip, before anything is started, what only a model can do: judge a claim, or a task without a script."""
    tasks = list(request.node.iter_markers("vnc_task"))
    if vnc_settings.planner:
        return
    if any("expect" in task.kwargs for task in tasks):
        pytest.skip(f"its claim needs a judge: {WITH_A_MODEL}")
    if any(task.args[0] not in SCRIPTS for task in tasks):
        pytest.skip(f"it has no script: {WITH_A_MODEL}")


@pytest.fixture
def vnc_planner(request: pytest.FixtureRequest, vnc_settings: Settings) -> Planner:
    """The model that the settings name; where they name none, the scripts beside this file."""
    if vnc_settings.planner:
        planner: Planner = request.getfixturevalue("vnc_planner")
        return planner
    return ScriptedPlanner(scripted_turn, name="examples/scripts.py")


def scripted_turn(observation: Observation) -> Turn | Decision:
    """The turn that comes next in the script of the task."""
    script, number = SCRIPTS[observation.task], len(observation.turns)
    return script[number] if number < len(script) else AT_ITS_END
