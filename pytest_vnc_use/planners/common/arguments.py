"""The arguments of a model's call. They are read and checked, and none is dropped silently."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, Union

from pytest_vnc_use.types import (
    PIXELS_A_NOTCH as PIXELS_A_NOTCH,
    Action,
    Direction,
    FrameRef,
    InvalidAction,
    JsonObject,
)
from pytest_vnc_use.types.keys import split_words

MOST_NOTCHES = 50
LONGEST_WAIT_S = 60.0

DIRECTIONS: dict[str, Direction] = {"up": "up", "down": "down", "left": "left", "right": "right"}
REASONS = ("intent", "reason", "reasoning", "thought", "explanation")
"""The names under which a model gives the reason for a call. The first one that is given becomes the intent."""


class Unreadable(Exception):
    """An argument of a call is missing, unknown, or has no meaning. The text is for the model.

    `kind` is the type of the error, for toolsets that name one.
    """

    def __init__(self, problem: str, kind: str = "invalid_args") -> None:
        super().__init__(problem)
        self.kind = kind


class TrackedArguments(Mapping[str, Any]):
    """The arguments of one call. `asked` are the names that its reader has looked up."""

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
        """Raise Unreadable if an argument was given that the reader did not look up.

        `known` are the names of all calls. `takes` are the arguments of this one, for the message; without them it
        lists the names that were looked up.
        """
        given = [name for name, value in self._values.items() if value not in (None, "", [], {})]
        left = [name for name in given if name not in (*self.asked, *REASONS)]
        if not left:
            return
        names = ", ".join(takes or filter(None, self.asked)) or "none"
        unknown = ", ".join(f"{name}={self._values[name]!r:.60}" for name in left)
        with_button = f"{self._values.get('button')}_click"
        hint = f"; there is {with_button}" if with_button in known else ""
        raise Unreadable(f"{call!r:.100} does not take {unknown}; its arguments: {names}{hint}")


def reason_in(args: Mapping[str, Any]) -> str:
    """Return the model's reason for the call, if an argument gives one."""
    return next((str(args[name]) for name in REASONS if args.get(name)), "")


@dataclass(frozen=True)
class Arguments:
    """The arguments of one call, and the screen of its coordinates."""

    values: JsonObject
    screen: FrameRef

    def check(self, call: str, known: Collection[str], takes: Collection[str] = ()) -> None:
        """Raise Unreadable if an argument was given that the reader did not look up, as `TrackedArguments.check`."""
        if isinstance(self.values, TrackedArguments):
            self.values.check(call, known, takes)

    def has(self, *names: str) -> bool:
        """Return whether one of these arguments was given."""
        return any(self.values.get(name) is not None for name in names)

    def first(self, *names: str) -> Any:
        """Return the first of these arguments that was given. Raises Unreadable if none was."""
        return first_of(self.values, *names)

    def text(self, *names: str) -> str:
        """Return the first of these arguments that was given, as text. Raises Unreadable if none was, or no text."""
        value = self.first(*names)
        if isinstance(value, (Mapping, list, tuple)):
            raise Unreadable(f"{names[0]!r} must be text, got {value!r:.100}")
        return str(value)

    def flag(self, name: str, *, default: bool) -> bool:
        """Return the argument as true or false. Raises Unreadable if it is neither."""
        value = self.values.get(name)
        if value is None:
            return default
        flag = _FLAGS.get(str(value).strip().lower())
        if flag is None:
            raise Unreadable(f"{name!r} must be true or false, got {value!r:.100}")
        return flag

    def number(self, *names: str, default: float) -> float:
        """Return the first of these arguments that was given, as a number. Raises Unreadable if it is none."""
        return number_of(names[0], self.first(*names)) if self.has(*names) else default

    def direction(self, *names: str) -> Direction:
        """Return the direction under the first of these names that was given. Raises Unreadable."""
        word = self.first(*names)
        found = DIRECTIONS.get(str(word).strip().lower())
        if found is None:
            raise Unreadable(f"{names[0]!r} must be up, down, left or right, got {word!r:.100}")
        return found

    def keys(self, *names: str) -> tuple[str, ...]:
        """Return the keys under the first of these names that was given; none if none was. Raises Unreadable."""
        return split_keys(self.first(*names)) if any(map(self.values.get, names)) else ()

    def middle(self) -> tuple[int, int]:
        """Return the middle of the screen."""
        return self.screen.width // 2, self.screen.height // 2


AnyArguments = TypeVar("AnyArguments", bound=Arguments)
Reader = Callable[[AnyArguments], Union[Action, tuple[Action, ...]]]
"""A function that reads the arguments of one action. It raises Unreadable."""


