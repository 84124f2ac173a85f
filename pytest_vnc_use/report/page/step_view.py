"""The steps of a run, as its page shows them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from pytest_vnc_use.errors import RunFolderError
from pytest_vnc_use.report import phrases
from pytest_vnc_use.report.page.model import Badge, Bar, Exchange, StepView
from pytest_vnc_use.report.page.shots import Shots
from pytest_vnc_use.report.page.text import as_json, short
from pytest_vnc_use.runs.folder import Trace, read_exchanges
from pytest_vnc_use.types import (
    Drifted,
    ModelExchange,
    Step,
    StepFinished,
    TurnDecided,
    TypeText,
    Usage,
)
from pytest_vnc_use.types.actions import points

WENT_ON = "not healed"
"""The way of a step after a drift at which a model went on, of a test that did not pass."""
_MOST_JSON = 6_000
_LONGEST_S = 1e6
"""The longest credible time. A longer one is damage, and so are nan and inf."""
_PART = re.compile(r"[.;!?\n]+\s*|,\s+(?:then\s+)?|\s+and\s+(?:then\s+)?|\s+then\s+")


@dataclass
class _Before:
    """The events before a step: exchanges by number, the drift at which a model went on, the time of the step's end.

    `asked_s` is the time of the exchanges. `judged_s` is that of a judge's exchanges after the step.
    """

    exchanges: list[int] = field(default_factory=list)
    drift: Drifted | None = None
    dollars: float | None = None
    at_s: float | None = None
    asked_s: float = 0.0
    judged_s: float = 0.0


def step_views(trace: Trace, steps: Sequence[Step], shots: Shots, *, has_passed: bool = False) -> list[StepView]:
    """Return all steps; none is marked as the deciding one yet. `has_passed`: the test of the run passed."""
    before, bodies = _before_each(trace), _bodies(trace)
    guessed = _guessed_parts(trace.started.task, steps)
    first_of = {step.turn: step.number for step in reversed(steps)}
    spans = {step.number: _spans(trace, step, before.get(step.number, _Before())) for step in steps}
    longest = max((sum(seconds for _, seconds in each) for each in spans.values()), default=0.0)
    views = []
    for step in steps:
        known = before.get(step.number, _Before())
        words = step.proposal.intent or (step.words if first_of[step.turn] == step.number else "")
        way, why = _way(trace, step, known, has_passed=has_passed)
        view = StepView(
            number=step.number,
            title=short(phrases.action_in_words(step.proposal.action, step.elements), 600),
            caption=tuple(replace(part, text=short(part.text, 300)) for part in phrases.caption_of(step)),
            words=short(words or guessed.get(step.number, "")),
            words_are_guessed=not words and step.number in guessed,
            badges=list(_badges(step)),
            way=way,
            way_why=short(why),
            lines=[(kind, short(text)) for kind, text in _lines(step) if text],
            pair=shots.pair(("before", "after"), (step.frame_before, step.frame_after), action=step.proposal.action),
            thumb=shots.thumb(step.frame_before),
            bars=_bars(spans[step.number], longest),
            facts=[(name, short(text, 500)) for name, text in _facts(step, known) if text],
            transients=[shots.shot(ref, "shown for a moment") for ref in step.passed],
            exchanges=[bodies[number] for number in known.exchanges if number < len(bodies)],
            crop=shots.crop(step.crop) if step.crop and not phrases.is_named(step) else None,
        )
        views.append(view)
    return views


def _before_each(trace: Trace) -> dict[int, _Before]:
    found: dict[int, _Before] = {}
    of_turn: dict[int, list[int]] = {}
    waiting: list[int] = []
    costs: list[float | None] = []
    times_s: list[float] = []
    latest = _Before()
    went_on: Drifted | None = None
    for timed in trace.events:
        match timed.event:
            case ModelExchange() as exchange:
                if exchange.purpose == "planner":
                    waiting.append(len(costs))
                else:
                    latest.judged_s += exchange.duration_s
                costs.append(exchange.dollars)
                times_s.append(exchange.duration_s)
            case Drifted(healed=True) as drift:
                went_on = drift
            case TurnDecided(number=number):
                of_turn[number], waiting = waiting, []
            case StepFinished(step=step):
                asked = of_turn.pop(step.turn, [])
                known = [cost for each in asked if (cost := costs[each]) is not None]
                asked_s = sum(times_s[each] for each in asked)
                latest = _Before(asked, went_on, sum(known) if known else None, timed.at_s, asked_s)
                found[step.number] = latest
    return found


def _bodies(trace: Trace) -> list[Exchange]:
    try:
        return [_exchange(each) for each in read_exchanges(trace.path)]
    except (RunFolderError, AttributeError, TypeError) as exc:  # the lines are damaged
        return [Exchange("request", "", "", f"cannot be read: {short(exc, 300)}") for _ in trace.exchanges]


def _exchange(exchange: ModelExchange) -> Exchange:
    title = (
        f"{exchange.purpose}: {exchange.model or 'a model'}, attempt {exchange.attempt}, {exchange.duration_s:.1f} s"
    )
    answer = "" if exchange.response is None else as_json(exchange.response, _MOST_JSON)
    return Exchange(short(title, 300), as_json(exchange.request, _MOST_JSON), answer, short(exchange.error))


def _way(trace: Trace, step: Step, known: _Before, *, has_passed: bool) -> tuple[str, str]:
    """Return who chose the step, and the reason. Only a test that passed has healed its recording."""
    planner = trace.started.planner
    if known.drift:
        return "healed" if has_passed else WENT_ON, f"the recording did not fit any more: {known.drift.problem}"
    if planner.startswith("recording") and not step.model:
        return "replayed", ""
    if planner == "a person":
        return "by a person", ""
    if "scripted" in planner and not step.model:
        return "scripted", ""
    return ("live", f"by {step.model}") if step.model else ("live", f"by {planner}" if planner else "")


def _badges(step: Step) -> Iterator[Badge]:
    if step.ruling.kind == "deny":
        yield Badge("denied", "bad")
    elif step.ruling.kind == "ask":
        yield Badge("waits for a yes", "doubt")
    elif step.error:
        yield Badge("failed", "bad")


def _lines(step: Step) -> Iterator[tuple[str, str]]:
    yield "ruling", phrases.ruling_in_words(step.ruling)
    yield "error", "" if step.ruling.kind == "deny" else step.error
    yield "output", f"returned: {step.output}" if step.output else ""
    yield "note", f"the planner is told: {step.note}" if step.note else ""


def _facts(step: Step, known: _Before) -> Iterator[tuple[str, str]]:
    yield "screen", phrases.settled_in_words(step)
    yield "point", " to ".join(map(str, points(step.proposal.action))) if phrases.is_named(step) else ""
    yield "at", "" if known.at_s is None else f"{known.at_s:.1f} s"
    yield "tokens", "" if step.usage == Usage() else phrases.tokens_in_words(step.usage)
    yield "cost", "" if known.dollars is None else f"${known.dollars:.4f}"
    yield "asked again", f"{step.asked_again} times, as the screen had changed" if step.asked_again else ""
    yield "address", step.url


def _spans(trace: Trace, step: Step, known: _Before) -> list[tuple[str, float]]:
    """Return the activities of a step in their order, each with its seconds.

    Before a recorded step comes the wait for its gate, then perhaps the question to a model that goes on. After a
    recorded step comes the wait for the gate of the next one.
    """
    times, is_replay = step.times, trace.started.planner.startswith("recording")
    asked_s = min(known.asked_s, times.model_s) if is_replay else times.model_s
    spans = [
        ("gate", times.model_s - asked_s),
        ("model", asked_s),
        ("act", times.act_s),
        ("settle" if step.model or not is_replay else "next gate", times.settle_s),
        ("capture", times.capture_s),
        ("judge", known.judged_s),
    ]
    return [(name, seconds) for name, seconds in spans if 0 < seconds < _LONGEST_S]


def _bars(spans: Sequence[tuple[str, float]], longest: float) -> list[Bar]:
    bars, start = [], 0.0
    for name, seconds in spans:
        bars.append(Bar(name, round(1000 * start / longest), max(round(1000 * seconds / longest), 2), seconds))
        start += seconds
    return bars


def _guessed_parts(task: str, steps: Sequence[Step]) -> dict[int, str]:
    """Return the part of the task that a step without words may belong to, by the text that is typed in the part."""
    parts = [part.strip() for part in _PART.split(task[:5_000]) if part.strip()]
    if not parts:
        return {}
    guessed: dict[int, str] = {}
    known, since = parts[0], list[int]()
    for step in steps:
        since.append(step.number)
        action = step.proposal.action
        typed = action.text.strip().lower() if isinstance(action, TypeText) else ""
        named = [part for part in parts if typed and typed in part.lower()]
        if named:
            known = named[0]
            guessed |= dict.fromkeys(since, known)
            since = []
    return guessed | (dict.fromkeys(since, parts[0]) if len(parts) == 1 else {})
