"""What may happen when nobody is at the keyboard: rules, the policy that reads them in order, and a person's answer.

Every proposal is reviewed by itself. What only several actions together amount to (typing "rm", then " -rf"; holding
ctrl and alt, then pressing delete) is not seen. Secrets stand in proposals as placeholders: no rule sees their values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Literal

from typing_extensions import assert_never

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.types import (
    HISTORY_KEYS,
    Action,
    CallFunction,
    Click,
    Confirmation,
    Drag,
    InvalidAction,
    KeyCombo,
    KeyDown,
    KeyUp,
    MouseDown,
    MouseUp,
    Move,
    OpenAddress,
    Proposal,
    Region,
    Ruling,
    RulingKind,
    Scroll,
    TakeScreenshot,
    TraverseHistory,
    TypeText,
    Wait,
)

Unmatched = Literal["deny", "ask"]
OnDeny = Literal["end", "continue"]
Point = tuple[int, int]

# --- keys ------------------------------------------------------------------------------------------------------------

_MODIFIERS = {
    "ctrl": "control ctl controlormeta",
    "alt": "option opt",
    "shift": "",
    "super": "win windows meta cmd command os",
    "hyper": "",
}
_NAMED_KEYS = {
    "altgr": "altgraph isolevel3shift",
    "escape": "esc",
    "enter": "return ret linefeed newline",
    "tab": "tabulator",
    "backspace": "bksp bsp",
    "delete": "del forwarddelete",
    "insert": "ins",
    "home": "",
    "end": "",
    "pageup": "pgup prior",
    "pagedown": "pgdn pgdown next",
    "left": "arrowleft leftarrow",
    "right": "arrowright rightarrow",
    "up": "arrowup uparrow",
    "down": "arrowdown downarrow",
    "printscreen": "print prtsc prtscr prtscn prntscrn sysrq",
    "pause": "break",
    "menu": "contextmenu apps",
    "capslock": "caps",
    "numlock": "",
    "scrolllock": "",
    "space": "spacebar",
    **{f"f{number}": "" for number in range(1, 25)},
}
_CHARACTERS = {
    "+": "plus add", "-": "minus hyphen dash subtract", "=": "equal equals", ",": "comma", "_": "underscore",
    ".": "period dot fullstop decimal", "/": "slash forwardslash divide", "\\": "backslash", ";": "semicolon",
    ":": "colon", "'": "apostrophe quote singlequote", '"': "quotedbl doublequote", "~": "asciitilde tilde",
    "`": "grave backquote backtick", "[": "bracketleft leftbracket openbracket", "@": "at", "%": "percent",
    "]": "bracketright rightbracket closebracket", "{": "braceleft leftbrace", "}": "braceright rightbrace",
    "(": "parenleft leftparen", ")": "parenright rightparen", "<": "less lessthan", ">": "greater greaterthan",
    "|": "bar pipe", "!": "exclam exclamation", "#": "numbersign hash", "$": "dollar", "^": "asciicircum caret",
    "&": "ampersand", "*": "asterisk star multiply", "?": "question questionmark",
}  # fmt: skip
_SPELLINGS = {
    spelling: key
    for keys in (_MODIFIERS, _NAMED_KEYS, _CHARACTERS)
    for key, others in keys.items()
    for spelling in (key, *others.split())
} | {" ": "space", "\n": "enter", "\r": "enter", "\t": "tab", "\b": "backspace", "\x1b": "escape", "\x7f": "delete"}

_ANY_MODIFIER = "|".join([*_MODIFIERS, *" ".join(_MODIFIERS.values()).split()])
_AFFIXED = re.compile(
    rf"(?:left|right|[lr])?({_ANY_MODIFIER})(?:left|right|[lr])?"
    r"|(?:kp|numpad|keypad|num)(\d|enter|delete|equal|multiply|add|subtract|decimal|divide)"
)
_CODE = re.compile(r"^(?:digit(?=.$)|(?:qt\.)?(?:key\.)?key(?!pad)(?=.))")
_SEPARATOR = re.compile(r"(?<=.)\+(?=.)")  # a "+" at either end is the key itself


def key_set(combination: str | Iterable[str]) -> frozenset[str]:
    """The keys of a combination, however spelled and ordered: "Control_L+Alt+Del" is {ctrl, alt, delete}.

    Left and right modifiers are the same here, and so are the keys of the keypad and of the main block.
    """
    parts = [combination] if isinstance(combination, str) else combination
    return frozenset(_key_name(key) for part in parts for key in _SEPARATOR.split(part) if key)


def unknown_keys(keys: frozenset[str]) -> frozenset[str]:
    """Those of a `key_set` that name no key of a keyboard, such as a misspelled one."""
    return frozenset(key for key in keys if len(key) != 1 and key not in _SPELLINGS)


def _key_name(key: str) -> str:
    name = re.sub(r"[\s_-]", "", key).casefold() if len(key) > 1 else key.casefold()
    name = _CODE.sub("", name)
    affixed = _AFFIXED.fullmatch(name)
    name = affixed[affixed.lastindex or 0] if affixed else name
    return _SPELLINGS.get(name, name)


# --- what of an action a rule looks at -------------------------------------------------------------------------------


def _names(proposal: Proposal) -> set[str]:
    names = {proposal.action.kind, str(proposal.as_proposed.get("name", ""))}
    if isinstance(proposal.action, (CallFunction, InvalidAction)):
        names.add(proposal.action.name)
    return names


def points(action: Action) -> tuple[Point, ...]:
    """Where on the screen an action takes place, in pixels."""
    match action:
        case Click() | MouseDown() | MouseUp() | Move() | Scroll():
            return ((action.x, action.y),)
        case Drag():
            return ((action.x, action.y), (action.to_x, action.to_y))
        case TypeText(x=int(x), y=int(y)):
            return ((x, y),)
        case TypeText() | KeyCombo() | KeyDown() | KeyUp():
            return ()
        case OpenAddress() | TraverseHistory() | Wait() | TakeScreenshot():
            return ()
        case CallFunction() | InvalidAction():
            return ()
        case _:
            assert_never(action)


def _typed(action: Action) -> str | None:
    match action:
        case TypeText(text=text) | OpenAddress(address=text):
            return text
        case _:
            return None


def _pressed(action: Action) -> frozenset[str] | None:
    match action:
        case KeyCombo(keys=keys):
            return key_set(keys)
        case KeyDown(key=key):
            return key_set(key)
        case TraverseHistory(direction=direction):
            return key_set(HISTORY_KEYS[direction])
        case _:
            return None


def _within(region: Region, point: Point) -> bool:
    return region.left <= point[0] < region.right and region.top <= point[1] < region.bottom


def _like(glob: str | None, *values: str) -> bool:
    """A parametrised test id, `test_it[a]`, is also matched by itself, though brackets mean a choice in a glob."""
    if glob is None:
        return True
    wanted = glob.lower()
    return any(wanted == value or fnmatchcase(value, wanted) for value in map(str.lower, values))


def _found(pattern: re.Pattern[str] | None, text: str | None) -> bool:
    return pattern is None or (text is not None and pattern.search(text) is not None)


# --- rules -----------------------------------------------------------------------------------------------------------

CONDITIONS = ("action", "category", "explanation", "text", "keys", "region", "test", "task")
"""The fields of a rule that say when it applies."""


@dataclass(frozen=True)
class ReviewContext:
    """Where a proposal was made: the pytest id of the test (empty outside pytest) and the task's sentence."""

    test_id: str = ""
    task: str = ""


