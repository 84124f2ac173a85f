"""What drew a recording's screens, and what is said of it on another machine."""

from __future__ import annotations

import subprocess

import pytest

from pytest_vnc_use.desktops.external import ExternalDesktop
from pytest_vnc_use.desktops.xvnc import XvncDesktop
from pytest_vnc_use.recordings.drift import difference, machine_of
from pytest_vnc_use.settings.settings import Settings
from support.vnc_servers import require

FONTS = {"sans-serif": "DejaVu Sans", "serif": "DejaVu Serif"}


@pytest.mark.parametrize(
    ("recorded", "here", "sentence"),
    [
        (FONTS, {"serif": "DejaVu Serif"}, ""),
        (
            {**FONTS, "xterm": "379-1", "nano": "7.2-1"},
            {"serif": "Gelasio", "xterm": "398-1"},
            "Fonts differ from the recording's machine: serif is Gelasio here, DejaVu Serif there. "
            "This machine differs from the recording's: xterm is 398-1 here, 379-1 there.",
        ),
    ],
)
def test_difference_names_what_both_know(recorded: dict[str, str], here: dict[str, str], sentence: str) -> None:
    assert difference(recorded, here) == sentence


def test_machine_of_desktop_without_commands_is_unknown() -> None:
    assert machine_of(ExternalDesktop("127.0.0.1::1", None), Settings(server="127.0.0.1::1")) == {}


@pytest.mark.desktop
def test_machine_of_xvnc_has_fonts_and_versions_of_programs() -> None:
    for program in ("Xtigervnc", "xterm", "dpkg-query", "fc-match"):
        require(program)
    desktop = XvncDesktop(["sh", "-c", "exec xterm"], start_timeout_s=60)
    try:
        machine = machine_of(desktop, Settings(server="xvnc"))
    finally:
        desktop.stop()
    query = ["dpkg-query", "-W", "-f", "${Version}", "xterm"]
    version = subprocess.run(query, capture_output=True, text=True, check=True).stdout
    known = {"rendering": "pinned", "server": "xvnc", "xterm": version, "monospace": "DejaVu Sans Mono", **FONTS}
    assert known.items() <= machine.items()
    assert not {"dash", "coreutils"} & set(machine)
