"""The result of the test that made a run: `result.json` in the run folder.

It is written once the test has ended, so a test that was killed leaves none. Readers ignore fields that they do not
know, and refuse a higher version.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_vnc_use.errors import RunFolderError
from pytest_vnc_use.runs.folder import write_atomically
from pytest_vnc_use.runs.json_lines import from_json, load_json, to_json
from pytest_vnc_use.runs.reading import LARGEST, read_whole

FORMAT = "pytest-vnc-use result"
VERSION = 1
FILE = "result.json"
FINE = frozenset({"passed", "skipped", "xfailed", "xpassed"})
"""The results with which pytest itself passes."""
_MOST = 1e9


@dataclass(frozen=True)
class EndedTest:
    """The result of a test, in pytest's words: `passed, failed, error, skipped, xfailed` or `xpassed`.

    `phase` is the part that decided it: setup, call or teardown. `triage`, `rule` and `message` say what a failure
    means; `failure` is pytest's text about it. `attempt` counts from 1. `worker` is that of pytest-xdist.
    `is_rehearsal` is true if the run rehearsed a recording that the test had just made. `pictures` says why the run
    folder holds none; it is empty if it does.
    """

    test: str
    result: str
    phase: str = "call"
    triage: str = ""
    rule: str = ""
    message: str = ""
    failure: str = ""
    attempt: int = 1
    worker: str = ""
    seconds: float = 0.0
    dollars: float | None = None
    is_rehearsal: bool = False
    pictures: str = ""
    format: str = FORMAT
    version: int = VERSION

    @property
    def is_bad(self) -> bool:
        """Return whether the test failed or broke; a word that pytest does not know is no pass."""
        return self.result not in FINE


def write_ended_test(run_folder: Path, ended: EndedTest) -> None:
    """Write the result of the test into the folder of one of its runs. Raises RunFolderUnwritable."""
    text = json.dumps(to_json(ended), ensure_ascii=False, indent=1)
    write_atomically(run_folder / FILE, text.encode("utf-8", "replace"))


def read_ended_test(run_folder: Path) -> EndedTest | None:
    """Return the result of the test that made a run; None if none is written.

    Raises RunFolderError if it is damaged.
    """
    path = run_folder / FILE
    try:
        content: Any = load_json(read_whole(path, LARGEST))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as exc:
        raise RunFolderError(f"{FILE} cannot be read: {exc}") from exc
    match content:
        case {"format": str(form), "version": int(version)} if form == FORMAT and version <= VERSION:
            return _checked(from_json(EndedTest, content))
    raise RunFolderError(f"{FILE} must be a {FORMAT} up to version {VERSION}")


def _checked(ended: EndedTest) -> EndedTest:
    for name, number in (("seconds", ended.seconds), ("dollars", ended.dollars)):
        if number is not None and not 0 <= number < _MOST:  # nan is none of these
            raise RunFolderError(f"{name} in {FILE} must be from 0 to {_MOST:.0f}, got {number}")
    return ended
