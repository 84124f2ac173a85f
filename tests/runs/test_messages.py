"""`messages.jsonl`: what a run sent, with times, for its owner alone, bounded, and
without secrets.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pytest_vnc_use import VncUseAgent
from pytest_vnc_use.backends.client import Outgoing
from pytest_vnc_use.backends.vnc import VNCController, connect
from pytest_vnc_use.planners.local.callables import finish
from pytest_vnc_use.report.pages import write_report
from pytest_vnc_use.runs import logger as messages
from pytest_vnc_use.runs.logger import FILE, MessageLog
from pytest_vnc_use.runs.redactor import Redactor
from pytest_vnc_use.settings import Settings
from pytest_vnc_use.types import Click, TypeText
from support.vnc_servers import VncServer
from support.witness_programs import xterm


def kept(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (directory / FILE).read_bytes().splitlines()]


@pytest.fixture
def log(tmp_path: Path) -> MessageLog:
    log = MessageLog()
    log.begin(tmp_path, 0.0, str)
    return log


def test_long_log_is_cut(
    log: MessageLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "MAX_BYTES", 2000)
    log.begin(tmp_path, 0.0, str)
    for x in range(1000):
        Outgoing(log).note("pointer", x=x, y=0, buttons=[])
    written = (tmp_path / FILE).stat()
    assert written.st_size < 2100
    assert written.st_mode & 0o777 == 0o600
    assert kept(tmp_path)[-1]["kind"] == "cut"


@pytest.fixture
def typing(log: MessageLog, tigervnc: VncServer) -> Iterator[VNCController]:
    """A connection whose messages are logged."""
    with closing(connect(tigervnc.address, tap=log)) as controller:
        yield controller


def of_kind(directory: Path, *kinds: str) -> list[dict[str, Any]]:
    return [line for line in kept(directory) if line["kind"] in kinds]


@pytest.mark.desktop
def test_messages_have_times_in_order(typing: VNCController, tmp_path: Path) -> None:
    typing.click(20, 30, "right")
    typing.type_text("aB")
    times = [line["at_s"] for line in kept(tmp_path)]
    assert len(times) > 5
    assert times == sorted(times)


@pytest.mark.desktop
def test_messages_list_sent_events(typing: VNCController, tmp_path: Path) -> None:
    typing.key_down("shift")
    typing.click(20, 30, "right")
    typing.key_up("shift")
    sent = of_kind(tmp_path, "key", "pointer")
    for event in sent:
        del event["at_s"]
    point = {"kind": "pointer", "x": 20, "y": 30}
    assert sent == [
        {"kind": "key", "key": "shift", "down": True},
        {**point, "buttons": []},
        {**point, "buttons": ["right"]},
        {**point, "buttons": []},
        {"kind": "key", "key": "shift", "down": False},
    ]


@pytest.mark.desktop
def test_messages_have_way_of_drag(typing: VNCController, tmp_path: Path) -> None:
    typing.drag_and_drop(1, 1, 40, 40)
    first, *_, last_of_way, released = of_kind(tmp_path, "pointer")
    assert first["x"] == 1
    assert last_of_way["buttons"] == ["left"]
    assert released["x"] == 40
    assert released["buttons"] == []


@pytest.mark.desktop
def test_messages_have_keys_of_text(typing: VNCController, tmp_path: Path) -> None:
    typing.type_text("aB")
    keys = [(line["key"], line["down"]) for line in of_kind(tmp_path, "key")]
    assert keys == [
        ("a", True),
        ("a", False),
        ("shift", True),
        ("B", True),
        ("B", False),
        ("shift", False),
    ]


@pytest.mark.desktop
def test_messages_hold_no_byte_of_secret(
    log: MessageLog, typing: VNCController, tmp_path: Path
) -> None:
    """Whether it is declared, typed as it is, in the middle of a text, beyond ASCII, or
    a one-time code.
    """
    value = secrets.token_urlsafe(9)
    wide = f"Ж{secrets.token_hex(6)}é"
    redactor = Redactor({"S": value, "WIDE": wide, "SHARED": "GEZDGNBVGY3TQOJQ"})
    log.begin(tmp_path, 0.0, redactor.hide)
    typing.type_text(redactor.reveal("user\t<secret:S>"), press_enter=True)
    typing.type_text(value)
    outgoing = Outgoing(log)
    with outgoing.typing(wide):
        outgoing.note("clipboard", text=wide)
        for letter in wide:
            outgoing.note("key", key=letter, down=True)
    typing.type_text(redactor.reveal("<totp:SHARED>"))
    typing.type_text("x")

    written = (tmp_path / FILE).read_text()
    assert value not in written
    assert wide not in written
    texts = [line["text"] for line in of_kind(tmp_path, "text")]
    assert texts == ["user\t<secret:S>", "<secret:S>", "<secret:WIDE>", "<totp:SHARED>"]
    assert {line["key"] for line in of_kind(tmp_path, "key")} == {"return", "x"}


def sign_in(settings: Settings, pin: str) -> Path:
    """Type a PIN in a task, press F5, and return the run directory."""
    typing = [TypeText("<secret:PIN>"), Click(20, 30), TypeText(pin)]
    turns = iter([typing, finish()])
    with VncUseAgent(
        settings=settings, planner=lambda _: next(turns), secrets={"PIN": pin}
    ) as agent:
        agent.run("Sign in")
        agent.key("f5")
    return agent.runs[0]


@pytest.mark.slow
@pytest.mark.desktop
@pytest.mark.parametrize("is_kept", [False, True])
def test_agents_run_keeps_messages_if_asked_to(
    tigervnc: VncServer, tmp_path: Path, is_kept: bool
) -> None:
    settings = Settings(
        server=tigervnc.address, runs_dir=str(tmp_path), rfb_log=is_kept
    )
    with xterm(tigervnc, "cat >/dev/null"):
        directory = sign_in(settings, secrets.token_hex(8))
    assert (directory / FILE).exists() is is_kept


@pytest.mark.slow
@pytest.mark.desktop
def test_messages_of_run_hold_no_secret(tigervnc: VncServer, tmp_path: Path) -> None:
    pin = secrets.token_hex(8)
    settings = Settings(server=tigervnc.address, runs_dir=str(tmp_path), rfb_log=True)
    with xterm(tigervnc, "cat >/dev/null"):
        directory = sign_in(settings, pin)

    texts = [line["text"] for line in of_kind(directory, "text")]
    # where screens are redacted, the last character of a secret is typed on its own
    assert texts == ["<secret:PIN>"] * 4
    assert {line["key"] for line in of_kind(directory, "key")} == {"f5"}
    files = [file for file in directory.rglob("*") if file.is_file()]
    assert [file for file in files if pin.encode() in file.read_bytes()] == []

    index = write_report([directory], directory.parent)
    page = index.parent / directory.name / "index.html"
    assert f'<a href="{FILE}">messages to the server</a>' in page.read_text()
