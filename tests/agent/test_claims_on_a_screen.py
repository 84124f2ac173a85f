"""Claims about a real screen that changes on its own: within a time, and what was only there for half a second."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from PIL import Image

from pytest_vnc_use.backends.vnc import connect
from pytest_vnc_use.errors import ProductFailed
from pytest_vnc_use.types import Frame, Report, Verdict
from support.judges import agent_before
from support.vnc_servers import VncServer, require


class ColourJudge:
    """The port Judge: a claim holds where its last word is the colour in the middle of the screen."""

    def judge(self, claim: str, frame: Frame, *, timeout_s: float, report: Report) -> Verdict:
        image = Image.open(io.BytesIO(frame.png))
        colour = "#" + bytes(image.getpixel((image.width // 2, image.height // 2))).hex()
        return Verdict(claim, "holds" if claim.endswith(colour) else "fails", f"it is {colour}")


@pytest.mark.desktop
def test_saw_finds_toast_of_half_second(tigervnc: VncServer, tmp_path: Path) -> None:
    require("xsetroot")
    toast = "; ".join(f"xsetroot -solid '{colour}'; sleep 0.5" for colour in ("#0000ff", "#ff0000", "#0000ff"))
    with agent_before(ColourJudge(), tmp_path, connect(tigervnc.address)) as agent:
        agent.key("a")
        with tigervnc.run("sh", "-c", toast) as painter:
            painter.wait(30)
        assert not agent.assess("the toast is #ff0000")
        assert agent.saw("the toast is #ff0000")
        with pytest.raises(ProductFailed):
            agent.saw("the toast is #00ff00")
        agent.key("a")
        with pytest.raises(ProductFailed):
            agent.saw("the toast is #ff0000")
