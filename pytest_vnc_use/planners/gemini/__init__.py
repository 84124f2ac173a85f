"""Gemini Computer Use as planner, and Gemini as judge."""

from pytest_vnc_use.planners.gemini.actions import denorm as denorm, denorm_x as denorm_x, denorm_y as denorm_y
from pytest_vnc_use.planners.gemini.planner import GeminiComputerUse as GeminiComputerUse
