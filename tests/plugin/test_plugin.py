"""The plugin as a user has it: pytest in a process of its own, a Qt program on Qt's VNC, a model's stand-in on HTTP."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_vnc_use.settings.settings import FIELDS, OPTIONS
from support.gemini_server import GeminiServer, Reply, calls, daily_quota, hang, text, wants_confirmation
from support.paths import PAD_LINE
from support.qt_desktop import QtDesktop
from support.vnc_servers import VncServer

IN_PROCESS = ("-p", "no:cacheprovider", "-p", "no:pytest-vnc")  # which warns when it is imported
HOLDS = text(json.dumps({"reason": "it is there", "verdict": "holds", "box_2d": [100, 100, 200, 200]}))
FAILS = text(json.dumps({"reason": "the basket is empty", "verdict": "fails", "box_2d": None}))
UNSURE = text(json.dumps({"reason": "a dialog hides it", "verdict": "unsure", "box_2d": None}))
CLICK = ("click", {"x": 500, "y": 500, "intent": "open the basket"})


def events_of(body_file: Path) -> list[str]:
    return body_file.read_text(encoding="utf-8").splitlines()


PASSES_EVENTS_ON = """
import pathlib, pytest

@pytest.mark.vnc_task("Click it", expect=None)
def test_it(vnc_desktop):
    pathlib.Path("seen.txt").write_text(vnc_desktop.read_file("events.txt"), encoding="utf-8")
    assert "press" in vnc_desktop.read_file("events.txt")
"""


@pytest.mark.desktop
def test_denorm_through_the_whole_stack(
    pytester: pytest.Pytester, model: Callable[..., GeminiServer], run: Callable[..., pytest.RunResult]
) -> None:
    pytester.makepyfile(PASSES_EVENTS_ON)
    corners = [("click", {"x": grid, "y": grid}) for grid in (0, 500, 999)]
    server = model(calls(*corners), text("clicked"))
    run(server, "--vnc-screen-size=1440x900").assert_outcomes(passed=1)
    presses = [line for line in events_of(pytester.path / "seen.txt") if line.startswith("press")]
    assert presses == ["press 0 0 left", "press 720 450 left", "press 1439 899 left"]


@pytest.mark.desktop
def test_function_response_shape_through_the_whole_stack(
    pytester: pytest.Pytester, model: Callable[..., GeminiServer], run: Callable[..., pytest.RunResult]
) -> None:
    pytester.makepyfile(PASSES_EVENTS_ON)
    server = model(calls(CLICK), text("clicked"))
    run(server).assert_outcomes(passed=1)
    assert server.refusals == []
    (part,) = server.requests[1].contents[-1]["parts"]
    response = part["functionResponse"]
    assert (response["name"], response["id"]) == ("click", "call-0-0")
    assert response["parts"][0]["inlineData"]["mimeType"] == "image/png"


@pytest.mark.desktop
def test_sequential_function_calls_through_the_whole_stack(
    pytester: pytest.Pytester, model: Callable[..., GeminiServer], run: Callable[..., pytest.RunResult]
) -> None:
    pytester.makepyfile(PASSES_EVENTS_ON)
    turn = calls(
        CLICK, ("type", {"text": "two apples"}), ("press_key", {"key": "a"}), ("right_click", {"x": 10, "y": 10})
    )
    server = model(turn, text("all done"))
    run(server).assert_outcomes(passed=1)
    events = events_of(pytester.path / "seen.txt")
    typed = "".join(line.removeprefix("text ") for line in events if line.startswith("text"))
    assert typed == "two applesa"
    assert events[0] == "press 720 450 left"
    assert events[-2:] == ["press 14 9 right", "release 14 9 right"]
    names = [part["functionResponse"]["name"] for part in server.requests[1].contents[-1]["parts"]]
    assert names == ["click", "type", "press_key", "right_click"]


RISKY = calls(("click", wants_confirmation({"x": 500, "y": 500}, "this buys two apples")))


@pytest.mark.desktop
def test_hitl_block_through_the_whole_stack(
    pytester: pytest.Pytester, model: Callable[..., GeminiServer], run: Callable[..., pytest.RunResult]
) -> None:
    pytester.makepyfile(PASSES_EVENTS_ON)
    result = run(model(RISKY))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*ended as denied*", "*this buys two apples*", "*run folder:*"])
    assert "Traceback" not in result.stdout.str()
    assert not (pytester.path / "seen.txt").exists()


@pytest.mark.desktop
def test_a_policy_file_allows_what_the_model_wants_confirmed(
    pytester: pytest.Pytester, model: Callable[..., GeminiServer], run: Callable[..., pytest.RunResult]
) -> None:
    pytester.makepyfile(PASSES_EVENTS_ON)
    pytester.makefile(".toml", policy='[[rule]]\nname = "apples"\ndecision = "allow"\nexplanation = "apples"\n')
    server = model(RISKY, text("bought"))
    run(server, "--vnc-policy=policy.toml").assert_outcomes(passed=1)
    (part,) = server.requests[1].contents[-1]["parts"]
    assert part["functionResponse"]["response"]["safety_acknowledgement"] == "true"


# --- verdicts --------------------------------------------------------------------------------------------------------

EMPTY_BODY = """
import pytest

