"""What a started program finds: its environment, and the directories that stand for its user's. Made only here."""

from __future__ import annotations

import os
import site
from pathlib import Path

from pytest_vnc_use.desktops.rendering import pin_rendering, user_fonts

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
"""The directories in which a program keeps what it knows of its user (freedesktop.org, XDG Base Directory)."""
_BUS = "DBUS_SESSION_BUS_ADDRESS"


def withhold(*names: str) -> None:
    """Remove these variables from the environment of every process that is started for a desktop from now on."""
    _WITHHELD.update(names)


def inheritable() -> dict[str, str]:
    """Return the part of this process's environment that a desktop may inherit."""
    return {name: value for name, value in os.environ.items() if name not in _WITHHELD}


def make_environment(directory: Path, home: Path, *, pinned: bool) -> dict[str, str]:
    """Return the environment of a user whom no program knows: with new directories in `directory`, without a bus.

    Fonts, packages of Python and caches of the tester, which are in a home directory too, stay as they are. With
    `pinned` programs draw in it as on every other machine; raises SettingsError where DejaVu is not installed.
    """
    profile = directory / "profile"
    paths = {variable: profile / name for variable, name in _PROFILE.items()}
    for path in (profile, *paths.values()):
        path.mkdir(mode=0o700)
    if os.path.isdir(fonts := user_fonts()):  # noqa: PTH112  # Path.is_dir raises where it may not look
        (paths["XDG_DATA_HOME"] / "fonts").symlink_to(fonts)
    kept = {
        "XDG_CACHE_HOME": os.path.expanduser("~/.cache"),  # noqa: PTH111  # without a home it stays as it is
        "PYTHONUSERBASE": site.getuserbase(),
        **{name: value for name, value in inheritable().items() if name != _BUS},
    }
    environment = {**kept, "HOME": str(home), **{variable: str(path) for variable, path in paths.items()}}
    return pin_rendering(environment, paths["XDG_CONFIG_HOME"]) if pinned else environment


def make_home(directory: Path) -> Path:
    """Return the new home directory of the program under test, which is the working directory of every command too.

    Dialogs show its name, some its whole path.
    """
    home = directory / "Home"
    home.mkdir(mode=0o700)
    return home
