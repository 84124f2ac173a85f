"""One contract over every kind of VNC server: what is seen is what the server's own
side shows, and what is done arrives there, pixel by pixel and character by character.
"""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from itertools import product
from pathlib import Path

import pytest

from pytest_vnc_use.backends.screen import SettleRules
from pytest_vnc_use.backends.vnc import VNCController, connect
from pytest_vnc_use.errors import AuthenticationFailed
from pytest_vnc_use.types import Button, Click
from support.images import decoded
from support.stages import ENDS_WITH_CLIENT, KINDS, WITH_PASSWORD, Stage, colours
from support.vnc_servers import wait_for
from support.witness_programs import assert_becomes

pytestmark = pytest.mark.desktop

Connect = Callable[..., VNCController]
PATIENT = SettleRules(first_change_s=10.0, stable_s=0.3, limit_s=20.0, any_change=True)
"""Waits for a change however slow the machine is, so that a change that is missed
shows.
"""
LINE = "Ab1 ~!@\\|;\"'<>/"


@pytest.fixture(scope="module", params=KINDS)
def shared(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[], Stage]]:
    """Each kind in turn: its stage, the same for all tests of it, unless it ends with
    its client.
    """
    name = request.param
    with ExitStack() as stack:

        def start() -> Stage:
            return stack.enter_context(KINDS[name](tmp_path_factory.mktemp(name)))

        yield start if name == ENDS_WITH_CLIENT else cache(start)


@pytest.fixture
def stage(shared: Callable[[], Stage]) -> Stage:
    return shared()


@pytest.fixture
def controller(stage: Stage, connected: Connect) -> VNCController:
    controller = connected(stage.server)
    move_the_pointer(controller)
    return controller


def move_the_pointer(controller: VNCController) -> None:
    """TigerVNC draws it into the frame until this client moves it from where it was."""
    for x in (6, 5):
        controller.move(x, 5)
        controller.frame()


def wait_to_see(stage: Stage, controller: VNCController) -> None:
    """Until the frame is what the server shows."""
    wait_for(
        lambda: stage.shows(decoded(controller.frame())), "the image", timeout_s=30
    )


def received(stage: Stage, *kinds: str, after: int = 0) -> list[str]:
    """Return the events of these kinds that reached the program."""
    return [line for line in stage.received() if line.startswith(kinds)][after:]


def typed(stage: Stage) -> str:
    """The characters that reached the program."""
    return "".join(
        literal_eval(line.removeprefix("key ")) for line in received(stage, "key")
    )


@pytest.mark.parametrize("encoding", ["zrle", "tight"])
def test_screen_shows_pixels_of_server(
    stage: Stage, connected: Connect, encoding: str
) -> None:
    controller = connected(stage.server, encoding=encoding, settle_rules=PATIENT)
    move_the_pointer(controller)
    wait_to_see(stage, controller)
    frame = controller.frame()
    assert controller.size == (frame.ref.width, frame.ref.height)
    assert colours(decoded(frame)) >= 15
    controller.move(5, 5)
    stage.repaint()
    assert controller.settle().reason == "settled"
    assert controller.frame().png != frame.png
    assert stage.shows(decoded(controller.frame()))


def test_moved_pointer_changes_no_screen(stage: Stage, connected: Connect) -> None:
    controller = connected(stage.server, encoding="raw")
    move_the_pointer(controller)
    wait_to_see(stage, controller)
    before = controller.frame()
    controller.move(controller.size[0] // 3, controller.size[1] - 30)
    assert controller.settle().reason == "nothing_changed"
    assert controller.frame().png == before.png


@pytest.mark.parametrize("name", WITH_PASSWORD)
def test_password_right_wrong_and_missing(
    name: str, tmp_path: Path, connected: Connect
) -> None:
    with KINDS[name](tmp_path, "geheim") as stage:
        assert connected(stage.server, "geheim").size == stage.truth().shape[1::-1]
        with pytest.raises(AuthenticationFailed, match="refused the password"):
            connect(stage.server.address, "falsch")
        missing = r"wants a password, but none is set\. Set VNC_USE_PASSWORD"
        with pytest.raises(AuthenticationFailed, match=missing):
            connect(stage.server.address, None)


def test_wheel_arrives(stage: Stage, controller: VNCController) -> None:
    """Without a wheel it goes by the keys of a page."""
    down = ["wheel down", "wheel down"] if stage.wheel else ["page down"]
    up = ["wheel up"] if stage.wheel else ["page up"]
    before = len(received(stage, "wheel", "page"))
    controller.scroll(101, 37, "down", 2)
    assert_becomes(lambda: received(stage, "wheel", "page", after=before), down)
    controller.scroll(101, 37, "up", 1)
    assert_becomes(lambda: received(stage, "wheel", "page", after=before), down + up)


def test_typed_text_and_keys_arrive(stage: Stage, controller: VNCController) -> None:
    before = len(typed(stage))
    controller.click(101, 37)
    controller.type_text(LINE, press_enter=True)
    controller.key_combo("ctrl+b")
    controller.type_text("z")
    assert_becomes(lambda: typed(stage)[before:], f"{LINE}\r\x02z")


def test_buttons_arrive_also_after_resize(
    stage: Stage, controller: VNCController
) -> None:
    width, height = controller.size
    points = [(0, 0), (width - 1, height - 1), (width // 2, height - 40), (101, 37)]
    buttons: list[Button] = ["left", "middle", "right"]
    expected: list[str] = []
    before = len(received(stage, "down", "up"))
    for button, (x, y) in product(buttons, points):
        controller.perform(Click(x, y, button))
        expected += [f"down {button} {x} {y}", f"up {button} {x} {y}"]
    controller.drag_and_drop(21, 33, 333, 301)
    expected += ["down left 21 33", "up left 333 301"]
    assert_becomes(lambda: received(stage, "down", "up", after=before), expected)

    if stage.resize:
        stage.resize((640, 480))
        wait_for(lambda: controller.size == (640, 480), "the new size")
        wait_to_see(stage, controller)
        before = len(received(stage, "down"))
        controller.click(639, 479)
        clicked = ["down left 639 479"]
        assert_becomes(lambda: received(stage, "down", after=before), clicked)
