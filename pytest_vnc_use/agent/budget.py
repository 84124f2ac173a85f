"""The costs of models: prices, the budget of a test and of a session, and the ledger
that a session's processes share.

A budget is checked before each call of a model and charged after it. The estimate of a
call comes from its text and images, and from the largest call so far; it counts nothing
as cached. A session is one account for all its processes, and calls in progress count
as reserved. So a session exceeds its limit by at most one call per process, if an
answer is longer than estimated. A call without a count, such as an abandoned request,
counts as estimated, because it may have been billed.
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
from pytest_vnc_use.files import (
    check_out,
    explain_unreadable,
    read_regular,
    replace_file,
)
from pytest_vnc_use.plain_text import got
from pytest_vnc_use.types import (
    ModelExchange,
    ModelRequest,
    RunEvent,
    RunStarted,
    StepFinished,
    Usage,
)

tomllib = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")

IMAGE_TOKENS = 2500
"""The maximum tokens of one image, if its row has no number. A 1440x900 screen is 1,728
with Claude.
"""
_MILLION = 1_000_000
_BUILD = re.compile(r"-(?:\d{3,8}|\d{4}-\d{2}-\d{2})$")


class Price(BaseModel):
    """One row of the table: US dollars for a million tokens of some models, from a day
    on (UTC).
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    models: list[str] = Field(min_length=1)
    since: date = Field(date.min, alias="from")
    input: float = Field(ge=0, allow_inf_nan=False)
    cached: float | None = Field(None, ge=0, allow_inf_nan=False)
    """The price of input tokens that were read from a cache. If it is missing, `input`
    holds.
    """
    output: float = Field(ge=0, allow_inf_nan=False)
    image_tokens: int = Field(IMAGE_TOKENS, ge=0)

    def dollars(self, usage: Usage) -> float:
        """Return the price of these tokens. `usage.input` includes the cached ones."""
        cached_price = self.input if self.cached is None else self.cached
        fresh = (usage.input - usage.cached) * self.input
        cached = usage.cached * cached_price
        answered = (usage.output + usage.thinking) * self.output
        return (fresh + cached + answered) / _MILLION


class _PriceFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    dated: date | None = None
    price: list[Price] = []


@dataclass(frozen=True)
class Prices:
    """The prices of one day by model name."""

    by_model: Mapping[str, Price]

    def of(self, model: str) -> Price | None:
        """Return the price of a model, also for a longer name of it: such as `NAME-001`
        or `NAME-2026-08-01`.
        """
        name = model.removeprefix("models/")
        return self.by_model.get(name) or self.by_model.get(_BUILD.sub("", name))

    def check(self, model: str) -> None:
        """Raise SettingsError if the model's price is unknown, so that a dollar limit
        cannot be kept.
        """
        if self.of(model) is None:
            raise SettingsError(
                f"the price of the model {model!r} is unknown, so a limit in dollars"
                " cannot be checked. Put the price into a file (-o"
                f' vnc_prices=prices.toml): [[price]] models = ["{model}"], with input'
                " and output in dollars per million tokens, or set a limit in tokens"
            )


def load_prices(path: str = "", *, today: date | None = None) -> Prices:
    """Return the package's table with the user's rows over it. Raises SettingsError if
    the file is not valid.
    """
    day = today or clock.utc_now().date()
    package_table = files(__package__).joinpath("prices.toml").read_bytes()
    rows = _rows_of("prices.toml", package_table, day)
    if path:
        try:
            user_table = read_regular(path)
        except OSError as exc:
            raise SettingsError(
                f"vnc_prices must name a TOML file of prices, got {path!r}:"
                f" {exc.strerror}"
            ) from exc
        rows += _rows_of(path, user_table, day)
    by_model: dict[str, Price] = {}
    for row in rows:
        for model in row.models:
            by_model[model] = row
    return Prices(by_model)


def _rows_of(
    name: str,
    text: bytes,
    day: date,
) -> list[Price]:
    """Return the rows of a table that hold on a day, oldest first. Raises
    SettingsError.
    """
    try:
        rows = _PriceFile.model_validate(tomllib.loads(text.decode())).price
    except UnicodeDecodeError as exc:
        raise SettingsError(
            f"vnc_prices={name!r} must be saved as UTF-8: {exc}"
        ) from exc
    except ValidationError as exc:
        first = exc.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise SettingsError(
            f"vnc_prices={name!r}: {where}: {first['msg']}, got {got(first['input'])}"
        ) from exc
    except (ValueError, RecursionError) as exc:
        # also for a number with too many digits
        problem = explain_unreadable(text, "a table of prices", check_out(name))
        problem = problem or f"must be TOML: {exc}"
        raise SettingsError(f"vnc_prices={name!r} {problem}") from exc
    valid = [row for row in rows if row.since <= day]
    return sorted(valid, key=lambda row: row.since)


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
        return Amount(
            self.steps + other.steps,
            self.tokens + other.tokens,
            self.dollars + other.dollars,
        )


