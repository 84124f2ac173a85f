"""Gemini as a judge: one claim, one screenshot, and an answer in JSON whose reason comes before its verdict."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Literal

from pydantic import BaseModel, Field, ValidationError

from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.planners import prompts
from pytest_vnc_use.planners.endpoint import Endpoint, found_key, found_url
from pytest_vnc_use.planners.gemini import base_config, generate, start_contents
from pytest_vnc_use.planners.gemini_answers import Answer
from pytest_vnc_use.planners.retry import Backoff
from pytest_vnc_use.types import Frame, FrameRef, Region, Report, Verdict, report_to_nobody

BOX_GRID = 1000
SCHEMA = {
    "type": "object",
    "properties": {
        "reason": {"type": "string"},
        "verdict": {"type": "string", "enum": ["holds", "fails", "unsure"]},
        "box_2d": {"type": ["array", "null"], "items": {"type": "integer"}, "minItems": 4, "maxItems": 4},
    },
    "required": ["reason", "verdict", "box_2d"],
    "propertyOrdering": ["reason", "verdict", "box_2d"],
}


class Opinion(BaseModel):
    """The judge's answer; `box_2d` is [ymin, xmin, ymax, xmax] from 0 to 1000."""

    reason: str = Field(min_length=1)
    verdict: Literal["holds", "fails", "unsure"]
    box_2d: tuple[float, float, float, float] | None = None

    def region(self, screen: FrameRef) -> Region | None:
        """The box in pixels, inside the screen; nothing where it has no area."""
        if self.box_2d is None:
            return None
        ymin, xmin, ymax, xmax = (min(max(edge, 0.0), BOX_GRID) / BOX_GRID for edge in self.box_2d)
        left, top = int(xmin * screen.width), int(ymin * screen.height)
        right, bottom = round(xmax * screen.width), round(ymax * screen.height)
        return Region(left, top, right, bottom) if left < right and top < bottom else None


class GeminiJudge:
    """A judge that asks Gemini, without the Computer Use tool. Raises KeyRejected where no key is set."""

    def __init__(
        self,
        *,
        model: str = "gemini-3.8-flash",
        api_key: str | None = None,
        base_url: str | None = None,
        max_output_tokens: int = 4096,
        backoff: Backoff | None = None,
    ) -> None:
        self._model = model
        self._endpoint = Endpoint(found_key(api_key), found_url(base_url), backoff or Backoff())
        self._config = base_config(
            system_instruction=prompts.JUDGE,
            max_output_tokens=max_output_tokens,
            response_mime_type="application/json",
            response_json_schema=SCHEMA,
        )

    def judge(self, claim: str, frame: Frame, *, timeout_s: float, report: Report = report_to_nobody) -> Verdict:
        """The model's verdict; unsure where its answer cannot be read. Raises PlannerError."""
        deadline = Deadline(timeout_s)
        answer = self._asked(claim, frame, deadline.remaining_s, report)
        verdict = _verdict(claim, frame.ref, answer)
        if verdict is not None:
            return verdict
        again = self._asked(claim, frame, deadline.remaining_s, report)
        verdict = _verdict(claim, frame.ref, again) or _unreadable(claim, frame.ref, again)
        return replace(verdict, usage=answer.usage + again.usage)

    def _asked(self, claim: str, frame: Frame, timeout_s: float, report: Report) -> Answer:
        contents = start_contents(prompts.claim_question(claim), frame.png)
        ask = partial(generate, self._endpoint, self._model, contents, self._config)
        return ask(purpose="judge", timeout_s=timeout_s, report=report)


def _verdict(claim: str, screen: FrameRef, answer: Answer) -> Verdict | None:
    """The verdict that an answer gives, or nothing where it is not the JSON that was asked for."""
    try:
        opinion = Opinion.model_validate_json(answer.words)
    except ValidationError:
        return None
    return Verdict(
        claim, opinion.verdict, opinion.reason, opinion.region(screen), screen, model=answer.model, usage=answer.usage
    )


def _unreadable(claim: str, screen: FrameRef, answer: Answer) -> Verdict:
    reason = f"the judge's answer was not the JSON that was asked for, twice; got {answer.words[:200]!r}"
    return Verdict(claim, "unsure", reason, frame=screen, model=answer.model)
