"""Programs of other projects, recorded, then replayed unchanged many times, and with
one change after the other.

    python tests/bench/run.py foreign_programs [--replays 1000] [--at-once 3]
    [--programs WORD …] [--changes WORD …]
        [--keep DIRECTORY]

The programs stand in foreign_table.py, with the Debian packages that they need, and the
changes. All is done by pytest as a user does it: each test has a task, for which the
planner is a script, and a claim, which a judge who believes it judged while it was
recorded; it is replayed without either. Each test has a desktop and a home directory of
its own. Of the unchanged replays, whose number is of all programs together, one may
drift; of the changed ones none may pass. WORDs select those whose name has one of them.

npm's packages are kept in pytest-vnc-use/npm in the user's cache directory.
"""

from __future__ import annotations

import argparse
import math
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from foreign_fixtures import package_dir
from foreign_table import CHANGES, PROGRAMS, Page
from ratios import head, machine, row, session

from pytest_vnc_use.errors import RunDirectoryError
from pytest_vnc_use.report.results import ItemResult
from pytest_vnc_use.runs.directory import read_trace

TESTS = '''import os
import pytest
from foreign_table import PROGRAMS

NAMES = os.environ["VNC_FOREIGN_PROGRAMS"].split("\\n")
TESTS = [pytest.param(n, id=n, marks=pytest.mark.vnc_task(PROGRAMS[n].claim, expect=PROGRAMS[n].claim)) for n in NAMES]

@pytest.mark.parametrize("name", TESTS)
def test_program(name, vnc_desktop):
    """The claim says it all."""
'''
NOBODY = "nobody"
NEVER = "the change never came"
TOO_EARLY = "before the change came, "
"""The results where a replay passed, or drifted, without its change."""
AT_A_TIME = 5
"""So many replays of each program are a session of pytest, whose run directories are
removed after it.
"""
PROGRAMS_AT_A_TIME = 8
"""The same of changed replays, with all changes."""
GATE_S = 10.0
"""How long a gate is waited for that will not open."""


@dataclass(frozen=True)
class Replay:
    """The result of a replay: who saw something and where."""

    name: str
    kind: str
    seen_by: str


@dataclass(frozen=True)
class Suite:
    directory: Path
    at_once: int

    def write(self) -> None:
        (self.directory / "conftest.py").write_text(
            "from foreign_fixtures import *  # noqa: F403\n", "utf-8"
        )
        (self.directory / "test_foreign.py").write_text(TESTS, "utf-8")
        (self.directory / "pytest.ini").write_text("[pytest]\n", "utf-8")
        for name in ("presses", "happened"):
            (self.directory / name).mkdir(exist_ok=True)

    def run(
        self, names: Sequence[str], *options: str, kinds: Sequence[str] = ("",)
    ) -> Sequence[ItemResult]:
        """One session of pytest, where repetition n is of kind n. Raises SystemExit
        where it leaves no results.
        """
        workers = str(self.at_once if self.at_once > 1 else 0)
        common = [
            "-q",
            "-n",
            workers,
            *(f"-pno:{name}" for name in ("cacheprovider", "pytest-vnc", "html")),
        ]
        runs = self.directory / "runs"
        desktops = ["--vnc-server=xvnc", f"--vnc-runs-dir={runs}"]
        lines = {
            "VNC_FOREIGN_PROGRAMS": "\n".join(names),
            "VNC_FOREIGN_CHANGES": "\n".join(kinds),
        }
        environment = {"VNC_FOREIGN": str(self.directory), **lines}
        return session(
            self.directory,
            *common,
            *desktops,
            *options,
            environment=environment,
        )[0]

    def record(self, names: Sequence[str]) -> list[str]:
        """Those that were recorded; why others were not is printed."""
        for name in names:
            (self.directory / "presses" / name).unlink(missing_ok=True)
        recorded = []
        for test in self.run(names, "--vnc-record=rewrite", "--vnc-repeat=1"):
            name, _ = name_of(test)
            if test.result != "passed":
                print(
                    f"{name} was not recorded: {test.message.splitlines()[0]}",
                    flush=True,
                )
            elif problem := next(
                (each.problem for each in test.rehearsals if not each.repeated), ""
            ):
                print(
                    f"{name} was recorded, and its rehearsal says that it does not"
                    f" repeat: {problem}",
                    flush=True,
                )
            else:
                recorded.append(name)
        return sorted(recorded, key=list(PROGRAMS).index)

    def replay(
        self,
        names: Sequence[str],
        times: int,
        *options: str,
        kinds: Sequence[str] = ("",),
    ) -> list[Replay]:
        shutil.rmtree(self.directory / "runs", ignore_errors=True)
        for file in (self.directory / "happened").iterdir():
            file.unlink()
        tests = self.run(
            names, "--vnc-record=replay", f"--vnc-repeat={times}", *options, kinds=kinds
        )
        return [self.replayed(test, kinds) for test in tests]

    def replayed(self, test: ItemResult, kinds: Sequence[str]) -> Replay:
        name, number = name_of(test)
        kind = kinds[(number - 1) % len(kinds)]
        seen_by = NOBODY
        if test.result != "passed":
            first = (test.message or test.result).splitlines()[0]
            drift = told_drift(test, len(PROGRAMS[name].steps))
            seen_by = drift or f"{test.triage}: {first}"
            for run in test.runs:
                kept = self.directory / "failed" / Path(run.directory).name
                shutil.copytree(run.directory, kept, dirs_exist_ok=True)
        if kind and not (self.directory / "happened" / f"{name}, {kind}").exists():
            seen_by = NEVER if seen_by == NOBODY else f"{TOO_EARLY}{seen_by}"
        return Replay(name, kind, seen_by)


