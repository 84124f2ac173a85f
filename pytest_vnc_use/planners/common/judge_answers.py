"""The answers of all judges: JSON with a reason, then a verdict or a value, then a box."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, Field, FiniteFloat, ValidationError

from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.types import FrameRef, JsonObject, Region, Usage

_BOX = {
    "anyOf": [
        {"type": "array", "items": {"type": "integer"}, "minItems": 4, "maxItems": 4},
        {"type": "null"},
    ]
}


def _schema(name: str, schema: JsonObject) -> JsonObject:
    """Return a schema within OpenAI's strict rules: every field required, and no others. The reason comes first."""
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
    own = {key: value for key, value in schema.items() if key != "$defs"}
    whole = _schema("value", {"anyOf": [own, {"type": "null"}]})
    return {**whole, "$defs": schema["$defs"]} if "$defs" in schema else whole


class JudgeAnswer(BaseModel):
    """The fields of every judge's answer. `box_2d` is in the grid that the request named."""

    reason: str = Field(min_length=1)
    box_2d: tuple[FiniteFloat, FiniteFloat, FiniteFloat, FiniteFloat] | None = None


class Opinion(JudgeAnswer):
    """An answer that says whether a claim holds."""

    verdict: Literal["holds", "fails", "unsure"]


class Value(JudgeAnswer):
    """An answer with a value from the screen; None if it is not there."""

    value: Any


AnyAnswer = TypeVar("AnyAnswer", bound=JudgeAnswer)


@dataclass(frozen=True)
class Grid:
    """The grid of a judge over the whole screenshot, from 0: pixels as they were sent, or thousandths.

    With `rows_first` its boxes are [top, left, bottom, right].
    """

    width: int
    height: int
    rows_first: bool = False

    @property
    def in_words(self) -> str:
        """Return the grid as text for the model."""
        box = "[ymin, xmin, ymax, xmax]" if self.rows_first else "[left, top, right, bottom]"
        return f"{box}, x from 0 to {self.width} and y from 0 to {self.height}"

    def region(self, box: Sequence[float] | None, screen: FrameRef) -> Region | None:
        """Return the box in pixels, inside the screen; None if it has no area."""
        if box is None:
            return None
        xs, ys = (box[1::2], box[::2]) if self.rows_first else (box[::2], box[1::2])
        left, right = (min(max(x, 0.0), self.width) * screen.width / self.width for x in xs)
        top, bottom = (min(max(y, 0.0), self.height) * screen.height / self.height for y in ys)
        region = Region(int(left), int(top), round(right), round(bottom))
        return region if region.left < region.right and region.top < region.bottom else None


@dataclass(frozen=True)
class JudgeReply:
    """A judge's answer as it came, and its cost."""

    text: str
    model: str = ""
    usage: Usage = field(default_factory=Usage)


def answered(
    form: type[AnyAnswer], ask: Callable[[float], JudgeReply], *, timeout_s: float
) -> tuple[AnyAnswer | None, JudgeReply]:
    """Return the answer, and the reply it is from. An unreadable answer is requested once more; then it is None.

    `ask` gets the seconds that are left of `timeout_s`. The usage is the sum of both replies.
    """
    deadline = Deadline(timeout_s)
    reply = ask(deadline.remaining_s)
    answer = answer_in(reply.text, form)
    if answer is not None:
        return answer, reply
    again = ask(deadline.remaining_s)
    return answer_in(again.text, form), replace(again, usage=reply.usage + again.usage)


def answer_in(text: str, form: type[AnyAnswer]) -> AnyAnswer | None:
    """Return the answer at the end of a text, bare or fenced: everything from the first brace on, or None.

    An object further inside is never searched for: a judge's quote from the screen must not count as its answer.
    """
    unfenced = text.strip().removesuffix("```")
    try:
        return form.model_validate_json(unfenced[max(unfenced.find("{"), 0) :])
    except ValidationError:
        return None


def unreadable(reply: JudgeReply) -> str:
    """Return the message for an answer that could not be read twice."""
    return f"the judge's answer was not the JSON that was asked for, twice; got {reply.text[:200]!r}"
