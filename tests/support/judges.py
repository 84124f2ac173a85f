"""Judges for tests of claims: always the same answer, or those that a test gives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_vnc_use import VncUseAgent
from pytest_vnc_use.errors import ModelUnavailable
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import (
    Frame,
    FrameRef,
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
class ListJudge:
    """The ports Judge and Reader: vote n is answer n, or raises ModelUnavailable where
    that is an outage.
    """

    answers: Iterable[Any]
    asked: list[tuple[str, FrameRef]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._answers: Iterator[Any] = iter(self.answers)

    def judge(
        self, claim: str, frame: Frame, *, timeout_s: float, report: Report
    ) -> Verdict:
        kind = self._next(claim, frame)
        return Verdict(
            claim,
            kind,
            f"I see it {kind}",
            Region(1, 2, 3, 4),
            model="list",
            usage=USAGE,
        )

    def read(
        self,
        question: str,
        schema: JsonObject,
        frame: Frame,
        *,
        timeout_s: float,
        report: Report,
    ) -> Reading:
        value = self._next(question, frame)
        return Reading(
            question,
            value,
            "it is written there",
            Region(1, 2, 3, 4),
            frame.ref,
            "list",
            USAGE,
        )

    def _next(self, asked: str, frame: Frame) -> Any:
        self.asked.append((asked, frame.ref))
        answer = next(self._answers)
        if answer == OUTAGE:
            raise ModelUnavailable("the model's service failed: 503")
        return answer


@dataclass
class Says:
    """The ports Judge and Reader: always the same answer, with a `region`; `asked` are
    the claims and questions.
    """

    kind: VerdictKind = "holds"
    asked: list[str] = field(default_factory=list)
    region: Region | None = Region(60, 120, 460, 160)

    def judge(
        self, claim: str, frame: Frame, *, timeout_s: float, report: Report
    ) -> Verdict:
        self.asked.append(claim)
        return Verdict(claim, self.kind, "it says so", self.region, frame.ref, "says")

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
        return Reading(question, 2, "it says so", self.region, frame.ref, "says")


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
