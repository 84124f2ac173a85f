"""The desk of one `pytest --vnc-ui`, in a process of its own: it ends once the session and its last page have."""

from __future__ import annotations

import json
import sys

from pytest_vnc_use.ui.server import Desk, DeskServer


def main() -> None:
    """Print where the page and the sessions connect to, and serve."""
    desk = Desk()
    server = DeskServer(desk)
    sys.stdout.write(json.dumps([server.url, server.session_url, desk.session_token]) + "\n")
    sys.stdout.close()
    server.end_when_idle()
    server.run()


main()
