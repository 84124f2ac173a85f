"""Asking a service again: how often, after how long, and when not. Knows no service.

One attempt is a value, `Attempt`: what was sent, what came, and either its result or its failure, which says whether
asking again may help. `ask` makes attempts until one is good, and reports each as a `ModelExchange`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from pytest_vnc_use.errors import PlannerError
from pytest_vnc_use.types import JsonObject, ModelExchange, Report

Result = TypeVar("Result")


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


@dataclass(frozen=True)
class Failure:
    """Why an attempt is no good. `again` says that another may be, after `after_s` where that is known.

    A foreign error stands in the text of `error` and nowhere else: the frames of its traceback hold the API key.
    """

    error: PlannerError
    again: bool = False
    after_s: float | None = None


@dataclass(frozen=True)
class Attempt(Generic[Result]):
    """One request, its response as it may be shown, and what came of it."""

    request: JsonObject
    response: JsonObject | None
    result: Result | Failure


def ask(
    send: Callable[[float], Attempt[Result]],
    *,
    timeout_s: float,
    purpose: str,
    report: Report,
    backoff: Backoff,
) -> Result:
    """The first good result. `send` gets the seconds that its attempt may take.

    Raises the last attempt's error where attempts or time are used up, or where asking again is of no use.
    """
    deadline = time.monotonic() + timeout_s
    number = 0
    while True:
        number += 1
        started = time.monotonic()
        attempt = send(min(backoff.each_s, deadline - started))
        now = time.monotonic()
        wait_s = _wait_s(attempt.result, number, deadline - now, backoff)
        report(_exchange(attempt, purpose, number, now - started, wait_s))
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
    attempt: Attempt[Result], purpose: str, number: int, duration_s: float, retry_in_s: float | None
) -> ModelExchange:
    error = str(attempt.result.error) if isinstance(attempt.result, Failure) else ""
    return ModelExchange(purpose, number, attempt.request, attempt.response, duration_s, error, retry_in_s)
