"""The desk of one `pytest --vnc-ui`, in a separate process: it ends once the session
and its last page have.
"""

from __future__ import annotations

import json
import os
import sys
import threading

from pytest_vnc_use.ui.server import Desk, DeskServer


def main() -> None:
    """Print where the page and the sessions connect to, and serve.

    A session that ends before it connects closes standard input.
    """
    desk = Desk()
    server = DeskServer(desk)
    sys.stdout.write(
        json.dumps([server.url, server.session_url, desk.session_token]) + "\n"
    )
    sys.stdout.close()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    # the reader of the session's output must not wait until the last page is closed
    os.dup2(nowhere, 2)
    os.close(nowhere)
    server.end_when_idle()

    def end_with_starter() -> None:
        sys.stdin.read()
        if not desk.sessions and not desk.pages:
            server.end()

    threading.Thread(target=end_with_starter, daemon=True).start()
    server.run()


main()
