"""Which seeded bugs a replay lets pass: a table in Markdown. None may that a user sees
while the recording watched.

    python tests/bench/run.py seeded_bugs [qt] [gtk] [page] [--only KIND_OR_BUG …]
    [--flavours FLAVOUR …] [--at-once N]

Each walk of the three programs (seeded_programs.py) is recorded without a bug, by a
planner that follows its steps and a judge that knows what is right. Then it is replayed
without a model, as a user's pytest does it: without a bug, which must pass, and with
one bug after the other, in each flavour of the test that can see it. N (3 by default)
continue at once.

The exit code is 1 where a bug passed in a flavour that must see it, or where a test
without a bug did not pass.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ratios import HERE, head, machine, row, session
from seeded_programs import ALL, PASSWORD, VALUE, Bug, Walk

from pytest_vnc_use.report.results import ItemResult
from pytest_vnc_use.types import SECRET_MARK

NOBODY = "nobody"
BROKE = "the tool broke"
RECORDING = "recording"
FLAVOURS = {"body": "body", "claim": "claim", "end": "end state", VALUE: "value"}
INI = (
    "[pytest]\naddopts = --import-mode=importlib -p no:cacheprovider -p no:pytest-vnc\n"
)
TEST = """import pytest


@pytest.mark.vnc_task({task!r}, app={app!r}, expect={expect!r}, secrets={secrets!r})
def test_walk(vnc_agent, vnc_desktop):
    {body}
