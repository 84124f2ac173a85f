"""What is fuzzed, and one target under trial: each case is tried, and what it must not
do is noticed.
"""

from __future__ import annotations

import copy
import resource
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from pytest_vnc_use.errors import VncUseError
from pytest_vnc_use.types import Drag, FrameRef, Scroll, Wait

DEEP = 12_000
_VALUES: tuple[Any, ...] = (None, True, False, [], {}, [[]], {"": ""}, [None])
_NUMBERS = (0, -1, 2**31, 2**64, 10**400, 1e308, 0.5, float("nan"), float("inf"))
_TEXTS = (
    "",
    " ",
    "\0",
    "\ud800",
    "\x1b[2J\x1b]0;owned\x07",
    "a" * 5000,
    "../../../../etc/passwd",
    "/dev/zero",
    "-x",
    "nan",
    "9" * 5000,
    "{0.__class__}",
    "{{7*7}}",
    "<script>",
)
_NESTED: tuple[Any, ...] = (["x"] * 50, {"x": {"x": {}}})
HOSTILE = (*_VALUES, *_NUMBERS, *_TEXTS, *_NESTED)
TOKENS = (
    b"\0",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\xed\xa0\x80",
    b"\n",
    b'"',
    b"\\u0000",
    b"nan",
    b"1e999",
    b"9" * 5000,
    b"[" * DEEP,
    b'{"a":' * DEEP,
    b"/dev/zero",
)


def mutated(random: Random, data: bytes) -> bytes:
    for _ in range(random.randint(1, 4)):
        at = random.randint(0, len(data))
        end = min(len(data), at + random.choice((1, 1, 2, 8, 64, 1000)))
        head = data[:at]
        part = data[at:end]
        tail = data[end:]
        match random.randrange(5):
            case 0:
                data = head + random.randbytes(len(part)) + tail
            case 1:
                data = head + tail
            case 2:
                data = head + part * random.choice((2, 3, 31)) + tail
            case 3:
                data = head + random.choice(TOKENS) + random.choice((part, b"")) + tail
            case _:
                data = head
    return data


def mutated_json(random: Random, value: Any) -> Any:
    holder = [copy.deepcopy(value)]
    for _ in range(random.randint(1, 3)):
        container, key = random.choice([*_places(holder)])
        old = container[key]
        match random.randrange(8):
            case 0 | 1 | 2 | 3:
                container[key] = hostile(random)
            case 4 if container is not holder:
                del container[key]
            case 5:
                for _ in range(random.choice((1, 30, 150))):
                    container[key] = [container[key]]
            case 6 if isinstance(old, list):
                container[key] = old * random.choice((0, 2, 20))
            case 7 if isinstance(old, dict):
                old[random.choice(("x", "", "kind", "name", "\0"))] = hostile(random)
            case _:
                container[key] = [old]
    return holder[0]


def _places(container: Any) -> Iterator[tuple[Any, Any]]:
    left = [container]
    while left:
        container = left.pop()
        for key in (
            list(container) if isinstance(container, dict) else range(len(container))
        ):
            yield container, key
            if isinstance(container[key], (dict, list)):
                left.append(container[key])


def hostile(random: Random) -> Any:
    return copy.deepcopy(random.choice(HOSTILE))


def assert_on_screen(action: Any, screen: FrameRef) -> None:
    """Assert that an action is performed on the screen, and ends."""
    points = []
    if getattr(action, "x", None) is not None:
        points.append((action.x, action.y))
    if isinstance(action, Drag):
        points.append((action.to_x, action.to_y))
    for x, y in points:
        assert type(x) is type(y) is int, action
        assert 0 <= x < screen.width, action
        assert 0 <= y < screen.height, action
    assert not isinstance(action, Wait) or 0 <= action.duration_s <= 60, action
    assert not isinstance(action, Scroll) or 1 <= action.clicks <= 1000, action


MAX_MB = 300
_LONGEST_MESSAGE = 200_000
_WARM_UP = 3

Try = Callable[[Random], None]
"""A function that tries one case. It raises what the code under test raises."""


@dataclass(frozen=True)
class Target:
    """Something that reads what strangers make. The only errors are those of the
    package.

    `open` gets an empty directory, outside of which nothing may be written, and yields
    the way to try a case there. `examples` is how many cases a run of the tests tries.
    """

    name: str
    open: Callable[[Path], AbstractContextManager[Try]]
    examples: int
    most_s: float = 60.0


@contextmanager
def on_trial(target: Target, place: Path) -> Iterator[Callable[[int], None]]:
    """Yield what tries the case of a seed, in `place / inside`; all else in `place`
    must stay as it is.

    It raises what the code under test raised beyond its own errors, or AssertionError.
    """
    inside = place / "inside"
    inside.mkdir()
    with target.open(inside) as attempt:

        def tried(seed: int) -> None:
            started_s = time.monotonic()
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    attempt(Random(seed))
            except VncUseError as exc:
                if len(str(exc)) > _LONGEST_MESSAGE:
                    raise AssertionError(
                        f"a message of {len(str(exc))} characters"
                    ) from exc
            took_s = time.monotonic() - started_s
            assert took_s <= target.most_s, f"it took {took_s:.1f} s"
            there = [path.name for path in place.iterdir()]
            assert there == ["inside"], f"written outside: {there}"

        # what is imported and cached at the first call is not the case's
        for seed in range(_WARM_UP):
            tried(seed)
        yield tried


def peak_mb() -> float:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
