"""A run as text: the caption of a step, lines for a terminal or a log, and the replayed
steps in a planner's task.

A caption is `click "Sign in" (button)`, or `click at (720, 372)` if its element is
unknown. No part of it is escaped. The names of elements come from pages and programs:
they are on one line, and cut. Lines are safe for a terminal.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from typing_extensions import assert_never

from pytest_vnc_use.errors import RunDirectoryError, SettingsError
from pytest_vnc_use.plain_text import cut, line, plain
from pytest_vnc_use.runs.trace import Trace, read_trace
from pytest_vnc_use.types import (
    Action,
    CallFunction,
    Click,
    Drag,
    InvalidAction,
    KeyCombo,
    KeyDown,
    KeyUp,
    MouseDown,
    MouseUp,
    Move,
    Observation,
    OpenUrl,
    Outcome,
    RunResult,
    Scroll,
    Step,
    TakeScreenshot,
    TraverseHistory,
    TypeText,
    Wait,
)
from pytest_vnc_use.types.elements import Element, Elements

MAX_NAME_LENGTH = 200
LAST_STEPS = 5
_COUNTS = {1: "click", 2: "double-click", 3: "triple-click"}


@dataclass(frozen=True)
class CaptionPart:
    """A part of a caption: `text` of this package, the `name` of an element, or an
    untrusted `quote`.
    """

    text: str
    kind: Literal["text", "name", "quote"] = "text"

    @property
    def is_name(self) -> bool:
        """Return whether it is the name of an element."""
        return self.kind == "name"


Caption = tuple[CaptionPart, ...]


def caption(action: Action, elements: Elements = ()) -> Caption:
    """Return the caption of an action on these elements."""
    return tuple(part for part in _parts(action, elements) if part.text)


def format_caption(action: Action, elements: Elements = ()) -> str:
    """Format an action as `double-click at (10, 20)`, `type "apples", then press
    Enter`; text is a JSON string.
    """
    text = ""
    for part in caption(action, elements):
        text += _quote(part.text) if part.is_name else part.text
    return text


def is_named(step: Step) -> bool:
    """Return whether the caption of a step names an element; else the report shows a
    crop of the screen.
    """
    return any(part.is_name for part in caption(step.proposal.action, step.elements))


def _parts(action: Action, elements: Elements) -> Iterator[CaptionPart]:
    first = elements[0] if elements else None
    second = elements[1] if len(elements) > 1 else None
    match action:
        case Click(x=x, y=y, button=button, count=count):
            verb = _COUNTS.get(count, f"click {count} times")
            yield CaptionPart(verb if button == "left" else f"{button} {verb}")
            yield from _target(first, (x, y), "", "at")
        case MouseDown(x=x, y=y, button=button):
            yield CaptionPart(f"press the {button} button")
            yield from _target(first, (x, y), "on", "at")
        case MouseUp(x=x, y=y, button=button):
            yield CaptionPart(f"release the {button} button")
            yield from _target(first, (x, y), "on", "at")
        case Move(x=x, y=y):
            yield CaptionPart("move")
            yield from _target(first, (x, y), "to", "to")
        case Scroll(x=x, y=y):
            yield CaptionPart(f"scroll {action.direction} by {action.clicks}")
            yield from _target(first, (x, y), "in", "at")
            yield CaptionPart("" if action.by == "wheel" else ", by keys")
        case Drag():
            yield CaptionPart("drag")
            yield from _target(first, (action.x, action.y), "", "from")
            yield from _target(second, (action.to_x, action.to_y), "to", "to")
        case TypeText(x=x, y=y):
            at = None if x is None or y is None else (x, y)
            yield from _quoted("type ", _quote(action.text))
            yield CaptionPart(" over what was there" if action.clear_first else "")
            yield from _target(first, at, "in", "at")
            yield CaptionPart(", then press Enter" if action.press_enter else "")
        case KeyCombo(keys=keys):
            yield from _quoted("press ", "+".join(keys))
        case KeyDown(key=key):
            yield from _quoted("hold down ", key)
        case KeyUp(key=key):
            yield from _quoted("release ", key)
        case OpenUrl(url=url):
            yield from _quoted("open the URL ", _quote(url))
        case TraverseHistory(direction=direction):
            yield CaptionPart(f"go {direction} in the browser's history")
        case Wait(duration_s=duration_s):
            yield CaptionPart(f"wait {duration_s:g} s")
        case TakeScreenshot():
            yield CaptionPart("look again")
        case CallFunction(name=name, arguments=arguments):
            fields = ", ".join(
                f"{key}={_quote(value)}" for key, value in arguments.items()
            )
            yield from _quoted("call ", f"{name}({fields})")
        case InvalidAction(name=name, problem=problem):
            yield CaptionPart(name, "quote")
            yield from _quoted(", which cannot be done: ", problem)
        case _:
            assert_never(action)


def _quoted(prefix: str, quote: str) -> tuple[CaptionPart, CaptionPart]:
    return CaptionPart(prefix), CaptionPart(quote, "quote")


def _target(
    element: Element | None,
    at: tuple[int, int] | None,
    preposition: str,
    point_preposition: str,
) -> Iterator[CaptionPart]:
    """Yield an element by its name and role, by its role and point if it has no name,
    or else the point.
    """
    if element is None:
        if at:
            yield CaptionPart(f" {point_preposition} ({at[0]}, {at[1]})")
        return
    name = _on_one_line(element.name)
    role = _on_one_line(element.role) or "element"
    before = f" {preposition} " if preposition else " "
    if name:
        yield CaptionPart(before)
        yield CaptionPart(name, "name")
        yield from _quoted(" (", role)
        yield CaptionPart(")")
    else:
        yield from _quoted(f"{before}the ", role)
        yield CaptionPart(f" at ({at[0]}, {at[1]})" if at else "")


def _on_one_line(text: str) -> str:
    return " ".join(plain(cut(text, MAX_NAME_LENGTH)).split())


def _quote(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def format_action(action: Action) -> str:
    """Return an action as text: `click(x=10, y=20)`."""
    fields = [
        f"{name}={value!r}"
        for name, value in vars(action).items()
        if name != "kind" and value is not None and value is not False
    ]
    return f"{action.kind}({line(', '.join(fields))})"


def action_line(action: Action, elements: Elements) -> str:
    """Return an action by the names of its elements, or, where there are none, as
    `format_action` does.
    """
    if any(part.is_name for part in caption(action, elements)):
        return line(format_caption(action, elements))
    return format_action(action)


def step_line(step: Step) -> str:
    """Return a step as text: `3 click "Basket" (button): open the basket`, and the
    error, if there is one.
    """
    text = f"{step.number} {action_line(step.proposal.action, step.elements)}"
    reason = line(step.proposal.intent or step.text)
    if reason:
        text += f": {reason}"
    if count := step.repeated_requests:
        times = "once" if count == 1 else f"{count} times"
        text += f"\n  asked again {times}: the screen changed while the model thought"
    if step.error:
        text += f"\n  failed: {line(step.error)}"
    return text


def transcript(steps: Sequence[Step]) -> str:
    """Return the steps, one line each."""
    return "\n".join(map(step_line, steps))


_ADVICE = {
    Outcome.DENIED: (
        "if it may happen in a test, a rule of the policy file (--vnc-policy) allows it"
    ),
    Outcome.STEP_LIMIT: (
        "if it needs more, max_steps= in the marker, or --vnc-max-steps, allows them"
    ),
    Outcome.TIME_LIMIT: (
        "if it needs longer, max_seconds= in the marker, or --vnc-max-seconds,"
        " allows it"
    ),
}


def format_run_failure(headline: str, result: RunResult) -> str:
    """Return a failure in a few lines: the headline, the task, the last steps with
    their reasons, the run directory.
    """
    lines = [headline, f"task: {line(result.task)}"]
    steps = transcript(result.steps[-LAST_STEPS:]).splitlines()
    if steps:
        lines.append(f"last steps of {len(result.steps)}:")
        lines += [f"  {text}" for text in steps]
    else:
        lines.append("no step was made")
    lines.append(f"run directory: {result.run_dir}")
    return "\n  ".join(lines)


def format_end(result: RunResult) -> str:
    """Return the failure of a run that did not end as done, with advice if a setting
    may help.
    """
    text = format_run_failure(
        f"the task ended as {result.outcome}: {line(result.message)}", result
    )
    return f"{text}\n  {_ADVICE[result.outcome]}" if result.outcome in _ADVICE else text


@dataclass(frozen=True)
class RunEntry:
    """One run in a list. `test` is the id of the pytest test that made it, if one
    did.
    """

    run_id: str
    outcome: str
    task: str
    test: str


@dataclass(frozen=True)
class RunSummary(RunEntry):
    """The content of a run directory as text: one line for each verdict, one line for
    each step.
    """

    message: str
    verdicts: tuple[str, ...]
    steps: tuple[str, ...]


def line_of(path: Path) -> RunEntry:
    """Return the list entry of the run in the directory `path`. If it cannot be read,
    its outcome has the reason.
    """
    try:
        trace = read_trace(path)
    except RunDirectoryError as exc:
        return RunEntry(path.name, f"unreadable: {plain(str(exc))}", "", "")
    return RunEntry(
        path.name,
        outcome_of(trace),
        plain(trace.started.task),
        plain(trace.started.test_id),
    )


def only_waiting(paths: Iterable[Path]) -> str:
    """Return the id of the only run in these directories that waits for approval.

    Raises SettingsError, which lists them if there are several.
    """
    waiting = [
        path.name for path in paths if line_of(path).outcome == str(Outcome.WAITING)
    ]
    if len(waiting) == 1:
        return waiting[0]
    runs = "no run waits for approval"
    if waiting:
        runs = f"{len(waiting)} runs wait for approval: {', '.join(waiting)}"
    raise SettingsError(f"{runs}. Name the run")


def summary_of(trace: Trace) -> RunSummary:
    """Return the run as it is now, finished or not."""
    ended = [trace.ended.message, trace.ended.error] if trace.ended else []
    return RunSummary(
        run_id=trace.path.name,
        outcome=outcome_of(trace),
        task=plain(trace.started.task),
        test=plain(trace.started.test_id),
        message=plain(": ".join(filter(None, ended))),
        verdicts=tuple(plain(str(verdict)) for verdict in trace.verdicts),
        steps=tuple(map(step_line, trace.steps)),
    )


def outcome_of(trace: Trace) -> str:
    """Return an `Outcome`, or `error`, or `unfinished` if the run is still running or
    was killed.
    """
    if trace.ended is None:
        return str(Outcome.WAITING) if trace.open_approval else "unfinished"
    if trace.ended.error or not trace.ended.outcome:
        return "error"
    return str(trace.ended.outcome)


# The planner that continues where a recording drifts. The mark of a replayed turn is in
# the run directory too, so a run that is resumed shows its planner the same.

REPLAYED = "pytest_vnc_use.replayed"
"""Provider details of a turn that was read from a recording. No planner uses this key.
"""
ONLY_REPLAYED = "recording"
"""The name of a replay without a live planner."""
_UNTIL_IT_DRIFTS = "recording, and after a drift "


def replaying_name(live: str) -> str:
    """Return the name of a replay with a live planner of this name."""
    return f"{_UNTIL_IT_DRIFTS}{live}"


def live_name(name: str) -> str:
    """Return the name of the live planner of a replay; any other planner keeps its
    name.
    """
    return name.removeprefix(_UNTIL_IT_DRIFTS)


def seen_by_live(observation: Observation) -> Observation:
    """Return the live planner's observation: its turns, and the replayed steps as text
    in the task.

    The text has no names of elements, because those of a recording are only for
    readers.
    """
    replayed: list[Step] = []
    live_turns = observation.turns
    while live_turns and REPLAYED in live_turns[0].decision.provider_details:
        replayed += live_turns[0].steps
        live_turns = live_turns[1:]
    if live_turns == observation.turns:
        return observation
    task = observation.task
    if replayed:
        steps = transcript([replace(step, elements=()) for step in replayed])
        task += (
            "\n\nThese steps of it have been performed already; continue from what the"
            f" screen shows:\n{steps}"
        )
    first = observation.frame
    if live_turns and live_turns[0].steps:
        first = live_turns[0].steps[0].frame_before
    return replace(observation, task=task, first_frame=first, turns=live_turns)