@dataclass(frozen=True)
class Rule:
    """One rule of a policy. It applies where every condition that is given holds:

    - `action`: a glob on the action's kind, the name it was proposed by, or the name of a function of the user's;
    - `category`: a glob on the category of the model's wish for confirmation;
    - `explanation`: found in the model's reason for that wish;
    - `text`: found in what is typed, or in the address opened;
    - `keys`: exactly the keys of a combination, or the one key held down (see `key_set`);
    - `region`: a point of the action lies within; of a drag either end, but both where the rule allows;
    - `test`: a glob on the id of the test; `task`: found in the task.

    Globs take no notice of case. `on_deny` overrides the policy's. Raises SettingsError where no condition is given.
    """

    decision: RulingKind
    name: str = ""
    action: str | None = None
    category: str | None = None
    explanation: re.Pattern[str] | None = None
    text: re.Pattern[str] | None = None
    keys: frozenset[str] | None = None
    region: Region | None = None
    test: str | None = None
    task: re.Pattern[str] | None = None
    on_deny: OnDeny | None = None

    def __post_init__(self) -> None:
        if all(getattr(self, condition) is None for condition in CONDITIONS):
            raise SettingsError(f"a rule must have a condition, at least one of {', '.join(CONDITIONS)}; got none")

    def matches(self, proposal: Proposal, context: ReviewContext) -> bool:
        action, wish = proposal.action, proposal.confirmation
        return (
            _like(self.action, *_names(proposal))
            and _like(self.category, *([wish.category] if wish else ()))
            and _found(self.explanation, wish.explanation if wish else None)
            and _found(self.text, _typed(action))
            and (self.keys is None or self.keys == _pressed(action))
            and self._covers(points(action))
            and _like(self.test, context.test_id)
            and _found(self.task, context.task)
        )

    def _covers(self, points: tuple[Point, ...]) -> bool:
        if self.region is None:
            return True
        within = [_within(self.region, point) for point in points]
        return any(within) if self.decision != "allow" else bool(within) and all(within)


