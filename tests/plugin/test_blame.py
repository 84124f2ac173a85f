"""Whose fault it is: what users' code raises, in all the ways it can, and what the failed test is then told as."""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import indent

import pytest

from pytest_vnc_use.report.results import read_results
from support.pad_sessions import ON_PAD, QUIET, results

HELPER = """
import pytest

def assert_total(total):
    assert total == "3.00"

def give_up_on(total):
    pytest.fail(f"the total is {total}")
"""
INSTALLED = """
import pytest

def assert_that(value):
    assert value

def compute(value):
    assert value, "a bug of a library"

def through(function):
    return function()

def fail_quietly():
    pytest.fail("a plugin's word")
"""
CONFTEST = """
import contextlib, errno, sys
from pathlib import Path
import pytest
from pytest_vnc_use.errors import *
from pytest_vnc_use.planners.local.scripted import ScriptedPlanner
from pytest_vnc_use.types import Click, Decision, Verdict, Wait

sys.path.append(str(Path(__file__).parent / "lib" / "site-packages"))

class Odd(Exception):
    __slots__ = ("code",)
    def __init__(self, code, *, where):
        self.code = code
    def __str__(self):
        raise RuntimeError("no words")

class OddExit(BaseException):
    def __init__(self, code, *, where):
        self.code = code
    def __str__(self):
        sys.exit(3)

class OddAssertion(AssertionError):
    def __init__(self, a, b):
        self.a = a
    def __str__(self):
        return 3

class OddOutage(QuotaExhausted):
    def __init__(self, a, b):
        self.a = a
    def __str__(self):
        return f"{self.a} is out"

class ServiceUnavailable(Exception): ...

def httpx_error():
    import httpx
    raise httpx.ConnectTimeout("no answer")

def http_error():
    import urllib.error
    raise urllib.error.HTTPError("http://model", 503, "Service Unavailable", {}, None)

def raises(error):
    raise error

def chained(error, cause):
    try:
        raise cause
    except type(cause):
        raise error

class Response:
    status_code = 503

def unanswered(response):
    assert response.status_code == 200

ASKED = {
    "assertion": lambda: unanswered(type("Found", (), {"status_code": 404})),
    "http_503": lambda: unanswered(Response),
    "http_503_in_words": lambda: raises(AssertionError("HTTP 503")),
    "http_error": http_error,
    "httpx": httpx_error,
    "connection": lambda: raises(ConnectionResetError("reset")),
    "timeout": lambda: raises(TimeoutError()),
    "own_outage": lambda: raises(ServiceUnavailable("later")),
    "chained_outage": lambda: chained(AssertionError("no plan"), ConnectionRefusedError()),
    "our_outage": lambda: raises(QuotaExhausted("per day")),
    "our_odd_outage": lambda: raises(OddOutage("quota", 1)),
    "bug": lambda: {}["basket"],
    "odd": lambda: raises(Odd(1, where="here")),
    "odd_assertion": lambda: raises(OddAssertion(1, 2)),
    "fail": lambda: pytest.fail("no plan"),
    "exit_code": lambda: sys.exit(3),
    "group": lambda: raises(ExceptionGroup("two", [KeyError("a"), AssertionError("b")])),
    "group_of_ours": lambda: raises(BaseExceptionGroup("many", [QuotaExhausted(str(n)) for n in range(10_000)])),
    "group_of_odd": lambda: raises(ExceptionGroup("many", [Odd(n, where="here") for n in range(10_000)])),
    "odd_exit": lambda: raises(OddExit(1, where="here")),
    "group_outage": lambda: raises(ExceptionGroup("two", [KeyError("a"), ExceptionGroup("in", [OSError("b")])])),
}

def plan(observation):
    if name := PLANNED.get(CURRENT[0]):
        ASKED[name]()
    return TURNS.get(CURRENT[0], [[Click(5, 5)]])[len(observation.turns):][:1] and \\
        TURNS.get(CURRENT[0], [[Click(5, 5)]])[len(observation.turns)] or Decision("finished", "I did it!")

CURRENT, PLANNED = [""], {}
TURNS = {
    "nothing_done": [Decision("finished", "I did it!")],
    "nothing_done_asserted": [Decision("finished", "I did it!")],
    "only_waited": [[Wait(0.01)], Decision("finished", "I did it!")],
    "nothing_done_but_by_hand": [Decision("finished", "I did it!")],
    "nothing_done_and_unsure": [Decision("finished", "I did it!")],
}

def word_of(name):
    for word in ("gave_up", "gives_up"):
        if word in name:
            return [Decision("gave_up", "no basket")]
    return None

@pytest.fixture(autouse=True)
def _current(request):
    name = CURRENT[0] = request.node.name.removeprefix("test_")
    kind, _, asked = name.partition("_raises_")
    if kind in ("planner", "callable"):
        PLANNED[name] = asked.removesuffix("_caught").removesuffix("_swallowed")
    if turns := word_of(name):
        TURNS[name] = turns

class Judge:
    def __init__(self, name):
        self.name = name
    def judge(self, claim, frame, *, timeout_s, report):
        kind, _, asked = self.name.partition("_raises_")
        if kind == "judge":
            ASKED[asked]()
        kind = "unsure" if "unsure" in self.name else "fails"
        return Verdict(claim, kind, "so it looks", frame=frame.ref)

@pytest.fixture
def vnc_judge(request):
    return Judge(request.node.name.removeprefix("test_"))

@pytest.fixture
def vnc_planner(request):
    return plan if "callable" in request.node.name else ScriptedPlanner(plan)

@pytest.fixture
def checked():
    def check(total):
        assert total == "3.00"
    return check
"""

