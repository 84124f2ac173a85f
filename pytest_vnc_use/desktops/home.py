"""The home that a program starts with: copied from a directory of the project, or kept
in one for later tests.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.files import reason_of

_CHANGED_S = 1577880000
"""The time of all files when a program starts, as file dialogs show it: noon of 1
January 2020, UTC.
"""
_LOCKS = frozenset(
    (
        # Chromium; DevToolsActivePort has the port of the browser that has ended
        "SingletonLock",
        "SingletonSocket",
        "SingletonCookie",
        "DevToolsActivePort",
        # Firefox, LibreOffice
        ".parentlock",
        ".lock",
    )
)
"""Files of a running program: with a copy of them a second one does not start, or is
taken for the first.
"""
_CACHES = frozenset(
    (
        ".cache",
        # Chromium
        "Cache",
        "Code Cache",
        "GPUCache",
        "DawnGraphiteCache",
        "DawnWebGPUCache",
        "GrShaderCache",
        "GraphiteDawnCache",
        "ShaderCache",
        "BrowserMetrics",
        "Crash Reports",
    )
)
"""Directories that a program makes again; they would be most of a browser's profile."""


def check_home(directory: Path) -> None:
    """Raise SettingsError if no program can start with a copy of this directory."""
    if not directory.is_dir():
        raise SettingsError(
            f"vnc_home must be a directory, got {str(directory)!r}. Correct the path,"
            " or make it: cua-vnc run … --save-home"
        )


def check_new(directory: Path) -> None:
    """Raise SettingsError unless a home can be kept in this directory: a new one, or an
    empty one.
    """
    is_new = not os.path.lexists(directory)
    if is_new or (directory.is_dir() and not any(directory.iterdir())):
        return
    raise SettingsError(
        f"--save-home must be a new or an empty directory, got {str(directory)!r}."
        " Remove it, or name another one"
    )


def copy_home(source: Path, home: Path) -> None:
    """Copy the content of `source` into `home`. Raises SettingsError.

    Modes are kept, but directories become writable. Links stay links. Sockets, pipes
    and locks are left out.
    """
    try:
        _copy(source, home, _is_of_running)
        # Else what is in them could not be removed with the desktop.
        for directory, _, _ in os.walk(home):
            mode = Path(directory).stat().st_mode
            Path(directory).chmod(stat.S_IMODE(mode) | 0o700)
    except OSError as exc:
        raise SettingsError(
            f"vnc_home={str(source)!r} cannot be copied: {_first_reason(exc)}. Make"
            " each file readable for the current user, or remove it"
        ) from exc


def set_times(home: Path) -> None:
    """Give all files of a home the same time, so that dialogs and lists stay the
    same.
    """
    for directory, names, files in os.walk(home):
        for name in (*names, *files, "."):
            with suppress(OSError):  # it was removed, or belongs to another user
                os.utime(
                    os.path.join(directory, name),  # noqa: PTH118
                    (_CHANGED_S, _CHANGED_S),
                    follow_symlinks=False,
                )


def keep_home(home: Path, directory: Path) -> None:
    """Copy the home of a program that has ended into `directory`. Raises SettingsError.

    Caches are left out, and links with an absolute path, which leads to this desktop or
    out of the home.
    """

    def is_left_out(path: Path) -> bool:
        leads_out = path.is_symlink() and path.readlink().is_absolute()
        return leads_out or path.name in _CACHES or _is_of_running(path)

    check_new(directory)
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        _copy(home, directory, is_left_out)
    except OSError as exc:
        raise SettingsError(
            f"the home cannot be kept in {str(directory)!r}: {_first_reason(exc)}."
            " Remove that directory, and name one that can be written"
        ) from exc


def _is_of_running(path: Path) -> bool:
    mode = path.lstat().st_mode
    has_content = stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)
    return path.name in _LOCKS or not has_content


def _copy(source: Path, target: Path, is_left_out: Callable[[Path], bool]) -> None:
    def ignore(directory: str, names: list[str]) -> set[str]:
        return {name for name in names if is_left_out(Path(directory, name))}

    shutil.copytree(
        source,
        target,
        symlinks=True,
        ignore=ignore,
        dirs_exist_ok=True,
    )


def _first_reason(error: OSError) -> str:
    """Return the reason of an error, or the first reason if a copy has failed for
    several.
    """
    if isinstance(error, shutil.Error):
        _, _, reason = error.args[0][0]
        return str(reason)
    return reason_of(error)