@dataclass(frozen=True)
class Policy:
    """Rules, read in order; the first that matches decides, on harmless actions too.

    Where none matches, an action that the model wants confirmed is `unmatched`, any other is allowed. `on_deny` says
    whether a denial ends the run or the planner is told no. `source` names where the rules come from, for messages.
    """

    rules: tuple[Rule, ...] = ()
    unmatched: Unmatched = "deny"
    on_deny: OnDeny = "end"
    source: str = ""

    @classmethod
    def interactive(cls, rules: tuple[Rule, ...] = ()) -> Policy:
        """The policy where a person can be asked: what no rule decides, they do."""
        return cls(rules, unmatched="ask")

    def review(self, proposal: Proposal, context: ReviewContext) -> Ruling:
        """Rule on one proposal, before it is carried out."""
        for number, rule in enumerate(self.rules, start=1):
            if rule.matches(proposal, context):
                return self._ruling(rule.decision, rule_title(number, rule.name), proposal, rule.on_deny)
        if proposal.confirmation is None:
            return Ruling("allow", "harmless", "the model asks for no confirmation, and no rule forbids it")
        return self._ruling(self.unmatched, "no rule matches", proposal)

    def _ruling(self, kind: RulingKind, rule: str, proposal: Proposal, on_deny: OnDeny | None = None) -> Ruling:
        origin = f"{rule} (in {self.source})" if self.source else rule
        explanation = f"{origin}: {_CONSEQUENCE[kind]}{_wish(proposal.confirmation)}"
        return Ruling(kind, rule, explanation, ends_run=(on_deny or self.on_deny) == "end")


_CONSEQUENCE: dict[RulingKind, str] = {
    "allow": "the action is allowed",
    "deny": "the action is denied",
    "ask": "a person must say yes first",
}


def _wish(confirmation: Confirmation | None) -> str:
    return f"; the model asks for confirmation because {confirmation.explanation!r}" if confirmation else ""


def rule_title(number: int, name: str) -> str:
    """What a rule is called in rulings and messages: "rule 3 'no destructive keys'"; `number` counts from 1."""
    return f"rule {number} {name!r}" if name else f"rule {number}"


# --- the answer to an "ask" ------------------------------------------------------------------------------------------


def approve(asked: Ruling) -> Ruling:
    """The ruling after a person's yes."""
    return replace(asked, kind="allow", by="person", explanation=f"a person said yes ({asked.explanation})")


def deny(asked: Ruling) -> Ruling:
    """The ruling after a person's no."""
    return replace(asked, kind="deny", by="person", explanation=f"a person said no ({asked.explanation})")


def deny_unasked(asked: Ruling) -> Ruling:
    """The ruling where nobody is there to be asked: no."""
    return replace(asked, kind="deny", explanation=f"there is nobody to ask, so the answer is no ({asked.explanation})")