RAISED = {
    "assertion": "agent",
    "http_503": "infra",
    "http_503_in_words": "infra",
    "http_error": "infra",
    "httpx": "infra",
    "connection": "infra",
    "timeout": "infra",
    "own_outage": "infra",
    "chained_outage": "infra",
    "our_outage": "infra",
    "our_odd_outage": "infra",
    "bug": "agent",
    "odd": "agent",
    "odd_assertion": "agent",
    "fail": "agent",
    "exit_code": "agent",
    "group": "agent",
    "group_outage": "infra",
    "group_of_ours": "infra",
    "group_of_odd": "agent",
    "odd_exit": "agent",
}
"""What is raised in a planner or a judge, by its name in the conftest, and what that is."""

RUN = "vnc_agent.run('Buy')"
DONE = "vnc_agent.run('Buy', planner=clicks)"
NO_OP = "vnc_agent.run('Close all', planner=lambda observation: None)"
OPTIONAL = f"try: {RUN}"
WRONG = "assert '3.00' in vnc_desktop.read_file('events.txt')"
SAVED = "vnc_agent.verify('saved').holds"
TIP = "if vnc_agent.verify('a tip of the day is shown').holds: vnc_agent.key('escape')"
BODIES: dict[str, tuple[str, str]] = {
    **{f"planner_raises_{name}": (triage, RUN) for name, triage in RAISED.items()},
    "callable_raises_bug": ("agent", RUN),
    "callable_raises_connection": ("infra", RUN),
    **{f"judge_raises_{name}": (triage, "assert vnc_agent.verify('3.00')") for name, triage in RAISED.items()},
    "planner_raises_bug_caught": ("agent", f"try: {RUN}\nexcept KeyError: pytest.fail('it broke')"),
    # --- what led to an assertion
    "fail_after_outage": ("infra", "try: raise QuotaExhausted('x')\nexcept VncUseError: pytest.fail('no')"),
    "assert_after_outage": ("infra", "try: raise ConnectionLost('x')\nexcept VncUseError: assert 0"),
    "finally_after_outage": ("infra", "try: raise ModelUnavailable('x')\nfinally: assert 0"),
    "from_outage": (
        "infra",
        "try: raise QuotaExhausted('x')\nexcept VncUseError as exc: raise AssertionError from exc",
    ),
    "from_none": ("infra", "try: raise QuotaExhausted('x')\nexcept VncUseError: raise AssertionError('no') from None"),
    "bug_after_outage": ("infra", "try: raise QuotaExhausted('x')\nexcept VncUseError: {}['a']"),
    "product_after_outage": ("infra", "try: raise QuotaExhausted('x')\nexcept VncUseError: raise ProductFailed('x')"),
    "assert_after_settings": ("settings", "try: raise SettingsError('x')\nexcept VncUseError: assert 0"),
    "assert_after_agent": ("agent", "try: raise AgentFailed('x')\nexcept VncUseError: assert 0"),
    "assert_after_budget": ("budget", "try: raise BudgetExceeded('x')\nexcept VncUseError: assert 0"),
    "assert_after_denied": ("policy", "try: raise PolicyDenied('x')\nexcept VncUseError: assert 0"),
    "assert_after_unsure": ("inconclusive", "try: raise Inconclusive('x')\nexcept VncUseError: assert 0"),
    "assert_after_action_error": ("inconclusive", "try: raise ActionError('x')\nexcept VncUseError: assert 0"),
    "assert_after_product": ("product", "try: raise ProductFailed('x')\nexcept VncUseError: assert 0"),
    "assert_after_other": ("product", "try: raise KeyError('x')\nexcept KeyError: assert 0"),
    "assert_after_recovery": ("product", "try: raise AgentFailed('x')\nexcept VncUseError: pass\nassert 0"),
    "deep": (
        "infra",
        "try:\n try:\n  try: raise QuotaExhausted('x')\n  except VncUseError: {}['a']\n except KeyError: assert 0, 1\n"
        "except AssertionError as exc: raise AssertionError('at last') from exc",
    ),
    # --- groups
    "group_of_assertions": (
        "product",
        "raise ExceptionGroup('g', [made(lambda: checked(4)), made(lambda: checked(5))])",
    ),
    "group_of_made_assertions": ("product", "raise ExceptionGroup('g', [AssertionError(4), AssertionError(5)])"),
    "group_of_made_bugs": ("inconclusive", "raise ExceptionGroup('g', [KeyError(4)])"),
    "group_with_outage": ("infra", "raise ExceptionGroup('g', [made(lambda: checked(4)), QuotaExhausted('x')])"),
    "nested_groups": (
        "infra",
        "raise ExceptionGroup('g', [made(lambda: checked(4)), ExceptionGroup('h', [ExceptionGroup('i', "
        "[DesktopRefused('x')])])])",
    ),
    "group_from_outage": ("infra", "raise ExceptionGroup('g', [made(lambda: checked(4))]) from QuotaExhausted('x')"),
    "group_with_bug": ("product", "raise ExceptionGroup('g', [made(lambda: checked(4)), KeyError('x')])"),
    "group_of_bugs": ("inconclusive", "raise ExceptionGroup('g', [ValueError('y'), KeyError('x')])"),
    "group_with_agent": ("agent", "raise ExceptionGroup('g', [made(lambda: checked(4)), AgentFailed('x')])"),
    "except_star": (
        "infra",
        "try: raise ExceptionGroup('g', [QuotaExhausted('x'), KeyError('y')])\nexcept* VncUseError: assert 0",
    ),
    # --- where an assertion stands
    "in_the_body": ("product", "assert vnc_desktop.read_file('events.txt') == '3.00'"),
    "in_a_helper": ("product", "helper.assert_total('4.00')"),
    "fail_in_a_helper": ("product", "helper.give_up_on('4.00')"),
    "in_conftest": ("product", "checked('4.00')"),
    "in_a_lambda": ("product", "(lambda: checked(1))()"),
    "in_a_callback": ("product", "installed.through(lambda: checked('4.00'))"),
    "in_a_thread": (
        "product",
        "from concurrent import futures\nfutures.ThreadPoolExecutor().submit(checked, 1).result()",
    ),
    "in_unittest": ("product", "import unittest\nunittest.TestCase().assertEqual(1, 2)"),
    "in_numpy": ("product", "import numpy\nnumpy.testing.assert_allclose(1, 2)"),
    "in_raises": ("product", "with pytest.raises(KeyError): pass"),
    "in_mock": ("product", "from unittest.mock import Mock\nMock().assert_called_once()"),
    "raised_by_hand": ("product", "raise pytest.fail.Exception('no')"),
    "in_an_asserting_library": ("product", "installed.assert_that(0)"),
    "in_exec": ("product", "exec('assert 0')"),
    "in_a_library": ("inconclusive", "installed.compute(0)"),
    "in_the_standard_library": ("inconclusive", "import threading\nthreading.Thread(group=1)"),
    "through_the_standard_library": ("product", "import functools\nfunctools.partial(checked, 4)()"),
    # --- users' exceptions
    "bug": ("inconclusive", "{}['total']"),
    "odd": ("inconclusive", "raise Odd(1, where='here')"),
    "odd_assertion": ("product", "raise OddAssertion(1, 2)"),
    "odd_outage": ("infra", "raise OddOutage('quota', 2)"),
    "exit": ("inconclusive", "sys.exit(3)"),
    "os_error": ("inconclusive", "open('nosuch')"),
    "full_in_a_chain": ("infra", "try: raise OSError(errno.ENOSPC, 'full')\nexcept OSError: assert 0"),
    # --- a run that did not end as done, or broke
    "gave_up_asserted": ("agent", "assert vnc_agent.run('Buy', check=False).outcome is Outcome.DONE"),
    "gave_up_by_word": ("agent", "assert str(vnc_agent.run('Buy', check=False).outcome) == 'done'"),
    "gave_up_then_file": (
        "agent",
        "vnc_agent.run('Buy', check=False)\nassert vnc_desktop.read_file('events.txt') == 1",
    ),
    "gave_up_then_claim": ("agent", "vnc_agent.run('Buy', check=False)\nassert vnc_agent.verify('3.00')"),
    "gave_up_then_check": ("agent", "vnc_agent.run('Buy', check=False)\nvnc_agent.check('3.00')"),
    "gives_up": ("agent", RUN),
    "gave_up_then_done": (
        "product",
        "vnc_agent.run('Buy', check=False)\nvnc_agent.run('Buy', planner=clicks)\nassert vnc_desktop is None",
    ),
    "gave_up_shown_later": (
        "agent",
        "first = vnc_agent.run('Buy', check=False)\nvnc_agent.run('Buy', planner=clicks)\n"
        "assert first.outcome is Outcome.DONE",
    ),
    "limit_asserted": (
        "budget",
        "result = vnc_agent.run('Buy', check=False, limits=Limits(steps=1), planner=lambda _: [Click(5, 5)] * 2)\n"
        "assert result.outcome == 'done'",
    ),
    "planner_raises_connection_swallowed": ("infra", f"with contextlib.suppress(OSError): {RUN}\nassert 0"),
    # --- the planner said done
    "gave_up_is_told_by_file": (
        "product",
        "vnc_agent.run('Buy', check=False)\nvnc_agent.run('Buy', planner=clicks)\n"
        "status = vnc_desktop.read_file('events.txt')[:4]\nassert status == 'gave_up'",
    ),
    "gave_up_expected_in_file": (
        "product",
        "vnc_agent.run('Buy', check=False)\nvnc_agent.run('Buy', planner=clicks)\n"
        "assert 'gave_up' in vnc_desktop.read_file('events.txt')",
    ),
    "gave_up_is_told_by_name": (
        "product",
        "vnc_agent.run('Buy', check=False)\nvnc_agent.run('Buy', planner=clicks)\n"
        "expected = 'gave_up'\nassert vnc_desktop.read_file('events.txt')[:4] == expected",
    ),
    "gave_up_by_its_value": (
        "agent",
        "how = vnc_agent.run('Buy', check=False).outcome.value\nvnc_agent.run('Buy', planner=clicks)\n"
        "assert how == 'done'",
    ),
    "waited_in_vain": ("product", "pytest.fail('Timeout >0.05s')"),
    "not_text": (
        "product",
        f"{RUN}\nvnc_desktop.run(['sh', '-c', r\"printf 'caf\\351' > orders.csv\"])\n"
        "assert 'apples' in vnc_desktop.read_file('orders.csv')",
    ),
    "not_a_file": ("product", f"{RUN}\nvnc_desktop.run(['mkdir', 'd'])\nassert 'apples' in vnc_desktop.read_file('d')"),
    "not_text_and_caught": (
        "product",
        f"{RUN}\nvnc_desktop.run(['mkdir', 'd'])\ntry: text = vnc_desktop.read_file('d')\n"
        "except Exception: text = ''\nassert 'apples' in text",
    ),
    "sqlite_column": (
        "product",
        "import sqlite3\ntry: sqlite3.connect(':memory:').execute('select full_name from t')\n"
        "except sqlite3.OperationalError as exc: pytest.fail(f'no such thing: {exc}')",
    ),
    "done_and_wrong": ("product", f"{RUN}\nassert vnc_desktop.read_file('events.txt') == '3.00'"),
    "done_and_claimed": ("product", f"{RUN}\nassert vnc_agent.verify('3.00')"),
    "nothing_done": ("agent", f"{RUN}\nvnc_agent.check('3.00')"),
    "nothing_done_asserted": ("agent", f"{RUN}\nassert vnc_desktop.read_file('events.txt') == '3.00'"),
    "only_waited": ("agent", f"{RUN}\nassert vnc_desktop.read_file('events.txt') == '3.00'"),
    "nothing_done_but_by_hand": ("product", f"{RUN}\nvnc_agent.click(5, 5)\nassert 0"),
    "nothing_done_and_unsure": ("inconclusive", f"{RUN}\nassert vnc_agent.verify('3.00')"),
    "done_and_no_op": ("product", f"{RUN}\n{NO_OP}\n{WRONG}"),
    "no_op_twice": ("agent", f"{NO_OP}\n{NO_OP}\n{WRONG}"),
    "broke_and_no_op": (
        "product",
        f"with contextlib.suppress(OSError): vnc_agent.run('Buy', planner=acts_and_breaks)\n{NO_OP}\n{WRONG}",
    ),
    # --- an optional step
    "optional_gave_up": ("product", f"{OPTIONAL}\nexcept VncUseError: pass\n{DONE}\n{WRONG}"),
    "optional_gave_up_handled": ("product", f"{OPTIONAL}\nexcept VncUseError:\n  {DONE}\n  {WRONG}"),
    "optional_gave_up_and_no_op": ("product", f"{DONE}\n{OPTIONAL}\nexcept VncUseError: pass\n{NO_OP}\n{WRONG}"),
    "optional_gave_up_last": ("agent", f"{DONE}\n{OPTIONAL}\nexcept VncUseError: pass\n{WRONG}"),
    "optional_gave_up_last_handled": ("agent", f"{DONE}\n{OPTIONAL}\nexcept VncUseError:\n  {WRONG}"),
    "optional_gave_up_blamed": (
        "agent",
        f"{OPTIONAL}\nexcept VncUseError as exc:\n  {DONE}\n  raise AssertionError('no') from exc",
    ),
    # --- a verdict that is unsure
    "unsure_tip": ("product", f"{TIP}\n{RUN}\n{WRONG}"),
    "unsure_tip_later": ("product", f"{RUN}\n{TIP}\n{WRONG}"),
    "unsure_tip_in_a_loop": ("product", f"for _ in range(2):\n  {TIP}; break\n{WRONG}"),
    "unsure_tip_on_a_page": ("product", f"{RUN}\npage = Page(vnc_agent)\npage.close_tip()\n{WRONG}"),
    "unsure_tip_of_two": ("product", f"assert not vnc_agent.verify('tip').holds\n{RUN}\n{WRONG}"),
    "unsure_tip_caught": ("product", f"try:\n  if vnc_agent.verify('tip'): pass\nexcept Inconclusive: pass\n{WRONG}"),
    "unsure_asked": ("inconclusive", f"{RUN}\nassert vnc_agent.verify('3.00').holds"),
    "unsure_named": ("inconclusive", f"saved = {SAVED}\n{RUN}\nassert saved is True"),
    "unsure_helper": ("inconclusive", f"{RUN}\nassert Page(vnc_agent).is_saved()"),
    "unsure_on_a_page": ("inconclusive", f"{RUN}\npage = Page(vnc_agent)\npage.save()\nassert page.saved == 1"),
    "unsure_in_a_helper": ("inconclusive", f"{RUN}\nhelper.assert_total({SAVED})"),
    "unsure_fail": ("inconclusive", f"{RUN}\nif not {SAVED}: pytest.fail('not saved')"),
    "unsure_return": ("inconclusive", f"{RUN}\nif {SAVED}:\n  return\npytest.fail('not saved')"),
    "unsure_else": ("inconclusive", f"for _ in range(2):\n  if {SAVED}: break\nelse: pytest.fail('not saved')"),
    "unsure_caught": (
        "inconclusive",
        "ok = False\ntry: ok = bool(vnc_agent.verify('3.00'))\nexcept Inconclusive: pass\nassert ok is True",
    ),
    "unsure_checked": ("inconclusive", "ok = vnc_agent.check('3.00')\nassert ok is True"),
    "unsure_of_all": ("inconclusive", f"{SAVED}\nassert [each.holds for each in vnc_agent.verdicts] == [True]"),
    "unsure_in_a_thread": (
        "inconclusive",
        f"from concurrent import futures\nok = futures.ThreadPoolExecutor().submit(lambda: {SAVED}).result()\n"
        "assert ok is True",
    ),
}
MODULE = """
import contextlib, errno, sys
import pytest
import helper, installed
from conftest import Odd, OddAssertion, OddOutage
from pytest_vnc_use import Limits, Outcome
from pytest_vnc_use.errors import *
from pytest_vnc_use.types import Click

def made(function):
    try:
        function()
    except BaseException as exc:
        return exc

def clicks(observation):
    return None if observation.turns else Click(7, 7)

def acts_and_breaks(observation):
    if observation.turns:
        raise ConnectionError("no network")
    return Click(7, 7)

class Page:
    def __init__(self, agent):
        self.agent = agent
    def close_tip(self):
        if self.agent.verify("a tip of the day is shown").holds:
            self.agent.key("escape")
    def is_saved(self):
        return self.agent.verify("saved").holds
    def save(self):
        self.saved = self.is_saved()

"""


