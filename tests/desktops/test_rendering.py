"""Programs on desktops that we start draw alike, whatever the machine's user has set."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from pytest_vnc_use.backends.vnc import connect
from pytest_vnc_use.desktops import session
from pytest_vnc_use.desktops.qt import QtDesktop
from pytest_vnc_use.desktops.session import make_environment, missing_faces
from pytest_vnc_use.desktops.xvnc import XvncDesktop
from pytest_vnc_use.errors import SettingsError
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


def test_pinned_environment_without_dejavu_names_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_FACES", ("Absent.ttf",))
    with pytest.raises(SettingsError, match=r"Absent\.ttf is not installed.*apt-get install fonts-dejavu-core"):
        make_environment(tmp_path, tmp_path, pinned=True)


def test_pinned_environment_fixes_theme_locale_and_zone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of_user = {"LANG": "de_DE.UTF-8", "TZ": "Asia/Tokyo", "GTK_THEME": "HighContrast", "QT_SCALE_FACTOR": "2"}
    for name, value in of_user.items():
        monkeypatch.setenv(name, value)
    variables = make_environment(tmp_path, tmp_path, pinned=True)
    names = ("LANG", "TZ", "GTK_THEME", "QT_SCALE_FACTOR", "QT_STYLE_OVERRIDE", "XCURSOR_THEME", "XCURSOR_SIZE")
    assert [variables.get(name) for name in names] == ["C.UTF-8", "UTC", None, None, "Fusion", "Adwaita", "24"]
    for version in ("gtk-3.0", "gtk-4.0"):
        settings = Path(variables["XDG_CONFIG_HOME"], version, "settings.ini").read_text("utf-8")
        for kind in ("theme", "icon-theme", "cursor-theme"):
            assert f"gtk-{kind}-name=Adwaita\n" in settings
        assert "gtk-font-name=DejaVu Sans 10\n" in settings


SANS, SERIF, MONO = "DejaVu Sans", "DejaVu Serif", "DejaVu Sans Mono"
FAMILIES = {
    **dict.fromkeys(("sans-serif", "system-ui", "Arial", "Helvetica", "Liberation Sans", "Cantarell", "Ubuntu"), SANS),
    **dict.fromkeys(("Noto Sans", "Segoe UI", "Roboto", "Verdana", "Not Installed"), SANS),
    **dict.fromkeys(("serif", "Times New Roman", "Liberation Serif", "Georgia", "Noto Serif"), SERIF),
    **dict.fromkeys(("monospace", "Courier New", "Liberation Mono", "Consolas", "Noto Sans Mono"), MONO),
}


def test_usual_families_are_dejavu_grey_and_unhinted() -> None:
    require("fc-match")
    config = Path(session.__file__).with_name("fonts.conf")
    form = "%{family[0]} %{antialias} %{hinting} %{rgba} %{embeddedbitmap} %{dpi}"
    for family, resolved in FAMILIES.items():
        argv = ["fc-match", "-f", form, family]
        ran = subprocess.run(argv, env={**os.environ, "FONTCONFIG_FILE": str(config)}, capture_output=True, text=True)
        assert ran.stdout == f"{resolved} True False 5 False 96", family
