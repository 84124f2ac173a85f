"""The contract of the document about a computer-use harness: names, parameters,
defaults, files, and what is sent.
"""

from __future__ import annotations

import base64
import dataclasses
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pytest_vnc_use import harness
from pytest_vnc_use.errors import ActionError
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
from pytest_vnc_use.runs.uitask_trace import read_execution
from pytest_vnc_use.types import KeyDown, TypeText
from support.harness_agents import actions_in, client_messages, place
from support.served_screen import ServedScreen, served_screen

CTRL = 0xFFE3
SHIFT = 0xFFE1
ALT = 0xFFE9
RETURN = 0xFF0D
LEFT = 0xFF51
RIGHT = 0xFF53


FIELDS = {
    "output_dir": dataclasses.MISSING,
    "vnc_scheme": "ws",
    "vnc_host": "localhost",
    "vnc_port": 5902,
    "cdp_port": 9222,
}


def test_agent_fields_are_keywords_with_defaults() -> None:
    found = {
        field.name: (field.default, field.kw_only)
        for field in dataclasses.fields(Agent)
    }
    assert {name: found[name] for name in FIELDS} == {
        name: (default, True) for name, default in FIELDS.items()
    }


def test_files_are_exported_and_act_is_abstract(tmp_path: Path) -> None:
    files = (harness.EXECUTION_FILE, harness.PARTIAL_EXECUTION_FILE, harness.ERROR_FILE)
    assert files == ("execution.json", "partial_execution.json", "error.txt")
    with pytest.raises(TypeError, match="abstract"):
        Agent(output_dir=tmp_path)  # type: ignore[abstract]


def struck(*keysyms: int) -> list[str]:
    """Return how keys are pressed together."""
    return [f"+{keysym:x}" for keysym in keysyms] + [
        f"-{keysym:x}" for keysym in reversed(keysyms)
    ]


def one_by_one(text: str) -> list[str]:
    words = []
    for character in text:
        words += struck(ord(character))
    return words


AT = Position(10, 20)
TO = Position(60, 70)
CLICK = ["1 10 20", "0 10 20"]
DRAG = ["0 10 20", "4 10 20", "4 60 70", "4 60 70", "0 60 70"]
SENT: list[tuple[str, tuple[Any, ...], list[str]]] = [
    ("mouse_move", (AT,), ["0 10 20"]),
    (
        "mouse_click",
        (MouseClickAction(MouseButton.LEFT, AT, MouseClickType.SINGLE),),
        ["0 10 20", *CLICK],
    ),
    (
        "mouse_click",
        (MouseClickAction(MouseButton.RIGHT, AT),),
        ["0 10 20", "4 10 20", "0 10 20"],
    ),
    (
        "mouse_click",
        (MouseClickAction(MouseButton.LEFT, AT, MouseClickType.DOUBLE),),
        ["0 10 20", *CLICK * 2],
    ),
    (
        "mouse_click",
        (MouseClickAction(MouseButton.LEFT, AT, MouseClickType.TRIPLE),),
        ["0 10 20", *CLICK * 3],
    ),
    ("mouse_drag", (MouseDragAction(MouseButton.RIGHT, AT, TO),), DRAG),
    (
        "mouse_scroll",
        (ScrollAction(AT, ScrollDirection.UP),),
        ["0 10 20", "8 10 20", "0 10 20"],
    ),
    (
        "mouse_scroll",
        (ScrollAction(AT, ScrollDirection.DOWN),),
        ["0 10 20", "10 10 20", "0 10 20"],
    ),
    (
        "mouse_scroll",
        (ScrollAction(AT, ScrollDirection.LEFT),),
        ["0 10 20", "20 10 20", "0 10 20"],
    ),
    (
        "mouse_scroll",
        (ScrollAction(AT, ScrollDirection.RIGHT),),
        ["0 10 20", "40 10 20", "0 10 20"],
    ),
    ("press_keys", (["Ctrl+Shift+P"],), struck(CTRL, SHIFT, ord("P"))),
    ("press_keys", (["alt f"],), struck(ALT, ord("f"))),
    ("press_keys", (["ctrl", "a"],), struck(CTRL, ord("a"))),
    ("press_keys", (["enter"],), struck(RETURN)),
    ("press_keys", (["Digit_1"],), struck(ord("1"))),
    ("press_keys", (["F5"],), struck(0xFFC2)),
    ("press_keys", (["12"],), struck(*b"12")),
    ("press_keys", (["-12"],), struck(*b"-12")),
    ("press_keys", ([],), []),
    ("press_keys", (["none", ""],), []),
    ("type_text", ("ab1",), one_by_one("ab1")),
    ("type_text", ("a<secret:PIN>",), []),
    ("page_navigation", ("back",), struck(ALT, LEFT)),
    ("page_navigation", ("forward",), struck(ALT, RIGHT)),
    ("wait", (0.1,), []),
    ("finish", ({"total": 3},), []),
    ("finish", (), []),
]


SECRET = "tulip47"


class Caller(Agent):
    """An agent that calls each row of the table."""

    def act(self) -> bool:
        for name, arguments, _ in SENT:
            getattr(self, name)(*arguments)
        return True


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ServedScreen]:
    """The output directory of a recorded run of the table, and the screen as the run
    left it.
    """
    with served_screen() as screen:
        agent = Caller(
            output_dir=tmp_path_factory.mktemp("run"),
            secrets={"PIN": SECRET},
            **place(screen),
        )
        agent.run(max_steps=1)
    return agent.output_dir, screen


def test_actions_send_events(run: tuple[Path, ServedScreen]) -> None:
    messages = map(event_of, client_messages(run[0] / "recording"))
    events = iter([event for event in messages if event])
    received = [
        (name, arguments, [*islice(events, len(sent))])
        for name, arguments, sent in SENT
    ]
    assert received == SENT
    assert [*events] == []


