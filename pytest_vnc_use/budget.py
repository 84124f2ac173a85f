"""What a test and a session may use: asked before each call of a model, told after it.

What a call may cost is reckoned from its text and pictures, and from the largest so far; nothing in it counts as
cached. A session is one account for all its processes (see `ledger`), in which calls that are under way count as
reserved; so it never uses more than its limit and, where an answer is longer than was reckoned, one call a process.
"""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass, field, replace
from functools import partial

from pytest_vnc_use.errors import BudgetExceeded
from pytest_vnc_use.ledger import Amount, Ledger
from pytest_vnc_use.prices import IMAGE_TOKENS, Prices
from pytest_vnc_use.types import ModelAsked, ModelExchange, RunEvent, StepFinished, Usage

_CHARACTERS_A_TOKEN = 3
"""Of English and JSON it is about four; so a reckoning is rather too high."""
_SHORT_ANSWER = 500


@dataclass(frozen=True)
class Most:
    """Limits; None for none. `of` names the options that set them: `--vnc-max-` for a session's."""

    of: str = "--vnc-"
    steps: int | None = None
    seconds: float | None = None
    tokens: int | None = None
    dollars: float | None = None

    def check(self, used: Amount, spent_s: float, expected: Amount) -> None:
        """Raises BudgetExceeded where something is used up, or the next call may go beyond it."""
        for name, limit, so_far, next_call in (
            ("steps", self.steps, used.steps, 1),
            ("seconds", self.seconds, spent_s, 0),
            ("tokens", self.tokens, used.tokens, expected.tokens),
            ("dollars", self.dollars, used.dollars, expected.dollars),
        ):
            if limit is not None and (so_far + next_call > limit or so_far >= limit):
                raise BudgetExceeded(self._told(name, limit, so_far, next_call))

    def _told(self, name: str, limit: float, so_far: float, next_call: float) -> str:
        more = f", and the next call may take {_number(next_call)}" if name in ("tokens", "dollars") else ""
        whose = "session" if self.of.endswith("max-") else "test"
        return (
            f"the {name} of this {whose} are used up: {_number(so_far)} of {_number(limit)}{more}; the model is not "
            f"asked any more. {self.of}{name} sets the limit"
        )


@dataclass
class Spent:
    """What was used so far; `dollars` of the calls whose price is known, `unpriced` the models of the others."""

    calls: int = 0
    usage: Usage = field(default_factory=Usage)
    dollars: float = 0.0
    unpriced: set[str] = field(default_factory=set)

    @property
    def tokens(self) -> int:
        return _tokens(self.usage)

    def add(self, exchange: ModelExchange) -> None:
        self.calls += 1
        self.usage += exchange.usage
        self.dollars += exchange.dollars or 0.0
        if exchange.dollars is None and _tokens(exchange.usage):
            self.unpriced.add(exchange.model)


class Budget:
    """The account of one test, which is a session of its own where there is no `ledger` that others share."""

    def __init__(self, prices: Prices, test: Most, session: Most, ledger: Ledger | None = None) -> None:
        self.spent = Spent()
        self._prices = prices
        self._test, self._session = test, session
        self._ledger = ledger
        self._steps = 0
        self._began_s = time.monotonic()
        self._reserved: dict[int, str] = {}
        self._largest: dict[str, Usage] = {}

    def hear(self, event: RunEvent) -> RunEvent:
        """The event, an exchange with its price. Raises BudgetExceeded where a request must not be sent."""
        match event:
            case ModelAsked():
                self.before(event)
            case ModelExchange():
                return self.after(event)
            case StepFinished():
                self.stepped()
            case _:
                pass
        return event

    def before(self, asked: ModelAsked) -> None:
        """Raises BudgetExceeded where the call must not be made."""
        expected = self._expected(asked)
        own = Amount(self._steps, self.spent.tokens, self.spent.dollars)
        self._test.check(own, 0.0, expected)
        if self._ledger is None:
            self._session.check(own, time.monotonic() - self._began_s, expected)
        else:
            refuse = partial(self._session.check, expected=expected)
            self._reserved[threading.get_ident()] = self._ledger.reserve(expected, refuse)

    def after(self, exchange: ModelExchange) -> ModelExchange:
        """The exchange with its price; it is counted."""
        price = self._prices.of(exchange.model)
        priced = replace(exchange, dollars=price.dollars(exchange.usage) if price else None)
        self.spent.add(priced)
        self._largest[exchange.purpose] = _larger(exchange.usage, self._largest.get(exchange.purpose, Usage()))
        if self._ledger:
            used = Amount(0, _tokens(exchange.usage), priced.dollars or 0.0)
            self._ledger.settle(self._reserved.pop(threading.get_ident(), ""), used)
        return priced

    def stepped(self) -> None:
        """One step was carried out."""
        self._steps += 1
        if self._ledger:
            self._ledger.settle("", Amount(steps=1))

    def _expected(self, asked: ModelAsked) -> Amount:
        price = self._prices.of(asked.model)
        image_tokens = price.image_tokens if price else IMAGE_TOKENS
        largest = self._largest.get(asked.purpose, Usage())
        sent = max(math.ceil(asked.characters / _CHARACTERS_A_TOKEN) + asked.images * image_tokens, largest.input)
        answer = min(asked.answer_tokens, max(_SHORT_ANSWER, largest.output))
        return Amount(0, sent + answer, price.dollars(Usage(sent, 0, answer)) if price else 0.0)


def _larger(usage: Usage, before: Usage) -> Usage:
    """What a call of that size may use: as much as was sent, and as was answered, with thoughts, in any one so far."""
    return Usage(max(usage.input, before.input), 0, max(usage.output + usage.thinking, before.output))


def _tokens(usage: Usage) -> int:
    return usage.input + usage.output + usage.thinking


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.4f}".rstrip("0").rstrip(".")
