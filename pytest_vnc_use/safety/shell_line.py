"""The state of a shell's line editor between keys: a begun command, a repeat count, and deleted texts."""

from __future__ import annotations

from dataclasses import dataclass, replace

MOST_TIMES = 500
"""The largest repeat count of a command that is followed."""
_MOST_KILLED = 10
_MOST_DIGITS = 6


@dataclass(frozen=True)
class ShellLine:
    """The keys of a command so far, and the texts that were deleted, the newest first.

    `prefix` is "alt" after escape, or "ctrl+x". `count` holds the digits of alt+digit. `kills`: the last command
    deleted a text that can be pasted, and the next deletion is added to it.
    """

    prefix: str = ""
    count: str = ""
    kills: bool = False
    ring: tuple[str, ...] = ()

    @property
    def is_pending(self) -> bool:
        """Return whether the next key belongs to a command that has begun."""
        return bool(self.prefix or self.count)

    @property
    def times(self) -> int:
        """Return how often the next command is done."""
        digits = self.count.lstrip("-")
        return min(int(digits), MOST_TIMES) if digits else 1

    @property
    def is_backwards(self) -> bool:
        """Return whether the next command works in the other direction."""
        return "-" in self.count

    def begun(self, prefix: str) -> ShellLine:
        """Return the state after the first key of a command."""
        return replace(self, prefix=prefix)

    def counted(self, digit: str) -> ShellLine:
        """Return the state after another digit."""
        return replace(self, prefix="", count=(self.count + digit)[:_MOST_DIGITS])

    def bare(self) -> ShellLine:
        """Return the state as the command begins."""
        return replace(self, prefix="", count="")

    def ended(self) -> ShellLine:
        """Return the state after a command that deletes nothing."""
        return replace(self, prefix="", count="", kills=False)

    def killed(self, text: str, *, before: bool) -> ShellLine:
        """Return the state after a text was deleted that stood before the caret, or after it."""
        if not text:
            return self
        newest, older = (self.ring[0], self.ring[1:]) if self.kills and self.ring else ("", self.ring)
        whole = text + newest if before else newest + text
        return replace(self, kills=True, ring=(whole, *older)[:_MOST_KILLED])