def body(name: str, text: str) -> str:
    return f"def test_{name}(vnc_desktop, vnc_agent, checked):\n{indent(text, '    ')}\n"


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(helper=HELPER)
    library = pytester.path / "lib" / "site-packages"
    library.mkdir(parents=True)
    (library / "installed.py").write_text(INSTALLED, encoding="utf-8")
    return pytester


@pytest.mark.desktop
@pytest.mark.slow
@pytest.mark.skipif(sys.version_info < (3, 11), reason="for except*, and groups without a backport")
@pytest.mark.parametrize("options", [(), ("-n2",)], ids=["alone", "on workers"])
def test_each_failure_is_told_as_what_broke(project: pytest.Pytester, options: tuple[str, ...]) -> None:
    project.makepyfile(test_it=MODULE + "\n".join(body(name, text) for name, (_, text) in BODIES.items()))
    result = project.runpytest_subprocess(*ON_PAD, *options, timeout=500)
    found = {name: test.triage for name, test in results().items()}
    assert {name: found.get(name) for name in BODIES} == {name: triage for name, (triage, _) in BODIES.items()}
    assert "INTERNALERROR" not in result.stdout.str()
    assert len(result.stdout.str()) < 400_000
    result.stdout.fnmatch_lines(
        ["*planner was wrong: it said that the task was done (1 action carried out): 'I did it!'*"]
    )


