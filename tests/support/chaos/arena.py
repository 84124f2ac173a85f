"""What a session has around it, and what disturbs it: model, given desktops, processes, disk."""

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

from support.chaos.disturbances import EXPLAINS, OF_ALL, ONLY_GIVEN, ONLY_STARTED, Action, Done
from support.chaos.project import PROGRAM
from support.chaos.world import SMALL, Process, processes, with_tests
from support.vnc_servers import wait_for
from support.wire import Wire

_BALLAST = SMALL / "ballast"
_WORKER = "import sys;exec(eval(sys.stdin.readline()))"
"""What execnet, below pytest-xdist, starts Python with."""
_SIZES = ("800x600", "1024x768", "320x240")
_NAMES = {"X server": "Xtigervnc", "window manager": "openbox", "supervisor": "vnc-supervisor"}
_SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}
_HOMES = Path("/tmp/homes")


class Model:
    """The model's fake server, behind a link whose port stays when it is started again."""

    def __init__(self, broken: Path) -> None:
        self._command = [sys.executable, "-m", "support.chaos.model", str(broken)]
        self.link = Wire("")
        self.url = f"http://127.0.0.1:{self.link.port}"
        self._start()

    def restart(self) -> None:
        if self.process.poll() is not None:
            self._start()

    def _start(self) -> None:
        self.process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True, env=with_tests())
        assert self.process.stdout
        self.link.targets = [self.process.stdout.readline().strip()]


class GivenDesktop:
    """A desktop that the sessions do not start: an X server with VNC on a port, a window manager, and a link to it."""

    def __init__(self, display: int) -> None:
        self._display = display
        self.link = Wire(f"127.0.0.1::{5900 + display}", 6900 + display)
        self.processes: list[subprocess.Popen[bytes]] = []
        self.restart()

    def restart(self) -> None:
        """Start both again, if one of them has ended."""
        if self.processes and all(process.poll() is None for process in self.processes):
            return
        for process in self.processes:
            process.kill()
            process.wait()
        server = ["Xtigervnc", f":{self._display}", "-geometry", "640x400", "-SecurityTypes", "None", "-localhost"]
        self.processes = [self._start(*server, "-rfbport", str(5900 + self._display), "-noreset")]
        wait_for(Path(f"/tmp/.X11-unix/X{self._display}").exists, "the start of Xtigervnc")
        self.processes.append(self._start("openbox", "--sm-disable"))

    def _start(self, *command: str) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "DISPLAY": f":{self._display}", "HOME": str(_HOMES)}
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return subprocess.Popen(command, env=environment, start_new_session=True, **quiet)  # type: ignore[call-overload,no-any-return]


def given_desktops() -> tuple[list[GivenDesktop], tuple[str, ...]]:
    """Return four given desktops, and the options that lead there."""
    way = Path("/tmp/there")
    way.write_text(
        f'#!/bin/sh\nport=$1; shift; mkdir -p {_HOMES}/"$port"; cd {_HOMES}/"$port" || exit 1\n'
        'export DISPLAY=":$((port - 6900))"\nexec "$@"\n'
    )
    way.chmod(0o755)
    _HOMES.mkdir()
    desktops = [GivenDesktop(display) for display in range(41, 45)]
    return desktops, (f"--vnc-server={','.join(each.link.address for each in desktops)}", f"--vnc-exec={way} {{port}}")


