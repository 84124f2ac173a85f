"""Recorded bytes become the screenshots again, pixel for pixel, up to where they
end.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pytest_vnc_use.cli import main
from pytest_vnc_use.errors import RunDirectoryError
from pytest_vnc_use.harness import Agent, MouseClickAction, Position, record_action
from pytest_vnc_use.harness.screenshots import write_screenshots
from support import vnc_servers
from support.harness_agents import actions_in, client_messages, place
from support.stages import KINDS, Pixels, Stage
from support.witness_programs import xterm

pytestmark = pytest.mark.desktop

SPINNER = (
    r"while true; do for c in / - '\' '|'; do printf '\r%s' $c; sleep 0.03; done; done"
)
SECRET = "Grün4711-x"


@dataclass(kw_only=True)
class Painter(Agent):
    stage: Stage
    truths: list[Pixels] = field(default_factory=list)

    def act(self) -> bool:
        self.paint(len(self.truths))
        self.truths.append(self.stage.truth())
        return len(self.truths) == 4

    @record_action
    def paint(self, number: int) -> None:
        self.stage.repaint()
        self.mouse_click(MouseClickAction(position=Position(5 + number, 5)))


@pytest.mark.parametrize("kind", ["tigervnc", "qt"])
def test_recording_gives_every_screenshot_again(kind: str, tmp_path: Path) -> None:
    with KINDS[kind](tmp_path) as stage:
        agent = Painter(output_dir=tmp_path / "run", stage=stage, **place(stage.server))
        assert agent.run(max_steps=9)
    assert main(["screenshots", str(agent.output_dir)]) == 0

    listed = actions_in(agent.output_dir / "action_screenshots.json")
    assert [(entry["action"], entry["params"]) for entry in listed] == [
        ("paint", {"number": number}) for number in range(4)
    ]
    images = [pixels_in(agent.output_dir / entry["image"]) for entry in listed]
    assert [*map(np.array_equal, images, agent.truths)] == [True] * 4
    page = (agent.output_dir / "action_screenshots.html").read_text(encoding="utf-8")
    assert [page.count(f'src="{entry["image"]}"') for entry in listed] == [1, 1, 1, 1]


def pixels_in(file: Path) -> Any:
    with Image.open(file) as image:
        return np.asarray(image.convert("RGB"))


class Waiter(Agent):
    def act(self) -> bool:
        self.mouse_click(MouseClickAction(position=Position(300, 200)))
        for _ in range(4):
            self.wait(0.1)
        return self.finish({"total": 3})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recorded run on a screen that always moves; it is made again where other tests
    come in between.
    """
    with vnc_servers.tigervnc((400, 300)) as server, xterm(server, SPINNER):
        agent = Waiter(output_dir=tmp_path_factory.mktemp("run"), **place(server))
        agent.run(max_steps=1)
    assert write_screenshots(agent.output_dir) == (6, 6)
    return agent.output_dir


@pytest.mark.parametrize(
    ("name", "cut"),
    [("server.rfb.bin", 0.0), ("server.rfb.bin", 0.5), ("server.time.bin", -1)],
)
def test_cut_recording_gives_screenshots_before_cut(
    run: Path, tmp_path: Path, name: str, cut: float
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    file = copy / "recording" / name
    data = file.read_bytes()
    file.write_bytes(data[: int(cut * len(data)) if 0 <= cut < 1 else int(cut)])
    size = (copy / "recording" / "server.rfb.bin").stat().st_size
    records = actions_in(run / "execution.json")
    known = [record["server_bytes"] <= size for record in records]
    assert name == "server.rfb.bin" or all(known)

    assert write_screenshots(copy) == (sum(known), 6)
    images = [entry["image"] for entry in actions_in(copy / "action_screenshots.json")]
    assert [image is not None for image in images] == known
    written = [image for image in images if image is not None]
    differing = [
        image
        for image in written
        if not np.array_equal(pixels_in(copy / image), pixels_in(run / image))
    ]
    assert differing == []
    assert len([*(copy / "action_screenshots").iterdir()]) == sum(known)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            None,
            (
                "has no execution.json or partial_execution.json. Name the output_dir"
                " of an agent"
            ),
        ),
        ("[]", "is not a recording: .* Record the run"),
    ],
)
def test_directory_without_run_raises(
    tmp_path: Path, text: str | None, message: str
) -> None:
    if text is not None:
        (tmp_path / "execution.json").write_text(text, encoding="utf-8")
    with pytest.raises(RunDirectoryError, match=message):
        write_screenshots(tmp_path)
    assert main(["screenshots", str(tmp_path)]) == 2


@dataclass(kw_only=True)
class Login(Agent):
    text: str

    def act(self) -> bool:
        self.mouse_click(MouseClickAction(position=Position(30, 30)))
        self.type_text("before ")
        self.type_text(self.text)
        self.type_text(" after")
        return True


def typed_in(recording: Path) -> str:
    keys = [
        message
        for message in client_messages(recording)
        if message[0] == 4 and message[1]
    ]
    return "".join(chr(int.from_bytes(key[4:8], "big") & 0xFFFF) for key in keys)


@pytest.mark.parametrize("text", ["<secret:PIN>", f"is {SECRET}!"])
def test_secret_and_password_are_not_in_client_stream(
    tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VNC_USE_PASSWORD", "geheim12")
    password = vnc_servers.password_file(tmp_path, "geheim12")
    with (
        vnc_servers.tigervnc((500, 300), password) as server,
        xterm(server, "cat", geometry="40x10+0+0"),
    ):
        agent = Login(
            output_dir=tmp_path, text=text, secrets={"PIN": SECRET}, **place(server)
        )
        assert "secrets" not in repr(agent)
        agent.run(max_steps=1)
    first, *_ = messages = [*client_messages(tmp_path / "recording")]
    marks = [message for message in messages if message[:4] == b"\6\0\0\0"]
    assert first[0] == 0
    assert [mark[8:] for mark in marks if mark[4] < 0x80] == [b"<secret:PIN>"]
    assert typed_in(tmp_path / "recording") == "before  after"
    records = actions_in(tmp_path / "execution.json")
    assert records[2]["params"] == {"text": text.replace(SECRET, "<secret:PIN>")}
    assert SECRET not in (tmp_path / "execution.json").read_text(encoding="utf-8")
    assert write_screenshots(tmp_path) == (4, 4)
