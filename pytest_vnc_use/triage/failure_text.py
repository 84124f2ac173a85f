"""The text for a person about a test that failed by an error of this package: a few lines, and no traceback."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.errors import (
    ConnectionLost,
    DesktopRefused,
    DesktopSilent,
    InfraError,
    ProgramCrashed,
    ScreenBlank,
    ScreenFrozen,
    VncUseError,
)
from pytest_vnc_use.errors.faults import asked, named, text_of
from pytest_vnc_use.plain_text import cut
from pytest_vnc_use.runs.transcript import plain
from pytest_vnc_use.types.protocols import Desktop

LONGEST_ERROR = 20_000
"""The most characters that are shown of an error with the last output of a program."""
_REAPED_WITHIN_S = 1.0
"""How long after its connection closed the end of a program is noticed, at most."""

_OF_ITSELF = {getattr(signal, f"SIG{name}", None) for name in ("ILL", "TRAP", "ABRT", "BUS", "FPE", "SEGV", "SYS")}
"""Signals by which a program ends through its own fault."""
_EXIT = re.compile(r"exited with (-?\d+)(?: \((\w+)\))?")


@dataclass(frozen=True)
class Fault:
    """The end of something that a test needs, with its last output; false if nothing ended."""

    text: str = ""
    of_program: bool = False
    """True if the program under test ended; false if the desktop under it did, whose end is `infra`."""
    hangs: bool = False
    """True if the program has not ended, but does not answer."""

    def __bool__(self) -> bool:
        return bool(self.text)

    @property
    def broke(self) -> bool:
        """Return whether the program under test hangs, or ended by a signal or with an exit code that is not 0."""
        code = _EXIT.search(self.text.partition("\n")[0])
        return self.of_program and not (code and code[1] == "0")

    def __str__(self) -> str:
        if self.hangs:
            return f"the program under test hangs: {self.text}"
        return format_program_end(self.text) if self.of_program else f"the desktop: {self.text}"


def format_program_end(program_fault: str, when: str = "") -> str:
    """Return a program's fault after its signal or exit code: the fault itself begins with the command."""
    code = _EXIT.search(program_fault.partition("\n")[0])
    how = f" with {code[2] or f'exit code {code[1]}'}" if code else ""
    return f"the program ended{how}{when}: {program_fault}"


NO_FAULT = Fault()


def fault_of(desktop: Desktop, error: BaseException | None = None) -> Fault:
    """Return the fault of the desktop or its program; after a ConnectionLost, wait for one that may explain it."""
    deadline = Deadline(_REAPED_WITHIN_S if isinstance(error, ConnectionLost) else 0.0)
    stands_still = isinstance(error, (ScreenBlank, ScreenFrozen, DesktopSilent))
    while not (fault := _fault_now(desktop, stands_still=stands_still)) and deadline.remaining_s:
        time.sleep(0.02)  # the port has no event to wait for
    if fault.of_program and isinstance(error, ConnectionLost) and getattr(desktop, "outlives_program", False):
        return Fault(f"its connection was lost, and the program ended: {fault.text}")
    return fault


def _fault_now(desktop: Desktop, *, stands_still: bool) -> Fault:
    # a user's own vnc_desktop may lack these methods
    try:
        if ended := getattr(desktop, "program_fault", str)():
            return Fault(ended, of_program=True)
        fault = Fault(getattr(desktop, "fault", str)())
        if not fault and stands_still and getattr(desktop, "program_hangs", bool)():
            return Fault("it runs, and answers nothing", of_program=True, hangs=True)
        return fault
    except Exception as exc:  # noqa: BLE001  # a user's own may raise anything; this only explains another failure
        return Fault(f"its state is unknown: {type(exc).__name__}: {exc}")


def crash_of(desktop: Desktop, *, of_itself: bool = False) -> str:
    """Return the fault of the program under test if a signal ended it; "" while it runs, or if it ended on its own.

    With `of_itself`, only signals count that a program causes by its own fault. For signal n, a shell reports exit code
    128 + n.
    """
    fault = str(getattr(desktop, "program_fault", str)())
    code = _EXIT.search(fault.partition("\n")[0])
    number = -int(code[1]) if code else 0
    number = number if number > 0 else -number - 128
    return fault if (number in _OF_ITSELF if of_itself else 0 < number < 32) else ""


def format_failure(error: BaseException, fault: Fault, places: Sequence[str], hide: Callable[[str], str]) -> str:
    """Return the error, its places and the `fault`; of error and fault the cause comes first."""
    if isinstance(error, VncUseError):
        headline = named(error) if isinstance(error, InfraError) else text_of(error)
    else:
        headline = f"the {asked(error) or 'test'} raised {named(error)}"
    lines = [headline, *(f"  {place}" for place in places)]
    if not isinstance(error, ProgramCrashed):  # it has its program's end
        is_lost = isinstance(error, (ConnectionLost, DesktopRefused))
        is_cause = is_lost or (fault.broke and (fault.hangs or not isinstance(error, InfraError)))
        end, _, output = (str(fault) if fault else "").partition("\n")
        lines = [end, *lines, output] if is_cause else [*lines, end, output]
    return cut(sanitize("\n".join(filter(None, lines)), hide), LONGEST_ERROR)


def sanitize(text: str, hide: Callable[[str], str]) -> str:
    """Return the text without secrets and control characters."""
    return hide("\n".join(map(plain, hide(text).splitlines())))  # again, as control characters may have split one
