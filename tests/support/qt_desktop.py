"""Qt's VNC server as tests start it: in a network of its own where this machine allows
one, else open.
"""

from __future__ import annotations

import sys
from typing import Any

from pytest_vnc_use.desktops import qt

WHY_OPEN = qt.why_not_closable() if sys.platform == "linux" else ""
"""Why no program can have a network of its own on this machine; "" if it can."""


class QtDesktop(qt.QtDesktop):
    """The same for tests that start it themselves. Sessions that they start inherit it
    (conftest.py).
    """

    def __init__(self, *args: Any, may_be_open: bool = True, **options: Any) -> None:
        super().__init__(*args, may_be_open=may_be_open, **options)