FIXTURES = """
import pytest
from conftest import Click
from pytest_vnc_use.errors import *

@pytest.fixture
def done(vnc_agent):
    vnc_agent.run("Buy", expect=None)

@pytest.fixture
def wrong(vnc_desktop):
    assert "3.00" in vnc_desktop.read_file("events.txt")

@pytest.fixture
def wrong_at_the_end(vnc_desktop):
    yield
    assert "3.00" in vnc_desktop.read_file("events.txt")

@pytest.fixture
def fails_at_the_end(vnc_desktop):
    yield
    pytest.fail("no total")

@pytest.fixture
def without_tip(vnc_agent):
    if vnc_agent.verify("a tip of the day is shown").holds:
        vnc_agent.key("escape")

@pytest.fixture
def unsure_of_total(vnc_agent):
    return vnc_agent.verify("3.00").holds

@pytest.fixture
def shows_unsure(unsure_of_total):
    yield
    assert unsure_of_total is True

def test_setup(done, wrong): ...

def test_setup_without_a_run(vnc_agent, wrong): ...

def test_teardown(wrong_at_the_end, done): ...

def test_teardown_fails(vnc_agent, fails_at_the_end): vnc_agent.run("Buy", expect=None)

def test_teardown_without_a_run(vnc_agent, wrong_at_the_end): ...

def test_teardown_gave_up(vnc_agent, wrong_at_the_end): vnc_agent.run("Buy", check=False, expect=None)

def test_teardown_unsure(shows_unsure, done): ...

def test_unsure_tip(without_tip, done, wrong): ...

def test_unsure_of_total(done, unsure_of_total): assert unsure_of_total is True

@pytest.fixture
def shows_the_end(request):
    yield
    request.getfixturevalue("vnc_agent").screenshot()

def test_asked_too_late(shows_the_end, vnc_agent): vnc_agent.run("Buy", expect=None)

def test_after_a_bug(vnc_agent, done, fails_at_the_end): {}["total"]

def test_after_an_outage(vnc_agent, done, fails_at_the_end): raise QuotaExhausted("x")

def test_after_a_failure(vnc_agent, done, fails_at_the_end): assert 0
"""
OF_FIXTURES = {
    "setup": "product",
    "setup_without_a_run": "inconclusive",
    "teardown": "product",
    "teardown_fails": "product",
    "teardown_without_a_run": "inconclusive",
    "teardown_gave_up": "agent",
    "teardown_unsure": "inconclusive",
    "unsure_tip": "product",
    "unsure_of_total": "inconclusive",
    "asked_too_late": "inconclusive",
    "after_a_bug": "inconclusive",
    "after_an_outage": "infra",
    "after_a_failure": "product",
}


