"""Rules on actions, and the policy that reads them in order.

A rule reads the data of an action: its name, keys, text, URL and points, and the model's
reason. It sees no screenshot, and does not know how a program interprets keys. Secrets
appear as placeholders: no rule sees their values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, Literal

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.types import (
    HISTORY_KEYS,
    Action,
    CallFunction,
    Click,
    InvalidAction,
    KeyCombo,
    KeyDown,
    KeyUp,
    OpenUrl,
    Proposal,
    Region,
    Ruling,
    RulingKind,
    Step,
    TraverseHistory,
    TypeText,
)
from pytest_vnc_use.types.actions import EMPTY_PAGE, Point, points
from pytest_vnc_use.types.keys import key_set, on_us_keyboard

Keys = frozenset[str]
Unmatched = Literal["allow", "deny", "ask"]
OnDeny = Literal["end", "continue"]

BLOCKED = "blocked by the model's service"
"""The rule named in a ruling where the model's service blocked the action."""
MAX_READ = 1_000_000
"""The maximum characters of one action that rules on text read."""
MAX_TYPED = 10_000
"""The maximum characters of earlier typing that are stored."""


class NotReviewed(Exception):
    """The error where an action is too long to review; the message names the limit."""


_CLICKS = {1: "click", 2: "double_click", 3: "triple_click"}
_SHORTCUTS = frozenset({"ctrl", "alt", "super", "hyper"})
_TYPED = {"space": " ", "enter": "\n", "tab": "\t"}


def name_of(action: Action) -> str:
    """Return the name that a rule's `action` matches: that of a click includes its
    button and count.
    """
    match action:
        case CallFunction(name=name) | InvalidAction(name=name):
            return name
        case Click(button=button, count=count):
            return f"{button}_click" if button != "left" else _CLICKS[count]
        case _:
            return action.kind


def _combo_of(action: Action) -> tuple[str, ...]:
    match action:
        case KeyCombo(keys=keys):
            return keys
        case KeyDown(key=key):
            return (key,)
        case TraverseHistory(direction=direction):
            return HISTORY_KEYS[direction]
        case _:
            return ()


def keys_of(action: Action, held: Keys) -> tuple[Keys, ...]:
    """Return the keys that an action presses, as sets of keys that are down together,
    each with those in `held`.
    """
    combos: list[str | tuple[str, ...]] = []
    if combo := _combo_of(action):
        combos.append(combo)
    if isinstance(action, TypeText):
        if action.clear_first:
            combos.append("ctrl+a")
        if action.clear_first and not action.text:
            combos.append("backspace")
        combos += dict.fromkeys(action.text)
        if action.press_enter:
            combos.append("enter")
    return tuple(
        dict.fromkeys(on_us_keyboard(key_set(combo)) | held for combo in combos)
    )


def combination(keys: Keys) -> str:
    """Return keys as a user writes them: the modifiers first."""
    return "+".join(
        sorted(
            keys, key=lambda key: (key not in ("ctrl", "alt", "shift", "super"), key)
        )
    )


def _typed_by(action: Action) -> str:
    """Return the characters that an action types, Enter and Tab included."""
    if isinstance(action, TypeText):
        return action.text + "\n" * action.press_enter
    names: list[str] = []
    for key in _combo_of(action):
        names += [key] if len(key) == 1 else sorted(key_set(key))
    if not _SHORTCUTS.isdisjoint(names):
        return ""
    typed = (_TYPED.get(name, name) for name in names)
    return "".join(character for character in typed if len(character) == 1)


def texts_of(action: Action) -> list[str]:
    """Return the texts of an action that a rule's `text` is searched in. Raises
    NotReviewed if they are too long.
    """
    match action:
        case TypeText(text=text) | OpenUrl(url=text):
            texts = [text]
        case CallFunction(arguments=arguments):
            texts = list(_texts_in(arguments))
        case _:
            typed = _typed_by(action)
            texts = [typed] if typed else []
    length = sum(map(len, texts))
    if length > MAX_READ:
        raise NotReviewed(
            f"the action has {length} characters; a review reads at most {MAX_READ}"
        )
    return texts


def _texts_in(arguments: Any) -> Iterator[str]:
    """Yield the names and values in the arguments of a function, in their order."""
    pending = [arguments]
    while pending:
        match value := pending.pop():
            case None:
                pass
            case dict():
                for name, item in reversed(value.items()):
                    pending += [item, name]
            case list() | tuple():
                pending.extend(reversed(value))
            case _:
                yield str(value)


