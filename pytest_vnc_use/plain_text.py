"""Text from a model, a program or a server, made safe for a terminal and a report."""

from __future__ import annotations

LONGEST = 2_000
"""The most characters of a reason or a message that are shown. The run folder's exchanges hold the full text."""


def plain(text: str) -> str:
    """Return the text on one line without control characters: no escape sequence of a model reaches a terminal."""
    return "".join(character if character.isprintable() else " " for character in text)


_SLACK = 100
"""Extra length that `cut` allows, so that it does not cut a text again that is already cut and says so."""


def cut(text: str, most: int = LONGEST) -> str:
    """Return the text; if it is longer than `most` characters, its beginning and its length."""
    return text if len(text) <= most + _SLACK else f"(the first {most} of {len(text)} characters) {text[:most]}"


def line(text: object) -> str:
    """Return the text as one line that is safe for a terminal and limited in length."""
    return cut(plain(str(text)))
