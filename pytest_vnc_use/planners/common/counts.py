"""Counts of tokens in the responses of services."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_MOST_DIGITS = 18


def count_of(counts: Any, *path: str) -> int:
    """Return the count at this path, a number or its digits; 0 if there is none.

    An unreadable count is no reason to throw an answer away.
    """
    for name in path:
        counts = counts.get(name) if isinstance(counts, Mapping) else None
    if isinstance(counts, str) and counts.isascii() and len(counts) <= _MOST_DIGITS and counts.isdecimal():
        counts = int(counts)
    return counts if isinstance(counts, int) and not isinstance(counts, bool) and counts > 0 else 0
