"""Conversion of `types` values to JSON and back, and files of JSON objects, one a
line.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, overload

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python

from pytest_vnc_use.errors import RunDirectoryError, RunDirectoryUnwritable
from pytest_vnc_use.files import explain_unreadable, read_regular, reason_of
from pytest_vnc_use.plain_text import got
from pytest_vnc_use.types import JsonObject

T = TypeVar("T")
LARGEST = 100_000_000
"""The maximum bytes of a screenshot, a result or a file of lines."""
MAX_VALUES = 1_000_000
"""The maximum values in a file or a line of JSON. One takes up to 100 bytes of memory,
and may be two bytes of text.
"""
_INNER = frozenset({"logs", "screens"})
"""The directories of a run directory. The run directory itself may be a link: its user
named it.
"""


def read_whole(path: Path, max_bytes: int = LARGEST) -> bytes:
    """Return the content of a regular file that is no link, of at most `max_bytes`
    bytes. Raises OSError.
    """
    _check_no_link(path)
    return read_regular(path, max_bytes)


def read_end(path: Path, max_bytes: int) -> tuple[bytes, int]:
    """Return the last bytes of a regular file that is no link, at most `max_bytes`, and
    its size. Raises OSError.
    """
    _check_no_link(path)
    if not path.is_file():  # opening a FIFO would wait for its writer
        raise OSError(errno.EINVAL, "it must be a regular file", str(path))
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - max_bytes, 0))
        return file.read(max_bytes), size


def _check_no_link(path: Path) -> None:
    if path.is_symlink() or (path.parent.name in _INNER and path.parent.is_symlink()):
        raise OSError(errno.ELOOP, "it must not be a symbolic link", str(path))


def private(path: str, flags: int) -> int:
    """Open a file, as `open(…, opener=…)` asks for it, that only its owner may read."""
    return os.open(path, flags, 0o600)


def to_json(value: Any) -> Any:
    """Return a value of `types` in JSON's types, foreign types as text. Only a Frame's
    `ref` has such a form.
    """
    return to_jsonable_python(value, fallback=str)


_adapter = cache(TypeAdapter)


@overload
def from_json(form: type[T], data: Any) -> T: ...
@overload
def from_json(form: Any, data: Any) -> Any: ...
def from_json(form: Any, data: Any) -> Any:
    """Return the value of type `form` (a class of `types`, or a union such as `Action`)
    that `to_json` wrote.

    Raises RunDirectoryError if `data` is no such value.
    """
    try:
        return _adapter(form).validate_python(data)
    except ValidationError as exc:
        first = exc.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "it"
        raise RunDirectoryError(
            f"{place} does not fit: {first['msg']}, got {got(first['input'])}"
        ) from exc


def from_line(path: Path, form: Any, line: Any) -> Any:
    """Return the value of type `form` that a line of the file `path` holds. Raises
    RunDirectoryError without one.
    """
    try:
        return from_json(form, line)
    except RunDirectoryError as exc:
        raise RunDirectoryError(f"{str(path)!r} is damaged: {exc}") from exc


COPY_AGAIN = "Copy it again from the job that wrote it"


def read_json(path: Path, kind: str) -> Any:
    """Return the value in a JSON file, which is `kind`, such as "a result". Raises
    FileNotFoundError, and RunDirectoryError for another file.
    """
    try:
        content = read_whole(path)
    except FileNotFoundError:
        raise
    except OSError as exc:
        raise RunDirectoryError(
            f"{str(path)!r} cannot be read: {reason_of(exc)}"
        ) from exc
    try:
        return load_json(content)
    except (ValueError, RecursionError) as exc:
        problem = explain_unreadable(content, kind, COPY_AGAIN)
        problem = problem or f"is not JSON, so it is not {kind}: {exc}"
        raise RunDirectoryError(f"{str(path)!r} {problem}") from exc


def load_json(text: bytes) -> Any:
    """Return the value in a JSON text, in which NaN and Infinity are null.

    Raises ValueError if it is none, or has too many values; RecursionError.
    """
    values = sum(map(text.count, (b",", b"[", b"{")))
    if values > MAX_VALUES:
        raise ValueError(
            f"it may have at most {MAX_VALUES} values, it has about {values}"
        )
    return json.loads(text, parse_constant=lambda name: None)


def to_line(value: JsonObject) -> bytes:
    """Return an object as a line of a file. A character that UTF-8 cannot hold (half a
    surrogate pair) becomes "?".
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return f"{text}\n".encode("utf-8", "replace")


class JsonLines:
    """A file of JSON objects, one a line. It stays readable after a kill -9 of its
    writer.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._is_whole = False

    def append(self, value: JsonObject) -> None:
        """Write one line. Raises RunDirectoryUnwritable, also for a line that would
        make the file larger than what is read.
        """
        line = to_line(value)
        try:
            if not self._is_whole and self.path.exists():  # the last line may be torn
                os.truncate(self.path, read_whole(self.path).rfind(b"\n") + 1)
            with open(self.path, "ab", opener=private) as file:
                size = file.tell() + len(line)
                if size > LARGEST:
                    raise OSError(
                        errno.EFBIG,
                        f"it must have at most {LARGEST} bytes, with this line it has"
                        f" {size}",
                    )
                self._is_whole = False
                file.write(line)
            self._is_whole = True
        except OSError as exc:
            raise RunDirectoryUnwritable(
                f"cannot write {str(self.path)!r}: {reason_of(exc)}"
            ) from exc

    def read(self) -> Iterator[dict[str, Any]]:
        """Yield the objects of all whole lines; none if there is no file. Raises
        RunDirectoryError.
        """
        return self.parsed(self.lines())

    def lines(self) -> list[bytes]:
        """Return all whole lines as they are; none if there is no file. Raises
        RunDirectoryError.
        """
        try:
            return read_whole(self.path).split(b"\n")[:-1]
        except FileNotFoundError:
            return []
        except OSError as exc:
            raise RunDirectoryError(
                f"cannot read {str(self.path)!r}: {reason_of(exc)}"
            ) from exc

    def parsed(
        self, lines: Iterable[bytes], first: int = 1
    ) -> Iterator[dict[str, Any]]:
        """Yield the objects of this file's lines, from number `first` on. Raises
        RunDirectoryError.
        """
        for number, line in enumerate(lines, start=first):
            damaged = f"{str(self.path)!r} is damaged: line {number} is"
            try:
                value = load_json(line)
            except (ValueError, RecursionError) as exc:
                raise RunDirectoryError(f"{damaged} not JSON: {exc}") from exc
            if not isinstance(value, dict):
                raise RunDirectoryError(f"{damaged} {got(value)}, not a JSON object")
            yield value
