"""The watchdog: a desktop at fault is named; a lost connection ends no run and repeats
no action.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_vnc_use import Outcome, VncUseAgent
from pytest_vnc_use.agent import leasing
from pytest_vnc_use.backends.vnc import VNCController, Watch as Patience
from pytest_vnc_use.errors import (
    ActionInterrupted,
    ConnectionLost,
    DesktopError,
    InfraError,
)
from pytest_vnc_use.planners.local.scripted import ScriptedPlanner
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import (
    Click,
    DesktopAction,
    KeyCombo,
    KeyDown,
    Move,
    TakeScreenshot,
    TypeText,
    Wait,
)
from support import vnc_servers
from support.served_screen import served_screen
from support.vnc_servers import VncServer
from support.wire import Wire, wire

pytestmark = pytest.mark.desktop

Watch = Callable[..., VNCController]
CLICK = Click(300, 200)
PRESS = bytes([5, 1, 300 >> 8, 300 & 255, 0, 200])
"""How the press of that click goes over the wire: PointerEvent, RFC 6143, 7.5.5."""


@pytest.fixture
def desktop(desktop: VncServer) -> VncServer:
    """A TigerVNC desktop whose background has a pattern, and no program."""
    desktop.paint(16)
    return desktop


@pytest.fixture
def line(desktop: VncServer) -> Iterator[Wire]:
    """A wire to that desktop."""
    with wire(desktop.address) as line:
        yield line


@pytest.fixture
def watch(connected: Watch) -> Watch:
    """Connect with a watchdog, which has nothing to wait for by default."""

    def start(server: Any, **options: object) -> VNCController:
        patience = {"blank_s": 0.2, "frozen_s": 60.0, "reconnect_s": 20.0} | options
        return connected(server, watch=Patience(**patience))  # type: ignore[arg-type]

    return start


def act_and_look(watchdog: VNCController, *actions: DesktopAction) -> None:
    for action in actions:
        watchdog.perform(action)
        watchdog.settle()
    watchdog.frame()


def test_lost_connection_is_replaced_once(
    desktop: VncServer, line: Wire, watch: Watch
) -> None:
    watchdog = watch(line)
    before = watchdog.frame()
    lost_screen = watchdog.screen
    line.cut()
    assert watchdog.frame() == before
    assert not lost_screen.pixels().size, "errors keep it"
    act_and_look(watchdog, CLICK)
    assert line.from_client.count(PRESS) == 1
    seen_s = watchdog.frame().taken_at
    assert not watchdog.changed_since(seen_s)
    desktop.paint(5)
    assert watchdog.wait_changed(seen_s, 20.0)
    line.cut()
    with pytest.raises(
        ConnectionLost,
        match=r"was lost: .*; it was lost before, and .* reconnects only once",
    ):
        watchdog.frame()


@pytest.mark.parametrize(
    ("action", "message"),
    [(CLICK, PRESS), (KeyCombo(("a",)), b"\4\1\0\0\0\0\0a")],
    ids=["click", "key"],
)
def test_action_in_doubt_is_not_repeated(
    line: Wire, watch: Watch, action: DesktopAction, message: bytes
) -> None:
    watchdog = watch(line)
    line.break_at = message
    with pytest.raises(
        ActionInterrupted,
        match=f"answered a {type(action).__name__}. The watchdog reconnected",
    ):
        act_and_look(watchdog, action)
    act_and_look(watchdog, TakeScreenshot(), Wait(0.01))
    assert line.from_client.count(message) == 1


def test_held_key_other_screen_or_desktop_ends_run(
    desktop: VncServer, line: Wire, watch: Watch
) -> None:
    watchdog = watch(line)
    act_and_look(watchdog, KeyDown("shift"))
    line.cut()
    with pytest.raises(
        ConnectionLost,
        match="the watchdog reconnected, but the keys or buttons that were held down",
    ):
        watchdog.frame()
    watchdog = watch(line)
    line.cut()
    desktop.paint(5)
    with pytest.raises(
        ConnectionLost,
        match="the watchdog reconnected, but it shows another screen than before",
    ):
        watchdog.frame()
    with vnc_servers.tigervnc((800, 600), options=["-desktop", "shop"]) as other:
        other.paint(16)
        line.targets.append(other.address)
        watchdog = watch(line)
        line.cut()
        with pytest.raises(
            ConnectionLost,
            match=r"it is another desktop: 'shop', 800x600; it was '.*', 1024x768",
        ):
            watchdog.frame()


def test_silent_server_ends_run(
    desktop: VncServer, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_vnc_use.backends.rfb_connection.ANSWER_S", 0.3)
    watchdog = watch(desktop, reconnect_s=0.5)
    os.kill(desktop.process.pid, signal.SIGSTOP)
    try:
        with pytest.raises(
            ConnectionLost,
            match=r"not answer within 0.3 s; .* could not reconnect .* no screen",
        ):
            act_and_look(watchdog, CLICK)
    finally:
        os.kill(desktop.process.pid, signal.SIGCONT)


def test_blank_screen_is_named_unless_program_ended(
    desktop: VncServer, watch: Watch
) -> None:
    desktop.output_of("xsetroot", "-solid", "#102030")
    with pytest.raises(
        DesktopError,
        match=r"only one colour \(#102030\) for 0.2 s. Start a program .*--vnc-app",
    ):
        watch(desktop).frame()
    options = {
        "blank_s": 60.0,
        "frozen_s": 0.01,
        "program_exit_reason": lambda: "the program exited with 1",
    }
    act_and_look(watch(desktop, **options), *[CLICK] * 3)
    watchdog = watch(desktop, blank_s=60.0)
    threading.Timer(0.3, desktop.paint, (16,)).start()
    watchdog.frame()  # it has waited for the paint


def test_server_that_forgot_change_is_asked_again(watch: Watch) -> None:
    with served_screen(forgets=True) as screen:
        watchdog = watch(screen, frozen_s=0.01)
        before = watchdog.frame()
        act_and_look(watchdog, Click(9, 9), Click(9, 9))
        assert watchdog.frame() == before
        act_and_look(watchdog, Click(9, 9))
        assert watchdog.frame() != before


def test_run_survives_loss_and_planner_or_user_knows(
    line: Wire, tmp_path: Path
) -> None:
    settings = Settings(server=line.address, start_seconds=0.2, runs_dir=str(tmp_path))
    line.break_at = PRESS
    with VncUseAgent(
        settings=settings, planner=ScriptedPlanner([[CLICK], [Move(1, 1)]])
    ) as agent:
        result = agent.run("Click it")
    assert result.outcome is Outcome.DONE
    assert ["took effect. Check the screen" in step.error for step in result.steps] == [
        True,
        False,
    ]
    assert line.from_client.count(PRESS) == 1
    line.from_client.clear()
    with VncUseAgent(settings=settings, planner=ScriptedPlanner([])) as agent:
        line.break_at = PRESS
        with pytest.raises(
            InfraError, match=r"answered a Click. The watchdog reconnected"
        ):
            agent.click(CLICK.x, CLICK.y)


def test_attempts_to_reconnect_stop_with_program(line: Wire, watch: Watch) -> None:
    watchdog = watch(
        line,
        reconnect_s=60.0,
        program_exit_reason=lambda: "the program exited with 139",
    )
    line.close()
    with pytest.raises(ConnectionLost, match=r"was lost: [^;]*$"):
        watchdog.frame()


def test_frozen_screen_is_named(desktop: VncServer, watch: Watch) -> None:
    watchdog = watch(desktop, frozen_s=0.01)
    act_and_look(watchdog, CLICK, CLICK)
    seen_s = watchdog.frame().taken_at
    desktop.paint(5)
    assert watchdog.wait_changed(seen_s, 20.0)
    watchdog.settle()
    act_and_look(
        watchdog, CLICK, Move(5, 5), Wait(0.1), TypeText("a"), TakeScreenshot()
    )
    with pytest.raises(
        DesktopError,
        match=r"is frozen. No pixel changed for \d+ s, although 3 actions were perf",
    ):
        act_and_look(watchdog, KeyCombo(("enter",)))


def test_user_at_the_page_may_click_in_vain(
    desktop: VncServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Patience, "frozen_s", 0.01)
    settings = Settings(server=desktop.address)
    clicks = [CLICK] * 5
    with (
        closing(leasing.connect(settings)) as controller,
        pytest.raises(DesktopError, match="is frozen"),
    ):
        act_and_look(controller, *clicks)
    by_hand = replace(settings, record="manual")
    with closing(leasing.connect(by_hand)) as controller:
        act_and_look(controller, *clicks)
