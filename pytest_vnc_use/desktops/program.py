"""The start of a program under test, on any desktop: its command, the wait until it shows, and its errors."""

from __future__ import annotations

import errno
import os
import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.desktops.session import Process
from pytest_vnc_use.errors import DesktopError, ProgramCrashed, ProgramMissing, SettingsError, VncUseError
from pytest_vnc_use.types import Glance
from pytest_vnc_use.types.protocols import Controller

STAY = "; it must stay in the foreground"
"""The advice about a program that ended without a fault."""
_CANNOT_BE_RUN = (
    *(errno.ENOENT, errno.EACCES, errno.EPERM, errno.ENOEXEC, errno.ENOTDIR, errno.EISDIR),
    *(errno.ELOOP, errno.ENAMETOOLONG, errno.E2BIG, errno.EINVAL),
)
"""Errors of execve(2) that the named file causes; others, such as ENOMEM, come from the machine."""
_SHELL_SAYS_SO = (126, 127)
"""Exit codes of shells, `env` and `docker exec` whose program cannot be run, or cannot be found."""
_ENGINE_OR_WAY_FAILED = (125, 255)
"""Exit codes of `docker exec` and `ssh` for their own failure."""
_NOT_FOUND = re.compile(
    r"can't open file .*\[Errno \d+\]"  # python nosuch.py
    r"|^\S*python\S*: No module named "  # python -m nosuch
    r"|can't find '__main__' module in"
    r"|^\S*sh: \d*:? ?(?:cannot open|can't open) "  # sh nosuch.sh
    r"|Unable to access jarfile",
    re.MULTILINE,
)
_NO_SCREEN = re.compile(
    r"Qt platform plugin|(?:cannot|could not|can't|unable to|failed to) (?:open|connect to) (?:the )?(?:X )?display",
    re.IGNORECASE,
)
"""Output of a program that could not reach a screen; its surroundings are at fault."""

POINTER_PX = 64
"""The side of the largest pointer. TigerVNC draws it into the screenshot of a client that has not moved it yet."""
_COLOUR_BITS = np.uint32(0xFFFFFF)
_NOTICE_S = 0.05
"""The delay before the end of a process is noticed."""


def check_argv(argv: Sequence[str]) -> None:
    """Raise SettingsError for a command that is one text or empty, or that holds half of a surrogate pair.

    A text would count as arguments of one letter.
    """
    if isinstance(argv, str) or not argv:
        raise SettingsError(f'a command must be a list of arguments, such as ["ls", "-l"], got {argv!r:.200}')
    for argument in argv:
        try:
            os.fsencode(argument)
        except UnicodeEncodeError as exc:
            half = f"{argument[exc.start]!r} (U+{ord(argument[exc.start]):04X})"
            raise SettingsError(
                f"a command must be text, got half of a surrogate pair, {half}, in {argument!r}"
            ) from None


@contextmanager
def starting(program: str, missing: type[ProgramMissing] = ProgramMissing) -> Iterator[None]:
    """Raise `missing` if the program cannot be found or run, in place of the session's DesktopError."""
    try:
        yield
    except DesktopError as exc:
        cause = exc.__cause__
        if isinstance(cause, OSError) and cause.errno in _CANNOT_BE_RUN:
            raise missing(str(exc)) from cause
        raise
    except ValueError as exc:  # a command with a zero character in it
        raise missing(f"cannot start {program!r}: {exc}; give a program that can be run") from exc


def greets_at(address: str, timeout_s: float) -> bool:
    """Return whether a VNC server answers at `host::port`, or at the path of a unix socket, within `timeout_s`."""
    host, _, port = address.partition("::")
    try:
        with socket.socket(socket.AF_INET if port else socket.AF_UNIX) as connection:
            connection.settimeout(timeout_s)
            connection.connect((host, int(port)) if port else address)
            return connection.recv(4) == b"RFB "
    except OSError:
        return False


def early_end(message: str, exit_code: int | None, output: str, *, elsewhere: bool = False) -> VncUseError:
    """Return the error for a program that ended before it showed anything.

    With `elsewhere` the exit code is that of a client, such as `ssh`, which may have failed itself.
    """
    if not exit_code or _NO_SCREEN.search(output) or (elsewhere and exit_code in _ENGINE_OR_WAY_FAILED):
        return DesktopError(message)
    if exit_code in _SHELL_SAYS_SO or _NOT_FOUND.search(output):
        return ProgramMissing(message)
    return ProgramCrashed(message)


def shows_window(process: Process, screen: Controller, before: Glance, deadline: Deadline) -> bool:
    """Wait until the screen differs from `before`; return False if the process ends, or time is up, first.

    Differences within one box of a pointer's size do not count: a caret, a clock. Raises DesktopError if the connection
    is lost.
    """
    since_s = before.taken_at
    while not process.end and deadline.remaining_s:
        if screen.wait_changed(since_s, min(_NOTICE_S, deadline.remaining_s)):
            now = screen.glance()
            if _differ(now.pixels, before.pixels):
                return True
            since_s = now.taken_at
    return False


def shows_anything(screen: Controller, deadline: Deadline) -> bool:
    """Wait until the screen has several colours, a pointer aside; return False if time is up first.

    Raises DesktopError.
    """
    now: Any = screen.glance()
    while not _differ(now.pixels, now.pixels[-1, 0]):
        if not screen.wait_changed(now.taken_at, deadline.remaining_s):
            return False
        now = screen.glance()
    return True


def _differ(pixels: Any, others: Any) -> bool:
    if np.ndim(others) and pixels.shape != others.shape:
        return True
    differs = (pixels ^ others) & _COLOUR_BITS != 0
    edges = [np.flatnonzero(differs.any(axis=axis)) for axis in (0, 1)]
    return any(places.size and np.ptp(places) >= POINTER_PX for places in edges)
