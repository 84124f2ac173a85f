"""Broken links between a VNC client and its server: a wire that breaks on demand, and a server that forgets."""

from __future__ import annotations

import select
import socket
import socketserver
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Wire:
    """A TCP proxy in a thread of its own. `from_client` holds all bytes that went to the server, over all connections.

    It resets its connections on `cut`, or once it has carried the bytes `break_at`. The first connection leads to the
    first of the `targets`, and so on; the last target stays. No other server takes its port, as may soon happen to the
    port of a server that was killed.
    """

    def __init__(self, target: str) -> None:
        self.targets = [target]
        self.from_client = bytearray()
        self.break_at = b""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1::{self._listener.getsockname()[1]}"
        self._peers: dict[socket.socket, socket.socket] = {}
        self._clients: list[socket.socket] = []
        self._mouth, self._ear = socket.socketpair()
        self._thread = threading.Thread(target=self._carry)
        self._thread.start()

    def cut(self) -> None:
        """Reset the connections; returns when it is done."""
        self._mouth.send(b"c")
        self._mouth.recv(1)

    def close(self) -> None:
        """Be gone; a second call does nothing."""
        self._mouth.close()
        self._thread.join()

    def _carry(self) -> None:
        with self._listener, self._ear:
            while self._turn():
                pass
            self._reset()

    def _turn(self) -> bool:
        ready, _, _ = select.select([self._ear, self._listener, *self._peers], [], [])
        if self._ear in ready:
            if not self._ear.recv(1):
                return False
            self._reset()
            self._ear.send(b"c")
        elif self._listener in ready:
            self._accept()
        else:
            self._pass_on(ready[0])
        return True

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        target = self.targets.pop(0) if len(self.targets) > 1 else self.targets[0]
        try:
            server = socket.create_connection(("127.0.0.1", int(target.rpartition(":")[2])))
        except ConnectionRefusedError:
            client.close()
            return
        self._peers |= {client: server, server: client}
        self._clients.append(client)

    def _pass_on(self, source: socket.socket) -> None:
        data = b""
        with suppress(OSError):
            data = source.recv(1 << 16)
            self._peers[source].sendall(data)
        if source in self._clients:
            self.from_client += data
        if not data or (self.break_at and self.break_at in self.from_client):
            self.break_at = b""
            self._reset()

    def _reset(self) -> None:
        for end in self._peers:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
            end.close()
        self._peers.clear()
        self._clients.clear()


@contextmanager
def wire(target: str) -> Iterator[Wire]:
    """Yield a wire to the server at an address `127.0.0.1::port`."""
    between = Wire(target)
    try:
        yield between
    finally:
        between.close()


class Forgetful(socketserver.StreamRequestHandler):
    """An RFB server (RFC 6143) whose screen changes on a button press, and that shows it only in a full update.

    The upper half of the screen is white, the lower black; the last row becomes white with the first press.
    """

    WIDTH, HEIGHT = 64, 64
    LENGTHS = {0: 19, 4: 7, 5: 5}  # noqa: RUF012  # of messages that hold no length, after their first byte

    def handle(self) -> None:
        self.pressed = False
        self._greet()
        while kind := self.rfile.read(1):
            self._answer(kind[0])

    def _greet(self) -> None:
        self.wfile.write(b"RFB 003.008\n")
        self.rfile.read(12)
        self.wfile.write(b"\x01\x01")
        self.rfile.read(1)
        self.wfile.write(bytes(4))
        self.rfile.read(1)
        bgrx = struct.pack(">BBBBHHHBBBxxx", 32, 24, 0, 1, 255, 255, 255, 16, 8, 0)
        self.wfile.write(struct.pack(">HH16sI", self.WIDTH, self.HEIGHT, bgrx, 9) + b"forgetful")

    def _answer(self, kind: int) -> None:
        match kind:
            case 2:
                _, count = struct.unpack(">BH", self.rfile.read(3))
                self.rfile.read(4 * count)
            case 3:
                incremental, *area = struct.unpack(">BHHHH", self.rfile.read(9))
                if not incremental:
                    self._send(*area)
            case 5:
                self.pressed |= self.rfile.read(5)[0] != 0
            case _:
                self.rfile.read(self.LENGTHS[kind])

    def _send(self, x: int, y: int, width: int, height: int) -> None:
        rows = (b"\xff" if self._is_white(y + row) else b"\0" for row in range(height))
        pixels = b"".join(row * 4 * width for row in rows)
        self.wfile.write(struct.pack(">BxHHHHHi", 0, 1, x, y, width, height, 0) + pixels)

    def _is_white(self, row: int) -> bool:
        return row < self.HEIGHT // 2 or (self.pressed and row == self.HEIGHT - 1)


@contextmanager
def forgetful_server() -> Iterator[str]:
    """Yield the address of a Forgetful."""
    with serving(Forgetful) as address:
        yield address


@contextmanager
def serving(handler: type[socketserver.BaseRequestHandler]) -> Iterator[str]:
    """Yield the address at which every connection is handled so."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"127.0.0.1::{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
