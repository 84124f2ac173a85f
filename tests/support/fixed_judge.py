"""A judge whose answer is always the same."""

from __future__ import annotations

from dataclasses import dataclass, field

from pytest_vnc_use.types import Frame, JsonObject, Reading, Region, Report, Verdict, VerdictKind

CLAIM = "the till shows 2 apples"


@dataclass
class Says:
    """The ports Judge and Reader: always the same answer, with a `region`; `asked` are the claims and questions."""

    kind: VerdictKind = "holds"
    asked: list[str] = field(default_factory=list)
    region: Region | None = Region(60, 120, 460, 160)

    def judge(self, claim: str, frame: Frame, *, timeout_s: float, report: Report) -> Verdict:
        self.asked.append(claim)
        return Verdict(claim, self.kind, "it says so", self.region, frame.ref, "says")

    def read(self, question: str, schema: JsonObject, frame: Frame, *, timeout_s: float, report: Report) -> Reading:
        self.asked.append(question)
        return Reading(question, 2, "it says so", self.region, frame.ref, "says")
