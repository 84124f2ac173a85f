"""A planner that answers "finished" at once passes no test, in whatever spelling; and what is really asserted counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import indent

import pytest

from pytest_vnc_use.report.results import ItemResult, read_results

NOWHERE = """
import sys
import pytest
from pytest_vnc_use import assembly
sys.path.append(TESTS)
from painted import PaintedController
assembly.connect = lambda *args, **options: PaintedController()
from pytest_vnc_use.planners.scripted import ScriptedPlanner
from pytest_vnc_use.types import Decision, Verdict

class Desktop:
    server, password = "localhost::1", None

    def read_file(self, name):
        with open(name, encoding="utf-8") as file:
            return file.read()

class Judge:
    def judge(self, claim, frame, *, timeout_s, report):
        with open("asked.txt", "a", encoding="utf-8") as file:
            file.write(claim + "\\n")
        return Verdict(claim, JUDGED, "so it is", frame=frame.ref)

JUDGED = "unsure"

@pytest.fixture
def vnc_desktop():
    return Desktop()

@pytest.fixture
def vnc_planner():
    return ScriptedPlanner(lambda observation: Decision("finished", "apples;2, I did it"), name="liar")

@pytest.fixture
def vnc_judge():
    return Judge()
"""
HELPERS = """
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
def _nowhere(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(NOWHERE.replace("TESTS", repr(str(Path(__file__).parent))))
    pytester.makepyfile(helpers=HELPERS)
    pytester.path.joinpath("orders.csv").write_text("apples;2\n", encoding="utf-8")


def results(pytester: pytest.Pytester, tests: Sequence[str], *options: str) -> list[ItemResult]:
    """How each of these tests ended, in one session; they are named by their place."""
    named = [each.replace("test_it", f"test_{number:03}") for number, each in enumerate(tests)]
    pytester.makepyfile(test_them=IMPORTS + "\n".join(named))
    pytester.runpytest_subprocess(*QUIET, *options, timeout=120)
    return sorted(read_results(pytester.path / "runs/vnc-results.json").tests, key=lambda result: result.test)


def outcomes(pytester: pytest.Pytester, tests: Sequence[str], *options: str) -> list[str]:
    """`passed`, or the triage, of each."""
    return ["passed" if each.result == "passed" else f"{each.triage}" for each in results(pytester, tests, *options)]


def asked(pytester: pytest.Pytester) -> int:
    """How often a judge was."""
    file = pytester.path / "asked.txt"
    return len(file.read_text(encoding="utf-8").splitlines()) if file.exists() else 0


def in_body(lines: str, *fixtures: str) -> str:
    """A test that runs its task itself, and then does this."""
    names = ", ".join(["vnc_agent", "vnc_desktop", "tmp_path", "record_property", *fixtures])
    return f"def test_it({names}):\n    result = vnc_agent.run('Buy apples')\n{indent(lines, '    ')}\n"


def marked(lines: str, *fixtures: str) -> str:
    """The same after the task of a marker."""
    names = ", ".join(["vnc_agent", "vnc_desktop", "tmp_path", "record_property", *fixtures])
    return f"@pytest.mark.vnc_task('Buy apples')\ndef test_it({names}):\n{indent(lines, '    ')}\n"


NOTHING = [
    "pass",
    "record_property('apples', 2)",
    "time.sleep(0.01)",
    "(tmp_path / 'e.png').write_bytes(vnc_agent.screenshot())",
    "'apples;2' in vnc_desktop.read_file('orders.csv')",
    "assert True",
    "assert 1 + 1 == 2, 'of course'",
    "assert ('apples' in vnc_desktop.read_file('orders.csv'), 'always true')",
    "if False:\n    assert vnc_desktop.read_file('orders.csv')",
    "if os.environ.get('NEVER'):\n    assert vnc_desktop.read_file('orders.csv')",
    "def check():\n    assert vnc_desktop.read_file('orders.csv')",
    "try:\n    pass\nexcept ValueError:\n    assert vnc_desktop.read_file('orders.csv')",
    "try:\n    assert 'pears' in vnc_desktop.read_file('orders.csv')\nexcept AssertionError:\n    pass",
    "try:\n    assert vnc_desktop.read_file('nothing.csv')\nexcept OSError:\n    pass",
    "with contextlib.suppress(AssertionError):\n    assert 'pears' in vnc_desktop.read_file('orders.csv')",
    "return\nassert vnc_desktop.read_file('orders.csv')",
    "if random.random() < 2:\n    return\nassert vnc_desktop.read_file('orders.csv')",
    "for line in []:\n    assert line in vnc_desktop.read_file('orders.csv')",
    "for line in vnc_desktop.read_file('orders.csv').splitlines()[5:]:\n    assert 'pears' in line",
    "while random.random() > 2:\n    assert vnc_desktop.read_file('orders.csv')",
    "assert vnc_agent",
    "assert vnc_desktop.server",
    "assert vnc_desktop.read_file",
    "assert vnc_agent.screenshot()",
    "shot = vnc_agent.screenshot()\nassert len(shot) > 100",
    "import helpers\nhelpers.asserts_nothing(vnc_desktop)",
    "path = tmp_path / 'e.png'\npath.write_bytes(vnc_agent.screenshot())\nassert path.exists()",
    "assert isinstance(vnc_agent.runs, list)",
    "assert len(vnc_desktop.read_file('orders.csv')) >= 0",
    "assert vnc_desktop.read_file('orders.csv') or True",
    "assert time.time() > 0",
    "check_number(2)",
    "asserts_nothing(vnc_desktop)",
    "print(state(vnc_desktop))",
    "assert words()['orders'] == 'apples;2'",
    "Orders(vnc_desktop).has('pears;9')",
    "orders = Orders(vnc_desktop)\nassert orders.has",
    "with pytest.raises(ValueError):\n    raise ValueError",
    "with pytest.raises(AssertionError):\n    assert 1 == 2",
    "vnc_agent.check(True, 'all is well')",
    "numpy.testing.assert_equal(1, 1)",
    "unittest.TestCase().assertEqual(2, 2)",
    "logging.getLogger().info(vnc_desktop.read_file('orders.csv'))",
    "lambda: check_orders(vnc_desktop)",
    "text = vnc_desktop.read_file('orders.csv')\ntext == 'pears'",
    "assert not [] and (yes := True)",
    "if vnc_desktop.read_file('orders.csv') == 'pears':\n    print('wrong')",
    "os.environ.get('NEVER') and check_orders(vnc_desktop)",
    "all(check_orders(vnc_desktop) for _ in [])",
    "subprocess.run(['true'], check=True)",
    "json.dumps({'a': 1})",
]
WORDS = [
    "assert result.outcome is Outcome.DONE",
    "assert result.outcome == 'done'",
    "assert result.message == 'apples;2, I did it'",
    "assert 'apples;2' in result.message",
    "assert len(result.steps) == 0",
    "assert result is not None",
    "message = result.message\nassert message.startswith('apples')",
    "assert str(result.outcome.value) == 'done'",
    "done = result.outcome is Outcome.DONE\nassert done",
    "if result.outcome is not Outcome.DONE:\n    pytest.fail('not done')",
    "check_number(len(result.steps) + 2)",
    "unittest.TestCase().assertEqual(result.outcome, Outcome.DONE)",
    "assert result.run_folder.exists()",
    "assert vnc_agent.runs",
    "vnc_agent.check(result.outcome is Outcome.DONE, 'it is done')",
]
SOMETHING = [
    "assert 'apples;2' in vnc_desktop.read_file('orders.csv')",
    "text = vnc_desktop.read_file('orders.csv')\nassert text.splitlines() == ['apples;2']",
    "check_orders(vnc_desktop)",
    "check_number(len(vnc_desktop.read_file('orders.csv').splitlines()) + 1)",
    "assert state(vnc_desktop)['orders'] == 'apples;2\\n'",
    "assert (state(vnc_desktop)['orders'], 1) == ('apples;2\\n', 1)",
    "Orders(vnc_desktop).must_have('apples;2')",
    "orders = Orders(vnc_desktop)\norders.must_have('apples;2')",
    "orders = Orders(vnc_desktop)\nassert orders.has('apples;2')",
    "assert Orders(vnc_desktop).text == 'apples;2\\n'",
    "with pytest.raises(FileNotFoundError):\n    vnc_desktop.read_file('pears.csv')",
    "if 'apples' not in vnc_desktop.read_file('orders.csv'):\n    pytest.fail('no apples')",
    "if 'apples' not in vnc_desktop.read_file('orders.csv'):\n    raise AssertionError",
    "for line in ('apples', '2'):\n    assert line in vnc_desktop.read_file('orders.csv')",
    "try:\n    assert vnc_desktop.read_file('orders.csv')\nfinally:\n    print('over')",
    "try:\n    text = vnc_desktop.read_file('orders.csv')\nexcept OSError:\n    pytest.fail('no orders')\nassert text",
    "with open('orders.csv') as file:\n    assert 'apples;2' in file.read()",
    "assert Path('orders.csv').read_text() == 'apples;2\\n'",
    "assert subprocess.check_output(['cat', 'orders.csv']) == b'apples;2\\n'",
    "vnc_agent.check(vnc_desktop.read_file('orders.csv') == 'apples;2\\n', 'two apples')",
    "numpy.testing.assert_equal(vnc_desktop.read_file('orders.csv'), 'apples;2\\n')",
    "unittest.TestCase().assertIn('apples;2', vnc_desktop.read_file('orders.csv'))",
    "def check():\n    assert vnc_desktop.read_file('orders.csv')\ncheck()",
    "match vnc_desktop.read_file('orders.csv'):\n    case 'apples;2\\n':\n        check_orders(vnc_desktop)\n"
    "    case _:\n        pytest.fail('other')",
    "while True:\n    if vnc_desktop.read_file('orders.csv'):\n        break\ncheck_orders(vnc_desktop)",
    "rows = [line for line in vnc_desktop.read_file('orders.csv').splitlines() if line]\nassert len(rows) == 1",
    "(row,) = vnc_desktop.read_file('orders.csv').splitlines()\nassert row == 'apples;2'",
]


@pytest.mark.parametrize("made", [in_body, marked])
def test_a_body_that_says_nothing_of_the_product_is_judged(
    pytester: pytest.Pytester, made: Callable[[str], str]
) -> None:
    found = outcomes(pytester, [made(lines) for lines in NOTHING])
    assert {lines: how for lines, how in zip(NOTHING, found, strict=True) if how != "inconclusive"} == {}
    assert asked(pytester) == len(NOTHING)


def test_the_planners_own_words_are_judged(pytester: pytest.Pytester) -> None:
    found = outcomes(pytester, [in_body(lines) for lines in WORDS])
    assert {lines: how for lines, how in zip(WORDS, found, strict=True) if how != "inconclusive"} == {}


@pytest.mark.parametrize("made", [in_body, marked])
def test_what_is_asserted_of_the_product_needs_no_judge(pytester: pytest.Pytester, made: Callable[[str], str]) -> None:
    found = outcomes(pytester, [made(lines) for lines in SOMETHING])
    assert {lines: how for lines, how in zip(SOMETHING, found, strict=True) if how != "passed"} == {}
    assert asked(pytester) == 0
