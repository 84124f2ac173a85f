"""A pool of desktops that are started here and reused from test to test, limited for this user on this machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Protocol

from pytest_vnc_use.desktops.kinds.local import check_linux
from pytest_vnc_use.desktops.processes import cleanup
from pytest_vnc_use.desktops.processes.session import PREFIX
from pytest_vnc_use.desktops.sharing import leases
from pytest_vnc_use.errors import DesktopError, DesktopRefused, SettingsError
from pytest_vnc_use.types.protocols import Desktop, Ran

_MEMORY_MB = 45
"""The proportional set size of a desktop with xterm.

TigerVNC at 1440x900 takes 27 to 30 MB; openbox, xterm and sitter take 5 MB each.
"""
_PROCESSES = 4
"""The processes of one desktop: X server, window manager, guard, the sitter of its program."""


class Startable(Desktop, Protocol):
    """A desktop that can be kept for the next test."""

    @property
    def alive(self) -> bool:
        """Return whether all processes of the desktop itself still run."""

    def program_hangs(self) -> bool:
        """Return whether the program under test runs but does not answer; False if that is not known."""


Start = Callable[[Path], Startable]
"""A function that starts a desktop without a program, its private folder in the given one. Raises DesktopError."""


class ManagedDesktops:
    """A pool of at most `count` desktops that `start` makes, for all processes of this user with the same `folder`.

    There are `count` slots, each a lock that dies with its process. The holder of a slot has its own desktop there as
    long as it likes. A desktop that is given back is reset and kept warm for the next test of the same process. Another
    process that gets the slot ends that desktop and starts its own. So nobody waits for an unused desktop.

    Raises SettingsError for an invalid count, DesktopError if this is not Linux.
    """

    def __init__(self, count: int, start: Start, folder: Path | None = None) -> None:
        check_linux("xvnc", "because TigerVNC's X server is made for it")
        _check_count(count)
        self._slots = [f"managed {number}" for number in range(1, count + 1)]
        self._start = start
        self._folder = folder or leases.folder_of_user()
        self._warm: dict[str, Startable] = {}

    def lease(self, holder: str, *, timeout_s: float) -> ManagedDesktop:
        """Lease a desktop that is as at its start, until its `stop()` or the death of this process.

        Others see `holder` as the name of the user. Raises DesktopRefused that names each holder if no slot becomes
        free within `timeout_s`; else raises as `start` does.
        """
        slots = sorted(self._slots, key=self._reluctance)
        held = leases.lease(slots, holder, timeout_s=timeout_s, folder=self._folder)
        try:
            desktop = self._desktop_in(held.server)
        except BaseException:  # on any error, and on Ctrl-C: the slot is free again
            held.release()
            raise
        return ManagedDesktop(desktop, partial(self._take_back, held))

    def close(self) -> None:
        """End the desktops that are kept warm; leased desktops stay."""
        while self._warm:
            self._warm.popitem()[1].stop()
        for slot in self._slots:
            if self._place(slot).exists():
                self._leave(slot)

    def _leave(self, slot: str) -> None:
        """Remove the folder of a slot, unless somebody has a desktop there."""
        with suppress(DesktopRefused):
            held = leases.lease([slot], "the end of a session", timeout_s=0, folder=self._folder)
            with suppress(OSError):  # another process keeps its warm desktop there
                self._place(slot).rmdir()
            held.release()

    def _reluctance(self, slot: str) -> int:
        """Return the rank of a slot: own warm desktops first, then empty slots, then those of others."""
        if slot in self._warm:
            return 0
        return 2 if any(_desktops_in(self._place(slot))) else 1

    def _place(self, slot: str) -> Path:
        return self._folder / slot.replace(" ", "-")

    def _desktop_in(self, slot: str) -> Startable:
        """Return this process's own desktop, warm or new; end an unused desktop of another process in the slot."""
        warm = self._warm.pop(slot, None)
        if warm and warm.alive:
            return warm
        if warm:
            warm.stop()
        place = self._place(slot)
        for left in _desktops_in(place):
            cleanup.clean(left)
        place.mkdir(mode=0o700, exist_ok=True)
        return self._start(place)

    def _take_back(self, held: leases.Lease, desktop: Startable) -> None:
        try:
            desktop.reset()
            self._warm[held.server] = desktop
        except (
            DesktopError
        ):  # it died, or the test left a change that cannot be undone: the next test gets another desktop
            desktop.stop()
        finally:
            held.release()


