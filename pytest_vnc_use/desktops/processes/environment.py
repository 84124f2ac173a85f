"""The environment that a desktop, its program and its commands inherit: this process's own without its secrets."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

_WITHHELD = {
    *("WAYLAND_DISPLAY", "WAYLAND_SOCKET", "VNC_USE_PASSWORD", "VNC_USE_API_KEY"),
    *("GOOGLE_API_KEY", "GEMINI_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "LMSTUDIO_API_KEY"),
}
"""Variables that would lead a program to the tester's own screen, or give it the tests' secrets."""


_PROFILE = {
    "XDG_CONFIG_HOME": "config",
    "XDG_DATA_HOME": "data",
    "XDG_STATE_HOME": "state",
    "XDG_RUNTIME_DIR": "run",
}
"""The folders in which a program keeps what it knows of its user (freedesktop.org, XDG Base Directory)."""
_BUS = "DBUS_SESSION_BUS_ADDRESS"


def withhold(*names: str) -> None:
    """Remove these variables from the environment of every process that is started for a desktop from now on."""
    _WITHHELD.update(names)


def inheritable(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the part of an environment that a desktop may inherit, of this process's own by default."""
    given = os.environ if environment is None else environment
    return {name: value for name, value in given.items() if name not in _WITHHELD}


def as_new_user(environment: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return the environment of a user whom no program knows: with empty folders in `folder`, and without a bus."""
    folders = {variable: folder / name for variable, name in _PROFILE.items()}
    for path in (folder, *folders.values()):
        path.mkdir(mode=0o700)
    kept = {name: value for name, value in environment.items() if name != _BUS}
    return {**kept, **{variable: str(path) for variable, path in folders.items()}}
