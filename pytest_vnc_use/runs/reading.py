"""Reading of files that anybody may have made: only regular files are opened, and no link is followed."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

_CAREFULLY = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
LARGEST = 100_000_000
"""The most bytes of a picture or a result."""


def read_whole(path: Path, most: int | None = None) -> bytes:
    """Return the content of a regular file of at most `most` bytes. Raises OSError."""
    with _opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        if most is not None and size > most:
            raise OSError(errno.EFBIG, f"it must have at most {most} bytes, it has {size}", str(path))
        return file.read()


def read_end(path: Path, most: int) -> tuple[bytes, int]:
    """Return the last bytes of a regular file, at most `most`, and the size of the file. Raises OSError."""
    with _opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(size - most, 0))
        return file.read(most), size


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    if path.is_symlink() or (path.parent.name in _INNER and path.parent.is_symlink()):
        raise OSError(errno.ELOOP, "it must not be a symbolic link", str(path))
    # a FIFO without a writer does not block here; os.fdopen would leave a folder open
    with open(path, "rb", opener=lambda name, _: os.open(name, _CAREFULLY)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it must be a regular file", str(path))
        yield file


_INNER = frozenset({"logs", "screens"})
"""The folders of a run folder. The run folder itself may be a link: its user named it."""
