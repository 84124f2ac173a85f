"""The action trace of a run: `execution.json` in its run folder, a list of the carried-out actions in order.

Each record has the fields `action`, `params` and `task_marked_complete` of the harness in uitask_actions.py. It also
has the step's number, the planner's name for the action, its intent, and the picture after it. An action that was
refused or failed was not carried out, so it is left out. `task_marked_complete` is always null, "nobody looked": the
run's verdicts say whether the task is done. A run that ended as done has a last record `finish`.

While a run goes on, the file is named `partial_execution.json`, and is whole and valid after every step. A kill or a
crash leaves it so; a crash also leaves its traceback in `error.txt`. Readers ignore unknown fields. The run folder's
own `trace.jsonl` has more; this file is for repeating the actions.
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
from pytest_vnc_use.files import read_regular
from pytest_vnc_use.runs.folder import from_json, read_trace, to_json, write_atomically
from pytest_vnc_use.runs.json_lines import load_json
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

    `name` is the planner's name for it. `screenshot` is the picture after it, relative to the run folder.
    """

    number: int = 0
    name: str = ""
    action: Annotated[Action, Field(discriminator="kind")]
    intent: str = ""
    confirmation: Confirmation | None = None
    screenshot: str = ""

    @property
    def proposal(self) -> Proposal:
        """Return the action as a planner proposes it, with everything that a policy looks at."""
        return Proposal(self.action, self.intent, {"name": self.name, "args": {}}, self.confirmation)


@dataclass(frozen=True, kw_only=True)
class Execution:
    """The actions of a run. Its id and task are set if a run folder around it has them.

    `params` are the parameters that a user's own planner finished with.
    """

    run_id: str = ""
    task: str = ""
    params: JsonObject = field(default_factory=dict)
    steps: tuple[ExecutionStep, ...] = ()


# --- writing ---------------------------------------------------------------------------------------------------------


class ExecutionLog:
    """A RunObserver that writes the action trace into the run folder. The events it gets must be free of secrets.

    In a reopened folder it continues where the previous one stopped. Raises RunFolderError if it cannot write.
    """

    def __init__(self, run_folder: Path) -> None:
        self._final, self._partial, self._error = (run_folder / name for name in (FINAL, PARTIAL, ERROR))
        self._lines: dict[int, str] | None = None
        self._params: JsonObject = {}

    def observe(self, event: RunEvent) -> None:
        """Write the event's part of the trace, if it has one."""
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
        """Add a step. If a resumed run repeated a step, the last time counts."""
        if (lines := self._lines_so_far()) is not None:
            lines.pop(step.number, None)
            if not step.error:
                lines[step.number] = _join(map(_json, _records(step)))
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
        """Return the lines so far by step, also those of another process; None if the run never saw a screen."""
        if self._lines is None and self._partial.is_file():
            self._lines = {}
            for number, records in itertools.groupby(_records_in(self._partial), lambda record: record.get("number")):
                if number is not None:
                    self._lines[number] = _join(map(_json, records))
        return self._lines

    def _write_partial(self, *last: JsonObject) -> None:
        """Write one line an action. Each line is made only once, so that a long run does not get slower."""
        _write(self._partial, f"[\n{_join([*(self._lines or {}).values(), *map(_json, last)])}\n]\n")


def _join(lines: Iterable[str]) -> str:
    return ",\n".join(lines)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _record(name: str, params: JsonObject) -> dict[str, Any]:
    return {"action": name, "params": params, "task_marked_complete": None}


def _records(step: Step) -> list[dict[str, Any]]:
    """Return the records of the step's actions. A confirmation is in the first of them."""
    proposal = step.proposal
    record = {
        "number": step.number,
        "name": str(proposal.as_proposed.get("name", "")),
        "intent": proposal.intent,
        "screenshot": f"screens/{step.frame_after.digest}.png",
    }
    records = [_record(*words) | record for words in words_for(proposal.action)]
    if proposal.confirmation and records:
        records[0]["confirmation"] = to_json(proposal.confirmation)
    return records


def _write(target: Path, text: str) -> None:
    """Write all of the text or nothing. A character that UTF-8 cannot hold (half a surrogate pair) becomes "?"."""
    write_atomically(target, text.encode("utf-8", "replace"))


def _rename(source: Path, target: Path) -> None:
    try:
        source.replace(target)
    except OSError as exc:
        raise RunFolderUnwritable(f"cannot write {str(target)!r}: {exc}") from exc


# --- reading ---------------------------------------------------------------------------------------------------------


def read_execution(path: Path) -> Execution:
    """Return the action trace in a file or in a run folder, finished or not, made here or by the harness.

    Raises RunFolderError if there is none, or if a record is wrong; the error names the record.
    """
    file = _trace_file(path) if os.path.isdir(path) else path  # noqa: PTH112  # raises nothing
    if file is None:
        raise RunFolderError(f"{str(path)!r} has no action trace: it must hold {FINAL} or {PARTIAL}")
    try:
        return _parse(_records_in(file), file.parent)
    except RunFolderError as exc:
        raise RunFolderError(f"{str(file)!r} is no action trace: {exc}") from exc


def _trace_file(run_folder: Path) -> Path | None:
    """Return the trace file. If both files exist, the partial one is newer."""
    return next((file for name in (PARTIAL, FINAL) if (file := run_folder / name).is_file()), None)


def _records_in(file: Path) -> list[dict[str, Any]]:
    try:
        records = load_json(read_regular(file))
    except (OSError, ValueError, RecursionError) as exc:
        raise RunFolderError(f"it must be JSON: {exc}") from exc
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise RunFolderError(f"it must be a list of actions with their params, got {records!r:.100}")
    return records


def _parse(records: list[dict[str, Any]], folder: Path) -> Execution:
    steps = tuple(
        from_json(ExecutionStep, {"number": number, "name": record["action"], **record, "action": to_json(action)})
        for number, (record, action) in enumerate(actions_of(records), start=1)
    )
    execution = Execution(params=finished_with(records), steps=steps)
    with suppress(RunFolderError):  # it is not in one of our run folders
        started = read_trace(folder).started
        return replace(execution, run_id=started.run_id, task=started.task)
    return execution


# --- secrets ---------------------------------------------------------------------------------------------------------


def secrets_of(execution: Execution, known: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the values for the placeholders `<secret:NAME>` in typed text, from the `known` values by name.

    Raises SettingsError if one is unknown or empty.
    """
    texts = [(step.number, json.dumps(to_json(step.action))) for step in execution.steps]
    found = {name: number for number, text in texts for name in SECRET_MARK.findall(text)}
    for name, number in found.items():
        if not known.get(name):
            raise SettingsError(
                f"step {number} of the action trace needs the secret {name!r}: set the environment variable of that "
                f"name, and name it: --secret {name} (secrets= in Python)"
            )
    return {name: known[name] for name in found}
