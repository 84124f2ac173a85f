"""What is done to a session, and the twenty tests of one: ten are replayed, ten live,
and of both four have a program that is broken in a known way. Afterwards there is a
line for each thing that is wrong with the results.
"""

from __future__ import annotations

import json
import math
import os
import random
import shlex
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from chaos_world import SMALL, Process, files, processes

from support.gemini_server import API_KEY, GeminiServer, Request, calls, text
from support.json_server import Reply
from support.wire import Wire

EXPLAINS: dict[str, frozenset[str]] = {
    "kill program": frozenset({"product", "inconclusive"}),
    "stop program": frozenset({"product", "inconclusive", "agent", "budget", "infra"}),
    "kill X server": frozenset({"infra", "inconclusive"}),
    "kill window manager": frozenset({"infra"}),
    "kill worker": frozenset({"infra"}),
    "stop worker": frozenset({"infra", "budget", "inconclusive"}),
    "kill supervisor": frozenset({"infra", "product", "inconclusive"}),
    "stop supervisor": frozenset({"infra"}),
    "kill model": frozenset({"infra", "budget"}),
    "fill disk": frozenset({"infra"}),
}
"""Each disturbance, and what a test on a sound program may then be reported as, if it
did not pass.

Only the program's own end or standstill may read as `product`: nobody can tell those
from a crash.
"""
OF_ALL = frozenset({"kill model", "fill disk", "kill worker", "stop worker"})
"""Disturbances that any test of the session may notice; the others hit one desktop."""
_WEIGHTS = {
    "kill program": 3,
    "stop program": 2,
    "kill worker": 3,
    "kill X server": 2,
    "fill disk": 2,
}
"""How often a disturbance comes, against 1 for the others."""
_FOR_EVER = ("stop program", "stop supervisor")
"""What may be stopped for good. Against a stopped worker no test has a limit."""
_TAKES_S = 2.0
_LINGERS_S = 1.0
"""How long a disturbance may take until it is noted as done, and how long it is felt
after it was undone.
"""


@dataclass(frozen=True)
class Action:
    """A disturbance at a moment of a session; `pick`, from 0 to 1, chooses its target.
    Without `for_s` it lasts.
    """

    at_s: float
    kind: str
    pick: float
    for_s: float | None


def plan(seed: str, seconds: float, every_s: float) -> list[Action]:
    chance = random.Random(seed)
    actions = []
    kinds = list(EXPLAINS)
    at_s = chance.uniform(0.5, every_s)
    while at_s < seconds:
        kind = chance.choices(kinds, [_WEIGHTS.get(kind, 1) for kind in kinds])[0]
        for_s = round(chance.uniform(0.5, 8.0), 3)
        never = chance.random() < 0.3
        actions.append(
            Action(
                round(at_s, 3),
                kind,
                chance.random(),
                None if never and kind in _FOR_EVER else for_s,
            )
        )
        at_s += chance.uniform(0.3, 2 * every_s - 0.3)
    return actions


@dataclass(frozen=True)
class Done:
    """A disturbance that happened to `target`, at `done_s` on the monotonic clock.

    `test` is the test whose desktop was hit; None if it was one of all tests, or no
    test's program was there.
    """

    action: Action
    target: str
    test: int | None
    done_s: float = field(default_factory=time.monotonic)

    def touches(self, number: int, times: Sequence[tuple[float, float]]) -> bool:
        """Return whether a test that ran at these times, from and to, may have noticed
        it; none are known if empty.

        What hit a desktop without a program may show in the next test there.
        """
        if self.test is not None:
            return self.test == number
        from_s = self.done_s - _TAKES_S
        to_s = (
            self.done_s + (self.action.for_s or 0.0) + _LINGERS_S
            if self.action.kind in OF_ALL
            else math.inf
        )
        return not times or any(
            started_s <= to_s and from_s <= ended_s for started_s, ended_s in times
        )


def explained(
    done: Sequence[Done], number: int, times: Sequence[tuple[float, float]] = ()
) -> set[str]:
    hits = [hit for hit in done if hit.touches(number, times)]
    return {*chain.from_iterable(EXPLAINS[hit.action.kind] for hit in hits)}


