"""Repeated requests to a service, and the tokens that the service counts. This module knows no particular service.

An `Attempt` is a value: the request, the response, and its result or its failure. A failure says whether another
attempt may help. `ask` makes attempts until one succeeds, and reports each as a `ModelExchange`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from pytest_vnc_use import clock
from pytest_vnc_use.errors import PlannerError
from pytest_vnc_use.types import JsonObject, ModelAsked, ModelExchange, Report, Usage

Result = TypeVar("Result")

_MOST_DIGITS = 18
LONGEST_ANSWER = 64_000
"""The assumed tokens of an answer if the request does not limit its length."""


@dataclass(frozen=True)
class Backoff:
    """The number of attempts (with the first), the time limit of each, and the waits if the service names none."""

    attempts: int = 5
    each_s: float = 120.0
    first_wait_s: float = 1.0
    longest_wait_s: float = 30.0

    def wait_s(self, attempt: int) -> float:
        """Return the wait after an attempt (counted from 1).

        It doubles with every attempt. Up to a quarter is added, so that parallel runs do not ask at the same time.
        """
        return min(self.longest_wait_s, self.first_wait_s * 2.0 ** (attempt - 1)) * random.uniform(1.0, 1.25)

    def within(self, request_s: float | None) -> Backoff:
        """Return the same backoff with this time limit for each request, if one is given."""
        return self if request_s is None else replace(self, each_s=request_s)


@dataclass(frozen=True)
class Failure:
    """The reason why an attempt failed.

    `again`: another attempt may succeed, after `after_s` seconds if known. `unbilled`: the service cannot have done any
    work for it. `error` has a foreign error only as text, because the frames of its traceback contain the API key.
    """

    error: PlannerError
    again: bool = False
    after_s: float | None = None
    unbilled: bool = False


@dataclass(frozen=True)
class Attempt(Generic[Result]):
    """One request, its response in loggable form, its result, and the tokens that the service counted."""

    request: JsonObject
    response: JsonObject | None
    result: Result | Failure
    usage: Usage = field(default_factory=Usage)

    @property
    def uncounted(self) -> bool:
        """Return whether it may be billed although the service counted nothing."""
        return self.usage == Usage() and not (isinstance(self.result, Failure) and self.result.unbilled)


def ask(
    send: Callable[[float], Attempt[Result]],
    *,
    asked: ModelAsked,
    timeout_s: float,
    report: Report,
    backoff: Backoff,
) -> Result:
    """Return the first good result.

    `send` gets the seconds for its attempt. `report` is called before and after each attempt; if it raises before, the
    request is not sent. Raises the last attempt's error if no attempt or time is left, or if another attempt cannot
    help.
    """
    deadline = clock.monotonic() + timeout_s
    number = 0
    while True:
        number += 1
        report(asked)
        started = clock.monotonic()
        attempt = send(min(backoff.each_s, deadline - started))
        now = clock.monotonic()
        wait_s = _wait_s(attempt.result, number, deadline - now, backoff)
        report(_exchange(attempt, asked, number, now - started, wait_s))
        if not isinstance(attempt.result, Failure):
            return attempt.result
        if wait_s is None:
            raise attempt.result.error from None
        time.sleep(wait_s)


def _wait_s(result: object, number: int, left_s: float, backoff: Backoff) -> float | None:
    """Return the seconds until the next attempt, or None if there is none."""
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


# --- the size of a request -------------------------------------------------------------------------------------------


def request_size(purpose: str, body: Mapping[str, Any]) -> ModelAsked:
    """Return the size of a request with this body, which has the model, and `max_tokens` or `max_output_tokens`.

    The size counts its keys and texts. Pictures are data URLs, or `data` in base64 or bytes.
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


def count_of(counts: Any, *path: str) -> int:
    """Return the count at this path, a number or its digits; 0 if there is none.

    An unreadable count is no reason to throw an answer away.
    """
    for name in path:
        counts = counts.get(name) if isinstance(counts, Mapping) else None
    if isinstance(counts, str) and counts.isascii() and len(counts) <= _MOST_DIGITS and counts.isdecimal():
        counts = int(counts)
    return counts if isinstance(counts, int) and not isinstance(counts, bool) and counts > 0 else 0
