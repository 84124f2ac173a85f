"""The redactor: it replaces a secret's value by its name; and the secrets that an agent
has.

A value is found in five formats: as it is, percent-encoded, escaped as in JSON, Python
or HTML, and in base64.
"""

from __future__ import annotations

import binascii
import hmac
import html
import json
import re
from base64 import b32decode, b64encode, urlsafe_b64encode
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache, cached_property
from typing import Any, Literal, get_args, get_origin, get_type_hints
from urllib.parse import quote, quote_plus

from pytest_vnc_use import clock
from pytest_vnc_use.errors import SettingsError, VncUseError, causes
from pytest_vnc_use.types import SECRET_MARK, FrameRef
from pytest_vnc_use.types.actions import SecretText

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SCREENSHOT = re.compile(r"sha256:[0-9a-f]{64}")
_MIN_CORE = 8
"""The minimum characters of base64 that identify a secret within a longer text; fewer
would also match by chance.
"""
SHORT = 4
"""A value of fewer characters is found only as a whole word, because it would occur
everywhere by chance.
"""
_PIECE = 6
"""The minimum characters of a value in pieces by which it is recognised."""
_MARGINS = re.compile(
    r"(?:\x1b|\\x1b|\\u001b)\[[0-9;]*m|\\[rnt]|[\x00-\x1f\x7f-\x9f\xad\u200b-\u200f\ufeff\s'\"E>|+?:\\-]"
)
"""All that may be between the pieces of a value: quotes, the margins of a diff, colours
of a terminal.
"""
_SHORTENED = re.compile(r"identical (?:leading|trailing) char")
"""The text by which pytest reports that it shortened a diff."""
_MARK = re.compile(r"(<(?:secret|totp):\w+>)")
_DOTS = ("...", "…")
_STEP_S = 30