@pytest.mark.slow
@pytest.mark.desktop
def test_a_fixture_of_the_users_asserts_as_a_body_does(project: pytest.Pytester) -> None:
    project.makepyfile(test_it=FIXTURES)
    result = project.runpytest_subprocess(*ON_PAD, timeout=400)
    assert {name: test.triage for name, test in results().items()} == OF_FIXTURES
    result.stdout.fnmatch_lines(
        [
            "ERROR *::test_after_a_bug - inconclusive: no total",
            "ERROR *::test_after_an_outage - inconclusive: no total",
            "ERROR *::test_after_a_failure - product: no total",
        ]
    )


# --- users' exceptions stay what they are -----------------------------------------------------------------------------

UNCHANGED = """
import pytest
from pytest_vnc_use.errors import QuotaExhausted

class Own(Exception): ...

class OwnOutage(QuotaExhausted):
    def __init__(self, code, host):
        super().__init__(code, host)

ERRORS = [Own("a", 2), OwnOutage(503, "shop"), AssertionError("no plan", 2), pytest.fail.Exception("no plan")]
CAUSE, CONTEXT = KeyError("cause"), ValueError("context")

def plan(observation):
    number = int(observation.task[-1])
    try:
        raise CONTEXT
    except ValueError:
        raise ERRORS[number] from CAUSE

def state(error):
    led = error.__cause__, error.__context__, error.__suppress_context__
    return type(error), error.args, dict(vars(error)), getattr(error, "__notes__", None), led

@pytest.fixture
def vnc_planner():
    return plan

@pytest.mark.parametrize("number", range(len(ERRORS)))
def test_caught(vnc_agent, number):
    before = type(ERRORS[number]), ERRORS[number].args, dict(vars(ERRORS[number])), None, (CAUSE, CONTEXT, True)
    with pytest.raises(BaseException) as caught:
        vnc_agent.run(f"Buy {number}")
    assert caught.value is ERRORS[number]
    assert state(caught.value) == before

@pytest.mark.parametrize("number", range(len(ERRORS)))
def test_not_caught(vnc_agent, number):
    vnc_agent.run(f"Buy {number}")

def test_in_the_body(vnc_agent):
    try:
        raise QuotaExhausted("per day")
    except QuotaExhausted:
        raise AssertionError("no", 3)
"""
LOOKS = """
import pytest

@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item, call):
    raised = call.excinfo and call.excinfo.value
    before = raised and (raised.args, dict(vars(raised)))
    report = yield
    assert (call.excinfo and call.excinfo.value) is raised
    assert before == (raised and (raised.args, dict(vars(raised))))
    return report

def pytest_exception_interact(call, report):
    with open("seen.txt", "a") as file:
        print(type(call.excinfo.value).__name__, call.excinfo.value.args, file=file)
"""


