"""A TCP proxy between a VNC client and its server: it is slow, or breaks on demand.

Packets that get lost or overtake each other are not seen by a user of TCP: the kernel sends them again, and in order.
"""

from __future__ import annotations

import math
import queue
import socket
import socketserver
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

CHUNK = 4096
ROUTER_BYTES = 1 << 18
RESET_ON_CLOSE = struct.pack("ii", 1, 0)
UnderWay = queue.Queue[tuple[float, bytes]]


class Wire:
    """A proxy to an address `127.0.0.1::port`. Each byte takes `delay_s`, and each way has at most `bytes_a_second`.

    The first connection leads to the first of the `targets`, and so on; the last target stays. `from_client` holds all
    bytes that went to the server, `from_server` is how many came from there. It breaks on `cut`, or once it has carried
    the bytes `break_at`. No other server takes its port, as may soon happen to the port of a server that was killed.
    """

    def __init__(self, target: str, port: int = 0, *, delay_s: float = 0.0, bytes_a_second: float = math.inf) -> None:
        self.targets, self.delay_s, self._bytes_a_second = [target], delay_s, bytes_a_second
        self.from_client, self.from_server, self.break_at = bytearray(), 0, b""
        self._ends: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", port))
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
                target = self.targets.pop(0) if len(self.targets) > 1 else self.targets[0]
                try:
                    server = socket.create_connection(("127.0.0.1", int(target.rpartition(":")[2])))
                except OSError:  # no server listens there now
                    _close(client)
                    continue
                self._ends |= {client, server}
                for source, sink in ((client, server), (server, client)):
                    source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    under_way: UnderWay = queue.Queue(ROUTER_BYTES // CHUNK)
                    _start(self._take_in, source, under_way)
                    _start(self._hand_out, sink, under_way, sink is server)

    def _take_in(self, source: socket.socket, under_way: UnderWay) -> None:
        free_s, data = 0.0, b"-"
        while data:
            try:
                data = source.recv(CHUNK)
            except OSError:
                data = b""
            free_s = max(free_s, time.monotonic()) + len(data) / self._bytes_a_second
            under_way.put((free_s + self.delay_s, data))

    def _hand_out(self, sink: socket.socket, under_way: UnderWay, to_server: bool) -> None:
        data = b"-"
        while data:
            due_s, data = under_way.get()
            time.sleep(max(0.0, due_s - time.monotonic()))
            with suppress(OSError):  # The other end is gone; what is under way is dropped.
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


@contextmanager
def wire(target: str, *, delay_s: float = 0.0, bits_a_second: float = math.inf) -> Iterator[Wire]:
    between = Wire(target, delay_s=delay_s, bytes_a_second=bits_a_second / 8)
    try:
        yield between
    finally:
        between.close()


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