@dataclass
class _Account:
    started_at: float
    used: Amount = field(default_factory=Amount)
    reserved: dict[str, Amount] = field(default_factory=dict)


class Ledger:
    """One account in a directory. Every process opens it by the directory's path and
    changes it only under a file lock.

    A reservation for a call that never came back, such as after a `kill -9`, stays: the
    call may have been paid.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.directory = directory
        self._file = directory / "ledger.json"
        self._lock = FileLock(directory / "ledger.lock", mode=0o600)

    def reserve(self, expected: Amount, check: Callable[[Amount, float], None]) -> str:
        """Count `expected` as used until it is settled under the returned name.

        `check` is called first and may raise. It gets the sum of used and reserved, and
        the session's seconds so far.
        """
        name = uuid.uuid4().hex
        with self._changing() as account:
            used = sum(account.reserved.values(), account.used)
            check(used, clock.monotonic() - account.started_at)
            account.reserved[name] = expected
        return name

    def settle(self, name: str, used: Amount) -> None:
        """Replace the reservation of that name by the real use. Without one (`""`),
        only add the use.
        """
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
                f"the session's account in {str(self.directory)!r} stayed locked for"
                f" {LOCK_S} s. End the process of the session that hangs while"
                " writing it"
            ) from exc
        with lock:
            account = _Account(clock.monotonic())
            with suppress(FileNotFoundError):
                stored = json.loads(self._file.read_text("utf-8"))
                account.started_at = stored["started_at"]
                account.used = Amount(**stored["used"])
                for name, amount in stored["reserved"].items():
                    account.reserved[name] = Amount(**amount)
            yield account
            content = json.dumps(asdict(account)).encode()
            replace_file(self._file, content, mode=0o600)


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

    def check(
        self,
        used: Amount,
        spent_s: float,
        expected: Amount,
    ) -> None:
        """Raise BudgetExceeded if a limit is reached, or if the next call may exceed
        it.
        """
        for name, limit, so_far, next_call in (
            ("steps", self.steps, used.steps, 1),
            ("seconds", self.seconds, spent_s, 0),
            ("tokens", self.tokens, used.tokens, expected.tokens),
            ("dollars", self.dollars, used.dollars, expected.dollars),
        ):
            if limit is None:
                continue
            if so_far < limit and so_far + next_call <= limit:
                continue
            more = ""
            if name in ("tokens", "dollars"):
                more = f", and the next call may take {_number(next_call)}"
            whose = "session" if "session" in self.of else "test"
            raise BudgetExceeded(
                f"the {name} of this {whose} are used up: {_number(so_far)} of"
                f" {_number(limit)}{more}; the model is not asked again."
                f" {self.of}{name} sets the limit"
            )


@dataclass
class Spent:
    """The use so far: counts of services, and estimates for uncounted calls.

    `dollars` is the sum of the calls with a known price; `unpriced` are the models of
    the others. `usage` is the services' count. `uncounted` calls have no count from the
    service; `estimated` is their estimate. `tokens` and `dollars` include it.
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

    def add(
        self,
        model: str,
        usage: Usage,
        estimated: Amount | None,
        dollars: float | None,
    ) -> None:
        """Add one call. `estimated` is set if no service counted it; `dollars` is None
        if the price is unknown.
        """
        self.calls += 1
        self.usage += usage
        self.dollars += dollars or 0.0
        if estimated:
            self.uncounted += 1
            self.estimated += estimated
        if dollars is None and (estimated or _tokens(usage)):
            self.unpriced.add(model)


@dataclass(frozen=True)
class _PendingCall:
    """A pending call. `name` is its reservation in the ledger, "" without one."""

    model: str
    expected: Amount = field(default_factory=Amount)
    name: str = ""


