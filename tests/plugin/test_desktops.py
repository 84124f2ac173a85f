"""Which desktop and program a test gets, and what a program or a desktop that ends
makes of it.
"""

from __future__ import annotations

import pytest

from support.pad_sessions import results, scripted_conftest
from support.vnc_servers import require

pytestmark = pytest.mark.desktop

DESKTOP = (
    "--vnc-server=xvnc",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:pytest-vnc",
    "-p",
    "no:html",
)
LOOKING = """
def look(vnc_desktop, name):
    vnc_desktop.write_file(f"{name}.txt", "left")
    left = vnc_desktop.run(["ls"]).stdout.count(".txt")
    with open("desktops.txt", "a") as file:
        file.write(f"{name} {left} {vnc_desktop.server}\\n")

def test_one(vnc_desktop):
    look(vnc_desktop, "one")

def test_two(vnc_desktop):
    look(vnc_desktop, "two")
"""


@pytest.fixture(autouse=True)
def programs() -> None:
    require("Xtigervnc")
    require("xterm")


def test_desktop_is_kept_for_its_scope(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_a=LOOKING, test_b=LOOKING.replace("one", "three").replace("two", "four")
    )
    pytester.runpytest_subprocess(*DESKTOP, "--vnc-scope=module").assert_outcomes(
        passed=4
    )
    lines = (pytester.path / "desktops.txt").read_text(encoding="utf-8").splitlines()
    assert [line.rpartition(" ")[0] for line in lines] == [
        "one 1",
        "two 2",
        "three 1",
        "four 2",
    ]
    assert len({line.rpartition(" ")[2] for line in lines}) == 2


ENDS_PROGRAM = """
import time

def test_that_ends_it(vnc_desktop):
    vnc_desktop.run(["pkill", "-f", "xterm -e sleep 1234567"])
    while not vnc_desktop.program_exit_reason():
        time.sleep(0.01)

def test_after_it(vnc_desktop):
    assert vnc_desktop.program_exit_reason() == ""
    assert vnc_desktop.run(["pgrep", "-f", "xterm -e sleep 1234567"]).exit_code == 0
"""
ENDS_SERVER = """
import os, select, signal, subprocess
import pytest
from pytest_vnc_use.planners.local.scripted import ScriptedPlanner
from pytest_vnc_use.types import Click

def kill_x(desktop):
    pid = int(subprocess.check_output(["pgrep", "-f", "^[^ ]*Xtigervnc .*" + desktop.server]))
    ended = os.pidfd_open(pid)
    os.kill(pid, signal.SIGKILL)
    select.select([ended], [], [])  # until then it may still answer
    os.close(ended)

@pytest.fixture
def vnc_planner(request):
    def turn(observation):  # the server is killed before the second step
        if observation.turns:
            kill_x(request.getfixturevalue("vnc_desktop"))
        return Click(10 + len(observation.turns), 10)
    return ScriptedPlanner(turn)

@pytest.mark.vnc_task("Click", expect=None)
def test_in_task(): ...

def test_in_body(vnc_desktop):
    kill_x(vnc_desktop)
    assert vnc_desktop.run(["xprop", "-root"]).exit_code == 0

def test_after_it(vnc_agent):
    assert vnc_agent.screenshot()
"""


@pytest.mark.slow
def test_ended_desktop_is_replaced_and_server_is_infra(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(test_program=ENDS_PROGRAM, test_server=ENDS_SERVER)
    result = pytester.runpytest_subprocess(
        *DESKTOP, "--vnc-app=xterm -e sleep 1234567", "--vnc-scope=module"
    )
    result.assert_outcomes(passed=3, failed=2)
    killed = "the desktop: *exited with -9 (SIGKILL)*"
    result.stdout.fnmatch_lines([f"infra: {killed}", killed, "*2 infra*"])
    assert "the program ended" not in result.stdout.str()


def test_program_ended_by_signal_names_step(pytester: pytest.Pytester) -> None:
    turns = scripted_conftest('[TypeText("it", press_enter=True), Wait(5)], [Wait(1)]')
    pytester.makeconftest(turns.replace("import Click,", "import Wait, Click,"))
    pytester.makepyfile("""
        import pytest

        @pytest.mark.vnc_task("Press enter", expect=None)
        def test_it(vnc_desktop):
            assert vnc_desktop.run(["true"]).exit_code == 0
        """)
    crashes = "xterm -e 'read line; echo going down; kill -SEGV $PPID; sleep 60'"
    result = pytester.runpytest_subprocess(*DESKTOP, f"--vnc-app={crashes}")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "product: the program ended with SIGSEGV at step [12]: the program *exited"
            " with -11 (SIGSEGV)"
        ]
    )
    assert "infra" not in result.stdout.str()


