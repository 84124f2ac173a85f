"""The common code of the judges: a claim or a question with one screenshot, and an
answer in a schema.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, TypeVar, Union

from pydantic import BaseModel, Field, FiniteFloat, ValidationError

from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.errors import Inconclusive, PlannerError
from pytest_vnc_use.planners.common import prompts
from pytest_vnc_use.planners.common.http import Attempt, Backoff, Failure, Service, ask
from pytest_vnc_use.planners.common.service_planner import ModelAnswer
from pytest_vnc_use.types import (
    Frame,
    FrameRef,
    JsonObject,
    Observation,
    Reading,
    Region,
    Report,
    Verdict,
    ignore_report,
)

_BOX = {
    "anyOf": [
        {"type": "array", "items": {"type": "integer"}, "minItems": 4, "maxItems": 4},
        {"type": "null"},
    ]
}


def _schema(name: str, schema: JsonObject) -> JsonObject:
    """Return a schema within OpenAI's strict rules: every field required, and no
    others. The reason comes first.
    """
    properties = {"reason": {"type": "string"}, name: schema, "box_2d": _BOX}
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


SCHEMA = _schema("verdict", {"type": "string", "enum": ["holds", "fails", "unsure"]})


def value_schema(schema: JsonObject) -> JsonObject:
    """Return the schema of an answer whose value fits this schema or is null."""
    inner = {key: value for key, value in schema.items() if key != "$defs"}
    whole = _schema("value", {"anyOf": [inner, {"type": "null"}]})
    return {**whole, "$defs": schema["$defs"]} if "$defs" in schema else whole


class JudgeAnswer(BaseModel):
    """The fields of every judge's answer. `box_2d` is in the grid that the request
    named.

    `kind` is the name of the answer in a request, `rules` are the model's instructions.
    """

    kind: ClassVar[str]
    rules: ClassVar[str]
    reason: str = Field(min_length=1)
    box_2d: tuple[FiniteFloat, FiniteFloat, FiniteFloat, FiniteFloat] | None = None


class Opinion(JudgeAnswer):
    """An answer that says whether a claim holds."""

    kind: ClassVar[str] = "verdict"
    rules: ClassVar[str] = prompts.JUDGE_RULES
    verdict: Literal["holds", "fails", "unsure"]


class Value(JudgeAnswer):
    """An answer with a value from the screen; None if it is not there."""

    kind: ClassVar[str] = "value"
    rules: ClassVar[str] = prompts.READER_RULES
    value: Any


AnyAnswer = TypeVar("AnyAnswer", bound=JudgeAnswer)
ReadAnswer = Callable[[JsonObject], Union[ModelAnswer[Any], Failure]]
"""A function that returns the answer in a response, or why it cannot be used."""


@dataclass(frozen=True)
class Grid:
    """The grid of a judge over the whole screenshot, from 0: pixels as they were sent,
    or thousandths.

    With `rows_first` its boxes are [top, left, bottom, right].
    """

    width: int
    height: int
    rows_first: bool = False

    @property
    def description(self) -> str:
        """The grid as text for the model."""
        box = "[left, top, right, bottom]"
        if self.rows_first:
            box = "[ymin, xmin, ymax, xmax]"
        return f"{box}, x from 0 to {self.width} and y from 0 to {self.height}"

    def region(self, box: Sequence[float] | None, screen: FrameRef) -> Region | None:
        """Return the box in pixels, inside the screen; None if it has no area."""
        if box is None:
            return None
        if self.rows_first:
            top, left, bottom, right = box
        else:
            left, top, right, bottom = box
        across = screen.width / self.width
        down = screen.height / self.height
        xs = [min(max(x, 0.0), self.width) * across for x in (left, right)]
        ys = [min(max(y, 0.0), self.height) * down for y in (top, bottom)]
        region = Region(int(xs[0]), int(ys[0]), round(xs[1]), round(ys[1]))
        has_area = region.left < region.right and region.top < region.bottom
        return region if has_area else None


def answer_in(text: str, form: type[AnyAnswer]) -> AnyAnswer | None:
    """Return the answer at the end of a text, bare or fenced: everything from the first
    brace on, or None.

    An object further inside is never searched for: a judge's quote from the screen must
    not count as its answer.
    """
    unfenced = text.strip().removesuffix("```")
    try:
        return form.model_validate_json(unfenced[max(unfenced.find("{"), 0) :])
    except ValidationError:
        return None


class ServiceJudge(ABC):
    """A Judge and Reader over a model's service. A subclass gives the model's grid, and
    the service's format.

    `read` reads the answers. A request binds the answer to its schema. If the service
    rejects that, it gets the request again without the binding, and so every later
    request for the same kind of answer, which is then found in the model's text.
    """

    def __init__(
        self,
        service: Service,
        read: ReadAnswer,
        *,
        backoff: Backoff | None = None,
    ) -> None:
        self._service = service
        self._read = read
        self._backoff = backoff or Backoff()
        self._unbound: set[str] = set()
        """The kinds of answers that the service binds to no schema."""

    def judge(
        self,
        claim: str,
        frame: Frame,
        *,
        timeout_s: float,
        report: Report = ignore_report,
    ) -> Verdict:
        """Return the model's verdict; unsure if its answer cannot be read. Raises
        PlannerError.
        """
        opinion, reply = self._answer(
            Opinion,
            f"Claim: {claim}\nDoes it hold in this screenshot?",
            SCHEMA,
            frame,
            timeout_s,
            report,
        )
        verdict = Verdict(
            claim,
            kind="unsure",
            reason=_unreadable(reply),
            frame=frame.ref,
            model=reply.model,
            usage=reply.usage,
        )
        if opinion is None:
            return verdict
        region = self._grid(frame.ref).region(opinion.box_2d, frame.ref)
        return replace(
            verdict, kind=opinion.verdict, reason=opinion.reason, region=region
        )

    def read(
        self,
        question: str,
        schema: JsonObject,
        frame: Frame,
        *,
        timeout_s: float,
        report: Report = ignore_report,
    ) -> Reading:
        """Return the model's reading in the schema's form. Raises PlannerError,
        Inconclusive if it is unreadable.
        """
        answer, reply = self._answer(
            Value,
            prompts.value_question(question, schema),
            value_schema(schema),
            frame,
            timeout_s,
            report,
        )
        if answer is None:
            raise Inconclusive(_unreadable(reply))
        region = self._grid(frame.ref).region(answer.box_2d, frame.ref)
        return Reading(
            question,
            value=answer.value,
            reason=answer.reason,
            region=region,
            frame=frame.ref,
            model=reply.model,
            usage=reply.usage,
        )

    @abstractmethod
    def _grid(self, screen: FrameRef) -> Grid:
        """Return the grid that the model must count in."""

    @abstractmethod
    def _body(self, rules: str, observation: Observation) -> JsonObject:
        """Return the request without the binding of its answer. The question is the
        observation's task.
        """

    @abstractmethod
    def _binding(self, name: str, schema: JsonObject) -> JsonObject:
        """Return the fields of a request that bind the answer to the schema."""

    def _answer(
        self,
        form: type[AnyAnswer],
        question: str,
        schema: JsonObject,
        frame: Frame,
        timeout_s: float,
        report: Report,
    ) -> tuple[AnyAnswer | None, ModelAnswer[Any]]:
        """Return the answer, and the reply it is from. An unreadable answer is
        requested once more; then it is None.

        The usage is the sum of both replies.
        """
        deadline = Deadline(timeout_s)
        observation = Observation(
            task=question,
            first_frame=frame.ref,
            frame=frame.ref,
            turns=(),
            load_png=lambda _: frame.png,
            report=report,
        )
        box = self._grid(frame.ref).description
        body = self._body(form.rules.format(box=box), observation)

        def make_body() -> JsonObject:
            if form.kind in self._unbound:
                return body
            return {**body, **self._binding(form.kind, schema)}

        def retry_unbound(
            _: JsonObject, attempt: Attempt[ModelAnswer[Any]]
        ) -> Attempt[ModelAnswer[Any]]:
            failure = attempt.result
            if not isinstance(failure, Failure) or form.kind in self._unbound:
                return attempt
            # A subclass means the key, the quota or an outage: the request itself is
            # valid.
            if type(failure.error) is not PlannerError:
                return attempt
            self._unbound.add(form.kind)
            failure = replace(failure, again=True, after_s=0.0)
            return replace(attempt, result=failure)

        def ask_model() -> ModelAnswer[Any]:
            return ask(
                self._service,
                make_body,
                purpose="judge",
                read=self._read,
                timeout_s=deadline.remaining_s,
                report=report,
                backoff=self._backoff,
                after=retry_unbound,
            )

        first = ask_model()
        answer = answer_in(first.text, form)
        if answer is not None:
            return answer, first
        second = ask_model()
        both = replace(second, usage=first.usage + second.usage)
        return answer_in(second.text, form), both


def _unreadable(reply: ModelAnswer[Any]) -> str:
    return (
        "the judge's answer was not the JSON that was asked for, twice; got"
        f" {reply.text[:200]!r}"
    )