@pytest.mark.vnc_task("Click it")
def test_it():
    '''Only the judge can tell.'''
"""


@pytest.mark.desktop
@pytest.mark.parametrize(("verdict", "passed"), [(HOLDS, 1), (FAILS, 0), (UNSURE, 0)], ids=["holds", "fails", "unsure"])
def test_an_empty_body_passes_only_if_the_judge_says_so(
    pytester: pytest.Pytester,
    model: Callable[..., GeminiServer],
    run: Callable[..., pytest.RunResult],
    verdict: Reply,
    passed: int,
) -> None:
    pytester.makepyfile(EMPTY_BODY)
    run(model(calls(CLICK), text("I did it!"), verdict)).assert_outcomes(passed=passed, failed=1 - passed)


@pytest.mark.desktop
def test_each_claim_has_its_own_line(
    pytester: pytest.Pytester, model: Callable[..., GeminiServer], run: Callable[..., pytest.RunResult]
) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.vnc_task("Click it", expect=["the basket is open", "the basket shows 2 apples"])
        def test_it(): ...
        """
    )
    result = run(model(calls(CLICK), text("I did it!"), HOLDS, FAILS))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*1 of 2 claims*", "*holds: 'the basket is open'*", "*fails: 'the basket shows 2 apples'*"]
    )


@pytest.mark.desktop
def test_verify_failed_claim_fails_test(
    pytester: pytest.Pytester, model: Callable[..., GeminiServer], run: Callable[..., pytest.RunResult]
) -> None:
    pytester.makepyfile(
        """
        def test_it(vnc_agent):
            vnc_agent.click(10, 20)
            vnc_agent.verify("the basket shows 2 apples")
        """
    )
    result = run(model(FAILS))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["product: claim 'the basket shows 2 apples' fails: *the basket is empty*"])


# --- markers and settings --------------------------------------------------------------------------------------------


@pytest.mark.desktop
def test_several_markers_run_from_the_class_inwards_and_from_top_to_bottom(
    pytester: pytest.Pytester, model: Callable[..., GeminiServer], run: Callable[..., pytest.RunResult]
) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.vnc_task("first", expect=None)
        class TestShop:
            @pytest.mark.vnc_task("second", expect=None)
            @pytest.mark.vnc_task("third", expect=None)
            @pytest.mark.parametrize("fruit", ["apple"])
            def test_it(self, vnc_desktop, fruit):
                assert fruit
        """
    )
    server = model(text("done"), text("done"), text("done"))
    run(server).assert_outcomes(passed=1)
    told = [json.dumps(request.contents[0]) for request in server.requests]
    assert [next(word for word in ("first", "second", "third") if word in task) for task in told] == [
        "first",
        "second",
        "third",
    ]


@pytest.mark.desktop
def test_a_limit_in_the_marker_is_kept(
    pytester: pytest.Pytester, model: Callable[..., GeminiServer], run: Callable[..., pytest.RunResult]
) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.vnc_task("Click it", max_steps=2, expect=None)
        def test_it(vnc_desktop):
            assert False, "the body is not reached"
        """
    )
    result = run(model(calls(CLICK, CLICK, CLICK)))
    result.stdout.fnmatch_lines(["*ended as step_limit: the limit of 2 steps*", "*open the basket*"])
    assert "the body is not reached" not in result.stdout.str()


@pytest.mark.desktop
def test_a_broken_tool_reads_as_infra(
    pytester: pytest.Pytester, model: Callable[..., GeminiServer], run: Callable[..., pytest.RunResult]
) -> None:
    pytester.makepyfile(PASSES_EVENTS_ON)
    result = run(model(daily_quota()))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*infra: QuotaExhausted:*"])


