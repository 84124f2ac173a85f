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
from pytest_vnc_use.files import read_regular
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

FINAL, PARTIAL, ERROR = "execution.json", "partial_execution.json", "error.txt"
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
            click_type = next(
                name for name, clicks in CLICKS.items() if clicks == count
            )
            return [
                _mouse(
                    "mouse_click", button=button, click_type=click_type, position=(x, y)
                )
            ]
        case Move(x, y):
            return [("mouse_move", {"position": {"x": x, "y": y}})]
        case Drag(x, y, to_x, to_y):
            return [_mouse("mouse_drag", button="left", start=(x, y), end=(to_x, to_y))]
        case Scroll(x, y, direction, clicks, by="wheel"):
            return [
                _mouse(
                    "mouse_scroll", position=(x, y), direction=direction, repeat=clicks
                )
            ]
        case KeyCombo(keys):
            return [("press_keys", {"keys": list(keys)})]
        case TypeText(text, x, y):
            at = [] if x is None or y is None else records_for(Click(x, y))
            cleared = records_for(KeyCombo(("ctrl", "a"))) if action.clear_first else []
            removed = (
                records_for(KeyCombo(("backspace",)))
                if action.clear_first and not text
                else []
            )
            typed: list[Record] = [("type_text", {"text": text})] if text else removed
            return [
                *at,
                *cleared,
                *typed,
                *(records_for(KeyCombo(("enter",))) if action.press_enter else []),
            ]
        case TraverseHistory(direction):
            return [("page_navigation", {"direction": direction})]
        case Wait(duration_s):
            return [("wait", {"duration": duration_s})]
        case _:
            fields = to_json(action)
            return [(fields.pop("kind"), fields)]


def _mouse(name: str, **values: Any) -> Record:
    points = {
        key: {"x": value[0], "y": value[1]}
        for key, value in values.items()
        if isinstance(value, tuple)
    }
    return name, {"action": {**values, **points}}


class ExecutionLog:
    """A RunObserver that writes the action trace into the run directory. Its events
    must be free of secrets.

    In a reopened directory it continues where the previous one stopped. Raises
    RunDirectoryError if it cannot write.
    """

    def __init__(self, run_dir: Path) -> None:
        self._final, self._partial, self._error = (
            run_dir / name for name in (FINAL, PARTIAL, ERROR)
        )
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
            finish = _record(FINISH, {"params": self._params}) | {
                "message": event.message
            }
            self._write_partial(finish)
        try:
            self._partial.replace(self._final)
        except OSError as exc:
            raise RunDirectoryUnwritable(
                f"cannot write {str(self._final)!r}: {exc}"
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
        lines = ",\n".join(
            [*(self._lines or {}).values(), *map(_lines_of, [last] if last else [])]
        )
        write_atomically(self._partial, f"[\n{lines}\n]\n".encode("utf-8", "replace"))


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
    record = {
        "number": step.number,
        "name": str(proposal.as_proposed.get("name", "")),
        "intent": proposal.intent,
        "screenshot": f"screens/{step.frame_after.digest}.png",
    }
    records = [
        _record(*name_and_params) | record
        for name_and_params in records_for(proposal.action)
    ]
    if step.error:
        records = [{**record, "error": step.error} for record in records]
    if proposal.confirmation and records:
        records[0]["confirmation"] = to_json(proposal.confirmation)
    return records


def read_execution(path: Path) -> Execution:
    """Return the action trace in a file or in a run directory, finished or not, made by
    this package or by the harness.

    Raises RunDirectoryError if there is none, or if a record is wrong; the error names
    the record.
    """
    file: Path | None = path
    if not os.path.lexists(path):  # raises nothing
        raise RunDirectoryError(
            f"{str(path)!r} does not exist. Name a run directory, or an action trace"
        )
    if os.path.isdir(path):  # noqa: PTH112  # raises nothing
        # if both files exist, the partial one is newer
        file = next(
            (inner for name in (PARTIAL, FINAL) if (inner := path / name).is_file()),
            None,
        )
    if file is None:
        raise RunDirectoryError(
            f"{str(path)!r} has no action trace: it must hold {FINAL} or {PARTIAL}"
        )
    try:
        records = _records_in(file)
        steps = tuple(
            from_json(
                ExecutionStep,
                {
                    "number": number,
                    "name": record["action"],
                    **record,
                    "action": to_json(action),
                },
            )
            for number, (record, action) in enumerate(actions_of(records), start=1)
        )
    except RunDirectoryError as exc:
        raise RunDirectoryError(f"{str(file)!r} is no action trace: {exc}") from exc
    finishes = (
        record["params"].get("params")
        for record in reversed(records)
        if record["action"] == FINISH
    )
    execution = Execution(params=next(finishes, {}) or {}, steps=steps)
    with suppress(RunDirectoryError):  # it is not in a run directory
        started = read_trace(file.parent).started
        return replace(
            execution, run_id=started.run_id, task=fill(started.task, started.values)
        )
    return execution


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
            return (
                Click(*at, _button(click), CLICKS[click.get("click_type", "single")]),
            )
        case "mouse_drag":
            drag = params["action"]
            start, end, button = (
                _point(drag["start"]),
                _point(drag["end"]),
                _button(drag),
            )
            if button == "left":
                return (Drag(*start, *end),)
            return MouseDown(*start, button), Move(*end), MouseUp(*end, button)
        case "mouse_scroll":
            scroll = params["action"]
            direction = _one_of(scroll["direction"], "up", "down", "left", "right")
            return (
                Scroll(
                    *_point(scroll["position"]), direction, int(scroll.get("repeat", 1))
                ),
            )
        case "press_keys":
            combos = (
                [params["keys"]] if isinstance(params["keys"], str) else params["keys"]
            )
            keys = [
                word
                for key in combos
                for word in key.split() or [key]
                if word.lower() not in ("", "none")
            ]
            return (KeyCombo(tuple(keys)),) if keys else ()
        case "type_text":
            return (TypeText(str(params["text"])),)
        case "page_navigation":
            return (TraverseHistory(_one_of(params["direction"], "back", "forward")),)
        case "wait":
            return (
                Wait(
                    float(
                        params["seconds"] if "seconds" in params else params["duration"]
                    )
                ),
            )
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
    """Return the values for the placeholders `<secret:NAME>` in typed text, from the
    `values` values by name.

    Raises SettingsError if one is unknown or empty.
    """
    texts = [
        (step.number, json.dumps(to_json(step.action))) for step in execution.steps
    ]
    steps_by_name = {
        name: number for number, text in texts for name in SECRET_MARK.findall(text)
    }
    for name, number in steps_by_name.items():
        if not values.get(name):
            raise SettingsError(
                f"step {number} of the action trace needs the secret {name!r}. Set the"
                f" environment variable of that name, and name it: --secret {name}"
                " (secrets= in Python)"
            )
    return {name: values[name] for name in steps_by_name}
