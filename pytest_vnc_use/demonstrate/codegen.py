"""The source of tests: from a demonstration, with the recording that pytest finds by
its name, or from a run.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pytest_vnc_use.backends.pixels import box_of
from pytest_vnc_use.demonstrate.hovering import differing
from pytest_vnc_use.errors import RunDirectoryUnwritable, SettingsError
from pytest_vnc_use.recordings.format import Evidence, Recording, Segment
from pytest_vnc_use.recordings.store import Key, save
from pytest_vnc_use.runs.directory import Trace
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import SECRET_MARK, Region
from pytest_vnc_use.types.values import value_mark, value_names

_TEST = '''\
"""{origin}"""

import pytest


@pytest.mark.vnc_task(
{arguments}
)
def {name}() -> None:
    """{judged}"""
'''


@dataclass(frozen=True)
class CodegenRequest:
    """The task to demonstrate, and the file for the test.

    `expect` are claims, `secrets` names of environment variables. `app` is the program
    that the test starts, if any. Where `redacts` is true, typed secrets are redacted in
    the images. `machine` is what draws on the desktop. `masks` are regions that no
    comparison looks at.
    """

    task: str
    out: Path
    expect: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    app: str = ""
    redacts: bool = True
    machine: Mapping[str, str] = field(default_factory=dict)
    masks: tuple[Region, ...] = ()

    @property
    def test(self) -> str:
        """Return the name of the test's function."""
        name = re.sub(r"\W", "_", self.out.stem)
        return name if name.startswith("test_") else f"test_{name}"

    @property
    def key(self) -> Key:
        """Return the key under which pytest looks for the recording."""
        return Key(
            self.out, f"{self.out.name}::{self.test}", (), tuple(sorted(self.secrets))
        )

    def check(self) -> None:
        """Raise SettingsError if the request is not clear, or a file would be
        overwritten.
        """
        if not self.task.strip():
            raise SettingsError(f"--task must be non-empty text, got {self.task!r}")
        if names := value_names(self.task, *self.expect):
            raise SettingsError(
                f"cua-vnc record has no values, got {value_mark(names[0])}. Write the"
                " test, and record it with --vnc-record=manual"
            )
        if not all(claim.strip() for claim in self.expect):
            raise SettingsError(
                f"--expect must be text about the screen, got {list(self.expect)!r}"
            )
        if self.out.suffix != ".py":
            raise SettingsError(
                "--out must be a Python file, such as 'tests/test_basket.py', got"
                f" {str(self.out)!r}"
            )
        # the directories below it will be made
        parent = next(
            directory
            for directory in self.out.absolute().parents
            if os.path.exists(directory)  # noqa: PTH110  # Path.exists may raise
        )
        if not parent.is_dir() or not os.access(parent, os.W_OK):
            raise SettingsError(
                f"--out={str(self.out)!r} must be in a writable directory, got"
                f" {str(parent)!r}"
            )
        for path in (self.out, self.key.path):
            if path.exists():
                raise SettingsError(
                    f"{str(path)!r} already exists. Give another --out, or remove it"
                )


def write(request: CodegenRequest, demonstration: Segment) -> None:
    """Write the test and its recording; `demonstration` has at least one step. Raises
    RunDirectoryUnwritable.
    """
    differs = differing(demonstration.steps[0].screen, demonstration.end)
    changed = box_of(differs) if differs.any() else None
    claims = request.expect or (f"the screen shows that this is done: {request.task}",)
    try:
        request.out.parent.mkdir(parents=True, exist_ok=True)
        save(request.key.path, _recording(request, demonstration, claims, changed))
        with request.out.open("x", encoding="utf-8") as file:
            file.write(_source(request, claims))
    except OSError as exc:
        raise RunDirectoryUnwritable(
            f"{str(request.out)!r} and its recording cannot be written: {exc}"
        ) from exc


def _recording(
    request: CodegenRequest,
    demonstration: Segment,
    claims: Sequence[str],
    changed: Region | None,
) -> Recording:
    reason = "proposed when it was recorded, never judged"
    confirmed_by = "body"
    if request.expect:
        reason = "a user confirmed it when it was recorded"
        confirmed_by = "user"
    end = demonstration.end
    height, width = end.pixels().shape
    judged = tuple(
        Evidence(
            claim=claim,
            verdict="holds",
            reason=reason,
            region=changed,
            model="user",
            screen=end,
        )
        for claim in claims
    )
    run = demonstration.model_copy(
        update={"claims": judged, "confirmed_by": confirmed_by}
    )
    key = request.key
    return Recording(
        test=key.test,
        secrets=key.secrets,
        redacts=request.redacts and bool(key.secrets),
        screen_size=(width, height),
        machine=dict(request.machine),
        masks=request.masks,
        segments=(run,),
    )


def _source(request: CodegenRequest, claims: Sequence[str]) -> str:
    keywords = {
        "expect": list(claims),
        "secrets": sorted(request.secrets) or None,
        "app": request.app or None,
    }
    arguments = [
        _literal(request.task),
        *(f"{name}={_literal(value)}" for name, value in keywords.items() if value),
    ]
    judged = (
        "The recording checks the claims above. Add an assertion about what a file or a"
        " program can show."
    )
    if not request.expect:
        judged = (
            "The claim above is only proposed: replace it, here and in the recording,"
            " by what must be seen."
        )
    return test_source(
        request.test, "Recorded with `cua-vnc record`.", arguments, judged
    )


def _literal(value: object) -> str:
    """Return a text or a list of texts as Python source, with the quotes that
    formatters like.
    """
    return json.dumps(value, ensure_ascii=False)


def proposed_test(trace: Trace, name: str) -> str:
    """Return Python source of a test of that name, with the run's task, claims, limits,
    program and names of secrets.

    Raises SettingsError if a test cannot have that name.
    """
    if not name.isidentifier():
        raise SettingsError(
            f"the name of a test must be letters, digits and underscores, got {name!r}"
        )
    judged = "The end state of the task is judged"
    if trace.started.expect:
        judged = "The claims above are judged"
    return test_source(
        name if name.startswith("test_") else f"test_{name}",
        f"Proposed from the run {trace.started.run_id}.",
        [
            repr(trace.started.task),
            *(f"{key}={value!r}" for key, value in _arguments(trace).items()),
        ],
        f"{judged}; assert what a file or a program can show.",
    )


def test_source(name: str, origin: str, arguments: Sequence[str], judged: str) -> str:
    """Return Python source of one test; `arguments` are its marker's, as source,
    `judged` is its docstring.
    """
    lines = "\n".join(f"    {argument}," for argument in arguments)
    return _TEST.format(name=name, origin=origin, arguments=lines, judged=judged)


def _arguments(trace: Trace) -> dict[str, object]:
    """Return the marker's keywords, without those that equal the defaults."""
    started = trace.started
    limits = started.limits
    default = Settings()
    secrets = SECRET_MARK.findall("\n".join([started.task, *started.expect]))
    app = started.settings.get("app")
    keywords: dict[str, object] = {}
    if started.expect:
        keywords["expect"] = list(started.expect)
    if limits.steps not in (None, default.max_steps):
        keywords["max_steps"] = limits.steps
    if limits.seconds not in (None, default.max_seconds):
        keywords["max_seconds"] = limits.seconds
    if app:
        keywords["app"] = app
    if secrets:
        keywords["secrets"] = list(dict.fromkeys(secrets))
    return keywords
