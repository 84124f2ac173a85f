"""What it means that the program under test could not be started, or ended before it showed anything."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager

from pytest_vnc_use.errors import DesktopError, ProgramCrashed, ProgramMissing, VncUseError

STAY = "; it must stay in the foreground"
"""What is said of a program that ended without a fault."""

_CANNOT_BE_RUN = (
    *(errno.ENOENT, errno.EACCES, errno.EPERM, errno.ENOEXEC, errno.ENOTDIR, errno.EISDIR),
    *(errno.ELOOP, errno.ENAMETOOLONG, errno.E2BIG, errno.EINVAL),
)
"""Errors of execve(2) that are of the file that was named; others, such as ENOMEM, are the machine's."""
_SHELL_SAYS_SO = (126, 127)
"""What shells, `env` and `docker exec` end with where the program that they were to run cannot be run, or found."""
_ENGINE_OR_WAY_FAILED = (125, 255)
"""What `docker exec` and `ssh` end with where they failed themselves."""
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
"""The program could not reach a screen: the surroundings' fault."""


@contextmanager
def starting(program: str, missing: type[ProgramMissing] = ProgramMissing) -> Iterator[None]:
    """Raises `missing` where the program cannot be found or run, in the place of the DesktopError that says so."""
    try:
        yield
    except DesktopError as exc:
        cause = exc.__cause__
        if isinstance(cause, OSError) and cause.errno in _CANNOT_BE_RUN:
            raise missing(str(exc)) from cause
        raise
    except ValueError as exc:  # a command with a zero character in it
        raise missing(f"cannot start {program!r}: {exc}; give a program that can be run") from exc


def early_end(told: str, exit_code: int | None, output: str, *, elsewhere: bool = False) -> VncUseError:
    """The error for a program that ended before it showed anything; `told` says so in a sentence, with its last words.

    `elsewhere` where the exit code is that of a client, such as `ssh`, which may have failed itself.
    """
    if not exit_code or _NO_SCREEN.search(output) or (elsewhere and exit_code in _ENGINE_OR_WAY_FAILED):
        return DesktopError(told)
    if exit_code in _SHELL_SAYS_SO or _NOT_FOUND.search(output):
        return ProgramMissing(told)
    return ProgramCrashed(told)
