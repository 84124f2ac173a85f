"""An agent as a script: its actions on a real desktop, and the files that it leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pytest_vnc_use.errors import ActionError, DesktopRefused
from pytest_vnc_use.harness import (
    Agent,
    MouseClickAction,
    Position,
    record_action,
)
from pytest_vnc_use.harness.screenshots import write_screenshots
from support import vnc_servers
from support.browsers import chromium
from support.certificates import Authority
from support.harness_agents import actions_in, place
from support.vnc_servers import VncServer
from support.witness_programs import witness_on_x, xterm

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


def files_in(agent: Agent) -> set[str]:
    return {path.name for path in agent.output_dir.iterdir()}


@pytest.mark.parametrize(("max_steps", "acted", "done"), [(2, 2, False), (9, 3, True)])
def test_run_counts_calls_of_act(agent: Steps, max_steps: int, acted: int, done: bool) -> None:
    agent.steps = [lambda each: (each.wait(0.0), each.wait(0.0))] * 3
    assert agent.run(max_steps, record=False) is done
    assert agent.acted == acted
    assert [record["action"] for record in actions_in(agent.output_dir / "execution.json")] == ["wait"] * 2 * acted
    assert files_in(agent) == {"execution.json"}


def test_partial_execution_grows_while_running(agent: Steps) -> None:
    seen: list[list[str]] = []

    def look(each: Steps) -> None:
        each.wait(0.0)
        records = actions_in(each.output_dir / "partial_execution.json")
        seen.append([record["action"] for record in records])
        assert not (each.output_dir / "execution.json").exists()

    agent.steps = [look, look]
    agent.run(max_steps=5, record=False)
    assert seen == [["wait"], ["wait", "wait"]]


def test_ctrl_c_leaves_partial_and_traceback(server: VncServer, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\nfrom pytest_vnc_use.harness import Agent\n"
        "class Slow(Agent):\n    def act(self):\n        self.wait(0.0)\n        print('waits', flush=True)\n"
        "        self.wait(60.0)\n"
        f"Slow(output_dir={str(tmp_path / 'run')!r}, vnc_scheme='vnc', vnc_port=int(sys.argv[1])).run(3)\n",
        encoding="utf-8",
    )
    command = [sys.executable, str(script), str(place(server)["vnc_port"])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"waits\n"
        os.kill(process.pid, signal.SIGINT)
        process.communicate(timeout=30)
    assert process.returncode != 0
    assert {path.name for path in (tmp_path / "run").iterdir()} == {
        "partial_execution.json",
        "error.txt",
        "recording",
    }
    assert "KeyboardInterrupt" in (tmp_path / "run" / "error.txt").read_text(encoding="utf-8")


def test_run_without_desktop_leaves_error(agent: Steps) -> None:
    agent.close()
    agent.vnc_port = vnc_servers.free_port()
    with pytest.raises(DesktopRefused):
        agent.run(max_steps=1)
    assert "DesktopRefused" in (agent.output_dir / "error.txt").read_text(encoding="utf-8")


def test_own_action_is_one_record(agent: Steps, server: VncServer) -> None:
    results: list[str] = []
    agent.steps = [lambda each: results.append(each.greet("ab", often=2))]
    with xterm(server, "cat"):
        agent.run(max_steps=1, record=False)
    [record] = actions_in(agent.output_dir / "execution.json")
    assert record == {"action": "greet", "params": {"name": "ab", "often": 2}, "task_marked_complete": None}
    assert results == ["AB"]


def test_failed_action_is_not_recorded(agent: Steps) -> None:
    def miss(each: Steps) -> None:
        with pytest.raises(ActionError, match="must be on the screen"):
            each.mouse_move(Position(400, 0))

    agent.steps = [miss]
    agent.run(max_steps=1, record=False)
    assert actions_in(agent.output_dir / "execution.json") == []


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda each: each.page_navigation("sideways"), ValueError, "goes 'back' or 'forward', got 'sideways'"),
        (lambda each: each.mouse_click(MouseClickAction()), ActionError, "has no position, and no earlier action"),
        (lambda each: each.mouse_click(MouseClickAction("fourth", Position(1, 1))), ValueError, "'fourth' is not"),
        (lambda each: each.mouse_click(MouseClickAction(position=(1, 2))), TypeError, r"`position`, got \(1, 2\)"),
        (lambda each: each.press_keys([7]), TypeError, r"names of keys.*got \[7\]"),
        (lambda each: each.press_keys(["nosuchkey"]), ActionError, "nosuchkey"),
        (lambda each: each.type_text("<secret:PIN>"), ActionError, "'PIN' is not declared"),
        (lambda each: each.wait(-1.0), ActionError, "0 seconds or more"),
    ],
)
def test_invalid_argument_raises(agent: Steps, call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(agent)


def test_type_text_takes_any_unicode(tmp_path: Path) -> None:
    text = "Grüße € 漢字 😀 ~"
    with vnc_servers.tigervnc((800, 600)) as server, witness_on_x(server, tmp_path) as shown:
        agent = Steps(output_dir=tmp_path / "run", **place(server))
        agent.steps = [lambda each: each.mouse_click(MouseClickAction(position=Position(200, 20)))]
        agent.steps += [lambda each: each.type_text(text)]
        agent.run(max_steps=2)
        shown.expect("line", text)


def test_websocket_is_default_scheme(server: VncServer, tmp_path: Path) -> None:
    with vnc_servers.websockify(server.address) as port:
        agent = Steps(output_dir=tmp_path, vnc_port=port)
        assert agent.client_resolution() == (400, 300)
        agent.steps = [lambda each: each.mouse_move(Position(3, 4))]
        assert agent.run(max_steps=1)
    assert (tmp_path / "recording" / "server.rfb.bin").read_bytes().startswith(b"RFB 003.008\n")


def test_wss_recording_is_decrypted(server: VncServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = Authority(tmp_path)
    shown = authority.certificate("localhost", "127.0.0.1")
    monkeypatch.setenv("VNC_USE_TLS", str(authority.file))
    tls = ("--cert", str(shown.file), "--key", str(shown.key), "--ssl-only")
    with vnc_servers.websockify(server.address, *tls) as port:
        agent = Steps(output_dir=tmp_path / "run", vnc_scheme="wss", vnc_port=port)
        agent.steps = [lambda each: each.mouse_move(Position(3, 4))]
        assert agent.run(max_steps=1)
    assert write_screenshots(tmp_path / "run") == (1, 1)


@pytest.mark.browser
def test_success_sentinel_is_looked_for_in_dom(tmp_path: Path) -> None:
    vnc_servers.require("chromium")
    page = "data:text/html,<title>t</title><p id=a>start</p>"
    with vnc_servers.tigervnc((1000, 700)) as server, chromium(server, page) as browser:
        agent = Steps(output_dir=tmp_path, cdp_port=int(browser.address.rpartition(":")[2]), **place(server))
        agent.steps = [lambda each: each.wait(0.0)]

        def mark(each: Steps) -> None:
            browser.navigate("data:text/html,<title>t</title><p>code%231</p>")
            each.wait(0.0)

        agent.steps += [mark]
        agent.run(max_steps=2, record=False)
        assert agent.check_task_success() is True
    assert agent.check_task_success() is None
    marked = [record["task_marked_complete"] for record in actions_in(tmp_path / "execution.json")]
    assert marked == [False, True]


def test_no_thread_or_connection_stays(agent: Steps) -> None:
    before = {thread.name for thread in threading.enumerate()}
    agent.run(max_steps=1)
    assert {thread.name for thread in threading.enumerate()} <= before
    assert agent._desk is None
