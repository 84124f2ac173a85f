"""A planner that says "finished" at once passes no test, in whatever spelling; and what is really asserted counts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pytest_vnc_use.report.results import read_results
from support.bodies import (
    IMPORTS,
    QUIET,
    asked,
    in_body,
    let_the_program_work,
    marked,
    nowhere as nowhere,
    outcomes,
    results,
)

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
    "async def check():\n    check_orders(vnc_desktop)\ncoroutine = check()\ncoroutine.close()",
    "def check():\n    check_orders(vnc_desktop)\n    yield\ncheck()",
    "assert vnc_agent.screenshot().startswith(b'\\x89PNG')",
    "fruit = ['apples']\nfruit.append('pears')\nassert len(fruit) == 2",
    "from unittest.mock import Mock\nmock = Mock()\nmock('x')\nmock.assert_called_once()",
    "def looks_so(desktop):\n    assert desktop\nlooks_so(vnc_desktop)",
    "if vnc_desktop.read_file('orders.csv') == 'pears':\n    print('wrong')",
    "os.environ.get('NEVER') and check_orders(vnc_desktop)",
    "all(check_orders(vnc_desktop) for _ in [])",
    "subprocess.run(['true'], check=True)",
    "json.dumps({'a': 1})",
    "go = vnc_agent.run\nassert go('Buy pears').outcome == 'done'",
    "assert getattr(vnc_agent, 'run')('Buy pears').outcome == 'done'",
    "from operator import attrgetter\nassert attrgetter('outcome')(result) == 'done'",
    "results = []\nfor task in ('Buy pears', 'Pay'):\n    results.append(vnc_agent.run(task))\n"
    "assert all(each.outcome == 'done' for each in results)",
    "ended = {}\nended['pears'] = vnc_agent.run('Buy pears')\nassert ended['pears'].outcome == 'done'",
    "page = new_page(vnc_agent, vnc_desktop).buy()\nassert page.result.outcome == 'done'",
    "new_page(vnc_agent, vnc_desktop).assert_saved(vnc_desktop)",
    "page = new_page(vnc_agent, vnc_desktop)\npage.assert_saved()",
    "assert always(vnc_desktop)",
    "assert in_any_case(vnc_desktop)",
    "assert lines_with_pears(vnc_desktop)",
    "assert Orders(vnc_desktop).is_open",
    "assert all('pears' in line for line in vnc_desktop.read_file('orders.csv').splitlines()[5:])",
    "with TOLERANT:\n    assert 'pears' in vnc_desktop.read_file('orders.csv')",
    "with tolerant():\n    assert 'pears' in vnc_desktop.read_file('orders.csv')",
    "with contextlib.ExitStack() as stack:\n    stack.enter_context(contextlib.suppress(AssertionError))\n"
    "    assert 'pears' in vnc_desktop.read_file('orders.csv')",
    "assert vnc_agent.screenshot() is not None",
    "shot = vnc_agent.screenshot()\nassert shot != b''",
    "assert vnc_agent.screenshot()[:4] == b'\\x89PNG'",
    "assert b'PNG' in vnc_agent.screenshot()",
    "import hashlib\nassert hashlib.sha256(vnc_agent.screenshot()).hexdigest()",
    "import io\nfrom PIL import Image\nassert Image.open(io.BytesIO(vnc_agent.screenshot())).size[0] > 0",
    "assert subprocess.run(['grep', '-q', 'pears;9', 'orders.csv'])",
    "assert subprocess.run(['grep', '-q', 'pears;9', 'orders.csv']) is not None",
    "assert vnc_desktop.read_file('orders.csv') is not None",
    "assert vnc_desktop.read_file('orders.csv').find('pears;9')",
    "assert vnc_desktop.read_file('orders.csv').splitlines",
    "assert 0 <= len(vnc_desktop.read_file('orders.csv'))",
    "assert len(vnc_desktop.read_file('orders.csv')) != -1",
    "assert len(vnc_desktop.read_file('orders.csv').split('\\n')) > 0",
    "assert next(iter(vnc_desktop.read_file('orders.csv')), True)",
    "assert tmp_path.exists()",
    "assert os.path.basename('x/orders.csv') == 'orders.csv'",
    "assert os.getcwd()",
    "assert os.environ['PATH']",
    "import platform\nassert platform.system()",
    "import shutil\nassert shutil.which('sh')",
    "(tmp_path / 'e.png').write_bytes(vnc_agent.screenshot())\nassert os.path.exists(tmp_path / 'e.png')",
    "out = tmp_path / 'e.png'\nwith open(out, 'wb') as file:\n    file.write(vnc_agent.screenshot())\n"
    "assert (tmp_path / 'e.png').exists()",
    "found = 'pears' in vnc_desktop.read_file('orders.csv')\nfound = True\nassert found",
    "ok = 'pears' in vnc_desktop.read_file('orders.csv')\nok |= True\nassert ok",
    "data = {'file': vnc_desktop.read_file('orders.csv'), 'n': 2}\nassert data['n'] == 2",
    "data = {'file': vnc_desktop.read_file('orders.csv')}\nassert data",
    "lines = [vnc_desktop.read_file('orders.csv')]\nassert lines",
    "report = f\"file: {vnc_desktop.read_file('orders.csv')}\"\nassert report",
    "with FORGIVING:\n    assert 'pears' in vnc_desktop.read_file('orders.csv')",
    "patient = FORGIVING\nwith patient as page:\n    assert 'pears' in vnc_desktop.read_file('orders.csv')",
    "class Tolerant:\n    def __enter__(self): ...\n    def __exit__(self, *error): return True\n"
    "with Tolerant():\n    assert 'pears' in vnc_desktop.read_file('orders.csv')",
    "class Tolerant(contextlib.suppress): ...\n"
    "with Tolerant(AssertionError):\n    assert 'pears' in vnc_desktop.read_file('orders.csv')",
    "class Tolerant(Forgiving): ...\ntolerant = Tolerant()\n"
    "with tolerant:\n    assert 'pears' in vnc_desktop.read_file('orders.csv')",
    "class Checks:\n    def assertEqual(self, one, other): ...\n"
    "Checks().assertEqual(vnc_desktop.read_file('orders.csv'), 'pears')",
    "class Checks:\n    def assertEqual(self, one, other): ...\n"
    "checks = Checks()\nchecks.assertEqual(vnc_desktop.read_file('orders.csv'), 'pears')",
    "with pytest.raises(Exception):\n    vnc_desktop.read_file('orders.csv')\n    raise ValueError",
    "import warnings\nwith pytest.warns(UserWarning):\n    warnings.warn('x')\n    vnc_desktop.read_file('orders.csv')",
    "assert not vnc_desktop.read_file('orders.csv') is None",
    "assert orders(vnc_desktop) is not None",
    "assert not orders(vnc_desktop) is None",
    "assert orders(vnc_desktop) is not None and True",
    "assert time.time() > 0 and orders(vnc_desktop) is not None",
    "assert vnc_desktop.read_file('orders.csv') is not False",
    "assert orders(vnc_desktop) is not True",
    "text = vnc_desktop.read_file('orders.csv')\nassert text == 'pears' or text != 'pears'",
    "text = vnc_desktop.read_file('orders.csv')\nassert 'pears' in text or len(text) > 3 or 'pears' not in text",
    "text = vnc_desktop.read_file('orders.csv')\nassert not text or text",
    "ok = vnc_desktop.read_file('orders.csv') == 'pears'\nassert ~ok",
    "text = vnc_desktop.read_file('orders.csv')\nassert 'pears' in text if text == 'pears' else True",
    "assert vnc_desktop.read_file('orders.csv').startswith('')",
    "assert vnc_desktop.read_file('orders.csv') not in []",
    "from unittest import mock\nassert vnc_desktop.read_file('orders.csv') == mock.ANY",
    "with SILENT:\n    assert 'pears' in vnc_desktop.read_file('orders.csv')",
    "with ByName():\n    assert 'pears' in vnc_desktop.read_file('orders.csv')",
    "with STACK:\n    assert 'pears' in vnc_desktop.read_file('orders.csv')",
    "@contextlib.contextmanager\ndef quiet():\n    try:\n        yield\n    except AssertionError:\n        pass\n"
    "with quiet():\n    assert 'pears' in vnc_desktop.read_file('orders.csv')",
    "def tolerance():\n    return FORGIVING\n"
    "with tolerance():\n    assert 'pears' in vnc_desktop.read_file('orders.csv')",
    "class Tolerant:\n    def __enter__(self): ...\n    __exit__ = lambda *_: True\n"
    "with Tolerant():\n    assert 'pears' in vnc_desktop.read_file('orders.csv')",
    "Tolerant = type('Tolerant', (Forgiving,), {})\n"
    "with Tolerant():\n    assert 'pears' in vnc_desktop.read_file('orders.csv')",
    "class Page:\n    def __init__(self, desktop): ...\nassert Page(vnc_desktop) is not None",
    "with pytest.raises(ZeroDivisionError):\n    vnc_desktop.read_file('orders.csv')\n    1 / 0",
    "with pytest.raises(ValueError):\n    text = vnc_desktop.read_file('orders.csv')\n    int('x')",
    "with pytest.raises(AssertionError):\n    vnc_desktop.read_file('orders.csv')\n    assert False",
    "assert set(vnc_desktop.read_file('orders.csv')) >= set()",
    "text = [vnc_desktop.read_file('orders.csv')]\ntext.clear()\nassert text == []",
    "assert (text := vnc_desktop.read_file('orders.csv')) is text",
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
    "class Plain(object):\n    def __enter__(self): return self\n    def __exit__(self, *error): ...\n"
    "with Plain():\n    assert 'apples;2' in vnc_desktop.read_file('orders.csv')",
    "@contextlib.contextmanager\ndef timed():\n    yield\n"
    "with timed():\n    assert 'apples;2' in vnc_desktop.read_file('orders.csv')",
    "with pytest.warns(UserWarning):\n    import warnings\n    warnings.warn('x')\n"
    "    assert 'apples;2' in vnc_desktop.read_file('orders.csv')",
    "with contextlib.closing(open('orders.csv')):\n    assert 'apples;2' in vnc_desktop.read_file('orders.csv')",
    "with NOISY:\n    assert 'apples;2' in vnc_desktop.read_file('orders.csv')",
    "with pytest.raises(ValueError):\n    int(vnc_desktop.read_file('orders.csv'))",
    "text = vnc_desktop.read_file('orders.csv')\nwith pytest.raises(ValueError):\n    int(text)",
    "with PLAIN:\n    assert 'apples;2' in vnc_desktop.read_file('orders.csv')",
    "class Plain:\n    def __enter__(self): return self\n    def __exit__(self, *error): return False\n"
    "with Plain():\n    assert 'apples;2' in vnc_desktop.read_file('orders.csv')",
    "with open('orders.csv') as file:\n    assert 'apples;2' in vnc_desktop.read_file('orders.csv')",
    "assert line_with(vnc_desktop, 'apples') is not None",
    "assert not line_with(vnc_desktop, 'pears') is not None",
    "text = vnc_desktop.read_file('orders.csv')\nassert 'apples' in text if 'a' in text else 'pears' in text",
    "text = vnc_desktop.read_file('orders.csv')\nassert text == 'apples;2\\n' or text == 'pears;2\\n'",
    "assert Orders(vnc_desktop).has('apples;2') is not False",
    "with pytest.raises(FileNotFoundError):\n    vnc_desktop.read_file('nothing.csv')",
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
    "found = False\nfor line in vnc_desktop.read_file('orders.csv').splitlines():\n    if line == 'apples;2':\n"
    "        found = True\nassert found",
    "lines = []\nfor line in vnc_desktop.read_file('orders.csv').splitlines():\n    lines.append(line)\n"
    "assert lines == ['apples;2']",
    "import helpers\nhelpers.check_orders(vnc_desktop)",
    "new_page(vnc_agent, vnc_desktop).assert_bought('apples;2')",
    "assert vnc_desktop.read_file('orders.csv').find('apples') == 0",
    "import xml.etree.ElementTree as tree\n"
    "assert tree.fromstring('<a>' + vnc_desktop.read_file('orders.csv') + '<b/></a>').find('b') is not None",
    "assert Orders(vnc_desktop).items",
    "assert len(Orders(vnc_desktop).lines) == 1",
    "assert subprocess.run(['grep', '-q', 'apples;2', 'orders.csv']).returncode == 0",
    "assert len(vnc_desktop.read_file('orders.csv').splitlines()) > 0",
    "assert os.path.exists('orders.csv')",
    "assert all(word in vnc_desktop.read_file('orders.csv') for word in ('apples', '2'))",
    "import io\nfrom PIL import Image\n"
    "assert Image.open(io.BytesIO(vnc_agent.screenshot())).convert('RGB').getpixel((0, 0)) != (1, 2, 3)",
    "data = {'file': vnc_desktop.read_file('orders.csv'), 'n': 2}\nassert data['file'] == 'apples;2\\n'",
]


@pytest.mark.slow
@pytest.mark.parametrize("made", [in_body, marked])
def test_a_body_that_says_nothing_of_the_product_is_judged(
    pytester: pytest.Pytester, made: Callable[[str], str]
) -> None:
    found = outcomes(pytester, [made(lines) for lines in NOTHING])
    assert {lines: how for lines, how in zip(NOTHING, found, strict=True) if how != "inconclusive"} == {}
    assert asked(pytester) == len(NOTHING)


@pytest.mark.slow
def test_the_planners_own_words_are_judged(pytester: pytest.Pytester) -> None:
    found = outcomes(pytester, [in_body(lines) for lines in WORDS])
    assert {lines: how for lines, how in zip(WORDS, found, strict=True) if how != "inconclusive"} == {}


@pytest.mark.slow
@pytest.mark.parametrize("made", [in_body, marked])
def test_what_is_asserted_of_the_product_needs_no_judge(pytester: pytest.Pytester, made: Callable[[str], str]) -> None:
    let_the_program_work(pytester)
    found = outcomes(pytester, [made(lines) for lines in SOMETHING])
    assert {lines: how for lines, how in zip(SOMETHING, found, strict=True) if how != "passed"} == {}
    assert asked(pytester) == 0


# --- wherever the task is run ----------------------------------------------------------------------------------------

FROM_FIXTURES = """
@pytest.fixture
def forgiving():
    return Forgiving()