@pytest.mark.parametrize(
    ("marker", "told"),
    [("", "exactly one task"), ("'Click', step=3", "no argument 'step'"), ("'Click', max_seconds=0", "above 0")],
)
def test_a_wrong_marker_is_a_usage_error_that_names_the_test(pytester: pytest.Pytester, marker: str, told: str) -> None:
    pytester.makepyfile(f"import pytest\n@pytest.mark.vnc_task({marker})\ndef test_it(): ...\n")
    result = pytester.runpytest_subprocess()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: *test_it: *{told}*"])


def test_a_wrong_option_and_a_bad_policy_are_usage_errors(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(): ...")
    result = pytester.runpytest_subprocess("--vnc-max-steps=none")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --vnc-max-steps must be a whole number, at least 1, got 'none'"])
    pytester.makefile(".toml", policy='[[rule]]\ndecision = "maybe"\naction = "click"\n')
    result = pytester.runpytest_subprocess("--vnc-policy=policy.toml")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: *policy.toml*rule 1*decision*"])


def test_without_a_planner_or_a_desktop_the_error_says_what_to_pass(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(EMPTY_BODY.replace('"Click it"', '"Click it", expect=None'))
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*--vnc-server must name a desktop, got ''*"])
    result = pytester.runpytest_subprocess("--vnc-server=127.0.0.1::1")
    result.stdout.fnmatch_lines(["*no planner is configured: *--vnc-record=manual*--vnc-planner=gemini*"])


def refused(pytester: pytest.Pytester) -> str:
    """The usage error that ends the collection of the pytester's tests."""
    result = pytester.runpytest_inprocess("--collect-only", *IN_PROCESS)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    return result.stderr.str()


@pytest.mark.parametrize(
    ("definition", "told"),
    [
        ("class TestIt(unittest.TestCase):\n    @task\n    def test_it(self): ...", "unittest.TestCase, got 'TestIt'"),
        ("@task\nclass TestIt(unittest.TestCase):\n    def test_it(self): ...", "unittest.TestCase, got 'TestIt'"),
        ("@task\nasync def test_it(): ...", "`async def` that no plugin runs; write `def`"),
        ("@pytest.mark.vnc_task('Click', policy='nosuch.toml', expect=None)\ndef test_it(): ...", "nosuch.toml"),
        (
            "@pytest.mark.vnc_task('Pay', model='gemini-2', expect=None)\n@task\ndef test_it(): ...",
            "the same in all markers of a test, got 'None' and 'gemini-2'",
        ),
    ],
    ids=["method of a TestCase", "TestCase", "coroutine", "no such policy", "two models"],
)
def test_a_marker_that_cannot_work_is_a_usage_error(pytester: pytest.Pytester, definition: str, told: str) -> None:
    pytester.makepyfile(f"import pytest, unittest\ntask = pytest.mark.vnc_task('Click', expect=None)\n{definition}\n")
    message = refused(pytester)
    assert "test_it: " in message
    assert told in message


def test_a_marked_item_that_is_no_function_is_a_usage_error(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import pytest

        class Line(pytest.Item):
            def runtest(self): ...

        class Lines(pytest.File):
            def collect(self):
                line = Line.from_parent(self, name="line 1")
                line.add_marker(pytest.mark.vnc_task("Click", expect=None))
                yield line

        def pytest_collect_file(file_path, parent):
            return Lines.from_parent(parent, path=file_path) if file_path.suffix == ".txt" else None
        """
    )
    pytester.makefile(".txt", lines="Click")
    assert "line 1: vnc_task must mark a test function, got a Line" in refused(pytester)


def test_a_coroutine_that_another_plugin_runs_is_left_to_it(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.anyio
        @pytest.mark.vnc_task("Click it", expect=None)
        async def test_it(vnc_desktop): ...
        """
    )
    assert pytester.runpytest_inprocess("--collect-only", *IN_PROCESS).ret == pytest.ExitCode.OK


@pytest.mark.slow
def test_a_wrong_marker_is_told_under_xdist_too(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.vnc_task()
        def test_it(): ...

        def test_other(): ...
        """
    )
    result = pytester.runpytest_subprocess("-n1")
    result.assert_outcomes(errors=1, passed=1)
    result.stdout.fnmatch_lines(["settings: *test_it: vnc_task needs exactly one task*"])
    result.stdout.fnmatch_lines(["vnc-use: 1 failed: 1 settings"])


ON_THE_PAD = """
import pytest
from pytest_vnc_use.planners.local.scripted import ScriptedPlanner
from pytest_vnc_use.types import Click, Confirmation, Decision, Proposal

TASKS = []

@pytest.fixture
def vnc_planner(request):
    def turn(observation):
        if not observation.turns:
            TASKS.append(observation.task)
            return getattr(request.module, "FIRST", [Click(10, 10)])
        return Decision("finished", "done")
    return ScriptedPlanner(turn)
"""


@pytest.fixture(scope="module")
def pad() -> Iterator[QtDesktop]:
    """One pad for all tests that do not look at it."""
    desktop = QtDesktop(shlex.split(PAD_LINE))
    yield desktop
    desktop.stop()


@pytest.fixture
def run_on_pad(pytester: pytest.Pytester, pad: QtDesktop) -> Callable[[str], pytest.RunResult]:
    """Run a test file in this process, on the pad, with a script that makes one click."""
    pytester.makeconftest(ON_THE_PAD)

    def run_pytest(source: str) -> pytest.RunResult:
        pytester.makepyfile(source)
        return pytester.runpytest_inprocess(f"--vnc-server={pad.server}", *IN_PROCESS)

    return run_pytest


@pytest.mark.desktop
def test_the_task_of_a_parameter_comes_after_those_of_its_function(
    run_on_pad: Callable[[str], pytest.RunResult],
) -> None:
    run_on_pad(
        """
        import pytest
        from conftest import TASKS

        second = [pytest.mark.vnc_task("second", expect=None), pytest.mark.vnc_task("third", expect=None)]

        @pytest.mark.vnc_task("zeroth", expect=None)
        @pytest.mark.vnc_task("first", expect=None)
        @pytest.mark.parametrize("fruit", [pytest.param("apple", marks=second), "pear"])
        def test_it(fruit):
            assert TASKS == ["zeroth", "first", "second", "third", "zeroth", "first"][: 4 if fruit == "apple" else 6]
        """
    ).assert_outcomes(passed=2)


@pytest.mark.slow
def test_only_marked_parameters_get_a_desktop(run_on_pad: Callable[[str], pytest.RunResult]) -> None:
    run_on_pad(
        """
        import pytest

        clicked = pytest.mark.vnc_task("Click it", expect=None)

        @pytest.mark.parametrize("fruit", [pytest.param("apple", marks=clicked), "pear"])
        def test_it(fruit, request):
            assert ("vnc_agent" in request.fixturenames) == (fruit == "apple")

        class Shop:
            def test_it(self, request):
                assert ("vnc_agent" in request.fixturenames) == bool(request.node.get_closest_marker("vnc_task"))

        @clicked
        class TestMarked(Shop): ...

        class TestUnmarked(Shop): ...
        """
    ).assert_outcomes(passed=4)


@pytest.mark.slow
@pytest.mark.parametrize("fixture", ["vnc_functions", "vnc_settings", "vnc_planner", "vnc_judge", "vnc_agent"])
def test_an_override_of_a_fixture_may_have_parameters(
    run_on_pad: Callable[[str], pytest.RunResult], fixture: str
) -> None:
    run_on_pad(
        f"""
        import pytest

        @pytest.fixture(params=["a", "b"])
        def {fixture}(request, {fixture}):
            return {fixture}

        @pytest.mark.vnc_task("Click it", expect=None)
        def test_it(request):
            assert request.fixturenames[-1] == "vnc_agent"

        @pytest.mark.vnc_task("Click it", expect=None)
        class TestIt:
            def test_method(self, request):
                assert request.node.name in ("test_method[a]", "test_method[b]")

            @staticmethod
            def test_static(request):
                assert request.node.name in ("test_static[a]", "test_static[b]")
        """
    ).assert_outcomes(passed=6)


@pytest.mark.slow
def test_the_settings_of_a_marker_hold_for_its_own_task(
    pytester: pytest.Pytester, run_on_pad: Callable[[str], pytest.RunResult]
) -> None:
    pytester.makefile(".toml", lax='[[rule]]\nname = "all"\ndecision = "allow"\naction = "*"\n')
    result = run_on_pad(
        """
        import pytest
        from pytest_vnc_use.types import Click, Confirmation, Proposal

        FIRST = [Proposal(Click(10, 10), "buy", {}, Confirmation("this buys"))]

        @pytest.mark.vnc_task("strict", expect=None)
        @pytest.mark.vnc_task("lax", policy="lax.toml", max_steps=1, expect=None)
        def test_two(vnc_settings):
            assert False, "the body is not reached"

        @pytest.mark.vnc_task("lax", policy="lax.toml", max_steps=7, expect=None)
        def test_one(vnc_settings):
            assert (vnc_settings.policy, vnc_settings.max_steps) == ("lax.toml", 7)
        """
    )
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["*the task ended as denied*", "*task: strict"])


# --- failures --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_task_of_the_body_that_does_not_end_as_done_fails_the_test(
    run_on_pad: Callable[[str], pytest.RunResult],
) -> None:
    result = run_on_pad(
        """
        import pytest
        from pytest_vnc_use.errors import PolicyDenied
        from pytest_vnc_use.types import Click, Confirmation, Proposal

        FIRST = [Proposal(Click(10, 10), "buy", {}, Confirmation("this buys two apples"))]

        def test_denied(vnc_agent):
            vnc_agent.run("Buy two apples", expect=None)

        def test_looked_at(vnc_agent):
            with pytest.raises(PolicyDenied):
                vnc_agent.run("Buy two apples", expect=None)
        """
    )
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["*ended as denied*this buys two apples*", "*run folder:*", "*at test_*.py:8"])
    assert "agent.py" not in result.stdout.str()
    result.stdout.fnmatch_lines(["vnc-use: 2 runs planned by scripted"])


@pytest.mark.desktop
def test_a_tool_that_breaks_in_the_body_is_told_in_one_line(
    pytester: pytest.Pytester, model: Callable[..., GeminiServer], run: Callable[..., pytest.RunResult]
) -> None:
    pytester.makepyfile(
        """
        def test_it(vnc_agent):
            assert vnc_agent.verify("the basket is open")
        """
    )
    result = run(model(daily_quota()), "--tb=long", "-l", "--junitxml=junit.xml")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["infra: QuotaExhausted: *", "  at test_*.py:2"])
    for written in (result.stdout.str(), (pytester.path / "junit.xml").read_text(encoding="utf-8")):
        assert "gemini_judge.py" not in written
        assert "During handling" not in written


@pytest.mark.desktop
def test_a_tool_that_breaks_in_a_task_is_told_with_its_step(
    pytester: pytest.Pytester, model: Callable[..., GeminiServer], run: Callable[..., pytest.RunResult]
) -> None:
    pytester.makepyfile(PASSES_EVENTS_ON)
    result = run(model(calls(CLICK), daily_quota()))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["infra: QuotaExhausted: *", "  after step 1 of the run in *runs*"])


CRASHES_ON_PRESS = """
import os, sys
from pathlib import Path
sys.argv = ["pad"]
source = Path({pad!r}).read_text(encoding="utf-8")
marker = "def mousePressEvent(self, event: QMouseEvent) -> None:"
assert marker in source
last_words = "print('no stock for', os.environ['SHOP_PASSWORD'], flush=True); os._exit(139)"
exec(source.replace(marker, marker + "\\n        " + last_words))
"""


@pytest.mark.desktop
def test_a_program_that_dies_is_not_taken_for_a_broken_tool(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "hunter2222")
    program = pytester.makefile(".py", crash=CRASHES_ON_PRESS.format(pad=shlex.split(PAD_LINE)[1]))
    pytester.makeconftest(ON_THE_PAD)
    pytester.makepyfile(
        """
        import time
        import pytest
        from pytest_vnc_use.errors import ConnectionLost

        @pytest.mark.vnc_task("Click it", secrets="SHOP_PASSWORD", expect=None)
        def test_in_a_task(vnc_desktop): ...

        def test_in_the_body(vnc_agent, vnc_desktop):
            with pytest.raises(ConnectionLost):
                vnc_agent.click(10, 10)
            while not vnc_desktop.program_fault():
                time.sleep(0.01)
            assert 1 == 2
        """
    )
    app = shlex.join([sys.executable, str(program)])
    result = pytester.runpytest_inprocess("--vnc-server=qt", f"--vnc-app={app}", *IN_PROCESS)
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        [
            "product: the program ended with exit code 139: * exited with 139*",
            "  at step 1 of the run in *runs*",
            "no stock for <secret:SHOP_PASSWORD>",
            "E * assert 1 == 2",
            "* program under test *",
            "* exited with 139*",
        ]
    )
    assert "infra" not in result.stdout.str()


# --- options ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["policy.toml", "strict"])
def test_a_path_in_the_ini_file_is_relative_to_it(pytester: pytest.Pytester, policy: str) -> None:
    pytester.makeini(f"[pytest]\nvnc_policy = {policy}\n")
    pytester.makefile(".toml", policy="[[rule]]\ndecision = 'allow'\naction = 'click'\n")
    folder = pytester.mkdir("below")
    (folder / "test_it.py").write_text("def test_it(): ...", encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q"]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=400, check=False)
    assert result.returncode == 0, result.stderr


def test_a_marker_that_comes_too_late_fails_the_test(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import pytest

        def pytest_collection_modifyitems(items):
            for item in items:
                item.add_marker(pytest.mark.vnc_task("Click it", expect=None))
        """
    )
    pytester.makepyfile("def test_it(): ...")
    result = pytester.runpytest_subprocess()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["settings: vnc_task was added after the test was collected*"])
    result.stdout.fnmatch_lines(["vnc-use: 1 failed: 1 settings"])


def test_a_marker_that_comes_in_a_fixture_is_no_fault_of_the_product(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.fixture
        def late(request):
            request.node.add_marker(pytest.mark.vnc_task("Click it", expect=None))

        def test_it(late): ...
        """
    )
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["settings: vnc_task was added after the test was collected*"])
    result.stdout.fnmatch_lines(["vnc-use: 1 failed: 1 settings"])


@pytest.mark.parametrize("fixture", ["request", "request, vnc_settings"])
def test_a_marker_that_comes_in_the_body_is_not_passed_over(pytester: pytest.Pytester, fixture: str) -> None:
    pytester.makepyfile(
        f"""
        import pytest

        def test_it({fixture}):
            request.node.add_marker(pytest.mark.vnc_task("Click it", expect="the screen is purple"))
        """
    )
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["settings: vnc_task was added after the test was collected*"])


def test_a_desktop_of_the_users_own_need_not_know_of_programs(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import pytest

        @pytest.fixture
        def vnc_desktop():
            return object()
        """
    )
    pytester.makepyfile("def test_it(vnc_desktop): assert 0, 'the test itself'\n\ndef test_next(): ...")
    pytester.runpytest_subprocess().assert_outcomes(failed=1, passed=1)


def test_collecting_needs_no_server(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(EMPTY_BODY)
    result = pytester.runpytest_subprocess("--collect-only", "-q")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*::test_it"])


@pytest.mark.desktop
def test_the_model_can_call_functions_of_the_tests_own(
    pytester: pytest.Pytester, model: Callable[..., GeminiServer], run: Callable[..., pytest.RunResult]
) -> None:
    pytester.makepyfile(
        """
        import pytest

        def price(fruit: str) -> float:
            '''The price of a fruit.'''
            return {"apple": 1.5}[fruit]

        @pytest.fixture
        def vnc_functions():
            return [price]

        @pytest.mark.vnc_task("Ask for the price", expect=None)
        def test_it(vnc_desktop):
            assert vnc_desktop
        """
    )
    server = model(calls(("price", {"fruit": "apple"})), text("1.5"))
    run(server).assert_outcomes(passed=1)
    (part,) = server.requests[1].contents[-1]["parts"]
    assert "1.5" in json.dumps(part["functionResponse"]["response"])


# --- what is shown ---------------------------------------------------------------------------------------------------


@pytest.mark.desktop
@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["-n2"], ["--self-contained-html"], ["--self-contained-html", "-n2"]])
def test_every_step_is_in_the_html_report(
    pytester: pytest.Pytester,
    model: Callable[..., GeminiServer],
    run: Callable[..., pytest.RunResult],
    options: list[str],
) -> None:
    pytester.makepyfile(PASSES_EVENTS_ON)
    risky_words = ("click", {"x": 250, "y": 250, "intent": "<script>alert(1)</script>"})
    server = model(calls(CLICK, risky_words), text("clicked"))
    run(server, "--html=report.html", *options).assert_outcomes(passed=1)
    report = (pytester.path / "report.html").read_text(encoding="utf-8")
    assert "open the basket" in report
    assert "<script>alert(1)" not in report
    pictures = [*(pytester.path / "assets").rglob("*.png")] if "--self-contained-html" not in options else []
    assert len(pictures) >= 3 or report.count("data:image/png;base64") >= 3
    assert all(picture.stat().st_nlink > 1 for picture in pictures), "each is the run's own file"


