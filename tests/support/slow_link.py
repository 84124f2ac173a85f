"""A link with a delay and a bandwidth between a VNC client and its server, as netem makes it, without the kernel."""

from __future__ import annotations

import queue
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

CHUNK = 4096
ROUTER_BYTES = 1 << 18


class SlowLink:
    """A TCP proxy that delays every byte by `delay_s` and carries, each way, at most `bytes_a_second`."""

    def __init__(self, target: str, delay_s: float, bytes_a_second: float) -> None:
        self.from_server = 0
        self._port = int(target.rpartition(":")[2])
        self._delay_s = delay_s
        self._bytes_a_second = bytes_a_second
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1::{self._listener.getsockname()[1]}"
        self._sockets = [self._listener]
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def close(self) -> None:
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:
            thread.join()

    def _start(self, work: object, *arguments: object) -> None:
        self._threads.append(threading.Thread(target=work, args=arguments, daemon=True))  # type: ignore[arg-type]
        self._threads[-1].start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._port))
                for end in (client, server):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._sockets += [client, server]
                self._carry(client, server)
                self._carry(server, client)

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        under_way: queue.Queue[tuple[float, bytes]] = queue.Queue(ROUTER_BYTES // CHUNK)
        self._start(self._take_in, source, under_way, source is self._sockets[-1])
        self._start(self._hand_out, sink, under_way)

    def _take_in(self, source: socket.socket, under_way: queue.Queue[tuple[float, bytes]], counted: bool) -> None:
        free_s = 0.0
        data = b"-"
        while data:
            try:
                data = source.recv(CHUNK)
            except OSError:
                data = b""
            self.from_server += len(data) if counted else 0
            free_s = max(free_s, time.monotonic()) + len(data) / self._bytes_a_second
            under_way.put((free_s + self._delay_s, data))

    def _hand_out(self, sink: socket.socket, under_way: queue.Queue[tuple[float, bytes]]) -> None:
        while True:
            due_s, data = under_way.get()
            time.sleep(max(0.0, due_s - time.monotonic()))
            with suppress(OSError):  # the other end is gone; what is under way is dropped
                sink.sendall(data)
            if not data:
                with suppress(OSError):
                    sink.shutdown(socket.SHUT_WR)
                return


@contextmanager
def slow_link(target: str, *, delay_s: float = 0.01, bits_a_second: float = 20e6) -> Iterator[SlowLink]:
    """Yield a link to the server at an address `127.0.0.1::port`; one way takes `delay_s`, a round trip twice that."""
    link = SlowLink(target, delay_s, bits_a_second / 8)
    try:
        yield link
    finally:
        link.close()
