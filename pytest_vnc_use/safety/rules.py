"""Rules for when nobody is at the keyboard, and the policy that reads them in order.

A proposal is reviewed with the actions before it: they hold keys, and typed the text that it continues. Secrets appear
in proposals as placeholders: no rule sees their values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from typing import Literal, Protocol

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.keyboard.names import key_set as key_set, on_us_keyboard, unknown_keys as unknown_keys
from pytest_vnc_use.safety.action_parts import is_like, is_within, names_of
from pytest_vnc_use.safety.keyboard_state import KeyboardState
from pytest_vnc_use.safety.patterns import NotReviewed, Search, check
from pytest_vnc_use.safety.rulings import BLOCKED, CONSEQUENCE, is_blocked, wish_in_words
from pytest_vnc_use.safety.sight import Sight
from pytest_vnc_use.types import Action, Proposal, Region, Ruling, RulingKind
from pytest_vnc_use.types.action_points import Point, points

Unmatched = Literal["deny", "ask"]
OnDeny = Literal["end", "continue"]


def _check(pattern: re.Pattern[str]) -> None:
    try:
        check(pattern)
    except ValueError as exc:
        raise SettingsError(str(exc)) from exc


def _is_found(pattern: re.Pattern[str] | None, text: str | None) -> bool:
    return pattern is None or (text is not None and Search(pattern).find(text) is not None)


# --- rules -----------------------------------------------------------------------------------------------------------

CONDITIONS = ("action", "category", "explanation", "text", "keys", "region", "test", "task")
"""The fields of a rule that say when it applies."""


@dataclass(frozen=True)
class ReviewContext:
    """The origin of a proposal: the test's pytest id (empty outside pytest) and the task's sentence.

    `keyboard` is the keyboard's state before it. `page_url` returns the address of the browser's page now, "" where
    nobody knows.
    """

    test_id: str = ""
    task: str = ""
    keyboard: KeyboardState = field(default_factory=KeyboardState)
    page_url: Callable[[], str] = str

    def sight_of(self, action: Action) -> Sight:
        """Return the policy's view of the next action. Raises NotReviewed where it exceeds a limit."""
        return Sight(action, self.keyboard)


