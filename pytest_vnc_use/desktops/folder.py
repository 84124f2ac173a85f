"""The working folder of a program under test, and the way to its files that never leads out of it."""

from __future__ import annotations

from pathlib import Path

from pytest_vnc_use.errors import DesktopError


class WorkingFolder:
    """Text files (UTF-8) below `path`, named relative to it."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()

    def read(self, name: str) -> str:
        """Text of a file.

        Raises FileNotFoundError where there is none: a program that did not write it is no fault of the desktop's.
        Raises DesktopError where it is not UTF-8 text, or lies outside the folder.
        """
        try:
            return self._inside(name).read_text(encoding="utf-8")
        except FileNotFoundError:
            found = f"the program's working folder has no file {name!r}; it has {self._listing()}"
            raise FileNotFoundError(found) from None
        except (OSError, UnicodeDecodeError) as exc:
            raise DesktopError(f"cannot read {name!r} in the program's working folder: {exc}") from exc

    def write(self, name: str, text: str) -> None:
        """Write a file, and the folders on its way. Raises DesktopError where that fails, or outside the folder."""
        path = self._inside(name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as exc:
            raise DesktopError(f"cannot write {name!r} in the program's working folder: {exc}") from exc

    def _inside(self, name: str) -> Path:
        path = (self.path / name).resolve()
        if not path.is_relative_to(self.path):
            raise DesktopError(
                f"a file must lie in the program's working folder, got {name!r}; "
                "give a name relative to that folder, without '..'"
            )
        return path

    def _listing(self) -> str:
        names = sorted(p.relative_to(self.path).as_posix() for p in self.path.rglob("*") if p.is_file())
        return ", ".join(map(repr, names[:20])) or "no files"
