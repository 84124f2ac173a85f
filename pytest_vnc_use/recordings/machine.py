"""The machine that drew a recording's screens, as far as it decides how programs draw. It says why a gate is closed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

from pytest_vnc_use.errors import VncUseError
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types.protocols import Desktop

FAMILIES = ("sans-serif", "serif", "monospace")
_LOOK_S = 20.0
_STARTED = ("xvnc", "qt")
_TOOLS = "dash|bash|coreutils|findutils|grep|sed|dpkg|dbus.*|dconf.*|.*-common"
"""Packages that draw nothing: of the commands below, of wrappers and services, and doubles of a program's own."""
_LOOK = f"""
for family in {" ".join(FAMILIES)}; do fc-match -f "$family: %{{family[0]}}\\n" $family; done
fc-match -f 'text: antialias %{{antialias}}, hinting %{{hinting}} %{{hintstyle}}, subpixels %{{rgba}}\\n' sans-serif
echo "scale: GTK ${{GDK_SCALE:-1}}, Qt ${{QT_SCALE_FACTOR:-1}}"
xdpyinfo | sed -n 's/^ *depth of root window: *\\([0-9]*\\).*/depth: \\1/p'
[ -z "$1" ] || grep -lsz "^HOME=$HOME$" /proc/[0-9]*/environ | sed 's/environ$/exe/' | xargs readlink | sort -u \\
    | xargs dpkg-query -S | sed -n 's/^\\([^ :,]*\\)[:,] *.*/\\1/p' | grep -vxE '{_TOOLS}' \\
    | xargs -r dpkg-query -W -f '${{Package}}: ${{Version}}\\n'
"""
"""It prints what is known there, a line each, and nothing for a program that is not installed.

The last command prints the versions of the packages of all programs that have the home of a desktop that we started.
"""


def machine_of(desktop: Desktop, settings: Settings) -> dict[str, str]:
    """Return what draws on a desktop, by its name: fonts, text, scale, depth, server, rendering, versions of packages.

    What is not known there is left out. Nothing of it names a host or a user.
    """
    kind = settings.server if settings.server in _STARTED else ""
    known = {"rendering": settings.rendering, "server": kind} if kind else {}
    with suppress(VncUseError, AttributeError):  # only VNC reaches it, it is gone, or is a user's own without `run`
        for line in desktop.run(["sh", "-c", _LOOK, "sh", kind], timeout_s=_LOOK_S).stdout.splitlines():
            name, _, value = line.partition(": ")
            known |= {name: value} if value.strip() else {}
    return known


def difference(recorded: Mapping[str, str], here: Mapping[str, str]) -> str:
    """Return in a sentence or two how this machine differs from the recording's; "" if nothing is known to."""
    fonts, others = ([*_differing(recorded, here, is_font=is_font)] for is_font in (True, False))
    sentences = [f"Fonts differ from the recording's machine: {', '.join(fonts)}."] if fonts else []
    sentences += [f"This machine differs from the recording's: {', '.join(others)}."] if others else []
    return " ".join(sentences)


def _differing(recorded: Mapping[str, str], here: Mapping[str, str], *, is_font: bool) -> Iterator[str]:
    for name, there in recorded.items():
        if (name in FAMILIES) == is_font and here.get(name, there) != there:
            yield f"{name} is {here[name]} here, {there} there"
