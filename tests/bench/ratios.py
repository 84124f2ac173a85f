"""Lines of the Markdown tables that the benchmarks print."""

from __future__ import annotations

import datetime
import os
import platform


def machine() -> str:
    """Date and machine, for the line above a table."""
    load = f"{os.getloadavg()[0]:.1f}"
    return f"{datetime.date.today()}, {os.cpu_count()} cores ({platform.machine()}), load {load}"


def row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def head(*cells: str) -> str:
    return f"{row(*cells)}\n{'|---' * len(cells)}|"
