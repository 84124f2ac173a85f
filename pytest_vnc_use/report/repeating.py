"""The command that repeats a run, quoted for a shell of POSIX."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from pytest_vnc_use.runs.ended_test import EndedTest
from pytest_vnc_use.runs.folder import Trace
from pytest_vnc_use.settings.settings import FIELDS, Settings, argument
from pytest_vnc_use.types import SECRET_MARK, JsonObject

_OF_THE_PROGRAM = ("app", "screen_size", "cdp", "elements")
_OF_THE_MODEL = ("planner", "model", "base_url")


@dataclass(frozen=True)
class Repeating:
    """A command, and what a reader must know to use it."""

    line: str
    notes: tuple[str, ...]


def repeating(trace: Trace, ended: EndedTest | None) -> Repeating:
    """Return the command that repeats a run.

    The settings of a run that somebody else may have written are left out: a command of theirs is not passed on.
    """
    settings = trace.started.settings if trace.is_own else {}
    test = trace.started.test_id or (ended.test if ended else "")
    line = _of_test(trace, test, settings) if test else _of_task(trace, settings)
    return Repeating(shlex.join(line), tuple(_notes(trace, test, settings)))


def _of_test(trace: Trace, test: str, settings: JsonObject) -> list[str]:
    """Return the command for a test: by its recording, where the run was a replay or a demonstration."""
    planner = trace.started.planner
    was_replayed = planner.startswith("recording") and not any(drift.healed for drift in trace.drifts)
    mode = "replay" if was_replayed or planner == "a person" else "auto" if planner.startswith("recording") else "off"
    names = _OF_THE_PROGRAM if mode == "replay" else (*_OF_THE_PROGRAM, *_OF_THE_MODEL)
    return ["python", "-m", "pytest", test, f"--vnc-record={mode}", *_arguments(settings, names)]


def _of_task(trace: Trace, settings: JsonObject) -> list[str]:
    started = trace.started
    given = [("--expect", claim) for claim in started.expect]
    given += [("--secret", name) for name in dict.fromkeys(SECRET_MARK.findall(started.task))]
    given += [(f"--{name}", str(settings[name])) for name in _OF_THE_MODEL if settings.get(name)]
    server = str(settings.get("server") or started.server if settings else "") or "HOST::PORT"
    told = [f"{option.replace('_', '-')}={value}" for option, value in given]
    return ["cua-vnc", "run", f"--vnc={server}", f"--task={started.task}", *told]


def _arguments(settings: JsonObject, names: tuple[str, ...]) -> Iterator[str]:
    """Yield the settings that are not the defaults, as pytest's arguments."""
    default = Settings()
    for name in names:
        value = _as_text(settings.get(name))
        if name in FIELDS and value and value != _as_text(getattr(default, name)):
            yield argument(name, value)


def _as_text(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return "x".join(map(str, value))
    return ("on" if value else "") if isinstance(value, bool) else str(value or "")


def _notes(trace: Trace, test: str, settings: JsonObject) -> Iterator[str]:
    if test:
        yield "Add `--vnc-server=…` if the project's settings do not name the desktop."
    if not settings:
        yield "The settings of the run are not repeated here: another user, or another machine, wrote its folder."
    if any(SECRET_MARK.search(text) for text in (trace.started.task, *trace.started.expect)) or trace.started.secrets:
        yield "Secrets are needed: they stand here by their names only."
