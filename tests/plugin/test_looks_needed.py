"""Whatever a test asserts, it passes only where something of the product can have come to it; and real checks count."""

from __future__ import annotations

import pytest

from support.bodies import (
    asked,
    in_body,
    let_the_program_work,
    marked,
    nowhere as nowhere,
    outcomes,
    results,
)

pytestmark = pytest.mark.slow

LINE = "apples;2"
READ = "vnc_desktop.read_file('orders.csv')"
MORE_HELPERS = """
import contextlib, dataclasses, functools, logging, pathlib, pickle, re, time, types

RESULTS = []

class Runner:
    def __init__(self, agent):
        self.agent, self.results = agent, {}

    def do(self, task):
        self.results[task] = self.agent.run(task).outcome.value

    def all_done(self):
        return set(self.results.values()) == {"done"}

def save_shot(agent, path):
    pathlib.Path(path).write_bytes(agent.screenshot())

@dataclasses.dataclass
class Row:
    fruit: str
    number: int

class Shop:
    def __init__(self, agent, desktop):
        self.agent, self.desktop = agent, desktop

    def buy(self):
        self.result = self.agent.run("Buy pears")
        return self

    def is_done(self):
        return self.result.outcome.startswith("done")

    def check_bought(self):
        assert "apples;2" in self.desktop.read_file("orders.csv")

    def buy_and_read(self):
        self.agent.run("Buy pears")
        return self.desktop.read_file("orders.csv")

def wait_for(condition, timeout_s=5.0):
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        if condition():
            return True
    return False

def wait_until(condition, timeout_s=5.0):
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        if condition():
            return
    raise AssertionError("it never came")

@contextlib.contextmanager
def step(title):
    try:
        yield
    except BaseException:
        logging.error(title)
        raise
"""
LIES = [
    "class Keeps:\n    def check(self):\n        assert self.result.outcome.startswith('done')\n"
    "keeps = Keeps()\nkeeps.result = result\nkeeps.check()",
    "import re\nassert (found := re.match(r'(\\w+)', str(result.outcome))) and found.group(1) == 'done'",
    "match result.outcome.split():\n    case [word]:\n        assert word.startswith('done')\n    case _:\n"
    "        pytest.fail('not done')",
    "assert (words := result.message) and words.startswith('apples')",
    "with contextlib.nullcontext(result) as ended:\n    assert ended.message.startswith('apples')",
    "assert result.outcome == Path('expected.txt').read_text()",
    "assert json.loads(Path('expected.json').read_text())['outcome'] == result.outcome",
    "assert json.load(open('expected.json'))['number'] == 2",
    "assert Path('expected.json').exists()",
    "with pytest.raises(ValueError, match='no'):\n    raise ValueError('no')",
    "with unittest.TestCase().assertRaisesRegex(ValueError, 'no'):\n    raise ValueError('no')",
    "RESULTS.append(result)\nassert RESULTS[-1].outcome == 'done'",
    "runner = Runner(vnc_agent)\nrunner.do('Buy pears')\nassert runner.all_done()",
    "context = types.SimpleNamespace(outcome=str(result.outcome))\nassert context.outcome.startswith('done')",
    "context = types.SimpleNamespace(history=[])\ncontext.history.append(result)\n"
    "assert context.history[-1].outcome == 'done'",
    "save_shot(vnc_agent, tmp_path / 'after.png')\nassert (tmp_path / 'after.png').exists()",
    "vnc_desktop.write_file('seed.csv', 'apples;2')\nassert 'apples;2' in vnc_desktop.read_file('seed.csv')",
    "assert 'done' in (result.run_folder / 'trace.jsonl').read_text()",
    "assert (vnc_agent.runs[-1] / 'trace.jsonl').exists()",
    "import ast\nassert ast.literal_eval(repr(result.outcome.value)) == 'done'",
    "import shlex\nassert shlex.split(result.message)",
    "errors = []\ndef expect(ok, message):\n    if not ok:\n        errors.append(message)\n"
    "expect(result.outcome == 'done', 'not done')\nassert not errors, errors",
    f"ok = 'apples' in {READ}\nassert ok is not None",
    f"checks = {{'bought': 'pears' in {READ}}}\nassert all(checks)",
    f"assert any(['pears' in {READ}, result.outcome == 'done'])",
    f"unittest.TestCase().assertIsNotNone({READ})",
    f"unittest.TestCase().assertIsInstance({READ}, str)",
    "assert len(os.listdir('.')) > 0",
    "assert not list(tmp_path.iterdir())",
    f"text = {READ} or ''\nassert text is not None",
    f"for number in range(3):\n    try:\n        assert 'pears' in {READ}\n        break\n    except AssertionError:\n"
    "        if number == 99:\n            raise",
    f"try:\n    assert 'pears' in {READ}\nexcept AssertionError:\n    if os.environ.get('STRICT'):\n        raise",
    "shop = Shop(vnc_agent, vnc_desktop).buy()\nshop.desktop.read_file('orders.csv')\nassert shop.is_done()",
    f"for _ in range(3):\n    if 'pears' in {READ}:\n        break\nelse:\n    print('never')",
    f"end = time.time() + 0.1\nwhile time.time() < end:\n    if 'pears' in {READ}:\n        return",
    f"number = 0\nwhile 'pears' not in {READ}:\n    number += 1\n    if number > 2:\n        return",
    f"try:\n    assert 'pears' in {READ}\n    ok = True\nexcept AssertionError:\n    ok = True\nassert ok",
    "assert os.listdir('/proc/self/fd')",
]
WHOLE_LIES = [
    "RESULTS_HERE = []\ndef test_it(vnc_agent):\n    RESULTS_HERE.append(vnc_agent.run('Buy'))\n"
    "    assert RESULTS_HERE[-1].outcome == 'done'",
    "@pytest.fixture\ndef bought(vnc_agent):\n    return {'result': vnc_agent.run('Buy')}\n"
    "def test_it(bought):\n    assert bought['result'].outcome == 'done'",
    "@pytest.mark.vnc_task('Buy')\n@pytest.mark.parametrize('row', [{'fruit': 'apples', 'number': 2}])\n"
    "def test_it(row):\n    assert row['number'] == 2",
    "@pytest.mark.vnc_task('Buy')\n@pytest.mark.parametrize('row', [Row('apples', 2)])\n"
    "def test_it(row):\n    assert row.number == 2",
    "@pytest.fixture\ndef mails():\n    return ['a mail']\n"
    "def test_it(vnc_agent, mails):\n    vnc_agent.run('Buy apples')\n    assert mails == ['a mail']",
    "@pytest.fixture\ndef no_leak():\n    before = len(os.listdir('/proc/self/fd'))\n    yield\n"
    "    assert len(os.listdir('/proc/self/fd')) < before + 50\n"
    "def test_it(vnc_agent, no_leak):\n    vnc_agent.run('Buy')",
    "@pytest.fixture\ndef nothing_left(tmp_path):\n    yield\n    assert not list(tmp_path.iterdir())\n"
    "def test_it(vnc_agent, nothing_left):\n    vnc_agent.run('Buy')",
    "class TestIt:\n    def test_it(self, vnc_agent):\n        self.result = vnc_agent.run('Buy')\n"
    "        self.check()\n"
    "    def check(self):\n        assert self.result.outcome.startswith('done')",
    "class TestAll(unittest.TestCase):\n    @pytest.fixture(autouse=True)\n    def _agent(self, vnc_agent):\n"
    "        self.agent = vnc_agent\n    def test_it(self):\n        self.result = self.agent.run('Buy')\n"
    "        self.assertTrue(self.result.outcome.startswith('done'))",
]
CHECKS = [
    "Shop(vnc_agent, vnc_desktop).buy().check_bought()",
    f"assert '{LINE}' in Shop(vnc_agent, vnc_desktop).buy_and_read()",
    f"for _ in range(20):\n    if '{LINE}' in {READ}:\n        break\nelse:\n    pytest.fail('never')",
    f"end = time.time() + 5\nwhile '{LINE}' not in {READ}:\n    if time.time() > end:\n        pytest.fail('never')",
    f"end = time.time() + 5\nwhile time.time() < end:\n    if '{LINE}' in {READ}:\n        return\n"
    f"pytest.fail('never')",
    f"for number in range(5):\n    try:\n        assert '{LINE}' in {READ}\n        break\n    except AssertionError:\n"
    "        if number == 4:\n            raise",
    f"tries = 5\nfor number in range(tries):\n    try:\n        assert '{LINE}' in {READ}\n        break\n"
    "    except AssertionError:\n        if number == tries - 1:\n            raise",
    f"assert wait_for(lambda: '{LINE}' in {READ})",
    f"wait_until(lambda: '{LINE}' in {READ})",
    f"missing = [word for word in ('apples', '2') if word not in {READ}]\nassert not missing",
    f"errors = []\nif '{LINE}' not in {READ}:\n    errors.append('no apples')\nassert not errors",
    f"with step('check'):\n    assert '{LINE}' in {READ}",
    f"expected = ['apples', '2']\nfor each in expected:\n    assert each in {READ}",
    f"expected = {{'apples': 0, '2': 7}}\nfor each, at in expected.items():\n    assert {READ}.index(each) == at",
    f"for number in range(0, 2):\n    assert '{LINE}' in {READ}",
    f"text = {READ} or ''\nassert '{LINE}' in text",
    f"import re\nfound = re.search(r';(\\d)', {READ})\nnumber = int(found.group(1)) if found else None\n"
    f"assert number == 2",
    f"try:\n    number = int({READ}.split(';')[1])\nexcept ValueError:\n    number = None\nassert number == 2",
    f"match {READ}.split():\n    case ['{LINE}', *_]:\n        pass\n    case other:\n        pytest.fail('other')",
    f"match {READ}.strip().split(';'):\n    case [fruit, number]:\n"
    f"        assert (fruit, int(number)) == ('apples', 2)\n"
    "    case _:\n        raise AssertionError",
    f"import asyncio\nasync def go():\n    assert '{LINE}' in {READ}\nasyncio.run(go())",
    f"'{LINE}' in {READ} or pytest.fail('no apples')",
    "assert Path('orders.csv').exists()",
    "assert 'apples' in Path('orders.csv').read_text()",
]
WHOLE_CHECKS = [
    "STUB = []\n@pytest.fixture\ndef by_mail():\n    return ScriptedPlanner(lambda o: (STUB.append('a mail'), "
    "Decision('finished', 'x'))[1])\ndef test_it(vnc_agent, by_mail):\n"
    "    vnc_agent.run('Buy', planner=by_mail)\n    assert STUB == ['a mail']",
    "@pytest.fixture\ndef orders_are_whole(vnc_desktop):\n    yield\n"
    f"    assert '{LINE}' in {READ}\ndef test_it(vnc_agent, orders_are_whole):\n    vnc_agent.run('Buy')",
    "@pytest.fixture\ndef orders_are_there():\n    yield\n    assert Path('orders.csv').exists()\n"
    "def test_it(vnc_agent, orders_are_there):\n    vnc_agent.run('Buy')",
    "import sqlite3\n@pytest.fixture\ndef db():\n    base = sqlite3.connect('orders.db')\n"
    "    base.execute('create table if not exists orders (fruit)')\n"
    "    base.execute(\"insert into orders values ('pears')\")\n"
    "    return base\ndef test_it(vnc_agent, db):\n    vnc_agent.run('Buy')\n"
    "    assert db.execute('select count(*) from orders').fetchone()[0] > 0",
]
IMPORTS = "import types\nfrom helpers import Row, RESULTS, Runner, Shop, save_shot, step, wait_for, wait_until\n"
PLANS = "from pytest_vnc_use.planners.scripted import ScriptedPlanner\nfrom pytest_vnc_use.types import Decision\n"


