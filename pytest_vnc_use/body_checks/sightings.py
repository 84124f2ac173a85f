"""The looks of a test at things outside its own process, counted from audit events of Python and of this package.

A test can assert the planner's words in more ways than a code reader can know. But no assertion says anything about the
product if nothing of the product could reach the test. Something can reach it through a command, a connection, a look
at the desktop, or a file that changed since the task began and that the test did not write itself.

Python keeps an audit hook until its process ends. So there is only one hook. It does nothing while no test is followed.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pytest_vnc_use.types import LOOK

SLACK_NS = 50_000_000
"""The time stamp of a file may be this much earlier than the write: clocks of file systems tick."""
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_OF_THE_SYSTEM = ("/proc/", "/sys/", "/dev/")
_PACKAGE = f"{__name__.partition('.')[0]}."
_TEST_BEGINS = "_pytest.runner"


class Sighting(NamedTuple):
    """One look: its kind, the name of the call, and the file that was looked at, if there is one.

    The kinds are `desktop`, `file`, `process` and `connection`.
    """

    kind: str
    name: str
    file: str = ""


class Sightings:
    """The looks of the followed test, if there is one, in order."""

    def __init__(self) -> None:
        self.seen: list[Sighting] = []
        self.bases: set[str] = set()
        """The data bases of sqlite that the test opened."""
        self._follows = self._hears = False
        self._began_ns = 0
        self._written: set[str] = set()
        self._texts: dict[str, str] = {}

    def follow(self) -> None:
        """Begin to follow a test."""
        if not self._hears:
            sys.addaudithook(self._hear)
        self._follows = self._hears = True
        self._began_ns, self._written, self._texts = 0, set(), {}
        self.seen, self.bases = [], set()

    def begin_task(self) -> None:
        """Count a file as changed if it changes from now on; this has an effect only for the first task of the test."""
        self._began_ns = self._began_ns or time.time_ns() - SLACK_NS

    def rest(self) -> None:
        """Stop following the test."""
        self._follows = False

    def note_call(self, name: str, arguments: tuple[object, ...], answer: object) -> None:
        """Note a call of the test to its desktop that worked.

        The call is no look if the test reads back the text that it wrote itself.
        """
        file = str(arguments[0]) if arguments else ""
        if name == "write_file" and len(arguments) > 1:
            self._texts[file] = str(arguments[1])
        elif name != "read_file" or file not in self._texts or self._texts[file] != answer:
            sys.audit(LOOK, name, file)

    def has_written(self, path: str) -> bool:
        """Return whether the test itself wrote the file."""
        return os.path.realpath(path) in self._written

    def is_fresh(self, path: str) -> bool:
        """Return whether a file or folder changed or went away since the first task began, and not by this process."""
        path = os.path.realpath(path)
        if not os.path.lexists(path):  # it may have been removed
            path = os.path.dirname(path)
        if path.startswith(_OF_THE_SYSTEM) or path in self._written or not self._began_ns:
            return False
        try:
            changed_ns = os.stat(path).st_mtime_ns
        except OSError:
            return False
        return changed_ns >= self._began_ns and path not in map(os.path.dirname, self._written)

    # --- audit events ------------------------------------------------------------------------------------------------

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        read = _EVENTS.get(event)
        if read is None or not self._follows:
            return
        try:
            sighting = read(self, arguments)
            if event == "sqlite3.connect" and not _is_of_package():
                self.bases.add(os.fsdecode(arguments[0]))
            if sighting and (event == LOOK or not _is_of_package()):
                self.seen.append(sighting)
        except (TypeError, ValueError, OSError):  # the path is invalid; the caller gets the error itself
            return

    def _opens(self, arguments: tuple[Any, ...]) -> Sighting | None:
        path, mode, flags = arguments[0], arguments[1] or "", arguments[2] or 0
        if isinstance(path, int):
            return None
        if set(mode) & set("wax+") or flags & _WRITES:
            self._writes(path)
            return None
        return self._file("open", path)

    def _file(self, name: str, path: Any) -> Sighting | None:
        file = os.fsdecode(path)
        return Sighting("file", name, os.path.realpath(file)) if self.is_fresh(file) else None

    def _writes(self, path: Any) -> None:
        self._written.add(os.path.realpath(os.fsdecode(path)))

    def _lists(self, arguments: tuple[Any, ...]) -> Sighting | None:
        path = arguments[0] or "."
        return None if isinstance(path, int) else self._file("list", path)

    def _connects(self, arguments: tuple[Any, ...]) -> Sighting | None:
        file = os.fsdecode(arguments[0]).removeprefix("file:").partition("?")[0]
        return self._file("connect", file) if os.path.lexists(file) else None


def _command(_: Sightings, arguments: tuple[Any, ...]) -> Sighting:
    return Sighting("process", str(arguments[0]) if arguments else "")


_EVENTS: Mapping[str, Callable[[Sightings, tuple[Any, ...]], Sighting | None]] = {
    LOOK: lambda _, arguments: Sighting("desktop", *map(str, arguments)),
    "open": Sightings._opens,
    "os.listdir": Sightings._lists,
    "os.scandir": Sightings._lists,
    "os.mkdir": lambda self, arguments: self._writes(arguments[0]),
    "os.rename": lambda self, arguments: self._writes(arguments[1]),
    "sqlite3.connect": Sightings._connects,
    **dict.fromkeys(("subprocess.Popen", "os.system", "os.posix_spawn", "os.spawn"), _command),
    **dict.fromkeys(("socket.connect", "socket.sendto"), lambda *_: Sighting("connection", "")),
}
"""For each event, by name: a function of the event's arguments that returns the look that it is, if any.

Source of the names and arguments: docs.python.org/3/library/audit_events.html.
"""


def _is_of_package() -> bool:
    """Return whether this package caused the event, on any thread.

    What a run, a judge or a watchdog does is no look.
    """
    frame = sys._getframe(2)
    while frame is not None and (name := frame.f_globals.get("__name__", "")) != _TEST_BEGINS:
        if name.startswith(_PACKAGE):
            return True
        frame = frame.f_back  # type: ignore[assignment]  # None at the end
    return False


SIGHTINGS = Sightings()
