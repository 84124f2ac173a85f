"""The recipe of the docs for a VNC server, recognised by what the server says about itself."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_vnc_use.cli.finding import Finding

if TYPE_CHECKING:
    from pytest_vnc_use.backends.security import ServerFacts

RECIPES = "https://github.com/pytest-vnc-use/pytest-vnc-use/blob/main/docs/servers.md"
_X11VNC_NAME = re.compile(r"[\w.-]+:\d+")
"""The name that x11vnc gives a desktop: host and display."""
_APPLE_VERSION = "3.889"


def recipe_of(address: str, facts: ServerFacts) -> Finding:
    """Return the finding that names the recipe, or says that no server was recognised."""
    name, reason = _recognise(facts)
    if address.startswith(("ws://", "wss://")):
        behind = f"; behind it {name} ({reason})" if name else "; the server behind it is not recognised"
        return Finding("ok", "recipe", f"a WebSocket (its address){behind}: {RECIPES}#websocket")
    if name:
        anchor = name.lower()
        return Finding("ok", "recipe", f"{name} ({reason}): {RECIPES}#{anchor}")
    return Finding("--", "recipe", f"not recognised by what it says about itself; all recipes: {RECIPES}#recipes")


def _recognise(facts: ServerFacts) -> tuple[str, str]:
    """Return the recipe's heading and the reason; both are "" for an unknown server."""
    if facts.version == _APPLE_VERSION:
        return "macOS", f"RFB {_APPLE_VERSION}"
    if facts.name.startswith("QEMU"):
        return "QEMU", "its desktop's name"
    if facts.name == "Qt for Embedded Linux VNC Server":
        return "Qt", "its desktop's name"
    if facts.name == "WayVNC":
        return "wayvnc", "its desktop's name"
    if "Tight" in facts.security_types:
        return "TightVNC", "its security type Tight"
    if facts.extended_clipboard:
        return "TigerVNC", "its extended clipboard"
    if _X11VNC_NAME.fullmatch(facts.name):
        return "x11vnc", "probably: its desktop is named as a host and a display"
    return "", ""
