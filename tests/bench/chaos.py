"""Twenty tests on four desktops while desktops, programs, workers and the model are
disturbed. Run as a script:

    python tests/bench/run.py chaos [--minutes 30] [--seed 1] [--every 3] [--tests 10]

It takes sessions of `-n 4` one after the other, ten tests replayed and ten live (fewer
with --tests) against a model's fake server, in namespaces of its own. Exit code 1 says
that something did not hold: a hang, a pass of a broken program, a triage that nothing
explains, a test listed twice or not at all, a lost run directory, or something left
behind.

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
from pathlib import Path

import chaos_world as world
from chaos_project import (
    Action,
    Arena,
    Done,
    Model,
    Project,
    environment,
    left_over,
    plan,
    wrong_results,
)

SESSION_S = 300.0
WAYS: tuple[tuple[str, ...], ...] = (
    (),
    ("--reruns=1",),
    ("--vnc-repeat=1", "--dist=worksteal"),
)
CLEAN = "from pytest_vnc_use.desktops.supervised_session import remove_leftovers; remove_leftovers()"
"""What each new session begins with: it ends what dead supervisors left."""


def say(line: str) -> None:
    print(line, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(allow_abbrev=False, description=__doc__)
    parser.add_argument(
        "--minutes", type=float, default=30.0, help="no session starts later"
    )
    parser.add_argument("--seed", default="1")
    parser.add_argument(
        "--every",
        type=float,
        default=3.0,
        help="seconds between two disturbances, on average",
    )
    parser.add_argument(
        "--tests",
        type=int,
        default=10,
        choices=range(1, 11),
        metavar="N",
        help="of each kind, replayed and live",
    )
    parser.add_argument(
        "--sessions", type=int, default=0, help="at most so many (0: as time allows)"
    )
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.inside:
        return inside(asked)
    if reason := world.why_not():
        say(f"no namespaces of its own can be made here: {reason}")
        return 77
    longest_s = asked.minutes * 60 + 2 * SESSION_S
    with subprocess.Popen(
        world.inside_command([sys.executable, __file__, "--inside", *sys.argv[1:]])
    ) as process:
        try:
            return process.wait(longest_s)
        except subprocess.TimeoutExpired:
            say(f"it did not end within {longest_s:.0f} s, and was killed")
            return 1
        finally:
            process.kill()  # all ends with the first process of its world


def inside(asked: argparse.Namespace) -> int:
    """Perform all sessions, as the first process of this world."""
    say(f"seed {asked.seed}, a disturbance each {asked.every:g} s")
    world.settle_in()
    broken = Path("/tmp/broken")
    broken.mkdir()
    arena = Arena(Model(broken))
    project = Project(Path("/tmp/project"), world.SMALL / "runs", broken, asked.tests)
    project.write()
    workers = f"-n{min(asked.tests, 4)}"
    code, output, _ = run(
        project, arena, [], [workers, "--vnc-record=rewrite", "test_replayed.py"]
    )
    if code:
        raise SystemExit(f"all tests must pass while nothing is disturbed:\n{output}")
    project.break_programs()
    until_s = time.monotonic() + asked.minutes * 60
    number = 0
    wrong = 0
    came = Counter[str]()
    kinds = Counter[str]()
    while time.monotonic() < until_s and (
        not asked.sessions or number < asked.sessions
    ):
        number += 1
        way = WAYS[number % len(WAYS)]
        actions = plan(f"{asked.seed}/{number}", SESSION_S, asked.every)
        project.forget()
        before = world.files()
        started_s = time.monotonic()
        here = Counter[str]()
        say(f"session {number} ({' '.join(way) or 'no more options'})")
        code, output, done = run(project, arena, actions, [workers, *way])
        lines = [*wrong_results(project, code, done, here)]
        say(f"session {number} took {time.monotonic() - started_s:.0f} s: {dict(here)}")
        if any(hit.action.kind.endswith("supervisor") for hit in done):
            subprocess.run([sys.executable, "-c", CLEAN], check=True)
        lines += left_over(before)
        if lines:
            say(
                "\n".join(
                    [output, *(f"WRONG in session {number}: {line}" for line in lines)]
                )
            )
        wrong += len(lines)
        came += here
        kinds.update(hit.action.kind for hit in done)
    say(f"{number} sessions, {came.total()} tests: {dict(came)}")
    say(f"{kinds.total()} disturbances: {dict(kinds)}")
    say(f"{wrong} things were wrong")
    return 1 if wrong or not number else 0


def run(
    project: Project, arena: Arena, actions: list[Action], options: list[str]
) -> tuple[int, str, list[Done]]:
    """Run pytest, disturb it as planned, and put everything right again. A session that
    hangs ends with SIGABRT's code.

    Return its exit code, its output, and what was done to it.
    """
    env = {**os.environ, **environment(arena.model.url)}
    done: list[Done] = []
    with tempfile.TemporaryFile("w+", dir=project.path, errors="replace") as output:
        command = project.command(*options)
        process = subprocess.Popen(
            command, cwd=project.path, env=env, stdout=output, stderr=subprocess.STDOUT
        )
        arena.controller = process.pid
        started_s = time.monotonic()
        waiting = list(actions)
        while process.poll() is None:
            at_s = time.monotonic() - started_s
            if at_s > SESSION_S:
                say(f"WRONG: the session hangs after {SESSION_S:g} s")
                # faulthandler writes where it stands
                process.send_signal(signal.SIGABRT)
                time.sleep(1)
                process.kill()
            if (
                waiting
                and waiting[0].at_s <= at_s
                and (happened := arena.disturb(waiting.pop(0)))
            ):
                done.append(happened)
                action = happened.action
                lasting = ""
                at = ""
                if action.for_s is not None:
                    lasting = f" for {action.for_s:.1f} s"
                if happened.test:
                    at = f", test {happened.test:02}"
                say(f"  {at_s:6.2f} s  {action.kind}{lasting}: {happened.target}{at}")
            arena.undo_due()
            world.reap(process.pid)
            time.sleep(0.05)
        arena.undo_due(all_of_them=True)
        output.seek(0)
        return process.returncode, output.read(), done


if __name__ == "__main__":
    sys.exit(main())
