"""Test bodies to run in a pytest process of their own, each after a task on a desktop in memory.

The task's planner only says "done".
"""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import indent

import pytest

from pytest_vnc_use.report.results import ItemResult, read_results
from support.paths import TESTS

NOWHERE = """
import os
import sys
import pytest
from pytest_vnc_use import assembly
sys.path.append(TESTS)
from support.memory_desktop import PaintedController
assembly.connection.connect = lambda *args, **options: PaintedController()
from pytest_vnc_use.planners.local.scripted import ScriptedPlanner
from pytest_vnc_use.types import Decision, Verdict

class Desktop:
    server, password = "localhost::1", None

    def read_file(self, name):
        with open(name, encoding="utf-8") as file:
            return file.read()

    def write_file(self, name, text):
        with open(name, "w", encoding="utf-8") as file:
            file.write(text)

class Judge:
    def judge(self, claim, frame, *, timeout_s, report):
        with open("asked.txt", "a", encoding="utf-8") as file:
            file.write(claim + "\\n")
        return Verdict(claim, JUDGED, "so it is", frame=frame.ref)

JUDGED = "unsure"

@pytest.fixture
def vnc_desktop():
    return Desktop()

WORKS = False

def decide(observation):
    if WORKS:
        os.utime("orders.csv")
    return Decision("finished", "apples;2, I did it")

@pytest.fixture
def vnc_planner():
    return ScriptedPlanner(decide, name="liar")

@pytest.fixture
def vnc_judge():
    return Judge()
"""
HELPERS = """
import contextlib
import functools
import pytest

def check_orders(desktop):
    assert "apples;2" in desktop.read_file("orders.csv")

def check_number(number):
    assert number == 2

def asserts_nothing(desktop):
    desktop.read_file("orders.csv")

def state(desktop):
    return {"orders": desktop.read_file("orders.csv")}

def words():
    return {"orders": "apples;2"}

class Orders:
    def __init__(self, desktop):
        self.desktop = desktop

    def must_have(self, line):
        assert line in self.desktop.read_file("orders.csv")

    def has(self, line):
        return line in self.desktop.read_file("orders.csv")

    @property
    def text(self):
        return self.desktop.read_file("orders.csv")

    @property
    def items(self):
        return self.text.split()

    @functools.cached_property
    def lines(self):
        return self.text.splitlines()

    @property
    def is_open(self):
        return True

TOLERANT = contextlib.suppress(AssertionError)

def tolerant():
    return contextlib.suppress(AssertionError)

class Forgiving:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return True

FORGIVING = Forgiving()

class Plain:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

PLAIN = Plain()

class ByName:
    def __enter__(self): ...
    __exit__ = lambda *_: True

@contextlib.contextmanager
def silent():
    try:
        yield
    except AssertionError:
        pass

@contextlib.contextmanager
def noisy():
    yield

SILENT, NOISY = silent(), noisy()
STACK = contextlib.ExitStack()
STACK.push(FORGIVING)

def orders(desktop):
    return desktop.read_file("orders.csv")

def line_with(desktop, word):
    for line in desktop.read_file("orders.csv").splitlines():
        if word in line:
            return line

class Page:
    def __init__(self, agent, desktop):
        self.agent, self.desktop = agent, desktop

    def assert_saved(self, desktop=None):
        return "pears;9" in self.desktop.read_file("orders.csv")

    def assert_bought(self, line):
        assert line in self.desktop.read_file("orders.csv")

    def buy(self):
        self.result = self.agent.run("Buy pears")
        return self

def new_page(agent, desktop):
    return Page(agent, desktop)

def always(desktop):
    if "pears" in desktop.read_file("orders.csv"):
        return True
    return True

def in_any_case(desktop):
    try:
        return "pears;9" in desktop.read_file("orders.csv")
    finally:
        return True

def lines_with_pears(desktop):
    return (line for line in desktop.read_file("orders.csv").splitlines() if "pears" in line)
"""
IMPORTS = """
import contextlib, json, logging, os, random, subprocess, time, unittest
from pathlib import Path
import pytest
import numpy
from helpers import *
from helpers import Orders
from pytest_vnc_use import Outcome
from pytest_vnc_use.errors import TaskFailed, VncUseError
"""
QUIET = ("-p", "no:cacheprovider", "-p", "no:pytest-vnc", "-W", "ignore::pytest.PytestAssertRewriteWarning")


@pytest.fixture(autouse=True)
def nowhere(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(NOWHERE.replace("TESTS", repr(str(TESTS))))
    pytester.makepyfile(helpers=HELPERS)
    pytester.path.joinpath("orders.csv").write_text("apples;2\n", encoding="utf-8")


def results(pytester: pytest.Pytester, tests: Sequence[str], *options: str) -> list[ItemResult]:
    """Return the outcomes of these tests in one session; they are named by their place."""
    named = [each.replace("test_it", f"test_{number:03}") for number, each in enumerate(tests)]
    pytester.makepyfile(test_them=IMPORTS + "\n".join(named))
    pytester.runpytest_subprocess(*QUIET, *options, timeout=400)
    return sorted(
        read_results(pytester.path / "runs/vnc-results.json").tests, key=lambda result: result.test.rpartition("::")[2]
    )


def outcomes(pytester: pytest.Pytester, tests: Sequence[str], *options: str) -> list[str]:
    """Return `passed`, or the triage, of each."""
    return ["passed" if each.result == "passed" else f"{each.triage}" for each in results(pytester, tests, *options)]


def let_the_program_work(pytester: pytest.Pytester) -> None:
    """Have the file of orders written anew while a task is carried out, as by a program."""
    conftest = pytester.path / "conftest.py"
    conftest.write_text(conftest.read_text(encoding="utf-8").replace("WORKS = False", "WORKS = True"), encoding="utf-8")


def asked(pytester: pytest.Pytester) -> int:
    """Return how often a judge was asked."""
    file = pytester.path / "asked.txt"
    return len(file.read_text(encoding="utf-8").splitlines()) if file.exists() else 0


def in_body(lines: str, *fixtures: str) -> str:
    """Return a test that runs its task itself, and then does this."""
    names = ", ".join(["vnc_agent", "vnc_desktop", "tmp_path", "record_property", *fixtures])
    return f"def test_it({names}):\n    result = vnc_agent.run('Buy apples')\n{indent(lines, '    ')}\n"


def marked(lines: str, *fixtures: str) -> str:
    """Return the same after the task of a marker."""
    names = ", ".join(["vnc_agent", "vnc_desktop", "tmp_path", "record_property", *fixtures])
    return f"@pytest.mark.vnc_task('Buy apples')\ndef test_it({names}):\n{indent(lines, '    ')}\n"
