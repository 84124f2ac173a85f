"""Files that a user names: only a regular file is read, and no more of it than fits; a FIFO or a device cannot hang."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

LARGEST_TEXT = 16_000_000
"""No policy, table of prices, file of tasks or recording is larger."""
_AT_ONCE = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def read_regular(path: Path | str, most: int = LARGEST_TEXT) -> bytes:
    """Return the content of a regular file of at most `most` bytes; links are followed.

    Raises OSError, also where no file can have that name.
    """
    try:
        descriptor = os.open(path, _AT_ONCE)  # a FIFO without a writer does not block here
    except ValueError as exc:
        raise OSError(errno.EINVAL, f"no file has that name ({exc})", str(path)) from exc
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it must be a regular file", str(path))
        if status.st_size > most:
            raise OSError(errno.EFBIG, f"it must have at most {most} bytes, it has {status.st_size}", str(path))
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(most)
    finally:
        os.close(descriptor)
