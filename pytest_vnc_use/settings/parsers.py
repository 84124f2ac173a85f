"""The parsers of a setting's text. Each returns the value, or raises a ValueError that says what would be right."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any


def words(text: str) -> tuple[str, ...]:
    """Return the words, which commas or spaces separate."""
    return tuple(text.replace(",", " ").split())


def switch(text: str) -> bool:
    """Return true for `true`, `yes`, `on`, `1`, and false for `false`, `no`, `off`, `0`, in either case."""
    known = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
    if text.lower() not in known:
        raise ValueError("true or false")
    return known[text.lower()]


def count(text: str) -> int:
    """Return a whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise ValueError("a whole number, at least 1")
    return int(text)


def odd(text: str) -> int:
    """Return an odd number of at least 1."""
    if not text.isdecimal() or int(text) % 2 == 0:
        raise ValueError("an odd number, at least 1")
    return int(text)


def count_or_none(text: str) -> int:
    """Return a whole number of at least 0; 0 stands for none."""
    if not text.isdecimal():
        raise ValueError("a whole number, 0 for none")
    return int(text)


def limit(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return a parser of a limit that is optional: empty text gives None."""
    return lambda text: read(text) if text else None


def _above_zero(text: str, unit: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise ValueError(f"a number of {unit} above 0")
    return number


def seconds(text: str) -> float:
    """Return a number of seconds above 0."""
    return _above_zero(text, "seconds")


def dollars(text: str) -> float:
    """Return a number of US dollars above 0."""
    return _above_zero(text, "US dollars")


def pause(text: str) -> float:
    """Return a number of seconds, 0 or more."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise ValueError("a number of seconds, 0 or more")
    return number


def pairs(text: str) -> tuple[str, ...]:
    """Return the words NAME=VALUE, which commas or spaces separate; a value may have commas."""
    found = tuple(re.split(r"[\s,]+(?=\w+=)", text.strip())) if text.strip() else ()
    if not all(re.match(r"\w+=\S", word) and " " not in word for word in found):
        raise ValueError("words NAME=VALUE")
    return found


def size(text: str) -> tuple[int, int]:
    """Return width and height in pixels from text such as `1440x900`."""
    width, x, height = text.lower().partition("x")
    if not (x and width.isdecimal() and height.isdecimal() and int(width) and int(height)):
        raise ValueError("WIDTHxHEIGHT in pixels, such as 1440x900")
    return int(width), int(height)


def one_of(*choices: str) -> Callable[[str], str]:
    """Return a parser that accepts only these choices. An empty one stands for no setting, and no error names it."""

    def read(text: str) -> str:
        if text not in choices:
            raise ValueError("one of " + ", ".join(filter(None, choices)))
        return text

    return read
