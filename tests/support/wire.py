"""A TCP proxy between a VNC client and its server, which breaks on demand, and a server
for connections.
"""

from __future__ import annotations

import socket
import socketserver
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress

RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Wire:
    """A proxy to an address `127.0.0.1::port`. It breaks on `cut`, or once it has
    carried the bytes `break_at`.

    The first connection leads to the first of the `targets`, and so on; the last target
    stays. `from_client` holds all bytes that went to the server, `from_server` is how
    many came from there. No other server takes its port meanwhile.
    """

    def __init__(self, target: str) -> None:
        self.targets = [target]
        self.from_client = bytearray()
        self.from_server = 0
        self.break_at = b""
        self._ends: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.address = f"127.0.0.1::{self.port}"
        _start(self._accept)

    def cut(self) -> None:
        while self._ends:
            end = self._ends.pop()
            with suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
            _close(end)

    def close(self) -> None:
        _close(self._listener)
        self.cut()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                target = (
                    self.targets.pop(0) if len(self.targets) > 1 else self.targets[0]
                )
                try:
                    server = socket.create_connection(
                        ("127.0.0.1", int(target.rpartition(":")[2]))
                    )
                except OSError:  # no server listens there now
                    _close(client)
                    continue
                self._ends |= {client, server}
                for source, sink in ((client, server), (server, client)):
                    source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    _start(self._carry, source, sink, sink is server)

    def _carry(
        self, source: socket.socket, sink: socket.socket, to_server: bool
    ) -> None:
        data = b"-"
        while data:
            try:
                data = source.recv(4096)
            except OSError:
                data = b""
            # The other end is gone; what is under way is dropped.
            with suppress(OSError):
                sink.sendall(data)
            if to_server:
                self.from_client += data
            else:
                self.from_server += len(data)
            if self.break_at and self.break_at in self.from_client:
                self.break_at = b""
                self.cut()
        _close(sink)
        self._ends.discard(sink)


def _start(work: Callable[..., None], *arguments: object) -> None:
    threading.Thread(target=work, args=arguments, daemon=True).start()


def _close(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()


def wire(target: str) -> closing[Wire]:
    return closing(Wire(target))


@contextmanager
def serving(handler: type[socketserver.BaseRequestHandler]) -> Iterator[str]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"127.0.0.1::{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
