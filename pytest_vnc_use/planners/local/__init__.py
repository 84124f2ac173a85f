"""Planners and judges that ask no model: callables, scripts, traces."""
