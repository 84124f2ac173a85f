"""The budget of a test and of a session. It is checked before each call of a model and charged after it.

The estimate of a call comes from its text and pictures, and from the largest call so far; it counts nothing as cached.
A session is one account for all its processes (see `ledger`), and calls under way count as reserved. So a session
exceeds its limit by at most one call per process, if an answer is longer than estimated. A call without a count, such
as an abandoned request, counts as estimated, because it may have been billed.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial

from pytest_vnc_use import clock
from pytest_vnc_use.costs.ledger import Amount, Ledger
from pytest_vnc_use.costs.prices import IMAGE_TOKENS, Prices
from pytest_vnc_use.errors import BudgetExceeded
from pytest_vnc_use.types import ModelAsked, ModelExchange, RunEvent, RunStarted, StepFinished, Usage

_CHARACTERS_A_TOKEN = 3
"""English and JSON have about four, so an estimate is rather too high."""
_SHORT_ANSWER = 500
_QUESTION = 3_000
"""The characters of a judge's prompt with its claim."""


@dataclass(frozen=True)
class Most:
    """The limits of a test or a session; None is no limit.

    `of` is the beginning of the options' names: `--vnc-max-` for a session's.
    """

    of: str = "--vnc-"
    steps: int | None = None
    seconds: float | None = None
    tokens: int | None = None
    dollars: float | None = None

    def check(self, used: Amount, spent_s: float, expected: Amount) -> None:
        """Raise BudgetExceeded if a limit is reached, or if the next call may exceed it."""
        for name, limit, so_far, next_call in (
            ("steps", self.steps, used.steps, 1),
            ("seconds", self.seconds, spent_s, 0),
            ("tokens", self.tokens, used.tokens, expected.tokens),
            ("dollars", self.dollars, used.dollars, expected.dollars),
        ):
            if limit is not None and (so_far + next_call > limit or so_far >= limit):
                raise BudgetExceeded(self._message(name, limit, so_far, next_call))

    def _message(self, name: str, limit: float, so_far: float, next_call: float) -> str:
        more = f", and the next call may take {_number(next_call)}" if name in ("tokens", "dollars") else ""
        whose = "session" if self.of.endswith("max-") else "test"
        return (
            f"the {name} of this {whose} are used up: {_number(so_far)} of {_number(limit)}{more}; the model is not "
            f"asked again. {self.of}{name} sets the limit"
        )


@dataclass
class Spent:
    """The use so far: counts of services, and estimates for uncounted calls.

    `dollars` is the sum of the calls with a known price; `unpriced` are the models of the others. `usage` is the
    services' count. `uncounted` calls have no count from the service; `reckoned` is their estimate. `tokens` and
    `dollars` include it.
    """

    calls: int = 0
    usage: Usage = field(default_factory=Usage)
    dollars: float = 0.0
    unpriced: set[str] = field(default_factory=set)
    uncounted: int = 0
    reckoned: Amount = field(default_factory=Amount)

    @property
    def tokens(self) -> int:
        """Return all tokens: input, output and thinking, with the estimated ones."""
        return _tokens(self.usage) + self.reckoned.tokens

    def add(self, model: str, usage: Usage, reckoned: Amount | None, dollars: float | None) -> None:
        """Add one call. `reckoned` is set if no service counted it; `dollars` is None if the price is unknown."""
        self.calls += 1
        self.usage += usage
        self.dollars += dollars or 0.0
        if reckoned:
            self.uncounted += 1
            self.reckoned += reckoned
        if dollars is None and (reckoned or _tokens(usage)):
            self.unpriced.add(model)


@dataclass(frozen=True)
class _Call:
    """A call under way. `name` is its reservation in the ledger, "" without one."""

    model: str
    expected: Amount = field(default_factory=Amount)
    name: str = ""