@pytest.mark.desktop
def test_what_a_user_raises_is_never_changed(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(LOOKS)
    pytester.makepyfile(UNCHANGED)
    result = pytester.runpytest_subprocess(*ON_PAD, "-rA", timeout=400)
    result.assert_outcomes(failed=9)  # `test_caught` by what it caught: nothing else is known of the product
    seen = (pytester.path / "seen.txt").read_text(encoding="utf-8").splitlines()
    assert seen[4:] == [
        "Own ('a', 2)",
        "OwnOutage (503, 'shop')",
        "AssertionError ('no plan', 2)",
        "Failed ('no plan',)",
        "AssertionError ('no', 3)",
    ]
    assert not [words for words in seen[:4] if "broke: " not in words]
    told = {name: test.triage for name, test in results().items()}
    assert [*told.values()] == [*["agent", "infra", "agent", "agent"] * 2, "infra"]


# --- tried again, repeated, expected to fail --------------------------------------------------------------------------

TRIES = """
import pytest
from pathlib import Path
from pytest_vnc_use.errors import *

class Desktop:
    server, password = "localhost::1", None

@pytest.fixture
def vnc_desktop():
    return Desktop()

def first_time(name):
    with open(name, "a") as file:
        file.write("x")
    return len(Path(name).read_text()) == 1

class OddOutage(QuotaExhausted):
    def __init__(self, a, b):
        self.a = a
    def __str__(self):
        return f"{self.a} is out"

def test_infra(vnc_desktop):
    if first_time("infra"):
        try:
            raise QuotaExhausted("x")
        except VncUseError:
            pytest.fail("no")

def test_odd(vnc_desktop):
    if first_time("odd"):
        raise OddOutage("quota", 2)

def test_product(vnc_desktop):
    first_time("product")
    assert 0

def test_agent(vnc_desktop):
    if first_time("agent"):
        try:
            raise AgentFailed("x")
        except VncUseError:
            assert 0
"""


@pytest.mark.slow
@pytest.mark.parametrize(("only", "twice"), [("InfraError", {"infra", "odd"}), ("AgentFailed", {"agent"})])
def test_rerunfailures_finds_what_broke(pytester: pytest.Pytester, only: str, twice: set[str]) -> None:
    pytester.makepyfile(TRIES)
    result = pytester.runpytest_subprocess(*QUIET, "--reruns=1", f"--only-rerun={only}")
    files = [file for file in pytester.path.iterdir() if file.suffix == "" and file.is_file()]
    assert {file.name for file in files if file.read_text() == "xx"} == twice
    result.assert_outcomes(passed=len(twice), failed=4 - len(twice))
    retried = {name: test.retried_for for name, test in results().items() if test.retried_for}
    assert retried == dict.fromkeys(twice, ("infra",) if only == "InfraError" else ("agent",))


EXPECTED = """
import pytest
from pytest_vnc_use.errors import *

class Desktop:
    server, password = "localhost::1", None

@pytest.fixture
def vnc_desktop():
    return Desktop()

@pytest.fixture
def no_key(vnc_desktop):
    raise KeyMissing("no API key is set")

@pytest.fixture
def lost_at_the_end(vnc_desktop):
    yield
    raise ConnectionLost("gone")

known = pytest.mark.xfail(reason="known", strict=STRICT)

@known
def test_outage(vnc_desktop): raise QuotaExhausted("per day")

@known
def test_settings(no_key): ...

@known
def test_outage_caught(vnc_desktop):
    try: raise QuotaExhausted("per day")
    except VncUseError: pytest.fail("no")

@known
def test_lost_at_the_end(lost_at_the_end): assert 0

@pytest.mark.xfail(raises=(AssertionError, VncUseError), strict=STRICT)
def test_any_class(vnc_desktop): raise ConnectionLost("gone")

def test_by_a_call(vnc_desktop):
    try: raise QuotaExhausted("per day")
    except VncUseError: pytest.xfail("known")

@known
def test_product(vnc_desktop): assert 0

@known
def test_agent(vnc_desktop): raise AgentFailed("no basket")

@pytest.mark.xfail(raises=QuotaExhausted, strict=STRICT)
def test_named(vnc_desktop): raise QuotaExhausted("per day")

@pytest.mark.xfail(run=False)
def test_not_run(vnc_desktop): ...

@known
def test_skipped(vnc_desktop):
    try: raise QuotaExhausted("per day")
    except VncUseError: pytest.skip("later")
"""
AS_IT_IS = {
    "outage": ("failed", "infra"),
    "settings": ("error", "settings"),
    "outage_caught": ("failed", "infra"),
    "lost_at_the_end": ("error", "infra"),
    "any_class": ("failed", "infra"),
    "by_a_call": ("failed", "infra"),
    "product": ("xfailed", None),
    "agent": ("xfailed", "agent"),
    "named": ("xfailed", "infra"),
    "not_run": ("xfailed", None),
    "skipped": ("skipped", None),
}


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("-n2",), ("--vnc-repeat=2",)], ids=["alone", "on workers", "repeated"])
@pytest.mark.parametrize("strict", [False, True])
def test_an_outage_is_told_though_a_failure_was_expected(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], strict: bool
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    pytester.makepyfile(EXPECTED.replace("STRICT", str(strict)))
    result = pytester.runpytest_subprocess(*QUIET, *options, "-ra", "--junitxml=junit.xml", "--html=report.html")
    times = 2 if "--vnc-repeat=2" in options else 1
    told = {name.partition("[")[0]: (test.result, test.triage) for name, test in results().items()}
    assert told == AS_IT_IS
    result.assert_outcomes(failed=4 * times, errors=2 * times, xfailed=5 * times, skipped=times)
    result.stdout.fnmatch_lines(
        [
            f"vnc-use: {6 * times} failed: {5 * times} infra, {times} settings",
            f"vnc-use: {2 * times} expected to fail, and did, but not for the product: {times} agent, {times} infra",
        ]
    )
    summary = result.stdout.str()
    assert "test_outage" in summary
    assert " - infra: QuotaExhausted: per day" in summary
    assert " - settings: no API key is set" in summary


