"""The arguments of a model's call. They are read and checked, and none is dropped
silently.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal, TypeVar, Union

from pytest_vnc_use.types import (
    PIXELS_PER_WHEEL_CLICK as PIXELS_PER_WHEEL_CLICK,
    Action,
    Direction,
    FrameRef,
    InvalidAction,
    JsonObject,
)
from pytest_vnc_use.types.actions import Point
from pytest_vnc_use.types.keys import split_combination

T = TypeVar("T")
MAX_WHEEL_CLICKS = 50
MAX_WAIT_S = 60.0

DIRECTIONS: dict[str, Direction] = {
    "up": "up",
    "down": "down",
    "left": "left",
    "right": "right",
}
REASONS = ("intent", "reason", "thought")
"""The names under which a model gives the reason for a call. The first one present
becomes the intent.
"""


class Unreadable(Exception):
    """An argument of a call is missing, unknown, or has no meaning. The text is for the
    model.

    `kind` is the type of the error, for toolsets that name one.
    """

    def __init__(self, problem: str, kind: str = "invalid_args") -> None:
        super().__init__(problem)
        self.kind = kind


@dataclass(frozen=True)
class Arguments:
    """The arguments of one call, and the screen of its coordinates.

    `sent` is the size of the image that the model got, if its coordinates are pixels of
    it. `pointer` is the pointer position before the call, if known. `defaults` are
    those of the call's row.
    """

    values: JsonObject
    screen: FrameRef
    sent: tuple[int, int] | None = None
    pointer: Point | None = None
    defaults: JsonObject = field(default_factory=dict)
    _asked: dict[str, None] = field(default_factory=dict, init=False, repr=False)
    """The names that the reader has looked up."""

    def get(self, *names: str) -> Any:
        """Return the first of these arguments that was given; None if none was."""
        used = next(
            (name for name in names if self.values.get(name) is not None), names[0]
        )
        self._asked.update({names[0]: None, used: None})
        return self.values.get(used)

    def has(self, *names: str) -> bool:
        """Return whether one of these arguments was given."""
        return self.get(*names) is not None

    def first(self, *names: str) -> Any:
        """Return the first of these arguments that was given. Raises Unreadable if none
        was.
        """
        if (value := self.get(*names)) is None:
            raise Unreadable(f"{names[0]!r} is missing, got {dict(self.values)!r}")
        return value

    def text(self, *names: str) -> str:
        """Return the first of these arguments that was given, as text. Raises
        Unreadable if none was, or no text.
        """
        value = self.first(*names)
        if isinstance(value, (Mapping, list, tuple)):
            raise Unreadable(f"{names[0]!r} must be text, got {value!r:.100}")
        return str(value)

    def flag(self, name: str, *, default: bool) -> bool:
        """Return the argument as true or false. Raises Unreadable if it is neither."""
        if (value := self.get(name)) is None:
            return default
        flag = FLAGS.get(str(value).strip().lower())
        if flag is None:
            raise Unreadable(f"{name!r} must be true or false, got {value!r:.100}")
        return flag

    def number(self, *names: str, default: float | None = None) -> float:
        """Return the first of these arguments that was given, as a number. Raises
        Unreadable if it is none.

        If none was given, return `default`, or the default of the first name in the
        call's row.
        """
        if (value := self.get(*names)) is None:
            return float(self.defaults[names[0]]) if default is None else default
        return number_of(names[0], value)

    def further(self, name: str, choices: Mapping[str, T]) -> T | None:
        """Return the meaning of an argument that the tool does not declare. Return None
        if it was not given, or is none of the `choices`.
        """
        meant = choices.get(str(self.values.get(name)).strip().lower())
        if meant is not None:
            self._asked[name] = None
        return meant

    def direction(self, *names: str) -> Direction:
        """Return the direction under the first of these names that was given. Raises
        Unreadable.
        """
        value = self.first(*names)
        direction = DIRECTIONS.get(str(value).strip().lower())
        if direction is None:
            raise Unreadable(
                f"{names[0]!r} must be up, down, left or right, got {value!r:.100}"
            )
        return direction

    def keys(self, *names: str) -> tuple[str, ...]:
        """Return the keys under the first of these names that was given, or () if none
        was. Raises Unreadable.
        """
        keys = self.get(*names)
        return split_keys(keys) if keys else ()

    def middle(self) -> Point:
        """Return the middle of the screen."""
        return self.screen.width // 2, self.screen.height // 2

    def target(self) -> Point:
        """Return the point of the call. Raises Unreadable."""
        return self.point("")

    def at_pointer(self) -> Point:
        """Return the point of the call, or else the pointer position. Raises Unreadable
        if neither is known.
        """
        return self.pointer if self.pointer and not self.has_point() else self.target()

    def point(self, *prefixes: str) -> Point:
        """Return the point whose names have one of these prefixes, such as `from_`.
        Raises Unreadable.
        """
        value = next(
            (value for value in map(self._point_under, prefixes) if value is not None),
            None,
        )
        if value is None:
            raise Unreadable(
                f"a point is missing: give {prefixes[0]}x and {prefixes[0]}y"
            )
        return pixel_of(value, self.screen, self.sent)

    def has_point(self, prefix: str = "") -> bool:
        """Return whether a point was given under this prefix."""
        return self._point_under(prefix) is not None

    def _point_under(self, prefix: str) -> object:
        self._asked.update({f"{prefix}x": None, f"{prefix}y": None})
        for name in filter(
            self.values.get, (prefix.rstrip("_"), *(prefix + name for name in POINTS))
        ):
            self._asked[name] = None
            return self.values[name]
        corners = {
            name: self.values.get(prefix + name)
            for name in ("x", "y", "x1", "y1", "x2", "y2")
        }
        self._asked.update(
            {
                prefix + name: None
                for name, value in corners.items()
                if value is not None
            }
        )
        return {
            name: value for name, value in corners.items() if value is not None
        } or None

    def unread(self) -> str:
        """Return the arguments that were given and that the reader did not look up, as
        `name=value`; "" if there are none.
        """
        present = [
            name
            for name, value in self.values.items()
            if value not in (None, "", [], {})
        ]
        unread = [name for name in present if name not in (*self._asked, *REASONS)]
        return ", ".join(f"{name}={self.values[name]!r:.60}" for name in unread)

    def check(
        self,
        call: str,
        calls: Collection[str],
        takes: Collection[str] = (),
    ) -> None:
        """Raise Unreadable if an argument was given that the reader did not look up.

        `calls` are the names of all calls. `takes` are the arguments of this one, for
        the message (default: the names that were looked up).
        """
        if unknown := self.unread():
            names = ", ".join(takes or self._asked) or "none"
            with_button = f"{self.values.get('button')}_click"
            hint = f"; there is {with_button}" if with_button in calls else ""
            raise Unreadable(
                f"{call!r:.100} does not take {unknown}; its arguments: {names}{hint}"
            )


def reason_in(args: Mapping[str, Any]) -> str:
    """Return the model's reason for the call, if an argument gives one."""
    return next((str(args[name]) for name in REASONS if args.get(name)), "")


