"""Screens that are not plain: two pixels a point, a size that changes in a run, two monitors, fewer colours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_vnc_use import Outcome, VncUseAgent
from pytest_vnc_use.backends.vnc import VNCController
from pytest_vnc_use.desktops.xvnc import XvncDesktop
from pytest_vnc_use.planners.local.callables import Answer, finish
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import Click, Observation
from support import vnc_servers
from support.vnc_servers import VncServer, qt_on_x
from support.witness_programs import WITNESS, Witness, assert_becomes, chromium_page, openbox, window_of, xterm

pytestmark = pytest.mark.desktop

Connect = Callable[..., VNCController]


@pytest.fixture
def wide() -> Iterator[VncServer]:
    with vnc_servers.tigervnc(size=(2048, 768)) as server, openbox(server):
        yield server


@pytest.mark.browser
def test_click_lands_in_page_of_two_pixels_point(connected: Connect, tmp_path: Path) -> None:
    scale = "--force-device-scale-factor=2"
    with vnc_servers.tigervnc() as server, openbox(server), chromium_page(server, tmp_path, scale) as page:
        assert page.last("ready")[:2] == [512, 384]
        connected(server).click(400, 620)
        assert_becomes(lambda: page.last("mouseup"), [0, 1, 200, 310])


def test_click_lands_in_program_of_two_pixels_point(
    connected: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QT_SCALE_FACTOR", "2")
    with vnc_servers.tigervnc() as server, qt_on_x(server, WITNESS, str(tmp_path)):
        window_of(server, "witness")
        hands = connected(server)
        hands.click(20, 40)
        hands.type_text("large")
        Witness(server, tmp_path).expect("line", "large")


def test_run_continues_on_resized_desktop(tmp_path: Path) -> None:
    for program in ("Xtigervnc", "xrandr", "xterm"):
        vnc_servers.require(program)
    desktop = XvncDesktop(size=(1024, 768))

    def resize(seen: Observation) -> Answer:
        if not seen.turns:
            assert desktop.run(["xrandr", "-s", "800x600"]).exit_code == 0
            return Click(1023, 767)
        return Click(799, 599) if len(seen.turns) == 1 else finish()

    settings = Settings(server=desktop.server, runs_dir=str(tmp_path))
    try:
        desktop.launch(["xterm", "-geometry", "40x10"])
        with VncUseAgent(vnc_password=desktop.password, settings=settings, planner=resize) as agent:
            result = agent.run("Click into the corner")
    finally:
        desktop.stop()
    old, new = result.steps
    assert (result.outcome, new.error, bool(old.error)) == (Outcome.DONE, "", True), "a click at an old point"
    assert (new.frame_after.width, new.frame_after.height) == (800, 600)


def test_two_monitors_are_one_screen(wide: VncServer, connected: Connect, tmp_path: Path) -> None:
    wide.output_of("xrandr", "--setmonitor", "left", "1024/270x768/200+0+0", "VNC-0")
    wide.output_of("xrandr", "--setmonitor", "right", "1024/270x768/200+1024+0", "none")
    assert b"Monitors: 2" in wide.output_of("xrandr", "--listmonitors")
    hands = connected(wide)
    assert hands.size == (2048, 768)
    with xterm(wide, f"cat >{tmp_path}/typed", geometry="60x10+1100+100"):
        hands.perform(Click(1200, 200))
        hands.type_text("right\n")
        assert_becomes(lambda: (tmp_path / "typed").read_text("utf-8"), "right\n")
