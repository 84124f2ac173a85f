"""What an assertion is about is in doubt where the planner's word, or no look that happened, may be behind it."""

from __future__ import annotations

import pytest

from support.bodies import asked, in_body, let_the_program_work, nowhere as nowhere, outcomes, results

READ = "vnc_desktop.read_file('orders.csv')"
SHOT = "vnc_agent.screenshot()\n"
MINE = """
import contextlib, dataclasses, functools, logging, time, types

def do(agent, task):
    ended = agent.run(task)
    return ended, agent.screenshot()

@dataclasses.dataclass
class StepReport:
    task: str
    outcome: str
    shot: bytes

class Steps:
    def __init__(self, agent):
        self.agent = agent

    def buy(self):
        self.last = self.agent.run("Buy")
        self.shot = self.agent.screenshot()
        return self

class swallow(contextlib.ContextDecorator):
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return True

@contextlib.contextmanager
def tolerates():
    try:
        yield
    except AssertionError:
        logging.error("so what")

@swallow()
def check_swallowed(desktop):
    assert "pears" in desktop.read_file("orders.csv")

@tolerates()
def check_tolerated(desktop):
    assert "pears" in desktop.read_file("orders.csv")

def is_saved(desktop):
    if "pears;9" in desktop.read_file("orders.csv"):
        return True
    else:
        return False

class Matcher:
    def __init__(self, text):
        self.text = text

    def to_contain(self, part):
        return part in self.text

def expect(text):
    return Matcher(text)

def norm(text):
    return text.strip()
"""
WORDS = [
    "result, shot = do(vnc_agent, 'Buy')\nassert result.outcome is Outcome.DONE",
    f"outcome, text = result.outcome, {READ}\nassert outcome == 'done'",
    f"report = StepReport('Buy', str(result.outcome), {SHOT.strip()})\nassert report.outcome == 'done'",
    f"told = {{'outcome': str(result.outcome)}}\ntold['orders'] = {READ}\nassert told['outcome'] == 'done'",
    f"text = {READ}\nsummary = f'{{result.outcome}}: {{text}}'\nassert summary.startswith('done')",
    f"told = dict(outcome=result.outcome, text={READ})\nassert told['outcome'] == 'done'",
    f"told = types.SimpleNamespace(outcome=result.outcome, text={READ})\nassert told.outcome == 'done'",
    f"told = [{READ}, result.outcome]\nassert told[1] == 'done'",
    f"assert {{'text': {READ}, 'outcome': result.outcome}}['outcome'] == 'done'",
    "steps = Steps(vnc_agent).buy()\nassert steps.last.outcome == 'done'",
    "steps = Steps(vnc_agent)\nsteps.buy()\nassert steps.last.outcome == 'done'",
    f"checks = ['pears' in {READ}, result.outcome == 'done']\nassert any(checks)\nassert sum(checks) > 0",
    f"if 'pears' in {READ}:\n    ok = True\nelse:\n    ok = result.outcome == 'done'\nassert ok",
    "log = []\nfor task in ('Buy', 'Pay'):\n    log.append(vnc_agent.run(task).outcome.value)\n"
    "    log.append(len(vnc_agent.screenshot()))\nassert 'done' in log",
    f"errors = []\nif result.outcome != 'done':\n    errors.append({READ})\nassert not errors",
    f"unittest.TestCase().assertIn(result.outcome, ('done', {READ}))",
]
UNSEEN = [
    "from PIL import Image\nimport io\nImage.open(io.BytesIO(vnc_agent.screenshot())).save(tmp_path / 'a.png')\n"
    "assert (tmp_path / 'a.png').exists()",
    "(tmp_path / 'a.png').write_bytes(vnc_agent.screenshot())\nassert list(tmp_path.glob('*.png'))",
    f"{SHOT}with open(tmp_path / 'a.json', 'w') as file:\n    json.dump({{'outcome': result.outcome}}, file)\n"
    "assert json.load(open(tmp_path / 'a.json'))['outcome'] == 'done'",
    f"{SHOT}assert 'done' in (result.run_folder / 'trace.jsonl').read_text()",
    f"{SHOT}assert os.path.isdir(result.run_folder)",
    f"{SHOT}assert result.outcome == Path('expected.txt').read_text()",
    f"{SHOT}assert json.load(open('expected.json'))['number'] == 2",
    f"{SHOT}vnc_desktop.write_file('seed.csv', 'a')\nassert 'a' in vnc_desktop.read_file('seed.csv')",
    f"text = {READ}\ngolden = Path('golden.txt')\nif not golden.exists():\n    golden.write_text(text)\n"
    "assert text == golden.read_text()",
    "shot = vnc_agent.screenshot()\nbaseline = Path('baseline.png')\nif not baseline.exists():\n"
    "    baseline.write_bytes(shot)\nassert shot == baseline.read_bytes()",
    "import sqlite3\nbase = sqlite3.connect(':memory:')\nbase.execute('create table results (outcome)')\n"
    "base.execute('insert into results values (?)', (str(result.outcome),))\n"
    "assert base.execute('select outcome from results').fetchone() == ('done',)",
    f"expect({READ}).to_contain('pears;9')",
]
WAYS = [
    f"end = time.time() + .05\nwhile 'pears;9' not in {READ} and time.time() < end:\n    time.sleep(.01)",
    f"found, tries = False, 0\nwhile not found and tries < 3:\n    found = 'pears' in {READ}\n    tries += 1",
    f"if 'pears' not in {READ} and os.environ.get('STRICT'):\n    pytest.fail('no pears')",
    f"assert not ('pears' not in {READ} and result.outcome != 'done')",
    f"rows = [line for line in {READ}.splitlines() if 'pears' in line]\nwhile rows:\n"
    "    assert rows.pop() == 'pears;9'",
    "is_saved(vnc_desktop)",
    f"text = {READ}\nif not text:\n    pytest.skip('no orders')\nassert result.outcome == 'done'",
    f"if 'pears' in {READ}:\n    print('yes')\n    return\nelse:\n    print('no')\n    return",
    f"rows = [line for line in {READ}.splitlines() if 'pears' in line]\nif not rows:\n    return\n"
    "assert rows[0] == 'pears;9'",
    f"text = {READ}\nif not Path('receipt.txt').exists():\n    return\nassert 'pears' in text",
    "check_swallowed(vnc_desktop)",
    "check_tolerated(vnc_desktop)",
]
FOREGONE = [
    f"number = {READ}.count('pears')\nassert number >= 0",
    f"size = len({READ})\nassert size > -1",
    f"unittest.TestCase().assertTrue(0 <= {READ}.count('pears'))",
    f"rows = list({READ}.splitlines())\nassert rows is not None",
    f"import re\nassert re.findall('pears', {READ}) is not None",
    f"found = 'pears' in {READ}\nassert found in (True, False)",
    f"status = 'ok' if 'pears' in {READ} else 'pending'\nassert status",
    f"assert str('pears' in {READ})",
    f"status = 'ok' if 'pears' in {READ} else 'pending'\nassert status in ('ok', 'pending')",
    f"found = next((line for line in {READ}.splitlines() if 'pears' in line), 'pears;9')\nassert found == 'pears;9'",
    f"orders = dict(line.split(';') for line in {READ}.splitlines())\nassert orders.get('pears', '9') == '9'",
    f"orders = dict(line.split(';') for line in {READ}.splitlines())\nassert orders.setdefault('pears', '9') == '9'",
    f"assert {READ}.count('pears') in range(10)",
    f"assert {READ}.count('pears') in range(0, 10)",
    f"found = []\nfound.append('pears' in {READ})\nassert found",
    f"def verify():\n    return 'pears' in {READ}, 1\nassert verify()",
    "magic = b'PNG'\nassert vnc_agent.screenshot()[:8] != magic",
    "import base64\nassert base64.b64encode(vnc_agent.screenshot()).decode().startswith('iVBOR')",
    f"assert os.environ.get('EXPECTED_LINE', '') in {READ}",
    f"import hashlib\nassert len(hashlib.md5({READ}.encode()).hexdigest()) == 32",
    "try:\n    text = vnc_desktop.read_file('pears.csv')\nexcept FileNotFoundError:\n    text = 'apples;2'\n"
    "assert 'apples;2' in text",
    "text = 'apples;2'\nwith contextlib.suppress(FileNotFoundError):\n    text = vnc_desktop.read_file('pears.csv')\n"
    "assert 'apples;2' in text",
]
UNSURE = [
    "verdict = vnc_agent.verify('x')\nassert verdict.kind != 'fails'",
    "verdict = vnc_agent.verify('x')\nassert not verdict.kind == 'fails'",
    "verdict = vnc_agent.verify('x')\nassert verdict.kind in ('holds', 'unsure')",
    "verdict = vnc_agent.verify('x')\nif verdict.kind == 'fails':\n    pytest.fail(verdict.reason)",
    f"if vnc_agent.verify('x').kind == 'unsure':\n    {SHOT}    return\nassert 'pears' in {READ}",
]
DECORATED = [
    "@swallow()\ndef test_it(vnc_agent, vnc_desktop):\n    vnc_agent.run('Buy')\n"
    "    assert 'pears' in vnc_desktop.read_file('orders.csv')",
    "@tolerates()\ndef test_it(vnc_agent, vnc_desktop):\n    vnc_agent.run('Buy')\n"
    "    assert 'pears' in vnc_desktop.read_file('orders.csv')",
    "@swallow()\n@pytest.mark.vnc_task('Buy')\ndef test_it(vnc_desktop):\n"
    "    assert 'pears' in vnc_desktop.read_file('orders.csv')",
]
STILL = [
    f"outcome, text = result.outcome, {READ}\nassert 'apples;2' in text",
    f"assert result.outcome == 'done' and 'apples;2' in {READ}",
    f"told = {{'outcome': result.outcome, 'text': {READ}}}\nassert 'apples;2' in told['text']",
    f"for number in range(1, 4):\n    try:\n        assert 'apples;2' in {READ}\n        break\n"
    "    except AssertionError:\n        if number == 3:\n            raise",
    f"found = False\nend = time.time() + 5\nwhile time.time() < end and not found:\n    found = 'apples' in {READ}\n"
    "assert found",
    f"orders = dict(line.split(';') for line in {READ}.splitlines())\nassert orders.get('apples', '0') == '2'",
    f"found = next((line for line in {READ}.splitlines() if 'apples' in line), '')\nassert found == 'apples;2'",
    f"status = 'ok' if 'apples' in {READ} else 'pending'\nassert status == 'ok'",
    f"assert {READ}.count('apples') in range(1, 3)",
    "path = Path('orders.csv').resolve()\nassert path.read_text().endswith('2\\n')",
    f"assert [*{READ}.splitlines()] == ['apples;2']",
    "assert " + "norm(" * 16 + READ + ")" * 16 + " == 'apples;2'",
]
WHOLE_STILL = [
    f"@pytest.fixture\ndef text(vnc_agent, vnc_desktop):\n    vnc_agent.run('Buy')\n    return {READ}\n"
    "def test_it(text):\n    assert 'apples;2' in text",
    f"@pytest.fixture\ndef number(vnc_agent, vnc_desktop):\n    vnc_agent.run('Buy')\n\n"
    f"    return len({READ}.splitlines())\ndef test_it(number):\n    assert number == 1",
]
IMPORTS = "import types\nfrom helpers import StepReport, Steps, check_swallowed, check_tolerated, do, expect\n"
MORE_IMPORTS = "from helpers import is_saved, norm, swallow, tolerates\n"


