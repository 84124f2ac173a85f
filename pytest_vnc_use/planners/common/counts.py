"""Counts of tokens, as services tell them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def count_of(counts: Any, *path: str) -> int:
    """The count at this path, 0 where there is none: one that cannot be read is no reason to throw an answer away."""
    for name in path:
        counts = counts.get(name) if isinstance(counts, Mapping) else None
    return counts if isinstance(counts, int) and not isinstance(counts, bool) and counts > 0 else 0
