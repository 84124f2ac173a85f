"""The run logger, which writes a run's events as they happen, and the redactor that keeps secrets out of them."""

from __future__ import annotations

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any, Literal, get_args, get_origin, get_type_hints
from urllib.parse import quote, quote_plus

from pytest_vnc_use import faults
from pytest_vnc_use.errors import SettingsError, VncUseError
from pytest_vnc_use.runs.folder import RunFolder
from pytest_vnc_use.runs.uitask_trace import ExecutionLog
from pytest_vnc_use.types import FrameRef, RunEvent, RunStarted

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PICTURE = re.compile(r"sha256:[0-9a-f]{64}")
_MIN_CORE = 8
"""The fewest characters of base64 that identify a secret within a longer text; fewer would also match by chance."""


class Redactor:
    """A redactor that replaces a secret's value with `<secret:NAME>`, and the placeholder with the value again.

    `secrets` are values by name. A value is found as it is, percent-encoded, escaped as in JSON or Python, and in
    base64 (also within a longer text, as in a Basic authorisation). Raises SettingsError for an empty value and for a
    name that is not valid. With `numbers=False`, whole numbers in JSON stay, even if they are a secret's digits.
    """

    def __init__(self, secrets: Mapping[str, str], *, numbers: bool = True) -> None:
        self._numbers = numbers
        self._values = {_placeholder(name, value): value for name, value in secrets.items()}
        self._hidden = {form: mark for mark, value in self._values.items() for form in _forms(value)}
        self._marks = _any_of(self._values)
        self._secrets = _any_of([*self._values, *sorted(self._hidden, key=len, reverse=True)])

    def hide(self, text: str) -> str:
        """Return `text` with placeholders for all secrets, the longest first. Existing placeholders stay."""
        if not any(form in text for form in self._hidden):
            return text
        return self._secrets.sub(lambda found: self._hidden.get(found.group(), found.group()), text)

    def reveal(self, text: str) -> str:
        """Return `text` with the secrets' values for their placeholders; only for the moment before it is typed."""
        return self._marks.sub(lambda found: self._values[found.group()], text)

    def hide_json(self, value: Any) -> Any:
        """Return a JSON value without secrets in keys, strings and whole numbers. References to pictures stay."""
        if isinstance(value, Mapping):
            return {self.hide(str(key)): self.hide_json(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.hide_json(item) for item in value]
        if isinstance(value, str):
            return value if _PICTURE.fullmatch(value) else self.hide(value)
        return self._hidden.get(str(value), value) if type(value) is int and self._numbers else value

    def hide_in_error(self, error: BaseException) -> None:
        """Remove the secrets from an error that this package raised. An error of a user's own code stays as it is.

        An error of one of this package's own classes is redacted wherever it was raised, because others print it.
        """
        if not isinstance(error, VncUseError):
            return
        told = faults.text_of(error)
        tells = type(error).__module__ == VncUseError.__module__ and self.hide(told) != told
        if tells or faults.is_ours(error):
            error.args, error.__cause__ = (self.hide(told),), None  # its cause may contain a secret

    def hide_in(self, value: Any) -> Any:
        """Return a value of `types` without secrets. Frames, numbers, and the words that a type prescribes stay."""
        match value:
            case FrameRef():
                return value
            case str():
                return self.hide(value)
            case tuple():
                return tuple(map(self.hide_in, value))
            case Mapping() | list():
                return self.hide_json(value)
            case _:
                form: Any = type(value)
                free = {name: self.hide_in(getattr(value, name)) for name in _free_fields(form)}
                return replace(value, **free) if free else value


def _placeholder(name: str, value: str) -> str:
    if not _NAME.fullmatch(name):
        raise SettingsError(f"a secret's name must be letters, digits and underscores, got {name!r}")
    if not value:
        raise SettingsError(f"the secret {name!r} must have a value, got {value!r}")
    return f"<secret:{name}>"


def _any_of(texts: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, texts)) or "(?!)")


def _forms(value: str) -> set[str]:
    """Return all spellings of a value that may occur in written text."""
    escaped = {json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], repr(value)[1:-1]}
    raw = value.encode("utf-8", "surrogateescape")
    encoded = {quote_plus(raw), *(quote(raw, safe=safe) for safe in ("", "/", "!'()*"))}
    lowered = {re.sub("%..", lambda code: code.group().lower(), text) for text in encoded}
    return {value} | escaped | encoded | lowered | set(_base64_forms(raw))


def _base64_forms(raw: bytes) -> Iterator[str]:
    for encode in (b64encode, urlsafe_b64encode):
        whole = encode(raw).decode()
        yield from (whole, whole.rstrip("="))
        for shift in range(3):
            core = encode(bytes(shift) + raw).decode()[-(-shift * 8 // 6) : (shift + len(raw)) * 8 // 6]
            if len(core) >= _MIN_CORE:
                yield core


@cache
def _free_fields(form: type) -> tuple[str, ...]:
    """Return the fields of a dataclass that are not limited to prescribed words; none for any other class."""
    if not is_dataclass(form):
        return ()
    hints = get_type_hints(form)
    return tuple(each.name for each in fields(form) if not _prescribed(hints[each.name]))


def _prescribed(hint: Any) -> bool:
    return Literal in (get_origin(part) for part in (hint, *get_args(hint)))


class RunLogger:
    """A RunObserver that writes every event into the run folder as it happens, without secrets.

    `start_redactor` is for the start of the run, because another process continues with its task and settings. It
    leaves words alone that are the same as the desktop's password. In a reopened folder the logger continues where the
    previous one stopped. Raises RunFolderError if it cannot write.
    """

    def __init__(self, folder: RunFolder, redactor: Redactor, start_redactor: Redactor | None = None) -> None:
        self.folder = folder
        self._execution = ExecutionLog(folder.path)
        self._redactor = redactor
        self._start_redactor = start_redactor or redactor

    def observe(self, event: RunEvent) -> None:
        """Write one event without its secrets."""
        redactor = self._start_redactor if isinstance(event, RunStarted) else self._redactor
        hidden = redactor.hide_in(event)
        self.folder.append(hidden)
        self._execution.observe(hidden)
