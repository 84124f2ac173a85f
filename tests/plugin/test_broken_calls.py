"""Calls of a test to its agent and its desktop that broke: what the test is told as that caught their errors."""

from __future__ import annotations

from textwrap import indent

import pytest

from support.pad_sessions import ON_PAD, QUIET, results

CONFTEST = """
import contextlib
import pytest
from pytest_vnc_use.errors import *
from pytest_vnc_use.planners.local.scripted import ScriptedPlanner
from pytest_vnc_use.types import Click, Decision, Reading, Verdict

class Judge:
    asked = 0

    def judge(self, claim, frame, *, timeout_s, report):
        self.asked += 1
        if "down" in claim or ("late" in claim and self.asked < 3):
            raise ConnectionError("HTTP 503")
        if "bug" in claim:
            return {}["basket"]
        if "budget" in claim:
            raise BudgetExceeded("the tokens are used up")
        return Verdict(claim, "fails" if "wrong" in claim else "holds", "so it looks", frame=frame.ref)

    def read(self, question, schema, frame, *, timeout_s, report):
        if "down" in question:
            raise QuotaExhausted("per day")
        return Reading(question, None, "no such value", frame=frame.ref)

@pytest.fixture
def vnc_judge():
    return Judge()

@pytest.fixture
def vnc_planner(request):
    calls = []
    def plan(observation):
        calls.append(observation)
        if "Break" in observation.task or ("Retry" in observation.task and len(calls) == 1):
            raise ConnectionError("no network")
        return Decision("finished", "done") if observation.turns else Click(5, 5)
    return ScriptedPlanner(plan)

@pytest.fixture
def told(vnc_agent):
    try:
        return bool(vnc_agent.verify("it is down"))
    except Exception:
        return False

@pytest.fixture
def left(vnc_agent):
    yield
    with contextlib.suppress(Exception):
        vnc_agent.verify("it is down")

@pytest.fixture
def lost(vnc_agent, monkeypatch):
    def lost(*args, **options):
        raise ConnectionLost("connection reset")
    def lose(name):
        monkeypatch.setattr(type(vnc_agent.controller), name, lost)
    return lose
"""
MODULE = """
import contextlib
import pytest
from pytest_vnc_use import Limits
from pytest_vnc_use.errors import *

def tried(call, otherwise=False):
    try:
        return call()
    except Exception:
        return otherwise

def down(observation):
    raise ConnectionError("no network")

def no_error_in(text):
    assert "error" not in text

class Page:
    def load(self, desktop):
        try:
            self.text = desktop.run(["nosuch"]).stdout
        except VncUseError:
            self.text = ""

"""
RUN, DOWN = "vnc_agent.run('Buy')", "lambda: bool(vnc_agent.verify('it is down'))"
ABSENT = "assert tried(lambda: vnc_desktop.read_file('nosuch'), '') == '3.00'"
RETRY = "for _ in range(3):\n    with contextlib.suppress(Exception):\n        assert vnc_agent.verify('it is late')\n"
AGAIN = "tried(lambda: vnc_agent.run('Retry'))\nvnc_agent.run('Retry')"
READ = "vnc_desktop.read_file('events.txt')"
TEXT = "tried(lambda: vnc_desktop.run(['nosuch']).stdout, '')"
TEXT_IS = "text = vnc_desktop.run(['nosuch']).stdout"
NO_KEY = f"{RUN}\ntry: vnc_agent.key('nosuchkey')"
LISTED = "vnc_desktop.run(['ls']).stdout"
LAST_BREAKS = "with contextlib.suppress(ConnectionError): vnc_agent.run('Break')"
HIDDEN = f"text = ''\nwith contextlib.suppress(VncUseError): {TEXT_IS}"
PICTURE = "try: vnc_desktop.run(['nosuch', '-window', 'root'])\nexcept Exception: pass"
TIP = "try:\n  if vnc_agent.verify('it is down').holds: vnc_agent.key('escape')\nexcept Exception: pass"
SAVED = "bool(vnc_agent.verify('it is saved'))"
AGAIN_OTHERWISE = "for n in range(3):\n  try: vnc_agent.run(f'Retry {n}', limits=Limits(steps=10 + n)); break"
BODIES: dict[str, tuple[str | None, str]] = {
    # --- an assertion that fails later
    "judge_down": ("infra", f"ok = tried({DOWN})\nassert ok"),
    "judge_down_by_check": ("infra", "ok = tried(lambda: vnc_agent.check('it is down'))\nassert ok"),
    "judge_down_by_saw": ("infra", "ok = tried(lambda: vnc_agent.saw('it is down'))\nassert ok"),
    "judge_down_after_a_run": ("infra", f"{RUN}\nok = tried({DOWN})\nassert ok"),
    "judge_down_and_fail": ("infra", f"ok = tried({DOWN})\nif not ok: pytest.fail('not saved')"),
    "judge_down_and_a_bug": ("infra", f"ok = tried({DOWN}, None)\nok.upper()"),
    "judge_broke": ("agent", "ok = tried(lambda: vnc_agent.verify('a bug'))\nassert ok"),
    "judge_without_budget": ("budget", "ok = tried(lambda: vnc_agent.verify('budget'))\nassert ok"),
    "no_value_read": ("infra", "total = tried(lambda: vnc_agent.extract(str, 'down?'), '')\nassert total == '3'"),
    "no_value_there": ("inconclusive", "total = tried(lambda: vnc_agent.extract(int, 'total?'), 0)\nassert total == 3"),
    "in_a_fixture": ("infra", "assert told"),
    "no_such_command": ("settings", "ran = tried(lambda: vnc_desktop.run(['nosuch']))\nassert ran"),
    "click_lost": ("infra", "lost('perform')\nok = tried(lambda: vnc_agent.click(5, 5), None)\nassert ok"),
    "screenshot_lost": ("infra", "lost('frame')\nshot = tried(vnc_agent.screenshot, b'')\nassert len(shot) > 10"),
    "planner_down": ("infra", "tried(lambda: vnc_agent.run('Break'))\nassert 0"),
    "not_the_other": ("settings", f"text = {TEXT}\nassert {LISTED}\nassert text == '3.00'"),
    "of_a_page": ("settings", f"{RUN}\npage = Page()\npage.load(vnc_desktop)\nassert page.text == '3.00'"),
    "hidden": ("settings", f"{RUN}\ntext = ''\nwith contextlib.suppress(VncUseError): {TEXT_IS}\nassert text"),
    "last_run_hidden": ("infra", f"{RUN}\n{LAST_BREAKS}\nassert 0"),
    # --- what is evidence about the product
    "file_is_missing": ("product", ABSENT),
    "command_fails": ("product", "ran = vnc_desktop.run(['sh', '-c', 'exit 3'])\nassert ran.exit_code == 0"),
    "judge_says_no": ("product", f"tried({DOWN})\nassert vnc_agent.verify('it is wrong')"),
    "judge_came_back": ("product", f"{RETRY}assert 0"),
    "planner_came_back": ("product", f"{AGAIN}\nassert 0"),
    # --- what nothing rests on, or was made good
    "other_run": ("product", "tried(lambda: vnc_agent.run('Break'))\nvnc_agent.run('Buy')\nassert 0"),
    "no_picture": ("product", f"{RUN}\n{PICTURE}\nassert {READ} == '3.00'"),
    "no_elements": ("product", f"known = tried(vnc_desktop.elements)\n{RUN}\nassert {READ} == '3.00'"),
    "told_to_break": ("product", f"{RUN}\nwith pytest.raises(CommandMissing): {TEXT_IS}\nassert {READ} == '3.00'"),
    "another_way_wrong": ("product", f"try: {TEXT_IS}\nexcept VncUseError: text = {READ}\nassert '3.00' in text"),
    "another_hand": ("product", f"{NO_KEY}\nexcept ActionError: vnc_agent.click(5, 5)\nassert {READ} == '3.00'"),
    "no_hand": ("inconclusive", f"{NO_KEY}\nexcept ActionError: pass\nassert {READ} == '3.00'"),
    "asked_for_a_tip": ("product", f"{RUN}\n{TIP}\nassert {READ} == '3.00'"),
    # --- a test that would pass
    "raises_anything": ("infra", "with pytest.raises(Exception): assert vnc_agent.verify('it is down')"),
    "raises_ours": ("infra", "with pytest.raises(QuotaExhausted): vnc_agent.extract(str, 'down?')"),
    "bad_is_false": ("infra", f"{RUN}\nbad = tried({DOWN})\nassert not bad\nassert vnc_agent.verify('it is saved')"),
    "run_broke": ("infra", "tried(lambda: vnc_agent.run('Break'))\nassert vnc_desktop.run(['ls']).stdout"),
    "run_raises": ("infra", "with pytest.raises((InfraError, Exception)): vnc_agent.run('Break')"),
    "raises_no_command": ("settings", "with pytest.raises(Exception): assert vnc_desktop.run(['nosuch']).stdout"),
    "raises_lost": ("infra", "lost('frame')\nwith pytest.raises(Exception): assert not vnc_agent.screenshot()"),
    "no_error_there": ("settings", f"{RUN}\ntext = {TEXT}\nassert {READ}\nassert 'error' not in text"),
    "no_error_before": ("settings", f"text = {TEXT}\n{RUN}\nassert 'error' not in text"),
    "no_error_found": ("settings", f"{RUN}\ntext = {TEXT}\nif 'error' in text: pytest.fail(text)\nassert {READ}"),
    "no_error_compared": ("settings", f"{RUN}\ntext = {TEXT}\nno_error_in(text)\nassert {READ}"),
    "no_error_on_page": ("settings", f"{RUN}\npage = Page()\npage.load(vnc_desktop)\nassert 'error' not in page.text"),
    "no_error_hidden": ("settings", f"{RUN}\n{HIDDEN}\nassert {READ}\nassert 'error' not in text"),
    "no_error_but_a_look": ("settings", f"text = {TEXT}\nif not text: {READ}\nassert 'error' not in text"),
    "check_is_down": ("infra", f"{RUN}\ntried(lambda: vnc_agent.check('it is down'))\nassert {READ}"),
    "verdict_is_down": ("infra", f"{RUN}\ntried(lambda: vnc_agent.verify('it is down'))\nassert {READ}"),
    "key_is_lost": ("infra", f"{RUN}\nlost('perform')\ntried(lambda: vnc_agent.key('delete'))\nassert {READ}"),
    "last_run_broke": ("infra", f"{RUN}\n{LAST_BREAKS}\nassert {READ}"),
    "raises_by_the_way": ("settings", f"{RUN}\nwith pytest.raises(Exception): {TEXT_IS}\nassert {READ}"),
    "went_on": ("settings", f"{RUN}\nfor _ in 'ab':\n  try: {TEXT_IS}\n  except VncUseError: continue\n  assert text"),
    # --- a test that passes
    "again_otherwise": (None, f"{AGAIN_OTHERWISE}\n  except VncUseError: pass\n  except OSError: pass\nassert {READ}"),
    "again_or_raise": (None, f"{AGAIN_OTHERWISE}\n  except OSError:\n    if n == 2: raise\nassert {READ}"),
    "again_with_value": (None, f"{RUN}\nok = tried({DOWN}, None)\nif ok is None: ok = {SAVED}\nassert ok"),
    "another_planner": (None, f"try: vnc_agent.run('Buy', planner=down)\nexcept OSError: {RUN}\nassert {READ}"),
    "other_planners": (None, f"for each in (down, None): tried(lambda: {RUN[:-1]}, planner=each))\nassert {READ}"),
    "another_way": (None, f"{RUN}\ntry: {TEXT_IS}\nexcept VncUseError: text = {READ}\nassert 'press' in text"),
    "another_way_in_line": (None, f"{RUN}\ntext = {TEXT} or {READ}\nassert 'press' in text"),
    "no_elements_at_all": (None, f"known = tried(vnc_desktop.elements)\n{RUN}\nassert {READ}"),
    "no_picture_at_all": (None, f"{RUN}\n{PICTURE}\nassert {READ}"),
    "picture_told": (None, f"{RUN}\ntry: {TEXT_IS}\nexcept VncUseError as exc: print(exc)\nassert {READ}"),
    "another_command": (None, f"{RUN}\ntried(lambda: vnc_desktop.run(['nosuch']))\nassert {LISTED}"),
    "told_to_break_so": (None, f"{RUN}\nwith pytest.raises(VncUseError) as told: {TEXT_IS}\nassert {READ} and told"),
    "asked_for_a_tip_only": (None, f"{RUN}\n{TIP}\nassert {READ}"),
    "came_back": (None, f"{RETRY}{RUN}\nassert vnc_agent.verify('it is saved')"),
    "run_came_back": (None, f"{AGAIN}\nassert vnc_agent.verify('ok')"),
    "no_such_key": (None, "with pytest.raises(ActionError): vnc_agent.key('nosuchkey')"),
    "optional_value": (None, f"{RUN}\ntried(lambda: vnc_agent.extract(int, 'hint?'))\nassert vnc_agent.verify('ok')"),
    "broke_at_the_end": (None, f"{RUN}\nassert vnc_agent.verify('it is saved')"),
}  # fmt: skip


