"""What is fuzzed, as a value: a name, and a way to try one case."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from random import Random

Try = Callable[[Random], None]
"""A function that tries one case. It raises what the code under test raises."""


@dataclass(frozen=True)
class Target:
    """Something that reads what strangers make.

    `open` gets an empty folder, and yields the way to try a case there; nothing may be written outside that folder.
    `examples` is how many cases a run of the tests tries. The only errors are those of the package, and `allowed`.
    """

    name: str
    open: Callable[[Path], AbstractContextManager[Try]]
    examples: int = 100
    allowed: tuple[type[BaseException], ...] = ()
    most_s: float = 10.0