PROGRAMS = """
import pytest

def runs(vnc_desktop, text):
    return vnc_desktop.run(["pgrep", "-x", "-a", "xterm"]).stdout.count(text) == 1

@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

@pytest.mark.vnc_task("Look", secrets="SHOP_PASSWORD", expect=None)
def test_by_option(elsewhere, vnc_desktop):
    assert runs(vnc_desktop, "1111")
    assert vnc_desktop.logs()

app = pytest.mark.vnc_task("Look", app="xterm -e sleep 2222", expect=None)
look = pytest.mark.vnc_task("Look", expect=None)

@app
class TestByMarkerOfClass:
    @look
    def test_it(self, vnc_desktop):
        assert runs(vnc_desktop, "2222")

@look
class TestByFixture:
    @pytest.fixture
    def vnc_app(self):
        return ["xterm", "-e", "sleep 3333"]

    def test_it(self, vnc_desktop):
        assert runs(vnc_desktop, "3333")
"""


def test_program_from_option_marker_fixture_has_redacted_output(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "tiefgeheim")
    pytester.makeconftest(scripted_conftest())
    pytester.makepyfile(PROGRAMS)
    shop = pytester.makefile(
        ".sh",
        shop="#!/bin/sh\necho the password is tiefgeheim\nexec xterm -e sleep 1111\n",
    )
    shop.chmod(0o755)
    pytester.runpytest_subprocess(*DESKTOP, "--vnc-app=./shop.sh").assert_outcomes(
        passed=3
    )
    logs = [
        log.read_text(encoding="utf-8")
        for log in (pytester.path / "runs").glob("*/logs/program.txt")
    ]
    assert logs.count("the password is <secret:SHOP_PASSWORD>") == 1


def test_sockets_blocked_names_what_to_allow(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(vnc_desktop): ...")
    result = pytester.runpytest_subprocess(*DESKTOP, "--disable-socket", "-Werror")
    result.stdout.fnmatch_lines(
        [
            "infra: DesktopRefused:"
            " *pytest-socket*--allow-unix-socket*--allow-hosts=HOST*"
        ]
    )


PROGRAM = "sh -c 'xterm & until [ -s told ]; do sleep 0.05; done; . ./told'"
CRASHES = """
import time
import pytest

@pytest.fixture
def tell(vnc_desktop):
    def tell(word):
        vnc_desktop.write_file("told", word)
        deadline_s = time.monotonic() + 20
        while not vnc_desktop.program_exit_reason():
            assert time.monotonic() < deadline_s, "the program has not ended within 20 s"
            time.sleep(0.01)
    return tell

seen = pytest.mark.vnc_task("Click", expect=None)

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


@pytest.mark.slow
def test_no_test_passes_whose_program_has_crashed(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(scripted_conftest("[Click(5, 5)]"))
    pytester.makepyfile(CRASHES)
    result = pytester.runpytest_subprocess(
        *DESKTOP, f"--vnc-app={PROGRAM}", "--reruns=1", timeout=400
    )
    triages = {name: (test.result, test.triage) for name, test in results().items()}
    assert triages == {
        "crash": ("failed", "product"),
        "crash_and_assertion": ("failed", "product"),
        "ended_by_test": ("passed", None),
        "started_anew": ("passed", None),
    }
    result.stdout.fnmatch_lines(
        ["product: the program ended with exit code 139 before the test did: *"]
    )
    result.stdout.fnmatch_lines(
        [
            "*_ test_crash_and_assertion _*",
            "the program ended with SIGSEGV: *",
            "*assert *",
        ]
    )
    assert results()["crash_and_assertion"].message.startswith(
        "the program ended with SIGSEGV: the program "
    )
