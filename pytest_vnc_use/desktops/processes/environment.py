"""The environment that a desktop, its program and its commands inherit: this process's own without its secrets."""

from __future__ import annotations

import os
from collections.abc import Mapping

_WITHHELD = {
    *("WAYLAND_DISPLAY", "WAYLAND_SOCKET", "VNC_USE_PASSWORD", "VNC_USE_API_KEY"),
    *("GOOGLE_API_KEY", "GEMINI_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "LMSTUDIO_API_KEY"),
}
"""Variables that would lead a program to the tester's own screen, or give it the tests' secrets."""


def withhold(*names: str) -> None:
    """Remove these variables from the environment of every process that is started for a desktop from now on."""
    _WITHHELD.update(names)


def inheritable(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the part of an environment that a desktop may inherit, of this process's own by default."""
    given = os.environ if environment is None else environment
    return {name: value for name, value in given.items() if name not in _WITHHELD}