Reader = Callable[[Arguments], Union[Action, tuple[Action, ...]]]
"""A function that reads the arguments of one action. It raises Unreadable."""


def read_action(
    name: str,
    args: Arguments,
    readers: Mapping[str, Reader],
    *,
    offered: Collection[str],
    excluded: Collection[str] = (),
    noun: str = "action",
) -> tuple[Action, ...]:
    """Return what a call means: its actions, or one that says why it cannot be
    performed.

    `readers` are all supported calls. `offered` are the names of those that the model
    may make in this run.
    """
    if name not in readers:
        problem = f"there is no {noun} {name!r:.100}; there are {', '.join(offered)}"
    elif name in excluded:
        problem = f"{name!r} is excluded in this run; use another {noun}"
    else:
        try:
            actions = readers[name](args)
            args.check(name, offered)
            return actions if isinstance(actions, tuple) else (actions,)
        except Unreadable as exc:
            problem = str(exc)
    return (InvalidAction(name, problem),)


FLAGS = {"true": True, "false": False}


def number_of(name: str, value: Any) -> float:
    """Return a finite number, also from text. Raises Unreadable."""
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise Unreadable(f"{name!r} must be a number, got {value!r}")
    return number


def wheel_clicks(count: float) -> int:
    """Return the count without its sign, as at least one whole wheel click. Raises
    Unreadable if it is 0 or too large.
    """
    if not 0 < abs(count) <= MAX_WHEEL_CLICKS:
        raise Unreadable(
            f"a scroll must be more than 0 and at most {MAX_WHEEL_CLICKS} wheel clicks,"
            f" got {count:g}"
        )
    return max(round(abs(count)), 1)


def split_keys(keys: Any) -> tuple[str, ...]:
    """Return `"Control+A"`, `["ctrl", "a"]` or `"+"` as single keys in order. A plus
    after a plus is the key itself.

    Raises Unreadable if there is no key.
    """
    texts = [keys] if isinstance(keys, str) else keys
    if not isinstance(texts, (list, tuple)) or not all(
        isinstance(key, str) for key in texts
    ):
        raise Unreadable(f"'keys' must be a key or a list of keys, got {keys!r}")
    names: list[str] = []
    for text in texts:
        for key in _split(text):
            names += split_combination(key)
    if not names:
        raise Unreadable(f"'keys' must name at least one key, got {keys!r}")
    return tuple(names)


