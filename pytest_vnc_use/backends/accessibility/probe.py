"""A script that prints the elements of the programs on this X display, from AT-SPI, as JSON. It runs on the desktop.

It is alone there: it has the system's Python with its GLib, and nothing of this package. Source of the interfaces and
the numbers of states: `xml/` and `atspi/atspi-constants.h` of https://gitlab.gnome.org/GNOME/at-spi2-core.
"""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from typing import Any

ACCESSIBLE = "org.a11y.atspi.Accessible"
ROOT = ("org.a11y.atspi.Registry", "/org/a11y/atspi/accessible/root")
FOCUSABLE, SHOWING = 1 << 11, 1 << 25
ON_SCREEN = 0
MOST = 2000
CALL_MS = 1000


def bus_address() -> str:
    """Return the address of AT-SPI's own bus, which its launcher leaves on the display's root window."""
    try:
        told = subprocess.run(["xprop", "-root", "-notype", "AT_SPI_BUS"], stdout=subprocess.PIPE, check=False).stdout
    except FileNotFoundError:
        sys.exit("xprop is missing there (apt-get install x11-utils)")
    found = re.search(rb'= "(.*)"', told)
    if not found:
        sys.exit("no at-spi-bus-launcher runs there (apt-get install at-spi2-core, and start it before the program)")
    return found.group(1).decode()


class Bus:
    """A client of AT-SPI's bus. Each question is answered within CALL_MS, or raises GLib.Error."""

    def __init__(self, gio: Any, glib: Any) -> None:
        self._gio, self._glib = gio, glib
        flags = gio.DBusConnectionFlags
        kind = flags.AUTHENTICATION_CLIENT | flags.MESSAGE_BUS_CONNECTION
        self._connection = gio.DBusConnection.new_for_address_sync(bus_address(), kind, None, None)

    def ask(self, node: tuple[str, str], interface: str, method: str, form: str = "()", *arguments: object) -> Any:
        """Return the first value that a node answers to a method."""
        given, no_flags = self._glib.Variant(form, arguments), self._gio.DBusCallFlags.NONE
        return self._connection.call_sync(*node, interface, method, given, None, no_flags, CALL_MS, None).unpack()[0]

    def described(self, node: tuple[str, str], states: int) -> dict[str, object]:
        """Return one node as it is printed; its box is left, top, width and height on the screen."""
        return {
            "role": self.ask(node, ACCESSIBLE, "GetRoleName"),
            "name": self.ask(node, "org.freedesktop.DBus.Properties", "Get", "(ss)", ACCESSIBLE, "Name"),
            "focusable": bool(states & FOCUSABLE),
            "box": self.ask(node, "org.a11y.atspi.Component", "GetExtents", "(u)", ON_SCREEN),
        }

    def shown(self) -> Any:
        """Yield the showing nodes of each program, in the order of the tree; nodes that do not answer are left out."""
        pending = [tuple(node) for node in reversed(self.ask(ROOT, ACCESSIBLE, "GetChildren"))]
        programs = set(pending)
        while pending:
            node = pending.pop()
            try:
                states = self.ask(node, ACCESSIBLE, "GetState")[0]
                if node not in programs and states & SHOWING:
                    yield self.described(node, states)
                if node in programs or states & SHOWING:
                    pending += map(tuple, reversed(self.ask(node, ACCESSIBLE, "GetChildren")))
            except self._glib.Error:
                continue


def main() -> None:
    """Print the nodes as JSON, or exit with a message about the missing program or library."""
    try:
        from gi.repository import Gio, GLib  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        sys.exit("the system's Python has no GLib there (apt-get install python3-gi)")
    sys.stdout.write(json.dumps(list(itertools.islice(Bus(Gio, GLib).shown(), MOST))))


if __name__ == "__main__":
    main()
