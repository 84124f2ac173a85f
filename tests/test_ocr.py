"""Text off pixels: what the models read, that they need no network, and who gets it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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
    found = {each.name: each for each in ocr.texts_of(pixels_in(frame_with(WORDS)))}
    assert found.keys() == WORDS.keys()
    for name, (left, top) in WORDS.items():
        assert found[name].box.holds((left + 10, top + 14))
        assert found[name].box.is_within((200, 40))


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


@pytest.mark.parametrize("toolset", ["vnc_command", "commands"])
def test_model_of_one_toolset_gets_text(toolset: str, tmp_path: Path) -> None:
    asked = call("vnc_command", action="detect_elements")
    smaller = call(
        "vnc_command", action="configure", params={"screenshot_max_side": 400}
    )
    done = call("task_complete", summary="Seen.")
    gives_up = call("task_failed", reason="There is no text.")
    script = [asked, smaller, asked, done]
    if toolset == "commands":
        script = [call("vnc_command", command="list_elements"), gives_up]
    with ChatServer(script) as server:
        settings = Settings(
            planner="openai",
            base_url=server.url,
            model=MODEL,
            toolset=toolset,
            runs_dir=str(tmp_path),
        )
        with VncUseAgent(settings=settings, controller=Shown()) as agent:
            agent.run("Look")
        requests = server.requests
    if toolset == "commands":
        assert "there is no command" in str(requests[1].of("tool"))
        return
    assert "call detect_elements" in requests[0].texts[0]
    answers = requests[1].of("tool")[0], requests[-1].of("tool")[2]
    for number, text in enumerate((answer["content"] for answer in answers), start=1):
        lines = text.splitlines()
        assert [line.partition(" (")[0] for line in lines] == [
            f"text {name!r}" for name in WORDS
        ]
        x = int(lines[2].partition("x=")[2].partition(",")[0])
        assert abs(x - 500 / number) < 8
