"""The costs of models: prices, the budget of a test and of a session, and the ledger that a session's processes share.

A budget is checked before each call of a model and charged after it. The estimate of a call comes from its text and
images, and from the largest call so far; it counts nothing as cached. A session is one account for all its processes,
and calls in progress count as reserved. So a session exceeds its limit by at most one call per process, if an answer is
longer than estimated. A call without a count, such as an abandoned request, counts as estimated, because it may have
been billed.
"""

from __future__ import annotations

import json
import math
import re
import sys
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from functools import partial
from importlib import import_module
from importlib.resources import files
from pathlib import Path

from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pytest_vnc_use import clock
from pytest_vnc_use.deadline import acquire
from pytest_vnc_use.errors import BudgetExceeded, InfraError, SettingsError
from pytest_vnc_use.files import read_regular, replace_file
from pytest_vnc_use.plain_text import got
from pytest_vnc_use.types import ModelExchange, ModelRequest, RunEvent, RunStarted, StepFinished, Usage

tomllib = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")

IMAGE_TOKENS = 2500
"""The most tokens of one image, for a row that does not say. A 1440x900 screen is 1,728 with Claude."""
_MILLION = 1_000_000
_BUILD = re.compile(r"-(?:\d{3,8}|\d{4}-\d{2}-\d{2})$")


class Price(BaseModel):
    """One row of the table: US dollars for a million tokens of some models, from a day on (UTC)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    models: list[str] = Field(min_length=1)
    since: date = Field(date.min, alias="from")
    input: float = Field(ge=0, allow_inf_nan=False)
    cached: float | None = Field(None, ge=0, allow_inf_nan=False)
    """The price of input tokens that were read from a cache. If it is missing, `input` holds."""
    output: float = Field(ge=0, allow_inf_nan=False)
    image_tokens: int = Field(IMAGE_TOKENS, ge=0)

    def dollars(self, usage: Usage) -> float:
        """Return the price of these tokens. `usage.input` includes the cached ones."""
        cached_price = self.input if self.cached is None else self.cached
        fresh, answered = usage.input - usage.cached, usage.output + usage.thinking
        return (fresh * self.input + usage.cached * cached_price + answered * self.output) / _MILLION


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid")

    dated: date | None = None
    price: list[Price] = []


@dataclass(frozen=True)
class Prices:
    """The prices of one day by model name."""

    by_model: Mapping[str, Price]

    def of(self, model: str) -> Price | None:
        """Return the price of a model, also for a longer name of it: such as `NAME-001` or `NAME-2026-08-01`."""
        name = model.removeprefix("models/")
        return self.by_model.get(name) or self.by_model.get(_BUILD.sub("", name))

    def check(self, model: str) -> None:
        """Raise SettingsError if the model's price is unknown, so that a dollar limit cannot be kept."""
        if self.of(model) is None:
            raise SettingsError(
                f"the price of the model {model!r} is unknown, so a limit in dollars cannot be checked. Put the "
                f'price into a file (-o vnc_prices=prices.toml): [[price]] models = ["{model}"], with input and '
                "output in dollars per million tokens, or set a limit in tokens"
            )


def load_prices(path: str = "", *, today: date | None = None) -> Prices:
    """Return the package's table with the user's rows over it. Raises SettingsError if the file is not valid."""
    day, by_model = today or clock.utc_now().date(), dict[str, Price]()
    texts = [("prices.toml", files(__package__).joinpath("prices.toml").read_bytes())]
    try:
        texts += [(path, read_regular(path))] if path else []
    except OSError as exc:
        raise SettingsError(f"vnc_prices must name a TOML file of prices, got {path!r}: {exc.strerror}") from exc
    for name, text in texts:
        try:
            rows = _Table.model_validate(tomllib.loads(text.decode())).price
        except UnicodeDecodeError as exc:
            raise SettingsError(f"vnc_prices={name!r} must be saved as UTF-8: {exc}") from exc
        except ValidationError as exc:
            first = exc.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise SettingsError(f"vnc_prices={name!r}: {where}: {first['msg']}, got {got(first['input'])}") from exc
        except (ValueError, RecursionError) as exc:  # also for a number with too many digits
            raise SettingsError(f"vnc_prices={name!r} must be TOML: {exc}") from exc
        for row in sorted(rows, key=lambda row: row.since):
            by_model |= dict.fromkeys(row.models, row) if row.since <= day else {}
    return Prices(by_model)


