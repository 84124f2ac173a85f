"""A program under test that crashes, ends or hangs while a test continues: what the test is told as."""

from __future__ import annotations

import pytest

from pytest_vnc_use.errors import DesktopError, ScreenBlank
from pytest_vnc_use.triage import failure_of
from support import vnc_servers
from support.pad_sessions import QUIET, results

PROGRAM = "sh -c 'xterm & until [ -s told ]; do sleep 0.05; done; . ./told'"
MODULE = """
import time
import pytest
from pytest_vnc_use.planners.local.scripted import ScriptedPlanner
from pytest_vnc_use.types import Click, Decision, Verdict

class Judge:
    def judge(self, claim, frame, *, timeout_s, report):
        return Verdict(claim, "holds", "so it looks", frame=frame.ref)

@pytest.fixture
def vnc_judge():
    return Judge()

@pytest.fixture
def vnc_planner():
    return ScriptedPlanner(lambda seen: Decision("finished", "done") if seen.turns else Click(5, 5))

@pytest.fixture
def tell(vnc_desktop):
    def tell(word):
        vnc_desktop.write_file("told", word)
        deadline_s = time.monotonic() + 20
        while not vnc_desktop.program_fault():
            assert time.monotonic() < deadline_s, "the program has not ended within 20 s"
            time.sleep(0.01)
    return tell

seen = pytest.mark.vnc_task("Click", expect="it is clicked")

def test_crash(vnc_agent, tell):
    vnc_agent.click(5, 5)
    tell("exit 139")

def test_crash_and_assertion(vnc_agent, tell):
    vnc_agent.click(5, 5)
    tell("kill -SEGV $$")
    assert tell is None

@seen
def test_ended_by_test(tell): tell("kill -TERM $$")

@seen
def test_started_anew(vnc_desktop, tell):
    tell("kill -SEGV $$")
    vnc_desktop.launch(["xterm"])
"""


@pytest.mark.desktop
@pytest.mark.slow
def test_no_test_passes_whose_program_has_crashed(pytester: pytest.Pytester) -> None:
    for program in ("Xtigervnc", "xterm"):
        vnc_servers.require(program)
    pytester.makepyfile(MODULE)
    options = ("--vnc-server=xvnc", f"--vnc-app={PROGRAM}", "--reruns=1")
    result = pytester.runpytest_subprocess(*QUIET, *options, timeout=400)
    told = {name: (test.result, test.triage) for name, test in results().items()}
    assert told == {
        "crash": ("failed", "product"),
        "crash_and_assertion": ("failed", "product"),
        "ended_by_test": ("passed", None),
        "started_anew": ("passed", None),
    }
    result.stdout.fnmatch_lines(["product: the program ended with exit code 139 before the test did: *"])
    result.stdout.fnmatch_lines(["*_ test_crash_and_assertion _*", "the program ended with SIGSEGV: *", "*assert *"])
    assert results()["crash_and_assertion"].message.startswith("the program ended with SIGSEGV: the program ")


class Hanging:
    server, password = "localhost::1", None

    def program_hangs(self) -> bool:
        return True


def test_blank_screen_of_hanging_program_is_its_fault() -> None:
    assert failure_of(Hanging(), ScreenBlank("one colour only")).hangs  # type: ignore[arg-type]  # a user's own
    assert not failure_of(Hanging(), DesktopError("no way there"))  # type: ignore[arg-type]  # as above
