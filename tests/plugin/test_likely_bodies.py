"""Bodies that an engineer may well write: some cannot fail by mistake, others are sound and need no judge."""

from __future__ import annotations

import pytest

from support.bodies import asked, in_body, let_the_program_work, nowhere as nowhere, outcomes

pytestmark = pytest.mark.slow

READ = "vnc_desktop.read_file('orders.csv')"
FIRST = f"text = {READ}\n"
CANNOT_FAIL = [
    "rows = [line for line in text.splitlines() if line.startswith('pears')]\ni = 0\n"
    "while i < len(rows):\n    assert rows[i] == 'pears;2'\n    i += 1",
    "rows = iter(text.splitlines()[1:])\nwhile (row := next(rows, None)) is not None:\n    assert 'pears' in row",
    "with open('orders.csv') as file:\n    file.readline()\n"
    "    while line := file.readline():\n        assert 'pears' in line",
    "async def has(text, word):\n    return word in text\nassert has(text, 'pears')",
    "def find_all(text):\n    for line in text.splitlines():\n        if 'pears' in line:\n            yield line\n"
    "assert find_all(text)",
    "rows = (line for line in text.splitlines() if 'pears' in line)\nfor row in rows:\n    assert row == 'pears;2'",
    "assert [word in text for word in ('pears', 'bread')]",
    "assert filter(lambda line: 'pears' in line, text.splitlines())",
    "import re\nassert re.finditer('pears', text)",
    "import re\nassert re.search('pears|', text)",
    "import re\nassert re.search(r'[a-z]*', text)",
    "if not filter(lambda line: 'pears' in line, text.splitlines()):\n    pytest.fail('no pears')",
    "import csv, io\nassert csv.DictReader(io.StringIO(text))",
    "assert Path('.').glob('*.xlsx')",
    "unittest.TestCase().assertTrue(filter(None, text.splitlines()))",
    "unittest.TestCase().assertGreater(len(vnc_agent.screenshot()), 0)",
    "unittest.TestCase().assertIn(b'PNG', vnc_agent.screenshot())",
    "unittest.TestCase().assertGreaterEqual(text.count('pears'), 0)",
    "unittest.TestCase().assertNotEqual(text, None)",
    "unittest.TestCase().assertIn('', text)",
    "unittest.TestCase().assertIsNot(text.splitlines(), [])",
    "unittest.TestCase().assertNotIsInstance(text, int)",
    r"unittest.TestCase().assertRegex(text, r'\d*')",
    "import tomli\nassert tomli.loads(\"product = 'apples'\")['product'] == 'apples'",
    "import shlex\nassert shlex.split('apples 2') == ['apples', '2']",
    "import glob\nassert glob.glob('*.dmp') == []",
    f"with pytest.raises(Exception):\n    wants_pears({READ})",
    f"with unittest.TestCase().assertRaises(Exception):\n    assert 'pears' in {READ}",
    f"{READ}\nwith pytest.raises(Exception):\n    vnc_desktop.read('orders.csv')",
    f"with soft_step('pears'):\n    assert 'pears' in {READ}",
    "assert os.environ.get('NO_SUCH_WORD', '') in text",
    "word = ''\nassert word in text",
    "assert WANTED <= set(text.split())",
    "missing = WANTED - set(text.split())\nassert not missing",
    "missing = [word for word in WANTED if word not in text]\nassert not missing",
    "assert vnc_desktop.run(['grep', 'pears', 'orders.csv']).exit_code is not None",
    "assert status_of(vnc_desktop) == 'ordered'",
    "assert is_bought(vnc_desktop, 'pears')",
    "assert Order(text)",
    "assert 'APPLES' not in text.lower()",
    "assert text.splitlines() is not []",
    "assert text.split(';') != []",
    "assert bool(text.find('pears'))",
    "import io\nfrom PIL import Image, ImageChops\none = Image.open(io.BytesIO(vnc_agent.screenshot()))\n"
    "other = Image.open(io.BytesIO(vnc_agent.screenshot()))\nassert ImageChops.difference(one, other)",
    "import io\nfrom PIL import Image\nassert Image.open(io.BytesIO(vnc_agent.screenshot())).histogram()",
    "assert text.find('pears') >= -1",
    "wants_softly(text, 'pears')",
    f"error = None\ntry:\n    assert 'pears' in {READ}\nexcept AssertionError:\n    error = None\nassert error is None",
    "row = text.partition('pears')[2]\ni = 0\nwhile i < len(row):\n    assert row == 'pears'\n    i += 1",
    "import typing\ntyping.assert_type(text, str)",
]
SOUND = [
    "for name, number in EXPECTED.items():\n    assert f'{name};{number}' in text",
    "assert all(f'{name};{number}' in text for name, number in EXPECTED.items())",
    "wants_logged(text, 'apples')",
    "assert logged_text(vnc_desktop) == 'apples;2\\n'",
    "assert text.find('apples;2') >= 0",
    "assert text.find('apples') > -1",
    "assert text.index('apples') >= 0",
    "has_all(vnc_desktop, 'apples', '2')",
    "has_each(vnc_desktop, apples=2)",
    "for name, number in zip(['apples'], [2]):\n    assert f'{name};{number}' in text",
    "for want, got in zip(['apples;2'], text.splitlines(), strict=True):\n    assert want == got",
    "for word in 'apples 2'.split():\n    assert word in text",
    "names = ['apples'] + ['2']\nfor name in names:\n    assert name in text",
    "for number in range(len(ROWS)):\n    assert text.splitlines()[number] == ROWS[number]",
    "for name, number in dict(apples=2).items():\n    assert f'{name};{number}' in text",
    "for row in reversed(ROWS):\n    assert row in text",
    "for fruit in Fruit:\n    assert fruit.value in text",
    f"errors = []\nfor word in ('apples', '2'):\n    try:\n        assert word in {READ}\n"
    "    except AssertionError as error:\n        errors.append(str(error))\nassert not errors, errors",
    f"ok = True\nfor word in ('apples', '2'):\n    ok &= word in {READ}\nassert ok",
    f"failed = False\ntry:\n    assert 'apples' in {READ}\nexcept AssertionError:\n    failed = True\n"
    "assert not failed",
    "assert 'apples;2' in orders()",
    "assert row_of(text, 'apples')",
    "assert [line for line in text.splitlines() if line]",
    "unittest.TestCase().assertEqual(text, 'apples;2\\n')",
    "unittest.TestCase().assertGreater(len(text), 2)",
    "unittest.TestCase().assertRegex(text, 'apples;[0-9]')",
    "import re\nassert re.search('^apples', text)",
    f"{FIRST}while 'apples' not in text:\n    text = vnc_desktop.read_file('orders.csv')",
    "with pytest.raises(FileNotFoundError):\n    vnc_desktop.read_file('refunds.csv')",
    f"with step('bought'):\n    assert 'apples' in {READ}",
    "assert 'error' not in text.lower()",
    "assert text.split(';') == ['apples', '2\\n']",
    "import re\nassert re.fullmatch(r'(\\w+[;\\s]?)*', text)",
    "import re\nassert re.search(r'(.*)*x|apples', text, flags=re.S)",
    f"{FIRST}while 'apples' not in text:\n    assert 'error' not in text\n    text = {READ}",
    f"while 'apples' not in (text := {READ}):\n    assert 'error' not in text",
    "with pytest.raises(Exception) as info:\n    vnc_desktop.read_file('refunds.csv')\n"
    "assert 'refunds' in str(info.value)",
    f"with pytest.raises(AssertionError):\n    assert 'pears' in {READ}",
    "assert text[0] in 'abc'",
    "word = ''\nword += 'apples'\nassert word in text",
    "assert Table(vnc_desktop).execute('apples')",
    "assert order_of(text)",
    "wants_first(text)",
    "assert any(line.startswith('apples') for line in text.splitlines())",
]
HELPERS = """
import contextlib, enum, functools
WANTED = set()
EXPECTED = {"apples": 2}
ROWS = ["apples;2"]

class Fruit(enum.Enum):
    APPLES = "apples"

class Order:
    def __init__(self, text):
        self.text = text

class Table:
    def __init__(self, desktop):
        self.desktop = desktop

    def execute(self, word):
        return [line for line in self.desktop.read_file("orders.csv").splitlines() if word in line]

def order_of(text) -> Order | None:
    for line in text.splitlines():
        if line.startswith("apples"):
            return Order(line)

def soft(function, *args, **kw):
    try:
        function(*args, **kw)
    except AssertionError:
        pass

def softly(function):
    @functools.wraps(function)
    def call(*args, **kw):
        return soft(function, *args, **kw)
    return call

@softly
def wants_softly(text, word):
    assert word in text

def first(function):
    @functools.wraps(function)
    def call(text, *args, **kw):
        assert "apples" in text
        return function(text, *args, **kw)
    return call

@first
def wants_first(text):
    print(text)

@contextlib.contextmanager
def soft_step(title, soft=True):
    try:
        yield
    except AssertionError:
        print(title)
        if soft:
            return
        raise

@contextlib.contextmanager
def step(title):
    try:
        yield
    except AssertionError:
        print(title)
        raise

def wants_pears(text):
    assert "pears" in text

def status_of(desktop):
    try:
        return desktop.read_file("orders.csv").split(";")[7]
    except IndexError:
        return "ordered"

def is_bought(desktop, word):
    if word in desktop.read_file("orders.csv"):
        return True
    return f"{word} are missing"

def logged(function):
    @functools.wraps(function)
    def call(*args, **kw):
        print("check", function.__name__)
        return function(*args, **kw)
    return call

@logged
def wants_logged(text, word):
    assert word in text

@logged
def logged_text(desktop):
    return desktop.read_file("orders.csv")

def has_all(desktop, *words):
    text = desktop.read_file("orders.csv")
    for word in words:
        assert word in text

def has_each(desktop, **expected):
    text = desktop.read_file("orders.csv")
    for name, number in expected.items():
        assert f"{name};{number}" in text

def row_of(text, word):
    for line in text.splitlines():
        if line.startswith(word):
            return (line, 1)
"""
IMPORTS = (
    "from likely import (EXPECTED, ROWS, WANTED, Fruit, Order, Table, has_all, has_each, is_bought, logged_text, "
    "order_of, row_of, soft_step, status_of, step, wants_first, wants_logged, wants_pears, wants_softly)\n"
)


