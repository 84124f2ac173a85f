"""The possible texts of a field whose caret position is unknown, after a click or a key that changed the line.

Rules check each possible place of the caret, up to a limit of work.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pytest_vnc_use.safety.patterns import JoinedText
from pytest_vnc_use.safety.text_forms import folded_form

MOST_GUESSED = 300_000
"""The most characters of all possible texts together."""
MOST_SPLICED = 70
"""The most characters of a text of which any two parts may be joined: all joined texts together have 500,000."""


@dataclass(frozen=True)
class Guess:
    """The possible texts of a field or a line: it held one of `befores`; `typed` was inserted at an unknown place.

    `typed` replaced `removed` characters, None for any number of them. `selected` is true where a part may be selected,
    which the next key replaces. The last `recent` characters of `typed` are new; -1 where the action has changed
    nothing.

    Where the text is `spliced`, any two parts of it, and of what was typed, may have come together.
    """

    befores: tuple[str, ...] = ()
    typed: str = ""
    removed: int | None = 0
    selected: bool = False
    recent: int = -1
    spliced: bool = False

    def fresh(self) -> Guess:
        """Return the same guess, with nothing in it marked as new."""
        return replace(self, recent=-1)

    # --- edits -------------------------------------------------------------------------------------------------------

    def point(self, text: str, *, selects: bool) -> Guess:
        """Return the guess after the caret is put anywhere. With typing at the end, the field would hold `text`."""
        if self.spliced:
            return self
        befores = dict.fromkeys([text, *self._held()])
        return replace(self, befores=tuple(befores), typed="", removed=0, selected=selects)._limit()

    def move(self, *, selects: bool) -> Guess:
        """Return the guess after the caret moves on from an unknown place."""
        if self.spliced:
            return self
        befores = dict.fromkeys(self._held())
        return replace(self, befores=tuple(befores), typed="", removed=0, selected=selects)._limit()

    def doubt(self, text: str, *, now: bool) -> Guess:
        """Return the guess after a key that may change the `text` in any way; with `now`, at once."""
        whole = text if text.endswith(self.typed) else text + self.typed
        befores = tuple(dict.fromkeys([whole, *(self.befores if self.spliced else ())]))[:1]
        recent = max(0, self.recent) if now else self.recent
        return Guess(befores, removed=None, recent=recent, spliced=True)._limit()

    def _held(self) -> Iterator[str]:
        """Return the texts that the field may hold now."""
        return (joined.text for joined in self.texts()) if self._is_edited() else iter(self.befores)

    def type(self, piece: str) -> Guess:
        """Return the guess after typing at the caret, over the selection."""
        if not self.befores:
            return self
        removed = None if self.selected else self.removed
        recent = max(0, self.recent) + len(piece)
        return replace(self, typed=self.typed + piece, removed=removed, selected=False, recent=recent)._limit()

    def rub(self, what: str) -> Guess:
        """Return the guess after deleting the selection; else a character on the "left" or "right", else any number."""
        if not self.befores:
            return self
        recent = max(0, self.recent)
        if what == "left" and self.typed:
            return replace(self, typed=self.typed[:-1], recent=max(0, recent - 1))
        is_one = what in ("left", "right") and not self.selected and self.removed is not None
        removed = (self.removed or 0) + 1 if is_one else None
        return replace(self, removed=removed, selected=False, recent=recent)._limit()

    # --- the possible texts ------------------------------------------------------------------------------------------

    def joined(self) -> Iterator[JoinedText]:
        """Yield the texts that the field may hold now, as they are and folded.

        There are none where the action changed nothing.
        """
        if not self.is_new():
            return
        yield from self.texts()
        folded = replace(
            self,
            befores=tuple(dict.fromkeys(map(folded_form, self.befores))),
            typed=folded_form(self.typed),
            recent=len(folded_form(self.typed[len(self.typed) - self.recent :])),
        )
        if (folded.befores, folded.typed) != (self.befores, self.typed):
            yield from folded.texts()

    def texts(self) -> Iterator[JoinedText]:
        """Yield each text that the field may hold, with its new part."""
        for before in self.befores:
            for start, end in self._places(len(before)):
                text = before[:start] + self.typed + before[end:]
                new_end = start + len(self.typed)
                yield JoinedText(text, new_end - max(0, self.recent), new_end)
            if self.spliced:
                yield from _spliced(before + self.typed)

    def _places(self, length: int) -> Iterator[tuple[int, int]]:
        for start in range(length + 1):
            ends = range(start, length + 1) if self.removed is None else [min(length, start + self.removed)]
            yield from ((start, end) for end in ends)

    def is_new(self) -> bool:
        """Return whether the action made texts that no rule has read."""
        return self.recent >= 0 and self._is_edited()

    def _is_edited(self) -> bool:
        return bool(self.typed) or self.removed != 0

    def _limit(self) -> Guess:
        """Return the guess within the limit of work: if it is too large, only the end of the likeliest text."""
        if self.spliced:
            return self._shortened()
        if sum(map(self._work, map(len, self.befores))) <= MOST_GUESSED:
            return self
        length = len(self.befores[0])
        while length and self._work(length) > MOST_GUESSED:
            length -= max(1, length // 10)
        return replace(self, befores=(self.befores[0][len(self.befores[0]) - length :],))

    def _work(self, length: int) -> int:
        places = length + 1 if self.removed is not None else (length + 1) * (length + 2) // 2
        return places * (length + len(self.typed))

    def _shortened(self) -> Guess:
        """Return the guess with only the end of the text before, and the end of what was typed."""
        before, half = self.befores[0], MOST_SPLICED // 2
        typed = self.typed[-max(half, MOST_SPLICED - len(before)) :]
        return replace(
            self,
            befores=(before[max(0, len(before) + len(typed) - MOST_SPLICED) :],),
            typed=typed,
            recent=min(self.recent, len(typed)),
        )


def _spliced(whole: str) -> Iterator[JoinedText]:
    """Yield each beginning of the text joined to each end of it, as after a part was deleted or moved."""
    for start in range(1, len(whole)):
        for end in range(len(whole)):
            if start != end:
                yield JoinedText(whole[:start] + whole[end:], start, start)
