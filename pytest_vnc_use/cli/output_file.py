"""The path of a file that a command writes, checked before the command does any work."""

from __future__ import annotations

import os
from pathlib import Path

from pytest_vnc_use.errors import SettingsError


def output_file(option: str, text: str) -> Path:
    """Return the path of the file that an option names. Raises SettingsError if only a folder can have that name."""
    path = Path(text)
    if not text:
        raise SettingsError(f"{option} must be the name of a file, got {text!r}")
    if text.endswith(("/", os.sep)) or path.name in ("", "..") or os.path.isdir(text):  # noqa: PTH112  # raises nothing
        raise SettingsError(f"{option} must be the name of a file, got the folder {text!r}")
    return path