@pytest.fixture(autouse=True)
def _files(nowhere: None, pytester: pytest.Pytester) -> None:
    pytester.path.joinpath("likely.py").write_text(HELPERS, encoding="utf-8")


def of(lines: str) -> str:
    """Return the test with this body, which may use the fixture `orders`."""
    test = in_body(lines if READ in lines else FIRST + lines)
    return test.replace("(vnc_agent", "(orders, vnc_agent", 1) if "orders()" in lines else test


ORDERS = "@pytest.fixture\ndef orders(vnc_desktop):\n    return lambda: vnc_desktop.read_file('orders.csv')\n"


def test_a_body_that_cannot_fail_is_judged(pytester: pytest.Pytester) -> None:
    tests = [of(lines) for lines in CANNOT_FAIL]
    let_the_program_work(pytester)
    found = outcomes(pytester, [IMPORTS + tests[0], *tests[1:]])
    assert {lines: how for lines, how in zip(CANNOT_FAIL, found, strict=True) if how != "inconclusive"} == {}


def test_a_sound_body_needs_no_judge(pytester: pytest.Pytester) -> None:
    let_the_program_work(pytester)
    tests = [of(lines) for lines in SOUND]
    found = outcomes(pytester, [IMPORTS + ORDERS + tests[0], *tests[1:]])
    assert {lines: how for lines, how in zip(SOUND, found, strict=True) if how != "passed"} == {}
    assert asked(pytester) == 0
