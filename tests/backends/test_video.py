"""The video of a screen: its frames, their times, and the file that players read."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pytest_vnc_use import clock
from pytest_vnc_use.backends import video as video_module
from pytest_vnc_use.backends.pixels import Area, Pixels, Rectangle, pixels_in
from pytest_vnc_use.backends.screen import Framebuffer, PointerShape
from pytest_vnc_use.backends.video import LOOK_S, Recorder
from pytest_vnc_use.backends.vnc import VNCController
from support import webm
from support.vnc_servers import VncServer, wait_for

WHITE = 0xFFFFFF
RED = 0xFF0000
BLUE = 0x0000FF
SIZE = 101, 67


def paint(screen: Framebuffer, colour: int, size: tuple[int, int] = SIZE) -> None:
    """Have a server send a screen of one colour."""
    pixels: Pixels = np.full(size[::-1], colour, np.uint32)
    screen.apply([Rectangle(Area(0, 0, *size), pixels)])


def wait_for_frames(recorder: Recorder, count: int) -> None:
    wait_for(lambda: recorder.frame_count >= count, f"{count} frames")


def colours(video: Path) -> list[int]:
    """Return the colour in the middle of each frame, whose red, green and blue are
    rounded to 0 or 255.
    """
    rounded = []
    for _, pixels in webm.frames_of(video):
        height, width = pixels.shape
        middle = int(pixels[height // 2, width // 2])
        is_bright = middle >> 7 & 0x010101
        rounded.append(is_bright * 255)
    return rounded


@pytest.fixture
def screen() -> Framebuffer:
    screen = Framebuffer()
    screen.resize(*SIZE)
    paint(screen, WHITE)
    return screen


@pytest.fixture
def video(screen: Framebuffer, tmp_path: Path) -> Path:
    """A video of white, red from 0.5 s or later, then blue."""
    recorder = Recorder(lambda: screen, clock.monotonic() - 0.5)
    recorder.start()
    wait_for_frames(recorder, 1)
    paint(screen, RED)
    wait_for_frames(recorder, 2)
    paint(screen, BLUE)
    recorder.stop()
    assert recorder.write(tmp_path / "video.webm")
    return tmp_path / "video.webm"


def test_video_shows_changes_to_its_end(video: Path) -> None:
    assert colours(video) == [WHITE, RED, BLUE, BLUE]


def test_video_times_start_with_run(video: Path) -> None:
    times = [time_s for time_s, _ in webm.frames_of(video)]
    assert times[0] == 0.0
    assert times[1] > 0.5
    assert times == sorted(times)


def test_video_index_finds_each_frame(video: Path) -> None:
    content = video.read_bytes()
    found = [*webm.elements(content)]
    (segment,) = (content for name, content, _ in found if name == webm.SEGMENT)
    start = content.index(segment)
    positions = [
        int.from_bytes(position, "big")
        for name, position, _ in found
        if name == webm.CUE_POSITION
    ]
    clusters = [at - start for name, _, at in found if name == webm.CLUSTER]
    assert positions == clusters


def test_unchanged_screen_has_one_frame(screen: Framebuffer) -> None:
    recorder = Recorder(lambda: screen, clock.monotonic())
    recorder.start()
    wait_for_frames(recorder, 1)
    time.sleep(5 * LOOK_S)  # nothing happens, which is no event
    recorder.stop()
    assert recorder.frame_count == 1


def test_moved_pointer_is_another_frame(screen: Framebuffer, tmp_path: Path) -> None:
    recorder = Recorder(lambda: screen, clock.monotonic())
    recorder.start()
    wait_for_frames(recorder, 1)
    screen.pointer_shape = PointerShape.of(0, 0, 8, 8, bytes(256), b"\xff" * 8)
    screen.pointer_at = 50, 30
    wait_for_frames(recorder, 2)
    recorder.stop()
    recorder.write(tmp_path / "video.webm")
    (_, before), (_, after), _ = webm.frames_of(tmp_path / "video.webm")
    assert before[34, 54] & 255 > 200
    assert after[34, 54] & 255 < 50


def test_resized_screen_is_shown_whole(screen: Framebuffer, tmp_path: Path) -> None:
    recorder = Recorder(lambda: screen, clock.monotonic())
    recorder.start()
    wait_for_frames(recorder, 1)
    screen.resize(64, 48)
    paint(screen, RED, (64, 48))
    wait_for_frames(recorder, 2)
    recorder.stop()
    recorder.write(tmp_path / "video.webm")
    shapes = [pixels.shape for _, pixels in webm.frames_of(tmp_path / "video.webm")]
    assert shapes[0] == (67, 101)
    assert shapes[-1] == (48, 64)


def test_long_video_keeps_its_end(
    screen: Framebuffer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(video_module, "MAX_FRAMES", 2)
    recorder = Recorder(lambda: screen, clock.monotonic())
    recorder.start()
    wait_for_frames(recorder, 1)
    screen.apply([Rectangle(Area(0, 0, 8, 8), np.full((8, 8), RED, np.uint32))])
    wait_for_frames(recorder, 2)
    paint(screen, BLUE)
    recorder.stop()
    recorder.write(tmp_path / "video.webm")
    assert colours(tmp_path / "video.webm") == [WHITE, BLUE, BLUE]


def test_moving_part_is_kept_once_a_second(screen: Framebuffer) -> None:
    recorder = Recorder(lambda: screen, clock.monotonic())
    recorder.start()
    end_s = clock.monotonic() + 4
    for number in itertools.count():
        spinner: Pixels = np.full((8, 8), number % 2 * WHITE, np.uint32)
        screen.apply([Rectangle(Area(0, 0, 8, 8), spinner)])
        if clock.monotonic() > end_s:
            break
        time.sleep(0.05)  # as a spinner turns
    recorder.stop()
    # it counts as moving after 0.4 s
    assert recorder.frame_count <= 12


def test_video_without_screen_is_not_written(tmp_path: Path) -> None:
    recorder = Recorder(lambda: None, clock.monotonic())
    recorder.start()
    recorder.stop()
    assert not recorder.write(tmp_path / "video.webm")
    assert not [*tmp_path.iterdir()]


def test_video_shows_desktop_as_its_frame(
    tigervnc: VncServer, connected: Callable[..., VNCController], tmp_path: Path
) -> None:
    controller = connected(tigervnc)
    recorder = Recorder(lambda: controller.screen, clock.monotonic())
    recorder.start()
    wait_for_frames(recorder, 1)
    controller.move(200, 100)
    tigervnc.paint(5)
    controller.settle()
    last = controller.frame()
    recorder.stop()
    recorder.write(tmp_path / "video.webm")
    _, shown = webm.frames_of(tmp_path / "video.webm")[-1]
    assert shown.shape == (last.ref.height, last.ref.width)
    seen = pixels_in(last)
    levels = (shown & 0xFF).astype(int) - (seen & 0xFF).astype(int)
    assert np.abs(levels).mean() < 8