class ManagedDesktop:
    """A desktop that nobody else uses until it is stopped; then it is given back and reset."""

    def __init__(self, desktop: Startable, give_back: Callable[[Startable], None]) -> None:
        self._desktop: Startable = desktop
        self._give_back = give_back
        self._last: tuple[str, str, Mapping[str, str]] | None = None

    @property
    def server(self) -> str:
        """Return the address of its VNC server."""
        return self._used.server

    @property
    def password(self) -> str | None:
        """Return the password that its VNC server asks for."""
        return self._used.password

    def read_file(self, name: str) -> str:
        """Return the text of a file in the program's working folder. Raises FileNotFoundError, DesktopError."""
        return self._used.read_file(name)

    def write_file(self, name: str, text: str) -> None:
        """Write a text file, relative to the program's working folder. Raises DesktopError."""
        self._used.write_file(name, text)

    def run(self, command: Sequence[str], *, timeout_s: float = 60.0) -> Ran:
        """Run a command in the program's working folder, until it ends. Raises DesktopError."""
        return self._used.run(command, timeout_s=timeout_s)

    def launch(self, command: Sequence[str]) -> None:
        """Start the program under test and wait until it shows. Raises DesktopError."""
        self._used.launch(command)

    def program_fault(self) -> str:
        """Return how the program under test ended, and its last output; "" while it runs.

        Once the desktop is given back, the answer stays as it was.
        """
        return self._last[0] if self._last else self._desktop.program_fault()

    def program_hangs(self) -> bool:
        """Return whether the program under test runs but does not answer; False if that is not known."""
        return not self._last and self._desktop.program_hangs()

    def fault(self) -> str:
        """Return how the desktop itself ended; "" while it is there.

        Once the desktop is given back, the answer stays as it was.
        """
        return self._last[1] if self._last else self._desktop.fault()

    def logs(self) -> Mapping[str, str]:
        """Return the output of each process, by its role.

        Once the desktop is given back, the answer stays as it was.
        """
        return self._last[2] if self._last else self._desktop.logs()

    def reset(self) -> None:
        """Reset the desktop to its start. Raises DesktopError."""
        self._used.reset()

    def stop(self) -> None:
        """Give the desktop back; a second call does nothing."""
        if self._last is None:
            self._last = self.program_fault(), self.fault(), self.logs()
            self._give_back(self._desktop)

    @property
    def _used(self) -> Startable:
        if self._last:
            raise DesktopError(
                "the desktop was already returned to the pool, and another test may use it. Use it before stop()"
            )
        return self._desktop


def _desktops_in(place: Path) -> list[Path]:
    return list(place.glob(f"{PREFIX}*"))


def _check_count(count: int) -> None:
    if count < 1:
        raise SettingsError(f"the number of desktops must be at least 1, got {count!r}")
    for limit, what in _limits():
        if count > limit:
            raise SettingsError(f"the number of desktops must be at most {limit}, because {what}, got {count!r}")


def _limits() -> list[tuple[int, str]]:
    """Return the most desktops that each limit of this machine allows, with the reason."""
    import resource  # Windows has none, and no desktops of its own

    memory_mb = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20
    processes = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    limits = [(memory_mb // _MEMORY_MB, f"this machine has no memory for more ({memory_mb} MB, {_MEMORY_MB} MB each)")]
    if processes != resource.RLIM_INFINITY:
        limits.append((processes // _PROCESSES, f"ulimit -u allows this user no more processes ({_PROCESSES} each)"))
    return limits
