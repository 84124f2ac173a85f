"""Run directories on disk: their parts, and the data that is never written."""
