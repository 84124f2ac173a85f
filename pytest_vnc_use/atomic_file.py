"""Files that are written as a whole or not at all, so that no reader ever sees half of one."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def write_atomically(target: Path, content: bytes, mode: int = 0o666) -> None:
    """Write all of the content or nothing; replace the file that is there. Raises OSError.

    The file has the rights `mode` without those that the umask withholds.
    """
    with draft_of(target) as draft:
        draft.touch(mode=mode)
        draft.write_bytes(content)
        draft.replace(target)


@contextmanager
def draft_of(target: Path) -> Iterator[Path]:
    """Yield a new path in the folder of `target`. Remove the file at that path in the end, unless it was moved."""
    draft = target.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        yield draft
    finally:
        draft.unlink(missing_ok=True)
