"""What the judges of all services share: a claim or a question and one screenshot go out, a bound answer comes back."""

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
    """What a judge is asked: its part, the question itself about a frame, and the schema of its answer.

    `name` is that of the schema, where the service wants one.
    """

    part: str
    words: str
    frame: Frame
    name: str
    schema: JsonObject


class ScreenJudge(ABC):
    """The ports Judge and Reader; each service says what its model counts in, and how it is asked."""

    def judge(self, claim: str, frame: Frame, *, timeout_s: float, report: Report = report_to_nobody) -> Verdict:
        """The model's verdict; unsure where its answer cannot be read. Raises PlannerError."""
        grid, words = self._grid(frame.ref), judge_prompts.claim_question(claim)
        asked = Question(judge_prompts.judge_in(grid.in_words), words, frame, "verdict", SCHEMA)
        opinion, said = self._answered(Opinion, asked, timeout_s, report)
        if opinion is None:
            return Verdict(claim, "unsure", unreadable(said), frame=frame.ref, model=said.model, usage=said.usage)
        region = grid.region(opinion.box_2d, frame.ref)
        return Verdict(claim, opinion.verdict, opinion.reason, region, frame.ref, said.model, said.usage)

    def read(
        self, question: str, schema: JsonObject, frame: Frame, *, timeout_s: float, report: Report = report_to_nobody
    ) -> Reading:
        """What the model sees, in the form of the schema. Raises PlannerError; Inconclusive where it cannot be read."""
        grid, words = self._grid(frame.ref), judge_prompts.value_question(question, schema)
        asked = Question(judge_prompts.reader_in(grid.in_words), words, frame, "value", value_schema(schema))
        answer, said = self._answered(Value, asked, timeout_s, report)
        if answer is None:
            raise Inconclusive(unreadable(said))
        region = grid.region(answer.box_2d, frame.ref)
        return Reading(question, answer.value, answer.reason, region, frame.ref, said.model, said.usage)

    def _answered(
        self, form: type[AnyAnswer], asked: Question, timeout_s: float, report: Report
    ) -> tuple[AnyAnswer | None, JudgeReply]:
        return answered(form, partial(self._ask, asked, report), timeout_s=timeout_s)

    @abstractmethod
    def _grid(self, screen: FrameRef) -> Grid:
        """What the model is asked to count in."""

    @abstractmethod
    def _ask(self, asked: Question, report: Report, timeout_s: float) -> JudgeReply:
        """What the model says. Raises PlannerError."""
