"""Text that a model, a program or a server gave, as it may stand in a terminal and in a report."""

from __future__ import annotations

LONGEST = 2_000
"""Characters of a reason or a message that are told; all of it is in the run folder's exchanges."""


def plain(text: str) -> str:
    """The text on one line, without control characters: no escape sequence of a model's reaches a terminal."""
    return "".join(character if character.isprintable() else " " for character in text)


_SLACK = 100
"""What is cut already, and says so, is not cut again."""


def cut(text: str, most: int = LONGEST) -> str:
    """The text; of one that is longer than `most` characters, its beginning and how long it is."""
    return text if len(text) <= most + _SLACK else f"(the first {most} of {len(text)} characters) {text[:most]}"


def line(text: object) -> str:
    """A line for a terminal: harmless, and bounded."""
    return cut(plain(str(text)))