def _starts_new_text(action: Action) -> bool:
    """Return whether the action clicks before it types, or opens a URL."""
    is_typed_at_a_point = isinstance(action, TypeText) and action.x is not None
    return is_typed_at_a_point or action.kind in (
        "click",
        "mouse_down",
        "drag",
        "open_url",
    )


@dataclass(frozen=True)
class ReviewContext:
    """What a rule may know besides the action.

    That is the test's pytest id (empty outside pytest), the `task`, what was `typed`
    since the last click, Enter or Tab, the keys that earlier actions have `held`, and
    the URL of the browser's page ("" if unknown).
    """

    test_id: str = ""
    task: str = ""
    typed: str = ""
    held: Keys = frozenset()
    page_url: Callable[[], str] = str

    def after(self, step: Step) -> ReviewContext:
        """Return the context after a step. A step that was not allowed was not
        performed.
        """
        if step.ruling.kind != "allow":
            return self
        action = step.proposal.action
        held = self.held
        if isinstance(action, KeyDown) and not step.error:
            held |= key_set(action.key)
        elif isinstance(action, KeyUp) and not step.error:
            held -= key_set(action.key)
        typed = "" if _starts_new_text(action) else self.typed
        if self.held.isdisjoint(_SHORTCUTS):
            typed = re.split(r"[\n\t]", typed + _typed_by(action))[-1][-MAX_TYPED:]
        return replace(self, typed=typed, held=held)


CONDITIONS = (
    "action",
    "category",
    "explanation",
    "text",
    "keys",
    "region",
    "test",
    "task",
)
"""The fields of a rule that decide when it applies."""


def _is_like(glob: str | None, *values: str) -> bool:
    """Return whether a glob matches one of the values, whatever their case; None
    matches all.

    A parametrised test id, `test_it[a]`, also matches itself, though brackets mean a
    choice in a glob.
    """
    if glob is None:
        return True
    lowered = glob.lower()
    return any(
        lowered == value or fnmatchcase(value, lowered)
        for value in map(str.lower, values)
    )


def _is_found(pattern: re.Pattern[str] | None, text: str | None) -> bool:
    return pattern is None or (text is not None and bool(pattern.search(text)))


def _is_found_after(pattern: re.Pattern[str], text: str, index: int) -> bool:
    """Return whether a match, which may overlap others, ends after the index."""
    start = 0
    while match := pattern.search(text, start):
        if match.end() > index:
            return True
        start = match.start() + 1
    return False


@dataclass(frozen=True)
class Rule:
    """One rule of a policy; it applies if all its conditions hold.

    - `action`: a glob on the action's kind, on the name that the model gave it, or on
      the name of a user's function; a click is also a right_click, middle_click,
      double_click or triple_click;
    - `category`: a glob on the category of the model's request for confirmation;
    - `explanation`: found in the model's reason for that request;
    - `text`: found in the typed or pasted text, in the opened URL, or in an argument of
      a function. For a rule that allows, it must be found in each of these. For any
      other rule, it may also be found in the typed text joined to what was typed since
      the last click, Enter or Tab;
    - `keys`: keys that are down together (see `key_set`), whatever else is down. A rule
      that allows must name exactly the keys that the action presses. Also the keys of
      `press_enter`, `clear_first` and the characters of a text;
    - `region`: contains a point of the action, or either end of a drag; both ends where
      the rule allows;
    - `test`: a glob on the id of the test; `task`: found in the task.

    Globs ignore case. `on_deny` overrides the policy's. Raises SettingsError where no
    condition is given.
    """

    decision: RulingKind
    name: str = ""
    action: str | None = None
    category: str | None = None
    explanation: re.Pattern[str] | None = None
    text: re.Pattern[str] | None = None
    keys: Keys | None = None
    region: Region | None = None
    test: str | None = None
    task: re.Pattern[str] | None = None
    on_deny: OnDeny | None = None

    def __post_init__(self) -> None:
        if all(getattr(self, condition) is None for condition in CONDITIONS):
            raise SettingsError(
                "a rule must have a condition, at least one of"
                f" {', '.join(CONDITIONS)}, got none"
            )

    def matches(self, proposal: Proposal, context: ReviewContext) -> bool:
        """Return whether the rule applies. Raises NotReviewed for too long an action."""
        action = proposal.action
        confirmation = proposal.confirmation
        categories = [confirmation.category] if confirmation else []
        explanation = confirmation.explanation if confirmation else None
        proposed_name = str(proposal.as_proposed.get("name", ""))
        if not _is_like(self.action, action.kind, name_of(action), proposed_name):
            return False
        if not _is_like(self.category, *categories):
            return False
        if not self._contains_points(points(action)):
            return False
        if not _is_like(self.test, context.test_id):
            return False
        if self.keys is not None:
            pressed = keys_of(action, context.held)
            if not self._presses(self.keys, pressed):
                return False
        if not _is_found(self.explanation, explanation):
            return False
        if not _is_found(self.task, context.task):
            return False
        return self.text is None or self._reads(self.text, action, context)

    def _presses(self, keys: Keys, pressed: tuple[Keys, ...]) -> bool:
        expected = on_us_keyboard(keys)
        if self.decision == "allow":
            return bool(pressed) and all(combo == expected for combo in pressed)
        return any(combo >= expected for combo in pressed)

    def _reads(
        self, pattern: re.Pattern[str], action: Action, context: ReviewContext
    ) -> bool:
        texts = texts_of(action)
        if self.decision == "allow":
            return bool(texts) and all(map(pattern.search, texts))
        if isinstance(action, CallFunction):
            texts.append(" ".join(_texts_in([*action.arguments.values()])))
        if any(map(pattern.search, texts)):
            return True
        before = "" if _starts_new_text(action) else context.typed
        typed = _typed_by(action)
        if not before or not typed:
            return False
        return _is_found_after(pattern, before + typed, len(before))

    def _contains_points(self, at: tuple[Point, ...]) -> bool:
        if self.region is None:
            return True
        left = self.region.left
        top = self.region.top
        right = self.region.right
        bottom = self.region.bottom
        within = [left <= x < right and top <= y < bottom for x, y in at]
        return any(within) if self.decision != "allow" else bool(within) and all(within)


