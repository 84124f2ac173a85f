"""The command that repeats a run, quoted for a shell of POSIX."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from pytest_vnc_use.runs.folder import Trace
from pytest_vnc_use.settings.settings import FIELDS, Settings, argument
from pytest_vnc_use.types import SECRET_MARK, JsonObject

_OF_THE_PROGRAM = ("app", "screen_size", "cdp", "elements")
_OF_THE_MODEL = ("planner", "model", "base_url")


@dataclass(frozen=True)
class Repeating:
    """A command, "" if there is none, and notes for the reader."""

    line: str
    notes: tuple[str, ...]


def repeating(trace: Trace) -> Repeating:
    """Return the command that repeats a run, as its folder says: whoever runs it should read it first."""
    line = _of_test(trace) if trace.started.test_id else _of_task(trace)
    return Repeating(shlex.join(line), tuple(_notes(trace)))


def _of_test(trace: Trace) -> list[str]:
    """Return the command for a test: by its recording, where the run was a replay or a demonstration."""
    planner = trace.started.planner
    was_replayed = planner.startswith("recording") and not any(drift.healed for drift in trace.drifts)
    mode = "replay" if was_replayed or planner == "a person" else "auto" if planner.startswith("recording") else "off"
    names = _OF_THE_PROGRAM if mode == "replay" else (*_OF_THE_PROGRAM, *_OF_THE_MODEL)
    test = trace.started.test_id
    test = f"./{test}" if test[0] in "-@" else test  # else pytest takes it for an option or a file of arguments
    return ["python", "-m", "pytest", test, f"--vnc-record={mode}", *_arguments(trace.started.settings, names)]


def _of_task(trace: Trace) -> list[str]:
    started = trace.started
    settings = started.settings
    given = [("--expect", claim) for claim in started.expect]
    given += [("--secret", name) for name in dict.fromkeys(SECRET_MARK.findall(started.task))]
    given += [(f"--{name}", str(settings[name])) for name in _OF_THE_MODEL if settings.get(name)]
    server = str(settings.get("server") or started.server) or "HOST::PORT"
    arguments = [f"{option.replace('_', '-')}={value}" for option, value in given]
    return ["cua-vnc", "run", f"--vnc={server}", f"--task={started.task}", *arguments]


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


def _notes(trace: Trace) -> Iterator[str]:
    if trace.started.test_id:
        yield "Add `--vnc-server=…` if the project's settings do not name the desktop."
    if any(SECRET_MARK.search(text) for text in (trace.started.task, *trace.started.expect)) or trace.started.secrets:
        yield "Secrets are needed: they stand here by their names only."
