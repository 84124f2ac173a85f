"""The loop: each turn of a run."""