class Redactor:
    """A redactor that replaces a secret's value with `<secret:NAME>`, and the
    placeholder with the value again.

    `secrets` are values by name. Of a value with several lines, each long line is found
    too, and in base64 also within a longer text, as in a Basic authorisation. Raises
    SettingsError for an empty value and for a name that is not valid. With `acts`, the
    text is acted upon, so only whole values are hidden, and whole numbers in JSON stay,
    even if they are a secret's digits. `others` are names and values that are hidden
    too. `reveal` puts such a value back only if `hide` has replaced it before, so that
    a name alone reveals nothing.
    """

    def __init__(
        self,
        secrets: Mapping[str, str],
        *,
        others: Iterable[tuple[str, str]] = (),
        acts: bool = False,
    ) -> None:
        self._acts = acts
        # `str` because a SecretText shows its name where it is formatted
        self._values = {
            _placeholder(name, value): str(value) for name, value in secrets.items()
        }
        marked = [(_placeholder(name, value), str(value)) for name, value in others]
        self._others = {
            mark: value for mark, value in marked if mark not in self._values
        }
        self._hidden: dict[str, str] = {}
        """The placeholder of each text to hide."""
        for mark, value in [*marked, *self._values.items()]:
            self._hidden.update(dict.fromkeys(_forms(value), mark))
        patterns = [*map(re.escape, {**self._values, **self._others})]
        for form in sorted(self._hidden, key=len, reverse=True):
            pattern = re.escape(form)
            if len(form) < SHORT:
                pattern = rf"(?<!\w){pattern}(?!\w)"
            patterns.append(pattern)
        self._secrets = re.compile("|".join(patterns) or "(?!)")

    def hide(self, text: str) -> str:
        """Return `text` with placeholders for all secrets, the longest first. Existing
        placeholders stay.
        """
        if not any(form in text for form in self._hidden):
            return text
        return self._secrets.sub(self._mark, text)

    def _mark(self, match: re.Match[str]) -> str:
        mark = self._hidden.get(match.group(), match.group())
        if match.group() in self._hidden and mark in self._others:
            self._values.setdefault(mark, self._others[mark])
        return mark

    def hide_pieces(self, text: str) -> str:
        """Return `text` as `hide` does, for a reader: without values broken over lines
        and the ends of cut ones too.
        """
        text = self.hide(text)
        is_shortened = bool(_SHORTENED.search(text))
        parts = _MARK.split(text)
        # every second part is a placeholder
        parts[::2] = [self._without_pieces(part, is_shortened) for part in parts[::2]]
        return "".join(parts)

    def _without_pieces(self, text: str, is_shortened: bool) -> str:
        """Return a text without the runs of a value's characters that are a whole value
        or one that was cut.
        """
        bare = _MARGINS.sub("", text)
        runs: list[tuple[int, int, str, int]] = []
        for at in range(len(bare) - _PIECE + 1):
            piece = self._pieces.get(bare[at : at + _PIECE])
            if piece is None:
                continue
            start = at
            mark, whole_length = piece
            if runs and at <= runs[-1][1]:
                start, _, mark, whole_length = runs.pop()
            runs.append((start, at + _PIECE, mark, whole_length))
        if not runs:
            return text
        margins: set[int] = set()
        for margin in _MARGINS.finditer(text):
            margins.update(range(*margin.span()))
        # where in the text each character of `bare` is
        text_indices = [index for index in range(len(text)) if index not in margins]
        hidden: list[str] = []
        end = 0
        for start, stop, mark, whole_length in runs:
            is_cut = bare.startswith(_DOTS, stop) or bare[:start].endswith(_DOTS)
            if is_cut or is_shortened or stop - start >= whole_length:
                hidden += [text[end : text_indices[start]], mark]
                end = text_indices[stop - 1] + 1
        return "".join([*hidden, text[end:]])

    @cached_property
    def _pieces(self) -> dict[str, tuple[str, int]]:
        """For each `_PIECE` characters of a value without margins: its placeholder, and
        the length of the whole value without margins.
        """
        pieces: dict[str, tuple[str, int]] = {}
        # of values that share a piece, the shortest counts
        for form in sorted(self._hidden, key=len, reverse=True):
            bare = _MARGINS.sub("", form)
            for start in range(len(bare) - _PIECE + 1):
                piece = bare[start : start + _PIECE]
                pieces[piece] = self._hidden[form], len(bare)
        return pieces

    def reveal(self, text: str) -> str:
        """Return `text` with the secrets' values for their placeholders; only just
        before it is typed.

        `<totp:NAME>` becomes the current one-time code. Raises SettingsError where the
        secret is no key for one.
        """
        revealed = SECRET_MARK.sub(self._reveal, text)
        return text if revealed == text else SecretText(revealed, text)

    def _reveal(self, mark: re.Match[str]) -> str:
        value = self._values.get(f"<secret:{mark[1]}>")
        if value is None:
            return mark.group()
        if not mark.group().startswith("<totp:"):
            return value
        try:
            return totp(value)
        except ValueError as exc:
            raise SettingsError(
                f"<totp:…>: the secret {mark[1]!r} must be {exc}"
            ) from None

    def hide_json(self, value: Any) -> Any:
        """Return a JSON value without secrets in keys, strings and whole numbers.
        References to screenshots stay.
        """
        if isinstance(value, Mapping):
            return {
                self.hide(str(key)): self.hide_json(item) for key, item in value.items()
            }
        if isinstance(value, (list, tuple)):
            return [self.hide_json(item) for item in value]
        if isinstance(value, str):
            return value if _SCREENSHOT.fullmatch(value) else self.hide(value)
        if type(value) is int and not self._acts:
            return self._hidden.get(str(value), value)
        return value

    def hide_in_error(self, error: BaseException) -> None:
        """Remove the secrets from an error that this package raised. An error of a
        user's class stays as it is.

        An error of one of this package's classes is redacted also if a user's code
        raised it: `except VncUseError` must be safe to print, and only this package
        declares the secrets. Its class and its traceback stay.
        """
        if not isinstance(error, VncUseError):
            return
        text = causes.text_of(error)
        hidden = self.hide(text)
        is_of_package = type(error).__module__ == VncUseError.__module__
        has_secret = is_of_package and hidden != text
        if has_secret or causes.is_from_package(error):
            error.args = (hidden,)
            error.__cause__ = None  # it may contain a secret

    def hide_in(self, value: Any) -> Any:
        """Return a value of `types` without secrets. Frames, numbers, and the values
        that a type prescribes stay.
        """
        match value:
            case FrameRef():
                return value
            case str() if self._acts or value.isprintable():
                return self.hide(value)
            case str():
                return self.hide_pieces(value)
            case tuple():
                return tuple(map(self.hide_in, value))
            case Mapping() | list():
                return self.hide_json(value)
            case _:
                form: Any = type(value)
                free = {
                    name: self.hide_in(getattr(value, name))
                    for name in _free_fields(form)
                }
                return replace(value, **free) if free else value


def _placeholder(name: str, value: str) -> str:
    if not _NAME.fullmatch(name):
        raise SettingsError(
            f"a secret's name must be letters, digits and underscores, got {name!r}"
        )
    if not value:
        raise SettingsError(f"the secret {name!r} must have a value, got {value!r}")
    return f"<secret:{name}>"


