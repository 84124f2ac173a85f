"""The watchdog: a desktop at fault is told as such; a lost connection ends no run and repeats no action."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PIL import Image

from pytest_vnc_use import Outcome, VncUseAgent
from pytest_vnc_use.agent.act import perform_text
from pytest_vnc_use.backends import vnc
from pytest_vnc_use.backends.vnc import VNCController
from pytest_vnc_use.backends.watch import Watch as Patience
from pytest_vnc_use.errors import ActionInterrupted, ConnectionLost, DesktopError, InfraError
from pytest_vnc_use.planners.local.scripted import ScriptedPlanner
from pytest_vnc_use.runs.folder import read_trace
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import Click, DesktopAction, KeyCombo, KeyDown, Move, TakeScreenshot, TypeText, Wait
from pytest_vnc_use.types.actions import SecretText
from support import vnc_servers
from support.memory_desktop import PaintedController
from support.scripted import scripted_conftest
from support.vnc_servers import VncServer, running, wait_for
from support.wire import Wire, forgetful_server, wire

pytestmark = pytest.mark.desktop

Watch = Callable[..., VNCController]
CLICK = Click(300, 200)
PRESS = bytes([5, 1, 300 >> 8, 300 & 255, 0, 200])
"""How the press of that click goes over the wire: PointerEvent, RFC 6143, 7.5.5."""


@pytest.fixture
def desktop(tigervnc: VncServer) -> VncServer:
    """A TigerVNC desktop whose background has a pattern, and no program."""
    tigervnc.paint(16)
    return tigervnc


@pytest.fixture
def line(desktop: VncServer) -> Iterator[Wire]:
    """A wire to that desktop."""
    with wire(desktop.address) as line:
        yield line


@pytest.fixture
def watch() -> Iterator[Watch]:
    """Watches over the desktop at an address, with nothing to wait for unless told so."""
    dogs: list[VNCController] = []

    def start(address: str, **options: object) -> VNCController:
        patience = {"blank_s": 0.2, "frozen_s": 60.0, "reconnect_s": 0.5} | options
        dogs.append(vnc.connect(address, watch=Patience(**patience)))  # type: ignore[arg-type]
        return dogs[-1]

    yield start
    for dog in dogs:
        dog.close()


def act_and_look(dog: VNCController, *actions: DesktopAction) -> None:
    for action in actions:
        dog.perform(action)
        dog.settle()
    dog.frame()


# --- a lost connection -----------------------------------------------------------------------------------------------


def test_it_is_remade_and_the_run_goes_on(line: Wire, watch: Watch) -> None:
    dog = watch(line.address)
    before = dog.frame()
    line.cut()
    assert dog.frame() == before
    act_and_look(dog, CLICK)
    assert line.from_client.count(PRESS) == 1


SENT = {CLICK: PRESS, KeyCombo(("a",)): b"\4\1\0\0\0\0\0a", Move(9, 9): b"\5\0\0\x09\0\x09"}


@pytest.mark.parametrize("action", SENT, ids=lambda action: type(action).__name__)
def test_what_was_sent_as_the_connection_broke_is_neither_done_nor_repeated(
    line: Wire, watch: Watch, action: DesktopAction
) -> None:
    dog = watch(line.address)
    line.break_at = SENT[action]
    with pytest.raises(ActionInterrupted, match=f"answered a {type(action).__name__}. The watchdog reconnected"):
        act_and_look(dog, action)
    act_and_look(dog, TakeScreenshot(), Wait(0.01))
    assert line.from_client.count(SENT[action]) == 1


def test_a_wait_is_begun_again(line: Wire, watch: Watch) -> None:
    dog = watch(line.address)
    threading.Timer(0.2, line.cut).start()
    began_s = time.monotonic()
    act_and_look(dog, Wait(0.5))
    assert time.monotonic() - began_s > 0.6


def test_it_watches_on_over_a_new_connection(desktop: VncServer, line: Wire, watch: Watch) -> None:
    dog = watch(line.address)
    assert not dog.wait_changed(dog.frame().taken_at, 0.1)
    line.cut()
    assert dog.changed_since(0.0)
    seen = dog.frame()
    assert not dog.changed_since(seen.taken_at)
    desktop.paint(5)
    assert dog.wait_changed(seen.taken_at, 20.0)


def test_a_second_loss_is_one_too_many(line: Wire, watch: Watch) -> None:
    dog = watch(line.address)
    line.cut()
    dog.frame()
    line.cut()
    with pytest.raises(ConnectionLost, match=r"was lost: .*; it was lost before, and .* reconnects only once"):
        dog.frame()


def test_keys_that_were_held_down_are_not_any_more(line: Wire, watch: Watch) -> None:
    dog = watch(line.address)
    act_and_look(dog, KeyDown("shift"))
    line.cut()
    with pytest.raises(ConnectionLost, match="the watchdog reconnected, but the keys or buttons that were held down"):
        dog.frame()


def test_another_screen_is_not_taken_for_the_same(desktop: VncServer, line: Wire, watch: Watch) -> None:
    dog = watch(line.address)
    line.cut()
    desktop.paint(5)
    with pytest.raises(ConnectionLost, match="the watchdog reconnected, but it shows another screen than before"):
        dog.frame()
    with pytest.raises(ConnectionLost, match="closed"):
        dog.frame()


def test_another_desktop_is_not_taken_for_the_same(line: Wire, watch: Watch) -> None:
    with vnc_servers.tigervnc((800, 600), options=["-desktop", "shop"]) as other:
        other.paint(16)
        line.targets.append(other.address)
        dog = watch(line.address)
        line.cut()
        with pytest.raises(ConnectionLost, match=r"it is another desktop: 'shop', 800x600; it was '.*', 1024x768"):
            dog.frame()


def test_a_server_that_was_killed_and_came_back(x11vnc: VncServer, watch: Watch) -> None:
    again = f"127.0.0.1::{vnc_servers.free_port()}"
    options = ["-display", x11vnc.display, "-rfbport", again.rpartition(":")[2], "-localhost", "-noipv6", "-nopw"]
    with (
        x11vnc.run("xprop", "-root", "-spy", stdout=subprocess.PIPE) as client,  # without one, Xvfb starts anew
        wire(x11vnc.address) as line,
    ):
        assert client.stdout is not None
        assert client.stdout.readline()
        x11vnc.paint(16)
        line.targets.append(again)
        dog = watch(line.address, reconnect_s=20.0)
        dog.settle()
        before = dog.frame()
        x11vnc.kill()
        with running("x11vnc", *options):
            assert dog.frame() == before


def test_a_server_that_is_gone_for_good(line: Wire, watch: Watch) -> None:
    dog = watch(line.address)
    line.close()
    with pytest.raises(ConnectionLost, match=r"was lost: .*; the watchdog could not reconnect within 0.5 s: no VNC"):
        act_and_look(dog, CLICK)


def test_a_server_that_is_silent(desktop: VncServer, watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_vnc_use.backends.vnc._ANSWER_S", 0.3)
    dog = watch(desktop.address)
    os.kill(desktop.process.pid, signal.SIGSTOP)
    try:
        with pytest.raises(ConnectionLost, match=r"not answer within 0.3 s; .* could not reconnect .* no screen"):
            act_and_look(dog, CLICK)
    finally:
        os.kill(desktop.process.pid, signal.SIGCONT)


def test_where_the_program_was_the_server_its_end_is_told_at_once(line: Wire, watch: Watch) -> None:
    dog = watch(line.address, reconnect_s=60.0, program_fault=lambda: "the program exited with 139")
    line.close()
    began_s = time.monotonic()
    with pytest.raises(ConnectionLost, match=r"was lost: [^;]*$"):
        dog.frame()
    assert time.monotonic() - began_s < 30


def test_what_was_closed_meanwhile_is_not_remade(line: Wire, watch: Watch) -> None:
    dog = watch(line.address, program_fault=lambda: dog.close() or "")
    line.cut()
    with pytest.raises(ConnectionLost, match="the watchdog reconnected, but the run had closed the desktop"):
        dog.frame()


def test_closing_ends_the_attempts_to_connect(line: Wire, watch: Watch) -> None:
    attempted = threading.Event()
    dog = watch(line.address, reconnect_s=60.0, program_fault=lambda: attempted.set() or "")
    line.close()
    ended: list[BaseException] = []

    def look() -> None:
        with pytest.raises(ConnectionLost) as lost:
            dog.frame()
        ended.append(lost.value)

    looking = threading.Thread(target=look)
    looking.start()
    assert attempted.wait(10)
    dog.close()
    looking.join(10)
    assert len(ended) == 1


# --- what is on the screen -------------------------------------------------------------------------------------------


def test_a_screen_of_one_colour(tigervnc: VncServer, watch: Watch) -> None:
    tigervnc.output_of("xsetroot", "-solid", "#102030")
    with pytest.raises(
        DesktopError, match=r"has had only one colour \(#102030\) for 0.2 s: start a program .*--vnc-app"
    ):
        watch(tigervnc.address).frame()


def test_one_colour_for_a_moment_is_waited_for(tigervnc: VncServer, watch: Watch) -> None:
    dog = watch(tigervnc.address, blank_s=60.0)
    threading.Timer(0.3, tigervnc.paint, (16,)).start()
    assert Image.open(io.BytesIO(dog.frame().png)).getcolors(1) is None


def test_a_program_that_ended_is_why_a_screen_is_blank_or_rests(tigervnc: VncServer, watch: Watch) -> None:
    dog = watch(tigervnc.address, blank_s=60.0, frozen_s=0.01, program_fault=lambda: "the program exited with 1")
    began_s = time.monotonic()
    act_and_look(dog, *[CLICK] * 4)
    assert time.monotonic() - began_s < 30


def test_a_screen_that_answers_nothing_is_frozen(desktop: VncServer, watch: Watch) -> None:
    dog = watch(desktop.address, frozen_s=0.01)
    act_and_look(dog, CLICK, Move(5, 5), Wait(0.1), TypeText("a"), TakeScreenshot())
    with pytest.raises(DesktopError, match=r"is frozen. No pixel changed for \d+ s, although 3 actions were carr"):
        act_and_look(dog, KeyCombo(("enter",)))


def test_a_screen_that_rests_is_not_frozen(desktop: VncServer, watch: Watch) -> None:
    dog = watch(desktop.address, frozen_s=60.0)
    act_and_look(dog, *[CLICK] * 4)
    dog = watch(desktop.address, frozen_s=0.01)
    act_and_look(dog, CLICK, CLICK)
    desktop.paint(5)
    dog.settle()
    act_and_look(dog, CLICK, CLICK)


def test_a_server_that_forgot_to_tell_is_asked_again(watch: Watch) -> None:
    with forgetful_server() as address:
        dog = watch(address, frozen_s=0.01)
        before = dog.frame()
        act_and_look(dog, Click(9, 9), Click(9, 9))
        assert dog.frame() == before
        act_and_look(dog, Click(9, 9))
        assert dog.frame() != before


def test_watchdog_size_changes_follows_it(desktop: VncServer, watch: Watch) -> None:
    dog = watch(desktop.address)
    dog.frame()
    desktop.output_of("xrandr", "--fb", "800x600", "--output", "VNC-0", "--mode", "800x600")
    wait_for(lambda: (dog.frame().ref.width, dog.frame().ref.height) == (800, 600), "the new size")
    dog.settle()


# --- through the whole stack -----------------------------------------------------------------------------------------


@pytest.fixture
def agent_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., VncUseAgent]]:
    agents: list[VncUseAgent] = []
    monkeypatch.setattr("pytest_vnc_use.backends.watch.FROZEN_S", 0.01)

    def build(address: str, *turns: object, **options: object) -> VncUseAgent:
        settings = Settings(server=address, start_seconds=0.2, runs_dir=str(tmp_path))
        planner = ScriptedPlanner(turns)  # type: ignore[arg-type]
        agents.append(VncUseAgent(settings=settings, planner=planner, **options))  # type: ignore[arg-type]
        return agents[-1]

    yield build
    for agent in agents:
        agent.close()


def test_a_run_goes_on_after_a_loss_and_its_planner_is_told(line: Wire, agent_of: Callable[..., VncUseAgent]) -> None:
    line.break_at = PRESS
    result = agent_of(line.address, [CLICK], [Move(1, 1)]).run("Click it")
    assert result.outcome is Outcome.DONE
    assert ["took effect: look at the screen" in step.error for step in result.steps] == [True, False]
    assert line.from_client.count(PRESS) == 1


def test_what_was_to_be_typed_is_not_told_with_the_loss(line: Wire, agent_of: Callable[..., VncUseAgent]) -> None:
    line.break_at = b"\4\1\0\0\0\0\0Q"
    agent = agent_of(line.address, [TypeText("<secret:PIN>")], [Move(1, 1)], secrets={"PIN": "17Q4"})
    result = agent.run("Sign in")
    assert "took effect: look at the screen" in result.steps[0].error
    assert "17Q4" not in result.transcript


def test_with_a_secret_in_the_text_it_is_still_the_connection_that_is_told() -> None:
    class Broken(PaintedController):
        def perform(self, action: DesktopAction) -> None:
            raise ActionInterrupted("the connection was lost")

    with pytest.raises(ActionInterrupted, match="the connection was lost"):
        perform_text(Broken(), TypeText(SecretText("17Q4", "<secret:PIN>")))


def test_the_hands_of_a_test_tell_a_loss_as_one_of_the_tool(line: Wire, agent_of: Callable[..., VncUseAgent]) -> None:
    agent = agent_of(line.address)
    line.break_at = PRESS
    with pytest.raises(InfraError, match=r"answered a Click. The watchdog reconnected"):
        agent.click(CLICK.x, CLICK.y)


def test_a_run_on_a_frozen_screen_breaks(desktop: VncServer, agent_of: Callable[..., VncUseAgent]) -> None:
    agent = agent_of(desktop.address, [Click(each, 9) for each in (10, 20, 30, 40)])
    with pytest.raises(DesktopError, match="is frozen"):
        agent.run("Click it")
    trace = read_trace(agent.runs[0])
    assert trace.ended is not None
    assert trace.ended.error.startswith("ScreenFrozen: the screen of '127.0.0.1::")


CLICKS = scripted_conftest("[Click(300, 200)]")
MARKED = """
import pytest

