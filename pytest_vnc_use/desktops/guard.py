"""Outlives the process that started a desktop, and then turns into cleaning.py. Run as a script, never imported:

    python guard.py FOLDER CLEANING

The ids of the sessions that were started come on standard input, one a line. It ends when the other side closes it, or
dies, even by kill -9; where FOLDER is still there then, nobody has cleaned up. Imports almost nothing: it starts beside
the X server, whose start it would slow down.
"""

from __future__ import annotations

import os
import sys


def main(folder: str, cleaning: str) -> None:
    sessions = sys.stdin.read().split()
    if os.path.exists(folder):
        os.execv(sys.executable, [sys.executable, "-I", "-S", cleaning, folder, *sessions])


if __name__ == "__main__":
    main(*sys.argv[1:])
