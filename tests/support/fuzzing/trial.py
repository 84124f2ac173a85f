"""What is fuzzed, and one target under trial: each case is tried, and what it must not do is noticed."""

from __future__ import annotations

import resource
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random

from typing_extensions import Self

from pytest_vnc_use.errors import VncUseError

MOST_MB = 300
_LONGEST_MESSAGE = 200_000
_WARM_UP = 3


Try = Callable[[Random], None]
"""A function that tries one case. It raises what the code under test raises."""


@dataclass(frozen=True)
class Target:
    """Something that reads what strangers make.

    `open` gets an empty directory, and yields the way to try a case there; nothing may be written outside that
    directory. `examples` is how many cases a run of the tests tries. The only errors are those of the package.
    """

    name: str
    open: Callable[[Path], AbstractContextManager[Try]]
    examples: int = 100
    most_s: float = 10.0


class Trial:
    """A target in a directory of its own, `place / inside`; all else in `place` must stay as it is."""

    def __init__(self, target: Target, place: Path) -> None:
        self._target, self._place = target, place

    def __enter__(self) -> Self:
        inside = self._place / "inside"
        inside.mkdir()
        self._stack = ExitStack()
        self._try = self._stack.enter_context(self._target.open(inside))
        for seed in range(_WARM_UP):  # what is imported and cached at the first call is not the case's
            self.attempt(seed)
        self._start_mb = _peak_mb()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def examples(self) -> int:
        """The number of cases that a run of the tests tries."""
        return self._target.examples

    @property
    def memory_mb(self) -> float:
        """The most memory of this process since the start, above what it had then."""
        return _peak_mb() - self._start_mb

    def attempt(self, random: int | Random) -> None:
        """Try the case of a seed, or of random numbers.

        Raises what the code under test raised beyond its own errors, or AssertionError.
        """
        began_s = time.monotonic()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._try(random if isinstance(random, Random) else Random(random))
        except VncUseError as exc:
            if len(str(exc)) > _LONGEST_MESSAGE:
                raise AssertionError(f"a message of {len(str(exc))} characters") from exc
        took_s = time.monotonic() - began_s
        assert took_s <= self._target.most_s, f"it took {took_s:.1f} s"
        there = [path.name for path in self._place.iterdir()]
        assert there == ["inside"], f"written outside: {there}"


def _peak_mb() -> float:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
