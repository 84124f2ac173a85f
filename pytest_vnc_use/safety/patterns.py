"""Regular expressions of rules, with a time limit for the search.

Python's `re` has no limit, and may search for years. Only this module knows `regex`. That reads the syntax of `re`, and
more; this module disables the rest.
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
"""The most processor time that a rule may take to search for one pattern, in all texts of one action together."""
MOST_PATTERN = 10_000
"""The most characters of a pattern."""
MOST_REPEATS = 100_000
"""The largest product of all counts in a pattern: `regex` writes the repetitions out when it compiles them."""
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
    """The error where a review of an action would exceed a limit; the message names the limit."""


class PatternTooSlow(NotReviewed):
    """The error where the search for a pattern did not end in time; the message names the pattern."""


class Match(Protocol):
    """The place where a pattern was found."""

    def start(self) -> int:
        """Return the index of its first character."""

    def end(self) -> int:
        """Return the index after its last character."""


def in_slashes(pattern: re.Pattern[str]) -> str:
    """Return the pattern between slashes, cut and made plain for one line of a message."""
    return f"/{cut(plain(pattern.pattern), _LONGEST)}/"


class Finds(Protocol):
    """A search for something in texts."""

    def find(self, text: str, at: int = 0) -> Match | None:
        """Return the first place from `at`; None where there is none."""


class Search:
    """A search for one pattern in many texts, which may take `limit_s` of processor time.

    A busy machine refuses no action: `regex` counts processor time too.
    """

    def __init__(self, pattern: re.Pattern[str], limit_s: float = MOST_SEARCH_S) -> None:
        self._pattern = pattern
        self._compiled = _compiled(pattern)
        self._limit_s = limit_s
        self._until = time.process_time() + limit_s

    def find(self, text: str, at: int = 0) -> Match | None:
        """Return the first match of the pattern from `at`; None where there is none.

        Raises PatternTooSlow once the time is up.
        """
        left_s = self._until - time.process_time()
        try:
            if left_s > 0:
                return self._compiled.search(text, at, timeout=left_s)
        except TimeoutError:
            pass
        raise PatternTooSlow(f"the search for {in_slashes(self._pattern)} took longer than {self._limit_s:g} s")


class JoinedText(NamedTuple):
    """A text that typing added up to. The new text, or the place of a removed one, lies between `start` and `end`."""

    text: str
    start: int
    end: int

    def shows(self, search: Finds) -> bool:
        """Return whether the new part is in a match of the pattern, so that it was not there before.

        Raises PatternTooSlow.
        """
        at = 0
        edge = int(self.start == self.end)  # what was removed stood beside both of its neighbours
        while at <= len(self.text) and (found := search.find(self.text, at)):
            if found.start() >= self.end + edge:
                return False
            if found.end() + edge > self.start:
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
        raise ValueError(f"the product of a pattern's counts must be at most {MOST_REPEATS}, got {in_slashes(pattern)}")
    try:
        _compiled(pattern)
    except regex.error as exc:
        raise ValueError(f"the pattern {in_slashes(pattern)} cannot be read ({exc})") from exc


def slow_character(pattern: re.Pattern[str]) -> str:
    """Return a character whose repetition makes the search for the pattern too slow; "" if none was found."""
    characters = dict.fromkeys(["a", "0", " ", *(character for character in pattern.pattern if character.isalnum())])
    for character in list(characters)[:_MOST_PROBES]:
        try:
            Search(pattern, _PROBE_S).find(character * 100 + "\0")
        except PatternTooSlow:
            return character
    return ""


@lru_cache(maxsize=1_000)
def _compiled(pattern: re.Pattern[str]) -> regex.Pattern[str]:
    """Return the pattern as `regex` compiles it, with the meaning that it has in `re`.

    A brace without a count is a plain brace to `re`; to `regex` "a{e}" would be an "a" with errors.
    """
    flags = regex.VERSION0
    for flag, same in _FLAGS.items():
        if pattern.flags & flag:
            flags |= same
    text = _BRACES.sub(lambda found: found[1] or r"\{", pattern.pattern)
    return regex.compile(text, flags)
