"""The recording that a renamed or moved test has left behind, and the command that
gives it back.

Tests are compared by their ids, and recordings by their files: a recording at another
path than its test's was moved to the test that uses it now.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import lru_cache
from itertools import islice
from pathlib import Path

import pytest

from pytest_vnc_use.errors import RecordingError
from pytest_vnc_use.plugin.markers import authored_name
from pytest_vnc_use.plugin.state import COLLECTED, state_of
from pytest_vnc_use.recordings.names import SHARED
from pytest_vnc_use.recordings.store import (
    DIRECTORY,
    Key,
    directory_name,
    read_recording,
    recordings_in,
    without_digest,
)

_OTHER_NAME = "{!r} is its recording under another name: keep its recording by: {}"
_LEFT_BEHIND = (
    "{!r} has the recording of {!r}, which is not there any more: if this test is that"
    " one under a new name, keep its recording by: {}"
)
_MAX_DIRECTORIES = 5_000
"""The maximum directories of a project that are searched for the recording of a moved
file.
"""


def key_of(item: pytest.Item, secrets: Iterable[str] = ()) -> Key:
    """Return the key of the test's recording; all repetitions share one.

    Its test id begins with the file's name, so it is the same from whatever directory
    pytest is started. The recordings of a file that is a symbolic link are beside the
    file that it leads to.
    """
    module = item.path.resolve()
    name, parameters = authored_name(item)
    test = f"{module.name}::{name}" if name else module.name
    return Key(
        module,
        test,
        parameters=tuple(sorted(parameters)),
        secrets=tuple(sorted(secrets)),
    )


@dataclass(frozen=True)
class _Stored:
    """A recording, the key of the test that its name is of, and its tasks."""

    path: Path
    key: Key
    tasks: tuple[str, ...]

    def is_of(self, key: Key) -> bool:
        """Return whether it is of the key's test, though at another path."""
        return self.key.module == key.module and self.key.test == key.test

    def is_gone(self, collected: Iterable[Key]) -> bool:
        """Return whether no test uses it at all, given that none of the collected tests
        does.

        So it is if its file is gone, or no longer names it, or if all parameters of its
        function were collected.
        """
        module = self.key.module
        if not module.exists():
            return True
        text = module.read_text("utf-8")
        names = _names(self.key.test)
        for name in names:
            if not re.search(rf"\b{re.escape(name)}\b", text):
                return True
        module = module.resolve()
        of_module = [key for key in collected if key.module == module]
        return any(_names(key.test) == names for key in of_module)

    def may_serve(self, key: Key, tasks: Sequence[str]) -> bool:
        """Return whether it has the tasks and the parameters of a test, and either its
        function's name or its `[...]`.
        """
        if self.key.parameters != key.parameters:
            return False
        if self.tasks[: len(tasks)] != tasks:
            return False
        *_, own_function = _names(self.key.test)
        *_, function = _names(key.test)
        if own_function == function:
            return True
        return _brackets(self.key.test) == _brackets(key.test)


def move_hint(item: pytest.Item, key: Key) -> str:
    """Return the command that gives a test its former recording; "" unless exactly one
    fits.
    """
    if key.path.exists():
        return ""
    beside = key.path.parents[2]
    left = _left_behind(item, key, [beside])
    if left is None:
        others = [*_recordings_below(item.config)]
        if beside in others:
            others.remove(beside)
        left = _left_behind(item, key, others)
    if left is None:
        return ""
    base = item.config.invocation_params.dir.resolve()
    command = _move_command(left.path, key.path, base)
    path = os.path.relpath(left.path.parent, base)
    if left.is_of(key):
        return _OTHER_NAME.format(path, command)
    return _LEFT_BEHIND.format(path, left.key.test, command)


def _left_behind(
    item: pytest.Item,
    key: Key,
    directories: Iterable[Path],
) -> _Stored | None:
    """Return the recording in these directories that fits the test and that no test
    uses any more; None if there is none, or if several fit equally well.
    """
    specs = state_of(item).marked.specs
    tasks = tuple(spec.task for spec in specs if not spec.recording)
    tests = item.session.stash.get(COLLECTED, item.session.items)
    collected = [key_of(test) for test in tests]
    used = {other.path for other in collected}
    if _is_partial(item.config):
        collected = []
    fitting = []
    for directory in directories:
        for path in recordings_in(directory):
            if path in used or path.parents[1].name == SHARED:
                continue
            # one that cannot be read serves no test
            with suppress(OSError, UnicodeError, RecordingError):
                stored = _read(path)
                if not stored.may_serve(key, tasks):
                    continue
                if stored.is_of(key) or stored.is_gone(collected):
                    fitting.append(stored)
    for trait in (str, _brackets, _names):
        wanted = trait(key.test)
        alike = [stored for stored in fitting if trait(stored.key.test) == wanted]
        fitting = alike or fitting
    return fitting[0] if len(fitting) == 1 else None


def _is_partial(config: pytest.Config) -> bool:
    """Return whether a test was chosen by its id, or as one that failed last: then not
    all parameters are collected.
    """
    if config.getoption("lf", False):
        return True
    return any("::" in arg for arg in config.args)


def _brackets(test: str) -> str:
    _, _, brackets = test.partition("[")
    return brackets


def _names(test: str) -> Sequence[str]:
    """Return the names of a test's classes and its function."""
    function, _, _ = test.partition("[")
    _, *names = function.split("::")
    return names or [test]


@lru_cache(None)  # read once a session, however many tests have no recording
def _read(path: Path) -> _Stored:
    """Return a recording. Raises OSError, RecordingError."""
    recording = read_recording(path)
    module, _, name = recording.test.partition("::")
    called = without_digest(path.parent.name)
    if called != without_digest(directory_name(recording.test)):
        path_name, bracket, parameters = called.partition("[")
        name = path_name.replace(".", "::") + bracket + parameters
    suffix = module.removeprefix(Path(module).stem)
    module = f"{path.parents[1].name}{suffix}"
    file = path.parents[3] / module
    key = Key(file, f"{module}::{name}", recording.parameters)
    tasks = tuple(segment.task for segment in recording.segments)
    return _Stored(path, key, tasks)


@lru_cache(None)
def _recordings_below(config: pytest.Config) -> tuple[Path, ...]:
    """Return the directories of recordings of the project, as far as pytest would look
    for tests.
    """
    skipped = config.getini("norecursedirs")
    found = []
    walk = os.walk(config.rootpath.resolve())
    for directory, names, files in islice(walk, _MAX_DIRECTORIES):
        if DIRECTORY in names:
            found.append(Path(directory, DIRECTORY))
        if "pyvenv.cfg" in files:
            names.clear()
        for name in [*names]:
            if any(fnmatch(name, pattern) for pattern in (*skipped, DIRECTORY)):
                names.remove(name)
    return tuple(found)


def _move_command(
    old: Path,
    new: Path,
    base: Path,
) -> str:
    """Return the shell command that moves a recording, with paths from `base`."""
    commands = []
    directory = new.parent.parent
    if not directory.exists():
        commands.append(["mkdir", "-p", os.path.relpath(directory, base)])
    moved = [os.path.relpath(path.parent, base) for path in (old, new)]
    commands.append(["mv", *moved])
    return " && ".join(map(shlex.join, commands))
