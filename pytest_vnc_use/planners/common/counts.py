"""Counts of tokens in the responses of services."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def count_of(counts: Any, *path: str) -> int:
    """Return the count at this path; 0 if there is none. An unreadable count is no reason to throw an answer away."""
    for name in path:
        counts = counts.get(name) if isinstance(counts, Mapping) else None
    return counts if isinstance(counts, int) and not isinstance(counts, bool) and counts > 0 else 0
