"""The environment of what is started for a desktop; it is made only here.

With `pinned` programs draw alike on every machine, whatever its user has set;
`vnc_rendering = system` leaves all of it as it is on this machine.
"""

from __future__ import annotations

import os
import site
from collections.abc import Iterable, Mapping
from pathlib import Path

from pytest_vnc_use.errors import SettingsError

_WITHHELD = {
    "WAYLAND_DISPLAY",
    "WAYLAND_SOCKET",
    "VNC_USE_PASSWORD",
    "VNC_USE_API_KEY",
    "GOOGLE_API_KEY",
    "GEMINI_API_KEY",
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
    "LMSTUDIO_API_KEY",
}
"""Variables that would lead a program to the tester's screen, or give it the tests'
secrets.
"""
_PROFILE = {
    "XDG_CONFIG_HOME": "config",
    "XDG_DATA_HOME": "data",
    "XDG_STATE_HOME": "state",
    "XDG_RUNTIME_DIR": "run",
}
"""The directories in which a program stores data about its user (freedesktop.org, XDG
Base Directory).
"""
_IN_HOME = {
    "XDG_CONFIG_HOME": ".config",
    "XDG_DATA_HOME": ".local/share",
    "XDG_STATE_HOME": ".local/state",
}
"""The same directories in a home."""
_FONT_FILES = (
    "DejaVuSans.ttf",
    "DejaVuSans-Bold.ttf",
    "DejaVuSansMono.ttf",
    "DejaVuSerif.ttf",
)
_UNSET = {
    "LANGUAGE",
    "LC_ALL",
    "LC_CTYPE",
    "LC_COLLATE",
    "LC_MESSAGES",
    "LC_MONETARY",
    "LC_NUMERIC",
    "LC_TIME",
    "XDG_CURRENT_DESKTOP",
    "DESKTOP_SESSION",
    "GNOME_DESKTOP_SESSION_ID",
    "KDE_FULL_SESSION",
    "FONTCONFIG_PATH",
    "GTK_THEME",
    "GTK2_RC_FILES",
    "GDK_SCALE",
    "GDK_DPI_SCALE",
    "QT_QPA_PLATFORMTHEME",
    "XENVIRONMENT",
    "QT_SCALE_FACTOR",
    "QT_AUTO_SCREEN_SCALE_FACTOR",
    "QT_ENABLE_HIGHDPI_SCALING",
    "QT_SCREEN_SCALE_FACTORS",
}
"""Variables by which a user's session decides on language, theme and scale."""
_PINNED = {
    "FONTCONFIG_FILE": str(Path(__file__).with_name("fonts.conf")),
    "LANG": "C.UTF-8",
    "TZ": "UTC",
    "QT_STYLE_OVERRIDE": "Fusion",
    "QT_FONT_DPI": "96",
    "XCURSOR_THEME": "Adwaita",
    "XCURSOR_SIZE": "24",
}
"""What these decide on, and the fonts and the time zone, on every machine."""
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
    """Remove these variables from the environment of every process that is started for
    a desktop from now on.
    """
    _WITHHELD.update(names)


def inheritable(variables: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variables, such as those of this process, that a desktop may
    inherit.
    """
    return {name: value for name, value in variables.items() if name not in _WITHHELD}


def make_environment(
    directory: Path,
    home: Path,
    *,
    pinned: bool,
    is_copy: bool = False,
    variables: Mapping[str, str] = os.environ,
) -> dict[str, str]:
    """Return the environment of a new user: the tester's `variables`, with its own
    directories in `directory`, without a D-Bus session.

    If the home `is_copy`, what programs store about their user is read from there.
    Fonts, Python packages and caches are still those of the tester. With `pinned`,
    programs draw as on every other machine; raises SettingsError where the DejaVu fonts
    are not installed.
    """
    profile = directory / "profile"
    paths = {variable: profile / name for variable, name in _PROFILE.items()}
    if is_copy:
        paths |= {variable: home / name for variable, name in _IN_HOME.items()}
    for path in (profile, *paths.values()):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    # there may be no home
    fonts = Path(
        variables.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share"),  # noqa: PTH111
        "fonts",
    )
    fonts_link = paths["XDG_DATA_HOME"] / "fonts"
    if os.path.isdir(fonts) and not os.path.lexists(fonts_link):  # noqa: PTH112  # Path.is_dir raises where it may not look
        fonts_link.symlink_to(fonts)
    environment = {
        "XDG_CACHE_HOME": os.path.expanduser("~/.cache"),  # noqa: PTH111  # without a home it stays as it is
        "PYTHONUSERBASE": site.getuserbase(),
        **inheritable(variables),
        "HOME": str(home),
    }
    environment |= {variable: str(path) for variable, path in paths.items()}
    environment.pop("DBUS_SESSION_BUS_ADDRESS", None)
    if not pinned:
        return environment
    # as in fonts.conf
    font_dirs = [Path("/usr/share/fonts"), Path("/usr/local/share/fonts"), fonts]
    if missing := missing_faces(font_dirs):
        raise SettingsError(
            f"Programs need the DejaVu fonts, but {', '.join(missing)} is not"
            " installed. Install it (Debian: apt-get install fonts-dejavu-core;"
            " Fedora: dejavu-sans-fonts dejavu-sans-mono-fonts dejavu-serif-fonts), or"
            " set vnc_rendering = system, with which recordings fit this machine only"
        )
    for version in ("gtk-3.0", "gtk-4.0"):
        settings = paths["XDG_CONFIG_HOME"] / version / "settings.ini"
        settings.parent.mkdir(mode=0o700, exist_ok=True)
        # that of a copied home, which may be a link
        settings.unlink(missing_ok=True)
        settings.touch(mode=0o600)
        settings.write_text(_GTK_SETTINGS, encoding="utf-8")
    for name in _UNSET:
        environment.pop(name, None)
    return environment | _PINNED


def missing_faces(directories: Iterable[Path]) -> list[str]:
    """Return the files of DejaVu that are in none of these directories."""
    installed: set[str] = set()
    for directory in directories:
        for _, _, names in os.walk(directory):
            installed.update(names)
    return [face for face in _FONT_FILES if face not in installed]
