"""What a slow program shows between two recorded screens is no transient; what none of them shows is one."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import pytest
from PIL import Image, ImageDraw

from pytest_vnc_use.backends.pixels import encode_png
from pytest_vnc_use.recordings.format import RecordedRun, RecordedStep, Screen
from pytest_vnc_use.recordings.images import Pixels
from pytest_vnc_use.recordings.replay import Replay
from pytest_vnc_use.types import Click, FrameRef, Observation
from support.painted_form import numbers

SIZE = (320, 200)
FIELD, BUTTON = (20, 20, 200, 50), (20, 120, 140, 160)
BLUE, RED = "#2070b0", "#c02020"


def page(text: str = "", *, status: str = "", ring: str = BLUE, button: str = BLUE, toast: str = "") -> Pixels:
    """A field with a text, a button and a status line; a toast, if there is one."""
    image = Image.new("RGB", SIZE, "white")
    pen = ImageDraw.Draw(image)
    pen.rectangle(FIELD, outline="grey")
    pen.text((30, 30), text, "black")
    pen.rectangle(BUTTON, fill=button, outline=ring, width=2)
    pen.text((50, 135), "Sign in", "white")
    pen.text((20, 180), status, "black")
    if toast:
        pen.rectangle((210, 80, 310, 110), fill="#ffe0a0")
        pen.text((220, 90), toast, "black")
    return numbers(image)


SCREENS = [
    page(),
    page("alice"),
    page("alice", status="welcome"),
    page("alice", status="paid"),
    page("alice", status="paid", toast="updates"),
]


def _png(shown: Pixels, _: FrameRef) -> bytes:
    return encode_png(shown)


def after_two_steps() -> Replay:
    """A replay after its second step, a click on the button."""
    *before, end = (Screen(pixels=lambda shown=shown: shown) for shown in SCREENS)
    steps = tuple(RecordedStep(action=Click(80, 140), screen=screen) for screen in before)
    replay = Replay(cast(Any, None), RecordedRun(task="Sign in", steps=steps, end=end))
    for shown in SCREENS[:2]:
        frame = FrameRef(str(shown.sum()), *SIZE)
        replay.decide(Observation("Sign in", frame, frame, (), partial(_png, shown)), timeout_s=1.0)
    return replay


@pytest.mark.parametrize(
    "shown",
    [
        page("alice"),
        page("alice", status="paid"),
        page(status="welcome"),
        page(status="paid"),
        page("alice", ring="black"),
        page("alice", button="#104070"),
        page("alice", toast="updates"),
    ],
    ids=[
        "late",
        "of the next screen",
        "earlier with a later part",
        "earlier with the next",
        "focused",
        "pressed",
        "a notification that was recorded later",
    ],
)
def test_unknown_parts_slow_program_shows_none(shown: Pixels) -> None:
    assert after_two_steps().unknown_parts(shown) == []


@pytest.mark.parametrize(
    "shown",
    [page("alice", toast="added"), page(toast="ERROR 500", status="paid"), page("alice", status="ERROR 500")],
    ids=["a toast", "a toast on an earlier screen", "an error"],
)
def test_unknown_parts_unrecorded_drawing_is_listed(shown: Pixels) -> None:
    assert after_two_steps().unknown_parts(shown)


def test_unknown_parts_text_on_target_is_listed() -> None:
    image = Image.fromarray(page("alice").astype("<u4").view("u1").reshape(*SIZE[::-1], 4)[:, :, 2::-1].copy())
    ImageDraw.Draw(image).text((50, 150), "ERROR", "white")
    assert after_two_steps().unknown_parts(numbers(image))