def read_action(
    name: str,
    args: AnyArguments,
    readers: Mapping[str, Reader[AnyArguments]],
    *,
    offered: Collection[str],
    excluded: Collection[str] = (),
    noun: str = "action",
) -> tuple[Action, ...]:
    """Return what a call means: its actions, or one that says why it cannot be performed.

    `readers` are all known calls. `offered` are the names of those that the model may make in this run.
    """
    if name not in readers:
        problem = f"there is no {noun} {name!r:.100}; there are {', '.join(offered)}"
    elif name in excluded:
        problem = f"{name!r} is excluded in this run; use another {noun}"
    else:
        try:
            meant = readers[name](args)
            args.check(name, offered)
            return meant if isinstance(meant, tuple) else (meant,)
        except Unreadable as exc:
            problem = str(exc)
    return (InvalidAction(name, problem),)


_FLAGS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def first_of(values: Mapping[str, Any], *names: str) -> Any:
    """Return the first value under one of the names. Raises Unreadable if there is none."""
    for name in names:
        if values.get(name) is not None:
            return values[name]
    raise Unreadable(f"{names[0]!r} is missing, got {dict(values)!r}")


def is_pair(value: Any) -> bool:
    """Return whether the value is a list or tuple of at least two items."""
    return isinstance(value, (list, tuple)) and len(value) >= 2


def number_of(name: str, value: Any) -> float:
    """Return a finite number, also from text. Raises Unreadable."""
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise Unreadable(f"{name!r} must be a number, got {value!r}")
    return number


def whole_notches(count: float) -> int:
    """Return whole wheel clicks, at least one. Raises Unreadable if there are none or too many."""
    if not 0 < count <= MOST_NOTCHES:
        raise Unreadable(f"scrolling goes by more than 0 and at most {MOST_NOTCHES} clicks of the wheel, got {count:g}")
    return max(round(count), 1)


def split_keys(keys: Any) -> tuple[str, ...]:
    """Return `"Control+A"`, `["ctrl", "a"]` or `"+"` as single keys in order. A plus after a plus is the key itself.

    Raises Unreadable if there is no key.
    """
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


def seconds_to_wait(duration_s: float) -> float:
    """Return the seconds of one wait. Raises Unreadable if they are too many or negative."""
    if not 0 <= duration_s <= LONGEST_WAIT_S:
        raise Unreadable(f"a wait takes 0 to {LONGEST_WAIT_S:g} seconds, got {duration_s:g}; wait again where needed")
    return duration_s


Coordinates = Literal["1000", "pixels"]
"""The unit of a model's coordinates: thousandths of the screen, whatever its shape, or pixels of the screenshot."""

GRID = 1000
LONGEST_SPELLING = 200
CORNERS = (("x1", "y1", "x2", "y2"), ("left", "top", "right", "bottom"), ("x", "y"))

_TAG = re.compile(r"<[^<>]*>")
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)")
_LETTER = re.compile(r"[^\W\d_]")


def pixel_of(value: Any, screen: FrameRef, counted: tuple[int, int] = (GRID, GRID)) -> tuple[int, int]:
    """Return the point, or the centre of the box, as a pixel inside the screen. Raises Unreadable.

    `counted` are the width and the height of the screen in the model's unit. `value` is `[x, y]`, `[x1, y1, x2, y2]`,
    `[[x1, y1], [x2, y2]]`, the same as text, or an object with these names; numbers may be text. A point outside is
    moved to the edge. The corners of a box may be in either order.
    """
    numbers = numbers_of(value)
    if len(numbers) not in (2, 4) or not all(map(math.isfinite, numbers)):
        spelled = repr(value)[:LONGEST_SPELLING]
        raise Unreadable(f"a point must be [x, y], or a box [x1, y1, x2, y2], in numbers, got {spelled}")
    return _pixel(numbers[::2], screen.width, counted[0]), _pixel(numbers[1::2], screen.height, counted[1])


def _pixel(sides: list[float], size: int, counted: int) -> int:
    """Return the middle of two sides of a box, or the one coordinate of a point, in pixels."""
    pixels = [side * size / counted for side in sides]
    inside = [min(max(pixel, 0.0), size - 1.0) for pixel in pixels]
    return int(sum(inside) / len(inside))


def numbers_of(value: Any) -> list[float]:
    """Return all numbers of a spelling, in order. Anything else in it becomes NaN."""
    match value:
        case str():
            return _numbers_of_text(value)
        case Mapping():
            return numbers_of(_corners(value))
        case list() | tuple():
            return [number for item in value for number in numbers_of(item)]
        case int() | float() if not isinstance(value, bool):
            return [_as_float(value)]
        case _:
            return [math.nan]


def _corners(value: Mapping[str, Any]) -> Any:
    """Return the coordinates of an object that is a point or a box, in order; or the content of one around it."""
    named = next((names for names in CORNERS if all(name in value for name in names)), None)
    if named is not None:
        return [value[name] for name in named]
    return next(iter(value.values())) if len(value) == 1 else None


def _numbers_of_text(text: str) -> list[float]:
    """Return the numbers of `(500, 250)`, `500 250` or `<point>500 250</point>`; NaN for a sentence with numbers."""
    if len(text) > LONGEST_SPELLING:
        return [math.nan]
    bare = _TAG.sub(" ", text)
    return [math.nan] if _LETTER.search(bare) else [float(number) for number in _NUMBER.findall(bare)]


def _as_float(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf
