"""How a test must read once its user has corrected the text of a claim at the page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

_ESCAPED = frozenset("\"'\\")
"""The characters that a line may have to escape."""


class Corrections:
    """The claims of a test in its file. `path` is how a user names the file."""

    def __init__(self, module: Path, path: str) -> None:
        self._module = module
        self._path = path

    def place_of(self, claim: str) -> str:
        """Return the line that has a claim; without a number if no line has it, or
        several have it.
        """
        number = self._line_of(claim)
        if not number:
            return f'the `expect` that has "{claim}"'
        return f"line {number} of {self._path}"

    def format(self, claim: str, new: str) -> str:
        """Return how the line must read, so that it has the new text of a claim."""
        place = self.place_of(claim)
        number = self._line_of(claim)
        is_plain = new.isprintable() and _ESCAPED.isdisjoint(new)
        if not number or not is_plain:
            return f'change {place} to "{new}"'
        line = self._lines()[number - 1].strip()
        return f"{place} must read `{line.replace(claim, new)}`"

    def _line_of(self, claim: str) -> int:
        """Return the number of the line that has a claim; 0 if none has it, or it is
        there more than once.
        """
        counts = [line.count(claim) for line in self._lines()]
        if sum(counts) != 1:
            return 0
        return counts.index(1) + 1

    def _lines(self) -> Sequence[str]:
        try:
            return self._module.read_text("utf-8").splitlines()
        except (OSError, ValueError):  # it was removed, or has another encoding
            return ()