@pytest.fixture(autouse=True)
def _files(nowhere: None, pytester: pytest.Pytester) -> None:
    helpers = pytester.path / "helpers.py"
    helpers.write_text(helpers.read_text(encoding="utf-8") + MINE, encoding="utf-8")
    pytester.path.joinpath("expected.txt").write_text("done", encoding="utf-8")
    pytester.path.joinpath("expected.json").write_text('{"outcome": "done", "number": 2}', encoding="utf-8")


@pytest.mark.slow
def test_what_is_in_doubt_is_judged(pytester: pytest.Pytester) -> None:
    tests = [*map(in_body, [*WORDS, *UNSEEN, *WAYS, *FOREGONE, *UNSURE]), *DECORATED]
    found = outcomes(pytester, [IMPORTS + MORE_IMPORTS + tests[0], *tests[1:]])
    assert {lines: how for lines, how in zip(tests, found, strict=True) if how != "inconclusive"} == {}


def test_what_is_not_in_doubt_needs_no_judge(pytester: pytest.Pytester) -> None:
    let_the_program_work(pytester)
    tests = [*map(in_body, STILL), *WHOLE_STILL]
    found = results(pytester, [IMPORTS + MORE_IMPORTS + tests[0], *tests[1:]])
    wrong = {lines: test.message for lines, test in zip(tests, found, strict=True) if test.result != "passed"}
    assert wrong == {}
    assert asked(pytester) == 0
