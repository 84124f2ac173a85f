"""What the gallery's tests share: a planner that follows scripts.py where nothing is
replayed, and what is needed.
"""

from __future__ import annotations

import os
import platform
import shutil

import pytest
from scripts import SCRIPTS

from pytest_vnc_use.interactive import is_ci
from pytest_vnc_use.planners.local.scripted import AT_ITS_END, ScriptedPlanner
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import Action, Decision, Observation
from pytest_vnc_use.types.protocols import Planner

RECORDED_ON = "bookworm"
"""Debian 12: fonts, themes and programs of another release draw other pixels, and its
replays would drift.
"""


def pytest_configure(config: pytest.Config) -> None:
    """Declare the mark that says what a test needs."""
    config.addinivalue_line(
        "markers", "needs(*commands, package=…): what a test needs; see README.md"
    )


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose programs are not here; in CI it runs, and fails as it must."""
    for mark in item.iter_markers("needs"):
        missing = [command for command in mark.args if not shutil.which(command)]
        if missing and not is_ci():
            pytest.skip(
                f"{', '.join(missing)} must be installed: apt-get install"
                f" {mark.kwargs['package']}"
            )


@pytest.fixture
def vnc_settings(vnc_settings: Settings) -> Settings:
    """Replay only where the recordings were made; live and rewritten, the tests run
    everywhere.
    """
    release = (
        platform.freedesktop_os_release().get("VERSION_CODENAME", "?")
        if os.name == "posix"
        else "?"
    )
    if (
        vnc_settings.record in ("", "replay", "auto")
        and not vnc_settings.planner
        and release != RECORDED_ON
    ):
        pytest.skip(
            f"recorded on Debian {RECORDED_ON}, this is {release}: record it here with"
            " --vnc-record=rewrite"
        )
    return vnc_settings


@pytest.fixture
def vnc_planner(request: pytest.FixtureRequest, vnc_settings: Settings) -> Planner:
    """The model that the settings name; without one the script, if recordings are made,
    or none.
    """
    if vnc_settings.planner or vnc_settings.record not in ("rewrite", "off"):
        planner: Planner = request.getfixturevalue("vnc_planner")
        return planner
    return ScriptedPlanner(scripted_turn, name="scripts.py")


def scripted_turn(observation: Observation) -> list[Action] | Decision:
    """The turn that comes next in the script of the task."""
    script, number = SCRIPTS[observation.task], len(observation.turns)
    return script[number] if number < len(script) else AT_ITS_END
