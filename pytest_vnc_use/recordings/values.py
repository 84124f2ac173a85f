"""Values in a recording: an action whose whole text is a value has its name, and is
performed with the value of the run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.plain_text import line
from pytest_vnc_use.recordings.format import RecordedStep, Recording, Segment
from pytest_vnc_use.runs.redactor import SHORT
from pytest_vnc_use.runs.transcript import format_caption
from pytest_vnc_use.types import Action, CallFunction, OpenUrl, TypeText
from pytest_vnc_use.types.values import VALUE_MARK, fill, value_mark, value_names

Values = Mapping[str, str]
_NOTHING_WRITTEN = "so nothing is written"


def other_values(recorded: Values, values: Values) -> dict[str, str]:
    """Return the values that differ from the recorded ones: for each name, both as
    text.
    """
    others = {}
    for name, was in recorded.items():
        now = values.get(name, was)
        if now != was:
            others[name] = f"{now!r}, recorded as {was!r}"
    return others


def values_typed(values: Values, steps: Iterable[RecordedStep]) -> Values:
    """Return those of the values that these steps have typed, which a screen after them
    may show; all where they typed none of them.
    """
    typed: set[str] = set()
    for step in steps:
        typed.update(value_names(*_texts(step.action)))
    shown = {name: text for name, text in values.items() if name in typed}
    return shown or values


def filled(action: Action, values: Values) -> Action:
    """Return a recorded action as a run with these values performs it."""
    return _changed(action, lambda text: fill(text, values)) if values else action


def named(action: Action, values: Values) -> Action:
    """Return an action with the name of a value where that is its whole text."""
    names = {value: value_mark(name) for name, value in values.items()}
    return _changed(action, lambda text: names.get(text, text))


def with_names(
    steps: Sequence[RecordedStep], values: Values, others: Sequence[RecordedStep] = ()
) -> tuple[RecordedStep, ...]:
    """Return new steps of a task with these values as they are recorded: with the name
    of a value where it was the whole text. Its `others` are recorded already.

    Raises SettingsError where a replay would type an earlier value: one that no step
    types, or that a new one types with other text.
    """
    if not values:
        return tuple(steps)
    names = _names_of(values)
    named = []
    for step in _with_whole_values(steps, names):
        action = _changed(step.action, lambda text: names.get(text, text))
        named.append(step.model_copy(update={"action": action}))
    for number, step in enumerate(named, 1):
        _check_alone(number, step, values)
    typed: set[str] = set()
    for step in (*others, *named):
        typed.update(value_names(*_texts(step.action)))
    for name in values:
        if name not in typed:
            raise SettingsError(
                f"the value {name!r}, {values[name]!r}, was not typed as the whole text"
                f" of an action, {_NOTHING_WRITTEN}: a replay could not type another"
                " one. Have it typed alone and in one go, or write it into the task in"
                f" place of {value_mark(name)}"
            )
    return tuple(named)


def check_vouched(
    segment: Segment,
    expect: Sequence[str],
    *,
    body_checks: bool,
    has_body: bool = True,
) -> None:
    """Raise SettingsError where the end of a task shows a value that neither a judge
    nor a user looks at: no gate compares it.
    """
    if body_checks and has_body:
        return
    named = value_names(*expect)
    for shown in segment.end.values:
        if shown.name in named and not body_checks:
            continue
        mark = value_mark(shown.name)
        problem = (
            f"the end of the task {segment.task!r} shows the value {shown.name!r}, which"
            f" no replay compares. Claim it, such as expect='the screen shows {mark}',"
            " which a judge or you answer"
        )
        if has_body:
            problem += (
                "; or set expect=None and check it in the test's body, such as: assert"
                f" {shown.name} in vnc_desktop.read_file(…)"
            )
        raise SettingsError(problem)


def places_unknown(recording: Recording) -> list[str]:
    """Return the names of the values of which no user has stated where they show."""
    names: dict[str, None] = {}
    said: set[str] = set()
    for segment in recording.segments:
        names |= dict.fromkeys(segment.values)
        for screen in segment.screens:
            said.update(shown.name for shown in screen.values)
    return [name for name in names if name not in said]


def _names_of(values: Values) -> dict[str, str]:
    """Return the placeholder for each value. Raises SettingsError for two values that
    are the same: a recording could not tell which one was typed.
    """
    names: dict[str, str] = {}
    for name, value in values.items():
        if value in names:
            raise SettingsError(
                f"the values {names[value]} and {value_mark(name)} are both {value!r},"
                f" {_NOTHING_WRITTEN}: record the test with values that differ"
            )
        names[value] = value_mark(name)
    return names


def _with_whole_values(
    steps: Iterable[RecordedStep], names: Mapping[str, str]
) -> list[RecordedStep]:
    """Return the steps; texts in a row that are a value only together become one
    text.
    """
    whole: list[RecordedStep] = []
    for is_text, group in groupby(
        steps, lambda step: isinstance(step.action, TypeText)
    ):
        run = [*group]
        if is_text and len(run) > 1 and "".join(map(_plain_text, run)) in names:
            whole_text = TypeText("".join(map(_plain_text, run)))
            run = [run[0].model_copy(update={"action": whole_text})]
        whole += run
    return whole


def _plain_text(step: RecordedStep) -> str:
    """Return the text of a step that does nothing but type it; else one that is part of
    no value.
    """
    action = step.action
    is_plain = isinstance(action, TypeText) and action == TypeText(action.text)
    return action.text if isinstance(action, TypeText) and is_plain else "\0"


def _check_alone(number: int, step: RecordedStep, values: Values) -> None:
    """Raise SettingsError for a step whose text has a value in it, and more."""
    texts = _texts(step.action)
    for text in texts:
        if VALUE_MARK.fullmatch(text):
            continue
        for name, value in values.items():
            if _holds(text, value):
                caption = line(format_caption(step.action))
                raise SettingsError(
                    f"step {number}, {caption}, has the value {name!r}, {value!r}, with"
                    f" other text, {_NOTHING_WRITTEN}: a replay could not type another"
                    " value. Have it typed alone, or record the test with a value that"
                    " nothing else has in it"
                )


def _holds(text: str, value: str) -> bool:
    """Return whether a text has a value in it, a short one as a whole word."""
    if len(value) >= SHORT:
        return value in text
    return re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text) is not None


def _texts(action: Action) -> list[str]:
    """Return the texts that an action types or passes on."""
    texts: list[str] = []

    def note(text: str) -> str:
        texts.append(text)
        return text

    _changed(action, note)
    return texts


def _changed(action: Action, change: Callable[[str], str]) -> Action:
    """Return an action with each of its texts changed."""
    match action:
        case TypeText(text=text):
            return replace(action, text=change(text))
        case OpenUrl(url=url):
            return replace(action, url=change(url))
        case CallFunction(arguments=arguments):
            return replace(action, arguments=_changed_in(arguments, change))
        case _:
            return action


def _changed_in(value: Any, change: Callable[[str], str]) -> Any:
    """Return the arguments of a function with each text changed."""
    match value:
        case str():
            return change(value)
        case list() | tuple():
            return [_changed_in(item, change) for item in value]
        case Mapping():
            return {key: _changed_in(item, change) for key, item in value.items()}
        case _:
            return value
