"""The one rule for verdicts: each task of a test is judged when it ends, unless its
author says expect=None.
"""

from __future__ import annotations

import json

import pytest

from pytest_vnc_use.report.results import ItemResult
from support.pad_sessions import QUIET, results
from support.paths import TESTS
from support.served_screen import served_screen
from support.vnc_servers import require_package

CONFTEST = """
import os
import pytest
from pytest_vnc_use.errors import FileMissing, ModelUnavailable
from pytest_vnc_use.types import Click, Confirmation, Decision, Move, Proposal, Verdict

class Judge:
    def judge(self, claim, frame, *, timeout_s, report):
        if "outage" in claim:
            raise ModelUnavailable("the judge is down")
        if "nonsense" in claim:
            return claim
        kind = next((kind for kind in ("fails", "unsure") if kind in claim), "holds")
        return Verdict(claim, kind, f"it {kind}", frame=frame.ref)

@pytest.fixture
def vnc_judge(request):
    if "NO_JUDGE" in os.environ or "without_judge" in request.node.name:
        return None
    return Judge.judge if "judge_without_method" in request.node.name else Judge()

def plan(observation):
    if "give up" in observation.task:
        return Decision("gave_up", "there is no such button")
    if "break" in observation.task:
        raise ModelUnavailable("the model is down")
    if "raise" in observation.task:
        raise ConnectionError("no network") if "network" in observation.task else RuntimeError("no plan")
    if "nothing" in observation.task:
        return None
    if "circle" in observation.task:
        return [Move(5, 5)]
    if "everywhere" in observation.task:
        return [Move(5 * len(observation.turns), 5)]
    if "Look" in observation.task:
        return Decision("finished", "done")
    if "twice" in observation.task and len(observation.turns) < 2:
        return [Click(5, 5 + len(observation.turns))]
    if "buy" in observation.task:
        return [Proposal(Click(5, 5), "buy", {}, Confirmation("this buys two apples"))]
    return Decision("finished", "done") if observation.turns else [Click(5, 5)]

@pytest.fixture
def vnc_planner():
    from pytest_vnc_use.planners.local.scripted import ScriptedPlanner
    return ScriptedPlanner(plan)

class OwnPlanner:
    name = "own"

    def decide(self, observation, *, timeout_s):
        return "click"

@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if call.when == "call" and "failed_by_another_plugin" in item.name:
        report.outcome, report.longrepr = "failed", "check 1 == 2"
    return report

@pytest.fixture
def signed_in(vnc_agent, request):
    vnc_agent.run(request.param)
"""
PAINTED = """
from support.memory_desktop import PaintedController

class Painted:
    server, password, read_file = "painted::1", None, None

@pytest.fixture
def vnc_desktop():
    return Painted()

@pytest.fixture(autouse=True)
def painted(monkeypatch):
    paint = lambda *_, **__: PaintedController(repaint=False)
    monkeypatch.setattr("pytest_vnc_use.agent.leasing.connect", paint)
"""
IMPORTS = """
import os
import conftest
import pytest
from pytest_vnc_use.errors import AgentFailed, Inconclusive, InfraError, PlannerError
task, xfail = pytest.mark.vnc_task, pytest.mark.xfail

def outage(agent):
    try: agent.run("break")
    except InfraError: pass
"""
ROWS: dict[str, tuple[str, str]] = {
    # markers
    "claim_fails": ("product", "@task('Look', expect='it fails')\ndef test_(): ..."),
    "claim_unsure": (
        "inconclusive",
        "@task('Look', expect='it is unsure')\ndef test_(): ...",
    ),
    "claim_outage": ("infra", "@task('Look', expect='an outage')\ndef test_(): ..."),
    "failure_expected": (
        "xfailed",
        "@xfail\n@task('Look', expect='it fails')\ndef test_(): ...",
    ),
    "xfail_of_unsure": (
        "xfailed",
        (
            "@xfail(raises=Inconclusive)\n@task('Look', expect='it is unsure')\ndef"
            " test_(): ..."
        ),
    ),
    "xfail_passes": (
        "inconclusive",
        "@xfail(strict=True)\n@task('Look', expect='it holds')\ndef test_(): ...",
    ),
    "body_asserts_on_top": (
        "product",
        "@task('Look', expect='it holds')\ndef test_(): assert 0",
    ),
    "claims_hold": (
        "passed",
        "@task('Look', expect=['it holds', 'more holds'])\ndef test_(): ...",
    ),
    "end_holds": ("passed", "@task('Look')\ndef test_(): ..."),
    "end_fails": ("agent", "@task('Look what fails')\ndef test_(): ..."),
    "end_unsure": ("inconclusive", "@task('Look what is unsure')\ndef test_(): ..."),
    "body_alone": ("passed", "@task('Look what fails', expect=None)\ndef test_(): ..."),
    "first_marker_fails": (
        "product",
        (
            "@task('Look', expect='it fails')\n@task('give up')\nclass TestFirst:\n "
            " def test_(self): ..."
        ),
    ),
    "circles_to_the_limit": ("agent", "@task('circle', max_steps=3)\ndef test_(): ..."),
    "steps_used_up": (
        "budget",
        "@task('go everywhere', max_steps=2)\ndef test_(): ...",
    ),
    "limit_holds_for_its_own_task": (
        "passed",
        (
            "@task('Click', max_steps=1, expect=None)\n@task('Click twice',"
            " expect=None)\ndef test_(): ..."
        ),
    ),
    "denied": ("policy", "@task('buy', expect=None)\ndef test_(): ..."),
    "marker_without_judge": (
        "settings",
        (
            "class TestNobody:\n  @pytest.fixture\n  def vnc_desktop(self):"
            " pytest.fail('it was set up')\n  @task('Look')\n  def test_(self,"
            " vnc_desktop): ..."
        ),
    ),
    # run() in bodies, fixtures, threads, subtests
    "run_end_fails": (
        "agent",
        "def test_(vnc_agent): vnc_agent.run('Look what fails')",
    ),
    "run_claims_of_iterator": (
        "settings",
        "def test_(vnc_agent): vnc_agent.run('Look', expect=iter(['it fails']))",
    ),
    "run_unchecked": (
        "settings",
        "def test_(vnc_agent): vnc_agent.run('give up', check=False)",
    ),
    "run_without_judge": ("settings", "def test_(vnc_agent): vnc_agent.run('Look')"),
    "judge_without_method": ("settings", "def test_(vnc_agent): ..."),
    "run_in_fixture": (
        "agent",
        (
            "@pytest.mark.parametrize('signed_in', ['Look what fails'],"
            " indirect=True)\ndef test_(signed_in): ..."
        ),
    ),
    "run_in_subtest": (
        "agent",
        (
            "def test_(vnc_agent, subtests):\n  with subtests.test('one'):"
            " vnc_agent.run('Look what fails')"
        ),
    ),
    # claims and checks in bodies and fixtures
    "verify_holds": (
        "passed",
        "def test_(vnc_agent): assert vnc_agent.verify('it holds').holds",
    ),
    "assess_fails": (
        "passed",
        "def test_(vnc_agent): assert vnc_agent.assess('it fails').kind == 'fails'",
    ),
    "assess_unsure_as_truth": (
        "inconclusive",
        "def test_(vnc_agent): assert not vnc_agent.assess('it is unsure')",
    ),
    "checks_unmet": (
        "product",
        (
            "def test_(vnc_agent):\n  for met in (False, True, False):"
            " vnc_agent.check(met, 'so')\n  print('at the end')"
        ),
    ),
    "check_unmet_then_skip": (
        "product",
        "def test_(vnc_agent): vnc_agent.check(False, 'a'); pytest.skip('b')",
    ),
    "check_unmet_then_error": (
        "inconclusive",
        "def test_(vnc_agent): vnc_agent.check(False, 'a'); raise KeyError('b')",
    ),
    "check_unmet_in_teardown": (
        "product",
        (
            "@pytest.fixture\ndef basket(vnc_agent):\n  yield\n  vnc_agent.check(False,"
            " 'it is empty again')\ndef test_(basket): ..."
        ),
    ),
    "check_unmet_in_broken_setup": (
        "inconclusive",
        (
            "@pytest.fixture\ndef shop(vnc_agent): vnc_agent.check(False, 'it is"
            " open'); raise LookupError('no shop')\ndef test_(shop): ..."
        ),
    ),
    "failed_by_another_plugin": ("product", "def test_(vnc_agent): ..."),
    # planners and judges of the user's own
    "planner_raises": ("agent", "@task('raise')\ndef test_(): ..."),
    "planner_raises_what_xfail_does_not_name": (
        "agent",
        "@xfail(raises=(KeyError, OSError))\n@task('raise')\ndef test_(): ...",
    ),
    "planner_error_xfailed": (
        "xfailed",
        "@xfail(raises=AgentFailed)\n@task('raise')\ndef test_(): ...",
    ),
    "network_not_xfailed": (
        "infra",
        "@xfail(raises=Exception)\n@task('raise: no network')\ndef test_(): ...",
    ),
    "planner_answers_nothing": (
        "agent",
        "@task('answer nothing', expect=None)\ndef test_(): ...",
    ),
    "planner_object_answers_text": (
        "agent",
        "def test_(vnc_agent): vnc_agent.run('Look', planner=conftest.OwnPlanner())",
    ),
    "judge_answers_text": (
        "settings",
        "def test_(vnc_agent): vnc_agent.verify('nonsense')",
    ),
    # a tool that failed in a test that continued
    "tool_failed_and_caught": ("infra", "def test_(vnc_agent): outage(vnc_agent)"),
    "tool_failed_then_judged": (
        "passed",
        "def test_(vnc_agent): outage(vnc_agent); vnc_agent.run('Look')",
    ),
    "tool_failed_then_unjudged": (
        "infra",
        "def test_(vnc_agent): outage(vnc_agent); vnc_agent.run('Look', expect=None)",
    ),
    "tool_failure_expected_by_raises": (
        "infra",
        (
            "def test_(vnc_agent):\n  with pytest.raises(PlannerError):"
            " vnc_agent.run('break')"
        ),
    ),
    "tool_failure_xfailed": (
        "xfailed",
        "@xfail(raises=InfraError)\ndef test_(vnc_agent): outage(vnc_agent)",
    ),
    "file_missing": (
        "product",
        "def test_(vnc_desktop): raise conftest.FileMissing('no notes.txt')",
    ),
    "judge_failed_before_an_assertion": (
        "infra",
        (
            "def test_(vnc_agent):\n  try: vnc_agent.verify('outage')\n  except"
            " InfraError: pass\n  assert 0"
        ),
    ),
}
"""By a test's name: its triage or its result, and its source; `test_` stands for the
name.
"""