@pytest.mark.desktop
def test_without_pytest_html_nothing_is_missed(
    pytester: pytest.Pytester, model: Callable[..., GeminiServer], run: Callable[..., pytest.RunResult]
) -> None:
    pytester.makepyfile(PASSES_EVENTS_ON)
    run(model(calls(CLICK), text("clicked")), "-p", "no:html").assert_outcomes(passed=1)


@pytest.mark.desktop
def test_steps_are_shown_with_v_and_not_otherwise(
    pytester: pytest.Pytester, model: Callable[..., GeminiServer], run: Callable[..., pytest.RunResult]
) -> None:
    pytester.makepyfile(PASSES_EVENTS_ON)
    verbose = run(model(calls(CLICK), text("clicked")), "-v")
    verbose.stdout.fnmatch_lines(["*1 click(*open the basket*"])
    quiet = run(model(calls(CLICK), text("clicked")))
    assert "open the basket" not in quiet.stdout.str()
    quiet.stdout.fnmatch_lines(["vnc-use: 1 run* planned by gemini*"])


@pytest.mark.desktop
def test_timeouts_and_reruns_of_other_plugins_work(
    pytester: pytest.Pytester, model: Callable[..., GeminiServer], run: Callable[..., pytest.RunResult]
) -> None:
    pytester.makepyfile(EMPTY_BODY)
    server = model(calls(CLICK), text("done"), FAILS, calls(CLICK), text("done"), HOLDS)
    result = run(server, "--reruns=1", "--timeout=60", "--html=report.html", "--self-contained-html")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*1 rerun*"])