def body(name: str, text: str) -> str:
    fixture = {"in_a_fixture": ", told", "broke_at_the_end": ", left"}.get(name, ", lost" if "lost(" in text else "")
    return f"def test_{name}(vnc_desktop, vnc_agent{fixture}):\n{indent(text, '    ')}\n"


@pytest.mark.desktop
@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("-n2", "--reruns=1")], ids=["alone", "on workers, tried again"])
def test_a_call_that_broke_is_no_word_on_the_product(pytester: pytest.Pytester, options: tuple[str, ...]) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_it=MODULE + "\n".join(body(name, text) for name, (_, text) in BODIES.items()))
    result = pytester.runpytest_subprocess(*ON_PAD, *options, timeout=500)
    assert {name: test.triage for name, test in results().items()} == {name: each for name, (each, _) in BODIES.items()}
    result.stdout.fnmatch_lines(["verify('it is down') broke: ConnectionError: HTTP 503; the test's code caught that*"])
    assert "broken_calls" not in result.stdout.str()


ASIDE = """
from threading import Thread

def read_aside(desktop, seen):
    thread = Thread(target=lambda: seen.append(desktop.run(["nosuch"]).stdout))
    thread.start()
    thread.join()

def test_in_a_thread(vnc_agent, vnc_desktop):
    vnc_agent.run("Buy")
    read_aside(vnc_desktop, seen := [])
    assert seen and "3.00" in seen[0]

def test_and_again(vnc_agent, vnc_desktop):
    vnc_agent.run("Buy")
    read_aside(vnc_desktop, [])
    assert vnc_desktop.run(["ls"]).stdout == "3.00"
"""


