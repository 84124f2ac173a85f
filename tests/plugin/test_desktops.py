"""Which desktop a test gets: its own, or that of its module or session, with which program."""

from __future__ import annotations

import textwrap

import pytest

from support.scripted import scripted_conftest
from support.vnc_servers import VncServer, require

pytestmark = pytest.mark.desktop

DESKTOP = ("--vnc-server=xvnc", "-p", "no:cacheprovider", "-p", "no:pytest-vnc", "-p", "no:html")
PLANS_NOTHING = scripted_conftest()
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


def desktops_of(pytester: pytest.Pytester) -> dict[str, str]:
    """Return the address of each test's VNC server, by the test's name and the number of files that it saw."""
    lines = (pytester.path / "desktops.txt").read_text(encoding="utf-8").splitlines()
    return {f"{name} {left}": server for name, left, server in map(str.split, lines)}


@pytest.mark.parametrize(("scope", "count"), [("test", 4), ("module", 2), ("session", 1)])
def test_desktop_is_kept_for_its_scope(pytester: pytest.Pytester, scope: str, count: int) -> None:
    pytester.makepyfile(test_a=LOOKING, test_b=LOOKING.replace("one", "three").replace("two", "four"))
    pytester.runpytest_inprocess(*DESKTOP, f"--vnc-scope={scope}").assert_outcomes(passed=4)
    servers = desktops_of(pytester)
    assert len(set(servers.values())) == count
    seen = {"test": "one 1, two 1, three 1, four 1", "module": "one 1, two 2, three 1, four 2"}
    assert ", ".join(servers) == seen.get(scope, "one 1, two 2, three 3, four 4")


def test_home_of_repeated_test_has_same_path(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_one(vnc_desktop):
            with open("homes.txt", "a") as file:
                file.write(vnc_desktop.run(["pwd"]).stdout)
        """
    )
    pytester.runpytest_inprocess(*DESKTOP, "--vnc-repeat=2").assert_outcomes(passed=2)
    pytester.runpytest_inprocess(*DESKTOP).assert_outcomes(passed=1)
    homes = (pytester.path / "homes.txt").read_text(encoding="utf-8").split()
    assert (len(homes), len(set(homes))) == (3, 1)


def test_shared_desktop_with_ended_program_is_replaced(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import time

        def test_that_ends_it(vnc_desktop):
            vnc_desktop.run(["pkill", "-f", "xterm -e sleep 1234567"])
            while not vnc_desktop.program_fault():
                time.sleep(0.01)

        def test_after_it(vnc_desktop):
            assert vnc_desktop.program_fault() == ""
            assert vnc_desktop.run(["pgrep", "-f", "xterm -e sleep 1234567"]).exit_code == 0
        """
    )
    result = pytester.runpytest_inprocess(*DESKTOP, "--vnc-scope=session", "--vnc-app=xterm -e sleep 1234567")
    result.assert_outcomes(passed=2)


KILLS_X = """
        import contextlib, os, select, signal
        from pathlib import Path
        import pytest
        from pytest_vnc_use.planners.local.scripted import ScriptedPlanner
        from pytest_vnc_use.types import Click

        def is_x(entry, desktop):
            with contextlib.suppress(OSError):  # it has ended meanwhile, or is no process
                is_server = (entry / "comm").read_text() == "Xtigervnc\\n"
                return is_server and desktop.server in (entry / "cmdline").read_text()

        def kill_x(desktop):
            (entry,) = (entry for entry in Path("/proc").iterdir() if is_x(entry, desktop))
            ended = os.pidfd_open(int(entry.name))
            os.kill(int(entry.name), signal.SIGKILL)
            select.select([ended], [], [])  # until then it may still answer
            os.close(ended)
"""


def test_end_of_x_server_is_infra(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        textwrap.dedent(KILLS_X)
        + textwrap.dedent(
            """
            @pytest.fixture
            def vnc_planner(request):
                def turn(observation):  # the server is killed before the second step
                    if observation.turns:
                        kill_x(request.getfixturevalue("vnc_desktop"))
                    return Click(10 + len(observation.turns), 10)
                return ScriptedPlanner(turn)

            @pytest.mark.vnc_task("Click", expect=None)
            def test_in_task(): ...

            def test_by_hand(vnc_desktop, vnc_agent):
                vnc_agent.click(10, 10)
                kill_x(vnc_desktop)
                vnc_agent.screenshot()

            def test_in_body(vnc_desktop):
                kill_x(vnc_desktop)
                assert vnc_desktop.run(["xprop", "-root"]).exit_code == 0

            def test_after_it(vnc_agent):
                assert vnc_agent.screenshot()
            """
        )
    )
    pytester.makeconftest(PLANS_NOTHING)
    result = pytester.runpytest_inprocess(*DESKTOP, "--vnc-app=xterm", "--vnc-scope=module")
    result.assert_outcomes(passed=1, failed=3)
    killed = "the desktop: *exited with -9 (SIGKILL)*"
    result.stdout.fnmatch_lines([f"infra: {killed}", f"infra: {killed}", killed, "*3 infra*"])
    assert "the program ended" not in result.stdout.str()


