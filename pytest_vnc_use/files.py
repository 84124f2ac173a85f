"""Files that are written as a whole or not at all, and files that a user names.

No reader ever reads half of a written file. Only a regular file is read, and no more of
it than fits: a FIFO or a device cannot hang.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shlex
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

MAX_TEXT_BYTES = 16_000_000
"""No policy, table of prices, file of tasks or recording is larger."""
_LFS_POINTER = b"version https://git-lfs"
_CONFLICT = re.compile(rb"^(<{7}|>{7})( |$)", re.MULTILINE)
_HEAD_BYTES = 20
_OPEN_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def read_regular(path: Path | str, max_bytes: int = MAX_TEXT_BYTES) -> bytes:
    """Return the content of a regular file of at most `max_bytes` bytes; links are
    followed.

    Raises OSError, also if no file can have that name.
    """
    try:
        # a FIFO without a writer does not block here
        descriptor = os.open(path, _OPEN_FLAGS)
    except ValueError as exc:
        raise OSError(
            errno.EINVAL, f"no file has that name ({exc})", str(path)
        ) from exc
    try:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(
                errno.EISDIR, "it is a directory, not a file", str(path)
            )
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it must be a regular file", str(path))
        if status.st_size > max_bytes:
            raise OSError(
                errno.EFBIG,
                f"it must have at most {max_bytes} bytes, it has {status.st_size}",
                str(path),
            )
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(max_bytes)
    finally:
        os.close(descriptor)


def check_out(path: Path | str) -> str:
    """Return the remedy for a damaged file of a repository."""
    return f"Check it out again: git checkout -- {shlex.quote(str(path))}"


def explain_unreadable(content: bytes, kind: str, restore: str) -> str:
    """Return what a file is that cannot be read as `kind`, such as "a policy", with the
    remedy; "" if that is not known. `restore` is the remedy for a damaged file.
    """
    text = content.strip()
    if not text:
        return f"is empty. {restore}"
    if text.startswith(_LFS_POINTER):
        return f"is a pointer of Git LFS, not {kind}. Run git lfs pull"
    if _CONFLICT.search(text):
        return (
            "holds the conflict marks of a merge. Resolve the conflict, or take one"
            " side of it (git checkout --ours or --theirs)"
        )
    if text[:_HEAD_BYTES].lower().startswith((b"<!doctype html", b"<html")):
        return f"is a web page, not {kind}. {restore}"
    if text.count(b"{") > text.count(b"}"):
        return f"is truncated: its end is missing. {restore}"
    return ""


def replace_file(target: Path, content: bytes, mode: int = 0o666) -> None:
    """Write all of the content or nothing; replace an existing file. Raises OSError.

    The file has the rights `mode` without those that the umask withholds.
    """
    with draft_of(target) as draft:
        draft.touch(mode=mode)
        draft.write_bytes(content)
        draft.replace(target)


@contextmanager
def draft_of(target: Path) -> Iterator[Path]:
    """Yield a new path in the directory of `target`. Remove the file at that path in
    the end, unless it was moved.

    An OSError about that path becomes one about `target`: the name of the draft is
    internal.
    """
    draft = target.parent / f".{secrets.token_hex(8)}.tmp"
    try:
        yield draft
    except OSError as exc:
        if str(exc.filename) != str(draft):
            raise
        raise OSError(exc.errno, exc.strerror, str(target)) from exc
    finally:
        with suppress(NotADirectoryError):
            draft.unlink(missing_ok=True)


def reason_of(error: OSError) -> str:
    """Return why a file could not be read or written, without the number of the
    error.
    """
    return error.strerror or str(error)
