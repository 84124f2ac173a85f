"""What a person reads of a test that failed by something this package raised: a few lines, and no traceback."""

from __future__ import annotations

import re
import signal
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.errors import (
    ConnectionLost,
    DesktopError,
    DesktopRefused,
    DesktopSilent,
    InfraError,
    ProgramCrashed,
    ScreenBlank,
    ScreenFrozen,
    VncUseError,
)
from pytest_vnc_use.faults import asked, named, text_of
from pytest_vnc_use.plain_text import cut
from pytest_vnc_use.runs.transcript import plain
from pytest_vnc_use.types.protocols import Desktop

LONGEST_ERROR = 20_000
"""Characters of an error, with the last words of a program, that are told."""
_REAPED_WITHIN_S = 1.0
"""How long after its connection closed a program that died may take to be known as ended."""

_OF_ITSELF = {getattr(signal, f"SIG{name}", None) for name in ("ILL", "TRAP", "ABRT", "BUS", "FPE", "SEGV", "SYS")}
"""Signals by which a program ends through its own fault."""


@dataclass(frozen=True)
class Fault:
    """That something ended which a test needs, and its last output; false where nothing did."""

    text: str = ""
    of_program: bool = False
    """Whether it is the program under test, and not the desktop under it, whose end is `infra`."""
    hangs: bool = False
    """Whether the program has not ended, but answers nothing."""

    def __bool__(self) -> bool:
        return bool(self.text)

    def __str__(self) -> str:
        if self.hangs:
            return f"the program under test hangs: {self.text}"
        return f"the program under test ended: {self.text}" if self.of_program else f"the desktop: {self.text}"


def fault_of(desktop: Desktop, error: BaseException | None = None) -> Fault:
    """What became of the desktop and its program; waited for where its end may be why the connection closed."""
    deadline = Deadline(_REAPED_WITHIN_S if isinstance(error, ConnectionLost) else 0.0)
    stands_still = isinstance(error, (ScreenBlank, ScreenFrozen, DesktopSilent))
    while not (fault := _fault_now(desktop, stands_still=stands_still)) and deadline.remaining_s:
        time.sleep(0.02)  # the port has no event to wait for
    return fault


def _fault_now(desktop: Desktop, *, stands_still: bool) -> Fault:
    # a user's own vnc_desktop need not know of programs, nor of itself
    try:
        if ended := getattr(desktop, "program_fault", str)():
            return Fault(ended, of_program=True)
        fault = Fault(getattr(desktop, "fault", str)())
        if not fault and stands_still and getattr(desktop, "program_hangs", bool)():
            return Fault("it runs, and answers nothing", of_program=True, hangs=True)
        return fault
    except Exception as exc:  # noqa: BLE001  # a user's own may raise anything, and this explains another failure
        return Fault(f"what became of it cannot be told: {type(exc).__name__}: {exc}")


def crash_of(desktop: Desktop, *, of_itself: bool = False) -> str:
    """What became of the program under test where a signal ended it; "" while it runs, and where it ended by itself.

    With `of_itself` only a signal that nobody sends to end a program. A shell tells of signal n as exit code 128 + n.
    """
    fault = str(getattr(desktop, "program_fault", str)())
    code = re.search(r"exited with (-?\d+)", fault.partition("\n")[0])
    number = -int(code[1]) if code else 0
    number = number if number > 0 else -number - 128
    return fault if (number in _OF_ITSELF if of_itself else 0 < number < 32) else ""


def format_failure(error: BaseException, fault: Fault, places: Sequence[str], hide: Callable[[str], str]) -> str:
    """The error, where it happened, and the `fault`; first the one of the two that explains the other."""
    ended = str(fault) if fault else ""
    where = [f"  {place}" for place in places]
    match error:
        case ConnectionLost() | DesktopRefused() if ended:
            lines = [ended, named(error), *where]
        case DesktopError() if fault.hangs:
            lines = [ended, named(error), *where]
        case InfraError():
            lines = [named(error), *where, ended]
        case ProgramCrashed():
            lines = [text_of(error), *where]
        case VncUseError():
            lines = [text_of(error), *where, ended]
        case _:
            lines = [f"the {asked(error) or 'test'} raised {named(error)}", *where, ended]
    return cut(sanitize("\n".join(filter(None, lines)), hide), LONGEST_ERROR)


def lines_in(file: Path, error: BaseException) -> list[str]:
    """`at test_shop.py:12`: the line of a file that the error came through, if any; the innermost of several."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == file]
    return [f"at {file.name}:{frame.lineno}" for frame in frames[-1:]]


def sanitize(text: str, hide: Callable[[str], str]) -> str:
    """The text without secrets and control characters."""
    return "\n".join(map(plain, hide(text).splitlines()))