@pytest.mark.desktop
def test_a_call_that_broke_in_a_thread_explains_what_fails_later(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_it=ASIDE)
    pytester.runpytest_subprocess(*ON_PAD, "-Wignore", timeout=400)
    assert {name: test.triage for name, test in results().items()} == {
        "in_a_thread": "settings",
        "and_again": "product",
    }


OWN = """
import pytest
from pytest_vnc_use.errors import DesktopError

class Desk:
    server, password = "localhost::1", None

    def read_file(self, name):
        raise DesktopError("the desktop is gone: docker exec failed")

class Slotted(Desk):
    __slots__ = ()

@pytest.fixture(scope="session")
def vnc_desktop():
    return Desk()

def test_read(vnc_desktop):
    text = ""
    try:
        text = vnc_desktop.read_file("orders.csv")
    except Exception:
        pass
    assert "apples" in text

def test_next(vnc_desktop):
    assert "apples" in ""

@pytest.mark.xfail(strict=True)
def test_expected(vnc_desktop):
    try:
        text = vnc_desktop.read_file("orders.csv")
    except Exception:
        text = ""
    assert "apples" in text

@pytest.mark.xfail(strict=True, raises=DesktopError)
def test_expected_by_name(vnc_desktop):
    with pytest.raises(DesktopError):
        vnc_desktop.read_file("orders.csv")

def test_what_it_is(vnc_desktop):
    assert type(vnc_desktop) is Desk
    assert vnc_desktop.read_file.__self__ is vnc_desktop
"""


