"""The real looks of a test since its last task. They decide whether a look in its code counts."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from pytest_vnc_use.body_checks.sightings import Sighting

_WATCHED = frozenset("read_file run elements program_fault logs verify saw check extract screenshot".split())
"""Calls of the agent and the desktop that are noted by name."""
_OF_A_JUDGE = frozenset({"verify", "saw", "check", "extract"})


@dataclass(frozen=True)
class Sights:
    """The looks of a test since its last task. If `seen` is None, assume that every look in the code happened.

    `has_changed`: an object of the test changed while a task was carried out. `is_unsure`: a judge was unsure.
    `has_base`: the test has a data base of sqlite that others may have written.
    """

    seen: frozenset[Sighting] | None = None
    has_changed: bool = True
    is_unsure: bool = False
    has_base: bool = True
    is_fresh: Callable[[str], bool] = lambda _: True
    has_written: Callable[[str], bool] = lambda _: False

    def of_desktop(self, name: str, file: str) -> bool:
        """Return whether a call of the agent or the desktop happened; `file` is its argument if that is known."""
        if name in _OF_A_JUDGE and self.is_unsure:
            return False
        if self.seen is None:
            return True
        if name not in _WATCHED:
            return self.of_anything()
        return any(
            each.kind == "desktop" and (each.name == "browser" or (each.name == name and file in ("", each.file)))
            for each in self.seen
        )

    def of_file(self, path: str) -> bool:
        """Return whether a fresh file was looked at: this one, or any if its path is unknown."""
        if self.seen is None:
            return True
        if not path:
            return self._has("file")
        real = os.path.realpath(path)
        within = [each.file for each in self.seen if each.kind == "file"]
        return self.is_fresh(path) or any(file == real or file.startswith(f"{real}{os.sep}") for file in within)

    def of_process(self) -> bool:
        """Return whether a command was run."""
        return self.seen is None or self._has("process")

    def of_anything(self) -> bool:
        """Return whether the test looked at something, other than by a screenshot."""
        return self.seen is None or any(each.kind != "desktop" or each.name != "screenshot" for each in self.seen)

    def _has(self, kind: str) -> bool:
        return any(each.kind == kind for each in self.seen or ())
