"""An agent as a script on a VNC server in this process: every action, its records, and the recording's screenshots."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pytest_vnc_use.harness import (
    Agent,
    MouseButton,
    MouseClickAction,
    MouseClickType,
    MouseDragAction,
    Position,
    ScrollAction,
    ScrollDirection,
)
from pytest_vnc_use.harness.screenshots import write_screenshots
from pytest_vnc_use.types import KeyDown, KeyUp, MouseDown, MouseUp, Move, Scroll
from support.harness_agents import actions_in
from support.served_screen import ServedScreen, served_screen


class Everything(Agent):
    """An agent that performs each action once."""

    def __init__(self, output_dir: Path, screen: ServedScreen) -> None:
        self.output_dir, self.secrets, self.screen = output_dir, {"PIN": "tulip47"}, screen
        self.vnc_scheme, self.vnc_host = "vnc", "127.0.0.1"
        self.vnc_port = int(screen.address.rpartition(":")[2])

    def act(self) -> bool:
        here = Position(30, 40)
        for action in (
            lambda: self.mouse_move(Position(20, 30)),
            lambda: self.mouse_click(MouseClickAction(MouseButton.RIGHT, here, MouseClickType.DOUBLE)),
            lambda: self.mouse_drag(MouseDragAction(MouseButton.LEFT, here, Position(50, 60))),
            lambda: self.mouse_scroll(ScrollAction(here, ScrollDirection.DOWN, repeat=2)),
            lambda: self.press_keys(["Ctrl+a"]),
            lambda: self.type_text("ab<secret:PIN>"),
            lambda: self.page_navigation("back"),
            lambda: self.wait(0.5),
            lambda: self.finish({"total": 3}),
        ):
            action()
        return True


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Everything:
    with served_screen() as screen:
        agent = Everything(tmp_path_factory.mktemp("run"), screen)
        assert agent.run(max_steps=1)
    return agent


def test_agent_actions_reach_server_in_order(agent: Everything) -> None:
    kinds = [type(motion) for motion in agent.screen.motions if not isinstance(motion, Move)]
    pressed = [motion.key for motion in agent.screen.motions if isinstance(motion, KeyDown)]
    assert kinds[:6] == [MouseDown, MouseUp, MouseDown, MouseUp, MouseDown, MouseUp]
    assert [motion.button for motion in agent.screen.motions if isinstance(motion, MouseDown)] == ["right"] * 2 + [
        "left"
    ]
    assert kinds.count(Scroll) == 2
    assert kinds.count(KeyDown) == kinds.count(KeyUp)
    assert [key for key in pressed if len(key) == 1] == ["a", *"abtulip47"]


def test_agent_records_hide_secrets(agent: Everything) -> None:
    records = actions_in(agent.output_dir / "execution.json")
    assert [record["action"] for record in records] == [
        *("mouse_move", "mouse_click", "mouse_drag", "mouse_scroll", "press_keys"),
        *("type_text", "page_navigation", "wait", "finish"),
    ]
    assert records[5]["params"] == {"text": "ab<secret:PIN>"}
    assert "tulip47" not in (agent.output_dir / "execution.json").read_text("utf-8")


def test_recording_gives_last_screen_exactly(agent: Everything) -> None:
    assert write_screenshots(agent.output_dir) == (9, 9)
    last = actions_in(agent.output_dir / "action_screenshots.json")[-1]
    with Image.open(agent.output_dir / last["image"]) as image:
        red, green, blue = np.moveaxis(np.asarray(image.convert("RGB")).astype(np.uint32), 2, 0)
    assert np.array_equal(red << 16 | green << 8 | blue, agent.screen.pixels)