LOCK_S = 30.0
PREFIX = "vnc-use-session-"
"""The beginning of the name of a session's directory for its ledger."""


@dataclass(frozen=True)
class Amount:
    """Steps, tokens (input and output), and US dollars."""

    steps: int = 0
    tokens: int = 0
    dollars: float = 0.0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.steps + other.steps, self.tokens + other.tokens, self.dollars + other.dollars)


@dataclass
class _Account:
    started_at: float
    used: Amount = field(default_factory=Amount)
    reserved: dict[str, Amount] = field(default_factory=dict)


class Ledger:
    """One account in a directory. Every process opens it by the directory's path and changes it only under a file lock.

    A reservation for a call that never came back, such as after a `kill -9`, stays: the call may have been paid.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.directory = directory
        self._file = directory / "ledger.json"
        self._lock = FileLock(directory / "ledger.lock", mode=0o600)

    def reserve(self, expected: Amount, check: Callable[[Amount, float], None]) -> str:
        """Count `expected` as used until it is settled under the returned name.

        `check` is called first and may raise. It gets the sum of used and reserved, and the session's seconds so far.
        """
        name = uuid.uuid4().hex
        with self._changing() as account:
            check(sum(account.reserved.values(), account.used), clock.monotonic() - account.started_at)
            account.reserved[name] = expected
        return name

    def settle(self, name: str, used: Amount) -> None:
        """Replace the reservation of that name by the real use. Without one (`""`), only add the use."""
        with self._changing() as account:
            account.reserved.pop(name, None)
            account.used += used

    def used(self) -> Amount:
        """Return the use, without reservations."""
        with self._changing() as account:
            return account.used

    @contextmanager
    def _changing(self) -> Iterator[_Account]:
        try:
            lock = acquire(self._lock, LOCK_S)
        except Timeout as exc:
            raise InfraError(
                f"the session's account in {str(self.directory)!r} stayed locked for {LOCK_S} s. "
                "End the process of the session that hangs while writing it"
            ) from exc
        with lock:
            account = _Account(clock.monotonic())
            with suppress(FileNotFoundError):
                stored = json.loads(self._file.read_text("utf-8"))
                reserved = {name: Amount(**amount) for name, amount in stored["reserved"].items()}
                account = _Account(stored["started_at"], Amount(**stored["used"]), reserved)
            yield account
            replace_file(self._file, json.dumps(asdict(account)).encode(), mode=0o600)


_CHARACTERS_A_TOKEN = 3
"""English and JSON have about four, so an estimate is rather too high."""
_SHORT_ANSWER = 500
_QUESTION = 3_000
"""The characters of a judge's prompt with its claim."""


@dataclass(frozen=True)
class CostLimits:
    """The limits of a test or a session; None is no limit.

    `of` is the beginning of the options' names: `--vnc-session-max-` for a session's.
    """

    of: str = "--vnc-max-"
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
                more = f", and the next call may take {_number(next_call)}" if name in ("tokens", "dollars") else ""
                whose = "session" if "session" in self.of else "test"
                raise BudgetExceeded(
                    f"the {name} of this {whose} are used up: {_number(so_far)} of {_number(limit)}{more}; the model "
                    f"is not asked again. {self.of}{name} sets the limit"
                )


@dataclass
class Spent:
    """The use so far: counts of services, and estimates for uncounted calls.

    `dollars` is the sum of the calls with a known price; `unpriced` are the models of the others. `usage` is the
    services' count. `uncounted` calls have no count from the service; `estimated` is their estimate. `tokens` and
    `dollars` include it.
    """

    calls: int = 0
    usage: Usage = field(default_factory=Usage)
    dollars: float = 0.0
    unpriced: set[str] = field(default_factory=set)
    uncounted: int = 0
    estimated: Amount = field(default_factory=Amount)

    @property
    def tokens(self) -> int:
        """Return all tokens: input, output and thinking, with the estimated ones."""
        return _tokens(self.usage) + self.estimated.tokens

    def add(self, model: str, usage: Usage, estimated: Amount | None, dollars: float | None) -> None:
        """Add one call. `estimated` is set if no service counted it; `dollars` is None if the price is unknown."""
        self.calls += 1
        self.usage += usage
        self.dollars += dollars or 0.0
        if estimated:
            self.uncounted += 1
            self.estimated += estimated
        if dollars is None and (estimated or _tokens(usage)):
            self.unpriced.add(model)


