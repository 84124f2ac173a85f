"""The actions of a run in the format of UiPath's computer-use harness: `execution.json`
in the run directory.

It is a list of the actions, in order: `[{"action": …, "params": …}, …]`. Source:
github.com/UiPath/uipath_enterprise_benchmark, DeterministicBenchmark/eval/uitask,
`record_action` and `reenact` in computer_use/act.py and the types in tools/pointer.py.
The harness has no names for the middle button, keys held down, URLs and functions:
these are written as the action's `kind` and fields, and the harness skips them.

Each record also has the step's number, the planner's name for the action, its intent,
and the screenshot after it. An action that was denied or failed has its `error`, and is
not performed again. `task_marked_complete` is always null, "not checked": the run's
verdicts state whether the task is done. A run that ended as done has a last record
`finish`.

During a run, the file is named `partial_execution.json`, and is whole and valid after
every step. A kill or a crash leaves it so; a crash also leaves its traceback in
`error.txt`. Readers ignore unknown fields. The run directory's `trace.jsonl` has more;
this file is for repeating the actions.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from pytest_vnc_use.errors import (
    RunDirectoryError,
    RunDirectoryUnwritable,
    SettingsError,
)
from pytest_vnc_use.files import read_regular, reason_of
from pytest_vnc_use.runs.directory import write_atomically
from pytest_vnc_use.runs.json_lines import from_json, load_json, to_json
from pytest_vnc_use.runs.trace import read_trace
from pytest_vnc_use.types import (
    CLICKS,
    SECRET_MARK,
    Action,
    Click,
    Confirmation,
    Drag,
    JsonObject,
    KeyCombo,
    MouseDown,
    MouseUp,
    Move,
    Outcome,
    Proposal,
    RunEnded,
    RunEvent,
    RunStarted,
    Scroll,
    Step,
    StepFinished,
    TraverseHistory,
    TurnDecided,
    TypeText,
    Wait,
)
from pytest_vnc_use.types.actions import Point, points
from pytest_vnc_use.types.values import fill

FINAL = "execution.json"
PARTIAL = "partial_execution.json"
ERROR = "error.txt"
FINISH = "finish"
Record = tuple[str, dict[str, Any]]
"""The name of an action, and its params."""
_ACTION = Annotated[Action, Field(discriminator="kind")]


@dataclass(frozen=True, kw_only=True)
class ExecutionStep:
    """One action that was performed, within step `number`.

    `name` is the planner's name for it. `screenshot` is the one after it, relative to
    the run directory.
    """

    number: int = 0
    name: str = ""
    action: Annotated[Action, Field(discriminator="kind")]
    intent: str = ""
    confirmation: Confirmation | None = None
    screenshot: str = ""

    @property
    def proposal(self) -> Proposal:
        """Return the action as a planner proposes it, with everything that a policy
        looks at.
        """
        return Proposal(
            self.action, self.intent, {"name": self.name, "args": {}}, self.confirmation
        )


@dataclass(frozen=True, kw_only=True)
class Execution:
    """The actions of a run. Its id and task are set if a run directory around it has
    them.

    `params` are the parameters that a custom planner finished with.
    """

    run_id: str = ""
    task: str = ""
    params: JsonObject = field(default_factory=dict)
    steps: tuple[ExecutionStep, ...] = ()


def records_for(action: Action) -> list[Record]:
    """Return the action as records of the harness: several if no single one
    covers it.
    """
    match action:
        case Click(x, y, "left" | "right" as button, 1 | 2 | 3 as count):
            names = {clicks: name for name, clicks in CLICKS.items()}
            click = {
                "button": button,
                "click_type": names[count],
                "position": _xy(x, y),
            }
            return [("mouse_click", {"action": click})]
        case Move(x, y):
            return [("mouse_move", {"position": _xy(x, y)})]
        case Drag(x, y, to_x, to_y):
            drag = {"button": "left", "start": _xy(x, y), "end": _xy(to_x, to_y)}
            return [("mouse_drag", {"action": drag})]
        case Scroll(x, y, direction, clicks, by="wheel"):
            scroll = {
                "position": _xy(x, y),
                "direction": direction,
                "repeat": clicks,
            }
            return [("mouse_scroll", {"action": scroll})]
        case KeyCombo(keys):
            return [("press_keys", {"keys": list(keys)})]
        case TypeText(text, x, y):
            records: list[Record] = []
            if x is not None and y is not None:
                records += records_for(Click(x, y))
            if action.clear_first:
                records += records_for(KeyCombo(("ctrl", "a")))
            if text:
                records.append(("type_text", {"text": text}))
            elif action.clear_first:
                records += records_for(KeyCombo(("backspace",)))
            if action.press_enter:
                records += records_for(KeyCombo(("enter",)))
            return records
        case TraverseHistory(direction):
            return [("page_navigation", {"direction": direction})]
        case Wait(duration_s):
            return [("wait", {"duration": duration_s})]
        case _:
            fields = to_json(action)
            return [(fields.pop("kind"), fields)]


def _xy(x: int, y: int) -> dict[str, int]:
    return {"x": x, "y": y}


class ExecutionLog:
    """A RunObserver that writes the action trace into the run directory. Its events
    must be free of secrets.

    In a reopened directory it continues where the previous one stopped. Raises
    RunDirectoryError if it cannot write.
    """

    def __init__(self, run_dir: Path) -> None:
        self._final = run_dir / FINAL
        self._partial = run_dir / PARTIAL
        self._error = run_dir / ERROR
        self._lines: dict[int, str] | None = None
        self._params: JsonObject = {}

    def observe(self, event: RunEvent) -> None:
        """Write the event's records into the trace. If a resumed run repeated a step,
        the last time counts.
        """
        match event:
            case RunStarted():
                self._lines = {}
                self._write_partial()
            case TurnDecided(decision=decision):
                self._params = decision.params
            case StepFinished(step=step):
                if (lines := self._lines_so_far()) is not None:
                    lines[step.number] = _lines_of(_records(step))
                    self._write_partial()
            case RunEnded():
                self._end(event)

    def _end(self, event: RunEnded) -> None:
        if error := event.traceback or event.error:
            write_atomically(
                self._error, f"{error.rstrip()}\n".encode("utf-8", "replace")
            )
        else:
            self._error.unlink(missing_ok=True)
        if not event.outcome or self._lines_so_far() is None:
            return
        if event.outcome is Outcome.DONE:
            finish = _record(FINISH, {"params": self._params})
            self._write_partial({**finish, "message": event.message})
        try:
            self._partial.replace(self._final)
        except OSError as exc:
            raise RunDirectoryUnwritable(
                f"cannot write {str(self._final)!r}: {reason_of(exc)}"
            ) from exc

    def _lines_so_far(self) -> dict[int, str] | None:
        """Return the lines so far by step, also those of another process; None if the
        run never saw a screen.
        """
        if self._lines is None and self._partial.is_file():
            by_step = itertools.groupby(
                _records_in(self._partial), lambda record: record.get("number")
            )
            self._lines = {
                number: _lines_of(records)
                for number, records in by_step
                if number is not None
            }
        return self._lines

    def _write_partial(self, *last: JsonObject) -> None:
        """Write one line an action. Each line is made only once, so that a long run
        does not get slower.
        """
        lines = list((self._lines or {}).values())
        if last:
            lines.append(_lines_of(last))
        text = ",\n".join(lines)
        write_atomically(self._partial, f"[\n{text}\n]\n".encode("utf-8", "replace"))


def _lines_of(records: Iterable[JsonObject]) -> str:
    return ",\n".join(
        json.dumps(record, ensure_ascii=False, separators=(",", ":"))
        for record in records
    )


def _record(name: str, params: JsonObject) -> dict[str, Any]:
    return {"action": name, "params": params, "task_marked_complete": None}


def _records(step: Step) -> list[dict[str, Any]]:
    """Return the records of the step's actions. A confirmation is in the first of
    them.
    """
    proposal = step.proposal
    record: dict[str, Any] = {
        "number": step.number,
        "name": str(proposal.as_proposed.get("name", "")),
        "intent": proposal.intent,
        "screenshot": f"screens/{step.frame_after.digest}.png",
    }
    if step.error:
        record["error"] = step.error
    records = [
        _record(name, params) | record for name, params in records_for(proposal.action)
    ]
    if proposal.confirmation and records:
        records[0]["confirmation"] = to_json(proposal.confirmation)
    return records


def read_execution(path: Path) -> Execution:
    """Return the action trace in a file or in a run directory, finished or not, made by
    this package or by the harness.

    Raises RunDirectoryError if there is none, or if a record is wrong; the error names
    the record.
    """
    file = _trace_at(path)
    params: JsonObject = {}
    steps: list[ExecutionStep] = []
    try:
        records = _records_in(file)
        for number, (record, action) in enumerate(actions_of(records), start=1):
            defaults = {"number": number, "name": record["action"]}
            fields = {**defaults, **record, "action": to_json(action)}
            steps.append(from_json(ExecutionStep, fields))
    except RunDirectoryError as exc:
        raise RunDirectoryError(f"{str(file)!r} is no action trace: {exc}") from exc
    for record in records:
        if record["action"] == FINISH:
            params = record["params"].get("params") or {}
    execution = Execution(params=params, steps=tuple(steps))
    with suppress(RunDirectoryError):  # it is not in a run directory
        started = read_trace(file.parent).started
        return replace(
            execution, run_id=started.run_id, task=fill(started.task, started.values)
        )
    return execution


def _trace_at(path: Path) -> Path:
    """Return the file of an action trace: `path`, or the newest one in a run directory.
    Raises RunDirectoryError.
    """
    if not os.path.lexists(path):  # raises nothing
        raise RunDirectoryError(
            f"{str(path)!r} does not exist. Name a run directory, or an action trace"
        )
    if not os.path.isdir(path):  # noqa: PTH112  # raises nothing
        return path
    # if both files exist, the partial one is newer
    for name in (PARTIAL, FINAL):
        if (path / name).is_file():
            return path / name
    raise RunDirectoryError(
        f"{str(path)!r} has no action trace: it must hold {FINAL} or {PARTIAL}"
    )


def _records_in(file: Path) -> list[dict[str, Any]]:
    try:
        records = load_json(read_regular(file))
    except (OSError, ValueError, RecursionError) as exc:
        raise RunDirectoryError(f"it must be JSON: {exc}") from exc
    if not isinstance(records, list) or not all(
        isinstance(record, dict) for record in records
    ):
        raise RunDirectoryError(
            f"it must be a list of actions with their params, got {records!r:.100}"
        )
    return records


def actions_of(records: Sequence[Any]) -> Iterator[tuple[Mapping[str, Any], Action]]:
    """Yield each action that was performed, in order, with its record. Raises
    RunDirectoryError that names the record.
    """
    pointer: Point | None = None
    for number, record in enumerate(records, start=1):
        try:
            if record.get("error"):
                continue
            actions = _read(record["action"], record["params"], pointer)
        except (LookupError, TypeError, ValueError, RunDirectoryError) as exc:
            reason = f"{type(exc).__name__}: {exc}"
            raise RunDirectoryError(
                f"record {number} must be an action with `params`, got {record!r:.200}"
                f" ({reason})"
            ) from exc
        for action in actions:
            pointer = (points(action) or (pointer,))[-1]
            yield record, action


def _read(name: str, params: Any, pointer: Point | None) -> tuple[Action, ...]:
    match name:
        case "mouse_move":
            return (Move(*_point(params["position"])),)
        case "mouse_click":
            click = params["action"]
            at = _point(click["position"]) if click.get("position") else pointer
            if at is None:
                raise ValueError(
                    "the pointer's position is unknown: no earlier action has one"
                )
            count = CLICKS[click.get("click_type", "single")]
            return (Click(*at, _button(click), count),)
        case "mouse_drag":
            drag = params["action"]
            start = _point(drag["start"])
            end = _point(drag["end"])
            button = _button(drag)
            if button == "left":
                return (Drag(*start, *end),)
            return MouseDown(*start, button), Move(*end), MouseUp(*end, button)
        case "mouse_scroll":
            scroll = params["action"]
            at = _point(scroll["position"])
            direction = _one_of(scroll["direction"], "up", "down", "left", "right")
            return (Scroll(*at, direction, int(scroll.get("repeat", 1))),)
        case "press_keys":
            combos = params["keys"]
            if isinstance(combos, str):
                combos = [combos]
            keys: list[str] = []
            for combo in combos:
                # a combo of white space alone is a key, such as the space bar
                keys += combo.split() or [combo]
            keys = [key for key in keys if key.lower() not in ("", "none")]
            return (KeyCombo(tuple(keys)),) if keys else ()
        case "type_text":
            return (TypeText(str(params["text"])),)
        case "page_navigation":
            return (TraverseHistory(_one_of(params["direction"], "back", "forward")),)
        case "wait":
            name_of_s = "seconds" if "seconds" in params else "duration"
            return (Wait(float(params[name_of_s])),)
        case "finish":
            return ()
        case _:
            return (from_json(_ACTION, {**params, "kind": name}),)


def _one_of(value: Any, *choices: str) -> Any:
    return choices[choices.index(value)]


def _button(params: Any) -> Any:
    return _one_of(params["button"], "left", "middle", "right")


def _point(position: Any) -> Point:
    return int(position["x"]), int(position["y"])


def secrets_of(
    execution: Execution, values: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Return the secrets whose placeholders `<secret:NAME>` the text of a trace has,
    from these `values` by name.

    Raises SettingsError if one is unknown or empty.
    """
    steps_by_name: dict[str, int] = {}
    for step in execution.steps:
        for name in SECRET_MARK.findall(json.dumps(to_json(step.action))):
            steps_by_name[name] = step.number
    for name, number in steps_by_name.items():
        if not values.get(name):
            raise SettingsError(
                f"step {number} of the action trace needs the secret {name!r}. Set the"
                f" environment variable of that name, and name it: --secret {name}"
                " (secrets= in Python)"
            )
    return {name: values[name] for name in steps_by_name}
