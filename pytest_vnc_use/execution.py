"""The action trace of a run: `execution.json` in its run folder, a plain list of what was done.

While a run goes on it is named `execution.partial.json`, whole and valid after every step; a kill leaves it so. Where
the run broke, `error.txt` beside it holds the traceback. Readers ignore fields unknown to them, a higher version they
refuse. The run folder's own `trace.jsonl` tells more; this is for whoever carries the actions out again.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from pytest_vnc_use.errors import RunFolderError, RunFolderUnwritable, SettingsError
from pytest_vnc_use.harness_trace import actions_of, finished_with
from pytest_vnc_use.trace import from_json, to_json
from pytest_vnc_use.types import (
    Action,
    Confirmation,
    JsonObject,
    Proposal,
    RunEnded,
    RunEvent,
    RunStarted,
    Step,
    StepFinished,
    TurnDecided,
)

VERSION = 1
FINAL, PARTIAL, ERROR = "execution.json", "execution.partial.json", "error.txt"
_PLACEHOLDER = re.compile(r"<secret:([A-Za-z_][A-Za-z0-9_]*)>")


@dataclass(frozen=True, kw_only=True)
class ExecutionStep:
    """One action, `offset_s` after the run's start. With an `error` it was refused or failed.

    `name` is what the planner called it; `screenshot` the picture after it, relative to the run folder.
    """

    number: int = 0
    name: str = ""
    action: Annotated[Action, Field(discriminator="kind")]
    intent: str = ""
    confirmation: Confirmation | None = None
    offset_s: float = 0.0
    duration_s: float = 0.0
    error: str = ""
    screenshot: str = ""

    @property
    def proposal(self) -> Proposal:
        """The action as a planner proposes it, with all that a policy looks at."""
        return Proposal(self.action, self.intent, {"name": self.name, "args": {}}, self.confirmation)


@dataclass(frozen=True, kw_only=True)
class Execution:
    """What a run did. Times are UTC in ISO 8601; `outcome` is None while it goes on, and where it broke.

    `params` is what a planner of the user's finished with.
    """

    version: int = VERSION
    run_id: str = ""
    task: str = ""
    started_at: str = ""
    ended_at: str | None = None
    outcome: str | None = None
    message: str = ""
    error: str = ""
    params: JsonObject = field(default_factory=dict)
    steps: tuple[ExecutionStep, ...] = ()


# --- writing ---------------------------------------------------------------------------------------------------------


class ExecutionLog:
    """A RunObserver that writes the action trace into the run folder; it must hear the events without their secrets.

    On a folder that was opened again it goes on where the one before it stopped. Raises RunFolderError where it cannot
    write.
    """

    def __init__(self, run_folder: Path) -> None:
        self._final, self._partial, self._error = (run_folder / name for name in (FINAL, PARTIAL, ERROR))
        self._so_far: Execution | None = None
        self._lines: dict[int, str] = {}

    def observe(self, event: RunEvent) -> None:
        match event:
            case RunStarted():
                self._so_far, self._lines = Execution(run_id=event.run_id, task=event.task, started_at=_now()), {}
                self._write_partial()
            case TurnDecided() if event.decision.params:
                self._change(params=event.decision.params)
            case StepFinished(step=step):
                self._add(step)
            case RunEnded():
                self._end(event)

    def _add(self, step: Step) -> None:
        """A step that a resumed run did again counts as it was done last."""
        if so_far := self._told():
            self._lines[step.number] = _json(to_json(_told_step(step, so_far.started_at)))
            self._write_partial()

    def _end(self, event: RunEnded) -> None:
        outcome = event.outcome.value if event.outcome else None
        self._keep_error(event.traceback or event.error)
        self._change(ended_at=_now(), outcome=outcome, message=event.message, error=event.error)
        if self._partial.exists():
            _rename(self._partial, self._final)

    def _keep_error(self, text: str) -> None:
        if text:
            _write(self._error, text.rstrip("\n") + "\n")
        else:
            self._error.unlink(missing_ok=True)

    def _change(self, **fields: Any) -> None:
        if so_far := self._told():
            self._so_far = replace(so_far, **fields)
            self._write_partial()

    def _told(self) -> Execution | None:
        """What was written so far but the steps, also by another process; None where the run never saw a screen."""
        if self._so_far is None and (found := _found(self._final.parent)):
            told = read_execution(found)
            self._lines = {step.number: _json(to_json(step)) for step in told.steps}
            self._so_far = replace(told, ended_at=None, outcome=None, message="", error="", steps=())
        return self._so_far

    def _write_partial(self) -> None:
        """A line a step; each is made once, so that a long run does not take ever longer."""
        head = _json(to_json(self._so_far)).removesuffix("]}")
        _write(self._partial, "\n".join([head, ",\n".join(self._lines.values()), "]}\n"]))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _told_step(step: Step, started_at: str) -> ExecutionStep:
    duration_s = step.times.act_s + step.times.settle_s + step.times.capture_s
    offset_s = (datetime.now(timezone.utc) - datetime.fromisoformat(started_at)).total_seconds() - duration_s
    return ExecutionStep(
        number=step.number,
        name=str(step.proposal.as_proposed.get("name", "")),
        action=step.proposal.action,
        intent=step.proposal.intent,
        confirmation=step.proposal.confirmation,
        offset_s=round(offset_s, 3),
        duration_s=round(duration_s, 3),
        error=step.error,
        screenshot=f"screens/{step.frame_after.digest}.png",
    )


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


def _write(target: Path, text: str) -> None:
    """All of it or nothing. A character that UTF-8 cannot hold (half a surrogate pair) becomes "?"."""
    draft = target.with_name(f".{target.name}.tmp")
    try:
        draft.write_bytes(text.encode("utf-8", "replace"))
    except OSError as exc:
        raise RunFolderUnwritable(f"cannot write {str(target)!r}: {exc}") from exc
    _rename(draft, target)


def _rename(source: Path, target: Path) -> None:
    try:
        source.replace(target)
    except OSError as exc:
        raise RunFolderUnwritable(f"cannot write {str(target)!r}: {exc}") from exc


# --- reading ---------------------------------------------------------------------------------------------------------


def read_execution(path: Path) -> Execution:
    """The action trace in a file, or in a run folder, finished or not; or one of the harness in harness_trace.py.

    Raises RunFolderError where there is none, it is of a newer version, or a step is wrong: it names the step.
    """
    file = _found(path) if path.is_dir() else path
    if file is None:
        raise RunFolderError(f"{str(path)!r} has no action trace: it must hold {FINAL} or {PARTIAL}")
    try:
        told = json.loads(file.read_bytes())
    except (OSError, ValueError) as exc:
        raise RunFolderError(f"{str(file)!r} must be an action trace in JSON: {exc}") from exc
    try:
        return _parsed(told)
    except RunFolderError as exc:
        raise RunFolderError(f"{str(file)!r} is no action trace: {exc}") from exc


def _found(run_folder: Path) -> Path | None:
    """The partial one, where both are there, is the newer."""
    return next((file for name in (PARTIAL, FINAL) if (file := run_folder / name).is_file()), None)


def _parsed(told: Any) -> Execution:
    if isinstance(told, list) and told:
        steps_there = enumerate(actions_of(told), start=1)
        done = tuple(ExecutionStep(number=number, name=name, action=action) for number, (name, action) in steps_there)
        return Execution(params=finished_with(told), steps=done)
    steps = told.get("steps") if isinstance(told, dict) else None
    if not isinstance(steps, list):
        raise RunFolderError("it must be an object with a list of 'steps'")
    execution = from_json(Execution, {**told, "steps": ()})
    if execution.version > VERSION:
        raise RunFolderError(f"its version is {execution.version}, this pytest-vnc-use reads up to {VERSION}")
    return replace(execution, steps=tuple(_parsed_step(number, step) for number, step in enumerate(steps, start=1)))


def _parsed_step(position: int, told: Any) -> ExecutionStep:
    try:
        step = from_json(ExecutionStep, told)
    except RunFolderError as exc:
        raise RunFolderError(f"step {position}: {exc}") from exc
    return replace(step, number=step.number or position)


# --- secrets ---------------------------------------------------------------------------------------------------------


def secrets_of(execution: Execution, known: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Values for the placeholders `<secret:NAME>` in what is typed, from those that are `known` by name.

    Raises SettingsError where one is not, or is empty.
    """
    found = {name: step.number for step in execution.steps for name in _secrets_in(step.action)}
    for name, number in found.items():
        if not known.get(name):
            raise SettingsError(
                f"step {number} of the action trace needs the secret {name!r}: set the environment variable of that "
                "name, which a test declares with secrets="
            )
    return {name: known[name] for name in found}


def _secrets_in(action: Action) -> list[str]:
    return _PLACEHOLDER.findall(json.dumps(to_json(action)))
