"""Action traces, written as a harness writes them."""

from __future__ import annotations

import json
from pathlib import Path


def trace_of(directory: Path, *records: object) -> Path:
    """Return an execution.json with these records."""
    file = directory / "execution.json"
    file.write_text(json.dumps(records), encoding="utf-8")
    return file