@pytest.mark.vnc_task("Click it", expect=None)
def test_it(vnc_desktop):
    raise AssertionError("the product")
"""


@pytest.fixture
def told_by_pytest(pytester: pytest.Pytester) -> Callable[[str], pytest.LineMatcher]:
    """Return the output of pytest for a test that fails on the desktop at an address."""

    def run(address: str) -> pytest.LineMatcher:
        pytester.makeconftest(CLICKS)
        pytester.makepyfile(MARKED)
        own = ["-p", "no:cacheprovider", "-p", "no:pytest-vnc"]
        result = pytester.runpytest_inprocess(f"--vnc-server={address}", "-ovnc_start_seconds=0.2", *own)
        result.assert_outcomes(failed=1)
        result.stdout.no_fnmatch_line("*AssertionError*")
        return result.stdout

    return run


def test_a_blank_desktop_in_pytest(told_by_pytest: Callable[[str], pytest.LineMatcher], tigervnc: VncServer) -> None:
    told_by_pytest(tigervnc.address).fnmatch_lines(["infra: ScreenBlank: the screen of *only one colour (#000000) *"])


def test_a_lost_connection_in_pytest(told_by_pytest: Callable[[str], pytest.LineMatcher], line: Wire) -> None:
    with vnc_servers.tigervnc((800, 600)) as other:
        line.targets.append(other.address)
        line.break_at = PRESS
        told_by_pytest(line.address).fnmatch_lines(["infra: ConnectionLost: * was lost*it is another desktop*"])
