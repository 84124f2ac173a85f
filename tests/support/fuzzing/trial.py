"""What is fuzzed, and one target under trial: each case is tried, and what it must not do is noticed."""

from __future__ import annotations

import resource
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

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
    most_s: float = 60.0


@contextmanager
def on_trial(target: Target, place: Path) -> Iterator[Callable[[int], None]]:
    """Yield what tries the case of a seed, in `place / inside`; all else in `place` must stay as it is.

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
                    raise AssertionError(f"a message of {len(str(exc))} characters") from exc
            took_s = time.monotonic() - started_s
            assert took_s <= target.most_s, f"it took {took_s:.1f} s"
            there = [path.name for path in place.iterdir()]
            assert there == ["inside"], f"written outside: {there}"

        for seed in range(_WARM_UP):  # what is imported and cached at the first call is not the case's
            tried(seed)
        yield tried


def peak_mb() -> float:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
