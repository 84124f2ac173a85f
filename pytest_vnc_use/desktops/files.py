"""The files of a program under test: text files in its working directory, and none outside it."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from itertools import islice
from pathlib import Path

from pytest_vnc_use.errors import ActionError, DesktopError, FileUnreadable

MAX_BYTES = 64 * 2**20
"""The size of the largest file that is read, in bytes."""
_CHANGED_S = 1577880000
"""The time of all files when a program starts: noon of 1 January 2020, UTC."""
_MAX_LISTED = 1000
"""The most files in a list of the folder's files."""
_FLAGS = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
"""Flags for opening a file: do not wait for a pipe, and do not follow a new link out of the folder."""


_FILE_ERRORS = frozenset({errno.ELOOP, errno.EISDIR, errno.ENOTDIR, errno.ENXIO})
"""Errors for links in a circle, and for a folder, a file or a socket in place of something else."""


def too_large(size: int) -> str:
    """Return the message for a file that is too large to be read."""
    advice = "look at it there, with vnc_desktop.run(['grep', …]) or ['tail', '-n', '100', …]"
    return f"it must have at most {MAX_BYTES:,} bytes, it has {size:,}; {advice}"


def encoded(name: str, text: str) -> bytes:
    """Return the text of a file as UTF-8. Raises ActionError for half of a surrogate pair."""
    try:
        return text.encode()
    except UnicodeEncodeError as exc:
        half = text[exc.start]
        raise ActionError(
            f"cannot write {name!r}: half of a surrogate pair is no text, got {half!r} (U+{ord(half):04X}) as "
            f"character {exc.start + 1}. Nothing was written"
        ) from None


class NotText(OSError):
    """The error that something under that name is not a text file."""


class WorkingDirectory:
    """Text files (UTF-8) below `path`, named relative to it."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()

    def read(self, name: str) -> str:
        """Return the text of a file.

        Raises FileNotFoundError if it is missing: the desktop is not at fault if a program did not write it. Raises
        FileUnreadable if it is not UTF-8 text, not a regular file, or too large. Raises DesktopError if it lies outside
        the folder, or cannot be read for another reason.
        """
        try:
            return self._content(self._inside(name)).decode().replace("\r\n", "\n").replace("\r", "\n")
        except FileNotFoundError:
            found = f"the program's working folder has no file {name!r}; it has {self._listing()}"
            raise FileNotFoundError(found) from None
        except (OSError, UnicodeDecodeError) as exc:
            kind = FileUnreadable if _is_about_file(exc) else DesktopError
            raise kind(f"cannot read {name!r} in the program's working folder: {exc}") from exc

    def write(self, name: str, text: str) -> None:
        """Write a file, and make the folders on its way.

        Raises DesktopError if that fails or is outside the folder, ActionError for half of a surrogate pair.
        """
        content = encoded(name, text)
        try:
            path = self._inside(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(_open_to_write(path), "wb") as file:
                file.write(content)
        except OSError as exc:
            raise DesktopError(f"cannot write {name!r} in the program's working folder: {exc}") from exc

    def set_times(self) -> None:
        """Give all files the same time, which file dialogs show. Links are not followed."""
        for directory, names, files in os.walk(self.path):
            for name in (*names, *files, "."):
                with suppress(OSError):  # it has gone meanwhile, or is another user's
                    os.utime(os.path.join(directory, name), (_CHANGED_S, _CHANGED_S), follow_symlinks=False)  # noqa: PTH118

    def _content(self, path: Path) -> bytes:
        """Return all of a file, as it was when it was opened. Raises OSError."""
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | _FLAGS)) as file:
            size = _check_regular(file.fileno())
            content = file.read(MAX_BYTES + 1) if size <= MAX_BYTES else b""
        if (size := max(size, len(content))) > MAX_BYTES:
            raise NotText(too_large(size))
        return content

    def _inside(self, name: str) -> Path:
        """Return the path of a file.

        Raises DesktopError for a name that leads out of the folder, OSError for a link that does, and for links in a
        circle.
        """
        try:
            path = (self.path / name).resolve()
        except RuntimeError as exc:  # Python 3.12 and older say it so
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name) from exc
        if path.is_relative_to(self.path):
            return path
        if not Path(os.path.normpath(self.path / name)).is_relative_to(self.path):
            raise DesktopError(
                f"a file must lie in the program's working folder, got {name!r}; "
                "give a name relative to that folder, without '..'"
            )
        raise NotText(f"a link leads out of that folder, to {str(path)!r}")

    def _listing(self) -> str:
        found = islice(self.path.rglob("*"), _MAX_LISTED)
        names = sorted(p.relative_to(self.path).as_posix() for p in found if p.is_file())
        return ", ".join(map(repr, names[:20])) or "no files"


def _is_about_file(error: Exception) -> bool:
    """Return whether the error is about the program's file, not about the desktop."""
    if isinstance(error, OSError):
        return isinstance(error, NotText) or error.errno in _FILE_ERRORS
    return True


def _open_to_write(path: Path) -> int:
    """Return the descriptor of an emptied regular file, to write and to read.

    Raises OSError if something else is there.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | _FLAGS, 0o600)
    try:
        _check_regular(descriptor)
        os.truncate(descriptor, 0)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _check_regular(descriptor: int) -> int:
    """Return the size of a regular file. Raises OSError for anything else: a pipe's output may never end."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise NotText("it must be a regular file, it is a directory, a pipe or a device")
    return status.st_size
