"""Files that are written all together or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pytest_vnc_use.errors import SettingsError


@dataclass(frozen=True)
class PlannedFile:
    """A file of the project, and its new text; None keeps it."""

    path: Path
    did: str
    text: str | None = None

    def __str__(self) -> str:
        return f"{self.did:<5}  {self.path}"


def read_text(path: Path) -> str | None:
    """Return a file's text with its line ends as they are, None if there is no file. Raises SettingsError."""
    try:
        if not (path.is_file() or path.is_dir()) and path.exists():  # reading a FIFO would wait for a writer
            raise SettingsError(f"nothing is written: {str(path)!r} must be a regular file, it is a FIFO or a device")
        return path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as exc:
        raise SettingsError(f"nothing is written: {str(path)!r} must be text in UTF-8: {exc}") from exc
    except OSError as exc:
        raise SettingsError(f"nothing is written: {str(path)!r} cannot be read: {exc.strerror}") from exc


def write_all(files: Sequence[PlannedFile], folder: Path) -> None:
    """Write the files, relative to the folder. If one file cannot be written, restore all.

    Raises SettingsError for a file that lies outside the folder, or cannot be written.
    """
    targets = {_inside(folder, file.path): (file.text or "").encode() for file in files}
    undo: list[tuple[Path, Path | None]] = []
    made: list[Path] = []
    staged: dict[Path, tuple[Path, Path | None]] = {}
    path = folder
    try:
        for path, content in targets.items():
            made += _make_folders(path.parent)
            staged[path] = (_beside(path), _beside(path) if path.exists() else None)
            _stage(path, content, *staged[path])
        for path, (fresh, old) in staged.items():
            undo.append((path, old))
            os.replace(fresh, path)
    except BaseException as exc:  # on Ctrl-C too: half of the files would be worse than none
        _undo(undo, staged, made)
        if isinstance(exc, OSError):
            raise SettingsError(f"nothing is written: {exc.strerror}: {str(path)!r}") from exc
        raise
    for _, old in staged.values():
        if old:
            old.unlink()


def _inside(folder: Path, path: Path) -> Path:
    """Return where the file really is. A symbolic link is followed, but not out of the folder."""
    real = (folder / path).resolve()
    if not real.is_relative_to(folder.resolve()):
        raise SettingsError(f"nothing is written: {str(path)!r} must lie in this folder, it leads to {str(real)!r}")
    if real.exists() and not os.access(real, os.W_OK):
        raise SettingsError(f"nothing is written: {str(path)!r} must be writable, it is not")
    return real


def _make_folders(folder: Path) -> list[Path]:
    """Make the folder, and return those that were not there, outermost first."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()][::-1]
    folder.mkdir(parents=True, exist_ok=True)
    return missing


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")


def _stage(path: Path, content: bytes, fresh: Path, old: Path | None) -> None:
    """Write the new content beside the file, and a copy of the old one: a full disk is noticed before any change."""
    if old:
        shutil.copy2(path, old)
    with fresh.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    if old:
        shutil.copymode(path, fresh)


def _undo(
    undo: Sequence[tuple[Path, Path | None]], staged: dict[Path, tuple[Path, Path | None]], made: Sequence[Path]
) -> None:
    for path, old in undo:
        if old:
            os.replace(old, path)
        else:
            path.unlink(missing_ok=True)
    for pair in staged.values():
        for left in filter(None, pair):
            with suppress(OSError):  # it could not be made either, as on a read-only disk
                left.unlink()
    for folder in reversed(made):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