# --- files of tasks, and recordings -----------------------------------------------------------------------------------

TASKS = """
[[test]]
name = "nothing"
task = "Look"
expect = ["3.00"]

[[test]]
name = "wrong"
task = "Click"
expect = ["3.00"]

[[test]]
name = "bug"
task = "Break"
expect = ["3.00"]
"""
PLANS = """
from pathlib import Path
import pytest
from pytest_vnc_use.types import Click, Verdict

def plan(observation):
    if "Break" in observation.task:
        return {}["basket"]
    return Click(5, 5) if "Click" in observation.task and not observation.turns else None

class Judge:
    def judge(self, claim, frame, *, timeout_s, report):
        return Verdict(claim, "fails", "so it looks", frame=frame.ref)

@pytest.fixture
def vnc_planner():
    return plan

@pytest.fixture
def vnc_judge():
    return Judge()
"""


@pytest.mark.desktop
def test_in_files_of_tasks(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(PLANS)
    (pytester.path / "test_pad.vnc.toml").write_text(TASKS, encoding="utf-8")
    result = pytester.runpytest_subprocess(*ON_PAD, timeout=400)
    told = {test.test.rpartition("::")[2]: test.triage for test in read_results(Path("runs/vnc-results.json")).tests}
    assert told == {"nothing": "agent", "wrong": "product", "bug": "agent"}
    result.stdout.fnmatch_lines(["*planner was wrong: it said that the task was done (1 action carried out): *"])


@pytest.mark.desktop
@pytest.mark.slow
def test_a_replay_is_no_word_of_a_planner(pytester: pytest.Pytester) -> None:
    """A state that was right when it was recorded, with as little done, and is wrong now, is the product's fault."""
    pytester.makeconftest(PLANS)
    pytester.makepyfile(
        test_it="""
        from pathlib import Path
        import pytest

        @pytest.mark.vnc_task("Look")
        def test_look(vnc_desktop): assert vnc_desktop.run(["ls", str(Path("broken").resolve())]).exit_code != 0
        """
    )
    pytester.runpytest_subprocess(*ON_PAD, "--vnc-record=auto", timeout=400).assert_outcomes(passed=1)
    (pytester.path / "broken").touch()
    replayed = pytester.runpytest_subprocess(*ON_PAD, "--vnc-record=replay", timeout=400)
    assert results()["look"].triage == "product"
    assert "planner was wrong" not in replayed.stdout.str()
    live = pytester.runpytest_subprocess(*ON_PAD, "--vnc-record=off", timeout=400)
    assert results()["look"].triage == "agent"
    live.stdout.fnmatch_lines(["*the planner was wrong: it said that the task was done (nothing at all was done): *"])


@pytest.mark.slow
@pytest.mark.parametrize("planner", ["gemini", "anthropic", "openai"])
def test_a_key_that_is_not_set_is_a_setting(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, planner: str
) -> None:
    for variable in ("GOOGLE_API_KEY", "GEMINI_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    pytester.makepyfile(
        test_it="""
        import pytest
        from pytest_vnc_use.planners.local.scripted import ScriptedPlanner

        class Desktop:
            server, password = "localhost::1", None

        @pytest.fixture
        def vnc_desktop():
            return Desktop()

        @pytest.mark.vnc_task("Buy", expect="it is bought")
        def test_planner(vnc_agent): ...

        class TestJudge:
            @pytest.fixture
            def vnc_planner(self):
                return ScriptedPlanner([])

            def test_judge(self, vnc_agent):
                assert vnc_agent.judge

        @pytest.mark.xfail(strict=True)
        @pytest.mark.vnc_task("Buy", expect="it is bought")
        def test_expected(vnc_agent): ...
        """
    )
    result = pytester.runpytest_subprocess(*QUIET, f"--vnc-planner={planner}")
    assert {name: test.triage for name, test in results().items()} == dict.fromkeys(
        ("planner", "judge", "expected"), "settings"
    )
    result.assert_outcomes(errors=2, failed=1)