@pytest.mark.slow
def test_a_desktop_of_the_users_own(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(OWN)
    result = pytester.runpytest_subprocess(*QUIET)
    result.assert_outcomes(failed=3, passed=1, xfailed=1)
    told = {name: test.triage for name, test in results().items()}
    assert told == {
        "read": "infra",
        "next": "product",
        "expected": "infra",
        "expected_by_name": "infra",
        "what_it_is": None,
    }


FIRST = """
import dataclasses, pytest

@pytest.fixture
def vnc_settings(vnc_settings):
    return dataclasses.replace(vnc_settings, server="localhost::1")

def test_it(request):
    agent = request.getfixturevalue("vnc_agent")
    try:
        agent.run("press x", expect=["all is red"])
    except Exception:
        pass
"""


def test_the_first_agent_of_a_session_is_watched_where_nothing_is_set(pytester: pytest.Pytester) -> None:
    """Its test fetches it while it runs: only then is it known that there is a test with a desktop."""
    pytester.makepyfile(FIRST)
    result = pytester.runpytest_subprocess("-p", "no:pytest-vnc", "-p", "no:cacheprovider")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*run('press x', expect=[[]'all is red'[]]) broke: *"])


@pytest.mark.parametrize("name", ["vnc_planner", "vnc_judge", "vnc_functions", "vnc_app", "vnc_settings"])
def test_each_fixture_may_be_the_first(pytester: pytest.Pytester, name: str) -> None:
    pytester.makepyfile(f"def test_it(request): request.getfixturevalue({name!r})")
    pytester.runpytest_subprocess("-p", "no:pytest-vnc").assert_outcomes(passed=1)
