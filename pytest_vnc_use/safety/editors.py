"""Texts that typing adds up to in a text field, a shell, an address bar, and a place that knows no editing.

Nobody can see which of them has the keyboard, so the policy asks each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from pytest_vnc_use.safety.guesses import Guess
from pytest_vnc_use.safety.patterns import Joined

MOST_TEXT = 100_000
"""The most characters that are kept on either side of the caret, before an action."""
_BREAKS = "\n\t"
_BREAK, _LINE = re.compile(r"[\n\t]"), re.compile(r"[^\n\t]+")
_WORD_AFTER = re.compile(r"\W*\w*")

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
    "pageup": "go first",
    "pagedown": "go last",
}
_OTHER_LINES = frozenset({"up", "down", "pageup", "pagedown"})
"""Keys that put the caret into an unknown line of a field."""
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
    "ctrl+t": "swap",
    "alt+l": "lower",
    "alt+u": "upper",
    "ctrl+y": "yank",
    "ctrl+j": "enter",
    "ctrl+m": "enter",
    "ctrl+i": "tab",
}
_BAR = {
    **_FIELD,
    **dict.fromkeys(["ctrl+l", "alt+d", "f6", "ctrl+t", "ctrl+n", "ctrl+shift+p"], "open"),
    "escape": "clear",
    "alt+enter": "enter",
    "ctrl+enter": "enter as a name",
}
_KINDS: Mapping[str, Mapping[str, str]] = {
    "stream": {"shift+insert": "paste", "ctrl+shift+v": "paste", "ctrl+v": "paste"},
    "field": _FIELD,
    "shell": _SHELL,
    "bar": _BAR,
}
_ORDER = ("ctrl", "alt", "shift", "super")


@dataclass(frozen=True)
class Editor:
    """A possible receiver of the typing: its text, its caret, and the other end of its selection (`anchor`).

    `since` is the place in the text where typing last paused: at an enter, a click, or a key that types nothing.
    `guess` is for a field whose caret may be anywhere. The new text lies between `start` and `end`; both are -1 where
    nothing is new.

    A "bar" `is_open` from a key that goes to a browser's address bar until the typing may go elsewhere; otherwise it is
    a field. Texts that an action `entered` there may be addresses.
    """

    kind: str
    text: str = ""
    caret: int = 0
    anchor: int | None = None
    clipboard: str = ""
    killed: str = ""
    since: int = 0
    guess: Guess = field(default_factory=Guess)
    start: int = -1
    end: int = -1
    is_open: bool = False
    entered: tuple[str, ...] = ()

    def fresh(self) -> Editor:
        """Return the same editor, with nothing in it marked as new."""
        return replace(self, guess=self.guess.fresh(), start=-1, end=-1, entered=())

    def trimmed(self) -> Editor:
        """Return the same editor, without text far from the caret."""
        low, high = max(0, self.caret - MOST_TEXT), self.caret + MOST_TEXT
        if not low and high >= len(self.text):
            return self

        def moved(place: int) -> int:
            return min(max(place, low), high) - low

        anchor = None if self.anchor is None else moved(self.anchor)
        text = self.text[low:high]
        return replace(self, text=text, caret=self.caret - low, anchor=anchor, since=min(moved(self.since), len(text)))

    # --- edits -------------------------------------------------------------------------------------------------------

    def insert(self, text: str) -> Editor:
        """Return the editor after typing over the selection, or at the caret.

        An enter or a tab continues at the end of the text. In a shell a line that ends in a backslash continues too.
        """
        if self.kind == "shell":
            text = text.replace("\\\n", "")
            if text.startswith("\n") and self.text.endswith("\\"):
                end = len(self.text)
                return replace(self, caret=end)._cut(end - 1, end).insert(text[1:])
        found = _BREAK.search(text)
        if not found:
            return self._insert(text) if text else self
        line, rest = text[: found.start()], text[found.start() :]
        return (self._insert(line) if line else self)._break(rest)

    def press(self, keys: frozenset[str]) -> Editor:
        """Return the editor after a press of keys that type no character."""
        modifiers = [key for key in _ORDER if key in keys]
        without_shift = [key for key in modifiers if key != "shift"]
        for key in keys.difference(_ORDER):
            known = _KINDS[self.kind]
            command = known.get("+".join([*modifiers, key])) or known.get("+".join([*without_shift, key]))
            if command is not None:
                editor = self._lost(selects="shift" in keys) if key in _OTHER_LINES else self
                return editor._obey(command)
        return replace(self, since=len(self.text))

    def point(self, *, selects: bool = False) -> Editor:
        """Return the editor after a click, which puts the caret anywhere.

        `guess` covers all those places. The editor itself goes on at its end, where a click is nothing new.
        """
        end = len(self.text)
        return replace(self._lost(selects=selects)._left(), caret=end, anchor=None, since=end)

    def _left(self) -> Editor:
        """Return the editor after its address bar is left.

        The text in the bar counts as entered: it is entered, or chosen from the browser's proposals.
        """
        return replace(self, is_open=False, entered=(*self.entered, self.text)) if self.is_open else self

    def _lost(self, *, selects: bool = False) -> Editor:
        return replace(self, guess=self.guess.point(self.text, selects=selects)) if self.kind == "field" else self

    def _obey(self, command: str) -> Editor:
        verb, _, where = command.partition(" ")
        match verb:
            case "paste" | "yank":
                return self.insert(self.clipboard if verb == "paste" else self.killed)
            case "enter" | "tab":
                entered = (f"www.{self.text}.com",) if where and self.is_open else ()
                return replace(self, entered=(*self.entered, *entered)).insert("\n" if verb == "enter" else "\t")
            case "open" if self.is_open:
                return self._go("all", selecting=True)
            case "open":
                return Editor(self.kind, clipboard=self.clipboard, is_open=True, entered=self.entered)
            case "clear":
                return self._cut(0, len(self.text)) if self.is_open else self
            case "copy" | "cut":
                low, high = self._selection()
                held = replace(self, clipboard=self.text[low:high] or self.clipboard)
                return replace(held._cut(low, high), guess=held.guess.rub("all")) if verb == "cut" else held
            case "rub":
                return self._rub(where)
            case "swap":
                return self._swap()
            case "lower" | "upper":
                end = _word_end(self.text, self.caret)
                word = self.text[self.caret : end]
                return replace(self, anchor=end).insert(word.lower() if verb == "lower" else word.upper())
            case _:
                return self._go(where, selecting=verb == "select")

    def _go(self, where: str, *, selecting: bool) -> Editor:
        anchor = self.caret if self.anchor is None else self.anchor
        guess = self.guess.move(selects=selecting)
        if where == "all":
            return replace(self, anchor=0, caret=len(self.text), guess=guess)
        return replace(self, caret=self._place(where), anchor=anchor if selecting else None, guess=guess)

    def _rub(self, where: str) -> Editor:
        low, high = self._selection()
        if low == high:
            low, high = sorted((self.caret, self._place(where)))
            if where not in ("left", "right"):
                self = replace(self, killed=self.text[low:high] or self.killed)
        return replace(self._cut(low, high), guess=self.guess.rub(where))

    def _swap(self) -> Editor:
        """Return a shell's line with the character before the caret moved on by one, and the caret with it."""
        at = min(self.caret, len(self.text) - 1)
        if at < 1:
            return self
        return replace(self, caret=at - 1, anchor=at + 1).insert(self.text[at] + self.text[at - 1])

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
        return replace(
            cut,
            text=text,
            caret=at + length,
            since=cut.since if at >= cut.since else cut.since + length,
            guess=cut.guess.type(piece),
            start=at if cut.start < 0 else min(cut.start, at),
            end=max(at + length, cut.end + length if cut.end >= at else cut.end),
        )

    def _break(self, text: str) -> Editor:
        """Return the editor after an enter or a tab at the end, and the text that was typed after it."""
        ended = replace(self._left(), caret=len(self.text), anchor=None)._insert(text)
        last = len(text) - max(map(text.rfind, _BREAKS)) - 1
        return replace(ended, since=len(ended.text) - last, guess=Guess())

    def _place(self, where: str) -> int:
        match where:
            case "left":
                return max(0, self.caret - 1)
            case "right":
                return min(len(self.text), self.caret + 1)
            case "start":
                return self._line_start(self.caret)
            case "end":
                return self._line_end(self.caret)
            case "word before":
                return _word_start(self.text, self.caret)
            case "word after":
                return _word_end(self.text, self.caret)
            case _:
                return 0 if where == "first" else len(self.text)

    def _line_start(self, place: int) -> int:
        return max(self.text.rfind(character, 0, place) for character in _BREAKS) + 1

    def _line_end(self, place: int) -> int:
        found = _BREAK.search(self.text, place)
        return found.start() if found else len(self.text)

    # --- the texts for rules -----------------------------------------------------------------------------------------

    def joined(self) -> Iterator[Joined]:
        """Yield the texts for a rule: the whole text, each new line, and the newest typing alone."""
        if self.start < 0:
            return
        yield Joined(self.text, self.start, self.end)
        for line in _LINE.finditer(self.text, self._line_start(self.start), self._line_end(self.end)):
            low, high = line.span()
            yield Joined(line[0], max(self.start, low) - low, min(self.end, high) - low)
        recent = self.text[self.since :]
        yield Joined(recent, max(0, self.start - self.since), max(0, self.end - self.since))


def _word_start(text: str, caret: int) -> int:
    found = _WORD_AFTER.match(text[:caret][::-1])
    return caret - found.end() if found else 0


def _word_end(text: str, caret: int) -> int:
    found = _WORD_AFTER.match(text, caret)
    return found.end() if found else caret
