"""What a program on an X desktop needs to describe its widgets through AT-SPI."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path

from support.vnc_servers import missing, require

LAUNCHER = "/usr/libexec/at-spi-bus-launcher"
_START = (
    f'{LAUNCHER} --launch-immediately & QT_LINUX_ACCESSIBILITY_ALWAYS_ON=1 exec "$@"'
)


def started(*command: str) -> list[str]:
    """Return the command of a program after the launcher of AT-SPI's bus, on a session
    bus of their own.
    """
    return ["dbus-run-session", "--", "sh", "-c", _START, "sh", *command]


def needed() -> None:
    if not Path(LAUNCHER).exists():
        missing("at-spi2-core", "apt-get install at-spi2-core")
    if subprocess.run(
        ["/usr/bin/python3", "-c", "import gi"], stderr=subprocess.DEVNULL
    ).returncode:
        missing("python3-gi", "apt-get install python3-gi")
    if importlib.util.find_spec("PySide6") is None:
        missing("PySide6", "pip install -e '.[demo]'")
    require("dbus-run-session")
    require("xprop")