class Budget:
    """The account of one test, which without a shared `ledger` is also its session."""

    def __init__(
        self,
        prices: Prices,
        test: CostLimits,
        session: CostLimits,
        ledger: Ledger | None = None,
        judge_model: str = "",
    ) -> None:
        self._settled = Spent()
        self._prices = prices
        self._test = test
        self._session = session
        self._ledger = ledger
        self._steps = 0
        self._started_at = clock.monotonic()
        self._pending: dict[int, _PendingCall] = {}
        self._largest: dict[str, Usage] = {}
        self._judge_model = judge_model
        self._judgings = 0
        """The calls of the judge that the end of the newest run takes."""

    @property
    def spent(self) -> Spent:
        """Return the use so far. A pending call counts as estimated, also if an
        interrupt ended its test.
        """
        spent = replace(self._settled, unpriced=set(self._settled.unpriced))
        for call in list(self._pending.values()):
            is_priced = self._prices.of(call.model) is not None
            dollars = call.expected.dollars if is_priced else None
            spent.add(
                call.model,
                Usage(),
                call.expected,
                dollars,
            )
        return spent

    def receive(self, event: RunEvent) -> RunEvent:
        """Return the event; an exchange gets its price. Raises BudgetExceeded if a
        request must not be sent.
        """
        match event:
            case RunStarted():
                self._judgings = self._judgings_of(event)
            case ModelRequest():
                self.before(event)
            case ModelExchange():
                return self.after(event)
            case StepFinished():
                self.stepped()
            case _:
                pass
        return event

    def _judgings_of(self, started: RunStarted) -> int:
        """Return how often the end of a run asks the judge of the settings."""
        is_judged = bool(started.test_id) and not started.body_checks
        if not is_judged or started.custom_judge or not self._judge_model:
            return 0
        return max(1, len(started.expect)) * int(started.settings["votes"])

    def before(self, request: ModelRequest) -> None:
        """Raise BudgetExceeded if the call must not be made, SettingsError if its
        dollars cannot be known.
        """
        if given_up := self._pending.pop(threading.get_ident(), None):
            self._settle(given_up, Usage(), uncounted=True)
        if self._test.dollars or self._session.dollars:
            self._prices.check(request.model)
        expected = self._estimate(request)
        maximum = expected
        # It reserves what the judge's calls at the end of this run may cost.
        if request.purpose == "planner":
            judging = self._estimate(
                ModelRequest(
                    "judge",
                    self._judge_model,
                    _QUESTION,
                    1,
                    _SHORT_ANSWER,
                )
            )
            maximum = sum([judging] * self._judgings, expected)
        spent = self.spent
        used = Amount(self._steps, spent.tokens, spent.dollars)
        self._test.check(used, 0.0, maximum)
        name = ""
        if self._ledger is None:
            spent_s = clock.monotonic() - self._started_at
            self._session.check(used, spent_s, maximum)
        else:
            check = partial(self._session.check, expected=maximum)
            name = self._ledger.reserve(expected, check)
        call = _PendingCall(request.model, expected, name)
        self._pending[threading.get_ident()] = call

    def after(self, exchange: ModelExchange) -> ModelExchange:
        """Count the exchange, and return it with its price."""
        call = self._pending.pop(threading.get_ident(), _PendingCall(exchange.model))
        usage = exchange.usage
        before = self._largest.get(exchange.purpose, Usage())
        self._largest[exchange.purpose] = Usage(
            input=max(usage.input, before.input),
            output=max(usage.output + usage.thinking, before.output),
        )
        dollars = self._settle(call, usage, uncounted=exchange.uncounted)
        return replace(exchange, dollars=dollars)

    def _settle(
        self,
        call: _PendingCall,
        usage: Usage,
        *,
        uncounted: bool,
    ) -> float | None:
        """Count the call, and return its cost in dollars; None if the price is
        unknown.
        """
        price = self._prices.of(call.model)
        used = call.expected
        if not uncounted:
            dollars = price.dollars(usage) if price else 0.0
            used = Amount(tokens=_tokens(usage), dollars=dollars)
        cost = used.dollars if price else None
        self._settled.add(
            call.model,
            usage,
            used if uncounted else None,
            cost,
        )
        if self._ledger:
            self._ledger.settle(call.name, used)
        return cost

    def stepped(self) -> None:
        """Count one step that was performed."""
        self._steps += 1
        if self._ledger:
            self._ledger.settle("", Amount(steps=1))

    def recall(self, exchanges: Iterable[ModelExchange], steps: int) -> None:
        """Count what a resumed run used in another process."""
        for exchange in exchanges:
            price = self._prices.of(exchange.model)
            dollars = price.dollars(exchange.usage) if price else None
            self._settled.add(
                exchange.model,
                exchange.usage,
                None,
                dollars,
            )
        self._steps += steps

    def _estimate(self, request: ModelRequest) -> Amount:
        price = self._prices.of(request.model)
        image_tokens = price.image_tokens if price else IMAGE_TOKENS
        largest = self._largest.get(request.purpose, Usage())
        text_tokens = math.ceil(request.characters / _CHARACTERS_A_TOKEN)
        sent = max(text_tokens + request.images * image_tokens, largest.input)
        answer = min(request.answer_tokens, max(_SHORT_ANSWER, largest.output))
        usage = Usage(input=sent, output=answer)
        dollars = price.dollars(usage) if price else 0.0
        return Amount(tokens=sent + answer, dollars=dollars)


def _tokens(usage: Usage) -> int:
    return usage.input + usage.output + usage.thinking


def _number(value: float) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4f}".rstrip("0").rstrip(".")
