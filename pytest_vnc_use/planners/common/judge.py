"""The common code of the judges. They send a claim or a question with one screenshot, and get an answer in a schema."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial

from pytest_vnc_use.errors import Inconclusive
from pytest_vnc_use.planners.common import judge_prompts
from pytest_vnc_use.planners.common.judge_answers import (
    SCHEMA,
    AnyAnswer,
    Grid,
    JudgeReply,
    Opinion,
    Value,
    answered,
    unreadable,
    value_schema,
)
from pytest_vnc_use.types import Frame, FrameRef, JsonObject, Reading, Report, Verdict, report_to_nobody


@dataclass(frozen=True)
class Question:
    """The request to a judge: its instructions, the question about a frame, and the schema of the answer.

    `name` is the schema's name, for services that want one.
    """

    part: str
    words: str
    frame: Frame
    name: str
    schema: JsonObject


class ScreenJudge(ABC):
    """A Judge and Reader. Each service's subclass gives the grid of its model, and sends the request."""

    def judge(self, claim: str, frame: Frame, *, timeout_s: float, report: Report = report_to_nobody) -> Verdict:
        """Return the model's verdict; unsure if its answer cannot be read. Raises PlannerError."""
        grid, words = self._grid(frame.ref), judge_prompts.claim_question(claim)
        asked = Question(judge_prompts.judge_in(grid.in_words), words, frame, "verdict", SCHEMA)
        opinion, reply = self._answered(Opinion, asked, timeout_s, report)
        if opinion is None:
            return Verdict(claim, "unsure", unreadable(reply), frame=frame.ref, model=reply.model, usage=reply.usage)
        region = grid.region(opinion.box_2d, frame.ref)
        return Verdict(claim, opinion.verdict, opinion.reason, region, frame.ref, reply.model, reply.usage)

    def read(
        self, question: str, schema: JsonObject, frame: Frame, *, timeout_s: float, report: Report = report_to_nobody
    ) -> Reading:
        """Return the model's reading in the schema's form. Raises PlannerError, Inconclusive if it is unreadable."""
        grid, words = self._grid(frame.ref), judge_prompts.value_question(question, schema)
        asked = Question(judge_prompts.reader_in(grid.in_words), words, frame, "value", value_schema(schema))
        answer, reply = self._answered(Value, asked, timeout_s, report)
        if answer is None:
            raise Inconclusive(unreadable(reply))
        region = grid.region(answer.box_2d, frame.ref)
        return Reading(question, answer.value, answer.reason, region, frame.ref, reply.model, reply.usage)

    def _answered(
        self, form: type[AnyAnswer], asked: Question, timeout_s: float, report: Report
    ) -> tuple[AnyAnswer | None, JudgeReply]:
        return answered(form, partial(self._ask, asked, report), timeout_s=timeout_s)

    @abstractmethod
    def _grid(self, screen: FrameRef) -> Grid:
        """Return the grid that the model must count in."""

    @abstractmethod
    def _ask(self, asked: Question, report: Report, timeout_s: float) -> JudgeReply:
        """Return the model's answer. Raises PlannerError."""