@pytest.mark.slow
@pytest.mark.desktop
def test_a_timeout_of_pytest_timeout_ends_a_test_whose_model_hangs(
    pytester: pytest.Pytester, model: Callable[..., GeminiServer], run: Callable[..., pytest.RunResult]
) -> None:
    pytester.makepyfile(PASSES_EVENTS_ON + "\n\ndef test_next(): ...\n")
    result = run(model(hang(100)), "--timeout=15")
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["*Timeout*15.0s*"])


@pytest.mark.desktop
def test_the_time_limit_ends_a_run_whose_model_hangs(
    pytester: pytest.Pytester, model: Callable[..., GeminiServer], run: Callable[..., pytest.RunResult]
) -> None:
    pytester.makepyfile(PASSES_EVENTS_ON)
    result = run(model(hang(100)), "--vnc-max-seconds=2")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*ended as time_limit: the limit of 2 s*"])


@pytest.mark.desktop
@pytest.mark.slow
def test_ctrl_c_ends_pytest_at_once_and_leaves_nothing_running(
    pytester: pytest.Pytester, model: Callable[..., GeminiServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(PASSES_EVENTS_ON)
    server = model(hang(100))
    monkeypatch.setenv("GOOGLE_API_KEY", server.api_key)
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
    mark = f"--mark={pytester.path.name}"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--vnc-server=qt",
        f"--vnc-app={PAD_LINE} {mark}",
        "--vnc-planner=gemini",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    server.wait_for_requests(1)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == pytest.ExitCode.INTERRUPTED
    assert "KeyboardInterrupt" in output
    (trace,) = (pytester.path / "runs").glob("*/trace.jsonl")
    assert "KeyboardInterrupt" in trace.read_text(encoding="utf-8")
    assert not programs_with(mark)


def programs_with(word: str) -> list[str]:
    """Command lines of this machine's processes that hold a word."""
    lines = [
        file.read_bytes().replace(b"\0", b" ").decode(errors="replace") for file in Path("/proc").glob("[0-9]*/cmdline")
    ]
    return [line for line in lines if word in line]


@pytest.mark.desktop
def test_no_key_stands_in_the_run_folders(
    pytester: pytest.Pytester, model: Callable[..., GeminiServer], run: Callable[..., pytest.RunResult]
) -> None:
    pytester.makepyfile(PASSES_EVENTS_ON)
    server = model(calls(CLICK), text(f"the key is {GeminiServer().api_key}"))
    result = run(server, "-v")
    result.assert_outcomes(passed=1)
    assert server.api_key not in result.stdout.str()
    files = [file for file in (pytester.path / "runs").rglob("*") if file.is_file()]
    assert files
    assert not [file for file in files if server.api_key.encode() in file.read_bytes()]


# --- a good guest ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_idle_plugin_imports_nothing_heavy(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_it():
            heavy = {"langgraph", "google.genai", "twisted", "PIL", "numpy", "vncdotool"}
            assert not heavy & set(sys.modules)
        """
    )
    command = [sys.executable, "-m", "pytest", "-p", "no:html", "-p", "no:pytest-vnc"]
    pytester.run(*command).assert_outcomes(passed=1)


@pytest.mark.slow
def test_where_no_test_has_a_desktop_only_hooks_and_options_are_loaded(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(
        """
        import unittest, pytest

        @pytest.mark.parametrize("number", [1, 2])
        def test_it(number, tmp_path):
            pass

        @pytest.mark.skip
        class TestIt:
            def test_it(self):
                pass

        class TestCase(unittest.TestCase):
            def test_it(self):
                pass
        """
    )
    monkeypatch.delenv("VNC_USE_QT_HOST_NETWORK")
    monkeypatch.delenv("VNC_USE_WATCH")
    monkeypatch.delenv("VNC_USE_REHEARSE")
    pytester.makeconftest(
        """
        import sys

        def pytest_sessionfinish():
            print("loaded", *sorted(name for name in sys.modules if name.startswith("pytest_vnc_use.")))
        """
    )
    result = pytester.run(sys.executable, "-m", "pytest", "-s")
    hooks = ("", ".fixtures", ".hookspecs", ".options")
    settings = ("", ".parsers", ".settings")
    names = (*(f"plugin{name}" for name in hooks), *(f"settings{name}" for name in settings))
    result.stdout.fnmatch_lines([" ".join(["*loaded", *(f"pytest_vnc_use.{name}" for name in names)])])


@pytest.mark.desktop
def test_other_plugins_live_beside_it(pytester: pytest.Pytester, pad: QtDesktop, tigervnc: VncServer) -> None:
    """pytest-vnc, pytest-recording and pytest-timeout, with their options and fixtures in use by a test of ours."""
    pytester.makeconftest(ON_THE_PAD)
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.timeout(50)
        @pytest.mark.vcr
        @pytest.mark.vnc_task("Click it", expect=None)
        def test_it(vnc, record_mode, vnc_agent):
            assert record_mode == "none"
            assert vnc.capture().shape[:2] == (768, 1024)
            assert len(vnc_agent.runs) == 1
        """
    )
    host, port = tigervnc.address.split("::")
    pytester.makeini(f"[pytest]\nvnc_host = {host}\nvnc_port = {port}\n")
    options = ["--record-mode=none", "--block-network", "--allowed-hosts=127.0.0.1,/", "--timeout=60"]
    result = pytester.runpytest_subprocess(*options, f"--vnc-server={pad.server}")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["plugins: *recording-* vnc-2* vnc-use-* timeout-*"])


