"""Qt's VNC server as tests start it: closed in a network of its own where this machine allows one, else open."""

from __future__ import annotations

import sys
from typing import Any

from pytest_vnc_use.desktops.kinds import qt

WHY_OPEN = qt.why_not_closable() if sys.platform == "linux" else ""
"""Why no program can have a network of its own on this machine; "" if it can."""


class QtDesktop(qt.QtDesktop):
    """The same for tests that start it themselves. Sessions that they start inherit `VNC_USE_QT_OPEN`: conftest.py."""

    def __init__(self, *args: Any, is_open: bool = bool(WHY_OPEN), **options: Any) -> None:
        super().__init__(*args, is_open=is_open, **options)