@pytest.fixture
def bought(vnc_agent):
    return vnc_agent.run("Buy apples")

@pytest.fixture
def looked_at_before(vnc_desktop, vnc_agent):
    assert "apples;2" in vnc_desktop.read_file("orders.csv")
    vnc_agent.run("Buy apples")

@pytest.fixture
def looked_at_after(vnc_desktop, vnc_agent):
    vnc_agent.run("Buy apples")
    assert "apples;2" in vnc_desktop.read_file("orders.csv")

@pytest.fixture
def verified(bought, vnc_desktop):
    assert "apples;2" in vnc_desktop.read_file("orders.csv")

@pytest.fixture
def verified_at_its_end(vnc_desktop):
    yield
    assert "apples;2" in vnc_desktop.read_file("orders.csv")

@pytest.fixture
def bought_at_its_end(vnc_agent):
    yield
    vnc_agent.run("Buy apples")

@pytest.fixture
def bought_and_verified_at_its_end(vnc_agent, vnc_desktop):
    yield
    vnc_agent.run("Buy apples")
    assert "apples;2" in vnc_desktop.read_file("orders.csv")

@pytest.fixture
def buy(vnc_agent):
    return lambda: vnc_agent.run("Buy apples")

@pytest.fixture
def shop(vnc_agent):
    return Shop(vnc_agent)