PROGRAM = Path(__file__).with_name("chaos_order.sh")
FIRST = {"replayed": 1, "live": 11}
"""The numbers of tests, ten of each kind at most, begin here."""
BROKEN = {
    3: "total",
    5: "file",
    7: "effect",
    9: "shown",
    13: "total",
    15: "file",
    17: "effect",
    19: "shown",
}
"""The fault of each test whose program is broken; `shown` is seen by a claim or a gate
alone.
"""
CLAIMED = (11, 12, 19)
"""Live tests with a claim besides the body."""
INI = """[pytest]
addopts = -p no:cacheprovider -p no:pytest-vnc
vnc_max_seconds = 20
vnc_gate_seconds = 5
vnc_start_seconds = 15
vnc_lease_seconds = 40
vnc_request_seconds = 4
vnc_record = replay
"""
"""`vnc_record` on the command line would overrule the markers of live tests."""
LONGEST_TEST_S = 100.0
"""More than all limits together that one test may run into: lease, start, connection,
run, claims, end.
"""
TEST = """
import pytest

@pytest.mark.vnc_task("Order 20 apples for alice", app={app!r}, {record} expect={expect!r})
def test_{number:02}(vnc_desktop):
    assert vnc_desktop.read_file("total.txt").strip() == "{number:02}: alice pays 500"
"""
NOTES = """
import json, os, time

def note(test, word):
    if "PYTEST_XDIST_WORKER" in os.environ:
        with open("times.jsonl", "a") as file:
            file.write(json.dumps([test, word, time.monotonic()]) + "\\n")

def pytest_runtest_logstart(nodeid):
    note(nodeid, "started")

def pytest_runtest_logfinish(nodeid):
    note(nodeid, "ended")
"""
"""A conftest.py: each worker notes when a test starts and ends, by a clock that is
never moved.
"""
_OF_OTHERS = ("pytest-of-", "xterm")
"""What pytest keeps on purpose, and the scratch file of an xterm that was killed as it
started.
"""
_GONE_WITHIN_S = 25.0
"""How long what a session started may take to end after it: its supervisors end what
its workers left.
"""


@dataclass(frozen=True)
class Project:
    path: Path
    runs: Path
    broken: Path
    tests: int
    """How many of each kind."""

    @property
    def results(self) -> Path:
        return self.path / "results.json"

    @property
    def ids(self) -> dict[str, int]:
        """The number of each test by its id."""
        ids = {}
        for name in FIRST:
            for number in self._numbers(name):
                ids[f"test_{name}.py::test_{number:02}"] = number
        return ids

    def _numbers(self, name: str) -> range:
        return range(FIRST[name], FIRST[name] + self.tests)

    def forget(self) -> None:
        shutil.rmtree(self.runs, ignore_errors=True)
        for file in (self.results, self.path / "times.jsonl"):
            file.unlink(missing_ok=True)

    def times(self) -> dict[str, list[tuple[float, float]]]:
        """Return when each test ran, from and to; to infinity where its worker was
        killed in it.
        """
        found: dict[str, list[tuple[float, float]]] = {}
        path = self.path / "times.jsonl"
        for test, word, at_s in map(
            json.loads, path.read_text().splitlines() if path.exists() else ()
        ):
            times = found.setdefault(test, [])
            if word == "started":
                times.append((at_s, math.inf))
            else:
                times[-1] = times[-1][0], at_s
        return found

    def write(self) -> None:
        """Write the tests; the programs are not broken yet, so that recordings can be
        made.
        """
        self.path.mkdir()
        (self.path / "pytest.ini").write_text(INI)
        (self.path / "conftest.py").write_text(NOTES)
        for name in FIRST:
            (self.path / f"test_{name}.py").write_text(
                "".join(map(self._test, self._numbers(name)))
            )

    def break_programs(self) -> None:
        for number, fault in BROKEN.items():
            (self.broken / f"{number:02}").write_text(fault)

    def command(self, *options: str) -> list[str]:
        own = ["--vnc-planner=gemini", "--vnc-server=xvnc", "--vnc-screen-size=640x400"]
        own += [f"--vnc-runs-dir={self.runs}", f"--vnc-results={self.results}"]
        # on a slow machine more workers are killed than pytest-xdist replaces
        own += ["--max-worker-restart=1000"]
        return [sys.executable, "-m", "pytest", *own, *options]

    def _test(self, number: int) -> str:
        record = 'record="off",' if number >= FIRST["live"] else ""
        expect = f"order {number:02}: alice pays 500" if number in CLAIMED else None
        words = ["sh", str(PROGRAM), f"{number:02}", str(self.broken)]
        app = shlex.join(["xterm", "-geometry", "70x20+40+40", "-e", *words])
        return TEST.format(number=number, app=app, record=record, expect=expect)


