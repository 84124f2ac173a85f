"""A TCP proxy between a client and its server: slow, as netem makes a link without the kernel; it stalls and is cut.

Packets that get lost or overtake each other are not seen by who uses TCP: the kernel sends them again, and in order.
What is seen of it is what is made here, a delay, silence, or an end.
"""

from __future__ import annotations

import math
import queue
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

CHUNK = 4096
ROUTER_BYTES = 1 << 18
UnderWay = queue.Queue[tuple[float, bytes]]


class Link:
    """A proxy to the port `target` of this machine, which may change. One way takes each byte `delay_s`.

    Each way carries at most `bytes_a_second`. `from_server` is how many bytes came from there.
    """

    def __init__(
        self, target: int = 0, port: int = 0, *, delay_s: float = 0.0, bytes_a_second: float = math.inf
    ) -> None:
        self.target, self.delay_s, self.from_server = target, delay_s, 0
        self._bytes_a_second = bytes_a_second
        self._flows = threading.Event()
        self._flows.set()
        self._ends: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port: int = self._listener.getsockname()[1]
        self.address = f"127.0.0.1::{self.port}"
        self._start(self._accept)

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

    def close(self) -> None:
        _close(self._listener)
        self.cut()

    def _start(self, work: object, *arguments: object) -> None:
        threading.Thread(target=work, args=arguments, daemon=True).start()  # type: ignore[arg-type]

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection(("127.0.0.1", self.target))
                except OSError:  # nobody listens there now
                    _close(client)
                    continue
                self._ends |= {client, server}
                for source, sink in ((client, server), (server, client)):
                    source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    under_way: UnderWay = queue.Queue(ROUTER_BYTES // CHUNK)
                    self._start(self._take_in, source, under_way, source is server)
                    self._start(self._hand_out, sink, under_way)

    def _take_in(self, source: socket.socket, under_way: UnderWay, counted: bool) -> None:
        free_s, data = 0.0, b"-"
        while data:
            try:
                data = source.recv(CHUNK)
            except OSError:
                data = b""
            self.from_server += len(data) if counted else 0
            free_s = max(free_s, time.monotonic()) + len(data) / self._bytes_a_second
            under_way.put((free_s + self.delay_s, data))

    def _hand_out(self, sink: socket.socket, under_way: UnderWay) -> None:
        data = b"-"
        while data:
            due_s, data = under_way.get()
            time.sleep(max(0.0, due_s - time.monotonic()))
            self._flows.wait()
            with suppress(OSError):  # the other end is gone; what is under way is dropped
                sink.sendall(data)
        _close(sink)
        self._ends.discard(sink)


def _close(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()


@contextmanager
def slow_link(target: str, *, delay_s: float = 0.01, bits_a_second: float = 20e6) -> Iterator[Link]:
    """Yield a link to the server at an address `127.0.0.1::port`; one way takes `delay_s`, a round trip twice that."""
    link = Link(int(target.rpartition(":")[2]), delay_s=delay_s, bytes_a_second=bits_a_second / 8)
    try:
        yield link
    finally:
        link.close()
