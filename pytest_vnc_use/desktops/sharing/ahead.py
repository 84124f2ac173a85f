"""A desktop that is started with its program for the next test, while the test before it ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pytest_vnc_use.desktops.processes.session import seen_from_here
from pytest_vnc_use.errors import DesktopError

if TYPE_CHECKING:
    from pytest_vnc_use.desktops.kinds.qt import QtDesktop
    from pytest_vnc_use.desktops.kinds.xvnc import XvncDesktop

_LOOK_AGAIN_S = 0.05


class StartedAhead:
    """A desktop that `start` makes in a thread of its own, and in which `command` is launched if it has words.

    Relative paths in the words start from the current folder of this process. `take` gives the desktop to the caller
    and `drop` ends it. It also ends with this process, however that dies.
    """

    def __init__(self, start: Callable[[], QtDesktop | XvncDesktop], command: Sequence[str]) -> None:
        self._start = start
        self._command = [seen_from_here(word) for word in command]
        self._desktop: QtDesktop | XvncDesktop | None = None
        self._error: BaseException | None = None
        self._unwanted = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="vnc-use ahead")
        self._thread.start()

    def _run(self) -> None:
        try:
            self._desktop = self._start()
            if self._command and not self._unwanted.is_set():
                self._desktop.launch(self._command)
        except BaseException as error:  # noqa: BLE001  # `take` raises it in its caller's thread
            self._error = error

    def take(self) -> QtDesktop | XvncDesktop:
        """Return the desktop once its program shows; the caller then must stop it.

        Raises the errors of starting and launching it. Raises DesktopError if it, or the program, has ended meanwhile;
        then the caller must still drop it.
        """
        self._thread.join()
        if self._error:
            raise self._error
        assert self._desktop is not None
        if ended := self._desktop.fault() or self._desktop.program_fault():
            raise DesktopError(ended)
        return self._desktop

    def drop(self) -> None:
        """End everything, whether it has come up or not. Raises DesktopError if that fails."""
        self._unwanted.set()
        while self._thread.is_alive():
            self._thread.join(_LOOK_AGAIN_S)
            if self._thread.is_alive() and self._desktop:
                self._desktop.end_program()  # its launch then fails at once
        if self._desktop:
            self._desktop.stop()
