"""Twenty tests on four desktops while desktops, programs, workers and the model are disturbed. Run as a script:

    python tests/bench/run.py chaos [--minutes 30] [--seed 1] [--every 3]

It takes sessions of `-n 4` one after the other, ten tests replayed and ten live against a model's fake server, on
desktops that the sessions start and on given ones behind a proxy. Eight programs are broken in a known way. All of it
is done in namespaces of its own, which end with it. What the seed does, and when, is printed. Exit
code 1 says that something did not hold: a hang, a pass of a broken program, a triage that nothing explains, a test told
twice or not at all, a lost run directory, something left behind, or memory that grows.

Needs `unshare` and `ip`, and either root or user namespaces.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from support.chaos import checks, world
from support.chaos.arena import Arena, Model, given_desktops
from support.chaos.disturbances import Action, Done, plan
from support.chaos.project import Project, environment

SESSION_S = 300.0
_TICK_S = 0.05
_MOST_GROWTH_MB = 12.0
"""How much more memory a controller may have at the end of a session than at its tenth test."""
STARTED = ("--vnc-server=xvnc",)
WAYS: tuple[tuple[str, ...], ...] = ((), ("--reruns=1",), ("--vnc-repeat=1", "--dist=worksteal"))


@dataclass
class Report:
    """What came of all sessions."""

    wrong: list[str] = field(default_factory=list)
    came: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    peaks_mb: list[float] = field(default_factory=list)
    sessions: int = 0

    def complain(self, lines: list[str]) -> None:
        for line in lines:
            say(f"WRONG in session {self.sessions}: {line}")
        self.wrong += lines


def say(line: str) -> None:
    print(line, flush=True)


def main() -> int:
    given = _arguments()
    if given.inside:
        return inside(given)
    if reason := world.why_not():
        print(f"no namespaces of its own can be made here: {reason}")
        return 2
    longest_s = given.minutes * 60 + 2 * SESSION_S
    command = [sys.executable, __file__, "--inside", *sys.argv[1:]]
    with subprocess.Popen(world.inside_command(command)) as process:
        try:
            return process.wait(longest_s)
        except BaseException as exc:  # its time is over, or Ctrl-C: all ends with the first process of its world
            process.kill()
            if not isinstance(exc, subprocess.TimeoutExpired):
                raise
            print(f"it did not end within {longest_s:.0f} s, and was killed")
            return 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        allow_abbrev=False, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=30.0, help="no session starts later")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--every", type=float, default=3.0, help="seconds between two disturbances, on average")
    parser.add_argument("--sessions", type=int, default=0, help="at most so many (0: as time allows)")
    parser.add_argument("--only", choices=("started", "given"), help="only desktops that are started here, or given")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def inside(given: argparse.Namespace) -> int:
    """Perform all sessions, as the first process of this world."""
    report = Report()
    say(f"seed {given.seed}, a disturbance each {given.every:g} s")
    world.settle_in()
    desktops, way_there = given_desktops()
    broken = Path("/tmp/broken")
    projects = [
        Project(Path("/tmp", name), world.SMALL / name, way, broken)
        for name, way in (("started", STARTED), ("given", way_there))
        if given.only in (None, name)
    ]
    broken.mkdir()
    arena = Arena(Model(broken), desktops)
    for project in projects:
        project.write()
        ended = _run(project, arena, [], ["-n4", "--vnc-record=rewrite", "test_replayed.py"], report)
        if ended.code:
            raise SystemExit(f"all tests must pass while nothing is disturbed:\n{ended.output}")
    projects[0].break_programs()
    until_s = time.monotonic() + given.minutes * 60
    while time.monotonic() < until_s and (not given.sessions or report.sessions < given.sessions):
        report.sessions += 1
        project = projects[-1 if report.sessions % 3 == 0 else 0]
        _session(project, arena, f"{given.seed}/{report.sessions}", given.every, report)
    return _tell(report)


def _session(project: Project, arena: Arena, seed: str, every_s: float, report: Report) -> None:
    """Perform one session, disturb it, and check what it left."""
    number = report.sessions
    actions = plan(seed, arena.kinds(given=project.is_given), SESSION_S, every_s)
    project.forget()
    before = world.files()
    way = WAYS[number % len(WAYS)]
    say(f"session {number} ({project.path.name}, {' '.join(way) or 'no more options'})")
    began_s = time.monotonic()
    ended = _run(project, arena, actions, ["-n4", *way], report)
    took_s = time.monotonic() - began_s
    came = checks.summary(project)
    report.came += came
    say(f"session {number} took {took_s:.0f} s: {dict(came)}")
    wrong = checks.wrong_results(project, ended) + checks.lost_runs(project)
    if any(each.action.kind.endswith("supervisor") for each in ended.done):
        subprocess.run([sys.executable, "-c", CLEAN], check=True)
    wrong += checks.left_over(lambda: _own(arena), before)
    if wrong:
        say(ended.output)
    report.complain(wrong)


CLEAN = "from pytest_vnc_use.desktops.session import remove_leftovers; remove_leftovers()"
"""What each new session begins with: it ends what dead supervisors left."""


def _run(project: Project, arena: Arena, actions: list[Action], options: list[str], report: Report) -> checks.Ended:
    """Run pytest, disturb it as planned, and put everything right again."""
    env = {**os.environ, **environment(arena.model.url)}
    done: list[Done] = []
    with tempfile.TemporaryFile("w+", dir=project.path, errors="replace") as output:
        command = project.command(*options)
        process = subprocess.Popen(command, cwd=project.path, env=env, stdout=output, stderr=subprocess.STDOUT)
        arena.controller, arena.is_given = process.pid, project.is_given
        began_s, sizes_mb = time.monotonic(), [0.0]
        waiting = list(actions)
        while process.poll() is None:
            at_s = time.monotonic() - began_s
            if at_s > SESSION_S:
                report.complain([f"the session hangs after {SESSION_S:g} s"])
                process.send_signal(signal.SIGABRT)  # faulthandler writes where it stands
                time.sleep(1)
                process.kill()
            if waiting and waiting[0].at_s <= at_s and (happened := arena.disturb(waiting.pop(0))):
                done.append(happened)
                report.kinds[happened.action.kind] += 1
                _tell_done(happened, at_s)
            arena.undo_due()
            sizes_mb.append(world.memory_mb(process.pid))
            world.reap(_own(arena) | {process.pid})
            time.sleep(_TICK_S)
        arena.undo_due(all_of_them=True)
        report.peaks_mb.append(max(sizes_mb))
        output.seek(0)
        return checks.Ended(process.returncode, output.read(), done)


def _tell_done(done: Done, at_s: float) -> None:
    action = done.action
    lasting = f" for {action.for_s:.1f} s" if action.for_s is not None else ""
    at = f", test {done.test:02}" if done.test else ""
    say(f"  {at_s:6.2f} s  {action.kind}{lasting}: {done.target}{at}")


def _own(arena: Arena) -> set[int]:
    """Return the processes that stay from session to session."""
    return {os.getpid(), arena.model.process.pid, *arena.of_given()}


def _tell(report: Report) -> int:
    peaks = report.peaks_mb[2:]
    say(f"{report.sessions} sessions, {sum(report.came.values())} tests: {dict(report.came)}")
    say(f"{sum(report.kinds.values())} disturbances: {dict(report.kinds)}")
    if peaks:
        say(f"memory of the controllers: first {peaks[0]:.1f} MB, last {peaks[-1]:.1f}, largest {max(peaks):.1f}")
        if max(peaks) > peaks[0] + _MOST_GROWTH_MB:
            report.complain([f"a controller took {max(peaks) - peaks[0]:.1f} MB more than the first"])
    say(f"{len(report.wrong)} things were wrong")
    return 1 if report.wrong or not report.sessions else 0


if __name__ == "__main__":
    sys.exit(main())
