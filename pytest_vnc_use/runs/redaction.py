"""The redactor: it replaces a secret's value, in any spelling, by its name."""

from __future__ import annotations

import html
import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache, cached_property
from typing import Any, Literal, get_args, get_origin, get_type_hints
from urllib.parse import quote, quote_plus

from pytest_vnc_use.errors import SettingsError, VncUseError, faults
from pytest_vnc_use.runs.totp import totp
from pytest_vnc_use.types import SECRET_MARK, FrameRef
from pytest_vnc_use.types.secret_text import SecretText

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PICTURE = re.compile(r"sha256:[0-9a-f]{64}")
_MIN_CORE = 8
"""The fewest characters of base64 that identify a secret within a longer text; fewer would also match by chance."""
SHORT = 4
"""A value of fewer characters is found only as a word of its own, because it would occur everywhere by chance."""
_MIN_PIECE = 6
"""The fewest characters of a value in pieces by which it is recognised."""
_MIN_CUT = 4
"""The fewest characters of a value beside the dots of a cut text that are hidden."""
_COLOUR = r"\x1b\[[0-9;]*m"
_CONTROL = (
    # sequences of a terminal: a colour, a title, a set of characters
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][0-9A-Z]|[=>78])"
    r"|\\(?:x1b|u001b|033)\[[0-?]*[@-~]|\\(?:x|u00)(?:[01][0-9a-f]|7f)"  # the same as Python and JSON write them
    r"|[\x00-\x1f\x7f-\x9f\xad\u200b-\u200f\u2028-\u202e\u2060\ufeff]"  # characters that take no room
)
_MARGINS = re.compile(rf"{_CONTROL}|\\[rnt]|[\s'\"E>|+?:\\-]")
"""All that may be between the pieces of a value: quotes, the margins of a diff, control sequences of a terminal."""
_COLOURS = re.compile(_COLOUR)
_SKIPPED = re.compile(r"identical (?:leading|trailing) char")
"""The words by which pytest says that it shortened a diff."""
_DIFF_LINE = re.compile(rf"(?m)^((?:{_COLOUR}|E|[ ])*[-+](?:{_COLOUR})*[ ])(.+)$")
_MARK = re.compile(r"(<(?:secret|totp):\w+>)")
_DOTS = re.compile(r"\.\.\.|…")


