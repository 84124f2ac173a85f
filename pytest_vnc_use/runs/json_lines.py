"""Conversion of `types` values to JSON and back, and files of JSON objects, one a line."""

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

from pytest_vnc_use.errors import RunFolderError, RunFolderUnwritable
from pytest_vnc_use.plain_text import got
from pytest_vnc_use.runs.reading import LARGEST, read_whole
from pytest_vnc_use.types import JsonObject

T = TypeVar("T")
MOST_VALUES = 1_000_000
"""The most values in a file or a line of JSON. One takes up to 100 bytes of memory, and may be two bytes of text."""


def private(path: str, flags: int) -> int:
    """Open a file, as `open(…, opener=…)` asks for it, that only its owner may read."""
    return os.open(path, flags, 0o600)


@cache
def _adapter(form: Any) -> TypeAdapter[Any]:
    return TypeAdapter(form)


def to_json(value: Any) -> Any:
    """Return a value of `types` in JSON's own types, foreign types as text. Only a Frame's `ref` has such a form."""
    return to_jsonable_python(value, fallback=str)


@overload
def from_json(form: type[T], data: Any) -> T: ...
@overload
def from_json(form: Any, data: Any) -> Any: ...
def from_json(form: Any, data: Any) -> Any:
    """Return the value of type `form` (a class of `types`, or a union such as `Action`) that `to_json` wrote.

    Raises RunFolderError if `data` is no such value.
    """
    try:
        return _adapter(form).validate_python(data)
    except ValidationError as exc:
        first = exc.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "it"
        raise RunFolderError(f"{place} does not fit: {first['msg']}, got {got(first['input'])}") from exc


def from_line(path: Path, form: Any, line: JsonObject) -> Any:
    """Return the value of type `form` that a line of the file `path` holds. Raises RunFolderError if it holds none."""
    try:
        return from_json(form, line)
    except RunFolderError as exc:
        raise RunFolderError(f"{str(path)!r} is damaged: {exc}") from exc


def load_json(text: bytes, most: int = MOST_VALUES) -> Any:
    """Return the value in a JSON text. Raises ValueError if it is none, or has too many values; RecursionError."""
    values = values_in(text)
    if values > most:
        raise ValueError(f"it may have at most {most} values, it has about {values}")
    return json.loads(text)


def values_in(text: bytes) -> int:
    """Return about how many values a JSON text, or a part of one, has; no fewer than it has."""
    return sum(map(text.count, (b",", b"[", b"{")))


class JsonLines:
    """A file of JSON objects, one a line. It stays readable after a kill -9 of its writer."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._is_whole = False

    def append(self, value: JsonObject) -> None:
        """Write one line. A character that UTF-8 cannot hold (half a surrogate pair) becomes "?".

        Raises RunFolderUnwritable, also for a line that would make the file larger than what is read.
        """
        line = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
        try:
            if not self._is_whole and self.path.exists():  # the last line may be torn
                os.truncate(self.path, read_whole(self.path, LARGEST).rfind(b"\n") + 1)
            with open(self.path, "ab", opener=private) as file:
                size = file.tell() + len(line) + 1
                if size > LARGEST:
                    raise OSError(errno.EFBIG, f"it must have at most {LARGEST} bytes, with this line it has {size}")
                self._is_whole = False
                file.write(line + b"\n")
            self._is_whole = True
        except OSError as exc:
            raise RunFolderUnwritable(f"cannot write {str(self.path)!r}: {exc}") from exc

    def read(self) -> Iterator[dict[str, Any]]:
        """Yield the objects of all whole lines; none if there is no file. Raises RunFolderError at a damaged line."""
        return self.parsed(self.lines())

    def parsed(self, lines: Iterable[bytes], first: int = 1) -> Iterator[dict[str, Any]]:
        """Yield the objects of this file's lines, from number `first` on. Raises RunFolderError at a damaged line."""
        for number, line in enumerate(lines, start=first):
            yield self._parse(number, line)

    def count(self) -> int:
        """Return the number of whole lines."""
        return len(self.lines())

    def lines(self) -> list[bytes]:
        """Return all whole lines as they are; none if there is no file. Raises RunFolderError."""
        try:
            return read_whole(self.path, LARGEST).split(b"\n")[:-1]
        except FileNotFoundError:
            return []
        except OSError as exc:
            raise RunFolderError(f"cannot read {str(self.path)!r}: {exc}") from exc

    def _parse(self, number: int, line: bytes) -> dict[str, Any]:
        try:
            value = load_json(line)
        except (ValueError, RecursionError) as exc:
            raise RunFolderError(f"{str(self.path)!r} is damaged: line {number} is not JSON: {exc}") from exc
        if not isinstance(value, dict):
            raise RunFolderError(f"{str(self.path)!r} is damaged: line {number} is {got(value)}, not a JSON object")
        return value