class Shop:
    def __init__(self, agent):
        self.agent = agent
        self.bought = 0

    def buy(self):
        self.bought += 1
        return self.agent.run("Buy apples")

def swallows(function):
    import functools

    @functools.wraps(function)
    def call(*args, **options):
        try:
            return function(*args, **options)
        except AssertionError:
            return None
    return call

def passes_on(function):
    import functools

    @functools.wraps(function)
    def call(*args, **options):
        return function(*args, **options)
    return call

class Silence:
    def __enter__(self): ...
    def __exit__(self, *error): return True

@contextlib.contextmanager
def silence():
    try:
        yield
    except AssertionError:
        pass

def buy_it(agent, desktop):
    assert "apples;2" in desktop.read_file("orders.csv")
    return agent.run("Buy apples")

def buy_and_look(agent, desktop):
    agent.run("Buy apples")
    assert "apples;2" in desktop.read_file("orders.csv")
"""
LOOKS = "assert 'apples;2' in vnc_desktop.read_file('orders.csv')"
ELSEWHERE = [
    "def test_it(bought): ...",
    "def test_it(bought):\n    assert bought.outcome is Outcome.DONE",
    "def test_it(looked_at_before): ...",
    "def test_it(buy):\n    buy()",
    "def test_it(shop):\n    shop.buy()\n    assert shop.bought == 1",
    f"def test_it(vnc_agent, vnc_desktop):\n    {LOOKS}\n    vnc_agent.run('Buy apples')",
    f"def test_it(vnc_agent, vnc_desktop):\n    for _ in 'ab':\n        {LOOKS}\n        vnc_agent.run('Buy')",
    "def test_it(vnc_agent, vnc_desktop):\n    buy_it(vnc_agent, vnc_desktop)",
    "def test_it(vnc_agent, vnc_desktop):\n    before = vnc_desktop.read_file('orders.csv')\n"
    "    vnc_agent.run('Buy apples')\n    assert 'apples;2' in before",
    f"def test_it(vnc_agent, vnc_desktop):\n    vnc_agent.run('Sign in')\n    {LOOKS}\n    vnc_agent.run('Buy apples')",
    "def test_it(vnc_agent, vnc_desktop):\n    vnc_agent.verify('it is open')\n    vnc_agent.run('Buy apples')",
    "def test_it(request):\n    request.getfixturevalue('vnc_agent').run('Buy apples')",
    f"@swallows\n@pytest.mark.vnc_task('Buy apples')\ndef test_it(vnc_desktop):\n    {LOOKS}",
    f"@pytest.mark.vnc_task('Buy apples')\ndef test_it(vnc_desktop):\n    with Silence():\n        {LOOKS}",
    f"@pytest.mark.vnc_task('Buy apples')\ndef test_it(vnc_desktop, forgiving):\n    with forgiving:\n        {LOOKS}",
    f"@pytest.mark.vnc_task('Buy apples')\ndef test_it(vnc_desktop):\n    with silence():\n        {LOOKS}",
    "def test_it(vnc_agent, vnc_desktop):\n    import threading\n"
    "    thread = threading.Thread(target=vnc_agent.run, args=('Buy apples',))\n    thread.start()\n    thread.join()",
    f"class Test:\n    {'def test_it(self, vnc_agent, vnc_desktop):'}\n        vnc_agent.run('Buy apples')\n"
    f"    def check(self, vnc_desktop):\n        {LOOKS}",
    "@pytest.mark.vnc_task('Buy apples')\n@pytest.mark.parametrize('fruit', ['apples'])\n"
    "def test_it(vnc_desktop, fruit):\n    assert fruit == 'apples'",
    f"@pytest.mark.vnc_task('Sign in')\ndef test_it(vnc_agent, vnc_desktop):\n    {LOOKS}\n"
    "    vnc_agent.run('Buy apples')",
    "def test_it(vnc_agent):\n    try:\n        assert vnc_agent.run('Buy')\n    except TypeError:\n        pass",
    "def test_it(vnc_agent):\n    vnc_agent.run('Buy apples')\n    vnc_agent.click(10, 10)",
    f"def test_it(vnc_agent, vnc_desktop):\n    {LOOKS}; vnc_agent.run('Buy apples')",
    "def test_it(vnc_agent, vnc_desktop):\n"
    "    both = (vnc_desktop.read_file('orders.csv'), vnc_agent.run('Buy apples'))\n    assert both[0]",
    "def test_it(vnc_agent, vnc_desktop):\n"
    "    assert vnc_desktop.read_file('orders.csv') and vnc_agent.run('Buy apples').outcome",
]
ELSEWHERE_LOOKED_AT = [
    "def test_it(looked_at_after): ...",
    "def test_it(verified): ...",
    "def test_it(verified_at_its_end, bought): ...",
    f"def test_it(bought, vnc_desktop):\n    {LOOKS}",
    "def test_it(bought_and_verified_at_its_end): ...",
    f"def test_it(buy, vnc_desktop):\n    buy()\n    {LOOKS}",
    f"def test_it(shop, vnc_desktop):\n    shop.buy()\n    {LOOKS}",
    "def test_it(vnc_agent, vnc_desktop):\n    buy_and_look(vnc_agent, vnc_desktop)",
    f"@passes_on\n@pytest.mark.vnc_task('Buy apples')\ndef test_it(vnc_desktop):\n    {LOOKS}",
    f"def test_it(request, vnc_desktop):\n    request.getfixturevalue('vnc_agent').run('Buy apples')\n    {LOOKS}",
    "class Test:\n    def test_it(self, vnc_agent, vnc_desktop):\n        vnc_agent.run('Buy apples')\n"
    f"        self.check(vnc_desktop)\n    def check(self, vnc_desktop):\n        {LOOKS}",
]


@pytest.mark.slow
def test_a_task_is_judged_wherever_it_is_run(pytester: pytest.Pytester) -> None:
    found = outcomes(pytester, [FROM_FIXTURES + ELSEWHERE[0], *ELSEWHERE[1:]])
    assert {lines: how for lines, how in zip(ELSEWHERE, found, strict=True) if how != "inconclusive"} == {}


@pytest.mark.slow
def test_what_is_asserted_after_a_task_counts_wherever_it_is(pytester: pytest.Pytester) -> None:
    found = outcomes(pytester, [FROM_FIXTURES + ELSEWHERE_LOOKED_AT[0], *ELSEWHERE_LOOKED_AT[1:]])
    assert {lines: how for lines, how in zip(ELSEWHERE_LOOKED_AT, found, strict=True) if how != "passed"} == {}
    assert asked(pytester) == 0


UNITTEST = """
class TestBasket(unittest.TestCase):
    @pytest.fixture(autouse=True)
    def _agent(self, vnc_agent, vnc_desktop):
        self.agent, self.desktop = vnc_agent, vnc_desktop

    def test_it_says_nothing(self):
        self.agent.run("Buy apples")

    def test_it_is_looked_at(self):
        self.agent.run("Buy apples")
        self.assertIn("apples;2", self.desktop.read_file("orders.csv"))

    def test_its_words(self):
        self.assertEqual(self.agent.run("Buy apples").outcome, Outcome.DONE)
