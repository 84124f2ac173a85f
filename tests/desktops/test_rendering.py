"""Programs on desktops that we start draw alike, whatever the machine's user has set."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path

import pytest

from pytest_vnc_use.backends.vnc import connect
from pytest_vnc_use.desktops.qt import QtDesktop
from pytest_vnc_use.desktops.session import missing_faces
from pytest_vnc_use.desktops.xvnc import XvncDesktop
from support.qt_desktop import WHY_OPEN
from support.vnc_servers import require, require_pyside

pytestmark = pytest.mark.desktop

USERS_FONTS = """<?xml version="1.0"?><fontconfig><include>/etc/fonts/fonts.conf</include>
<match target="font"><edit name="antialias" mode="assign"><bool>false</bool></edit></match>
<match target="pattern"><edit name="family" mode="prepend" binding="strong"><string>DejaVu Serif</string></edit></match>
</fontconfig>"""
"""Serifs without grey pixels, as a user may want them in all programs."""
QT_LABEL = """
from PySide6.QtWidgets import QApplication, QLabel
application = QApplication([])
label = QLabel("The quick brown fox; 0123456789")
label.show()
application.exec()
"""


def xvnc(pinned: bool) -> XvncDesktop:
    require("Xtigervnc")
    require("xterm")
    text = "printf '\\033[?25lThe quick brown fox; 0123456789'; exec sleep 99"  # and no cursor
    argv = ["xterm", "-fa", "monospace", "-fs", "12", "-e", text]
    return XvncDesktop(argv, size=(1000, 500), start_timeout_s=60, pinned=pinned)


def qt(pinned: bool) -> QtDesktop:
    require_pyside()
    argv = [sys.executable, "-c", QT_LABEL]
    return QtDesktop(argv, size=(500, 300), start_timeout_s=60, may_be_open=bool(WHY_OPEN), pinned=pinned)


def screenshot_of(desktop: XvncDesktop | QtDesktop) -> bytes:
    try:
        with closing(connect(desktop.server, password=desktop.password)) as controller:
            controller.settle()
            return controller.screenshot_png()
    finally:
        desktop.stop()


@pytest.mark.parametrize("start", [xvnc, qt])
def test_pinned_rendering_ignores_settings_of_user(
    start: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pinned, system = screenshot_of(start(pinned=True)), screenshot_of(start(pinned=False))
    (tmp_path / "fonts.conf").write_text(USERS_FONTS, encoding="utf-8")
    for name, value in {"FONTCONFIG_FILE": str(tmp_path / "fonts.conf"), "QT_FONT_DPI": "150", "LC_ALL": "C"}.items():
        monkeypatch.setenv(name, value)
    assert screenshot_of(start(pinned=False)) != system
    assert screenshot_of(start(pinned=True)) == pinned


def test_missing_faces_without_dejavu_names_them(tmp_path: Path) -> None:
    (tmp_path / "dejavu").mkdir()
    (tmp_path / "dejavu" / "DejaVuSans.ttf").touch()
    expected = ["DejaVuSans-Bold.ttf", "DejaVuSansMono.ttf", "DejaVuSerif.ttf"]
    assert missing_faces([tmp_path, tmp_path / "none"]) == expected
