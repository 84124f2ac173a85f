"""The results of reading one test: its looks, the calls that were read, and the amount of code that was read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pytest_vnc_use.body_checks.sights import Sights

MOST_READ = 50_000
"""The most expressions of one test that are read; with more the test is in doubt."""


@dataclass
class Sources:
    """The sources that a piece of code reads, by their names.

    `desktop`: the fixtures of this package. `connection`: one that may be older than the test. `files`: their paths.
    `sights` says which looks happened. `asserting` are calls that were read, and whether they assert; `read` counts the
    expressions.
    """

    desktop: bool = False
    connection: bool = False
    files: set[str] = field(default_factory=set)
    sights: Sights = field(default_factory=Sights)
    asserting: dict[tuple[object, ...], tuple[bool, object]] = field(default_factory=dict)
    read: int = 0

    def spend(self) -> None:
        """Count an expression that is read. Raises TooMuchToRead."""
        self.read += 1
        if self.read > MOST_READ:
            raise TooMuchToRead(f"more than {MOST_READ} expressions")


class TooMuchToRead(Exception):
    """The error that the code of a test is too long to be read in about a second."""


class Known(dict[str, Any]):
    """Facts by name that count their changes."""

    changes = 0

    def __setitem__(self, name: str, fact: Any) -> None:
        self.changes += 1
        super().__setitem__(name, fact)

    def update(self, *others: Any, **named: Any) -> None:
        """Note several facts."""
        self.changes += 1
        super().update(*others, **named)

    def pop(self, name: str, *default: Any) -> Any:
        """Forget what is known about a name."""
        self.changes += 1
        return super().pop(name, *default)
