"""What a person reads of a test that failed by something this package raised: a few lines, and no traceback."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.errors import ConnectionLost, DesktopRefused, InfraError, SettingsError, VncUseError
from pytest_vnc_use.ports import Desktop
from pytest_vnc_use.transcript import plain

_REAPED_WITHIN_S = 1.0
"""How long after its connection closed a program that died may take to be known as ended."""


def program_fault(desktop: Desktop, error: BaseException | None) -> str:
    """What became of the program under test; waited for where its end may be why the connection closed."""
    deadline = Deadline(_REAPED_WITHIN_S if isinstance(error, ConnectionLost) else 0.0)
    # a user's own vnc_desktop need not know of programs
    fault_of = getattr(desktop, "program_fault", str)
    while not (fault := fault_of()) and deadline.remaining_s:
        time.sleep(0.02)  # the port has no event to wait for
    return fault


def told(error: VncUseError, fault: str, places: Sequence[str], hide: Callable[[str], str]) -> str:
    """The error, where it happened, and the program's `fault`; first the one of the two that explains the other.

    Whose fault it is stands first: `infra` is said of the tool only, never of a program that ended.
    """
    ended = f"the program under test ended: {fault}" if fault else ""
    where = [f"  {place}" for place in places]
    match error:
        case ConnectionLost() | DesktopRefused() if ended:
            lines = [ended, _named(error), *where]
        case InfraError():
            lines = [f"infra: {_named(error)}", *where, ended]
        case SettingsError():
            lines = [f"settings: {error}", *where, ended]
        case _:
            lines = [str(error), *where, ended]
    return harmless("\n".join(filter(None, lines)), hide)


def _named(error: VncUseError) -> str:
    return f"{type(error).__name__}: {error}"


def lines_in(file: Path, error: BaseException) -> list[str]:
    """`at test_shop.py:12`: the line of a file that the error came through, if any; the innermost of several."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == file]
    return [f"at {file.name}:{frame.lineno}" for frame in frames[-1:]]


def harmless(text: str, hide: Callable[[str], str]) -> str:
    """The text without secrets and control characters."""
    return "\n".join(map(plain, hide(text).splitlines()))
