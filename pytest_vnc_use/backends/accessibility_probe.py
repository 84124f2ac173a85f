"""A script that prints the elements of the programs on this X display, from AT-SPI, as
JSON. It runs on the desktop.

Without arguments it prints all elements; with `focus` the one that has the focus; with
numbers the ones at these points (x y x y …). null stands for none. It may import only
the system's Python and its GLib, nothing of this package. Source of the interfaces, and
of the numbers of states and relations: `xml/` and `atspi/atspi-constants.h` of
https://gitlab.gnome.org/GNOME/at-spi2-core.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from contextlib import suppress
from typing import Any

ACCESSIBLE = "org.a11y.atspi.Accessible"
COMPONENT = "org.a11y.atspi.Component"
PROPERTIES = "org.freedesktop.DBus.Properties"
ROOT = ("org.a11y.atspi.Registry", "/org/a11y/atspi/accessible/root")
ACTIVE = 1 << 1
FOCUSABLE = 1 << 11
FOCUSED = 1 << 12
SHOWING = 1 << 25
LABELLED_BY = 2
ON_SCREEN = 0
WINDOWS = frozenset(
    {
        "application",
        "frame",
        "window",
        "dialog",
        "alert",
        "file chooser",
        "color chooser",
    }
)
OPEN_ELSEWHERE = frozenset(
    {"menu bar", "menu", "combo box", "page tab list", "list box", "filler"}
)
"""Roles of nodes that may draw outside their box, such as a menu."""
FIELDS = frozenset(
    {
        "text",
        "entry",
        "password text",
        "terminal",
        "spin button",
        "document text",
        "paragraph",
    }
)
"""Roles of fields, whose content is never read."""
NAMED_BY_VALUE = frozenset({"combo box"})
"""Roles whose name some programs, such as those of GTK 3, set to the chosen value."""
MAX_NODES = 2000
CALL_MS = 1000


def bus_address() -> str:
    """Return the address of AT-SPI's bus, which its launcher stores on the display's
    root window.
    """
    try:
        xprop = subprocess.run(
            ["xprop", "-root", "-notype", "AT_SPI_BUS"],
            stdout=subprocess.PIPE,
            check=False,
        )
    except FileNotFoundError:
        sys.exit("xprop is missing (apt-get install x11-utils)")
    match = re.search(rb'= "(.*)"', xprop.stdout)
    if not match:
        sys.exit(
            "at-spi-bus-launcher is not running (apt-get install at-spi2-core, and"
            " start it before the program)"
        )
    return match.group(1).decode()


class Bus:
    """A client of AT-SPI's bus. Each call returns within CALL_MS, or raises
    GLib.Error.
    """

    def __init__(self, gio: Any, glib: Any) -> None:
        self._gio = gio
        self._glib = glib
        flags = gio.DBusConnectionFlags
        kind = flags.AUTHENTICATION_CLIENT | flags.MESSAGE_BUS_CONNECTION
        self._connection = gio.DBusConnection.new_for_address_sync(
            bus_address(), kind, None, None
        )

    def ask(
        self,
        node: tuple[str, str],
        interface: str,
        method: str,
        signature: str = "()",
        *arguments: object,
    ) -> Any:
        """Return the first value of a method's result."""
        values = self._glib.Variant(signature, arguments)
        no_flags = self._gio.DBusCallFlags.NONE
        return self._connection.call_sync(
            *node, interface, method, values, None, no_flags, CALL_MS, None
        ).unpack()[0]

    def describe(self, node: tuple[str, str], states: int) -> dict[str, object]:
        """Return one node as printed; its box is left, top, width and height on the
        screen.
        """
        return {
            "role": self.ask(node, ACCESSIBLE, "GetRoleName"),
            "name": self.ask(node, PROPERTIES, "Get", "(ss)", ACCESSIBLE, "Name"),
            "focusable": bool(states & FOCUSABLE),
            "box": self.ask(node, COMPONENT, "GetExtents", "(u)", ON_SCREEN),
        }

    def at(self, x: int, y: int) -> dict[str, object] | None:
        """Return the node at a point: one of the active window if possible, a control
        rather than a node that only has a name.
        """

        def may_hold(node: tuple[str, str], role: str) -> bool:
            return role in WINDOWS or role in OPEN_ELSEWHERE or self._holds(node, x, y)

        matches = [
            {**self.describe(node, states), "active": active, "node": node}
            for node, states, active in self._walk(may_hold)
            if self._holds(node, x, y)
        ]
        matches = [item for item in matches if item["role"] not in WINDOWS]
        inside = [item for item in matches if item["active"]] or matches
        inside.sort(key=lambda item: item["box"][2] * item["box"][3])
        focusable = [item for item in inside if item["focusable"]]
        fields = [item for item in focusable if item["role"] in FIELDS]
        controls = [item for item in focusable if item["name"]]
        named = [item for item in inside if item["name"]]
        for item in [*fields, *controls, *named]:
            return self._with_label(item)
        return None

    def focus(self) -> dict[str, object] | None:
        """Return the node that has the focus."""
        for node, states, _ in self._walk(lambda node, role: True):
            if not states & FOCUSED:
                continue
            if self.ask(node, ACCESSIBLE, "GetRoleName") not in WINDOWS:
                return self._with_label({**self.describe(node, states), "node": node})
        return None

    def _holds(self, node: tuple[str, str], x: int, y: int) -> bool:
        left, top, width, height = self.ask(
            node, COMPONENT, "GetExtents", "(u)", ON_SCREEN
        )
        return bool(left <= x < left + width and top <= y < top + height)

    def all(self) -> list[dict[str, object]]:
        """Return the showing nodes of each program, in the order of the tree; nodes
        that do not answer are left out.
        """
        described = []
        for node, states, _ in self._walk(lambda node, role: True):
            try:
                described.append(self.describe(node, states))
            except self._glib.Error:
                continue
        return described

    def _walk(self, enters: Any) -> Any:
        """Yield each showing node with its states, and whether its window is active.

        `enters` says whether a node, with its children, is of interest.
        """
        pending = [
            (tuple(node), False)
            for node in reversed(self.ask(ROOT, ACCESSIBLE, "GetChildren"))
        ]
        programs = {node for node, _ in pending}
        for _ in range(MAX_NODES):
            if not pending:
                return
            node, active = pending.pop()
            try:
                states = self.ask(node, ACCESSIBLE, "GetState")[0]
                active = active or bool(states & ACTIVE)
                if node not in programs:
                    role = self.ask(node, ACCESSIBLE, "GetRoleName")
                    if not states & SHOWING or not enters(node, role):
                        continue
                    yield node, states, active
                    if role in FIELDS:
                        continue
                children = self.ask(node, ACCESSIBLE, "GetChildren")
                pending += [(tuple(child), active) for child in reversed(children)]
            except self._glib.Error:
                continue

    def _with_label(self, node: dict[str, Any]) -> dict[str, object]:
        """Return a node; if it has no name, with the name of its label."""
        name = "" if node["role"] in NAMED_BY_VALUE else node["name"]
        if not name:
            with suppress(self._glib.Error):
                name = self._label_of(node["node"])
        return {key: node[key] for key in ("role", "focusable", "box")} | {"name": name}

    def _label_of(self, node: tuple[str, str]) -> Any:
        for kind, labels in self.ask(node, ACCESSIBLE, "GetRelationSet"):
            if kind == LABELLED_BY and labels:
                label = tuple(labels[0])
                return self.ask(label, PROPERTIES, "Get", "(ss)", ACCESSIBLE, "Name")
        return ""


def main() -> None:
    """Print the nodes as JSON, or exit with a message about the missing program or
    library.
    """
    try:
        from gi.repository import Gio, GLib  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        sys.exit("the system's Python has no GLib (apt-get install python3-gi)")
    bus = Bus(Gio, GLib)
    arguments = sys.argv[1:]
    if not arguments:
        nodes: list[dict[str, object] | None] = [*bus.all()]
    elif arguments == ["focus"]:
        nodes = [bus.focus()]
    else:
        nodes = [
            bus.at(int(arguments[index]), int(arguments[index + 1]))
            for index in range(0, len(arguments), 2)
        ]
    sys.stdout.write(json.dumps(nodes))


if __name__ == "__main__":
    main()
