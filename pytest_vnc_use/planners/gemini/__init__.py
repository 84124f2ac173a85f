"""Gemini Computer Use as planner, and Gemini as judge."""

from pytest_vnc_use.planners.gemini.planner import GeminiComputerUse as GeminiComputerUse
