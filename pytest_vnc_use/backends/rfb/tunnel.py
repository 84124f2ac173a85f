"""A connection through `ssh -W`: the input and output of the system's ssh are the connection.

So no port is opened. ssh ends by itself once its input ends: with the connection, and with this process, however it
dies. ssh uses the user's own configuration: host keys, keys, jump hosts. It never asks a question.
"""

from __future__ import annotations

import math
import os
import shlex
import socket
import subprocess
import sys
import tempfile
import threading
from typing import Any

from pytest_vnc_use.backends.rfb.reactor import reactor
from pytest_vnc_use.errors import DesktopRefused, SettingsError
from pytest_vnc_use.plain_text import line

_GRACE_S = 3.0
"""The time in which ssh may still send the rest, once the connection is closed."""
_SHOWN_CHARACTERS = 500
_OPTIONS = {
    "BatchMode": "yes",
    "ExitOnForwardFailure": "yes",
    "ControlMaster": "no",  # a shared connection of the user would outlive this one
    "ControlPath": "none",
    "PermitLocalCommand": "no",
    "RequestTTY": "no",
    "ServerAliveInterval": "15",
}


class Tunnel:
    """The way to `host` and `port`, as the machine at `destination` (`ssh://user@host:port`) sees them."""

    def __init__(self, destination: str, host: str, port: int, timeout_s: float) -> None:
        """Raise SettingsError on Windows."""
        if sys.platform == "win32":
            raise SettingsError(f"--vnc-tunnel={destination!r} works on Linux and macOS only: use `ssh -L` by hand")
        options = {**_OPTIONS, "ConnectTimeout": str(math.ceil(timeout_s))}
        words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        shown = f"[{host}]" if ":" in host else host
        self._command = ["ssh", *words, "-W", f"{shown}:{port}", "--", destination]
        self._process: subprocess.Popen[bytes] | None = None
        self._reading = threading.Lock()
        self._said = ""

    def connect(self, factory: Any) -> None:
        """Start ssh, and connect the factory's protocol. Raises DesktopRefused. For the reactor's thread."""
        ours, theirs = socket.socketpair()
        self._output = tempfile.TemporaryFile()  # noqa: SIM115  # `_attend` closes it
        with ours, theirs:
            end = theirs.fileno()
            try:
                self._process = subprocess.Popen(
                    self._command, stdin=end, stdout=end, stderr=self._output, start_new_session=True
                )
            except OSError as exc:
                self._output.close()
                raise DesktopRefused(f"`ssh` cannot be started: {exc}; apt-get install openssh-client") from exc
            threading.Thread(target=self._attend, args=(self._process,), name="vnc-tunnel", daemon=True).start()
            ours.setblocking(False)
            reactor.adoptStreamConnection(ours.fileno(), socket.AF_UNIX, factory)

    def end(self) -> None:
        """End ssh after some time to send the rest. For the reactor's thread, after the connection's end."""
        if self._process is not None:
            reactor.callLater(_GRACE_S, self._process.kill)

    @property
    def problem(self) -> str:
        """Return the last error text of ssh; "" if there is none."""
        with self._reading:
            return self._said if self._output.closed else self._read()

    def _attend(self, process: subprocess.Popen[bytes]) -> None:
        process.wait()
        with self._reading:
            self._said = self._read()
            self._output.close()

    def _read(self) -> str:
        descriptor = self._output.fileno()
        size = os.fstat(descriptor).st_size
        said = os.pread(descriptor, _SHOWN_CHARACTERS, max(0, size - _SHOWN_CHARACTERS))
        return line(said.decode("utf-8", "replace").strip())

    def __str__(self) -> str:
        return shlex.join(["ssh", *self._command[-4:]])