"""


@pytest.mark.slow
def test_in_a_unittest(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_them=IMPORTS + UNITTEST)
    pytester.runpytest_subprocess(*QUIET).assert_outcomes(passed=3, errors=2)
    tests = read_results(pytester.path / "runs/vnc-results.json").tests
    told = {test.test.rpartition("::")[2]: (test.result, test.triage) for test in tests}
    bad = ("error", "inconclusive")
    assert told == {"test_it_says_nothing": bad, "test_it_is_looked_at": ("passed", None), "test_its_words": bad}


def test_at_the_end_of_a_fixture(pytester: pytest.Pytester) -> None:
    (test,) = results(pytester, [f"{FROM_FIXTURES}\ndef test_it(bought_at_its_end): ..."])
    assert (test.result, test.triage) == ("error", "inconclusive")


@pytest.mark.slow
@pytest.mark.parametrize("options", [["-n2"], ["--reruns=1"], ["--vnc-repeat=2"]])
def test_whoever_runs_the_test(pytester: pytest.Pytester, options: list[str]) -> None:
    pytester.makefile(".vnc.toml", test_file='[[test]]\nname = "buy"\ntask = "Buy apples"\n')
    tests = [in_body("pass"), marked("pass"), f"{FROM_FIXTURES}\ndef test_it(bought): ...", in_body(LOOKS)]
    found = outcomes(pytester, tests, *options)
    times = 2 if "--vnc-repeat=2" in options else 1
    assert sorted(found) == ["inconclusive"] * 4 * times + ["passed"] * times


# --- judges, claims, and saying so on purpose ------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "how"), [("holds", "passed"), ("fails", "agent"), ("unsure", "inconclusive")])
def test_the_judge_decides_where_nothing_is_asserted(pytester: pytest.Pytester, kind: str, how: str) -> None:
    conftest = pytester.path / "conftest.py"
    conftest.write_text(conftest.read_text(encoding="utf-8").replace('"unsure"', repr(kind)), encoding="utf-8")
    tests = [in_body("pass"), marked("pass"), f"{FROM_FIXTURES}\ndef test_it(bought): ..."]
    assert outcomes(pytester, tests) == [how] * 3


@pytest.mark.slow
def test_without_a_judge_the_ways_out_are_told(pytester: pytest.Pytester) -> None:
    conftest = pytester.path / "conftest.py"
    told = conftest.read_text(encoding="utf-8").replace("return Judge()", "return None")
    conftest.write_text(told, encoding="utf-8")
    pytester.makepyfile(test_them=IMPORTS + in_body("pass"))
    result = pytester.runpytest_subprocess(*QUIET)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["inconclusive:*", "*an assertion after it*a claim, expect=*or expect=None*"])


ON_PURPOSE = [
    "@pytest.mark.vnc_task('Buy apples', expect=None)\ndef test_it(): ...",
    "def test_it(vnc_agent):\n    vnc_agent.run('Buy apples', expect=None)",
    "@pytest.mark.vnc_task('Buy apples', expect=None)\ndef test_it(vnc_agent):\n    pass",
]


@pytest.mark.slow
def test_on_purpose_the_body_checks_and_that_is_named(pytester: pytest.Pytester) -> None:
    pytester.makefile(".vnc.toml", test_file='[[test]]\nname = "buy"\ntask = ["Sign", "Buy"]\nexpect = false\n')
    found = results(pytester, [*ON_PURPOSE, in_body(LOOKS)], "--html=report.html", "--self-contained-html")
    assert [test.result for test in found] == ["passed"] * 5
    assert asked(pytester) == 0
    assert [[run.body_checks for run in test.runs] for test in found] == [[True, True], *[[True]] * 3, [False]]
    page = (pytester.path / "report.html").read_text(encoding="utf-8")
    assert "none, on purpose: expect=None says" in page


IGNORED = [
    ("vnc_agent.verify('it is open')", "inconclusive"),
    ("verdict = vnc_agent.verify('it is open')\nprint(verdict)", "inconclusive"),
    (f"vnc_agent.verify('it is open')\n{LOOKS}", "inconclusive"),
    (f"vnc_agent.saw('it is open')\n{LOOKS}", "inconclusive"),
    (f"if vnc_agent.verify('it is open').holds:\n    print('open')\n{LOOKS}", "passed"),
    (f"assert not vnc_agent.verify('it is open').holds\n{LOOKS}", "passed"),
]


@pytest.mark.slow
def test_a_verdict_that_nobody_asks_for_its_truth_fails_the_test(pytester: pytest.Pytester) -> None:
    found = outcomes(pytester, [in_body(lines) for lines, _ in IGNORED])
    assert found == [how for _, how in IGNORED]


ENDED_OTHERWISE = [
    ("try:\n    vnc_agent.run('x', planner=GIVES_UP)\nexcept VncUseError:\n    pass", "agent"),
    ("vnc_agent.run('x', planner=GIVES_UP, check=False)", "agent"),
    ("assert vnc_agent.run('x', planner=GIVES_UP, check=False).outcome is Outcome.GAVE_UP", "agent"),
    (f"with pytest.raises(TaskFailed):\n    vnc_agent.run('x', planner=GIVES_UP)\n{LOOKS}", "passed"),
    ("with pytest.raises(TaskFailed):\n    vnc_agent.run('x', planner=GIVES_UP)", "agent"),
    ("assert vnc_agent.run('x', planner=DENIED, check=False).outcome is Outcome.DENIED", "passed"),
    ("again = vnc_agent.run('x', planner=DENIED, check=False)\nassert again.outcome == 'denied'", "passed"),
    ("with pytest.raises(TaskFailed):\n    vnc_agent.run('x', planner=DENIED)", "passed"),
    ("vnc_agent.run('x', planner=DENIED, check=False)", "policy"),
]
PLANNERS = """
from pytest_vnc_use.types import Click, Confirmation, Decision, Proposal
from pytest_vnc_use.planners.local.scripted import ScriptedPlanner

GIVES_UP = ScriptedPlanner(lambda observation: Decision("gave_up", "no apples"))
DENIED = ScriptedPlanner([[Proposal(Click(10, 10), "buy", {}, Confirmation("this buys"))]])
"""


@pytest.mark.slow
def test_a_run_that_did_not_end_as_done(pytester: pytest.Pytester) -> None:
    first, *rest = [in_body(lines) for lines, _ in ENDED_OTHERWISE]
    found = outcomes(pytester, [PLANNERS + first, *rest])
    wanted = [how for _, how in ENDED_OTHERWISE]
    assert {lines: how for (lines, want), how in zip(ENDED_OTHERWISE, found, strict=True) if how != want} == {}
    assert len(found) == len(wanted)
