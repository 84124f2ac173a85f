"""What typing adds up to, as a text field, a shell's line, or one that knows no editing would show it.

Nobody can see which of them has the keyboard, so the policy asks each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

MOST_TEXT = 100_000
"""Characters that are kept, the newest ones."""
_MOST_AROUND = 300
_BREAKS = "\n\t"
_WORD_BEFORE, _WORD_AFTER = re.compile(r"\w*\W*\Z"), re.compile(r"\W*\w*")

_PLACES = {
    "left": "left",
    "right": "right",
    "home": "start",
    "end": "end",
    "up": "start",
    "down": "end",
    "ctrl+left": "word before",
    "ctrl+right": "word after",
    "ctrl+home": "first",
    "ctrl+end": "last",
}
_COMMON = {
    "backspace": "rub left",
    "delete": "rub right",
    "ctrl+backspace": "rub word before",
    "ctrl+delete": "rub word after",
    **{keys: f"go {where}" for keys, where in _PLACES.items()},
    **{f"shift+{keys}": f"select {where}" for keys, where in _PLACES.items() if "+" not in keys},
    **{keys.replace("+", "+shift+"): f"select {where}" for keys, where in _PLACES.items() if "+" in keys},
    "shift+insert": "paste",
    "ctrl+shift+v": "paste",
}
_FIELD = {
    **_COMMON,
    "ctrl+a": "select all",
    "ctrl+c": "copy",
    "ctrl+insert": "copy",
    "ctrl+x": "cut",
    "shift+delete": "cut",
    "ctrl+v": "paste",
}
_SHELL = {
    **_COMMON,
    "ctrl+a": "go start",
    "ctrl+e": "go end",
    "ctrl+b": "go left",
    "ctrl+f": "go right",
    "alt+b": "go word before",
    "alt+f": "go word after",
    "ctrl+h": "rub left",
    "ctrl+d": "rub right",
    "ctrl+w": "rub word before",
    "alt+backspace": "rub word before",
    "alt+d": "rub word after",
    "ctrl+u": "rub start",
    "ctrl+k": "rub end",
    "ctrl+y": "yank",
    "ctrl+j": "enter",
    "ctrl+m": "enter",
    "ctrl+i": "tab",
}
_KINDS: Mapping[str, Mapping[str, str]] = {
    "stream": {"shift+insert": "paste", "ctrl+shift+v": "paste", "ctrl+v": "paste"},
    "field": _FIELD,
    "shell": _SHELL,
}
_ORDER = ("ctrl", "alt", "shift", "super")


class Joined(NamedTuple):
    """A text that typing added up to; what is new or was taken away lies between `start` and `end`."""

    text: str
    start: int
    end: int

    def shows(self, pattern: re.Pattern[str]) -> bool:
        """Whether the pattern is found where the text is new, and was not there before."""
        at = 0
        while at <= len(self.text) and (found := pattern.search(self.text, at)):
            if found.start() >= self.end:
                return False
            if found.end() > self.start:
                return True
            at = found.start() + 1
        return False


@dataclass(frozen=True)
class Editor:
    """One line of thought about where the typing goes: what is there, and where the caret and the selection's end are.

    `since` is where in the text the last pause of typing was: an enter, a click, a key that types nothing. `before`
    and `after_click` are what was there when the mouse put the caret somewhere, and what was typed since. What is new
    lies between `start` and `end`, which are -1 where nothing is.
    """

    kind: str
    text: str = ""
    caret: int = 0
    anchor: int | None = None
    clipboard: str = ""
    killed: str = ""
    since: int = 0
    before: str = ""
    after_click: str = ""
    start: int = -1
    end: int = -1

    def fresh(self) -> Editor:
        """The same, with nothing of it new."""
        return replace(self, start=-1, end=-1)

    # --- what is done ------------------------------------------------------------------------------------------------

    def insert(self, text: str) -> Editor:
        """Type: over the selection, at the caret; an enter or a tab goes on at the end."""
        editor = self
        for piece in re.findall(r"[\n\t]|[^\n\t]+", text):
            editor = editor._break(piece) if piece in _BREAKS else editor._insert(piece)
        return editor

    def press(self, keys: frozenset[str]) -> Editor:
        """Do what keys do that type no character."""
        modifiers = [key for key in _ORDER if key in keys]
        without_shift = [key for key in modifiers if key != "shift"]
        for key in keys.difference(_ORDER):
            known = _KINDS[self.kind]
            command = known.get("+".join([*modifiers, key])) or known.get("+".join([*without_shift, key]))
            if command is not None:
                return self._obey(command)
        return replace(self, since=len(self.text))

    def point(self) -> Editor:
        """The mouse puts the caret anywhere; where typing goes on at the end, that is nothing new."""
        around = self.text[-_MOST_AROUND:].rpartition("\n")[2]
        end = len(self.text)
        return replace(self, caret=end, anchor=None, since=end, before=around, after_click="")

    def _obey(self, command: str) -> Editor:
        verb, _, where = command.partition(" ")
        match verb:
            case "paste" | "yank":
                return self.insert(self.clipboard if verb == "paste" else self.killed)
            case "enter" | "tab":
                return self.insert("\n" if verb == "enter" else "\t")
            case "copy" | "cut":
                low, high = self._selection()
                held = replace(self, clipboard=self.text[low:high] or self.clipboard)
                return held._cut(low, high) if verb == "cut" else held
            case "rub":
                return self._rub(where)
            case _:
                return self._go(where, selecting=verb == "select")

    def _go(self, where: str, *, selecting: bool) -> Editor:
        anchor = self.caret if self.anchor is None else self.anchor
        if where == "all":
            return replace(self, anchor=0, caret=len(self.text))
        return replace(self, caret=self._place(where), anchor=anchor if selecting else None)

    def _rub(self, where: str) -> Editor:
        low, high = self._selection()
        if low == high:
            low, high = sorted((self.caret, self._place(where)))
            if where not in ("left", "right"):
                self = replace(self, killed=self.text[low:high] or self.killed)
        return replace(self._cut(low, high), after_click=self.after_click[:-1])

    # --- the text ----------------------------------------------------------------------------------------------------

    def _selection(self) -> tuple[int, int]:
        anchor = self.caret if self.anchor is None else self.anchor
        return min(anchor, self.caret), max(anchor, self.caret)

    def _cut(self, low: int, high: int) -> Editor:
        if low == high:
            return replace(self, anchor=None)

        def moved(place: int) -> int:
            return place if place <= low else max(low, place - (high - low))

        return replace(
            self,
            text=self.text[:low] + self.text[high:],
            caret=low,
            anchor=None,
            since=moved(self.since),
            start=low if self.start < 0 else min(moved(self.start), low),
            end=max(moved(self.end), low),
        )

    def _insert(self, piece: str) -> Editor:
        cut = self._cut(*self._selection())
        at, length = cut.caret, len(piece)
        text = cut.text[:at] + piece + cut.text[at:]
        lost = max(0, len(text) - MOST_TEXT)
        return replace(
            cut,
            text=text[lost:],
            caret=at + length - lost,
            since=max(0, (cut.since if at >= cut.since else cut.since + length) - lost),
            after_click=(cut.after_click + piece)[-_MOST_AROUND:],
            start=max(0, (at if cut.start < 0 else min(cut.start, at)) - lost),
            end=max(at + length, cut.end + length if cut.end >= at else cut.end) - lost,
        )

    def _break(self, character: str) -> Editor:
        ended = replace(self, caret=len(self.text), anchor=None)._insert(character)
        return replace(ended, since=len(ended.text), before="", after_click="")

    def _place(self, where: str) -> int:
        line_start = max(self.text.rfind(character, 0, self.caret) for character in _BREAKS) + 1
        line_end = min([len(self.text), *(found for c in _BREAKS if (found := self.text.find(c, self.caret)) >= 0)])
        match where:
            case "left":
                return max(0, self.caret - 1)
            case "right":
                return min(len(self.text), self.caret + 1)
            case "start":
                return line_start
            case "end":
                return line_end
            case "word before":
                return _word_start(self.text, self.caret)
            case "word after":
                return _word_end(self.text, self.caret)
            case _:
                return 0 if where == "first" else len(self.text)

    # --- what it adds up to ------------------------------------------------------------------------------------------

    def joined(self) -> Iterator[Joined]:
        """What a rule may look at: all, each line that is new, the newest typing alone, and typing after a click."""
        if self.start < 0:
            return
        yield Joined(self.text, self.start, self.end)
        for line in re.finditer(r"[^\n\t]+", self.text):
            if line.start() <= self.end and line.end() >= self.start:
                low, high = line.start(), line.end()
                yield Joined(line[0], max(self.start, low) - low, min(self.end, high) - low)
        recent = self.text[self.since :]
        yield Joined(recent, max(0, self.start - self.since), max(0, self.end - self.since))
        if self.kind == "field" and self.before and self.after_click:
            yield from self._anywhere()

    def _anywhere(self) -> Iterator[Joined]:
        """The typing since a click at each place where that may have put the caret."""
        length, new = len(self.after_click), self.end - self.start
        for at in range(len(self.before) + 1):
            text = self.before[:at] + self.after_click + self.before[at:]
            yield Joined(text, at + max(0, length - new), at + length)


def _word_start(text: str, caret: int) -> int:
    found = _WORD_BEFORE.search(text, 0, caret)
    return found.start() if found else 0


def _word_end(text: str, caret: int) -> int:
    found = _WORD_AFTER.match(text, caret)
    return found.end() if found else caret
