"""Text from a model, a program or a server, made safe for a terminal and a report."""

from __future__ import annotations

import re
import unicodedata

LONGEST = 2_000
"""The most characters of a reason or a message that are shown. The run directory's exchanges hold the full text."""


def plain(text: str) -> str:
    """Return the text on one line without control characters: no escape sequence of a model reaches a terminal."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else " " for character in text)


HIDDEN_QUERY = "?…"
_QUERY = re.compile(r"(\b(?:wss?://[^\s?#'\"]*(?=[?#])|\w+://[^\s?#'\"]*(?=\?|#\S*=)))[?#][^\s'\"]*")


def without_query(text: str) -> str:
    """Return the text with `?…` for the query and the fragment of each address: a token there opens the desktop."""
    return _QUERY.sub(rf"\1{HIDDEN_QUERY}", text)


_SLACK = 100
"""Extra length that `cut` allows, so that it does not cut a text again that is already cut and says so."""


def cut(text: str, most: int = LONGEST) -> str:
    """Return the text; if it is longer than `most` characters, its beginning and its length."""
    return text if len(text) <= most + _SLACK else f"(the first {most} of {len(text)} characters) {text[:most]}"


def got(value: object) -> str:
    """Return a wrong value as a message shows it: cut, and in words if it cannot be shown."""
    try:
        return cut(repr(value), _LONGEST_VALUE)
    except (RecursionError, ValueError):  # ValueError: Python does not print a number with so many digits
        return f"a {type(value).__name__} that is too long, or nested too deeply, to show"


_LONGEST_VALUE = 300


def line(text: object) -> str:
    """Return the text as one line that is safe for a terminal and limited in length."""
    return cut(plain(str(text)))


def columns_of(text: str) -> int:
    """Return the columns that a line of text takes on a terminal: two for a wide character, none for an accent."""
    return sum(map(_columns, text))


def _columns(character: str) -> int:
    if character == "\N{VARIATION SELECTOR-16}":  # makes the character before it wide, on some terminals
        return 1
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def fit(text: str, columns: int) -> str:
    """Return the text; if it takes more than `columns` on a terminal, its beginning and three dots."""
    if columns_of(text) <= columns:
        return text
    kept, left = "", columns - len(_DOTS)
    for character in text:
        left -= _columns(character)
        if left < 0:
            break
        kept += character
    return f"{kept.rstrip()}{_DOTS}"[: max(0, columns)]


_DOTS = "..."
