"""Planners and judges for models behind chat completions."""
