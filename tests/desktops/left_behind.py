"""What a desktop leaves behind, or does not: its processes, by the folder that each of them names."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def processes_naming(folder: Path | str) -> dict[int, str]:
    """Name by id of every living process whose command or environment names something in `folder`."""
    return {int(entry.name): name for entry in Path("/proc").iterdir() if (name := _name_if_naming(entry, str(folder)))}


def _name_if_naming(process: Path, folder: str) -> str:
    if process.name.isdigit() and int(process.name) != os.getpid():
        with suppress(OSError):
            said = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
            if folder.encode() in said:
                return (process / "comm").read_text().strip()
    return ""
