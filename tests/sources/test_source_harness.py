"""The contract of the document about a computer-use harness: names, parameters, defaults, files, and what is sent."""

from __future__ import annotations

import base64
import dataclasses
import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_vnc_use import harness
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
from support import vnc_servers
from support.harness_agents import actions_in, client_messages, place
from support.vnc_servers import VncServer

CTRL, SHIFT, ALT, RETURN, LEFT, RIGHT = 0xFFE3, 0xFFE1, 0xFFE9, 0xFF0D, 0xFF51, 0xFF53
REQUIRED = inspect.Parameter.empty


@pytest.mark.parametrize(
    ("field", "default"),
    [
        ("output_dir", dataclasses.MISSING),
        ("vnc_scheme", "ws"),
        ("vnc_host", "localhost"),
        ("vnc_port", 5902),
        ("cdp_port", 9222),
    ],
)
def test_agent_field_is_keyword_with_default(field: str, default: object) -> None:
    [found] = [each for each in dataclasses.fields(Agent) if each.name == field]
    assert (found.default, found.kw_only, found.init) == (default, True, True)


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        ("act", {}),
        ("run", {"max_steps": REQUIRED}),
        ("mouse_move", {"position": REQUIRED}),
        ("mouse_click", {"action": REQUIRED}),
        ("mouse_drag", {"action": REQUIRED}),
        ("mouse_scroll", {"action": REQUIRED}),
        ("press_keys", {"keys": REQUIRED}),
        ("type_text", {"text": REQUIRED}),
        ("page_navigation", {"direction": REQUIRED}),
        ("wait", {"seconds": REQUIRED}),
        ("finish", {"params": None}),
        ("screenshot", {}),
        ("client_resolution", {}),
        ("check_task_success", {}),
        ("start_recording", {}),
        ("stop_recording", {}),
        ("__post_init__", {}),
    ],
)
def test_agent_method_has_parameters(method: str, parameters: dict[str, object]) -> None:
    _, *found = inspect.signature(getattr(Agent, method)).parameters.values()
    given = {each.name: each.default for each in found}
    assert {name: given.get(name) for name in parameters} == parameters
    assert all(default is not REQUIRED for name, default in given.items() if name not in parameters)


@pytest.mark.parametrize(
    ("enum", "values"),
    [
        (MouseButton, {"left", "right"}),
        (MouseClickType, {"single", "double", "triple"}),
        (ScrollDirection, {"up", "down", "left", "right"}),
    ],
)
def test_enum_has_values(enum: Any, values: set[str]) -> None:
    assert {enum(value).value for value in values} == values


@pytest.mark.parametrize(
    ("form", "fields"),
    [
        (Position, ["x", "y"]),
        (MouseClickAction, ["button", "position", "click_type"]),
        (MouseDragAction, ["button", "start", "end"]),
        (ScrollAction, ["position", "direction"]),
    ],
)
def test_action_has_fields(form: Any, fields: list[str]) -> None:
    assert [field.name for field in dataclasses.fields(form)][: len(fields)] == fields


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("EXECUTION_FILE", "execution.json"),
        ("PARTIAL_EXECUTION_FILE", "partial_execution.json"),
        ("ERROR_FILE", "error.txt"),
    ],
)
def test_file_name_is_exported(name: str, file: str) -> None:
    assert getattr(harness, name) == file


def test_act_is_abstract_and_decorator_is_exported(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="abstract"):
        Agent(output_dir=tmp_path)  # type: ignore[abstract]
    assert callable(harness.record_action)


def struck(*keysyms: int) -> list[str]:
    """Return how keys are pressed together."""
    return [f"+{keysym:x}" for keysym in keysyms] + [f"-{keysym:x}" for keysym in reversed(keysyms)]


def one_by_one(text: str) -> list[str]:
    return [word for character in text for word in struck(ord(character))]


AT, TO = Position(10, 20), Position(60, 70)
CLICK = ["1 10 20", "0 10 20"]
DRAG = ["0 10 20", "4 10 20", "4 60 70", "4 60 70", "0 60 70"]
SENT: list[tuple[str, tuple[Any, ...], list[str]]] = [
    ("mouse_move", (AT,), ["0 10 20"]),
    ("mouse_click", (MouseClickAction(MouseButton.LEFT, AT, MouseClickType.SINGLE),), ["0 10 20", *CLICK]),
    ("mouse_click", (MouseClickAction(MouseButton.RIGHT, AT),), ["0 10 20", "4 10 20", "0 10 20"]),
    ("mouse_click", (MouseClickAction(MouseButton.LEFT, AT, MouseClickType.DOUBLE),), ["0 10 20", *CLICK * 2]),
    ("mouse_click", (MouseClickAction(MouseButton.LEFT, AT, MouseClickType.TRIPLE),), ["0 10 20", *CLICK * 3]),
    ("mouse_drag", (MouseDragAction(MouseButton.RIGHT, AT, TO),), DRAG),
    ("mouse_scroll", (ScrollAction(AT, ScrollDirection.UP),), ["0 10 20", "8 10 20", "0 10 20"]),
    ("mouse_scroll", (ScrollAction(AT, ScrollDirection.DOWN),), ["0 10 20", "10 10 20", "0 10 20"]),
    ("mouse_scroll", (ScrollAction(AT, ScrollDirection.LEFT),), ["0 10 20", "20 10 20", "0 10 20"]),
    ("mouse_scroll", (ScrollAction(AT, ScrollDirection.RIGHT),), ["0 10 20", "40 10 20", "0 10 20"]),
    ("press_keys", (["Ctrl+Shift+P"],), struck(CTRL, SHIFT, ord("P"))),
    ("press_keys", (["Ctrl+Shift+T"],), struck(CTRL, SHIFT, ord("T"))),
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
    ("page_navigation", ("back",), struck(ALT, LEFT)),
    ("page_navigation", ("forward",), struck(ALT, RIGHT)),
    ("wait", (0.1,), []),
    ("finish", ({"total": 3},), []),
    ("finish", (), []),
]


