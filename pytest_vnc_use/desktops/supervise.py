"""Runs a program for a process that may die at any moment, and cleans up behind both. Run as a script, never imported:

    python supervise.py FOLDER COMMAND…

COMMAND runs in FOLDER/work in a process group of its own; once it ends, FOLDER/exit_code holds its exit code as a shell
tells it (128 + n where signal n ended it, 127 where it could not be started). When standard input ends, because the
other side closed it or died, even by kill -9, the group is ended and FOLDER removed. Only a kill -9 of this very
script leaves the program behind, and a program that moves to another process group is not followed there.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

GRACE_S = 3.0


def main(folder: Path, command: list[str]) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    try:
        run(folder, command)
    except OSError as error:
        sys.stderr.write(f"cannot start {command[0]!r}: {error.strerror}\n")
        write_exit_code(folder, 127)
        sys.stdin.buffer.read()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run(folder: Path, command: list[str]) -> None:
    program = subprocess.Popen(command, cwd=folder / "work", stdin=subprocess.DEVNULL, preexec_fn=os.setpgrp)
    recorder = threading.Thread(target=record_exit, args=(folder, program), daemon=True)
    recorder.start()
    try:
        sys.stdin.buffer.read()
    finally:
        end(program)
        recorder.join()


def record_exit(folder: Path, program: subprocess.Popen[bytes]) -> None:
    code = program.wait()
    write_exit_code(folder, code if code >= 0 else 128 - code)


def write_exit_code(folder: Path, code: int) -> None:
    unfinished = folder / "exit_code.unfinished"
    unfinished.write_text(str(code))
    unfinished.replace(folder / "exit_code")


def end(program: subprocess.Popen[bytes]) -> None:
    signal_group(program.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        program.wait(GRACE_S)
    signal_group(program.pid, signal.SIGKILL)
    program.wait()


def signal_group(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, number)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
