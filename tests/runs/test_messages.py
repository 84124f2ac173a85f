"""`messages.jsonl`: what a run sent, with times, for its owner alone, bounded, and without secrets."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pytest_vnc_use import Outcome, VncUseAgent
from pytest_vnc_use.backends.client import Outgoing
from pytest_vnc_use.backends.vnc import VNCController, connect
from pytest_vnc_use.planners.local.callables import finish
from pytest_vnc_use.report.pages import write_report
from pytest_vnc_use.runs import logger as messages
from pytest_vnc_use.runs.logger import FILE, MessageLog
from pytest_vnc_use.runs.redaction import Redactor
from pytest_vnc_use.settings import Settings
from pytest_vnc_use.types import Click, TypeText
from support.vnc_servers import VncServer
from support.witness_programs import xterm


def kept(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (directory / FILE).read_bytes().splitlines()]


def without_times(directory: Path) -> list[dict[str, Any]]:
    return [{name: value for name, value in line.items() if name != "at_s"} for line in kept(directory)]


def of_input(directory: Path) -> list[dict[str, Any]]:
    """The messages that are not about the screen, which a server draws when it likes."""
    return [line for line in without_times(directory) if line["kind"] not in ("encodings", "update request")]


@pytest.fixture
def log(tmp_path: Path) -> MessageLog:
    log = MessageLog()
    log.begin(tmp_path, 0.0, str)
    return log


def test_it_is_bounded_and_says_so(log: MessageLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "MOST_BYTES", 2000)
    log.begin(tmp_path, 0.0, str)
    for x in range(1000):
        Outgoing(log).note("pointer", x=x, y=0, buttons=[])
    assert (tmp_path / FILE).stat().st_size < 2100
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600
    assert kept(tmp_path)[-1]["kind"] == "cut"
    log.begin(tmp_path, 0.0, str)  # a run that continues
    Outgoing(log).note("pointer", x=0, y=0, buttons=[])
    assert kept(tmp_path)[-1]["kind"] == "cut"


@pytest.fixture
def controller(log: MessageLog, tigervnc: VncServer) -> Iterator[VNCController]:
    with closing(connect(tigervnc.address, tap=log)) as controller:
        yield controller


@pytest.mark.desktop
def test_what_connection_sent(controller: VNCController, tmp_path: Path) -> None:
    controller.key_down("shift")
    controller.click(20, 30, "right")
    controller.key_up("shift")
    controller.drag_and_drop(1, 1, 40, 40)
    controller.type_text("aB")
    lines = kept(tmp_path)
    assert [line["at_s"] for line in lines] == sorted(line["at_s"] for line in lines)
    messages_sent = of_input(tmp_path)
    point = {"kind": "pointer", "x": 20, "y": 30}
    assert messages_sent[:5] == [
        {"kind": "key", "key": "shift", "down": True},
        {**point, "buttons": []},
        {**point, "buttons": ["right"]},
        {**point, "buttons": []},
        {"kind": "key", "key": "shift", "down": False},
    ]
    drag = [line for line in messages_sent[5:] if line["kind"] == "pointer"]
    assert (drag[0]["x"], drag[-1]["x"], drag[-1]["buttons"], drag[-2]["buttons"]) == (1, 40, [], ["left"])
    keys = [(line["key"], line["down"]) for line in messages_sent[5:] if line["kind"] == "key"]
    assert keys == [("a", True), ("a", False), ("shift", True), ("B", True), ("B", False), ("shift", False)]


@pytest.mark.desktop
def test_no_byte_of_secret(log: MessageLog, controller: VNCController, tmp_path: Path) -> None:
    """Whether it is declared, typed as it is, in the middle of a text, beyond ASCII, or a one-time code."""
    names = [f"S{number}" for number in range(4)]
    values = {name: secrets.token_urlsafe(9) for name in names} | {"WIDE": f"Ж{secrets.token_hex(6)}é"}
    redactor = Redactor(values)
    log.begin(tmp_path, 0.0, redactor.hide)
    for name, value in values.items():
        if name != "WIDE":
            controller.type_text(redactor.reveal(f"user\t<secret:{name}>"), press_enter=True)
            controller.type_text(value)
        else:
            sent = Outgoing(log)
            with sent.typing(value):
                sent.note("clipboard", text=value)
                for letter in value:
                    sent.note("key", key=letter, down=True)
    code = Redactor({"SHARED": "GEZDGNBVGY3TQOJQ"}).reveal("<totp:SHARED>")
    controller.type_text(code)
    controller.type_text("x")
    written = (tmp_path / FILE).read_text()
    assert not [name for name, value in values.items() if value in written]
    messages_sent = of_input(tmp_path)
    assert [line["text"] for line in messages_sent if line["kind"] == "text"] == [
        *(text for name in names for text in (f"user\t<secret:{name}>", f"<secret:{name}>")),
        *("<secret:WIDE>", "<totp:SHARED>"),
    ]
    assert {line["key"] for line in messages_sent if line["kind"] == "key"} == {"return", "x"}


@pytest.mark.slow
@pytest.mark.desktop
def test_agents_run_keeps_them_if_it_is_asked_to(tigervnc: VncServer, tmp_path: Path) -> None:
    pin = secrets.token_hex(8)
    turns = [[TypeText("<secret:PIN>"), Click(20, 30), TypeText(pin)], finish()]

    def run(**given: Any) -> Path:
        plan = iter(turns)
        settings = Settings(server=tigervnc.address, runs_dir=str(tmp_path / "runs"), **given)
        agent = VncUseAgent(settings=settings, planner=lambda _: next(plan), secrets={"PIN": pin})
        try:
            assert agent.run("Sign in").outcome is Outcome.DONE
            agent.key("f5")
        finally:
            agent.close()
        return agent.runs[0]

    with xterm(tigervnc, "cat >/dev/null"):
        assert not (run() / FILE).exists()
        directory = run(rfb_log=True)
    lines = of_input(directory)
    texts = [line["text"] for line in lines if line["kind"] == "text"]
    assert texts == ["<secret:PIN>"] * 4  # with covers, the last character of a secret is typed on its own
    assert {line["key"] for line in lines if line["kind"] == "key"} == {"f5"}
    assert all(0 <= line["at_s"] < 60 for line in kept(directory))
    assert not [file for file in directory.rglob("*") if file.is_file() and pin.encode() in file.read_bytes()]
    page = write_report([directory], directory.parent).parent / directory.name / "index.html"
    assert f'<a href="{FILE}">messages to the server</a>' in page.read_text()