class Caller(Agent):
    """An agent that calls each row of the table."""

    def act(self) -> bool:
        for name, arguments, _ in SENT:
            getattr(self, name)(*arguments)
        return True


@pytest.fixture(scope="module")
def server() -> Iterator[VncServer]:
    with vnc_servers.tigervnc((400, 300)) as server:
        yield server


@pytest.fixture(scope="module")
def run(server: VncServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output directory of a recorded run of the table."""
    agent = Caller(output_dir=tmp_path_factory.mktemp("run"), **place(server))
    agent.run(max_steps=1)
    return agent.output_dir


@pytest.mark.desktop
@pytest.mark.parametrize(("name", "arguments", "sent"), SENT)
def test_action_sends_events(server: VncServer, tmp_path: Path, name: str, arguments: Any, sent: list[str]) -> None:
    agent = Caller(output_dir=tmp_path, **place(server))
    agent.start_recording()
    getattr(agent, name)(*arguments)
    agent.stop_recording()
    assert [event for event in map(event_of, client_messages(tmp_path / "recording")) if event] == sent


def event_of(message: bytes) -> str:
    if message[0] == 4:
        return f"{'+' if message[1] else '-'}{int.from_bytes(message[4:8], 'big'):x}"
    if message[0] == 5:
        x, y = int.from_bytes(message[2:4], "big"), int.from_bytes(message[4:6], "big")
        return f"{message[1]:x} {x} {y}"
    return ""


@pytest.mark.desktop
def test_execution_lists_actions_with_params(run: Path) -> None:
    records = actions_in(run / "execution.json")
    assert [record["action"] for record in records] == [name for name, _, _ in SENT]
    by_name = {record["action"]: record["params"] for record in records}
    assert by_name["mouse_move"] == {"position": {"x": 10, "y": 20}}
    assert by_name["mouse_click"] == {
        "action": {"button": "left", "position": {"x": 10, "y": 20}, "click_type": "triple"}
    }
    assert by_name["page_navigation"] == {"direction": "forward"}
    assert by_name["finish"] == {"params": None}
    assert {record["task_marked_complete"] for record in records} == {None}
    without = [name for name, arguments, _ in SENT if name == "finish" or arguments in (([],), (["none", ""],))]
    assert len(read_execution(run).steps) == len(SENT) - len(without) + 2  # a drag with the right button is three


class Failing(Agent):
    def act(self) -> bool:
        self.mouse_move(AT)
        raise ZeroDivisionError("so it is")


@pytest.mark.desktop
def test_exception_leaves_error_and_partial_execution(server: VncServer, tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        Failing(output_dir=tmp_path, **place(server)).run(max_steps=3)
    assert {file.name for file in tmp_path.iterdir()} == {"error.txt", "partial_execution.json", "recording"}
    assert "ZeroDivisionError: so it is" in (tmp_path / "error.txt").read_text(encoding="utf-8")
    assert [record["action"] for record in actions_in(tmp_path / "partial_execution.json")] == ["mouse_move"]


@pytest.mark.desktop
def test_utilities_answer(server: VncServer, tmp_path: Path) -> None:
    agent = Caller(output_dir=tmp_path, **place(server))
    assert base64.b64decode(agent.screenshot()).startswith(b"\x89PNG")
    assert (agent.client_resolution(), agent.check_task_success()) == ((400, 300), None)
    with pytest.raises(ValueError, match="'back' or 'forward'"):
        agent.page_navigation("sideways")  # type: ignore[arg-type]
    agent.close()


@pytest.mark.desktop
@pytest.mark.parametrize(
    "file",
    [
        "execution.json",
        "recording/client.rfb.bin",
        "recording/client.time.bin",
        "recording/server.rfb.bin",
        "recording/server.time.bin",
        "action_screenshots.json",
        "action_screenshots.html",
        "action_screenshots/0001.png",
    ],
)
def test_run_leaves_file(run: Path, file: str) -> None:
    if file.startswith("action_screenshots") and not (run / file).exists():
        assert write_screenshots(run) == (len(SENT), len(SENT))
    assert (run / file).stat().st_size > 0
    if file.endswith(".json"):
        json.loads((run / file).read_text(encoding="utf-8"))
