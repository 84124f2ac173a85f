"""The output of a desktop's processes, kept in the run folder: `logs/<role>.txt`, one file a process."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from pytest_vnc_use.errors import RunFolderUnwritable
from pytest_vnc_use.runs.json_lines import private
from pytest_vnc_use.runs.reading import read_end

_MOST_BYTES = 400_000


def keep_logs(run_folder: Path, logs: Mapping[str, str]) -> None:
    """Write the logs over earlier ones; empty logs are left out. Raises RunFolderUnwritable."""
    folder = run_folder / "logs"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        for role, text in logs.items():
            if text:
                name = re.sub(r"[^\w.-]+", "-", role)
                path = folder / f"{name}.txt"
                with open(path, "w", encoding="utf-8", errors="replace", opener=private) as file:
                    file.write(text)
    except OSError as exc:
        raise RunFolderUnwritable(f"cannot keep the desktop's logs in {str(folder)!r}: {exc}") from exc


def read_logs(run_folder: Path) -> dict[str, str]:
    """Return text by role, in alphabetical order; empty if no logs were kept.

    Of a long log it is the end, and the role says so. Of one that cannot be read it is the reason.
    """
    return dict(map(_read, sorted((run_folder / "logs").glob("*.txt"))))


def _read(path: Path) -> tuple[str, str]:
    try:
        end, size = read_end(path, _MOST_BYTES)
    except OSError as exc:
        return path.stem, f"(cannot be read: {exc.strerror})"
    left_out = f" (the last {len(end)} of {size} bytes)" if size > len(end) else ""
    return path.stem + left_out, end.decode("utf-8", "replace").replace("\r\n", "\n")
