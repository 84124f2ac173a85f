"""A network for a program whose VNC server would listen on all interfaces. Standard
library only; Linux.

The supervisor imports this file. In the network, which has loopback only, the server
listens on `PORT`; a relay connects a unix socket to it, which only this user can open.
As a script, it prints whether this machine allows that: the exit code is 0, or 1 with
the reason on standard output. See network_namespaces(7) and user_namespaces(7).
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import struct
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress

PORT = 5900
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 1
_PR_SET_PDEATHSIG = 1
_CHUNK = 1 << 16


def open_network(path: str) -> tuple[int, tuple[int, ...]]:
    """Start the relay of a new network; return its process id, and the descriptors of
    its namespaces for `join`.

    It listens at `path`, a unix socket for this user only. Raises OSError.
    """
    listener = socket.socket(socket.AF_UNIX)
    before = os.umask(0o177)
    try:
        listener.bind(path)
    finally:
        os.umask(before)
    listener.listen()
    answer, answering = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            _relay(listener, answering)
        finally:
            os._exit(1)
    listener.close()
    os.close(answering)
    error = os.read(answer, 20)
    os.close(answer)
    if error != b"0":
        raise OSError(int(error or 0), os.strerror(int(error or 0)))
    return pid, tuple(
        os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY) for kind in ("user", "net")
    )


def join(namespaces: Iterable[int]) -> None:
    """Move this process into the namespaces, except those that it is in. Raises
    OSError.
    """
    for namespace, kind in zip(namespaces, ("user", "net"), strict=True):
        if not os.path.sameopenfile(
            namespace, current := os.open(f"/proc/self/ns/{kind}", os.O_RDONLY)
        ):
            _call("setns", namespace, 0)
        os.close(current)


def enter() -> None:
    """Move this process, and those that it starts from now on, into a network
    namespace. Raises OSError.

    Root needs no user namespace for that, and could do less in one. Other users keep
    their user in theirs, but programs that run as another user, such as sudo, do not
    work in it.
    """
    try:
        _call("unshare", _CLONE_NEWNET)
        _switch_loopback_on()
    except OSError:
        user = os.geteuid()
        group = os.getegid()
        _call("unshare", _CLONE_NEWUSER | _CLONE_NEWNET)
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
        _switch_loopback_on()


def _call(name: str, *arguments: int) -> None:
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def _switch_loopback_on() -> None:
    import fcntl  # Windows has none

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _IFF_UP))


def _relay(listener: socket.socket, answering: int) -> None:
    """Enter a network, write 0 or an error's number, then relay connections until the
    supervisor ends.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    signal.set_wakeup_fd(-1)
    for number in signal.SIGCHLD, signal.SIGTERM:
        signal.signal(number, signal.SIG_DFL)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) not in (listener.fileno(), answering):
            with suppress(OSError):  # that of the directory itself
                os.close(int(name))
    try:
        enter()
        os.write(answering, b"0")
    except OSError as exc:
        os.write(answering, b"%d" % (exc.errno or 1))
        return
    os.close(answering)
    while True:
        client, _ = listener.accept()
        threading.Thread(target=_serve, args=(client,), daemon=True).start()


def _serve(client: socket.socket) -> None:
    try:
        server = socket.create_connection(("127.0.0.1", PORT), timeout=5)
    except OSError:  # it does not listen yet
        client.close()
        return
    server.settimeout(None)
    server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    threading.Thread(target=_copy, args=(server, client), daemon=True).start()
    _copy(client, server)
    for end in (client, server):
        end.close()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):  # one end has closed: then close the other too
        while data := source.recv(_CHUNK):
            target.sendall(data)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


if __name__ == "__main__":
    try:
        enter()
    except (OSError, AttributeError) as exc:
        # AttributeError: a C library without unshare
        print(exc)
        sys.exit(1)
