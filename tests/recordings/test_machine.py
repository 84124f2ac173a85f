"""What drew a recording's screens, and what is said of it on another machine."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any, cast

import pytest

from pytest_vnc_use.desktops.external import ExternalDesktop
from pytest_vnc_use.recordings.gates import difference, machine_of
from pytest_vnc_use.settings.settings import Settings
from support.qt_desktop import QtDesktop
from support.vnc_servers import require

FONTS = {"sans-serif": "DejaVu Sans", "serif": "DejaVu Serif"}


@pytest.mark.parametrize(
    ("recorded", "here", "sentence"),
    [
        (FONTS, FONTS, ""),
        ({}, FONTS, ""),
        (FONTS, {"serif": "DejaVu Serif"}, ""),
        (
            FONTS,
            {**FONTS, "sans-serif": "Liberation Sans"},
            "Fonts differ from the recording's machine: sans-serif is Liberation Sans here, DejaVu Sans there.",
        ),
        (
            {**FONTS, "server": "TigerVNC 1.12.0"},
            {"serif": "Gelasio", "server": "TigerVNC 1.15.0"},
            "Fonts differ from the recording's machine: serif is Gelasio here, DejaVu Serif there. "
            "This machine differs from the recording's: server is TigerVNC 1.15.0 here, TigerVNC 1.12.0 there.",
        ),
    ],
)
def test_difference_names_what_both_know(recorded: dict[str, str], here: dict[str, str], sentence: str) -> None:
    assert difference(recorded, here) == sentence


@pytest.mark.desktop
def test_machine_of_pinned_desktop_resolves_to_dejavu() -> None:
    require("fc-match")
    desktop = QtDesktop()
    try:
        machine = machine_of(desktop, Settings(server="qt"))
    finally:
        desktop.stop()
    assert {"rendering": "pinned", "server": "qt", "monospace": "DejaVu Sans Mono", **FONTS}.items() <= machine.items()


@pytest.mark.parametrize("desktop", [ExternalDesktop("127.0.0.1::1", None), object()])
def test_machine_of_desktop_without_commands_is_unknown(desktop: object) -> None:
    assert machine_of(cast(Any, desktop), Settings(server="127.0.0.1::1")) == {}


class FakeMachine:
    """It runs commands here, beside programs that a directory replaces."""

    def __init__(self, programs: Path) -> None:
        self.programs = programs

    def run(self, argv: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        env = {"PATH": f"{self.programs}:/usr/bin:/bin"}
        return subprocess.run(argv, env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("prints", "package", "server"),
    [
        ("Xvnc TigerVNC 1.12.0 - built 2023-01-06 16:01", "1.12.0+dfsg-8", "TigerVNC 1.12.0"),
        ("", "1.15.0+dfsg-2.1~deb13u1", "TigerVNC 1.15.0"),
        ("", "", None),
    ],
)
def test_machine_of_xvnc_knows_its_version(prints: str, package: str, server: str | None, tmp_path: Path) -> None:
    package_line = f"echo 'Xvnc TigerVNC {package}'" if package else "exit 1"
    for name, script in {"Xtigervnc": f"echo '{prints}' >&2", "Xvnc": "exit 1", "dpkg-query": package_line}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    machine = machine_of(cast(Any, FakeMachine(tmp_path)), Settings(server="xvnc"))
    assert (machine["rendering"], machine.get("server")) == ("pinned", server)
