"""The action trace of a run: `execution.json` in its run folder, a plain list of what was done, in order.

Each record has the fields `action`, `params` and `task_marked_complete` of the harness in uitask_actions.py, and beside
them the step's number, what the planner called it and meant by it, and the picture after it. What was refused or failed
was not done, and is left out. `task_marked_complete` is always null, "nobody looked": whether the task is done, the
run's verdicts say. A run that ended as done has a last record `finish`.

While a run goes on the file is named `partial_execution.json`, whole and valid after every step; a kill or a crash
leaves it so, a crash with its traceback in `error.txt`. Readers ignore fields unknown to them. The run folder's own
`trace.jsonl` tells more; this is for whoever carries the actions out again.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from pytest_vnc_use.errors import RunFolderError, RunFolderUnwritable, SettingsError
from pytest_vnc_use.runs.folder import from_json, read_trace, to_json
from pytest_vnc_use.runs.uitask_actions import FINISH, actions_of, finished_with, words_for
from pytest_vnc_use.types import (
    SECRET_MARK,
    Action,
    Confirmation,
    JsonObject,
    Outcome,
    Proposal,
    RunEnded,
    RunEvent,
    RunStarted,
    Step,
    StepFinished,
    TurnDecided,
)

FINAL, PARTIAL, ERROR = "execution.json", "partial_execution.json", "error.txt"


@dataclass(frozen=True, kw_only=True)
class ExecutionStep:
    """One action that was carried out, as a part of step `number`.

    `name` is what the planner called it; `screenshot` the picture after it, relative to the run folder.
    """

    number: int = 0
    name: str = ""
    action: Annotated[Action, Field(discriminator="kind")]
    intent: str = ""
    confirmation: Confirmation | None = None
    screenshot: str = ""

    @property
    def proposal(self) -> Proposal:
        """The action as a planner proposes it, with all that a policy looks at."""
        return Proposal(self.action, self.intent, {"name": self.name, "args": {}}, self.confirmation)


@dataclass(frozen=True, kw_only=True)
class Execution:
    """What a run did; its id and its task where the run folder around it tells them.

    `params` is what a planner of the user's finished with.
    """

    run_id: str = ""
    task: str = ""
    params: JsonObject = field(default_factory=dict)
    steps: tuple[ExecutionStep, ...] = ()
    own_secrets: tuple[str, ...] = ()
    """Names of the secrets that this user's own run was given; none of a run from elsewhere."""


# --- writing ---------------------------------------------------------------------------------------------------------


class ExecutionLog:
    """A RunObserver that writes the action trace into the run folder; it must hear the events without their secrets.

    On a folder that was opened again it goes on where the one before it stopped. Raises RunFolderError where it cannot
    write.
    """

    def __init__(self, run_folder: Path) -> None:
        self._final, self._partial, self._error = (run_folder / name for name in (FINAL, PARTIAL, ERROR))
        self._lines: dict[int, str] | None = None
        self._params: JsonObject = {}

    def observe(self, event: RunEvent) -> None:
        match event:
            case RunStarted():
                self._lines = {}
                self._write_partial()
            case TurnDecided(decision=decision):
                self._params = decision.params
            case StepFinished(step=step):
                self._add(step)
            case RunEnded():
                self._end(event)

    def _add(self, step: Step) -> None:
        """A step that a resumed run did again counts as it was done last."""
        if (lines := self._lines_so_far()) is not None:
            lines.pop(step.number, None)
            if not step.error:
                lines[step.number] = _joined(map(_json, _records(step)))
            self._write_partial()

    def _end(self, event: RunEnded) -> None:
        self._keep_error(event.traceback or event.error)
        if event.outcome and self._lines_so_far() is not None:
            finish = _record(FINISH, {"params": self._params}) | {"message": event.message}
            self._write_partial(*[finish] if event.outcome is Outcome.DONE else [])
            _rename(self._partial, self._final)

    def _keep_error(self, text: str) -> None:
        if text:
            _write(self._error, text.rstrip("\n") + "\n")
        else:
            self._error.unlink(missing_ok=True)

    def _lines_so_far(self) -> dict[int, str] | None:
        """What was written so far, by step, also by another process; None where the run never saw a screen."""
        if self._lines is None and self._partial.is_file():
            self._lines = {}
            for number, records in itertools.groupby(_records_in(self._partial), lambda record: record.get("number")):
                if number is not None:
                    self._lines[number] = _joined(map(_json, records))
        return self._lines

    def _write_partial(self, *last: JsonObject) -> None:
        """A line an action; each is made once, so that a long run does not take ever longer."""
        _write(self._partial, f"[\n{_joined([*(self._lines or {}).values(), *map(_json, last)])}\n]\n")


def _joined(lines: Iterable[str]) -> str:
    return ",\n".join(lines)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _record(name: str, params: JsonObject) -> dict[str, Any]:
    return {"action": name, "params": params, "task_marked_complete": None}


def _records(step: Step) -> list[dict[str, Any]]:
    """The step's actions; what a person had to confirm stands with the first of them."""
    proposal = step.proposal
    said = {
        "number": step.number,
        "name": str(proposal.as_proposed.get("name", "")),
        "intent": proposal.intent,
        "screenshot": f"screens/{step.frame_after.digest}.png",
    }
    records = [_record(*words) | said for words in words_for(proposal.action)]
    if proposal.confirmation and records:
        records[0]["confirmation"] = to_json(proposal.confirmation)
    return records


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
    """The action trace in a file, or in a run folder, finished or not; of a run here, or of the harness.

    Raises RunFolderError where there is none, or a record is wrong: it names the record.
    """
    file = _found(path) if path.is_dir() else path
    if file is None:
        raise RunFolderError(f"{str(path)!r} has no action trace: it must hold {FINAL} or {PARTIAL}")
    try:
        return _parsed(_records_in(file), file.parent)
    except RunFolderError as exc:
        raise RunFolderError(f"{str(file)!r} is no action trace: {exc}") from exc


def _found(run_folder: Path) -> Path | None:
    """The partial one, where both are there, is the newer."""
    return next((file for name in (PARTIAL, FINAL) if (file := run_folder / name).is_file()), None)


def _records_in(file: Path) -> list[dict[str, Any]]:
    try:
        told = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as exc:
        raise RunFolderError(f"it must be JSON: {exc}") from exc
    if not isinstance(told, list) or not all(isinstance(record, dict) for record in told):
        raise RunFolderError(f"it must be a list of actions with their params, got {told!r:.100}")
    return told


def _parsed(records: list[dict[str, Any]], folder: Path) -> Execution:
    steps = tuple(
        from_json(ExecutionStep, {"number": number, "name": record["action"], **record, "action": to_json(action)})
        for number, (record, action) in enumerate(actions_of(records), start=1)
    )
    execution = Execution(params=finished_with(records), steps=steps)
    with suppress(RunFolderError):  # no run folder of ours is around it
        trace = read_trace(folder)
        own = trace.started.secrets if trace.is_own else ()
        return replace(execution, run_id=trace.started.run_id, task=trace.started.task, own_secrets=own)
    return execution


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
                f"name, and name it: --secret {name} (secrets= in Python)"
            )
    return {name: known[name] for name in found}


def _secrets_in(action: Action) -> list[str]:
    return SECRET_MARK.findall(json.dumps(to_json(action)))
