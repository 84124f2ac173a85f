"""Regular expressions of rules, searched for within a limit of time: Python's `re` has none, and may search for years.

Nothing but this module knows `regex`, which reads what `re` reads, and more; that more is taken from it here.
"""

from __future__ import annotations

import math
import re
import time
from functools import lru_cache
from typing import NamedTuple, Protocol

import regex

from pytest_vnc_use.plain_text import cut, plain

MOST_SEARCH_S = 2.0
"""So long a rule may search for one pattern, in all the texts of one action together."""
MOST_PATTERN = 10_000
"""Characters of a pattern."""
MOST_REPEATS = 100_000
"""All the counts of a pattern multiplied: `regex` writes them out when it reads it."""
_COUNT = re.compile(r"\{(\d*),?(\d*)\}")
_LONGEST = 300
_PROBE_S = 0.5
_MOST_PROBES = 20
_FLAGS = {
    re.IGNORECASE: regex.IGNORECASE,
    re.MULTILINE: regex.MULTILINE,
    re.DOTALL: regex.DOTALL,
    re.VERBOSE: regex.VERBOSE,
    re.ASCII: regex.ASCII,
}
_BRACES = re.compile(r"(\\N\{[^}]*\}|\\.|\{\d+(?:,\d*)?\}|\{,\d*\})|\{", re.DOTALL)


class NotReviewed(Exception):
    """An action cannot be ruled on within the limits of a review; the message says which."""


class PatternTooSlow(NotReviewed):
    """A pattern was not searched to the end within its time; the message names it."""


class Found(Protocol):
    """Where a pattern was found."""

    def start(self) -> int: ...

    def end(self) -> int: ...


def in_slashes(pattern: re.Pattern[str]) -> str:
    """Return the pattern as it stands in a line of a message."""
    return f"/{cut(plain(pattern.pattern), _LONGEST)}/"


class Search:
    """Searches for one pattern in many texts, until `limit_s` from now."""

    def __init__(self, pattern: re.Pattern[str], limit_s: float = MOST_SEARCH_S) -> None:
        self._pattern = pattern
        self._compiled = _compiled(pattern)
        self._limit_s = limit_s
        self._until = time.monotonic() + limit_s

    def find(self, text: str, at: int = 0) -> Found | None:
        """Return the first place of the pattern from `at`. Raises PatternTooSlow once the time is up."""
        left_s = self._until - time.monotonic()
        try:
            if left_s > 0:
                return self._compiled.search(text, at, timeout=left_s)
        except TimeoutError:
            pass
        raise PatternTooSlow(f"{in_slashes(self._pattern)} was not searched to the end within {self._limit_s:g} s")


class Joined(NamedTuple):
    """A text that typing added up to; what is new or was taken away lies between `start` and `end`."""

    text: str
    start: int
    end: int

    def shows(self, search: Search) -> bool:
        """Whether the pattern is found where the text is new, and was not there before. Raises PatternTooSlow."""
        at = 0
        while at <= len(self.text) and (found := search.find(self.text, at)):
            if found.start() >= self.end:
                return False
            if found.end() > self.start:
                return True
            at = found.start() + 1
        return False


def check(pattern: re.Pattern[str]) -> None:
    """Raise ValueError where the pattern cannot be searched for."""
    length = len(pattern.pattern)
    if length > MOST_PATTERN:
        raise ValueError(f"a pattern must have at most {MOST_PATTERN} characters, got {length}")
    repeats = math.prod(max(1, *(int(count or 1) for count in counts)) for counts in _COUNT.findall(pattern.pattern))
    if repeats > MOST_REPEATS:
        raise ValueError(f"the counts of a pattern must multiply to at most {MOST_REPEATS}, got {in_slashes(pattern)}")
    try:
        _compiled(pattern)
    except regex.error as exc:
        raise ValueError(f"the pattern {in_slashes(pattern)} cannot be read ({exc})") from exc


def slow_character(pattern: re.Pattern[str]) -> str:
    """Return a character in whose repetition the pattern is not searched for in time; "" where none was found."""
    characters = dict.fromkeys(["a", "0", " ", *(character for character in pattern.pattern if character.isalnum())])
    for character in list(characters)[:_MOST_PROBES]:
        try:
            Search(pattern, _PROBE_S).find(character * 100 + "\0")
        except PatternTooSlow:
            return character
    return ""


@lru_cache(maxsize=1_000)
def _compiled(pattern: re.Pattern[str]) -> regex.Pattern[str]:
    """A brace that counts nothing is a brace to `re`; to `regex` "a{e}" would be an "a" with errors."""
    flags = regex.VERSION0
    for flag, same in _FLAGS.items():
        if pattern.flags & flag:
            flags |= same
    text = _BRACES.sub(lambda found: found[1] or r"\{", pattern.pattern)
    return regex.compile(text, flags)