class Budget:
    """The account of one test. Without a shared `ledger`, the test is a session of its own."""

    def __init__(
        self, prices: Prices, test: Most, session: Most, ledger: Ledger | None = None, judge_model: str = ""
    ) -> None:
        self._settled = Spent()
        self._prices = prices
        self._test, self._session = test, session
        self._ledger = ledger
        self._steps = 0
        self._began_s = clock.monotonic()
        self._under_way: dict[int, _Call] = {}
        self._largest: dict[str, Usage] = {}
        self._judge_model, self._judgings = judge_model, 0

    @property
    def spent(self) -> Spent:
        """Return the use so far. A call under way counts as estimated, also if an interrupt ended its test."""
        spent = replace(self._settled, unpriced=set(self._settled.unpriced))
        for call in list(self._under_way.values()):
            spent.add(
                call.model, Usage(), call.expected, call.expected.dollars if self._prices.of(call.model) else None
            )
        return spent

    def hear(self, event: RunEvent) -> RunEvent:
        """Return the event; an exchange gets its price. Raises BudgetExceeded if a request must not be sent."""
        match event:
            case RunStarted():
                is_judged = event.test_id and not (event.body_checks or event.own_judge)
                claims = max(1, len(event.expect)) if is_judged and self._judge_model else 0
                self._judgings = claims * int(event.settings["votes"])
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
        """Raise BudgetExceeded if the call must not be made, SettingsError if its dollars cannot be known."""
        if given_up := self._under_way.pop(threading.get_ident(), None):
            self._settle(given_up, Usage(), uncounted=True)
        if self._test.dollars or self._session.dollars:
            self._prices.check(asked.model)
        expected, name = self._estimate(asked), ""
        most = expected + self._judging() if asked.purpose == "planner" else expected
        spent = self.spent
        own = Amount(self._steps, spent.tokens, spent.dollars)
        self._test.check(own, 0.0, most)
        if self._ledger is None:
            self._session.check(own, clock.monotonic() - self._began_s, most)
        else:
            name = self._ledger.reserve(expected, partial(self._session.check, expected=most))
        self._under_way[threading.get_ident()] = _Call(asked.model, expected, name)

    def after(self, exchange: ModelExchange) -> ModelExchange:
        """Count the exchange, and return it with its price."""
        call = self._under_way.pop(threading.get_ident(), _Call(exchange.model))
        usage, before = exchange.usage, self._largest.get(exchange.purpose, Usage())
        output = max(usage.output + usage.thinking, before.output)
        self._largest[exchange.purpose] = Usage(max(usage.input, before.input), 0, output)
        return replace(exchange, dollars=self._settle(call, exchange.usage, uncounted=exchange.uncounted))

    def _settle(self, call: _Call, usage: Usage, *, uncounted: bool) -> float | None:
        """Count the call, and return its cost in dollars; None if the price is unknown."""
        price = self._prices.of(call.model)
        used = call.expected if uncounted else Amount(0, _tokens(usage), price.dollars(usage) if price else 0.0)
        dollars = used.dollars if price else None
        self._settled.add(call.model, usage, used if uncounted else None, dollars)
        if self._ledger:
            self._ledger.settle(call.name, used)
        return dollars

    def stepped(self) -> None:
        """Count one step that was carried out."""
        self._steps += 1
        if self._ledger:
            self._ledger.settle("", Amount(steps=1))

    def recall(self, exchanges: Iterable[ModelExchange], steps: int) -> None:
        """Count what a resumed run used in another process."""
        for exchange in exchanges:
            price = self._prices.of(exchange.model)
            self._settled.add(exchange.model, exchange.usage, None, price.dollars(exchange.usage) if price else None)
        self._steps += steps

    def _judging(self) -> Amount:
        """Return what the judge's calls at the end of this run may cost."""
        one = self._estimate(ModelAsked("judge", self._judge_model, _QUESTION, 1, _SHORT_ANSWER))
        return sum([one] * self._judgings, Amount())

    def _estimate(self, asked: ModelAsked) -> Amount:
        price = self._prices.of(asked.model)
        image_tokens = price.image_tokens if price else IMAGE_TOKENS
        largest = self._largest.get(asked.purpose, Usage())
        sent = max(math.ceil(asked.characters / _CHARACTERS_A_TOKEN) + asked.images * image_tokens, largest.input)
        answer = min(asked.answer_tokens, max(_SHORT_ANSWER, largest.output))
        return Amount(0, sent + answer, price.dollars(Usage(sent, 0, answer)) if price else 0.0)


def _tokens(usage: Usage) -> int:
    return usage.input + usage.output + usage.thinking


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.4f}".rstrip("0").rstrip(".")
