"""What comes and goes while a step is performed is in the step, and in the run directory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_vnc_use.agent.act import Actor
from pytest_vnc_use.backends.vnc import VNCController
from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.runs.directory import RunDirectory
from pytest_vnc_use.types import FrameRef, Proposal, Ruling, Step, Wait
from support.vnc_servers import VncServer

pytestmark = pytest.mark.desktop


@pytest.fixture
def actor(tigervnc: VncServer, connected: Callable[..., VNCController], tmp_path: Path) -> Actor:
    return Actor(connected(tigervnc), RunDirectory.create(tmp_path, "run-1"), {}, str)


def waiting(frame: FrameRef) -> Step:
    return Step(1, 1, Proposal(Wait(0.1)), Ruling("allow", ""), frame, frame)


def show(server: VncServer, actor: Actor, colour: str) -> None:
    """Give the screen a colour, and wait until it has it for a while."""
    hands = actor.controller
    assert isinstance(hands, VNCController)
    before_s = hands.screen.changed_at
    server.output_of("xsetroot", "-solid", colour)
    assert hands.wait_changed(before_s, 10)
    hands.wait(0.5)


def test_what_passed_is_stored_and_told(tigervnc: VncServer, actor: Actor) -> None:
    before = actor.first_look()
    for colour in ("red", "green", "blue"):
        show(tigervnc, actor, colour)
    effect = actor.carry_out(waiting(before), Deadline(30))
    assert len(effect.passed) == 2
    shown = [before, *effect.passed, effect.frame_after]
    assert len(set(shown)) == 4
    assert all(actor._dir.load_png(frame) for frame in shown)
    assert actor.carry_out(waiting(effect.frame_after), Deadline(30)).passed == ()
