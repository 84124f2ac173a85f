"""The test sessions that the desk starts: pytest in a separate process, which connects
to the desk.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

VARIABLE = "VNC_DESK_SESSION"
"""Names the file, readable by this user only, from which a session reads where its desk
is: [url, token].
"""
_STOPPED_WITHIN_S = 30.0
"""The time that an interrupted session may take to end its fixtures."""


class PytestRunner:
    """Runs tests of `paths`, one session at a time, in this directory; `options` go to
    pytest as they are.
    """

    def __init__(self, paths: Sequence[str], options: Sequence[str]) -> None:
        self._paths = list(paths)
        self._options = list(options)
        self._directory = TemporaryDirectory(prefix="vnc-use-desk-")  # 0700
        self._process: subprocess.Popen[bytes] | None = None
        self._is_stopped = False
        self._is_collecting = False
        self.on_end: Callable[[], object] = lambda: None
        """Called from a thread when a session has ended."""
        self.session_file = Path(self._directory.name, "session.json")

    def connect(self, url: str, token: str) -> None:
        """Note where sessions connect to."""
        self.session_file.touch(mode=0o600)
        self.session_file.write_text(json.dumps([url, token]), encoding="utf-8")

    @property
    def is_running(self) -> bool:
        """Whether a session runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def problem(self) -> str:
        """The problem of a session that ended on its own, and neither ran nor listed
        all tests; "" if there is none.
        """
        if self._process is None or self._is_stopped:
            return ""
        code = self._process.poll()
        # None: it still runs; 1: a test failed, which its own line shows
        if code in (None, 0, 1):
            return ""
        return f"pytest ended with exit code {code}, and the terminal shows why"

    @property
    def exit_code(self) -> int:
        """The exit code of the session that ended last; 0 if none did."""
        code = self._process.poll() if self._process else 0
        return code or 0

    def run(self, tests: list[str], options: Sequence[str]) -> None:
        """Run these tests, or all for an empty list. Node IDs come from the page, so
        none may be an option.
        """
        wanted = [test for test in tests if not test.startswith("-")]
        self._is_collecting = False
        self._start([*self._options, *options, *(wanted or self._paths)])

    @property
    def can_distribute(self) -> bool:
        """Whether pytest-xdist can run several tests at once."""
        return find_spec("xdist") is not None

    def collect(self) -> None:
        """List the tests, without running one."""
        self._is_collecting = True
        self._start(["--collect-only", "-q", *self._options, *self._paths])

    def stop(self) -> None:
        """Interrupt the session as Ctrl-C does. One that only lists tests has nothing to
        clean up, and ends without a traceback.
        """
        self._is_stopped = True
        if self._process:
            ending = signal.SIGTERM if self._is_collecting else signal.SIGINT
            self._process.send_signal(ending)

    def close(self) -> None:
        """End the session, and forget who may connect. A second Ctrl-C ends the wait for
        its teardown.
        """
        self.on_end = lambda: None
        if self._process:
            try:
                self.stop()
                self._process.wait(_STOPPED_WITHIN_S)
            except (subprocess.TimeoutExpired, KeyboardInterrupt):
                self._process.kill()
        self._directory.cleanup()

    def _start(self, arguments: Sequence[str]) -> None:
        self._is_stopped = False
        environment = {**os.environ, VARIABLE: str(self.session_file)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            # Ctrl-C of the terminal would reach it beside the signal of `stop`
            start_new_session=True,
        )
        threading.Thread(target=self._wait, args=(self._process,), daemon=True).start()

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        process.wait()
        self.on_end()