_ENTRY = re.compile(
    r"((?:\*\.)?[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(?::(\d{1,5}|\*))?"
)
_URL = re.compile(
    r"(?:(https?)://)?([a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(?::(\d{1,5}))?([/?#][^\s\x00-\x1f\x7f]*)?",
    re.IGNORECASE,
)
"""The one form of a URL that can be in the list: no user, no escapes in its host,
nothing that a browser drops.
"""
_PRESET_RULES = (
    "no URL outside the list",
    "the page is in the list of hosts",
    "only listed actions",
    "only listed keys",
)
_EMPTY_PAGES = (
    "",
    EMPTY_PAGE,
    "about:home",
    "about:newtab",
    "chrome://newtab/",
    "chrome://new-tab-page/",
)


@dataclass(frozen=True)
class Preset:
    """The actions, keys and hosts that are allowed; all else is denied.

    A URL has a host of the list: `shop.example`, `*.shop.example`, `localhost:8080` or
    `localhost:*`. Without a port, a host stands for the ports 80 and 443. Raises
    SettingsError for any other entry.
    """

    name: str
    actions: frozenset[str]
    way_back: frozenset[str]
    keys: frozenset[Keys]
    hosts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for entry in self.hosts:
            if not _ENTRY.fullmatch(entry):
                raise SettingsError(
                    "`hosts` must be hosts in lower-case ASCII, such as"
                    " 'shop.example', '*.shop.example', 'localhost:8080' or"
                    f" 'localhost:*' (not {entry!r})"
                )

    def leaving(self, action: Action, context: ReviewContext) -> str:
        """Return the rule by which the action opens a URL outside the list, or stays at
        one; "" if it does not.
        """
        if isinstance(action, OpenUrl):
            is_listed = action.url == EMPTY_PAGE or self.lists(action.url)
            return "" if is_listed else self.titles[0]
        page = context.page_url()
        is_listed = page in _EMPTY_PAGES or (
            page.startswith("http") and self.lists(page)
        )
        return "" if is_listed or action.kind in self.way_back else self.titles[1]

    def denying(self, action: Action, context: ReviewContext) -> str:
        """Return the rule by which the action, or a key of it, is not in the list; ""
        if all is.
        """
        name = name_of(action) if isinstance(action, Click) else action.kind
        if name not in self.actions:
            return self.titles[2]
        pressed = keys_of(action, context.held)
        unlisted = [keys for keys in pressed if keys not in self.keys]
        return "" if all(map(_is_character, unlisted)) else self.titles[3]

    @property
    def titles(self) -> list[str]:
        """The names of its rules in rulings."""
        return [f"{self.name}: {rule}" for rule in _PRESET_RULES]

    def lists(self, url: str) -> bool:
        """Return whether the URL is written plainly, and its host is in the list."""
        match = _URL.fullmatch(url)
        if not match:
            return False
        scheme, host, port, path = match.groups()
        if not scheme and not port and not path and "." not in host:  # a plain word
            return False
        return any(_is_listed_as(entry, host.lower(), port) for entry in self.hosts)


