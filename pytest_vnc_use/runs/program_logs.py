"""The output of a desktop's processes, kept in the run folder: `logs/<role>.txt`, one file a process."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from pytest_vnc_use.errors import RunFolderUnwritable
from pytest_vnc_use.runs.json_lines import private


def keep_logs(run_folder: Path, logs: Mapping[str, str]) -> None:
    """Write the logs over earlier ones; empty logs are left out. Raises RunFolderUnwritable."""
    folder = run_folder / "logs"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        for role, text in logs.items():
            if text:
                path = folder / f"{_file_name(role)}.txt"
                with open(path, "w", encoding="utf-8", errors="replace", opener=private) as file:
                    file.write(text)
    except OSError as exc:
        raise RunFolderUnwritable(f"cannot keep the desktop's logs in {str(folder)!r}: {exc}") from exc


def read_logs(run_folder: Path) -> dict[str, str]:
    """Return text by role, in alphabetical order; empty if no logs were kept."""
    paths = sorted((run_folder / "logs").glob("*.txt"))
    return {path.stem: path.read_text(encoding="utf-8", errors="replace") for path in paths}


def _file_name(role: str) -> str:
    return re.sub(r"[^\w.-]+", "-", role)
