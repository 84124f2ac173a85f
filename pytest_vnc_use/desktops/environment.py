"""What a started program finds: its environment, and the directories that stand for its user's. Made only here.

With `pinned` programs draw alike on every machine, whatever its user has set; `vnc_rendering = system` leaves all of it
as it is on this machine.
"""

from __future__ import annotations

import os
import site
from collections.abc import Iterable
from pathlib import Path

from pytest_vnc_use.errors import SettingsError

_WITHHELD = {
    *("WAYLAND_DISPLAY", "WAYLAND_SOCKET", "VNC_USE_PASSWORD", "VNC_USE_API_KEY"),
    *("GOOGLE_API_KEY", "GEMINI_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "LMSTUDIO_API_KEY"),
}
"""Variables that would lead a program to the tester's own screen, or give it the tests' secrets."""
_PROFILE = {
    "XDG_CONFIG_HOME": "config",
    "XDG_DATA_HOME": "data",
    "XDG_STATE_HOME": "state",
    "XDG_RUNTIME_DIR": "run",
}
"""The directories in which a program keeps what it knows of its user (freedesktop.org, XDG Base Directory)."""
_FACES = ("DejaVuSans.ttf", "DejaVuSans-Bold.ttf", "DejaVuSansMono.ttf", "DejaVuSerif.ttf")
_UNSET = {
    *("LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_COLLATE", "LC_MESSAGES", "LC_MONETARY", "LC_NUMERIC", "LC_TIME"),
    *("XDG_CURRENT_DESKTOP", "DESKTOP_SESSION", "GNOME_DESKTOP_SESSION_ID", "KDE_FULL_SESSION", "FONTCONFIG_PATH"),
    *("GTK_THEME", "GTK2_RC_FILES", "GDK_SCALE", "GDK_DPI_SCALE", "QT_QPA_PLATFORMTHEME", "XENVIRONMENT"),
    *("QT_SCALE_FACTOR", "QT_AUTO_SCREEN_SCALE_FACTOR", "QT_ENABLE_HIGHDPI_SCALING", "QT_SCREEN_SCALE_FACTORS"),
}
"""Variables by which a user's session decides on language, theme and scale."""
_SET = {
    "FONTCONFIG_FILE": str(Path(__file__).with_name("fonts.conf")),
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


def withhold(*names: str) -> None:
    """Remove these variables from the environment of every process that is started for a desktop from now on."""
    _WITHHELD.update(names)


def inheritable() -> dict[str, str]:
    """Return the part of this process's environment that a desktop may inherit."""
    return {name: value for name, value in os.environ.items() if name not in _WITHHELD}


def make_environment(directory: Path, home: Path, *, pinned: bool) -> dict[str, str]:
    """Return the environment of a user whom no program knows: with new directories in `directory`, without a bus.

    Fonts, packages of Python and caches of the tester, which are in a home directory too, stay as they are. With
    `pinned` programs draw in it as on every other machine; raises SettingsError where DejaVu is not installed.
    """
    profile = directory / "profile"
    paths = {variable: profile / name for variable, name in _PROFILE.items()}
    for path in (profile, *paths.values()):
        path.mkdir(mode=0o700)
    if os.path.isdir(fonts := user_fonts()):  # noqa: PTH112  # Path.is_dir raises where it may not look
        (paths["XDG_DATA_HOME"] / "fonts").symlink_to(fonts)
    kept = {
        "XDG_CACHE_HOME": os.path.expanduser("~/.cache"),  # noqa: PTH111  # without a home it stays as it is
        "PYTHONUSERBASE": site.getuserbase(),
        **{name: value for name, value in inheritable().items() if name != "DBUS_SESSION_BUS_ADDRESS"},
    }
    environment = {**kept, "HOME": str(home), **{variable: str(path) for variable, path in paths.items()}}
    if not pinned:
        return environment
    if missing := missing_faces([Path("/usr/share/fonts"), Path("/usr/local/share/fonts"), fonts]):  # as in fonts.conf
        raise SettingsError(
            f"Programs are drawn with the fonts DejaVu, and {', '.join(missing)} is not installed. Install it "
            "(Debian: apt-get install fonts-dejavu-core; Fedora: dejavu-sans-fonts dejavu-sans-mono-fonts "
            "dejavu-serif-fonts), or set vnc_rendering = system, with which recordings fit this machine only"
        )
    for version in ("gtk-3.0", "gtk-4.0"):
        settings = paths["XDG_CONFIG_HOME"] / version
        settings.mkdir(mode=0o700)
        (settings / "settings.ini").touch(mode=0o600)
        (settings / "settings.ini").write_text(_GTK_SETTINGS, encoding="utf-8")
    return {name: value for name, value in environment.items() if name not in _UNSET} | _SET


def user_fonts() -> Path:
    """Return the directory of the fonts that the tester has installed without root."""
    return Path(os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share"), "fonts")  # noqa: PTH111  # there may be no home


def missing_faces(directories: Iterable[Path]) -> list[str]:
    """Return the files of DejaVu that are in none of these directories."""
    there = {name for directory in directories for _, _, names in os.walk(directory) for name in names}
    return [face for face in _FACES if face not in there]
