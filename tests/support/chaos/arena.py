"""What a session has around it, and the hands that disturb it: model, given desktops, processes, disk."""

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

from support.chaos.disturbances import EXPLAINS, OF_ALL, OF_GIVEN, OF_STARTED, Action, Done
from support.chaos.project import PROGRAM
from support.chaos.world import SMALL, Process, processes, with_tests
from support.vnc_servers import wait_for
from support.wire import Wire

_DISPLAYS = (41, 42, 43, 44)
_BALLAST = SMALL / "ballast"
_WORKER = "import sys;exec(eval(sys.stdin.readline()))"
"""What execnet, below pytest-xdist, starts Python with."""
_SIZES = ("800x600", "1024x768", "320x240")
_NAMES = {"X server": "Xtigervnc", "window manager": "openbox", "supervisor": "vnc-supervisor"}
SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


class Model:
    """The model's fake server, behind a link whose port stays when it is started again."""

    def __init__(self, broken: Path) -> None:
        self._broken = broken
        self.link = Wire("")
        self.process = self._start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.link.port}"

    def restart(self) -> None:
        if self.process.poll() is not None:
            self.process = self._start()

    def _start(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "support.chaos.model", str(self._broken)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=with_tests())
        assert process.stdout
        self.link.targets = [process.stdout.readline().strip()]
        return process


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
        self.close()
        server = ["Xtigervnc", f":{self._display}", "-geometry", "640x400", "-SecurityTypes", "None", "-localhost"]
        self.processes = [self._start(*server, "-rfbport", str(5900 + self._display), "-noreset")]
        wait_for(Path(f"/tmp/.X11-unix/X{self._display}").exists, "the start of Xtigervnc")
        self.processes.append(self._start("openbox", "--sm-disable"))

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()

    def _start(self, *command: str) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "DISPLAY": f":{self._display}", "HOME": "/tmp/homes"}
        Path("/tmp/homes").mkdir(exist_ok=True)
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return subprocess.Popen(command, env=environment, start_new_session=True, **quiet)  # type: ignore[call-overload,no-any-return]


def given_desktops() -> tuple[list[GivenDesktop], tuple[str, ...]]:
    """Return four given desktops, and the options that lead there."""
    way = Path("/tmp/there")
    directory = '/tmp/homes/"$port"'
    way.write_text(
        f"#!/bin/sh\nport=$1; shift; mkdir -p {directory}; cd {directory} || exit 1\n"
        'export DISPLAY=":$((port - 6900))"\nexec "$@"\n'
    )
    way.chmod(0o755)
    desktops = [GivenDesktop(display) for display in _DISPLAYS]
    return desktops, (f"--vnc-server={','.join(each.link.address for each in desktops)}", f"--vnc-exec={way} {{port}}")


@dataclass
class Arena:
    """The things that a session may lose. `controller` is the id of its first process."""

    model: Model
    given: list[GivenDesktop]
    controller: int = 0
    is_given: bool = False
    due: list[tuple[float, Callable[[], object]]] = field(default_factory=list)

    def kinds(self, *, given: bool) -> list[str]:
        """Return the disturbances that there are here, for given or started desktops."""
        missing = OF_STARTED | {"resize screen"} if given else OF_GIVEN
        return [kind for kind in EXPLAINS if kind not in missing]

    def disturb(self, action: Action) -> Done | None:
        """Perform an action now, and note when it is undone. Return None if there was nothing to hit."""
        verb, _, what = action.kind.partition(" ")
        undo: Callable[[], object]
        match action.kind:
            case "fill disk":
                target, undo = _fill_disk(), partial(_BALLAST.unlink, missing_ok=True)
            case "kill model" | "stop model":
                target, undo = self._hit_model(verb)
            case "cut link" | "stall link" | "delay link":
                return self._hit_link(verb, action)
            case "resize screen":
                return self._resize(action)
            case _:
                return self._hit_process(verb, what, action)
        self._later(action, undo)
        return Done(action, target, None)

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

    def of_given(self) -> set[int]:
        """Return the processes of the given desktops; openbox starts some of its own."""
        return {process.pid for desktop in self.given for process in desktop.processes}

    def _later(self, action: Action, undo: Callable[[], object]) -> None:
        if action.for_s is not None:
            self.due.append((time.monotonic() + action.for_s, undo))

    def _hit_model(self, verb: str) -> tuple[str, Callable[[], None]]:
        process = self.model.process
        process.send_signal(SIGNALS[verb])
        if verb == "stop":
            return f"process {process.pid}", partial(process.send_signal, signal.SIGCONT)
        process.wait()
        return f"process {process.pid}", self.model.restart

    def _hit_link(self, verb: str, action: Action) -> Done:
        link = action.picked(self.given).link
        if verb == "cut":
            link.cut()
        elif verb == "stall":
            link.stall()
        else:
            link.delay_s = 0.2
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
        _send(target.pid, SIGNALS[verb])
        if verb == "stop":
            self._later(action, partial(_send, target.pid, signal.SIGCONT))
        elif self.is_given and what in ("X server", "window manager"):
            restarts = [each for each in self.given if target.pid in [process.pid for process in each.processes]]
            self._later(action, lambda: list(map(GivenDesktop.restart, restarts)))
        return Done(action, f"{target.name} {target.pid}", test)

    def _targets(self, what: str) -> list[Process]:
        found = [each for each in processes() if self.is_given or each.pid not in self.of_given()]
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
    own = process.environment()
    if process.name == "vnc-supervisor":
        children = [each for each in processes() if each.parent == process.pid and _is_program(each)]
        return int(children[0].argv[-2]) if children else None
    mark = "HOME" if "/vnc-use-" in own.get("HOME", "") else "DISPLAY" if "DISPLAY" in own else ""
    if process.name == "Xtigervnc" and not mark:
        return _test_at("DISPLAY", process.argv[1])
    return _test_at(mark, own.get(mark, "")) if mark else None


def _is_program(process: Process) -> bool:
    return str(PROGRAM) in process.argv and process.name in ("sh", "xterm")


def _test_at(name: str, value: str) -> int | None:
    programs = [each for each in processes() if _is_program(each)]
    return next((int(each.argv[-2]) for each in programs if each.environment().get(name) == value), None)


def _fill_disk() -> str:
    """Fill the small disk until the system states that it is full."""
    with _BALLAST.open("ab", buffering=0) as file:
        for size in (1 << 20, 1 << 12):
            with suppress(OSError):
                while True:
                    file.write(bytes(size))
        return f"{file.tell()} bytes written"