def _split(text: str) -> list[str]:
    if text == " ":
        return [text]
    text = text.strip()
    if text.endswith("+"):
        before = text[:-1].removesuffix("+")
        return [*_split(before), "+"] if before else ["+"]
    return [key.strip() for key in text.split("+") if key.strip()]


def seconds_to_wait(duration_s: float) -> float:
    """Return the seconds of one wait. Raises Unreadable if they are too many or
    negative.
    """
    if not 0 <= duration_s <= MAX_WAIT_S:
        raise Unreadable(
            f"a wait takes 0 to {MAX_WAIT_S:g} seconds, got {duration_s:g}; wait again"
            " where needed"
        )
    return duration_s


Coordinates = Literal["1000", "pixels"]
"""The unit of a model's coordinates: thousandths of the screen, whatever its shape, or
pixels of the screenshot.
"""

GRID = 1000
MAX_VALUE_LENGTH = 200
MAX_NUMBER = 1e300
POINTS = ("point", "coordinate")
"""The names under which models give a point, or a box around it, in one argument."""
CORNERS = (("x1", "y1", "x2", "y2"), ("x", "y"))

_TAG = re.compile(r"<[^<>]*>")
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)")
_LETTER = re.compile(r"[^\W\d_]")


def pixel_of(
    value: Any,
    screen: FrameRef,
    sent: tuple[int, int] | None = None,
) -> Point:
    """Return the point, or the centre of the box, as a pixel of the screen. Raises
    Unreadable.

    `value` is `[x, y]`, `[x1, y1, x2, y2]`, `[[x1, y1], [x2, y2]]`, the same as text,
    or an object with these names; numbers may be text, and the corners of a box in
    either order. With `sent`, they are pixels of an image of this size, and the point
    must lie on it. Without, they are thousandths of the screen, and a point outside is
    moved to the edge.
    """
    numbers = numbers_of(value)
    if len(numbers) not in (2, 4) or not all(map(math.isfinite, numbers)):
        raise Unreadable(
            "a point must be [x, y], or a box [x1, y1, x2, y2], in numbers, got"
            f" {repr(value)[:MAX_VALUE_LENGTH]}"
        )
    xs = numbers[::2]
    ys = numbers[1::2]
    if sent is None:
        x = _centre([min(max(number, 0.0), GRID) for number in xs])
        y = _centre([min(max(number, 0.0), GRID) for number in ys])
        return on_grid(x, screen.width), on_grid(y, screen.height)
    across = _pixel_on(
        "x",
        _centre(xs),
        sent[0],
        screen.width,
    )
    down = _pixel_on(
        "y",
        _centre(ys),
        sent[1],
        screen.height,
    )
    return across, down


def _centre(side: Sequence[float]) -> float:
    return sum(side) / len(side)


def _pixel_on(
    name: str,
    number: float,
    sent: int,
    whole: int,
) -> int:
    """Return the pixel along a side of the screen, `whole` long, of a pixel in an image
    that was `sent`. Raises Unreadable.
    """
    if not 0 <= number <= sent:
        raise Unreadable(
            f"{name!r} must lie on the screenshot, 0 to {sent - 1}, got {number:g}"
        )
    return min(int((number + 0.5) * whole / sent), whole - 1)


def on_grid(number: float, size: int) -> int:
    """Return the pixel of a number of thousandths along a side of the screen, at most
    the last one.
    """
    return max(0, min(round(number * size / GRID), size - 1))


def numbers_of(value: Any) -> list[float]:
    """Return all numbers of a value, in order. Anything else in it becomes NaN.

    Text may be `(500, 250)`, `500 250` or `<point>500 250</point>`, but no sentence
    with numbers.
    """
    match value:
        case str() if len(value) <= MAX_VALUE_LENGTH and not _LETTER.search(
            bare := _TAG.sub(" ", value)
        ):
            return [float(number) for number in _NUMBER.findall(bare)]
        case Mapping():  # a point, a box, or something around one
            for names in CORNERS:
                if value.keys() >= set(names):
                    return numbers_of([value[name] for name in names])
            return numbers_of(list(value.values()) if len(value) == 1 else None)
        case list() | tuple():
            return list(chain.from_iterable(map(numbers_of, value)))
        case int() | float() if (
            not isinstance(value, bool) and abs(value) <= MAX_NUMBER
        ):
            return [float(value)]
        case _:
            return [math.nan]