def environment(model_url: str) -> dict[str, str]:
    own = {
        "GOOGLE_API_KEY": API_KEY,
        "GOOGLE_GEMINI_BASE_URL": model_url,
        "VNC_USE_WATCH": "false",
    }
    return {**own, "VNC_USE_REHEARSE": "0", "CI": "", "PYTHONUNBUFFERED": "1"}


def wrong_results(
    project: Project, code: int, done: Sequence[Done], came: Counter[str]
) -> Iterator[str]:
    """Yield what is wrong with the results: a test not listed once, passed or blamed
    wrongly, or too long; lost runs.

    Count in `came` how often each result and triage came.
    """
    try:
        tests: list[dict[str, Any]] = json.loads(project.results.read_text())["tests"]
    except (OSError, ValueError):
        yield f"no results; the session ended with {code}"
        return
    came.update(test["triage"] or test["result"] for test in tests)
    counts = Counter(test["test"] for test in tests)
    yield from (
        f"{each} is in the results {counts[each]} times"
        for each in sorted({*project.ids, *counts})
        if counts[each] != 1
    )
    times = project.times()
    for test in tests:
        if number := project.ids.get(test["test"]):
            yield from _wrong_test(test, number, done, times.get(test["test"], []))
    if code < 0 or any(test["result"] != "passed" for test in tests) != (code != 0):
        yield f"the session ended with {code}, and the results are {dict(came)}"
    runs = chain.from_iterable(test["runs"] for test in tests)
    named = Counter(Path(run["directory"]).name for run in runs)
    there = Counter(path.parent.name for path in project.runs.glob("*/trace.jsonl"))
    for each in sorted({*named, *there}):
        if named[each] != there[each]:
            yield (
                f"the run directory {each} is in {named[each]} results, and there"
                f" {there[each]} times"
            )


def _wrong_test(
    test: dict[str, Any],
    number: int,
    done: Sequence[Done],
    times: Sequence[tuple[float, float]],
) -> Iterator[str]:
    shown = (
        f"{test['test']}: {test['result']}, {test['triage']} ({test['rule']};"
        f" {test['message'][:200]})"
    )
    if number in BROKEN:
        if test["result"] == "passed":
            yield f"passed with a broken program: {shown}"
    elif test["result"] != "passed":
        allowed = explained(done, number, times)
        if test["triage"] not in allowed:
            yield f"nothing that was done explains more than {sorted(allowed)}: {shown}"
    attempts = 1 + len(test["retried_for"])
    stopped_s = sum(
        each.action.for_s or 0.0 for each in done if each.action.kind == "stop worker"
    )
    # No limit continues while a worker is stopped.
    if test["duration_s"] > LONGEST_TEST_S * attempts + stopped_s:
        yield f"took {test['duration_s']:.0f} s: {shown}"


def left_over(files_before: set[Path]) -> list[str]:
    """Return the processes and files that stay after a session; wait until they are
    gone, but not for ever.
    """
    until_s = time.monotonic() + _GONE_WITHIN_S
    while True:
        stay = [process for process in processes() if process.pid != os.getpid()]
        new = sorted(
            path
            for path in files() - files_before
            if not path.name.startswith(_OF_OTHERS)
        )
        if not (stay or new) or time.monotonic() > until_s:
            break
        time.sleep(0.1)  # what is left has no parent that could report its end
    return [
        *(
            f"process {process.pid} stays:"
            f" {' '.join(process.argv)[:150] or process.name}"
            for process in stay
        ),
        *(f"the file {path} stays" for path in new),
    ]


_BALLAST = SMALL / "ballast"
_WORKER = "import sys;exec(eval(sys.stdin.readline()))"
"""What execnet, below pytest-xdist, starts Python with."""
_NAMES = {
    "X server": "Xtigervnc",
    "window manager": "openbox",
    "supervisor": "vnc-supervisor",
}
_SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


_TURNS = (
    calls(("type", {"text": "alice", "press_enter": True}), words="The name."),
    calls(("type", {"text": "20", "press_enter": True}), words="The number."),
    text("Done: alice pays 500."),
)
_NOWHERE = "127.0.0.1:1"


class Model:
    """The model's fake server, behind a link that is cut and leads nowhere while the
    server counts as killed.
    """

    def __init__(self, broken: Path) -> None:
        self._broken = broken
        self._server = GeminiServer(self._answer, with_ids=False).__enter__()
        self._link = Wire(self._server.url)
        self.url = f"http://127.0.0.1:{self._link.port}"

    def kill(self) -> None:
        self._link.targets = [_NOWHERE]
        self._link.cut()

    def restart(self) -> None:
        self._link.targets = [self._server.url]

    def _answer(self, request: Request) -> Reply:
        """Return the next turn of the one task that it can do, or the answer of a judge
        who knows what is broken.
        """
        if request.computer_use:
            said = [content.get("role") for content in request.contents]
            return _TURNS[min(said.count("model"), 2)]
        number = json.dumps(request.body).partition("order ")[2][:2]
        verdict = "fails" if (self._broken / number).exists() else "holds"
        reason = "as it is written there"
        opinion = {"reason": reason, "verdict": verdict, "box_2d": None}
        return text(json.dumps(opinion))


@dataclass
class Arena:
    """The things that a session may lose. `controller` is the id of its first
    process.
    """

    model: Model
    controller: int = 0
    due: list[tuple[float, Callable[[], object]]] = field(default_factory=list)

    def disturb(self, action: Action) -> Done | None:
        """Perform an action now, and note when it is undone. Return None if there was
        nothing to hit.
        """
        verb, _, what = action.kind.partition(" ")
        if action.kind == "fill disk":
            self._later(action, partial(_BALLAST.unlink, missing_ok=True))
            return Done(action, _fill_disk(), None)
        if action.kind == "kill model":
            self.model.kill()
            self._later(action, self.model.restart)
            return Done(action, self.model.url, None)
        targets = [process for process in processes() if self._is(what, process)]
        if not targets:
            return None
        target = targets[int(action.pick * len(targets))]
        test = None if action.kind in OF_ALL else _test_of(target)
        _send(target.pid, _SIGNALS[verb])
        if verb == "stop":
            self._later(action, partial(_send, target.pid, signal.SIGCONT))
        return Done(action, f"{target.name} {target.pid}", test)

    def undo_due(self, *, all_of_them: bool = False) -> None:
        now_s = time.monotonic()
        for entry in [entry for entry in self.due if all_of_them or entry[0] <= now_s]:
            self.due.remove(entry)
            entry[1]()

    def _later(self, action: Action, undo: Callable[[], object]) -> None:
        if action.for_s is not None:
            self.due.append((time.monotonic() + action.for_s, undo))

    def _is(self, what: str, process: Process) -> bool:
        match what:
            case "worker":
                return (
                    process.parent == self.controller
                    and _WORKER in process.argv
                    and _has_greeted(process)
                )
            case "program":
                return _is_program(process)
        return process.name == _NAMES[what] and (
            what != "X server" or _has_display(process)
        )


def _has_greeted(worker: Process) -> bool:
    """Return whether it has loaded a library; pytest-xdist ends with an error if a
    worker ends before it greets.
    """
    with suppress(OSError):
        return "site-packages" in Path(f"/proc/{worker.pid}/maps").read_text()
    return False


def _has_display(server: Process) -> bool:
    """Return whether it has printed its display's number; before that nobody can know
    which files it leaves.
    """
    with suppress(OSError):
        locks = [
            lock
            for lock in Path("/tmp").glob(".X*-lock")
            if int(lock.read_text()) == server.pid
        ]
        return any(time.time() - lock.stat().st_mtime > _LINGERS_S for lock in locks)
    return False


def _send(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _test_of(process: Process) -> int | None:
    """Return the number of the test on whose desktop a process is; None if no test's
    program is there now.
    """
    programs = [program for program in processes() if _is_program(program)]
    if _is_program(process):
        found = [process]
    elif process.name == "vnc-supervisor":
        found = [program for program in programs if program.parent == process.pid]
    else:
        home = process.environment().get("HOME", "")
        found = [
            program for program in programs if program.environment().get("HOME") == home
        ]
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