def name_of(test: ItemResult) -> tuple[str, int]:
    """`test_foreign.py::test_program[nano-run2]` -> `nano`, 2."""
    inside = test.test.partition("[")[2].removesuffix("]")
    name, _, number = inside.rpartition("-run")
    return (inside, 1) if inside in PROGRAMS else (name, int(number))


def told_drift(test: ItemResult, steps: int) -> str:
    """Return which gate, or the claim, saw which change; "" where neither did."""
    for run in test.runs:
        with suppress(RunDirectoryError):  # it never saw a screen
            for drift in read_trace(Path(run.directory)).drifts:
                who = f"gate {run.steps + 1} of {steps + 1}"
                if run.outcome == "done":
                    who = "claim"
                box = drift.region
                if not box:
                    return f"{who}: {drift.problem}"
                return f"{who}: {box.left},{box.top} to {box.right},{box.bottom}"
    return ""


def unchanged(suite: Suite, names: Sequence[str], replays: int) -> int:
    """Return how many did not pass."""
    each = math.ceil(replays / len(names))
    came = list[Replay]()
    for done in range(0, each, AT_A_TIME):
        came += suite.replay(names, min(AT_A_TIME, each - done))
        passed = sum(replay.seen_by == NOBODY for replay in came)
        print(f"{passed} of {len(came)} replays passed", file=sys.stderr, flush=True)
    print(head("program", "replays", "passed", "drifted", "where"))
    for name in names:
        of_it = [replay for replay in came if replay.name == name]
        wrong = Counter(replay.seen_by for replay in of_it if replay.seen_by != NOBODY)
        where = "; ".join(f"{count}× {who}" for who, count in wrong.most_common())
        print(row(name, len(of_it), len(of_it) - wrong.total(), wrong.total(), where))
    bad = sum(replay.seen_by != NOBODY for replay in came)
    print(f"\n{len(came)} replays, {bad} did not pass\n", flush=True)
    return bad


def changed(suite: Suite, names: Sequence[str], kinds: Sequence[str]) -> int:
    """Return how many passed, or say nothing of their change."""
    seen: dict[tuple[str, str], str] = {}
    for first in range(0, len(names), PROGRAMS_AT_A_TIME):
        some = names[first : first + PROGRAMS_AT_A_TIME]
        came = suite.replay(
            some, len(kinds), f"-ovnc_gate_seconds={GATE_S}", kinds=kinds
        )
        seen |= {(replay.name, replay.kind): replay.seen_by for replay in came}
        passed = sum(who == NOBODY for who in seen.values())
        print(
            f"{passed} of {len(seen)} changed replays passed",
            file=sys.stderr,
            flush=True,
        )
    print(head("program", *kinds))
    for name in names:
        cells = []
        for kind in kinds:
            who = seen.get((name, kind), "not replayed")
            cells.append(f"**{who}**" if who == NOBODY else who.partition(":")[0])
        print(row(name, *cells))
    passed = sum(who == NOBODY for who in seen.values())
    apart = sum(who.startswith(TOO_EARLY) or who == NEVER for who in seen.values())
    others = f"{passed} passed; {apart} drifted, or ended, before their change came"
    print(f"\n{len(seen)} changed replays, {others}\n", flush=True)
    return passed + apart


def named(name: str, words: Sequence[str]) -> bool:
    return not words or any(word in name for word in words)


def main(given: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(allow_abbrev=False, prog="run.py foreign_programs")
    parser.add_argument("--replays", type=int, default=1000)
    parser.add_argument("--at-once", type=int, default=3)
    parser.add_argument("--programs", nargs="*", default=[])
    parser.add_argument("--changes", nargs="*", default=[])
    parser.add_argument(
        "--keep",
        type=Path,
        help="a directory for the recordings, the last run directories, and those of"
        " replays that failed",
    )
    asked = parser.parse_args(given)
    wanted = [name for name in PROGRAMS if named(name, asked.programs)]
    print(f"{machine()}, {asked.at_once} at once\n")
    missing = {name: PROGRAMS[name].missing for name in wanted}
    for name, packages in missing.items():
        if packages:
            print(
                f"{name} is left out, as these Debian packages are not installed:"
                f" {packages}",
                flush=True,
            )
    names = [name for name in wanted if not missing[name]]
    for package in {
        page.package for page in map(PROGRAMS.get, names) if isinstance(page, Page)
    }:
        package_dir(package)
    with tempfile.TemporaryDirectory(prefix="foreign-") as made:
        directory = (asked.keep or Path(made)).absolute()
        directory.mkdir(exist_ok=True, parents=True)
        suite = Suite(directory, asked.at_once)
        suite.write()
        recorded = suite.record(names)
        drifted = unchanged(suite, recorded, asked.replays) if asked.replays else 0
        passed = changed(
            suite, recorded, [kind for kind in CHANGES if named(kind, asked.changes)]
        )
    return int(drifted > 1 or passed > 0 or recorded != wanted)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
