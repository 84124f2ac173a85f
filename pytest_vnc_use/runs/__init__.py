"""Run folders on disk: their parts, and the data that is never written."""