def _is_character(keys: Keys) -> bool:
    return all(len(key) == 1 for key in keys - {"shift"})


def _is_listed_as(entry: str, host: str, port: str | None) -> bool:
    """Return whether an entry of the list stands for this host and port."""
    listed_host, listed_port = _ENTRY.fullmatch(entry).groups()  # type: ignore[union-attr]
    is_host = host == listed_host
    if listed_host.startswith("*."):
        is_host = host.endswith(listed_host[1:])
    if listed_port == "*":
        return is_host
    listed_ports = [listed_port] if listed_port else [None, "80", "443"]
    return is_host and port in listed_ports


_CONSEQUENCE: dict[RulingKind, str] = {
    "allow": "the action is allowed",
    "deny": "the action is denied",
    "ask": "a user must approve it first",
}


@dataclass(frozen=True)
class Policy:
    """Rules, read in order; the first that matches decides, on harmless actions too.

    A `preset` has the last word on hosts; what else it denies, a rule may allow. Where
    none matches, the ruling is `unmatched` for an action that the model wants
    confirmed; any other is allowed. `on_deny` states whether a denial ends the run or
    is only reported to the planner. `source` names the origin of the rules, for
    messages.
    """

    rules: tuple[Rule, ...] = ()
    unmatched: Unmatched = "deny"
    on_deny: OnDeny = "end"
    source: str = ""
    preset: Preset | None = None

    def review(self, proposal: Proposal, context: ReviewContext) -> Ruling:
        """Return the ruling on a proposal before it is performed. No rule allows what
        the model's service blocks.
        """
        action = proposal.action
        preset = self.preset
        if proposal.confirmation and proposal.confirmation.blocks:
            return self._ruling("deny", BLOCKED, proposal)
        if preset and (title := preset.leaving(action, context)):
            return self._ruling("deny", title, proposal)
        for number, rule in enumerate(self.rules, start=1):
            title = rule_title(number, rule.name)
            try:
                if rule.matches(proposal, context):
                    return self._ruling(rule.decision, title, proposal, rule.on_deny)
            except NotReviewed as exc:
                return self._ruling("deny", f"{title}: {exc}", proposal, rule.on_deny)
        if preset and (title := preset.denying(action, context)):
            return self._ruling("deny", title, proposal)
        if proposal.confirmation is None:
            return Ruling(
                "allow",
                "harmless",
                "the model asks for no confirmation, and no rule forbids it",
            )
        return self._ruling(self.unmatched, "no rule matches", proposal)

    def _ruling(
        self,
        kind: RulingKind,
        rule: str,
        proposal: Proposal,
        on_deny: OnDeny | None = None,
    ) -> Ruling:
        origin = f"{rule} (in {self.source})" if self.source else rule
        explanation = f"{origin}: {_CONSEQUENCE[kind]}"
        if confirmation := proposal.confirmation:
            reason = "the model asks for confirmation"
            if confirmation.blocks:
                reason = "the model's service blocks it"
            explanation += f"; {reason} because {confirmation.explanation!r}"
        ends_run = (on_deny or self.on_deny) == "end"
        return Ruling(kind, rule, explanation, ends_run=ends_run)


def rule_title(number: int, name: str) -> str:
    """Return a rule's title for rulings and messages: "rule 3 'no destructive keys'";
    `number` counts from 1.
    """
    return f"rule {number} {name!r}" if name else f"rule {number}"


def answer(asked: Ruling, *, yes: bool) -> Ruling:
    """Return the ruling after a user's answer to an "ask"."""
    explanation = f"{'approved' if yes else 'denied'} by a user ({asked.explanation})"
    return replace(
        asked, kind="allow" if yes else "deny", by="user", explanation=explanation
    )


def deny_unasked(asked: Ruling) -> Ruling:
    """Return the ruling without a user to ask: a denial."""
    return replace(
        asked,
        kind="deny",
        explanation=f"there is no user to ask, so it is denied ({asked.explanation})",
    )
