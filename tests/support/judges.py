"""Judges for tests of claims: always the same answer, or those that a test gives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_vnc_use import VncUseAgent
from pytest_vnc_use.errors import ModelUnavailable
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import (
    Frame,
    JsonObject,
    Reading,
    Region,
    Report,
    Usage,
    Verdict,
    VerdictKind,
)
from support.agents import agent_of
from support.memory_desktop import ListPlanner, PaintedController, finished

CLAIM = "the till shows 2 apples"
OUTAGE = "outage"
USAGE = Usage(input=1000, output=50)


@dataclass
class Says:
    """The ports Judge and Reader: always the same answer, with a `region`; `asked` are
    the claims and questions.
    """

    kind: VerdictKind = "holds"
    region: Region | None = Region(60, 120, 460, 160)
    usage: Usage = Usage()
    asked: list[str] = field(default_factory=list)

    def judge(
        self, claim: str, frame: Frame, *, timeout_s: float, report: Report
    ) -> Verdict:
        self.asked.append(claim)
        kind = self.answer(self.kind)
        reason = f"I see it {kind}"
        return Verdict(claim, kind, reason, self.region, frame.ref, "says", self.usage)

    def read(
        self,
        question: str,
        schema: JsonObject,
        frame: Frame,
        *,
        timeout_s: float,
        report: Report,
    ) -> Reading:
        self.asked.append(question)
        value = self.answer(2)
        reason = "it is written there"
        return Reading(
            question, value, reason, self.region, frame.ref, "says", self.usage
        )

    def answer(self, usual: Any) -> Any:
        return usual


class ListJudge(Says):
    """A judge whose vote n is answer n, or raises ModelUnavailable where that is an
    outage.
    """

    def __init__(self, answers: Iterable[Any]) -> None:
        super().__init__(region=Region(1, 2, 3, 4), usage=USAGE)
        self._answers = iter(answers)

    def answer(self, usual: Any) -> Any:
        answer = next(self._answers)
        if answer == OUTAGE:
            raise ModelUnavailable("the model's service failed: 503")
        return answer


def agent_before(
    judge: Any,
    directory: Path,
    controller: PaintedController | None = None,
    secrets: Mapping[str, str] | None = None,
    test_id: str = "",
    **settings: Any,
) -> VncUseAgent:
    """Return an agent whose planner finishes at once, before a painted desktop; with
    `test_id`, one of a test.
    """
    return agent_of(
        Settings(runs_dir=str(directory / "runs"), **settings),
        planner=ListPlanner([finished()]),
        judge=judge,
        controller=controller or PaintedController(),
        can_ask=False,
        secrets=secrets,
        test_id=test_id,
    )
