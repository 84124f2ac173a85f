"""The arguments of a model's call, none of which is dropped without a word."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

REASONS = ("intent", "reason", "reasoning", "thought", "explanation")
"""Names under which a model says why it makes a call; the first that is given is kept as the intent."""


class Unreadable(Exception):
    """An argument of a call is missing, unknown, or has no meaning; the text is for the model."""


class Heeded(Mapping[str, Any]):
    """The arguments of one call; `asked` are the names that its reader has looked for."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)
        self.asked: dict[str, None] = {}

    def __getitem__(self, name: str) -> Any:
        self.asked[name] = None
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def check(self, call: str, known: Collection[str], takes: Collection[str] = ()) -> None:
        """Raises Unreadable where something was given that nobody has looked for.

        `known` are the names of all calls, `takes` the arguments of this one; else what was looked for is named.
        """
        left = [name for name in self._values if self._is_given(name) and name not in (*self.asked, *REASONS)]
        if not left:
            return
        names = ", ".join(takes or filter(None, self.asked)) or "none"
        told = ", ".join(f"{name}={self._values[name]!r:.60}" for name in left)
        raise Unreadable(f"{call!r:.100} does not take {told}; its arguments: {names}{self._other(known)}")

    def _is_given(self, name: str) -> bool:
        return self._values[name] is not None and self._values[name] not in ("", [], {})

    def _other(self, known: Collection[str]) -> str:
        """The call that clicks with the button that was asked for."""
        other = f"{self._values.get('button')}_click"
        return f"; there is {other}" if other in known else ""


def reason_in(args: Mapping[str, Any]) -> str:
    """Why the model makes the call, where it says so in an argument."""
    return next((str(args[name]) for name in REASONS if args.get(name)), "")
