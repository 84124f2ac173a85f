"""Two desktops in one test: what is written on one is seen, and answered, on the other.

The task is recorded on the test's own desktop. The second one is the test's to drive by
hand, with the same eyes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_vnc_use import VncUseAgent
from pytest_vnc_use.desktops.xvnc import XvncDesktop
from pytest_vnc_use.types.protocols import Desktop

TERMINAL = ["xterm", "-geometry", "80x24+60+60", "-e", "sh", "-c"]


@pytest.fixture
def line(tmp_path: Path) -> Path:
    """A file that stands for the network between both."""
    (tmp_path / "line").touch()
    return tmp_path / "line"


@pytest.fixture
def vnc_app(line: Path) -> list[str]:
    return [*TERMINAL, f"echo to the other desktop:; exec cat >{line}"]


@pytest.fixture
def other_desktop(line: Path) -> Iterator[XvncDesktop]:
    answer = (
        "read -r said; echo they say: $said; read -r answer; echo $answer >answer.txt;"
        " exec cat"
    )
    desktop = XvncDesktop(
        [
            *TERMINAL,
            f"tail -n +1 -f {line} | {{ {answer}; }}".replace("read -r answer", READ),
        ]
    )
    yield desktop
    desktop.stop()


READ = "read -r answer </dev/tty"


@pytest.mark.needs("xterm", package="xterm")
@pytest.mark.vnc_task(
    "Send the line 'the parcel is here' to the other desktop", expect=None
)
def test_line_is_answered(
    vnc_desktop: Desktop, other_desktop: XvncDesktop, line: Path
) -> None:
    assert line.read_text() == "the parcel is here\n"
    with VncUseAgent(
        vnc_server=other_desktop.server, vnc_password=other_desktop.password
    ) as other:
        other.type_text("I come\n")
        other.screenshot()
    assert other_desktop.read_file("answer.txt") == "I come\n"
