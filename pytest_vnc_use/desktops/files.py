"""The files of a program under test: text files in its working directory, and none outside it."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from itertools import islice
from pathlib import Path

from pytest_vnc_use.errors import ActionError, DesktopError, FileUnreadable
from pytest_vnc_use.files import read_regular, reason_of

MAX_BYTES = 64 * 2**20
"""The size of the largest file that is read, in bytes."""
_CHANGED_S = 1577880000
"""The time of all files when a program starts: noon of 1 January 2020, UTC."""
TOO_LARGE = "look at it there, with vnc_desktop.run(['grep', …]) or ['tail', '-n', '100', …]"
"""The advice about a file that is larger."""
_MAX_LISTED = 1000
"""The most files in a list of the directory's files."""
_FILE_ERRORS = frozenset(
    (errno.ELOOP, errno.EISDIR, errno.ENOTDIR, errno.ENXIO, errno.EINVAL, errno.EFBIG)  # of the file, not the desktop
)


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


def outside(name: str) -> DesktopError:
    """Return the error for a name that leads out of the working directory."""
    return DesktopError(
        f"a file must lie in the program's working directory, got {name!r}; give a name relative to that directory, "
        "without '..'"
    )


class WorkingDirectory:
    """Text files (UTF-8) below `path`, named relative to it."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()

    def read(self, name: str) -> str:
        """Return the text of a file.

        Raises FileNotFoundError if it is missing: the desktop is not at fault if a program did not write it. Raises
        FileUnreadable if it is not UTF-8 text, not a regular file, or too large. Raises DesktopError if it lies outside
        the directory, or cannot be read for another reason.
        """
        try:
            return read_regular(self._inside(name), MAX_BYTES).decode().replace("\r\n", "\n").replace("\r", "\n")
        except FileNotFoundError:
            files = (path for path in islice(self.path.rglob("*"), _MAX_LISTED) if path.is_file())
            names = sorted(path.relative_to(self.path).as_posix() for path in files)
            listed = ", ".join(map(repr, names[:20])) or "no files"
            raise FileNotFoundError(f"the program's working directory has no file {name!r}; it has {listed}") from None
        except (OSError, UnicodeDecodeError) as exc:
            number, reason = (exc.errno, reason_of(exc)) if isinstance(exc, OSError) else (errno.EINVAL, str(exc))
            advice = f"; {TOO_LARGE}" if number == errno.EFBIG else ""
            kind = FileUnreadable if number in _FILE_ERRORS else DesktopError
            raise kind(f"cannot read {name!r} in the program's working directory: {reason}{advice}") from exc

    def write(self, name: str, text: str) -> None:
        """Write a file, and make the directories on its way.

        Raises DesktopError if that fails or is outside the directory, ActionError for half of a surrogate pair.
        """
        content = encoded(name, text)
        try:
            path = self._inside(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists() and not path.is_file():  # a pipe would wait for its reader
                raise OSError(errno.EINVAL, "it must be a regular file", name)
            path.touch(mode=0o600)
            path.write_bytes(content)
        except OSError as exc:
            raise DesktopError(f"cannot write {name!r} in the program's working directory: {reason_of(exc)}") from exc

    def set_times(self) -> None:
        """Give all files the same time, which file dialogs show. Links are not followed."""
        for directory, names, files in os.walk(self.path):
            for name in (*names, *files, "."):
                with suppress(OSError):  # it has gone meanwhile, or is another user's
                    os.utime(os.path.join(directory, name), (_CHANGED_S, _CHANGED_S), follow_symlinks=False)  # noqa: PTH118

    def _inside(self, name: str) -> Path:
        """Return the path of a file. Raises DesktopError for a name that leads out, OSError for a link that does."""
        try:
            path = (self.path / name).resolve()
        except RuntimeError as exc:  # links in a circle, as Python 3.12 and older report them
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name) from exc
        if path.is_relative_to(self.path):
            return path
        if not Path(os.path.normpath(self.path / name)).is_relative_to(self.path):
            raise outside(name)
        raise OSError(errno.ELOOP, f"a link leads out of that directory, to {str(path)!r}")
