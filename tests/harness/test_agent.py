"""An agent as a script: its actions on a real desktop, and the files that it leaves."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pytest_vnc_use.errors import ActionError, DesktopRefused
from pytest_vnc_use.harness import Agent, MouseClickAction, Position, record_action
from support import vnc_servers
from support.harness_agents import actions_in, place
from support.vnc_servers import VncServer
from support.witness_programs import chromium

pytestmark = pytest.mark.desktop


@dataclass(kw_only=True)
class Steps(Agent):
    """An agent that performs what it was given, one thing a step."""

    steps: list[Any] = field(default_factory=list)
    acted: int = 0

    def act(self) -> bool:
        self.acted += 1
        if self.steps:
            self.steps.pop(0)(self)
        return not self.steps

    @record_action
    def greet(self, name: str, *, often: int = 1) -> str:
        for _ in range(often):
            self.type_text(name)
        return name.upper()


@pytest.fixture(scope="module")
def server() -> Iterator[VncServer]:
    with vnc_servers.tigervnc((400, 300)) as server:
        yield server


@pytest.fixture
def agent(server: VncServer, tmp_path: Path) -> Iterator[Steps]:
    agent = Steps(output_dir=tmp_path / "new" / "run", **place(server))
    yield agent
    agent.close()


def test_run_counts_calls_of_act_and_keeps_actions(agent: Steps) -> None:
    seen: list[int] = []
    threads = {thread.name for thread in threading.enumerate()}

    def look(each: Steps) -> None:
        each.wait(0.0)
        each.greet("", often=2)
        with pytest.raises(ActionError, match="must be on the screen"):
            each.mouse_move(Position(400, 0))
        seen.append(len(actions_in(each.output_dir / "partial_execution.json")))
        assert not (each.output_dir / "execution.json").exists()

    agent.steps = [look] * 3
    assert agent.run(2, record=False) is False
    assert (agent.acted, seen) == (2, [3, 6])
    records = actions_in(agent.output_dir / "execution.json")
    assert [record["action"] for record in records] == [
        "wait",
        "greet",
        "mouse_move",
        "wait",
        "greet",
        "mouse_move",
    ]
    assert "must be on the screen" in records[2]["error"]
    assert records[1] == {
        "action": "greet",
        "params": {"name": "", "often": 2},
        "task_marked_complete": None,
    }
    assert {path.name for path in agent.output_dir.iterdir()} == {"execution.json"}
    assert {thread.name for thread in threading.enumerate()} <= threads
    agent.wait(0.0)  # on another connection


def test_run_interrupted_or_without_desktop_leaves_traceback(agent: Steps) -> None:
    def interrupt(each: Steps) -> None:
        each.wait(0.0)
        raise KeyboardInterrupt

    agent.steps = [interrupt]
    with pytest.raises(KeyboardInterrupt):
        agent.run(max_steps=3)
    error = agent.output_dir / "error.txt"
    assert {path.name for path in agent.output_dir.iterdir()} == {
        "partial_execution.json",
        error.name,
        "recording",
    }
    assert "KeyboardInterrupt" in error.read_text(encoding="utf-8")
    agent.close()
    agent.vnc_port = vnc_servers.free_port()
    with pytest.raises(DesktopRefused):
        agent.run(max_steps=1)
    assert "DesktopRefused" in error.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda each: each.mouse_click(MouseClickAction()),
            ActionError,
            "has no position, and no earlier action",
        ),
        (
            lambda each: each.mouse_click(MouseClickAction(position=(1, 2))),
            TypeError,
            r"`position`, got \(1, 2\)",
        ),
        (lambda each: each.press_keys([7]), TypeError, r"names of keys.*got \[7\]"),
    ],
)
def test_invalid_argument_raises(
    agent: Steps, call: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        call(agent)


def test_websocket_is_default_scheme(server: VncServer, tmp_path: Path) -> None:
    with vnc_servers.websockify(server.address) as port:
        agent = Steps(output_dir=tmp_path, vnc_port=port)
        assert agent.client_resolution() == (400, 300)
        agent.steps = [lambda each: each.mouse_move(Position(3, 4))]
        assert agent.run(max_steps=1)
    assert (
        (tmp_path / "recording" / "server.rfb.bin")
        .read_bytes()
        .startswith(b"RFB 003.008\n")
    )


@pytest.mark.browser
def test_success_sentinel_is_looked_for_in_dom(tmp_path: Path) -> None:
    vnc_servers.require("chromium")
    page = "data:text/html,<title>t</title><p id=a>start</p>"
    with vnc_servers.tigervnc((1000, 700)) as server, chromium(server, page) as browser:
        agent = Steps(
            output_dir=tmp_path,
            cdp_port=int(browser.address.rpartition(":")[2]),
            **place(server),
        )

        def mark(each: Steps) -> None:
            browser.navigate("data:text/html,<title>t</title><p>code%231</p>")
            each.wait(0.0)

        agent.steps = [lambda each: each.wait(0.0), mark]
        agent.run(max_steps=2, record=False)
        assert agent.check_task_success() is True
    assert agent.check_task_success() is None
    marked = [
        record["task_marked_complete"]
        for record in actions_in(tmp_path / "execution.json")
    ]
    assert marked == [False, True]
