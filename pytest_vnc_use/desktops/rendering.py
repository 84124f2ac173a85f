"""How programs draw on desktops that we start: alike on every machine, whatever its user has set.

`vnc_rendering = system` leaves all of it as it is on this machine.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from pytest_vnc_use.errors import SettingsError

FONTS_CONF = Path(__file__).with_name("fonts.conf")
_FACES = ("DejaVuSans.ttf", "DejaVuSans-Bold.ttf", "DejaVuSansMono.ttf", "DejaVuSerif.ttf")
_UNSET = {
    *("LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_COLLATE", "LC_MESSAGES", "LC_MONETARY", "LC_NUMERIC", "LC_TIME"),
    *("XDG_CURRENT_DESKTOP", "DESKTOP_SESSION", "GNOME_DESKTOP_SESSION_ID", "KDE_FULL_SESSION", "FONTCONFIG_PATH"),
    *("GTK_THEME", "GTK2_RC_FILES", "GDK_SCALE", "GDK_DPI_SCALE", "QT_QPA_PLATFORMTHEME", "XENVIRONMENT"),
    *("QT_SCALE_FACTOR", "QT_AUTO_SCREEN_SCALE_FACTOR", "QT_ENABLE_HIGHDPI_SCALING", "QT_SCREEN_SCALE_FACTORS"),
}
"""Variables by which a user's session decides on language, theme and scale."""
_SET = {
    "FONTCONFIG_FILE": str(FONTS_CONF),
    "LANG": "C.UTF-8",
    "TZ": "UTC",
    "QT_STYLE_OVERRIDE": "Fusion",
    "QT_FONT_DPI": "96",
    "XCURSOR_THEME": "Adwaita",
    "XCURSOR_SIZE": "24",
}
_GTK_SETTINGS = """\
[Settings]
gtk-theme-name=Adwaita
gtk-icon-theme-name=Adwaita
gtk-cursor-theme-name=Adwaita
gtk-cursor-theme-size=24
gtk-font-name=DejaVu Sans 10
gtk-xft-antialias=1
gtk-xft-hinting=0
gtk-xft-hintstyle=hintnone
gtk-xft-rgba=none
gtk-xft-dpi=98304
"""


def pin_rendering(environment: Mapping[str, str], config: Path) -> dict[str, str]:
    """Return an environment in which programs draw alike on every machine; GTK's settings go to `config`.

    Raises SettingsError where DejaVu is not installed.
    """
    if missing := missing_faces(font_directories()):
        raise SettingsError(
            f"Programs are drawn with the fonts DejaVu, and {', '.join(missing)} is not installed. Install it "
            "(Debian: apt-get install fonts-dejavu-core; Fedora: dejavu-sans-fonts dejavu-sans-mono-fonts "
            "dejavu-serif-fonts), or set vnc_rendering = system, with which recordings fit this machine only"
        )
    for version in ("gtk-3.0", "gtk-4.0"):
        (config / version).mkdir(mode=0o700)
        settings = config / version / "settings.ini"
        settings.touch(mode=0o600)
        settings.write_text(_GTK_SETTINGS, encoding="utf-8")
    return {name: value for name, value in environment.items() if name not in _UNSET} | _SET


def font_directories() -> list[Path]:
    """Return the directories that fonts.conf names."""
    return [Path("/usr/share/fonts"), Path("/usr/local/share/fonts"), user_fonts()]


def user_fonts() -> Path:
    """Return the directory of the fonts that the tester has installed without root."""
    return Path(os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share"), "fonts")  # noqa: PTH111  # there may be no home


def missing_faces(directories: Iterable[Path]) -> list[str]:
    """Return the files of DejaVu that are in none of these directories."""
    there = {name for directory in directories for _, _, names in os.walk(directory) for name in names}
    return [face for face in _FACES if face not in there]
