"""What a session has around it, and what disturbs it: model, processes, disk, screens."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from support.chaos.disturbances import OF_ALL, Action, Done
from support.chaos.project import PROGRAM
from support.chaos.world import SMALL, Process, processes, with_tests
from support.wire import Wire

_BALLAST = SMALL / "ballast"
_WORKER = "import sys;exec(eval(sys.stdin.readline()))"
"""What execnet, below pytest-xdist, starts Python with."""
_NAMES = {"X server": "Xtigervnc", "window manager": "openbox", "supervisor": "vnc-supervisor"}
_SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


class Model:
    """The model's fake server, behind a link whose port stays when it is started again."""

    def __init__(self, broken: Path) -> None:
        self._command = [sys.executable, "-m", "support.chaos.model", str(broken)]
        self._link = Wire("")
        self.url = f"http://127.0.0.1:{self._link.port}"
        self._start()

    def restart(self) -> None:
        if self.process.poll() is not None:
            self._start()

    def _start(self) -> None:
        self.process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True, env=with_tests())
        assert self.process.stdout
        self._link.targets = [self.process.stdout.readline().strip()]


@dataclass
class Arena:
    """The things that a session may lose. `controller` is the id of its first process."""

    model: Model
    controller: int = 0
    due: list[tuple[float, Callable[[], object]]] = field(default_factory=list)

    def disturb(self, action: Action) -> Done | None:
        """Perform an action now, and note when it is undone. Return None if there was nothing to hit."""
        verb, _, what = action.kind.partition(" ")
        match action.kind:
            case "fill disk":
                self._later(action, partial(_BALLAST.unlink, missing_ok=True))
                return Done(action, _fill_disk(), None)
            case "kill model":
                self.model.process.kill()
                self.model.process.wait()
                self._later(action, self.model.restart)
                return Done(action, f"process {self.model.process.pid}", None)
        return self._hit_process(verb, what, action)

    def undo_due(self, *, all_of_them: bool = False) -> None:
        """Undo what is due by now."""
        now_s = time.monotonic()
        for entry in [entry for entry in self.due if all_of_them or entry[0] <= now_s]:
            self.due.remove(entry)
            entry[1]()

    def own(self) -> set[int]:
        """Return the processes that stay from session to session."""
        return {os.getpid(), self.model.process.pid}

    def _later(self, action: Action, undo: Callable[[], object]) -> None:
        if action.for_s is not None:
            self.due.append((time.monotonic() + action.for_s, undo))

    def _hit_process(self, verb: str, what: str, action: Action) -> Done | None:
        targets = [process for process in processes() if self._is(what, process)]
        if not targets:
            return None
        target = action.picked(targets)
        test = None if action.kind in OF_ALL else _test_of(target)
        _send(target.pid, _SIGNALS[verb])
        if verb == "stop":
            self._later(action, partial(_send, target.pid, signal.SIGCONT))
        return Done(action, f"{target.name} {target.pid}", test)

    def _is(self, what: str, process: Process) -> bool:
        match what:
            case "worker":
                return process.parent == self.controller and _WORKER in process.argv and _has_greeted(process)
            case "program":
                return _is_program(process)
        return process.name == _NAMES[what]


def _has_greeted(worker: Process) -> bool:
    """Return whether it has loaded a library; pytest-xdist ends with an error if a worker ends before it greets."""
    with suppress(OSError):
        return "site-packages" in Path(f"/proc/{worker.pid}/maps").read_text()
    return False


def _send(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _test_of(process: Process) -> int | None:
    """Return the number of the test on whose desktop a process is; None if no test's program is there now."""
    programs = [program for program in processes() if _is_program(program)]
    if process.name == "vnc-supervisor":
        found = [program for program in programs if program.parent == process.pid]
    elif _is_program(process):
        found = [process]
    else:
        home = process.environment().get("HOME", "")
        found = [program for program in programs if program.environment().get("HOME") == home]
    return int(found[0].argv[-2]) if found else None


def _is_program(process: Process) -> bool:
    return process.name in ("sh", "xterm") and str(PROGRAM) in process.argv


def _fill_disk() -> str:
    with _BALLAST.open("ab", buffering=0) as file:
        for size in (1 << 20, 1 << 12):
            with suppress(OSError):
                while True:
                    file.write(bytes(size))
        return f"{file.tell()} bytes written"
