"""Text for a terminal and a report, and what makes that of others safe for them."""

from __future__ import annotations

import re
import unicodedata

MAX_LENGTH = 2_000
"""The maximum characters shown of a reason or a message. The run directory's exchanges
hold the full text.
"""


def plain(text: str) -> str:
    """Return the text on one line without control characters: no escape sequence of a
    model reaches a terminal.
    """
    if text.isprintable():
        return text
    hidden = {character for character in text if not character.isprintable()}
    return text.translate(dict.fromkeys(map(ord, hidden), " "))


def count_of(number: int, noun: str) -> str:
    """Return a number with its noun, such as `1 step` or `2 steps`."""
    return f"{number} {noun if number == 1 else f'{noun}s'}"


HIDDEN_QUERY = "?…"
_QUERY = re.compile(
    r"(\b(?:wss?://[^\s?#'\"]*(?=[?#])|\w+://[^\s?#'\"]*(?=\?|#\S*=)))[?#][^\s'\"]*"
)


def without_query(text: str) -> str:
    """Return the text with `?…` for the query and the fragment of each URL: a token in
    it opens the desktop.
    """
    return _QUERY.sub(rf"\1{HIDDEN_QUERY}", text)


_SLACK = 100
"""Extra length that `cut` allows, so that it does not cut a text again that is already
cut and marked.
"""


def cut(text: str, max_length: int = MAX_LENGTH) -> str:
    """Return the text; if it is longer than `max_length` characters, its start and its
    length.
    """
    if len(text) <= max_length + _SLACK:
        return text
    return f"(the first {max_length} of {len(text)} characters) {text[:max_length]}"


def got(value: object) -> str:
    """Format an invalid value for a message: cut, and described if it cannot be
    shown.
    """
    try:
        return cut(repr(value), _MAX_VALUE)
    except (RecursionError, ValueError):
        # ValueError: Python does not print a number with so many digits
        return (
            f"a {type(value).__name__} that is too long, or nested too deeply, to show"
        )


_MAX_VALUE = 300


def line(text: object) -> str:
    """Return the text as one line that is safe for a terminal and limited in length."""
    return cut(plain(str(text)))


def columns_of(text: str) -> int:
    """Return the columns that a line of text takes on a terminal: two for a wide
    character, none for an accent.
    """
    return sum(map(_columns, text))


def _columns(character: str) -> int:
    # makes the character before it wide, on some terminals
    if character == "\N{VARIATION SELECTOR-16}":
        return 1
    is_mark = unicodedata.category(character) in ("Mn", "Me")
    if is_mark or unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def fit(text: str, columns: int) -> str:
    """Return the text; if it takes more than `columns` on a terminal, its start and
    three dots.
    """
    if columns_of(text) <= columns:
        return text
    shown = ""
    remaining = columns - len(_DOTS)
    for character in text:
        remaining -= _columns(character)
        if remaining < 0:
            break
        shown += character
    return f"{shown.rstrip()}{_DOTS}"[: max(0, columns)]


_DOTS = "..."
