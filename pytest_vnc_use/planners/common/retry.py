"""Asking a service again: how often, after how long, and when not. Knows no service.

One attempt is a value, `Attempt`: what was sent, what came, and either its result or its failure, which says whether
asking again may help. `ask` makes attempts until one is good, and reports each as a `ModelExchange`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from pytest_vnc_use.errors import PlannerError
from pytest_vnc_use.types import JsonObject, ModelAsked, ModelExchange, Report, Usage

Result = TypeVar("Result")

LONGEST_ANSWER = 64_000
"""Tokens of an answer whose length the request does not limit."""


@dataclass(frozen=True)
class Backoff:
    """How often to ask (the first time included), how long each may take, how long to wait where nobody says."""

    attempts: int = 5
    each_s: float = 120.0
    first_wait_s: float = 1.0
    longest_wait_s: float = 30.0

    def wait_s(self, attempt: int) -> float:
        """Doubles with every attempt (counted from 1), plus up to a quarter, so that parallel runs part."""
        return min(self.longest_wait_s, self.first_wait_s * 2.0 ** (attempt - 1)) * random.uniform(1.0, 1.25)

    def within(self, request_s: float | None) -> Backoff:
        """The same, where given with another time for each request."""
        return self if request_s is None else replace(self, each_s=request_s)


@dataclass(frozen=True)
class Failure:
    """Why an attempt is no good. `again` says that another may be, after `after_s` where that is known.

    `unbilled` says that the service cannot have done any work for it. A foreign error stands in the text of `error` and
    nowhere else: the frames of its traceback hold the API key.
    """

    error: PlannerError
    again: bool = False
    after_s: float | None = None
    unbilled: bool = False


@dataclass(frozen=True)
class Attempt(Generic[Result]):
    """One request, its response as it may be shown, what came of it, and the tokens that the service counted."""

    request: JsonObject
    response: JsonObject | None
    result: Result | Failure
    usage: Usage = field(default_factory=Usage)

    @property
    def uncounted(self) -> bool:
        """Whether it may be billed, and nobody told for what."""
        return self.usage == Usage() and not (isinstance(self.result, Failure) and self.result.unbilled)


def ask(
    send: Callable[[float], Attempt[Result]],
    *,
    asked: ModelAsked,
    timeout_s: float,
    report: Report,
    backoff: Backoff,
) -> Result:
    """The first good result. `send` gets the seconds that its attempt may take.

    `report` is told of each attempt before and after it; what it raises before keeps the request from being sent.
    Raises the last attempt's error where attempts or time are used up, or where asking again is of no use.
    """
    deadline = time.monotonic() + timeout_s
    number = 0
    while True:
        number += 1
        report(asked)
        started = time.monotonic()
        attempt = send(min(backoff.each_s, deadline - started))
        now = time.monotonic()
        wait_s = _wait_s(attempt.result, number, deadline - now, backoff)
        report(_exchange(attempt, asked, number, now - started, wait_s))
        if not isinstance(attempt.result, Failure):
            return attempt.result
        if wait_s is None:
            raise attempt.result.error from None
        time.sleep(wait_s)


def _wait_s(result: object, number: int, left_s: float, backoff: Backoff) -> float | None:
    """Seconds until the next attempt, or None where there is none."""
    if not isinstance(result, Failure) or not result.again or number >= backoff.attempts:
        return None
    wait_s = backoff.wait_s(number) if result.after_s is None else result.after_s
    return wait_s if wait_s < left_s else None


def _exchange(
    attempt: Attempt[Result], asked: ModelAsked, number: int, duration_s: float, retry_in_s: float | None
) -> ModelExchange:
    error = str(attempt.result.error) if isinstance(attempt.result, Failure) else ""
    return ModelExchange(
        asked.purpose,
        number,
        attempt.request,
        attempt.response,
        duration_s,
        error,
        retry_in_s,
        model=asked.model,
        usage=attempt.usage,
        uncounted=attempt.uncounted,
    )


# --- how much is asked -----------------------------------------------------------------------------------------------


def request_size(purpose: str, body: Mapping[str, Any]) -> ModelAsked:
    """A request of this body, with its model and its `max_tokens` or `max_output_tokens`.

    Its size is that of its keys and texts; pictures are data URLs, or `data` in base64 or bytes.
    """
    characters, images = _size(body)
    answer_tokens = body.get("max_tokens") or body.get("max_output_tokens") or LONGEST_ANSWER
    return ModelAsked(purpose, str(body["model"]), characters, images, answer_tokens)


def _size(value: Any) -> tuple[int, int]:
    match value:
        case str() if value.startswith("data:image/"):
            return 0, 1
        case str() | bytes():
            return len(value), 0
        case {"data": bytes()} | {"type": "base64", "data": str()}:
            return 0, 1
        case Mapping():
            sizes = [(len(name) + size[0], size[1]) for name, size in ((str(k), _size(v)) for k, v in value.items())]
        case list() | tuple():
            sizes = [_size(each) for each in value]
        case _:
            return len(str(value)), 0
    return sum(size[0] for size in sizes), sum(size[1] for size in sizes)
