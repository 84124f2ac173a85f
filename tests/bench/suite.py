"""What it costs to own a suite: tables in Markdown.

    python tests/bench/run.py suite [TESTS] [--changes WORD …] [--bugs N]
        [--at-once N] [--keep DIRECTORY]

A git repository of twenty tests, fourteen of a web program behind a login (sqlite-web,
from PyPI) and six of a GTK program (mousepad), is recorded by hand through the page: a
user in a browser does the tasks and answers the questions. Then one thing after the
other changes. The tests that may meet it are replayed with `--vnc-record=accept`, where
the user accepts each difference, or continues by hand where a button has moved. Those
that fail still, or that need other steps, are recorded again. At the end all must pass.

Each test of the second table has a program with a bug. It is seen if the replay fails,
and waved through if the test passes once the user has accepted each difference without
looking at it, but has answered each claim truthfully.

The exit code is 1 if a test without a bug did not pass at the end, or a bug was unseen.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from copy import deepcopy
from functools import partial
from pathlib import Path

from ratios import HERE, head, machine, row, session
from suite_changes import (
    BUGS,
    CHANGES,
    EDITOR_SETTINGS,
    FLOWS,
    NEW,
    OLD,
    PASSWORD,
    Edit,
    Flow,
)
from suite_user import BrowserUser, Clicked

from pytest_vnc_use.report.results import ItemResult

INI = """[pytest]
addopts = -q -p no:cacheprovider -p no:pytest-vnc -p no:langsmith_plugin -p no:playwright
vnc_server = xvnc
vnc_screen_size = 1024x768
vnc_runs_dir = ../runs
vnc_cdp = profile/DevToolsActivePort
vnc_rehearse = 0
"""
FILES = {
    "conftest.py": "suite_conftest.py",
    "test_web.py": "suite_web.py",
    "test_editor.py": "suite_editor.py",
}
COLUMNS = ("actions", "answers", "tests recorded", "files", "lines", "kB of diff")


class Suite:
    """A git repository of tests in a directory, and the programs that they test.

    `libraries` has a directory of each version of the web program.
    """

    def __init__(self, directory: Path, libraries: Path, clicked: Clicked) -> None:
        self.directory = directory
        self.repository = directory / "repository"
        self.libraries = libraries
        self.clicked = clicked
        self.flows = FLOWS
        self.false: Sequence[str] = ()
        """The tests whose claims do not hold."""
        self.environment: Mapping[str, str] = {}
        self.users: list[BrowserUser] = []
        self.problems: list[str] = []
        """Tests that did not pass, though they had to, and bugs that were unseen."""

    def write(self) -> None:
        self.repository.mkdir(parents=True)
        for name, source in FILES.items():
            shutil.copy(HERE / source, self.repository / name)
        (self.repository / "pytest.ini").write_text(INI, "utf-8")
        (self.repository / ".gitignore").write_text("__pycache__/\n", "utf-8")
        self.git("init", "-q")
        self.commit()

    def copy(self, name: str) -> Suite:
        """Return a clone of the suite, which others may change meanwhile."""
        clicked = deepcopy(self.clicked)
        made = Suite(self.directory / name, self.libraries, clicked)
        made.directory.mkdir()
        self.git("clone", "-q", ".", str(made.repository))
        return made

    def git(self, *arguments: str) -> bytes:
        author = ["-c", "user.name=suite", "-c", "user.email=suite@localhost"]
        return subprocess.run(
            ["git", *author, *arguments],
            cwd=self.repository,
            check=True,
            stdout=subprocess.PIPE,
        ).stdout

    def commit(self) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "the suite")

    def install(self, name: str, version: str, edits: Iterable[Edit]) -> None:
        """Make a directory of programs with these edits, for the next sessions."""
        libraries = self.libraries / version
        programs = self.directory / name
        shutil.copytree(libraries / "sqlite_web", programs / "sqlite_web")
        (programs / "mousepad.ini").write_text(EDITOR_SETTINGS, "utf-8")
        for edit in edits:
            apply(programs, edit)
        self.environment = {
            "SUITE_PROGRAMS": str(programs),
            "SUITE_LIBRARIES": str(libraries),
            "SHOP_PASSWORD": PASSWORD,
        }

    def replay(self, tests: Sequence[str]) -> dict[str, str]:
        """Return the tests that fail, each with its message."""
        if not tests:
            return {}
        options = ["--vnc-record=replay", "-n2", *tests]
        results, _ = session(self.repository, *options, environment=self.environment)
        return failed(results)

    def by_hand(self, mode: str, tests: Sequence[str]) -> dict[str, str]:
        """Return the tests that fail with a user at the page, each with its message."""
        if not tests:
            return {}
        user = BrowserUser(self.flows, self.clicked, self.false)
        self.users.append(user)
        command = ["-m", "pytest", f"--vnc-record={mode}", "--vnc-ui", *tests]
        return failed(user.session(self.repository, command, self.environment))

    def cost(self, recorded: int) -> str:
        """Return what was done and written since the last commit, as cells."""
        self.git("add", "-A")
        diff = ["diff", "--cached", "--no-renames"]
        recordings = ["HEAD", "--", "__vnc_recordings__"]
        files = self.git(*diff, "--numstat", *recordings).decode().splitlines()
        lines = 0
        for file in files:
            added, deleted, _ = file.split("\t")
            # An image has "-" for both.
            if added != "-":
                lines += int(added) + int(deleted)
        size = len(self.git(*diff, "--binary", *recordings))
        actions = sum(user.actions for user in self.users)
        answers = sum(user.answers for user in self.users)
        by_user = f"{actions} | {answers} | {recorded}"
        return f"{by_user} | {len(files)} | {lines} | {size / 1000:,.1f}"

    def record(self, tests: Sequence[str], at_once: int) -> str:
        """Record all tests, and commit them; return what it cost."""
        self.install("unchanged", OLD, [])
        # The first records the sign-in, which the sessions that follow replay.
        first, *others = tests
        self.check("recorded by hand", self.by_hand("manual", [first]))
        with ThreadPoolExecutor(at_once) as pool:
            parts = [others[part::at_once] for part in range(at_once)]
            for failing in pool.map(partial(self.by_hand, "manual"), parts):
                self.check("recorded by hand", failing)
        cost = self.cost(len(tests))
        self.commit()
        return row("nothing, all is recorded", cost)

    def replay_unchanged(self, tests: Sequence[str]) -> str:
        """Replay the tests, which must pass."""
        self.install("unchanged", OLD, [])
        self.check("replayed unchanged", self.replay(tests))
        return row("nothing, all is replayed", self.cost(0))

    def own(self, name: str, tests: Sequence[str]) -> str:
        """Bring the tests up to a change, and return what it cost."""
        change = CHANGES[name]
        self.install("changed", change.version, change.of_program)
        for edit in change.of_tests:
            apply(self.repository, edit)
        self.flows = {**FLOWS, **change.flows}
        due = [test for test in tests if change.tests in test]
        due += change.added
        for test, (gate, flow) in change.inserted.items():
            self.check(f"{name}, edited", self.edited(test, gate, flow))
        others = [test for test in due if test not in change.inserted]
        asked = [test for test in others if test not in change.flows]
        again = [*self.by_hand("accept", asked), *change.flows]
        self.check(f"{name}, recorded again", self.by_hand("manual", again))
        cost = self.cost(len(again))
        self.check(name, self.replay([*due, *change.flows]))
        return row(name, cost)

    def edited(self, test: str, gate: str, flow: Flow) -> dict[str, str]:
        """Insert steps before a gate of a test; return it, with its message, if it
        then fails.
        """
        user = BrowserUser(self.flows, self.clicked, self.false, flow)
        self.users.append(user)
        edit = ["-m", "pytest_vnc_use.cli", "recordings", "edit", test, "--at", gate]
        return failed(user.session(self.repository, edit, self.environment))

    def find(self, names: Sequence[str]) -> str:
        """Return a table of which bugs are seen, and which a user waves through."""
        tests = {name: BUGS[name].test for name in names}
        if not tests:
            return ""
        for name, test in tests.items():
            place = f"bugs/{test.partition('::')[2]}"
            self.install(place, OLD, [BUGS[name].edit])
        self.install("bugs", OLD, [])
        self.false = [BUGS[name].test for name in names if BUGS[name].is_claimed]
        seen = self.replay([*tests.values()])
        stopped = self.by_hand("accept", [*tests.values()])
        table = [head("bug", "seen by", "waved through")]
        for name, test in tests.items():
            if test not in seen:
                self.problems.append(f"{name}: unseen")
            seen_by = seen.get(test, "**nobody**").partition(":")[0]
            table.append(row(name, seen_by, "" if test in stopped else "yes"))
        waved = len(tests) - len(stopped)
        found = f"**{len(seen)} of {len(tests)}**"
        return "\n".join(["", *table, row("**together**", found, f"**{waved}**")])

    def check(self, what: str, failing: dict[str, str]) -> None:
        for test, message in failing.items():
            self.problems.append(f"{what}: {test} did not pass: {message}")


def install(libraries: Path, version: str) -> None:
    """Install a version of the web program in a directory of its own."""
    target = ["--no-compile", "--target", str(libraries / version)]
    package = f"sqlite-web=={version}"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", *target, package]
    subprocess.run(pip, check=True)


def report(suite: Suite, ended: Future[str]) -> Sequence[str]:
    """Print a row; return what went wrong."""
    if error := ended.exception():
        return [*suite.problems, f"{suite.directory.name}: {error!r}"]
    print(ended.result(), flush=True)
    return suite.problems


def apply(directory: Path, edit: Edit) -> None:
    path = directory / edit.file
    text = path.read_text("utf-8")
    assert edit.old in text, f"{edit.file} has no {edit.old!r}"
    path.write_text(text.replace(edit.old, edit.new), "utf-8")


def failed(results: Iterable[ItemResult]) -> dict[str, str]:
    return {
        result.test: result.message.partition("\n")[0]
        for result in results
        if result.result != "passed"
    }


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(allow_abbrev=False, prog="run.py suite")
    parser.add_argument("tests", nargs="?", type=int, default=len(FLOWS))
    parser.add_argument("--changes", nargs="*", default=[""], help="parts of names")
    parser.add_argument("--bugs", type=int, default=len(BUGS))
    parser.add_argument("--at-once", type=int, default=2, help="sessions at once")
    parser.add_argument("--keep", type=Path, help="an empty directory to work in")
    asked = parser.parse_args(arguments)
    tests = list(FLOWS)[: asked.tests]
    changes = [name for name in CHANGES if any(word in name for word in asked.changes)]
    bugs = [name for name, bug in BUGS.items() if bug.test in tests][: asked.bugs]
    print(f"{machine()}, {len(tests)} tests, sqlite-web {OLD} and {NEW}\n")
    problems = []
    with tempfile.TemporaryDirectory(prefix="suite-") as made:
        directory = (asked.keep or Path(made)).absolute()
        versions = {OLD, *(CHANGES[name].version for name in changes)}
        with ThreadPoolExecutor(asked.at_once) as pool:
            list(pool.map(partial(install, directory), versions))
        recorded = Suite(directory / "all", directory, {})
        recorded.write()
        print(head("what changes", *COLUMNS), flush=True)
        print(recorded.record(tests, asked.at_once), flush=True)
        problems += recorded.problems
        with ThreadPoolExecutor(asked.at_once) as pool:
            again = recorded.copy("again")
            begun = {pool.submit(again.replay_unchanged, tests): again}
            for number, name in enumerate(changes):
                suite = recorded.copy(str(number))
                begun[pool.submit(suite.own, name, tests)] = suite
            with_bugs = recorded.copy("bugs")
            found = pool.submit(with_bugs.find, bugs)
            for ended in as_completed(begun):
                problems += report(begun[ended], ended)
            problems += report(with_bugs, found)
    print("", *problems, sep="\n")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