@dataclass(frozen=True)
class Rule:
    """One rule of a policy; it applies where every given condition holds.

    - `action`: a glob on the action's kind, on the name that the model gave it, or on the name of a user's function; a
      click is also a right_click, middle_click, double_click or triple_click;
    - `category`: a glob on the category of the model's wish for confirmation;
    - `explanation`: found in the model's reason for that wish;
    - `text`: found in the typed or pasted text, in the opened address, or in the arguments of a function. For a rule
      that allows, it must be found in each of these, both as it is and in its plain form (see `text_forms`). For any
      other rule, it may also be found in the text that the typing adds up to with earlier typing, and in other forms of
      all these texts. A text that is entered after a key for a browser's address bar counts as an address too;
    - `keys`: keys that are down together (see `key_set`), whatever else is down, or keys that programs take for them; a
      rule that allows must name exactly the keys that the action presses;
    - `region`: contains a point of the action, or either end of a drag; both ends where the rule allows;
    - `test`: a glob on the id of the test; `task`: found in the task.

    Globs ignore case. `on_deny` overrides the policy's. Raises SettingsError where no condition is given, or where a
    pattern cannot be searched for.
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
        for pattern in (self.explanation, self.text, self.task):
            if pattern is not None:
                _check(pattern)

    def matches(self, proposal: Proposal, context: ReviewContext, see: Callable[[], Sight] | None = None) -> bool:
        """Return whether the rule applies; `see` returns the policy's view of the action, made once for all rules.

        Raises NotReviewed where the search for a pattern does not end in time, or the action exceeds another limit.
        """
        action, wish = proposal.action, proposal.confirmation
        return (
            is_like(self.action, *names_of(proposal))
            and is_like(self.category, *([wish.category] if wish else ()))
            and _is_found(self.explanation, wish.explanation if wish else None)
            and self._covers(points(action))
            and is_like(self.test, context.test_id)
            and _is_found(self.task, context.task)
            and ((self.keys is None and self.text is None) or self._sees(see() if see else context.sight_of(action)))
        )

    def _sees(self, sight: Sight) -> bool:
        return (self.keys is None or self._presses(self.keys, sight)) and (
            self.text is None or self._reads(self.text, sight)
        )

    def _presses(self, keys: frozenset[str], sight: Sight) -> bool:
        combination = on_us_keyboard(keys)
        if self.decision == "allow":
            return bool(sight.keys) and all(pressed == combination for pressed in sight.keys)
        return any(pressed >= combination for pressed in (*sight.keys, *sight.alike))

    def _reads(self, text: re.Pattern[str], sight: Sight) -> bool:
        search = Search(text)
        if self.decision == "allow":
            return bool(sight.own) and all(map(search.find, chain(sight.own, sight.plain)))
        return any(map(search.find, chain(sight.own, sight.spellings))) or any(
            each.shows(search) for each in sight.joined
        )

    def _covers(self, points: tuple[Point, ...]) -> bool:
        if self.region is None:
            return True
        within = [is_within(self.region, point) for point in points]
        return any(within) if self.decision != "allow" else bool(within) and all(within)


class PresetRule(Protocol):
    """A rule of a preset; it can check what no condition of a `Rule` can."""

    @property
    def name(self) -> str:
        """The name of the rule in rulings."""

    @property
    def decision(self) -> RulingKind:
        """The ruling where it applies."""

    @property
    def on_deny(self) -> OnDeny | None:
        """The rule's own `on_deny`, if it overrides the policy's."""

    @property
    def sentence(self) -> str:
        """Return the rule in words, for a person who reads the policy."""

    def matches(self, proposal: Proposal, context: ReviewContext, see: Callable[[], Sight] | None = None) -> bool:
        """Return whether the rule applies, as a `Rule` does. Raises NotReviewed."""


@dataclass(frozen=True)
class Policy:
    """Rules, read in order; the first that matches decides, on harmless actions too.

    A preset's rules come `first` and `last`, with those of the file between. Where none matches, the ruling is
    `unmatched` for an action that the model wants confirmed; any other is allowed. `on_deny` says whether a denial ends
    the run or is only reported to the planner. `source` names the origin of the rules, for messages.
    """

    rules: tuple[Rule, ...] = ()
    unmatched: Unmatched = "deny"
    on_deny: OnDeny = "end"
    source: str = ""
    first: tuple[PresetRule, ...] = ()
    last: tuple[PresetRule, ...] = ()

    @classmethod
    def interactive(cls, rules: tuple[Rule, ...] = ()) -> Policy:
        """Return the policy for a session with a person: they decide where no rule does."""
        return cls(rules, unmatched="ask")

    def review(self, proposal: Proposal, context: ReviewContext) -> Ruling:
        """Return the ruling on a proposal, before it is carried out.

        No rule allows an action that the model's service blocks.
        """
        if is_blocked(proposal):
            return self._ruling("deny", BLOCKED, proposal)
        see = cache(lambda: context.sight_of(proposal.action))
        for title, rule in self.titled():
            try:
                if rule.matches(proposal, context, see):
                    return self._ruling(rule.decision, title, proposal, rule.on_deny)
            except NotReviewed as exc:
                return self._ruling("deny", f"{title}: {exc}", proposal, rule.on_deny)
        if proposal.confirmation is None:
            return Ruling("allow", "harmless", "the model asks for no confirmation, and no rule forbids it")
        return self._ruling(self.unmatched, "no rule matches", proposal)

    def titled(self) -> Iterator[tuple[str, Rule | PresetRule]]:
        """Yield the rules in their order, each with its title. The rules of the file are numbered."""
        yield from ((rule.name, rule) for rule in self.first)
        yield from ((rule_title(number, rule.name), rule) for number, rule in enumerate(self.rules, start=1))
        yield from ((rule.name, rule) for rule in self.last)

    def _ruling(self, kind: RulingKind, rule: str, proposal: Proposal, on_deny: OnDeny | None = None) -> Ruling:
        origin = f"{rule} (in {self.source})" if self.source else rule
        explanation = f"{origin}: {CONSEQUENCE[kind]}{wish_in_words(proposal.confirmation)}"
        return Ruling(kind, rule, explanation, ends_run=(on_deny or self.on_deny) == "end")


def rule_title(number: int, name: str) -> str:
    """Return a rule's title for rulings and messages: "rule 3 'no destructive keys'"; `number` counts from 1."""
    return f"rule {number} {name!r}" if name else f"rule {number}"