class Redactor:
    """A redactor that replaces a secret's value with `<secret:NAME>`, and the placeholder with the value again.

    `secrets` are values by name. A value is found as it is, percent-encoded, escaped as in JSON, Python or HTML, and in
    base64 (also within a longer text, as in a Basic authorisation). Of a value with several lines, each long line is
    found too. Raises SettingsError for an empty value and for a name that is not valid. With `acts`, the text is acted
    upon, so only whole values are hidden, and whole numbers in JSON stay, even if they are a secret's digits. `others`
    are names and values that are hidden too. `reveal` puts such a value back only if `hide` has replaced it before, so
    that a name alone reveals nothing.
    """

    def __init__(
        self, secrets: Mapping[str, str], *, others: Iterable[tuple[str, str]] = (), acts: bool = False
    ) -> None:
        self._acts = acts
        # `str` because the forms of a value come from its repr, and a SecretText's shows its name
        self._values = {_placeholder(name, value): str(value) for name, value in secrets.items()}
        marked = [(_placeholder(name, value), str(value)) for name, value in others]
        self._others = {mark: value for mark, value in marked if mark not in self._values}
        self._hidden = {form: mark for mark, value in [*marked, *self._values.items()] for form in _forms(value)}
        longest_first = sorted(self._hidden, key=len, reverse=True)
        patterns = [*map(re.escape, {**self._values, **self._others}), *map(_pattern, longest_first)]
        self._secrets = re.compile("|".join(patterns) or "(?!)")
        self._bare = {bare: form for form in longest_first if len(bare := _MARGINS.sub("", form)) >= _MIN_PIECE}

    def hide(self, text: str) -> str:
        """Return `text` with placeholders for all secrets, the longest first. Existing placeholders stay."""
        if not any(form in text for form in self._hidden):
            return text
        return self._secrets.sub(self._mark, text)

    def _mark(self, found: re.Match[str]) -> str:
        mark = self._hidden.get(found.group(), found.group())
        if found.group() in self._hidden and mark in self._others:
            self._values.setdefault(mark, self._others[mark])
        return mark

    def hide_pieces(self, text: str) -> str:
        """Return `text` as `hide` does, for a reader: without values broken over lines and the ends of cut ones too."""
        text = self.hide(text)
        bared = _BareText(text)
        for bare, form in self._bare.items():
            if spans := bared.pieces(bare):
                text = _replace(text, spans, self._hidden[form])
                bared = _BareText(text)
        return _DIFF_LINE.sub(self._without_part, text) if _SKIPPED.search(text) else text

    def _without_part(self, line: re.Match[str]) -> str:
        """Return the line of a shortened diff, which may hold any part of a value, without that part."""
        margin, rest = line.groups()
        split = _MARK.split(rest)
        return margin + "".join(each if number % 2 else self._without_parts(each) for number, each in enumerate(split))

    def _without_parts(self, text: str) -> str:
        kept, end = [], 0
        for start, stop, mark in _BareText(text, _COLOURS).parts(self._pieces):
            kept += [text[end:start], mark]
            end = stop
        return "".join([*kept, text[end:]])

    @cached_property
    def _pieces(self) -> dict[str, str]:
        """The placeholder for each `_MIN_PIECE` characters that follow each other in a form of a value."""
        return {
            form[start : start + _MIN_PIECE]: mark
            for form, mark in self._hidden.items()
            for start in range(len(form) - _MIN_PIECE + 1)
        }

    def reveal(self, text: str) -> str:
        """Return `text` with the secrets' values for their placeholders; only for the moment before it is typed.

        `<totp:NAME>` becomes the one-time code of this moment. Raises SettingsError where the secret is no key for one.
        """
        revealed = SECRET_MARK.sub(self._reveal, text)
        return text if revealed == text else SecretText(revealed, text)

    def _reveal(self, mark: re.Match[str]) -> str:
        value = self._values.get(f"<secret:{mark[1]}>")
        if value is None or not mark.group().startswith("<totp:"):
            return mark.group() if value is None else value
        try:
            return totp(value)
        except ValueError as exc:
            raise SettingsError(f"<totp:…>: the secret {mark[1]!r} must be {exc}") from None

    def hide_json(self, value: Any) -> Any:
        """Return a JSON value without secrets in keys, strings and whole numbers. References to pictures stay."""
        if isinstance(value, Mapping):
            return {self.hide(str(key)): self.hide_json(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.hide_json(item) for item in value]
        if isinstance(value, str):
            return value if _PICTURE.fullmatch(value) else self.hide(value)
        return self._hidden.get(str(value), value) if type(value) is int and not self._acts else value

    def hide_in_error(self, error: BaseException) -> None:
        """Remove the secrets from an error that this package raised. An error of a user's own class stays as it is.

        An error of one of this package's own classes is redacted also if a user's code raised it: `except VncUseError`
        must be safe to print, and only this package declares the secrets. Its class and its traceback stay.
        """
        if not isinstance(error, VncUseError):
            return
        text = faults.text_of(error)
        tells = type(error).__module__ == VncUseError.__module__ and self.hide(text) != text
        if tells or faults.is_ours(error):
            error.args, error.__cause__ = (self.hide(text),), None  # its cause may contain a secret

    def hide_in(self, value: Any) -> Any:
        """Return a value of `types` without secrets. Frames, numbers, and the words that a type prescribes stay."""
        match value:
            case FrameRef():
                return value
            case str():
                return self.hide(value) if self._acts or value.isprintable() else self.hide_pieces(value)
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


def _pattern(form: str) -> str:
    return re.escape(form) if len(form) >= SHORT else rf"(?<!\w){re.escape(form)}(?!\w)"


class _BareText:
    """A text without its margins, in which values are found that are broken over lines, escaped again, or cut."""

    def __init__(self, text: str, margins: re.Pattern[str] = _MARGINS) -> None:
        self._text, self._margins = text, margins
        self._rest = margins.sub("", text)

    @cached_property
    def _kept(self) -> list[int]:
        """The place in the text of each character of the rest."""
        margins = {place for margin in self._margins.finditer(self._text) for place in range(*margin.span())}
        return [place for place in range(len(self._text)) if place not in margins]

    @cached_property
    def _dots(self) -> list[tuple[int, int]]:
        return [dots.span() for dots in _DOTS.finditer(self._rest)]

    def pieces(self, bare: str) -> list[tuple[int, int]]:
        """Return where the text has a value, in order; `bare` is the value without what could be margins."""
        if bare[:_MIN_CUT] not in self._rest and bare[-_MIN_CUT:] not in self._rest:
            return []
        whole = [each.span() for each in re.finditer(re.escape(bare), self._rest)]
        ends = [*self._ends(bare)]
        spans = [(self._kept[start], self._kept[end - 1] + 1) for start, end in sorted([*whole, *ends])]
        # without margins between, it is a part of a placeholder: `hide` has left it
        return spans if ends else [(start, end) for start, end in spans if end - start > len(bare)]

    def parts(self, pieces: Mapping[str, str]) -> list[tuple[int, int, str]]:
        """Return where the text has one or more of the pieces in a row, in order, and the placeholder of the first."""
        found: list[tuple[int, int, str]] = []
        for at in range(len(self._rest) - _MIN_PIECE + 1):
            mark = pieces.get(self._rest[at : at + _MIN_PIECE])
            if mark and found and at <= found[-1][1]:
                found[-1] = found[-1][0], at + _MIN_PIECE, found[-1][2]
            elif mark:
                found.append((at, at + _MIN_PIECE, mark))
        return [(self._kept[start], self._kept[end - 1] + 1, mark) for start, end, mark in found]

    def _ends(self, bare: str) -> Iterator[tuple[int, int]]:
        """Yield where the rest has a beginning of a value before dots, or an end of it after dots."""
        for before, after in self._dots:
            start = self._rest.find(bare[:_MIN_CUT], max(0, before - len(bare) + 1), before)
            if start >= 0 and bare.startswith(self._rest[start:before]):
                yield start, before
            last = self._rest.rfind(bare[-_MIN_CUT:], after, after + len(bare) - 1)
            if last >= 0 and bare.endswith(self._rest[after : last + _MIN_CUT]):
                yield after, last + _MIN_CUT


def _replace(text: str, spans: Sequence[tuple[int, int]], mark: str) -> str:
    """Return a text with `mark` in the place of the spans, which are in order of their starts, and may overlap."""
    kept, end = [], 0
    for start, stop in spans:
        if start >= end:
            kept += [text[end:start], mark]
        end = max(end, stop)
    return "".join([*kept, text[end:]])


def _forms(value: str) -> set[str]:
    """Return all spellings of a value that may occur in written text."""
    raw = value.encode("utf-8", "surrogateescape")
    encoded = {quote_plus(raw), *(quote(raw, safe=safe) for safe in ("", "/", "!'()*"))}
    lowered = {re.sub("%..", lambda code: code.group().lower(), text) for text in encoded}
    lines = {line for line in map(str.strip, value.splitlines()) if len(line) >= _MIN_CORE}
    spelled = {form for each in (value, *lines) for form in _escape(each)}
    return spelled | encoded | lowered | set(_base64_forms(raw))


def _escape(value: str) -> set[str]:
    """Return the value as JSON and a failure of pytest write it in quotes, and as HTML writes that."""
    once = {value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}
    once |= {repr(value)[1:-1], ascii(value)[1:-1]}
    marked = {html.escape(each, quote=quote) for each in once for quote in (True, False)}
    return once | marked | {each.replace("&#x27;", "&#39;").replace("&quot;", "&#34;") for each in marked}


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
