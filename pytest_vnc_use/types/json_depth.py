"""The depth of a JSON value, which is limited wherever one comes in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DEEPEST = 100
"""The most levels of nested JSON. No model needs more, and deeper JSON breaks the programs that read it."""
TOO_DEEP = f"must not be more than {DEEPEST} levels of JSON deep"


def is_shallow(value: Any, levels: int = DEEPEST) -> bool:
    """Return whether a JSON value has at most this many levels."""
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else ()
    return levels >= 0 and all(is_shallow(item, levels - 1) for item in inner)
