"""Models behind chat completions as planners and as judges."""
