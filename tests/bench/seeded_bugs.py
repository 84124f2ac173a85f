"""Which seeded bugs a replay lets pass: tables in Markdown. None may that a person sees while the recording watched.

    python tests/bench/run.py seeded_bugs [qt] [gtk] [page] [--only KIND_OR_BUG …] [--at-once N]

Each walk of the three programs (seeded_programs.py) is recorded without a bug, by a planner that follows its steps and a
judge that knows what is right. Then it is replayed without a model, as a user's pytest does it: without a bug, which
must pass, and with one bug after the other, in each flavour of the test that can see it. N (3 by default) go on at once.

The exit code is 1 where a bug passed in a flavour that must see it, or where a test without a bug did not pass.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ratios import head, machine, row
from seeded_programs import ALL, Bug, Program, Walk

from pytest_vnc_use.report.results import ItemResult, read_results

HERE = Path(__file__).parent
NOBODY, TRANSIENT, BROKE = "nobody", "transients listed", "the tool broke"
FLAVOURS = {"body": "body", "claim": "claim", "end": "end state", "value": "value"}
TEST = '''"""{about}"""

import pytest


@pytest.mark.vnc_task({task!r}, app={app!r}{expect})
def test_walk(vnc_agent, vnc_desktop):
    {body}
'''


@dataclass(frozen=True)
class Case:
    """One flavour of a walk's test, with a bug or without; `recording` makes its recording, with all evidence."""

    walk: str
    flavour: str
    bug: Bug | None = None

    @property
    def place(self) -> str:
        return f"{self.bug.name if self.bug else 'without a bug'}/{self.walk}/{self.flavour}"


# --- tests and their recordings ---------------------------------------------------------------------------------------


def source(program: Program, case: Case) -> str:
    """The case as a test in Python."""
    walk = program.walks[case.walk]
    expect = f", expect={walk.claim!r}" if case.flavour in ("claim", "recording") else ""
    lines = checks(walk)
    body = "\n    ".join(lines.values() if case.flavour == "recording" else [lines.get(case.flavour, "...")])
    app = program.app(case.bug.name if case.bug else "", case.walk)
    about = case.bug.sees if case.bug else "Without a bug."
    return TEST.format(about=about, task=walk.task, app=app, expect=expect, body=body)


def checks(walk: Walk) -> Mapping[str, str]:
    """What the body of a test checks, by its flavour; `end` is what has the end state judged for the recording."""
    file, says = walk.saves
    lines = {"body": f"assert {says!r} in vnc_desktop.read_file({file!r})"}
    if walk.reads:
        question, answer = walk.reads
        lines["value"] = f"assert vnc_agent.extract(str, {question!r}) == {answer!r}"
    return {**lines, "recording": f"assert vnc_agent.verify_end_state({walk.task!r})"}


def write(folder: Path, program: Program, cases: Iterable[Case]) -> None:
    """A test for each case, beside the recording of its walk if there is one."""
    for case in cases:
        place = folder / case.place
        place.mkdir(parents=True)
        (place / "test_walk.py").write_text(source(program, case), encoding="utf-8")
        recordings = folder / Case(case.walk, "recording").place / "__vnc_recordings__"
        if recordings.exists():
            shutil.copytree(recordings, place / recordings.name)


@dataclass(frozen=True)
class Session:
    """What came of a session of pytest: its tests by their folder, and what it printed."""

    tests: Mapping[str, ItemResult]
    printed: str


