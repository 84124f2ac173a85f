"""What a judge says, whoever it is: JSON of a reason, a verdict or a value, and a box, in this order."""

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
    """Within what OpenAI's strict schemas allow: every field required, and no others; the reason comes first."""
    properties = {"reason": {"type": "string"}, name: schema, "box_2d": _BOX}
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


SCHEMA = _schema("verdict", {"type": "string", "enum": ["holds", "fails", "unsure"]})


def value_schema(schema: JsonObject) -> JsonObject:
    """The schema of an answer whose value is of this one, or null."""
    own = {key: value for key, value in schema.items() if key != "$defs"}
    whole = _schema("value", {"anyOf": [own, {"type": "null"}]})
    return {**whole, "$defs": schema["$defs"]} if "$defs" in schema else whole


class JudgeAnswer(BaseModel):
    """What every answer of a judge has; `box_2d` is in the grid that it was asked for."""

    reason: str = Field(min_length=1)
    box_2d: tuple[FiniteFloat, FiniteFloat, FiniteFloat, FiniteFloat] | None = None


class Opinion(JudgeAnswer):
    """Whether a claim holds."""

    verdict: Literal["holds", "fails", "unsure"]


class Value(JudgeAnswer):
    """What stands on the screen; None where it is not there."""

    value: Any


AnyAnswer = TypeVar("AnyAnswer", bound=JudgeAnswer)


@dataclass(frozen=True)
class Grid:
    """What a judge counts in over the whole screenshot, from 0: its pixels as they were sent, or thousandths.

    With `rows_first` its boxes are [top, left, bottom, right].
    """

    width: int
    height: int
    rows_first: bool = False

    @property
    def in_words(self) -> str:
        box = "[ymin, xmin, ymax, xmax]" if self.rows_first else "[left, top, right, bottom]"
        return f"{box}, x from 0 to {self.width} and y from 0 to {self.height}"

    def region(self, box: Sequence[float] | None, screen: FrameRef) -> Region | None:
        """The box in pixels, inside the screen; nothing where it has no area."""
        if box is None:
            return None
        xs, ys = (box[1::2], box[::2]) if self.rows_first else (box[::2], box[1::2])
        left, right = (min(max(x, 0.0), self.width) * screen.width / self.width for x in xs)
        top, bottom = (min(max(y, 0.0), self.height) * screen.height / self.height for y in ys)
        region = Region(int(left), int(top), round(right), round(bottom))
        return region if region.left < region.right and region.top < region.bottom else None


@dataclass(frozen=True)
class JudgeReply:
    """A judge's answer as it came, and what it cost."""

    text: str
    model: str = ""
    usage: Usage = field(default_factory=Usage)


def answered(
    form: type[AnyAnswer], ask: Callable[[float], JudgeReply], *, timeout_s: float
) -> tuple[AnyAnswer | None, JudgeReply]:
    """The answer, asked for once more where it cannot be read, and then None; the usage is that of both.

    `ask` gets the seconds that are left of `timeout_s`.
    """
    deadline = Deadline(timeout_s)
    said = ask(deadline.remaining_s)
    answer = answer_in(said.text, form)
    if answer is not None:
        return answer, said
    again = ask(deadline.remaining_s)
    return answer_in(again.text, form), replace(again, usage=said.usage + again.usage)


def answer_in(text: str, form: type[AnyAnswer]) -> AnyAnswer | None:
    """The answer that a text ends with, bare or fenced: all of it from the first brace on, or nothing.

    No object further inside is searched for: what a judge quotes from the screen must not pass for its answer.
    """
    unfenced = text.strip().removesuffix("```")
    try:
        return form.model_validate_json(unfenced[max(unfenced.find("{"), 0) :])
    except ValidationError:
        return None


def unreadable(said: JudgeReply) -> str:
    """What is told of an answer that was given twice and not read."""
    return f"the judge's answer was not the JSON that was asked for, twice; got {said.text[:200]!r}"
