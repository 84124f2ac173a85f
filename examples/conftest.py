"""The examples' desktop, planner and judge: the shop on Qt's own VNC platform; without
a model, replayed recordings.
"""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from scripts import SCRIPTS, Turn

from pytest_vnc_use.planners.local.scripted import AT_ITS_END, ScriptedPlanner
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import Decision, Frame, Observation, Report, Verdict
from pytest_vnc_use.types.protocols import Judge, Planner

# a project of its own, whose programs need not be here: python -m pytest
# examples/gallery
collect_ignore = ["gallery"]
SHOP = Path(__file__).parent / "shop"
WITH_A_MODEL = "run it with a key in GOOGLE_API_KEY and --vnc-planner=gemini"
DEBIAN = "libegl1 libgl1 libglib2.0-0 libxkbcommon0 libfontconfig1 libdbus-1-3"


@pytest.fixture(scope="session", autouse=True)
def qt_is_installed() -> None:
    """One line instead of a failure for each test."""
    try:
        import PySide6.QtWidgets  # noqa: F401
    except ImportError as exc:
        pytest.exit(
            f"the shop needs Qt, and {exc}; python -m pip install -e '.[demo]' brings"
            f" PySide6, and on Debian apt-get install {DEBIAN} what it loads",
            returncode=pytest.ExitCode.USAGE_ERROR,
        )


@pytest.fixture
def vnc_settings(vnc_settings: Settings) -> Settings:
    """The shop, started for each test, unless another desktop or another program is
    given.

    The recordings are of Qt's own platform; other desktops show pointers and frames of
    their own.
    """
    server = vnc_settings.server or "qt"
    shop = shlex.join([sys.executable, str(SHOP)]) if server in ("qt", "xvnc") else ""
    record = vnc_settings.record or ("" if server == "qt" else "off")
    settings = replace(
        vnc_settings, server=server, app=vnc_settings.app or shop, record=record
    )
    if settings.server != "qt":
        return settings
    if sys.platform != "linux":
        pytest.skip(
            "Qt's VNC platform needs Linux; show the shop on a VNC desktop and give"
            " --vnc-server=host::port"
        )
    return (
        replace(settings, qt_host_network="true")
        if settings.qt_host_network == "false"
        else settings
    )


@pytest.fixture
def vnc_planner(request: pytest.FixtureRequest, vnc_settings: Settings) -> Planner:
    """The model that the settings name; without one none for a replay, the scripts to
    record.
    """
    is_replayed = vnc_settings.record not in (
        "rewrite",
        "off",
    ) and request.node.get_closest_marker("vnc_task")
    if vnc_settings.planner or is_replayed:
        planner: Planner = request.getfixturevalue("vnc_planner")
        return planner
    return ScriptedPlanner(scripted_turn, name="examples/scripts.py")


def scripted_turn(observation: Observation) -> Turn | Decision:
    """The turn that comes next in the script of the task."""
    script, number = SCRIPTS.get(observation.task), len(observation.turns)
    if script is None:
        pytest.skip(f"it has no script: {WITH_A_MODEL}")
    return script[number] if number < len(script) else AT_ITS_END


@pytest.fixture
def vnc_judge(request: pytest.FixtureRequest, vnc_settings: Settings) -> Judge | None:
    """The model that the settings name, or who records; without one a claim that is not
    replayed skips its test.
    """
    if vnc_settings.planner or vnc_settings.judge or vnc_settings.record == "manual":
        judge: Judge | None = request.getfixturevalue("vnc_judge")
        return judge
    return NoJudge()


class NoJudge:
    """No judge: no claim can be judged."""

    def judge(
        self, claim: str, frame: Frame, *, timeout_s: float, report: Report
    ) -> Verdict:
        pytest.skip(f"its claim needs a judge: {WITH_A_MODEL}")
