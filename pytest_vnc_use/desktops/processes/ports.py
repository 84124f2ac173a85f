"""The TCP ports on which the processes of one session listen, and the check for a VNC server there. Linux only.

A server chooses its port itself, and the port is found afterwards. So there is no race, and the answer surely comes
from this program, not from a quicker one. Format of the files: proc(5), proc_pid_stat(5).
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")
_LISTEN = "0A"


def vnc_port(session: int, *, timeout_s: float) -> int | None:
    """Return the first port of the session where an RFB server greets within `timeout_s`; None if there is none yet."""
    return next((port for port in listening_ports(session) if greets_with_rfb(port, timeout_s)), None)


def listening_ports(session: int) -> list[int]:
    """Return the ports, in order, on which a process of the session listens."""
    inodes = {inode for pid in _processes(session) for inode in _socket_inodes(pid)}
    if not inodes:  # the program is still loading; do not read the long tables of a busy machine
        return []
    return sorted({port for port, inode in _listening_sockets() if inode in inodes})


def _processes(session: int) -> Iterator[int]:
    for name in (each.name for each in _PROC.iterdir()):
        if name.isdigit() and _session_of(name) == session:
            yield int(name)


def _session_of(process: str) -> int | None:
    with suppress(OSError), (_PROC / process / "stat").open("rb", buffering=0) as stat:
        return int(stat.read().rpartition(b")")[2].split()[3])
    return None


def _socket_inodes(pid: int) -> Iterator[str]:
    try:
        descriptors = list((_PROC / str(pid) / "fd").iterdir())
    except OSError:
        return
    for descriptor in descriptors:
        try:
            target = str(descriptor.readlink())
        except OSError:
            continue
        if target.startswith("socket:["):
            yield target[len("socket:[") : -1]


def _listening_sockets() -> Iterator[tuple[int, str]]:
    for table in ("tcp", "tcp6"):
        path = _PROC / "net" / table
        for line in path.read_text().splitlines()[1:] if path.exists() else ():
            fields = line.split()
            if fields[3] == _LISTEN:
                yield int(fields[1].rpartition(":")[2], 16), fields[9]


def greets_with_rfb(port: int, timeout_s: float) -> bool:
    """Return whether a VNC server answers on loopback within `timeout_s`."""
    return greets_at(f"127.0.0.1::{port}", timeout_s)


def greets_at(address: str, timeout_s: float) -> bool:
    """Return whether a VNC server answers at `host::port`, or at the path of a unix socket, within `timeout_s`."""
    host, _, port = address.partition("::")
    try:
        with socket.socket(socket.AF_INET if port else socket.AF_UNIX) as connection:
            connection.settimeout(timeout_s)
            connection.connect((host, int(port)) if port else address)
            return connection.recv(4) == b"RFB "
    except OSError:
        return False
