"""A TCP proxy that delays, stalls and cuts what it carries, in both directions.

Packets that get lost or overtake each other are not seen by who uses TCP: the kernel sends them again, and in order.
What is seen of it is what is made here, a delay, silence, or an end.
"""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress

_CHUNK = 1 << 16


class Link:
    """A proxy on a port of this machine to the port `target`, which may change."""

    def __init__(self, port: int = 0, target: int = 0) -> None:
        self.target = target
        self.delay_s = 0.0
        self._flows = threading.Event()
        self._flows.set()
        self._ends: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def stall(self) -> None:
        """Carry nothing until `flow`."""
        self._flows.clear()

    def flow(self) -> None:
        """Carry everything at once again."""
        self.delay_s = 0.0
        self._flows.set()

    def cut(self) -> None:
        """Close all connections; new ones are taken."""
        for end in [*self._ends]:
            _close(end)

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            try:
                server = socket.create_connection(("127.0.0.1", self.target))
            except OSError:  # nobody listens there now
                _close(client)
                continue
            self._ends |= {client, server}
            for pair in ((client, server), (server, client)):
                threading.Thread(target=self._carry, args=pair, daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(_CHUNK):
                self._flows.wait()
                time.sleep(self.delay_s)
                sink.sendall(data)
        for end in (source, sink):
            _close(end)
            self._ends.discard(end)


def _close(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
