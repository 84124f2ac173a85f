"""Notes of each worker of pytest-xdist on the test that it has begun, in case the worker dies.

The controller makes a folder, and names it to each worker. A worker writes two files there. One has the ids of all
tests with a desktop: a worker may die before its test begins. The other has the test's id and attempt, then the run
folder of each run that began since, a line of JSON each. If the worker dies, only these files tell about its test. Then
the controller copies the first line of the note into one more file, which the worker that repeats the test reads. If
the controller is killed, a later session removes its folder.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_vnc_use.plugin.owned_folder import OwnedFolder

_PREFIX = "vnc-begun-"
"""The beginning of the name of the folder of the notes."""

_BEGUN = "vnc_begun"
"""In a worker's input: the folder of the notes."""
_COLLECTED = ".collected"
"""The end of the name of the file of all tests with a desktop."""
_CRASHED = ".crashed"
"""The file of the tests whose worker died."""


def note_collected(config: pytest.Config, tests: Iterable[str]) -> None:
    """Note on a worker which tests have a desktop; does nothing in another process."""
    if path := _note_of(config, _COLLECTED):
        with suppress(OSError):  # the worker may be on another machine, where there is no such folder
            path.write_text("".join(json.dumps(test) + "\n" for test in tests), encoding="utf-8")


def note_test(item: pytest.Item, attempt: int) -> None:
    """Note on a worker that this attempt at the test has begun; does nothing in another process."""
    _write(item, "w", [item.nodeid, attempt])


def note_run(item: pytest.Item, run_folder: Path) -> None:
    """Note on a worker that a run of its test has begun; does nothing in another process."""
    _write(item, "a", str(run_folder))


def crashed_attempt(item: pytest.Item) -> int:
    """Return the number of the last attempt at the test in which a worker died; 0 if there is none."""
    worker = getattr(item.config, "workerinput", {})
    crashed = _lines(Path(worker[_BEGUN], _CRASHED)) if _BEGUN in worker else []
    return max((attempt for test, attempt in crashed if test == item.nodeid), default=0)


def _write(item: pytest.Item, mode: str, line: str | list[str | int]) -> None:
    if path := _note_of(item.config):
        # the worker may be on another machine, where there is no such folder
        with suppress(OSError), path.open(mode, encoding="utf-8") as note:
            note.write(json.dumps(line) + "\n")


def _note_of(config: pytest.Config, ending: str = "") -> Path | None:
    """Return the path of a note of this worker; None in another process."""
    worker = getattr(config, "workerinput", {})
    return Path(worker[_BEGUN], worker["workerid"] + ending) if _BEGUN in worker else None


class BegunTests:
    """The notes, as the controller reads them."""

    def __init__(self) -> None:
        self._folder: OwnedFolder | None = None

    def tell(self, worker_input: dict[str, Any]) -> None:
        """Tell a worker where to write its notes."""
        from pytest_vnc_use.plugin.owned_folder import OwnedFolder

        self._folder = self._folder or OwnedFolder(_PREFIX)
        worker_input[_BEGUN] = str(self._folder.path)

    def runs_of(self, test: str) -> list[Path] | None:
        """Return the run folders of a test that a worker noted last; None if the test has no desktop."""
        if found := self._notes_of(test):
            return [Path(run) for _, *runs in found for run in runs]
        return [] if any(test in _lines(path) for path in self._files() if path.suffix == _COLLECTED) else None

    def note_crash(self, test: str) -> None:
        """Note that a worker died in the test, for the worker that may try it again."""
        if self._folder and (found := self._notes_of(test)):
            last = max(first for first, *_ in found)
            # without the note the attempt has a wrong number, and nothing else
            with suppress(OSError), (self._folder.path / _CRASHED).open("a", encoding="utf-8") as crashed:
                crashed.write(json.dumps(last) + "\n")

    def _notes_of(self, test: str) -> list[list[Any]]:
        notes = [_lines(path) for path in self._files() if not path.suffix and path.name != _CRASHED]
        return [note for note in notes if note and note[0][0] == test]

    def _files(self) -> list[Path]:
        return sorted(self._folder.path.iterdir()) if self._folder else []

    def close(self) -> None:
        """Remove the notes."""
        if self._folder:
            self._folder.close()


def remove_left_notes() -> None:
    """Remove the notes of sessions that were killed."""
    from pytest_vnc_use.plugin.owned_folder import remove_left_folders

    remove_left_folders(_PREFIX)


def _lines(path: Path) -> list[Any]:
    """Return the lines of a note; the last may be cut, as its writer was killed. A missing note has none."""

    def texts() -> Iterator[Any]:
        with suppress(ValueError, OSError):
            for line in path.read_text("utf-8", "replace").splitlines():
                yield json.loads(line)

    return list(texts())
