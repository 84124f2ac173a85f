"""Text off pixels: what the models read, that they need no network, and who gets it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageDraw, ImageFont

from pytest_vnc_use import VncUseAgent
from pytest_vnc_use.backends.pixels import pixels_in
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import Frame
from support import images
from support.chat_server import MODEL, ChatServer, call
from support.memory_desktop import PaintedController

pytest.importorskip("rapidocr")
ocr = pytest.importorskip("pytest_vnc_use.ocr")

WORDS = {"Orders": (60, 40), "Total: 12.25": (60, 120), "Pay now": (500, 300)}


def frame_with(texts: dict[str, tuple[int, int]]) -> Frame:
    image = Image.new("RGB", (800, 400), "white")
    drawing = ImageDraw.Draw(image)
    for text, at in texts.items():
        drawing.text(at, text, "black", ImageFont.load_default(20))
    return images.frame_of(image)


class Shown(PaintedController):
    """A desktop that shows the words."""

    def frame(self) -> Frame:
        return frame_with(WORDS)


def test_texts_have_boxes() -> None:
    found = {text.name: text.box for text in ocr.texts_of(pixels_in(frame_with(WORDS)))}
    assert found.keys() == WORDS.keys()
    misplaced = {
        name: found[name]
        for name, (left, top) in WORDS.items()
        if not found[name].holds((left + 10, top + 14))
    }
    assert misplaced == {}
    assert [name for name, box in found.items() if not box.is_within((200, 40))] == []


def test_line_is_read_with_certainty() -> None:
    screen = pixels_in(frame_with({"Total: 12.25": (60, 120)}))
    line = ocr.line_of(screen[115:150, 50:220])
    assert line.text == "Total: 12.25"
    sure = [sure for of, sure in zip(line.text, line.sure, strict=True) if of != " "]
    assert min(sure) > 0.95


def test_nothing_is_loaded_from_elsewhere() -> None:
    program = """
import sys
def note(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo"):
        print(event, arguments)
sys.addaudithook(note)
import numpy as np
from pytest_vnc_use import ocr
screen = np.full((100, 200), 0xffffff, np.uint32)
print(ocr.texts_of(screen), ocr.line_of(screen).text)
"""
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[] \n", "")


def requests_of(toolset: str, script: list[Any], directory: Path) -> list[Any]:
    """Have a model of that toolset look, and return what it was asked."""
    with ChatServer(script) as server:
        settings = Settings(
            planner="openai",
            base_url=server.url,
            model=MODEL,
            toolset=toolset,
            runs_dir=str(directory),
        )
        with VncUseAgent(settings=settings, controller=Shown()) as agent:
            agent.run("Look")
        return server.requests


def test_model_of_other_toolset_gets_no_text(tmp_path: Path) -> None:
    lists = call("vnc_command", command="list_elements")
    gives_up = call("task_failed", reason="There is no text.")
    requests = requests_of("commands", [lists, gives_up], tmp_path)
    assert "there is no command" in str(requests[1].of("tool"))


def test_model_of_one_toolset_gets_text(tmp_path: Path) -> None:
    asked = call("vnc_command", action="detect_elements")
    smaller = call(
        "vnc_command", action="configure", params={"screenshot_max_side": 400}
    )
    done = call("task_complete", summary="Seen.")
    requests = requests_of("vnc_command", [asked, smaller, asked, done], tmp_path)
    assert "call detect_elements" in requests[0].texts[0]

    large = requests[1].of("tool")[0]["content"].splitlines()
    small = requests[-1].of("tool")[2]["content"].splitlines()
    names = [f"text {name!r}" for name in WORDS]
    assert [line.partition(" (")[0] for line in large] == names
    assert [line.partition(" (")[0] for line in small] == names
    assert abs(x_in(large[2]) - 500) < 8
    assert abs(x_in(small[2]) - 250) < 8


def x_in(line: str) -> int:
    return int(line.partition("x=")[2].partition(",")[0])
