"""The process that stands for a forked worker where pytest-xdist starts and ends its workers. Run as a script.

    worker_launcher.py NAME -u -c CODE

It hands its standard streams to the server of that NAME (worker_server.py), which forks the worker, and ends when the
worker has ended. If it is killed, the server kills the worker. If there is no server, it becomes the worker itself, as
without forks. It imports little, so that it starts within milliseconds.
"""

from __future__ import annotations

import os
import signal
import socket
import sys


def main(name: str, *command: str) -> None:
    """Let the server fork a worker that runs the code, and wait for its end."""
    on_ctrl_c = signal.signal(signal.SIGINT, signal.SIG_IGN)  # the worker gets it too, and takes down its tests
    ended, held_by_worker = os.pipe()
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(f"\0{name}")
        socket.send_fds(connection, [command[-1].encode()], [0, 1, 2, held_by_worker])
    except OSError:  # the server has ended
        connection.close()
    os.close(held_by_worker)
    if not os.read(ended, 1):
        signal.signal(signal.SIGINT, on_ctrl_c)
        os.execv(sys.executable, [sys.executable, *command])
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):  # the worker's alone now: who reads from it sees its end
        os.dup2(nothing, stream)
    os.read(ended, 1)


if __name__ == "__main__":
    main(*sys.argv[1:])
