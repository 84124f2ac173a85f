"""A judge that is asked in JSON over HTTP, with its answer bound to a schema if the service can do that.

It is not in judge.py, because Gemini's judge needs no httpx2.
"""

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
    """The base of the judges over such services. A subclass builds the request and reads the answer.

    A service may refuse a request that binds the answer to its schema. It then gets the request again without the
    binding, and from then on every request for an answer of that name. The answer is then found in the model's text.
    """

    def __init__(self, service: Service, *, backoff: Backoff | None = None) -> None:
        self._service = service
        self._backoff = backoff or Backoff()
        self._unbound: set[str] = set()

    @abstractmethod
    def _body(self, part: str, asked: Observation) -> JsonObject:
        """Return the request without the part that binds its answer. The question is the observation's task."""

    @abstractmethod
    def _binding(self, name: str, schema: JsonObject) -> JsonObject:
        """Return the part of a request that binds the answer to the schema."""

    @abstractmethod
    def _read(self, body: JsonObject) -> JudgeReply | Failure:
        """Return the content of a response, or the reason why it cannot be used."""

    def _ask(self, asked: Question, report: Report, timeout_s: float) -> JudgeReply:
        screen = asked.frame.ref
        body = self._body(asked.part, Observation(asked.words, screen, screen, (), lambda _: asked.frame.png, report))
        send = partial(self._send, asked, body)
        return ask(send, asked=request_size("judge", body), timeout_s=timeout_s, report=report, backoff=self._backoff)

    def _send(self, asked: Question, body: JsonObject, attempt_s: float) -> Attempt[JudgeReply]:
        bound = {} if asked.name in self._unbound else self._binding(asked.name, asked.schema)
        attempt = post_json(self._service, {**body, **bound}, timeout_s=attempt_s, read=self._read)
        failure = attempt.result
        if not (bound and isinstance(failure, Failure) and type(failure.error) is PlannerError):
            return attempt  # a subclass means the key, the quota or an outage: the request itself is right
        self._unbound.add(asked.name)
        return replace(attempt, result=replace(failure, again=True, after_s=0.0))