@dataclass
class Arena:
    """The things that a session may lose. `controller` is the id of its first process."""

    model: Model
    given: list[GivenDesktop]
    controller: int = 0
    is_external: bool = False
    due: list[tuple[float, Callable[[], object]]] = field(default_factory=list)

    def kinds(self, *, given: bool) -> list[str]:
        """Return the disturbances that there are here, for given or started desktops."""
        return [kind for kind in EXPLAINS if kind not in (ONLY_STARTED if given else ONLY_GIVEN)]

    def disturb(self, action: Action) -> Done | None:
        """Perform an action now, and note when it is undone. Return None if there was nothing to hit."""
        verb, _, what = action.kind.partition(" ")
        match action.kind:
            case "fill disk":
                self._later(action, partial(_BALLAST.unlink, missing_ok=True))
                return Done(action, _fill_disk(), None)
            case "kill model" | "stop model":
                return self._hit_model(action)
            case "cut link" | "stall link" | "delay link":
                return self._hit_link(verb, action)
            case "resize screen":
                return self._resize(action)
        return self._hit_process(verb, what, action)

    def undo_due(self, *, all_of_them: bool = False) -> None:
        """Undo what is due by now, and start again what was killed."""
        now_s = time.monotonic()
        for entry in [each for each in self.due if all_of_them or each[0] <= now_s]:
            self.due.remove(entry)
            entry[1]()
        if all_of_them:
            for desktop in self.given:
                for process in desktop.processes:
                    process.send_signal(signal.SIGCONT)
                desktop.restart()
            self.model.restart()

    def own(self) -> set[int]:
        """Return the processes that stay from session to session; openbox starts some of its own."""
        return {os.getpid(), self.model.process.pid, *self._of_given()}

    def _of_given(self) -> set[int]:
        return {process.pid for desktop in self.given for process in desktop.processes}

    def _later(self, action: Action, undo: Callable[[], object]) -> None:
        if action.for_s is not None:
            self.due.append((time.monotonic() + action.for_s, undo))

    def _hit_model(self, action: Action) -> Done:
        process = self.model.process
        if action.kind == "stop model":
            process.send_signal(signal.SIGSTOP)
            self._later(action, partial(process.send_signal, signal.SIGCONT))
        else:
            process.kill()
            process.wait()
            self._later(action, self.model.restart)
        return Done(action, f"process {process.pid}", None)

    def _hit_link(self, verb: str, action: Action) -> Done:
        link = action.picked(self.given).link
        if verb == "delay":
            link.delay_s = 0.2
        else:
            {"cut": link.cut, "stall": link.stall}[verb]()
        self._later(action, link.flow)
        return Done(action, link.address, _test_at("DISPLAY", f":{link.port - 6900}"))

    def _resize(self, action: Action) -> Done | None:
        programs = [process for process in processes() if process.name == "xterm"]
        if not programs:
            return None
        program, size = action.picked(programs), _SIZES[int(action.pick * 1000) % len(_SIZES)]
        with suppress(subprocess.TimeoutExpired):  # The X server is stopped.
            subprocess.run(["xrandr", "-s", size], env=program.environment(), capture_output=True, timeout=2)
        return Done(action, f"{size} at {program.pid}", _test_of(program))

    def _hit_process(self, verb: str, what: str, action: Action) -> Done | None:
        targets = self._targets(what)
        if not targets:
            return None
        target = action.picked(targets)
        test = None if action.kind in OF_ALL else _test_of(target)
        _send(target.pid, _SIGNALS[verb])
        if verb == "stop":
            self._later(action, partial(_send, target.pid, signal.SIGCONT))
        elif self.is_external and what in ("X server", "window manager"):
            hit = [each for each in self.given if target.pid in [process.pid for process in each.processes]]
            self._later(action, lambda: list(map(GivenDesktop.restart, hit)))
        return Done(action, f"{target.name} {target.pid}", test)

    def _targets(self, what: str) -> list[Process]:
        found = [each for each in processes() if self.is_external or each.pid not in self._of_given()]
        if what == "worker":
            return [each for each in found if each.parent == self.controller and _WORKER in each.argv]
        if what == "program":
            return [each for each in found if _is_program(each)]
        return [each for each in found if each.name == _NAMES[what]]


def _send(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _test_of(process: Process) -> int | None:
    """Return the number of the test on whose desktop a process is; None if no test's program is there now."""
    if _is_program(process):
        return int(process.argv[-2])
    if process.name == "vnc-supervisor":
        children = [each for each in processes() if each.parent == process.pid and _is_program(each)]
        return int(children[0].argv[-2]) if children else None
    own = process.environment()
    mark = "HOME" if "/vnc-use-" in own.get("HOME", "") else "DISPLAY"
    if process.name == "Xtigervnc" and mark not in own:
        return _test_at(mark, process.argv[1])
    return _test_at(mark, own[mark]) if mark in own else None


def _is_program(process: Process) -> bool:
    return process.name in ("sh", "xterm") and str(PROGRAM) in process.argv


def _test_at(name: str, value: str) -> int | None:
    programs = [each for each in processes() if _is_program(each)]
    return next((int(each.argv[-2]) for each in programs if each.environment().get(name) == value), None)


def _fill_disk() -> str:
    with _BALLAST.open("ab", buffering=0) as file:
        for size in (1 << 20, 1 << 12):
            with suppress(OSError):
                while True:
                    file.write(bytes(size))
        return f"{file.tell()} bytes written"