def test_the_ini_option_of_pytest_vnc_is_its_own(pytester: pytest.Pytester) -> None:
    """Its `vnc_user` is the user name for its own server."""
    pytester.makeini("[pytest]\nvnc_user = somebody\n")
    pytester.makepyfile("def test_it(vnc_settings): assert vnc_settings.username == ''")
    pytester.runpytest_subprocess("-W", "ignore").assert_outcomes(passed=1)


@pytest.mark.slow
def test_an_ini_option_given_for_this_run_goes_before_the_environment(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VNC_USE_STALL", "5")
    pytester.makeini("[pytest]\nvnc_stall = 4\n")
    pytester.makepyfile("def test_it(vnc_settings): print('stall', vnc_settings.stall)")
    for options, stall in (((), 5), (("-o", "vnc_stall=7"), 7)):
        result = pytester.runpytest_subprocess("-s", *options)
        result.stdout.fnmatch_lines([f"*stall {stall}"])
    result = pytester.runpytest_subprocess("-ovnc_stall=none")
    result.stderr.fnmatch_lines(["ERROR: -o vnc_stall must be *, got 'none'"])


def test_help_markers_and_fixtures_read_well(pytester: pytest.Pytester) -> None:
    told = pytester.runpytest_subprocess("--help").stdout.str()
    assert "--vnc-server=TARGET" in told
    assert "(default: None)" not in told
    ours = told.partition("tests over VNC (pytest-vnc-use)")[2].partition("\n\n")[0]
    assert len(ours.splitlines()) <= 50, "our part fits on one screen"
    settings = [name.replace("_", "-") for name in FIELDS if name in OPTIONS]
    assert re.findall(r"^  --vnc-([\w-]+)=", ours, re.MULTILINE) == [*settings, "secret"]
    assert "--vnc-stall" not in told
    assert "vnc_stall (string)" in told
    assert "vnc_server (string)" in told
    assert "@pytest.mark.vnc_task(task, *, expect=()" in pytester.runpytest_subprocess("--markers").stdout.str()
    fixtures = pytester.runpytest_subprocess("--fixtures").stdout.str()
    for fixture in ("vnc_settings", "vnc_desktop", "vnc_planner", "vnc_judge", "vnc_functions", "vnc_agent"):
        assert f"\n{fixture} -- " in fixtures
    assert "no docstring" not in fixtures.partition("vnc_use")[2].partition("\n---")[0]