"""


@dataclass(frozen=True)
class Case:
    """One test: a walk of one program in one flavour, with a bug or without;
    `recording` makes the walk's recording.
    """

    program: str
    walk: str
    flavour: str
    bug: Bug | None = None

    @property
    def place(self) -> str:
        return f"{self.program}/{self.bug.name if self.bug else 'no_bug'}/{self.walk}/{self.flavour}"


def source(case: Case) -> str:
    program = ALL[case.program]
    walk = program.walks[case.walk]
    expect = {"claim": walk.claim, RECORDING: walk.claim, "end": ()}.get(case.flavour)
    lines = checks(walk)
    body = "\n    ".join(
        lines.values()
        if case.flavour == RECORDING
        else [lines.get(case.flavour, "...")]
    )
    app = program.app(case.bug.name if case.bug else "", case.walk)
    secrets = [found[1] for found in SECRET_MARK.finditer(walk.task)]
    return TEST.format(
        task=walk.task, app=app, expect=expect, secrets=secrets, body=body
    )


def checks(walk: Walk) -> Mapping[str, str]:
    """Return the checks of a test's body, by its flavour; the recording also has the
    end state judged.
    """
    file, says = walk.saves
    lines = {"body": f"assert {says!r} in vnc_desktop.read_file({file!r})"}
    if walk.reads:
        question, answer = walk.reads
        lines[VALUE] = f"assert vnc_agent.extract(str, {question!r}) == {answer!r}"
    return {**lines, RECORDING: f"assert vnc_agent.verify_end_state({walk.task!r})"}


def write(directory: Path, cases: Iterable[Case]) -> None:
    """A test for each case, beside the recording of its walk if there is one."""
    for case in cases:
        place = directory / case.place
        place.mkdir(parents=True)
        (place / "test_walk.py").write_text(source(case), encoding="utf-8")
        recordings = (
            directory
            / replace(case, flavour=RECORDING, bug=None).place
            / "__vnc_recordings__"
        )
        if recordings.exists():
            shutil.copytree(recordings, place / recordings.name)


Replayed = tuple[Mapping[str, ItemResult], str]
"""The results of a session of pytest by the directories of its tests, and its output.
"""


def run(directory: Path, cases: Iterable[Case], at_once: int, record: str) -> Replayed:
    spread = ["-n", str(at_once), "--maxschedchunk=1"] if at_once > 1 else []
    mode = [f"--vnc-record={record}"]
    options = ["-q", *spread, *mode, *(case.place for case in cases)]
    tests, printed = session(
        directory, *options, environment={"SHOP_PASSWORD": PASSWORD}
    )
    return {test.test.partition("/test_walk.py")[0]: test for test in tests}, printed


def record(directory: Path, walks: Iterable[tuple[str, str]], at_once: int) -> None:
    cases = [Case(program, walk, RECORDING) for program, walk in walks]
    write(directory, cases)
    _, printed = run(directory, cases, at_once, "rewrite")
    for case in cases:
        if not (directory / case.place / "__vnc_recordings__").exists():
            raise SystemExit(f"{case.place} was not recorded:\n{printed}")


SEES = {
    "transients": r"transient",
    "after the end": (
        r"did not stay as recorded|after the (end|test)|while the (body|test)|turned"
        r" into"
    ),
    "gate before anything": r"before step 1 of",
    "gate before a step": r"before step|nothing changed on the screen after step",
    "the last gate": r"at the end",
    "claim unsure": r"claims? not shown|unsure|no planner can read",
    "body": r"^(\w*Error|assert )",
}


def seen_by(case: Case, replayed: Replayed) -> str:
    test = replayed[0].get(case.place)
    if test is None or (test.is_bad and test.triage not in ("product", "inconclusive")):
        return f"{BROKE}: {test.triage if test else 'no result'}"
    if not test.is_bad:
        return NOBODY
    for who, words in SEES.items():
        if re.search(words, test.message):
            return who
    return f"otherwise: {test.message.splitlines()[0][:60]}"


def examine(
    bugs: Mapping[str, Sequence[Bug]],
    flavours: Sequence[str],
    at_once: int,
    directory: Path,
) -> tuple[Mapping[Case, str], list[str]]:
    """Record the walks of each program's bugs, and replay them without a bug and with
    each.

    Return who saw each case with a bug, and what is wrong with those without one.
    """
    (directory / "pytest.ini").write_text(INI)
    shutil.copy(HERE / "seeded_conftest.py", directory / "conftest.py")
    walks = dict[tuple[str, str], None]()
    cases = []
    for program, seeded in bugs.items():
        for bug in seeded:
            walks[program, bug.walk] = None
            of_bug = [each for each in flavours if each in bug.flavours]
            cases += [Case(program, bug.walk, each, bug) for each in of_bug]
    record(directory, walks, at_once)
    without = []
    for program, walk in walks:
        of_walk = ALL[program].walks[walk].flavours
        without += [Case(program, walk, each) for each in flavours if each in of_walk]
    write(directory, [*without, *cases])
    replayed = run(directory, [*without, *cases], at_once, "replay")
    seen = {case: seen_by(case, replayed) for case in cases}
    return seen, list(wrong_unbroken(without, replayed))


def wrong_unbroken(cases: Iterable[Case], replayed: Replayed) -> Iterator[str]:
    for case in cases:
        who = seen_by(case, replayed)
        test = replayed[0].get(case.place)
        may_be_unsure = (
            case.flavour in ALL[case.program].walks[case.walk].uncertain
            and who == "claim unsure"
        )
        if who == NOBODY or may_be_unsure:
            continue
        line = f"{case.place}: {who}"
        if test and test.message:
            line += f": {test.message.splitlines()[0][:300]}"
        yield line


def print_table(seen: Mapping[Case, str]) -> None:
    """Print how many bugs each saw, by flavour, and which passed."""
    counts = Counter((who, case.flavour) for case, who in seen.items())
    print(head("seen by", *FLAVOURS.values()))
    for who in dict.fromkeys((*SEES, NOBODY, *seen.values())):
        print(row(who, *(counts[who, flavour] for flavour in FLAVOURS)))
    for flavour, description in FLAVOURS.items():
        cases = [case for case in seen if case.flavour == flavour]
        passed = [
            f"{case.program}: {case.bug.name}"
            for case in cases
            if case.bug and seen[case] == NOBODY
        ]
        print(
            f"\npassed in spite of it, {description}: {len(passed)} of {len(cases)}",
            *passed,
            sep="\n  ",
        )


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(allow_abbrev=False, prog="seeded_bugs")
    parser.add_argument("programs", nargs="*", help=f"of {', '.join(ALL)}")
    parser.add_argument("--only", nargs="+", default=[], help="kinds, or names of bugs")
    parser.add_argument(
        "--flavours",
        nargs="+",
        default=[*FLAVOURS],
        choices=FLAVOURS,
        help="of the tests",
    )
    parser.add_argument("--at-once", type=int, default=3, help="so many tests")
    asked = parser.parse_args(arguments)
    only = {*asked.only}
    bugs = {}
    for name in asked.programs or ALL:
        of_program = ALL[name].bugs
        if only:
            of_program = [bug for bug in of_program if only & {bug.kind, bug.name}]
        bugs[name] = of_program
    print(f"{machine()}, {asked.at_once} at once", flush=True)
    started_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="seeded-") as directory:
        seen, unbroken = examine(bugs, asked.flavours, asked.at_once, Path(directory))
    print_table(seen)
    print(
        f"\n{sum(map(len, bugs.values()))} bugs in {len(seen)} tests,"
        f" {time.monotonic() - started_s:.0f} s"
    )
    print(*(f"without a bug, {line}" for line in unbroken), sep="\n")
    passed = NOBODY in seen.values()
    return int(
        passed or bool(unbroken) or any(who.startswith(BROKE) for who in seen.values())
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
