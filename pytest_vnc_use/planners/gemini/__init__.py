"""Gemini Computer Use as planner, and Gemini as judge."""

from pytest_vnc_use.planners.gemini.calls import (
    denorm as denorm,
    denorm_x as denorm_x,
    denorm_y as denorm_y,
)
from pytest_vnc_use.planners.gemini.computer_use import (
    GeminiComputerUse as GeminiComputerUse,
)
