"""Models of what typed keys produce in a text field, a shell, an address bar and plain input.

The policy checks all four, because it cannot know which of them has the keyboard.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from pytest_vnc_use.safety.editor_keys import AFTER_CTRL_X, KINDS, ORDER, OTHER_LINES
from pytest_vnc_use.safety.guesses import Guess
from pytest_vnc_use.safety.patterns import JoinedText
from pytest_vnc_use.safety.shell_line import ShellLine

MOST_TEXT = 100_000
"""The most characters that are kept on either side of the caret, before an action."""
_BREAKS = "\n\t"
_BREAK, _LINE = re.compile(r"[\n\t]"), re.compile(r"[^\n\t]+")
_WORD_AFTER, _BLANK_BEFORE = re.compile(r"\W*\w*"), re.compile(r"\s*\S*")
_MOST_DOUBTED = 80
"""The most characters that are kept of a line with an unknown caret."""


@dataclass(frozen=True)
class Editor:
    """A possible receiver of the typing: its text, its caret, and the other end of its selection (`anchor`).

    `since` is the place in the text where typing last paused: at an enter, a click, or a key that types nothing.
    `primary` is the text that was selected last, which the middle button pastes; None where the mouse selected it.
    `line` is for a shell. `guess` is for a caret that may be anywhere, or a line that may have become anything. The new
    text lies between `start` and `end`; both are -1 where nothing is new.

    A "bar" `is_open` from a key that goes to a browser's address bar until the typing may go elsewhere; otherwise it is
    a field. Texts that an action `entered` there may be addresses.

    An enter, a tab or a move of the caret ends the guess. `guesses` are those of the action that ended so.
    """

    kind: str
    text: str = ""
    caret: int = 0
    anchor: int | None = None
    clipboard: str = ""
    primary: str | None = ""
    line: ShellLine = field(default_factory=ShellLine)
    since: int = 0
    guess: Guess = field(default_factory=Guess)
    start: int = -1
    end: int = -1
    is_open: bool = False
    entered: tuple[str, ...] = ()
    guesses: tuple[Guess, ...] = ()

    def fresh(self) -> Editor:
        """Return the same editor, with nothing in it marked as new."""
        return replace(self, guess=self.guess.fresh(), start=-1, end=-1, entered=(), guesses=())

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

        An enter or a tab continues at the end of the text. A shell's line that ends in a backslash continues too, and
        a key before the text may make a command of its first character.
        """
        if not text:
            return self
        if self.line.is_pending:
            return self._complete(text)
        if self.kind == "shell":
            self = replace(self, line=self.line.ended())
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
        if self.line.prefix and "alt" in keys:  # the escape that a terminal sends for alt ends the command
            ended = replace(self, line=self.line.ended())
            typed = "".join(_CHARACTERS.get(key, key) for key in keys.difference(ORDER))
            return ended.insert(typed) if len(typed) == 1 else ended.press(keys - {"alt"})
        if self.line.prefix == "alt":
            keys |= {"alt"}
        modifiers = [key for key in ORDER if key in keys]
        without_shift = [key for key in modifiers if key != "shift"]
        for key in keys.difference(ORDER):
            known = AFTER_CTRL_X if self.line.prefix == "ctrl+x" else KINDS[self.kind]
            command = known.get("+".join([*modifiers, key])) or known.get("+".join([*without_shift, key]))
            if command is not None:
                editor = self._lost(selects="shift" in keys) if key in OTHER_LINES else self
                return editor._obey_as_often(command)
            if self.kind == "shell" and "alt" in modifiers and len(key) == 1:
                return self._obey_as_often("doubt")
        return replace(self, since=len(self.text), line=self.line.ended())

    def point(self, *, selects: bool = False) -> Editor:
        """Return the editor after a click, which puts the caret anywhere.

        `guess` covers all those places. The editor itself continues at its end, as if nothing was clicked.
        """
        end = len(self.text)
        lost = self._lost(selects=selects)._left()
        primary = None if selects else self.primary
        return replace(lost, caret=end, anchor=None, since=end, primary=primary, line=self.line.ended())

    def paste_selected(self) -> Editor:
        """Return the editor after the middle button pasted the last selection, if that is known."""
        if self.primary is None:
            return self._doubt(self.text[-_MOST_DOUBTED:], now=True).insert(self.clipboard)
        return self.insert(self.primary or self.clipboard)

    def _complete(self, text: str) -> Editor:
        """Return a shell's editor after a text whose first character ends a command of the keys before it."""
        first, rest = text[0], text[1:]
        if first in _BREAKS:
            return replace(self, line=self.line.ended()).insert(text)
        if self.line.prefix:
            return self.press(frozenset({first.lower()})).insert(rest)
        if first.isdecimal():
            return replace(self, line=self.line.counted(first)).insert(rest)
        times = 0 if self.line.is_backwards else self.line.times
        return replace(self, line=self.line.ended()).insert(first * times + rest)

    def _obey_as_often(self, command: str) -> Editor:
        """Return the editor after a command; a shell repeats it as the keys before it say."""
        verb, _, where = command.partition(" ")
        if self.kind != "shell":
            return self._doubt(self._current_line()) if verb == "doubt" else self._obey(command)
        if verb == "prefix":
            return replace(self, since=len(self.text), line=self.line.begun(where))
        if verb == "count":
            return replace(self, line=self.line.counted(where))
        bare = replace(self, line=self.line.bare())
        if verb == "doubt" or self.line.is_backwards:
            whole = "\0".join(dict.fromkeys([*reversed(self.line.ring), self._current_line()]))
            return replace(bare, line=bare.line.ended())._doubt(whole, now=where == "now" or verb != "doubt")
        for _ in range(self.line.times if verb in _REPEATED else 1):
            bare = bare._obey(command)
        is_kill = verb == "rub" and where not in ("left", "right")
        return bare if is_kill else replace(bare, line=bare.line.ended())

    def _doubt(self, whole: str, *, now: bool = False) -> Editor:
        """Return the editor after a key with an unknown effect on `whole`, and on what is typed next."""
        return replace(self, guess=self.guess.doubt(whole, now=now), since=len(self.text)) if whole else self

    def _guessing(self, guess: Guess) -> Editor:
        """Return the editor with another guess; the texts of this action so far remain for the rules."""
        guesses = (*self.guesses, self.guess) if self.guess.is_new() else self.guesses
        return replace(self, guess=guess, guesses=guesses)

    def _current_line(self) -> str:
        return self.text[self._line_start(self.caret) : self._line_end(self.caret)]

    def _left(self) -> Editor:
        """Return the editor after its address bar is left.

        The text in the bar counts as entered: it is entered, or chosen from the browser's proposals.
        """
        return replace(self, is_open=False, entered=(*self.entered, self.text)) if self.is_open else self

    def _lost(self, *, selects: bool = False) -> Editor:
        return self._guessing(self.guess.point(self.text, selects=selects)) if self.kind == "field" else self

    def _obey(self, command: str) -> Editor:
        verb, _, where = command.partition(" ")
        match verb:
            case "paste" | "yank":
                return self.insert(self.clipboard if verb == "paste" else "".join(self.line.ring[:1]))
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
            case "lower" | "upper" | "capital":
                end = _word_end(self.text, self.caret)
                word = self.text[self.caret : end]
                return replace(self, anchor=end).insert(_CASES[verb](word))
            case _:
                return self._go(where, selecting=verb == "select")

    def _go(self, where: str, *, selecting: bool) -> Editor:
        anchor = self.caret if self.anchor is None else self.anchor
        self = self._guessing(self.guess.move(selects=selecting))
        if where == "all":
            return replace(self, anchor=0, caret=len(self.text), primary=self.text or self.primary)
        low, high = self._selection()
        if low < high and not selecting and where in ("left", "right"):  # the caret goes to an end of the selection
            return replace(self, caret=low if where == "left" else high, anchor=None)
        moved = replace(self, caret=self._place(where), anchor=anchor if selecting else None)
        low, high = moved._selection()
        return replace(moved, primary=self.text[low:high] or self.primary)

    def _rub(self, where: str) -> Editor:
        low, high = self._selection()
        if low == high:
            low, high = sorted((self.caret, self._place(where)))
            if where not in ("left", "right"):
                self = replace(self, line=self.line.killed(self.text[low:high], before=low < self.caret))
        return replace(self._cut(low, high), guess=self.guess.rub(where))

    def _swap(self) -> Editor:
        """Return a shell's line after the swap of the two characters at the caret, which moves on by one."""
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
        ended = replace(self._left()._guessing(Guess()), caret=len(self.text), anchor=None)._insert(text)
        last = len(text) - max(map(text.rfind, _BREAKS)) - 1
        return replace(ended, since=len(ended.text) - last)

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
            case "blank before":
                found = _BLANK_BEFORE.match(self.text[: self.caret][::-1])  # as a shell's ctrl+w counts words
                return self.caret - found.end() if found else 0
            case "word before":
                found = _WORD_AFTER.match(self.text[: self.caret][::-1])
                return self.caret - found.end() if found else 0
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

    def guessed(self) -> Iterator[JoinedText]:
        """Yield the texts that may be in the field at each enter and tab of the action, and at its end."""
        for guess in (*self.guesses, self.guess):
            yield from guess.joined()

    def joined(self) -> Iterator[JoinedText]:
        """Yield the texts for a rule: the whole text, each new line, and the newest typing alone."""
        if self.start < 0:
            return
        yield JoinedText(self.text, self.start, self.end)
        for line in _LINE.finditer(self.text, self._line_start(self.start), self._line_end(self.end)):
            low, high = line.span()
            yield JoinedText(line[0], max(self.start, low) - low, min(self.end, high) - low)
        recent = self.text[self.since :]
        yield JoinedText(recent, max(0, self.start - self.since), max(0, self.end - self.since))


def _word_end(text: str, caret: int) -> int:
    found = _WORD_AFTER.match(text, caret)
    return found.end() if found else caret


_CHARACTERS = {"space": " "}
_REPEATED = ("rub", "go", "yank", "swap", "lower", "upper", "capital")
_CASES = {"lower": str.lower, "upper": str.upper, "capital": str.title}