TASKS = {
    "file_claim_fails": ("product", 'task = "Click"\nexpect = "it fails"'),
    "file_end_holds": ("passed", 'task = ["Click", "Click again"]'),
    "file_body_alone": ("passed", 'task = "Click what fails"\nexpect = false'),
}
"""The same of a file of tasks."""


def file_of_tasks(*names: str) -> str:
    return "".join(
        f'[[test]]\nname = "test_{name}"\n{TASKS[name][1]}\n' for name in names
    )


def outcome(test: ItemResult) -> str:
    if test.result == "xfailed":
        return test.result
    return test.triage or test.result


def outcomes() -> dict[str, str]:
    return {name.partition("[")[0]: outcome(test) for name, test in results().items()}


@pytest.fixture(autouse=True)
def _with_support(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(TESTS))


NOTHING_SET = """
import pytest

@pytest.mark.vnc_task("Look")
def test_marker(vnc_desktop): ...

@pytest.mark.vnc_task("Look", planner="gemini")
def test_without_key(): ...

def test_run(vnc_agent):
    vnc_agent.run("Look")
"""


def test_missing_desktop_is_reported_before_judge(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    pytester.makepyfile(test_it=NOTHING_SET)
    pytester.makefile(".vnc.toml", test_tasks='[[test]]\nname = "it"\ntask = "Look"\n')
    pytester.runpytest_subprocess(timeout=400)
    messages = [test.message for test in results().values()]
    assert len(messages) == 4
    assert {message[:39] for message in messages} == {
        "--vnc-server must name a desktop, got ''"[:39]
    }


def test_each_task_is_judged_by_rule(pytester: pytest.Pytester) -> None:
    tests = [
        source.replace("def test_(", f"def test_{name}(")
        for name, (_, source) in ROWS.items()
    ]
    pytester.makeconftest(CONFTEST + PAINTED)
    pytester.makepyfile(test_it=IMPORTS + "\n".join(tests))
    pytester.makefile(".vnc.toml", test_tasks=file_of_tasks(*TASKS))
    result = pytester.runpytest_subprocess(*QUIET, timeout=400)
    assert outcomes() == {name: wanted for name, (wanted, _) in (ROWS | TASKS).items()}
    result.stdout.fnmatch_lines(
        ["vnc-use: * checked by the test's body alone (expect=None): *body_alone*"]
    )
    messages = {name: test.message for name, test in results().items()}
    assert messages["planner_answers_nothing"].endswith(
        "finish(), give_up(reason) or a Decision, got None"
    )
    assert messages["judge_answers_text"].startswith(
        "the judge conftest:Judge must return a Verdict("
    )
    assert messages["judge_without_method"].startswith(
        "a judge must be an object with the method `judge("
    )
    assert messages["marker_without_judge"].startswith(
        "No judge for the end of the task 'Look': no judge is set, and"
    )
    assert (
        "Record the test (--vnc-record=manual by hand, or"
        in messages["run_without_judge"]
    )
    assert results()["run_without_judge"].runs == ()
    assert messages["failed_by_another_plugin"] == "check 1 == 2"
    assert messages["checks_unmet"] == "2 of 3 checks not met"
    assert (
        messages["check_unmet_then_skip"]
        == messages["check_unmet_in_teardown"]
        == "1 of 1 checks not met"
    )
    assert "KeyError" in messages["check_unmet_then_error"]
    assert "no shop" in messages["check_unmet_in_broken_setup"]
    output = result.stdout.str()
    assert "at the end" in output
    assert "it is empty again" in output
    assert "it is open" in output
    assert "KeyError: 'b'" in output
    checked = {name: test.checked_by for name, test in results().items()}
    assert checked["claim_fails"] == ("claim",)
    assert checked["end_holds"] == ("end_state",)
    assert checked["body_alone"] == checked["planner_answers_nothing"] == ("body",)
    assert checked["verify_holds"] == ("none",)


RECORDED: dict[str, tuple[str, str, str]] = {
    "judged": ("", "", "passed"),
    "claim": ("expect='it holds'", "expect='it holds'", "passed"),
    "body": ("expect=None", "expect=None", "passed"),
    "other_claim": ("expect='it holds'", "expect='another holds'", "settings"),
    "claim_added": ("expect=None", "", "settings"),
    "renamed": ("", "", "settings"),
}
"""By a test's name: its marker when recorded, its marker when replayed without a judge,
and how it then ends.
"""
ATTEMPTS = """
@pytest.fixture
def attempts():
    with open("attempts", "a") as file:
        file.write("x")

@pytest.mark.flaky(reruns=1)
@pytest.mark.vnc_task("Press it", expect="it holds")
def test_second(attempts, vnc_agent):
    vnc_agent.verify("it fails" if os.path.getsize("attempts") == 1 else "it holds")

@pytest.mark.vnc_task("Click", expect="it fails")
def test_fails(): ...

@pytest.mark.vnc_task("Click", expect=None)
def test_body_fails(): assert 0

@pytest.mark.vnc_task("Click", expect=None)
def test_part_fails(subtests):
    with subtests.test("total"): assert 0

@pytest.fixture
def breaks():
    yield
    raise ValueError("in the teardown")

@pytest.mark.vnc_task("Click", expect=None)
def test_teardown_fails(breaks): ...

def test_fetched(request):
    request.getfixturevalue("vnc_agent").run("Press it", expect=None)

def test_fetched_fails(request):
    request.getfixturevalue("vnc_agent").run("Click", expect=None)
    assert 0

def test_caught(vnc_agent):
    with pytest.raises(AgentFailed):
        vnc_agent.run("give up", expect=None)
"""


@pytest.mark.desktop
@pytest.mark.slow
def test_recording_replays_by_who_vouched_for_its_end(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = pytester.makepyfile(test_it="")
    recordings = file.parent / "__vnc_recordings__" / "test_it"

    def session(tests: dict[str, str], *options: str) -> pytest.RunResult:
        marked = [
            f"@task('Click', {marker})\ndef test_{name}(): ...\n"
            for name, marker in tests.items()
        ]
        file.write_text("\n".join([IMPORTS, *marked, ATTEMPTS if options else ""]))
        with served_screen(0xFFFFFF) as screen:
            return pytester.runpytest_subprocess(
                *QUIET, f"--vnc-server={screen.address}", *options, timeout=400
            )

    def written() -> dict[str, str]:
        return {
            path.parent.name.removeprefix("test_"): path.read_text()
            for path in recordings.glob("*/recording.json")
        }

    pytester.makeconftest(
        CONFTEST.replace("[Click(5, 5)]", "[Click(8 + os.path.getsize('attempts'), 5)]")
    )
    (file.parent / "attempts").touch()
    pytester.makefile(
        ".vnc.toml", test_tasks=file_of_tasks("file_end_holds", "file_body_alone")
    )
    result = session(
        {name: marker for name, (marker, _, _) in RECORDED.items()},
        "--vnc-record=rewrite",
    )
    failed = {name for name, end in outcomes().items() if end != "passed"}
    assert failed == {
        "fails",
        *(f"{name}_fails" for name in ("body", "part", "teardown", "fetched")),
    }
    line = (
        "vnc-use: 1 recording not written: test_it.py::test_caught: the task 'give up'"
        " ended as gave_up, and only *"
    )
    result.stdout.fnmatch_lines([line])
    recorded = written()
    assert '{"kind": "click", "x": 10, "y": 5}' in recorded.pop("second")
    assert recorded.pop("fetched"), "it is known only after the report of its setup"
    by_judge = {
        name: '"confirmed_by": "judge"' in text for name, text in recorded.items()
    }
    assert by_judge == {
        name: marker != "expect=None" for name, (marker, _, _) in RECORDED.items()
    }
    masked = json.loads(recorded["judged"]) | {
        "masks": [{"left": 0, "top": 0, "right": 9, "bottom": 9}]
    }
    (recordings / "test_judged.json").write_text(json.dumps(masked))
    monkeypatch.setenv("NO_JUDGE", "1")
    before = written()
    session(
        {
            name.replace("renamed", "new_name"): marker
            for name, (_, marker, _) in RECORDED.items()
        }
    )
    ends = {
        name.replace("renamed", "new_name"): end
        for name, (_, _, end) in RECORDED.items()
    }
    assert outcomes() == {
        **ends,
        "file_end_holds": "passed",
        "file_body_alone": "passed",
    }
    assert ": mv " in results()["new_name"].message
    assert written() == before


FEATURE = """
Feature: orders
  Scenario: alone
    When I click with nobody judging
    Then the body says so
  Scenario: judged
    When I click what fails
    Then the body says so
"""
STEPS = """
from pytest_bdd import scenarios, then, when
scenarios("orders.feature")

@when("I click with nobody judging")
def click(vnc_agent): vnc_agent.run("Click what fails", expect=None)

@when("I click what fails")
def judged(vnc_agent): vnc_agent.run("Click what fails")

@then("the body says so")
def body(vnc_desktop): assert vnc_desktop.server
"""
COROUTINES = f"""
import asyncio
{IMPORTS}
pytestmark = pytest.mark.asyncio

@task("Click what fails")
async def test_marker(): raise KeyError("the coroutine has begun")

@task("Click", expect="it holds")
async def test_marker_holds(vnc_desktop): assert await asyncio.to_thread(lambda: vnc_desktop.server)

@task("Click", expect=None)
async def test_body(): assert await asyncio.sleep(0, result=False)

async def test_run(vnc_agent): await asyncio.to_thread(vnc_agent.run, "Click", expect="it fails")
"""


def test_bdd_scenarios_and_asyncio_coroutines_follow_rule(
    pytester: pytest.Pytester,
) -> None:
    require_package("pytest_bdd")
    require_package("pytest_asyncio.plugin")
    pytester.makeconftest(CONFTEST + PAINTED)
    pytester.makefile(".feature", orders=FEATURE)
    pytester.makepyfile(test_bdd=STEPS, test_asyncio=COROUTINES)
    pytester.runpytest_subprocess(
        *QUIET, "-oasyncio_default_fixture_loop_scope=function", timeout=400
    )
    coroutines = {
        "marker": "agent",
        "marker_holds": "passed",
        "body": "product",
        "run": "product",
    }
    assert outcomes() == {"alone": "passed", "judged": "agent", **coroutines}


HOSTILE = """
import pytest
from support.memory_desktop import ListPlanner, act, finished
from pytest_vnc_use.types import Click, Proposal, Verdict

EVIL = "\\x1b]0;owned\\x07\\x9b2J\\r\\u202egnp"

class Judge:
    def judge(self, claim, frame, *, timeout_s, report):
        return Verdict(claim, "fails" if "not" in claim else "holds", EVIL + "long " * 60_000)

@pytest.fixture
def vnc_planner():
    return ListPlanner([act(Proposal(Click(1, 1), EVIL), text=EVIL), finished(EVIL)])

@pytest.fixture
def vnc_judge():
    return Judge()

@pytest.mark.vnc_task("Look", expect="it is not so")
def test_claim(vnc_agent): pass

@pytest.mark.vnc_task("Look", expect=None)
def test_check(vnc_agent):
    vnc_agent.check("it is not so")

@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

@pytest.mark.vnc_task("Look", expect="it is so", policy="policy.toml")
def test_elsewhere(elsewhere, vnc_agent, tmp_path):
    assert vnc_agent.saw("it is so", steps=1)
    vnc_agent.run("Look again", expect=None)
    assert not list(tmp_path.iterdir())
"""


def test_reports_are_harmless_and_paths_survive_chdir(
    pytester: pytest.Pytester,
) -> None:
    pytester.makeconftest(CONFTEST + PAINTED)
    pytester.makefile(
        ".toml", policy='[[rule]]\ndecision = "allow"\naction = "click"\n'
    )
    pytester.makepyfile(HOSTILE)
    options = (*QUIET, "-v", "-rA", "--vnc-policy=policy.toml", "--junitxml=junit.xml")
    result = pytester.runpytest_subprocess(*options, timeout=400)
    result.assert_outcomes(failed=2, passed=1)
    terminal = result.stdout.str() + result.stderr.str()
    assert all(
        character.isprintable() or character == "\n" for character in terminal
    ), repr(terminal)
    assert len(terminal) < 100_000
    assert "of 3000" in terminal, "the length of a cut reason is shown"
    assert (pytester.path / "junit.xml").stat().st_size < 100_000
    assert len(list((pytester.path / "runs").glob("*/trace.jsonl"))) == 4