def run(folder: Path, program: Program, places: Iterable[str], at_once: int, *options: str) -> Session:
    """Run the tests in these folders, so many at once."""
    results = folder / "results.json"
    results.unlink(missing_ok=True)
    size = "x".join(map(str, program.size))
    desktop = [f"--vnc-server={program.server}", f"--vnc-screen-size={size}", f"--vnc-results={results}"]
    spread = ["-n", str(at_once), "--maxschedchunk=1"]
    pytest = [sys.executable, "-m", "pytest", "-q", *spread, *desktop, *options, *places]
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    ended = subprocess.run(pytest, cwd=folder, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    if not results.exists():
        raise SystemExit(f"pytest wrote no results:\n{ended.stdout}\n{ended.stderr}")
    tests = {test.test.partition("/test_walk.py")[0]: test for test in read_results(results).tests}
    return Session(tests, ended.stdout)


def record(folder: Path, program: Program, walks: Iterable[str], at_once: int) -> None:
    cases = [Case(walk, "recording") for walk in walks]
    write(folder, program, cases)
    session = run(folder, program, [case.place for case in cases], at_once, "--vnc-record=rewrite")
    for case in cases:
        made = folder / case.place / "__vnc_recordings__"
        if not made.exists():
            raise SystemExit(f"{program.toolkit}, {case.walk}: not recorded\n{session.printed}")


# --- who sees a bug ---------------------------------------------------------------------------------------------------

SEES = {
    "after the end": r"after the (end|test|last gate)|while the (body|test)|turned into",
    "gate before anything": r"not as recorded before step 1 of",
    "gate before a step": r"not as recorded before step",
    "the last gate": r"not as recorded at the end",
    "transients": r"transient",
    "claim unsure": r"claims? not shown|unsure|nobody can read",
}
BODY = "body"
ORDER = (*SEES, BODY, TRANSIENT, NOBODY)


def seen_by(case: Case, session: Session) -> str:
    """Who saw, in this test, that something is wrong."""
    test = session.tests.get(case.place)
    if test is None or (test.is_bad and test.triage not in ("product", "inconclusive")):
        return f"{BROKE}: {test.triage if test else 'no result'}"
    if not test.is_bad:
        listed = re.search(rf"^TRANSIENT.*{re.escape(case.place)}/", session.printed, re.MULTILINE | re.IGNORECASE)
        return TRANSIENT if listed else NOBODY
    for who, words in SEES.items():
        if re.search(words, test.message):
            return who
    return BODY if test.triage == "product" else f"otherwise: {test.message[:60]}"


@dataclass(frozen=True)
class Found:
    """Of one program, who saw each case; `unbroken` is what is wrong with its tests without a bug."""

    seen: Mapping[Case, str]
    unbroken: Sequence[str]


def examine(program: Program, bugs: Sequence[Bug], at_once: int, folder: Path) -> Found:
    """Record the bugs' walks, and replay them without a bug and with each."""
    walks = {bug.walk: program.walks[bug.walk] for bug in bugs}
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib -p no:cacheprovider\n")
    shutil.copy(HERE / "seeded_conftest.py", folder / "conftest.py")
    record(folder, program, walks, at_once)
    without = [Case(name, flavour) for name, walk in walks.items() for flavour in walk.flavours]
    cases = [Case(bug.walk, flavour, bug) for bug in bugs for flavour in bug.flavours]
    write(folder, program, [*without, *cases])
    places = [case.place for case in (*without, *cases)]
    gate = f"--vnc-gate-seconds={program.gate_s}"
    session = run(folder, program, places, at_once, "--vnc-record=replay", gate)
    return Found({case: seen_by(case, session) for case in cases}, list(wrong_unbroken(walks, without, session)))


def wrong_unbroken(walks: Mapping[str, Walk], cases: Iterable[Case], session: Session) -> Iterator[str]:
    for case in cases:
        who = seen_by(case, session)
        may_be_unsure = case.flavour in walks[case.walk].uncertain and who == "claim unsure"
        if who != NOBODY and not may_be_unsure:
            test = session.tests.get(case.place)
            yield f"{case.place}: {who}{': ' + test.message.splitlines()[0][:300] if test else ''}"


# --- the tables -------------------------------------------------------------------------------------------------------


def print_bugs(bugs: Iterable[Bug], seen: Mapping[Case, str]) -> None:
    print(head("kind", "bug", "what a person sees", *FLAVOURS.values()))
    for bug in bugs:
        cells = [seen.get(Case(bug.walk, flavour, bug), "") for flavour in FLAVOURS]
        print(row(bug.kind, bug.name.replace("_", " "), bug.sees, *cells))


def print_sums(seen: Mapping[Case, str]) -> None:
    """How many bugs each saw, by flavour; and which passed."""
    counts = Counter((who, case.flavour) for case, who in seen.items())
    print(head("seen by", *FLAVOURS.values()))
    for who in dict.fromkeys((*ORDER, *seen.values())):
        print(row(who, *(counts[who, flavour] for flavour in FLAVOURS)))
    for flavour, told in FLAVOURS.items():
        names = [case.bug.name for case, who in seen.items() if who == NOBODY and case.flavour == flavour and case.bug]
        if names:
            print(f"\npassed in spite of it, {told}: {len(names)} of {sum(case.flavour == flavour for case in seen)}")
            print(", ".join(names))


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="seeded_bugs")
    parser.add_argument("toolkits", nargs="*", help=f"of {', '.join(ALL)}")
    parser.add_argument("--only", nargs="+", default=[], help="kinds, or names of bugs")
    parser.add_argument("--at-once", type=int, default=3)
    asked = parser.parse_args(arguments)
    print(f"{machine()}, {asked.at_once} at once", flush=True)
    wrong = [examined(name, asked.only, asked.at_once) for name in asked.toolkits or ALL]
    return int(any(wrong))


def examined(name: str, only: Sequence[str], at_once: int) -> bool:
    """Print what came of one program; whether anything of it is wrong."""
    program, began_s = ALL[name], time.monotonic()
    bugs = [bug for bug in program.bugs if not only or bug.kind in only or bug.name in only]
    if not bugs:
        return False
    with tempfile.TemporaryDirectory(prefix="seeded-") as folder:
        found = examine(program, bugs, at_once, Path(folder))
    took_s = time.monotonic() - began_s
    print(f"\n### {program.toolkit}: {len(bugs)} bugs in {len(found.seen)} tests, {took_s:.0f} s\n")
    print_bugs(bugs, found.seen)
    print()
    print_sums(found.seen)
    print(*(f"\nwithout a bug: {line}" for line in found.unbroken), flush=True)
    is_seen = all(who != NOBODY and not who.startswith(BROKE) for who in found.seen.values())
    return bool(found.unbroken) or not is_seen


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
