"""Claims about a real screen that changes on its own: within a time, and what was only there for half a second."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from PIL import Image

from pytest_vnc_use import VncUseAgent
from pytest_vnc_use.backends.vnc import connect
from pytest_vnc_use.errors import ProductFailed
from pytest_vnc_use.types import Frame, Report, Verdict
from support.judges import agent_before
from support.vnc_servers import VncServer, require

pytestmark = pytest.mark.desktop

LIMIT_S = 30.0


@dataclass
class ColourJudge:
    """The port Judge: a claim holds where its last word is the colour in the middle of the screen."""

    asked: int = 0

    def judge(self, claim: str, frame: Frame, *, timeout_s: float, report: Report) -> Verdict:
        self.asked += 1
        image = Image.open(io.BytesIO(frame.png))
        colour = "#" + bytes(image.getpixel((image.width // 2, image.height // 2))).hex()
        return Verdict(claim, "holds" if claim.endswith(colour) else "fails", f"it is {colour}")


@pytest.fixture
def judge() -> ColourJudge:
    return ColourJudge()


@pytest.fixture
def agent(tigervnc: VncServer, judge: ColourJudge, tmp_path: Path) -> Iterator[VncUseAgent]:
    controller = connect(tigervnc.address)
    with agent_before(judge, tmp_path, controller) as agent:
        yield agent


def painting(*colours: str, each_s: float) -> list[str]:
    """A command that fills the screen with one colour after the other."""
    require("xsetroot")
    return ["sh", "-c", "; ".join(f"xsetroot -solid '{colour}'; sleep {each_s}" for colour in colours)]


def test_claim_that_comes_to_hold_is_asked_once_change(
    agent: VncUseAgent, judge: ColourJudge, tigervnc: VncServer
) -> None:
    with tigervnc.run(*painting("#0000ff", "#00ff00", "#ff0000", each_s=1.0)):
        verdict = agent.assess("the screen is #ff0000", within_s=LIMIT_S)
    assert verdict
    assert judge.asked == verdict.looks <= 5


def test_screen_that_does_not_change_is_judged_once(agent: VncUseAgent, judge: ColourJudge) -> None:
    assert not agent.assess("the screen is #123456", within_s=1.0)
    assert judge.asked == 1


def test_toast_of_half_second_was_seen(agent: VncUseAgent, tigervnc: VncServer) -> None:
    agent.key("a")
    with tigervnc.run(*painting("#0000ff", "#ff0000", "#0000ff", each_s=0.5)) as painter:
        painter.wait(LIMIT_S)
    assert not agent.assess("the toast is #ff0000")
    assert agent.saw("the toast is #ff0000")
    with pytest.raises(ProductFailed):
        agent.saw("the toast is #00ff00")
    agent.key("a")
    with pytest.raises(ProductFailed):
        agent.saw("the toast is #ff0000")