@dataclass(frozen=True)
class _Call:
    """A pending call. `name` is its reservation in the ledger, "" without one."""

    model: str
    expected: Amount = field(default_factory=Amount)
    name: str = ""


class Budget:
    """The account of one test, which without a shared `ledger` is also its session."""

    def __init__(
        self, prices: Prices, test: CostLimits, session: CostLimits, ledger: Ledger | None = None, judge_model: str = ""
    ) -> None:
        self._settled = Spent()
        self._prices = prices
        self._test, self._session = test, session
        self._ledger = ledger
        self._steps = 0
        self._started_at = clock.monotonic()
        self._pending: dict[int, _Call] = {}
        self._largest: dict[str, Usage] = {}
        self._judge_model, self._judgings = judge_model, 0

    @property
    def spent(self) -> Spent:
        """Return the use so far. A pending call counts as estimated, also if an interrupt ended its test."""
        spent = replace(self._settled, unpriced=set(self._settled.unpriced))
        for call in list(self._pending.values()):
            spent.add(
                call.model, Usage(), call.expected, call.expected.dollars if self._prices.of(call.model) else None
            )
        return spent

    def receive(self, event: RunEvent) -> RunEvent:
        """Return the event; an exchange gets its price. Raises BudgetExceeded if a request must not be sent."""
        match event:
            case RunStarted():
                is_judged = event.test_id and not (event.body_checks or event.custom_judge)
                claims = max(1, len(event.expect)) if is_judged and self._judge_model else 0
                self._judgings = claims * int(event.settings["votes"])
            case ModelRequest():
                self.before(event)
            case ModelExchange():
                return self.after(event)
            case StepFinished():
                self.stepped()
            case _:
                pass
        return event

    def before(self, request: ModelRequest) -> None:
        """Raise BudgetExceeded if the call must not be made, SettingsError if its dollars cannot be known."""
        if given_up := self._pending.pop(threading.get_ident(), None):
            self._settle(given_up, Usage(), uncounted=True)
        if self._test.dollars or self._session.dollars:
            self._prices.check(request.model)
        maximum = expected = self._estimate(request)
        if request.purpose == "planner":  # It reserves what the judge's calls at the end of this run may cost.
            judging = self._estimate(ModelRequest("judge", self._judge_model, _QUESTION, 1, _SHORT_ANSWER))
            maximum = sum([judging] * self._judgings, expected)
        spent, name = self.spent, ""
        used = Amount(self._steps, spent.tokens, spent.dollars)
        self._test.check(used, 0.0, maximum)
        if self._ledger is None:
            self._session.check(used, clock.monotonic() - self._started_at, maximum)
        else:
            name = self._ledger.reserve(expected, partial(self._session.check, expected=maximum))
        self._pending[threading.get_ident()] = _Call(request.model, expected, name)

    def after(self, exchange: ModelExchange) -> ModelExchange:
        """Count the exchange, and return it with its price."""
        call = self._pending.pop(threading.get_ident(), _Call(exchange.model))
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
        """Count one step that was performed."""
        self._steps += 1
        if self._ledger:
            self._ledger.settle("", Amount(steps=1))

    def recall(self, exchanges: Iterable[ModelExchange], steps: int) -> None:
        """Count what a resumed run used in another process."""
        for exchange in exchanges:
            price = self._prices.of(exchange.model)
            self._settled.add(exchange.model, exchange.usage, None, price.dollars(exchange.usage) if price else None)
        self._steps += steps

    def _estimate(self, request: ModelRequest) -> Amount:
        price = self._prices.of(request.model)
        image_tokens = price.image_tokens if price else IMAGE_TOKENS
        largest = self._largest.get(request.purpose, Usage())
        sent = max(math.ceil(request.characters / _CHARACTERS_A_TOKEN) + request.images * image_tokens, largest.input)
        answer = min(request.answer_tokens, max(_SHORT_ANSWER, largest.output))
        return Amount(0, sent + answer, price.dollars(Usage(sent, 0, answer)) if price else 0.0)


def _tokens(usage: Usage) -> int:
    return usage.input + usage.output + usage.thinking


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.4f}".rstrip("0").rstrip(".")
