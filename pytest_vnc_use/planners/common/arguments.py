"""The arguments of a model's call: read, checked, and none of them dropped without a word."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_vnc_use.keyboard.keysyms import split_words
from pytest_vnc_use.types import FrameRef, JsonObject

PIXELS_A_NOTCH = 100
MOST_NOTCHES = 50
LONGEST_WAIT_S = 60.0

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


@dataclass(frozen=True)
class Arguments:
    """The arguments of one call, and the screen that its coordinates are meant for."""

    values: JsonObject
    screen: FrameRef

    def has(self, *names: str) -> bool:
        return any(self.values.get(name) is not None for name in names)

    def first(self, *names: str) -> Any:
        """The first of these arguments that was given. Raises Unreadable."""
        for name in names:
            if self.values.get(name) is not None:
                return self.values[name]
        raise Unreadable(f"{names[0]!r} is missing, got {dict(self.values)!r}")

    def text(self, *names: str) -> str:
        return str(self.first(*names))

    def flag(self, name: str, *, default: bool) -> bool:
        value = self.values.get(name)
        if value is None:
            return default
        said = _FLAGS.get(str(value).strip().lower())
        if said is None:
            raise Unreadable(f"{name!r} must be true or false, got {value!r:.100}")
        return said

    def number(self, *names: str, default: float) -> float:
        return number_of(names[0], self.first(*names)) if self.has(*names) else default

    def middle(self) -> tuple[int, int]:
        return self.screen.width // 2, self.screen.height // 2


_FLAGS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def is_pair(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and len(value) >= 2


def number_of(name: str, value: Any) -> float:
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise Unreadable(f"{name!r} must be a number, got {value!r}")
    return number


def whole_notches(count: float) -> int:
    """So many notches of the wheel, at least one. Raises Unreadable where they are none, or too many."""
    if not 0 < count <= MOST_NOTCHES:
        raise Unreadable(f"scrolling goes by more than 0 and at most {MOST_NOTCHES} clicks of the wheel, got {count:g}")
    return max(round(count), 1)


def split_keys(keys: Any) -> tuple[str, ...]:
    """`"Control+A"`, `["ctrl", "a"]` and `"+"` as single keys in order; a plus after a plus is the key itself."""
    spelled = [keys] if isinstance(keys, str) else keys
    if not isinstance(spelled, (list, tuple)) or not all(isinstance(key, str) for key in spelled):
        raise Unreadable(f"'keys' must be a key or a list of keys, got {keys!r}")
    split = tuple(word for text in spelled for key in _split(text) for word in split_words(key))
    if not split:
        raise Unreadable(f"'keys' must name at least one key, got {keys!r}")
    return split


def _split(text: str) -> list[str]:
    if text == " ":
        return [text]
    text = text.strip()
    if text.endswith("+"):
        before = text[:-1].removesuffix("+")
        return [*_split(before), "+"] if before else ["+"]
    return [key.strip() for key in text.split("+") if key.strip()]


def seconds_to_wait(seconds: float) -> float:
    """The seconds of one wait. Raises Unreadable where they are too many, or fewer than none."""
    if not 0 <= seconds <= LONGEST_WAIT_S:
        raise Unreadable(f"a wait takes 0 to {LONGEST_WAIT_S:g} seconds, got {seconds:g}; wait again where needed")
    return seconds
