"""Plugins of pytest that come with this one's libraries, and cost a session time."""

from __future__ import annotations

import os
import shlex
from importlib.metadata import entry_points
from pathlib import Path

LANGSMITH = "langsmith_plugin"
LEAVE_OUT = f"-p no:{LANGSMITH}"
ABOUT_LANGSMITH = "langgraph brings langsmith, whose own pytest plugin costs every session 0.5 to 1 s"


def langsmith_in(folder: Path) -> tuple[bool, str]:
    """Return whether pytest runs here without langsmith's plugin, with a sentence for the user.

    Raises SettingsError if the file with pytest's options is broken.
    """
    from pytest_vnc_use.cli.init.ini_files import IniFile  # which imports the checks of the doctor, and so this module

    if not entry_points(group="pytest11", name=LANGSMITH):
        return True, "not installed"
    ini = IniFile.find(folder)
    words = [*ini.words("addopts"), *shlex.split(os.environ.get("PYTEST_ADDOPTS", ""))]
    if f"no:{LANGSMITH}" in " ".join(words):
        return True, "its pytest plugin is left out"
    return False, f"{ABOUT_LANGSMITH}; unless your tests use it, add '{LEAVE_OUT}' to addopts in {ini.name}"
