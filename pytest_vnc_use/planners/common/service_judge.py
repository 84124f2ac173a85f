"""A judge that is asked in JSON over HTTP, bound to a schema where the service does that."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from functools import partial

from pytest_vnc_use.errors import PlannerError
from pytest_vnc_use.planners.common.http_json import Service, post_json
from pytest_vnc_use.planners.common.judge import Question, ScreenJudge
from pytest_vnc_use.planners.common.judge_answers import JudgeReply
from pytest_vnc_use.planners.common.retry import Attempt, Backoff, Failure, ask, request_size
from pytest_vnc_use.types import JsonObject, Observation, Report


class ServiceJudge(ScreenJudge):
    """What judges over such services share; each says what a request is, and how an answer is read.

    A service that refuses a request which binds the answer to its schema is asked again without, and from then on for
    every answer of that name; the answer is then found in what it says.
    """

    def __init__(self, service: Service, *, backoff: Backoff | None = None) -> None:
        self._service = service
        self._backoff = backoff or Backoff()
        self._unbound: set[str] = set()

    @abstractmethod
    def _body(self, part: str, asked: Observation) -> JsonObject:
        """The request, but for what binds its answer; the question is the observation's task."""

    @abstractmethod
    def _binding(self, name: str, schema: JsonObject) -> JsonObject:
        """The part of a request that binds the answer to the schema."""

    @abstractmethod
    def _read(self, body: JsonObject) -> JudgeReply | Failure:
        """What a response says, or why it cannot be used."""

    def _ask(self, asked: Question, report: Report, timeout_s: float) -> JudgeReply:
        screen = asked.frame.ref
        body = self._body(asked.part, Observation(asked.words, screen, screen, (), lambda _: asked.frame.png, report))
        send = partial(self._send, asked, body)
        return ask(send, asked=request_size("judge", body), timeout_s=timeout_s, report=report, backoff=self._backoff)

    def _send(self, asked: Question, body: JsonObject, attempt_s: float) -> Attempt[JudgeReply]:
        bound = {} if asked.name in self._unbound else self._binding(asked.name, asked.schema)
        attempt = post_json(self._service, {**body, **bound}, timeout_s=attempt_s, read=self._read)
        failure = attempt.result
        if not (bound and isinstance(failure, Failure) and _is_of_the_request(failure.error)):
            return attempt
        self._unbound.add(asked.name)
        return replace(attempt, result=replace(failure, again=True, after_s=0.0))


def _is_of_the_request(error: PlannerError) -> bool:
    """Whether the request is what is wrong, as with status 400, and neither the key, the quota nor the moment."""
    return type(error) is PlannerError