def _forms(value: str) -> set[str]:
    """Return a value in all formats in which it may occur in written text."""
    raw = value.encode("utf-8", "surrogateescape")
    encoded = {quote_plus(raw)}
    encoded |= {quote(raw, safe=safe) for safe in ("", "/", "!'()*")}
    encoded |= {
        re.sub("%..", lambda code: code.group().lower(), text) for text in encoded
    }
    written = {repr(raw)[2:-1]}
    for text in (value, *map(str.strip, value.splitlines())):
        if text == value or len(text) >= _MIN_CORE:
            # a failure of pytest has a text as `repr` shows it, with -vv as `ascii`
            written |= {text, repr(text)[1:-1], ascii(text)[1:-1]}
            written.add(json.dumps(text)[1:-1])
            written.add(json.dumps(text, ensure_ascii=False)[1:-1])
    escaped = {html.escape(text) for text in written}
    escaped |= {html.escape(text, quote=False) for text in written}
    escaped |= {
        text.replace("&#x27;", "&#39;").replace("&quot;", "&#34;") for text in escaped
    }
    return written | escaped | encoded | set(_base64_forms(raw))


def _base64_forms(raw: bytes) -> Iterator[str]:
    for encode in (b64encode, urlsafe_b64encode):
        whole = encode(raw).decode()
        yield from (whole, whole.rstrip("="))
        # within a longer text, a value starts at any byte of a group of three
        for shift in range(3):
            start = -(-shift * 8 // 6)
            stop = (shift + len(raw)) * 8 // 6
            core = encode(bytes(shift) + raw).decode()[start:stop]
            if len(core) >= _MIN_CORE:
                yield core


@cache
def _free_fields(form: type) -> tuple[str, ...]:
    """Return the fields of a dataclass that are not limited to prescribed values; none
    for any other class.
    """
    if not is_dataclass(form):
        return ()
    hints = get_type_hints(form)
    return tuple(
        field.name for field in fields(form) if not _is_prescribed(hints[field.name])
    )


def _is_prescribed(hint: Any) -> bool:
    """Return whether a type is a Literal, or a union with one."""
    return any(get_origin(kind) is Literal for kind in (hint, *get_args(hint)))


def totp(key: str, *, digits: int = 6, now: Callable[[], float] = clock.epoch) -> str:
    """Return the current one-time code for a key in base32, as authenticator apps show
    it (RFC 6238, SHA-1).

    Spaces, small letters and missing padding are allowed. Raises ValueError for a key
    that is not base32.
    """
    letters = "".join(key.split()).upper().rstrip("=")
    try:
        raw = b32decode(letters + "=" * (-len(letters) % 8))
    except binascii.Error:
        raise ValueError(
            "a key in base32, such as an authenticator app is given"
        ) from None
    counter = int(now() // _STEP_S).to_bytes(8, "big")
    digest = hmac.digest(raw, counter, "sha1")
    offset = digest[-1] & 0xF  # RFC 4226, section 5.3
    number = int.from_bytes(digest[offset : offset + 4], "big") & 0x7FFFFFFF
    return f"{number % 10**digits:0{digits}d}"


@dataclass(frozen=True)
class Secrets:
    """The values by name that a task may use, and three redactors.

    `declared` knows these values only, and puts them back when they are typed.
    `at_start` also knows API keys. `everything` knows all keys and passwords: it
    redacts all that is stored or reported. All three hide the secrets of other tests
    too.
    """

    values: Mapping[str, str]
    declared: Redactor
    at_start: Redactor
    everything: Redactor
    are_declared: bool
    """Whether this or another test of the session declares secrets, which a screen may
    show once they are typed.
    """

    @classmethod
    def of(
        cls,
        values: Mapping[str, str],
        api_keys: Mapping[str, str],
        ambient: Mapping[str, str],
        others: Collection[tuple[str, str]] = (),
    ) -> Secrets:
        """Return the secrets of a task with the API keys and the other ambient secrets
        of the environment.

        `others` are the names and values of what other tests of the session declare.
        Raises SettingsError for a value that nothing can type.
        """
        for name, value in values.items():
            if any("\ud800" <= character <= "\udfff" for character in value):
                raise SettingsError(
                    f"the secret {name!r} must be text: it holds half of a surrogate"
                    " pair"
                )
        return cls(
            {name: SecretText.of(name, value) for name, value in values.items()},
            Redactor(values, others=others, acts=True),
            Redactor({**values, **api_keys}, others=others),
            Redactor({**values, **ambient}, others=others),
            bool(values or others),
        )
