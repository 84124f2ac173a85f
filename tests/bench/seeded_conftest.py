"""Who plans and who judges where the walks of seeded_programs.py are recorded: the
conftest.py of those tests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pytest
from seeded_programs import ALL, Walk

from pytest_vnc_use.planners.local.scripted import ScriptedPlanner
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import (
    Frame,
    JsonObject,
    Reading,
    Region,
    Report,
    Verdict,
    Wait,
)
from pytest_vnc_use.types.protocols import Desktop, Judge, Planner

WALKS: dict[str, Walk] = {}
"""All walks, by their task."""
for program in ALL.values():
    WALKS |= {walk.task: walk for walk in program.walks.values()}
STARTS_S = 1.0
"""So long a program may take to show what the first step needs."""


@dataclass(frozen=True)
class Knows:
    """The ports Judge and Reader, for a program without a bug: all that a walk claims
    holds.
    """

    walk: Walk

    def judge(
        self, claim: str, frame: Frame, *, timeout_s: float, report: Report
    ) -> Verdict:
        return Verdict(
            claim,
            "holds",
            "so it is without a bug",
            self._region(claim),
            frame.ref,
            "knows",
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
        answers = dict([self.walk.reads] if self.walk.reads else [])
        return Reading(
            question,
            answers[question],
            "so it is",
            self._region(question),
            frame.ref,
            "knows",
        )

    def _region(self, claim: str) -> Region:
        return self.walk.looks_at.get(claim, self.walk.region)


@pytest.fixture
def vnc_settings(request: pytest.FixtureRequest, vnc_settings: Settings) -> Settings:
    """The desktop of the program whose name the topmost directory has."""
    program = ALL[request.path.relative_to(request.config.rootpath).parts[0]]
    return replace(
        vnc_settings,
        server=program.server,
        screen_size=program.size,
        gate_seconds=program.gate_s,
    )


@pytest.fixture
def walk(request: pytest.FixtureRequest) -> Walk:
    return WALKS[request.node.get_closest_marker("vnc_task").args[0]]


@pytest.fixture
def vnc_planner(walk: Walk) -> Planner:
    return ScriptedPlanner([[Wait(STARTS_S)], *([step] for step in walk.steps)])


@pytest.fixture
def vnc_judge(walk: Walk) -> Judge:
    return Knows(walk)


@pytest.fixture
def vnc_functions(vnc_desktop: Desktop) -> Sequence[Callable[..., object]]:
    def parcel() -> str:
        """Say what became of the parcel."""
        return vnc_desktop.read_file("parcel.txt")

    return [parcel]