def test_program_ended_by_signal_names_step(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        from pytest_vnc_use.planners.local.scripted import ScriptedPlanner
        from pytest_vnc_use.types import KeyCombo, Wait

        @pytest.fixture
        def vnc_planner():
            return ScriptedPlanner([[KeyCombo(("enter",)), Wait(5)], [Wait(1)]])

        @pytest.mark.vnc_task("Press enter", expect=None)
        def test_it(vnc_desktop):
            assert vnc_desktop.run(["true"]).exit_code == 0
        """
    )
    crashes = "xterm -e 'read line; echo going down; kill -SEGV $PPID; sleep 60'"
    result = pytester.runpytest_inprocess(*DESKTOP, f"--vnc-app={crashes}")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["product: the program ended with SIGSEGV at step [12]: the program *exited with -11 (SIGSEGV)"]
    )
    assert "infra" not in result.stdout.str()


def test_program_is_from_option_marker_or_fixture(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        from pytest_vnc_use.planners.local.scripted import ScriptedPlanner

        @pytest.fixture
        def vnc_planner():
            return ScriptedPlanner([])

        def runs(vnc_desktop, text):
            return vnc_desktop.run(["pgrep", "-x", "-a", "xterm"]).stdout.count(text) == 1

        def test_by_option(vnc_desktop):
            assert runs(vnc_desktop, "1111")

        app = pytest.mark.vnc_task("Look", app="xterm -e sleep 2222", expect=None)
        look = pytest.mark.vnc_task("Look", expect=None)

        @app
        def test_by_marker(vnc_desktop):
            assert runs(vnc_desktop, "2222")

        @app
        class TestByMarkerOfClass:
            @look
            def test_it(self, vnc_desktop):
                assert runs(vnc_desktop, "2222")

        @look
        class TestByMarkerOfFunction:
            @app
            def test_it(self, vnc_desktop):
                assert runs(vnc_desktop, "2222")

        class TestByFixture:
            @pytest.fixture
            def vnc_app(self):
                return ["xterm", "-e", "sleep 3333"]

            def test_it(self, vnc_desktop):
                assert runs(vnc_desktop, "3333")
        """
    )
    pytester.runpytest_inprocess(*DESKTOP, "--vnc-app=xterm -e sleep 1111").assert_outcomes(passed=5)


def test_output_of_program_is_kept_without_secrets(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "tiefgeheim")
    pytester.makepyfile(
        """
        import pytest
        from pytest_vnc_use.planners.local.scripted import ScriptedPlanner

        @pytest.fixture
        def vnc_planner():
            return ScriptedPlanner([])

        @pytest.mark.vnc_task("Look", secrets="SHOP_PASSWORD", expect=None)
        def test_it(vnc_desktop):
            assert vnc_desktop.logs()
        """
    )
    shop = "sh -c 'echo the password is tiefgeheim; exec xterm -e sleep 99'"
    pytester.runpytest_inprocess(*DESKTOP, f"--vnc-app={shop}").assert_outcomes(passed=1)
    (log,) = (pytester.path / "runs").glob("*/logs/program.txt")
    assert log.read_text(encoding="utf-8") == "the password is <secret:SHOP_PASSWORD>"


def test_lease_of_dead_worker_is_free(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tigervnc: VncServer
) -> None:
    pytester.makepyfile("import os\n\ndef test_it(vnc_desktop):\n    os._exit(7)\n\ndef test_next(vnc_desktop): ...")
    monkeypatch.setenv("TMPDIR", str(pytester.mkdir("temporary")))
    given = (*DESKTOP[1:], f"--vnc-server={tigervnc.address}", "-ovnc_lease_seconds=10")
    result = pytester.runpytest_subprocess(*given, "-n1", timeout=400)
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["*crashed while running*test_it*"])


def test_run_frozen_clock_ends_as_ever(pytester: pytest.Pytester) -> None:
    """freezegun replaces the clocks of all modules: before the first connection, or in the middle of one."""
    pytester.makeconftest(scripted_conftest("TypeText('hello', press_enter=True)"))
    pytester.makepyfile(
        """
        from freezegun import freeze_time

        @freeze_time("2030-01-02 09:00")
        def test_decorated(vnc_agent, vnc_desktop):
            vnc_agent.run("Type hello", expect=None)
            assert vnc_desktop.read_file("typed") == "hello\\n"

        def test_block(vnc_agent, vnc_desktop):
            vnc_agent.screenshot()
            with freeze_time("2030-01-02 09:00"):
                vnc_agent.run("Type hello", expect=None)
            assert vnc_desktop.read_file("typed") == "hello\\n"
        """
    )
    options = ["--vnc-app=xterm -e sh -c 'cat >typed'", "--vnc-record=off"]
    pytester.runpytest_subprocess(*DESKTOP, *options, timeout=90).assert_outcomes(passed=2)


def test_sockets_blocked_names_what_to_allow(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(vnc_desktop): ...")
    result = pytester.runpytest_subprocess(*DESKTOP, "--disable-socket", "-Werror")
    result.stdout.fnmatch_lines(["infra: DesktopRefused: *pytest-socket*--allow-unix-socket*--allow-hosts=HOST*"])
    result = pytester.runpytest_subprocess(*DESKTOP, "--block-network")
    result.stdout.fnmatch_lines(["infra: DesktopRefused: *pytest-recording*--allowed-hosts=127.0.0.1,/*"])
