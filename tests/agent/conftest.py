"""An agent before a painted desktop, with decisions from a list."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_vnc_use import VncUseAgent
from pytest_vnc_use.settings.settings import Settings
from support.memory_desktop import ListPlanner, PaintedController


@pytest.fixture
def controller() -> PaintedController:
    return PaintedController()


@pytest.fixture
def agent_of(
    controller: PaintedController, tmp_path: Path
) -> Callable[..., VncUseAgent]:
    """Return an agent with these decisions, or this planner; `named` is the planner of
    its settings.
    """

    def build(
        *decisions: object, planner: object = None, named: str = "", **options: object
    ) -> VncUseAgent:
        settings = Settings(runs_dir=str(tmp_path / "runs"), planner=named)
        planner = planner or (ListPlanner(decisions) if decisions else None)  # type: ignore[arg-type]
        return VncUseAgent(
            settings=settings, controller=controller, planner=planner, **options
        )  # type: ignore[arg-type]

    return build