def event_of(message: bytes) -> str:
    if message[0] == 4:
        return f"{'+' if message[1] else '-'}{int.from_bytes(message[4:8], 'big'):x}"
    if message[0] == 5:
        x = int.from_bytes(message[2:4], "big")
        y = int.from_bytes(message[4:6], "big")
        return f"{message[1]:x} {x} {y}"
    return ""


def test_execution_lists_actions_with_params(run: tuple[Path, ServedScreen]) -> None:
    directory, screen = run
    records = actions_in(directory / "execution.json")
    assert [record["action"] for record in records] == [name for name, _, _ in SENT]
    by_name = {record["action"]: record["params"] for record in records}
    assert by_name["mouse_move"] == {"position": {"x": 10, "y": 20}}
    clicked = {"button": "left", "position": {"x": 10, "y": 20}, "click_type": "triple"}
    assert by_name["mouse_click"] == {"action": clicked}
    assert by_name["type_text"] == {"text": "a<secret:PIN>"}
    assert SECRET not in (directory / "execution.json").read_text(encoding="utf-8")
    pressed = [motion.key for motion in screen.motions if isinstance(motion, KeyDown)]
    assert f"a{SECRET}" in "".join(pressed)
    assert by_name["page_navigation"] == {"direction": "forward"}
    assert by_name["press_keys"] == {"keys": ["none", ""]}
    assert by_name["wait"] == {"seconds": 0.1}
    assert by_name["finish"] == {"params": None}
    assert {record["task_marked_complete"] for record in records} == {None}
    without = [
        name
        for name, arguments, _ in SENT
        if name == "finish" or arguments in (([],), (["none", ""],))
    ]
    # a drag with the right button is three
    assert len(read_execution(directory).steps) == len(SENT) - len(without) + 2


BATCH = """
import sys
from dataclasses import dataclass
from pathlib import Path
from pytest_vnc_use.harness import Agent, MouseClickAction, Position

@dataclass(kw_only=True)
class MyAgent(Agent):
    at: int

    def __post_init__(self):
        self.greeting = "hello"

    def act(self):
        self.type_text(self.greeting)
        self.mouse_click(MouseClickAction(position=Position(self.at, 20)))
        return True

for name, at in (("off", 4000), ("on", 10)):
    agent = MyAgent(
        output_dir=Path(sys.argv[2]) / name,
        vnc_scheme="vnc",
        vnc_port=int(sys.argv[1]),
        at=at,
    )
    print(name, agent.run(max_steps=3), type(agent.error).__name__)
"""


def test_batch_continues_after_error(tmp_path: Path) -> None:
    script = tmp_path / "batch.py"
    script.write_text(BATCH, encoding="utf-8")
    with served_screen() as screen:
        port = str(place(screen)["vnc_port"])
        done = subprocess.run(
            [sys.executable, script, port, tmp_path],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
    assert done.stdout.splitlines() == ["off False ActionError", "on True NoneType"]
    error = (tmp_path / "off" / "error.txt").read_text(encoding="utf-8")
    assert "ActionError: " in error
    assert "ActionError: " in done.stderr
    assert not (tmp_path / "on" / "error.txt").exists()
    typed, failed = actions_in(tmp_path / "off" / "partial_execution.json")
    assert "error" not in typed
    assert failed["action"] == "mouse_click"
    assert failed["params"]["action"]["position"] == {"x": 4000, "y": 20}
    assert "must be on the screen" in failed["error"]
    assert [step.action for step in read_execution(tmp_path / "off").steps] == [
        TypeText("hello")
    ]


class Failing(Agent):
    """An agent that goes on after an action that fails, and then has an error."""

    def act(self) -> bool:
        with pytest.raises(ActionError):
            self.press_keys(["no such key"])
        raise KeyError(self.secrets["PIN"])


def test_error_in_test_is_raised(tmp_path: Path) -> None:
    with served_screen() as screen:
        agent = Failing(output_dir=tmp_path, secrets={"PIN": SECRET}, **place(screen))
        with pytest.raises(KeyError):
            agent.run(max_steps=1)
    assert isinstance(agent.error, KeyError)
    assert SECRET not in (tmp_path / "error.txt").read_text(encoding="utf-8")


def test_utilities_answer(tmp_path: Path) -> None:
    with served_screen() as screen:
        agent = Caller(output_dir=tmp_path, **place(screen))
        assert base64.b64decode(agent.screenshot()).startswith(b"\x89PNG")
        assert agent.client_resolution() == (400, 300)
        assert agent.check_task_success() is None
        agent.close()


@pytest.mark.parametrize(
    "name",
    [
        "recording/client.rfb.bin",
        "recording/client.time.bin",
        "recording/server.rfb.bin",
        "recording/server.time.bin",
        "action_screenshots.html",
        "action_screenshots/0001.png",
    ],
)
def test_run_leaves_files(run: tuple[Path, ServedScreen], name: str) -> None:
    directory, _ = run
    write_screenshots(directory)
    assert (directory / name).stat().st_size > 0


def test_run_leaves_exact_screenshots(run: tuple[Path, ServedScreen]) -> None:
    directory, screen = run
    assert write_screenshots(directory) == (len(SENT), len(SENT))
    last = actions_in(directory / "action_screenshots.json")[-1]["image"]
    with Image.open(directory / last) as image:
        rgb = np.asarray(image.convert("RGB")).astype(np.uint32)
    red, green, blue = np.moveaxis(rgb, 2, 0)
    assert np.array_equal(red << 16 | green << 8 | blue, screen.pixels)