@pytest.fixture(autouse=True)
def _files(nowhere: None, pytester: pytest.Pytester) -> None:
    helpers = pytester.path / "helpers.py"
    helpers.write_text(helpers.read_text(encoding="utf-8") + MORE_HELPERS, encoding="utf-8")
    pytester.path.joinpath("expected.txt").write_text("done", encoding="utf-8")
    pytester.path.joinpath("expected.json").write_text('{"outcome": "done", "number": 2}', encoding="utf-8")


def test_without_a_look_nothing_passes(pytester: pytest.Pytester) -> None:
    tests = [*map(in_body, LIES), *WHOLE_LIES]
    found = outcomes(pytester, [IMPORTS + tests[0], *tests[1:]])
    assert {lines: how for lines, how in zip(tests, found, strict=True) if how != "inconclusive"} == {}


def test_what_a_test_really_checks_needs_no_judge(pytester: pytest.Pytester) -> None:
    let_the_program_work(pytester)
    tests = [*map(in_body, CHECKS), *map(marked, CHECKS[2:]), *WHOLE_CHECKS]
    found = results(pytester, [IMPORTS + PLANS + tests[0], *tests[1:]])
    wrong = {lines: test.message for lines, test in zip(tests, found, strict=True) if test.result != "passed"}
    assert wrong == {}
    assert asked(pytester) == 0
