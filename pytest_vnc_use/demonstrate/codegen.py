"""The files written from a demonstration: a test, and its recording, which pytest finds under the test's name."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_vnc_use.demonstrate.hovering import differing
from pytest_vnc_use.demonstrate.proposal import test_source
from pytest_vnc_use.errors import RunFolderUnwritable, SettingsError
from pytest_vnc_use.recordings.demonstrated import PERSON, DemonstratedTask
from pytest_vnc_use.recordings.format import Evidence, RecordedRun, RecordedStep, Recording, Screen
from pytest_vnc_use.recordings.gates import box_of
from pytest_vnc_use.recordings.store import Key, save
from pytest_vnc_use.runs.json_lines import to_json
from pytest_vnc_use.types import Region


@dataclass(frozen=True)
class CodegenRequest:
    """The task to demonstrate, and the file for the test.

    `expect` are claims, `secrets` names of environment variables. `app` is the program that the test starts, if any.
    Where `covered` is true, pictures have covers over typed secrets.
    """

    task: str
    out: Path
    expect: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    app: str = ""
    covered: bool = True

    @property
    def test(self) -> str:
        """Return the name of the test's function."""
        name = re.sub(r"\W", "_", self.out.stem)
        return name if name.startswith("test_") else f"test_{name}"

    @property
    def key(self) -> Key:
        """Return the key under which pytest looks for the recording."""
        return Key(self.out, f"{self.out.name}::{self.test}", (), tuple(sorted(self.secrets)))

    def check(self) -> None:
        """Raise SettingsError if the request is not clear, or a file would be overwritten."""
        if not self.task.strip():
            raise SettingsError(f"--task must be a sentence, got {self.task!r}")
        if not all(claim.strip() for claim in self.expect):
            raise SettingsError(f"--expect must be a sentence about the screen, got {list(self.expect)!r}")
        if self.out.suffix != ".py":
            raise SettingsError(f"--out must be a Python file, such as 'tests/test_basket.py', got {str(self.out)!r}")
        if not os.access(self.out.parent, os.W_OK):
            raise SettingsError(
                f"--out={str(self.out)!r} must lie in a folder that can be written to, got {str(self.out.parent)!r}"
            )
        for path in (self.out, self.key.path):
            if path.exists():
                raise SettingsError(f"{str(path)!r} exists and is not overwritten: give another --out, or remove it")


def write(wanted: CodegenRequest, shown: DemonstratedTask) -> None:
    """Write the test and its recording; `shown` has at least one step. Raises RunFolderUnwritable."""
    changed = what_changed(shown.steps[0].screen, shown.end)
    claims = wanted.expect or (f"the screen shows that this is done: {wanted.task}",)
    try:
        save(wanted.key.path, _recording(wanted, shown, claims, changed))
        with wanted.out.open("x", encoding="utf-8") as file:
            file.write(_source(wanted, claims, changed))
    except OSError as exc:
        raise RunFolderUnwritable(f"{str(wanted.out)!r} and its recording cannot be written: {exc}") from exc


def what_changed(start: Screen, end: Screen) -> Region | None:
    """Return the region that differs between start and end; None if nothing does.

    Parts that move by themselves do not count.
    """
    differs = differing(start, end)
    return box_of(differs) if differs.any() else None


def _recording(
    wanted: CodegenRequest, shown: DemonstratedTask, claims: Sequence[str], changed: Region | None
) -> Recording:
    reason = (
        "this was said of it when it was shown" if wanted.expect else "proposed when it was shown, judged by nobody"
    )
    height, width = shown.end.pixels().shape
    run = RecordedRun(
        task=wanted.task,
        planner=PERSON,
        steps=tuple(
            RecordedStep.model_validate(
                {"action": to_json(step.action), "screen": step.screen, "elements": step.elements}
            )
            for step in shown.steps
        ),
        end=shown.end,
        claims=tuple(
            Evidence(claim=claim, verdict="holds", reason=reason, region=changed, model=PERSON, screen=shown.end)
            for claim in claims
        ),
    )
    key = wanted.key
    covered = wanted.covered and bool(key.secrets)
    return Recording(test=key.test, secrets=key.secrets, covered=covered, screen_size=(width, height), runs=(run,))


def _source(wanted: CodegenRequest, claims: Sequence[str], changed: Region | None) -> str:
    given = {"expect": list(claims), "secrets": sorted(wanted.secrets) or None, "app": wanted.app or None}
    arguments = [_literal(wanted.task), *(f"{name}={_literal(value)}" for name, value in given.items() if value)]
    where = f"from {changed.left, changed.top} to {changed.right, changed.bottom}" if changed else "nowhere"
    comment = [f"What was shown changed the screen {where}; assert what a file or a program can tell."]
    if not wanted.expect:
        comment += ["", "The claim is only proposed: say what should be seen, here and in the recording.", ""]
    origin = "Recorded by demonstration: `cua-vnc record`."
    return test_source(wanted.test, origin, arguments, "\n    ".join(comment))


def _literal(value: object) -> str:
    """Return a text or a list of texts as Python source, with the quotes that formatters like."""
    return json.dumps(value, ensure_ascii=False)
