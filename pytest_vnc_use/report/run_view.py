"""A run as a reviewer sees it, read from its run directory: the one model behind every
page, block and text.

`show_run` reports what is missing or damaged. Text is of limited length, and nothing is
escaped: templates do that.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pytest_vnc_use.errors import RunDirectoryError
from pytest_vnc_use.plain_text import count_of
from pytest_vnc_use.report import phrases
from pytest_vnc_use.report.phrases import Tone, short, without_parent_path
from pytest_vnc_use.report.screenshots import Compare, Pair, Shot, Shots
from pytest_vnc_use.report.video import Video, video_of
from pytest_vnc_use.runs.directory import (
    FinishedTest,
    Trace,
    read_exchanges,
    read_finished_test,
    read_logs,
    read_trace,
)
from pytest_vnc_use.runs.transcript import (
    Caption,
    caption,
    format_caption,
    is_named,
    outcome_of,
)
from pytest_vnc_use.triage import NOT_AS_RECORDED
from pytest_vnc_use.types import (
    Drift,
    Judged,
    ModelExchange,
    Outcome,
    Reading,
    RunEnded,
    Step,
    StepFinished,
    Transient,
    TurnDecided,
    Verdict,
    VerdictKind,
)
from pytest_vnc_use.types.actions import points
from pytest_vnc_use.types.values import fill

VERDICT_TONES: dict[VerdictKind, Tone] = {
    "holds": "good",
    "fails": "bad",
    "unsure": "doubt",
}
RESULT_TONES: dict[str, Tone] = {
    "passed": "good",
    "failed": "bad",
    "error": "bad",
    "xpassed": "doubt",
}
DID_NOT_END = "did not end"
NOT_HEALED = "not healed"
"""Of a step: chosen by a model after a drift, in a test that did not pass."""
_RESULTS = {
    "error": "raised an error",
    "skipped": "was skipped",
    "xfailed": "failed, as it was expected to",
    "xpassed": "passed, and was expected to fail",
}
_VERDICTS: dict[VerdictKind, str] = {
    "holds": "holds",
    "fails": "fails",
    "unsure": "could not be judged",
}
_MAX_LOG_LINES = 200
_MAX_LOG = 50_000
_MAX_JSON = 6_000
_MAX_ASSERTION_LINES = 14
_ASSERTION = re.compile(r"^E\s+(?:AssertionError|assert\b)", re.MULTILINE)


@dataclass(frozen=True)
class Badge:
    """A label with a colour."""

    text: str
    tone: Tone = "plain"


@dataclass(frozen=True)
class Bar:
    """A span of a step's time: an activity, its start and its length in thousandths of
    the longest step's.
    """

    name: str
    start: int
    length: int
    duration_s: float


@dataclass(frozen=True)
class Exchange:
    """A request to a model and its answer, as text."""

    title: str
    request: str
    answer: str
    error: str = ""


@dataclass(frozen=True)
class StepView:
    """A step. `mode` is live, replayed, healed, not healed, scripted or manual, and
    `mode_reason` its reason.

    `title` is its caption as plain text. `crop` is the region of a step whose element
    has no name.
    """

    number: int
    title: str
    caption: Caption
    text: str
    badges: Sequence[Badge]
    mode: str
    mode_reason: str
    lines: Sequence[tuple[str, str]]
    pair: Pair
    bars: Sequence[Bar] = ()
    facts: Sequence[tuple[str, str]] = ()
    transients: Sequence[Shot] = ()
    exchanges: Sequence[Exchange] = ()
    is_deciding: bool = False
    crop: Shot | None = None


@dataclass(frozen=True)
class ClaimView:
    """A verdict on a claim, or a value that was read off the screen."""

    claim: str
    badge: Badge
    reason: str
    judging: str
    pair: Pair


@dataclass(frozen=True)
class Deciding:
    """What explains the result: two screens, a sentence about them, and the number of
    their step.

    `where` is "at" the step or "after" it. `assertion` is the statement of the test's
    body that failed. `is_cause` is false for the last step of a run of which nothing
    more is known. `difference` is the name of the difference from the recording that
    failed the run, "" if it is something else.
    """

    pair: Pair
    text: str = ""
    step: int = 0
    where: str = "at"
    assertion: str = ""
    is_cause: bool = True
    difference: str = ""


@dataclass(frozen=True)
class RunView:
    """A run. `sentence` is its result as text, and `rule` the rule that decided it.

    `others` are drifts and transients that did not decide it. `last` is its last
    screenshot.
    """

    run_id: str
    test: str
    task: str
    badges: Sequence[Badge]
    sentence: str
    rule: str = ""
    deciding: Deciding | None = None
    facts: Sequence[tuple[str, str]] = ()
    steps: Sequence[StepView] = ()
    claims: Sequence[ClaimView] = ()
    others: Sequence[tuple[Badge, str, Pair]] = ()
    last: Shot | None = None
    video: Video | None = None
    damage: Sequence[str] = ()
    printed: Sequence[tuple[str, str]] = ()
    failure: str = ""
    problem: str = ""
    never_started: bool = False
    """Whether the problem is why the run ended before its first screen; else it is why
    the run cannot be shown.
    """

    @property
    def problem_title(self) -> str:
        """What the problem means for the run."""
        if self.never_started:
            return "The run never started"
        return "The run cannot be shown"


@dataclass(frozen=True)
class RunPage:
    """A run with its view. `trace` and `ended` are None if there is none, or it cannot
    be read.

    `added` has the images that the report adds, by address. `is_result_damaged`: its
    result cannot be read.
    """

    path: Path
    view: RunView
    added: dict[str, bytes]
    trace: Trace | None = None
    ended: FinishedTest | None = None
    is_result_damaged: bool = False
    modes: Mapping[str, int] = field(default_factory=dict)

    @property
    def difference(self) -> str:
        """The name of the difference that failed the run, "" if it is something
        else.
        """
        return self.view.deciding.difference if self.view.deciding else ""

    @property
    def result(self) -> str:
        """The result of the test; for a run that no test made, how the run ended."""
        if self.ended:
            return self.ended.result
        if self.trace is None or self.is_result_damaged:
            return "unreadable"
        return DID_NOT_END if self.trace.started.test_id else outcome_of(self.trace)


def show_run(
    path: Path,
    *,
    compare: Compare = "all",
    copy: bool = False,
    ended: FinishedTest | None = None,
) -> RunPage:
    """Return the view of a run directory, with what is missing or damaged. `copy` is
    that of `Shots`.

    `ended` is the test's result for a directory that has none yet.
    """
    damage: list[str] = []
    try:
        ended = read_finished_test(path) or ended
    except RunDirectoryError as exc:
        damage.append(without_parent_path(exc, path))
    is_result_damaged = bool(damage)
    is_good = ended is not None and not ended.is_bad
    compares = compare == "all" or (compare == "failed" and not is_good)
    missing = ended.screenshots if ended else ""
    is_lossy = _has_passed(ended)
    shots = Shots(path, missing, compares=compares, copy=copy, is_lossy=is_lossy)
    damage_of_trace: list[str] = []
    try:
        trace = read_trace(path, damage_of_trace)
    except RunDirectoryError as exc:
        view = _view_of_problem(path, ended, exc)
        return RunPage(path, view, shots.added, ended=ended)
    damage += damage_of_trace
    view = _view(trace, ended, shots, damage, compares=compares or not is_good)
    video = video_of(trace, ended)
    if video and copy:
        video = video.copied(path, shots.added)
    view = replace(view, video=video)
    modes = Counter(step.mode for step in view.steps)
    return RunPage(path, view, shots.added, trace, ended, is_result_damaged, modes)


def _view_of_problem(
    path: Path, ended: FinishedTest | None, exc: RunDirectoryError
) -> RunView:
    """Return the view of a run that has no screen, or cannot be read."""
    never_started = bool(exc.never_started)
    badge = Badge("never started" if never_started else "cannot be shown", "bad")
    return RunView(
        run_id=path.name,
        test=short(ended.test if ended else "", 500),
        task="",
        badges=[badge],
        sentence="",
        problem=short(without_parent_path(exc.never_started or exc, path)),
        never_started=never_started,
    )


def _has_passed(ended: FinishedTest | None) -> bool:
    return ended is not None and ended.result == "passed"


def _view(
    trace: Trace,
    ended: FinishedTest | None,
    shots: Shots,
    damage: Sequence[str],
    *,
    compares: bool,
) -> RunView:
    # the steps come before the deciding pair, which has the screens of the last of them
    steps = _steps(trace, shots, has_passed=_has_passed(ended))
    deciding = _deciding(trace, ended, shots, compares=compares)
    decides = deciding.step if deciding.is_cause and deciding.where == "at" else 0
    sentence, rule = _sentence(trace, ended)
    return RunView(
        run_id=trace.path.name,
        test=short(trace.started.test_id or (ended.test if ended else ""), 500),
        task=short(fill(trace.started.task, trace.started.values)),
        badges=list(_badges(trace, ended)),
        sentence=short(sentence),
        rule=short(rule, 300),
        deciding=replace(deciding, text=short(deciding.text)),
        facts=[(name, short(text, 500)) for name, text in _facts(trace, ended) if text],
        steps=[replace(step, is_deciding=step.number == decides) for step in steps],
        claims=list(_claims(trace, shots)),
        others=list(_others(trace, shots, deciding.pair, compares=compares)),
        last=shots.shot(trace.last_frame, "the last screenshot"),
        damage=[short(text, 500) for text in damage],
        printed=_logs_of(trace.path),
        failure=short(ended.failure, 20_000) if ended else "",
    )


def _has_failing_drift(trace: Trace) -> bool:
    return not all(drift.healed for drift in trace.drifts)


def _badges(trace: Trace, ended: FinishedTest | None) -> Iterator[Badge]:
    if ended:
        yield Badge(short(ended.result, 40), RESULT_TONES.get(ended.result, "plain"))
        if ended.triage:
            yield Badge(short(ended.triage, 40), "bad" if ended.is_bad else "plain")
    elif trace.started.test_id:
        yield Badge(DID_NOT_END, "bad")
    if _has_failing_drift(trace):
        yield Badge("not as recorded", "bad")
    else:
        yield Badge(*phrases.format_outcome(trace))
    yield from transient_badge(len(trace.transients))
    for verdict in trace.verdicts[:8]:
        yield Badge(f"claim {verdict.kind}", VERDICT_TONES[verdict.kind])


def transient_badge(count: int) -> list[Badge]:
    """Return the badge of what was on the screen briefly, and is in no recording."""
    if count == 0:
        return []
    return [Badge(count_of(count, "transient"), "doubt")]


def _sentence(trace: Trace, ended: FinishedTest | None) -> tuple[str, str]:
    """Return the result of the run as text, and the rule that decided it."""
    message = ""
    if trace.ended:
        first_line = trace.ended.error.partition("\n")[0]
        message = ": ".join(filter(None, [trace.ended.message, first_line]))
    if _has_failing_drift(trace):
        message = trace.drifts[-1].problem
    if ended is None and trace.started.test_id:
        text = "The test did not end, or its result is lost. Of its run: "
        return text + (message or "it did not end"), ""
    if ended is None:
        return message or "No result of a test is stored here", ""
    text = f"The test {_RESULTS.get(ended.result, ended.result)}"
    if ended.phase != "call" and ended.is_bad:
        text += f" in its {ended.phase}"
    message = ended.message or message
    if message:
        text += f": {message}"
    return text, ended.rule


def _facts(trace: Trace, ended: FinishedTest | None) -> Iterator[tuple[str, str]]:
    yield "planner", phrases.format_planner(trace)
    yield "steps", f"{len(trace.steps)} of at most {trace.started.limits.steps}"
    values = trace.started.values.items()
    yield "values", ", ".join(f"{name}: {value}" for name, value in values)
    yield "time", f"{trace.seconds:.1f} s"
    cost = phrases.format_tokens(trace.usage)
    if trace.dollars is not None:
        dollars = f"${trace.dollars:.4f}"
        cost = f"{cost}: {dollars}" if cost else dollars
    if not trace.exchanges:
        cost = cost or "none"
    yield "cost", cost
    if trace.started.body_checks and not trace.verdicts:
        why = "on purpose: with expect=None the test's body alone checks"
        yield "verdicts", f"none, {why}"
    elif not trace.verdicts:
        yield "verdicts", "none, no claim was judged"
    if ended and ended.attempt > 1:
        yield "attempt", f"{ended.attempt}"
    if ended and ended.is_rehearsal:
        yield "rehearsal", "of the recording that the test had just made"
    yield "worker", ended.worker if ended else ""
    retried = [
        exchange for exchange in trace.exchanges if exchange.retry_in_s is not None
    ]
    if retried:
        count = len(trace.exchanges)
        yield "retries", f"{len(retried)} among {count} requests to a model"
    reasons = [exchange.error[:300] for exchange in retried if exchange.error]
    yield "reasons for retries", "; ".join(dict.fromkeys(reasons))
    discarded = sum(turn.decision.repeated_requests for turn in trace.turns)
    if discarded:
        why = (
            "the screen had changed while the model thought, so that it was asked again"
        )
        yield "discarded answers", f"{discarded}: {why}"
    yield "started", trace.started.started_at
    yield "desktop", trace.started.server


def _deciding(
    trace: Trace, ended: FinishedTest | None, shots: Shots, *, compares: bool
) -> Deciding:
    """Return the difference that failed the run, or else the screens that a reviewer
    would look at first.
    """
    steps = trace.all_steps
    if drifts := [drift for drift in trace.drifts if not drift.healed]:
        pair = _drift_pair(drifts[-1], shots, compares=compares)
        number = len(trace.steps)
        problem = drifts[-1].problem
        return Deciding(pair, problem, number, "after", difference=pair.name)
    for verdict in _verdicts_at_end(trace):
        if verdict.kind != "holds":
            before = trace.started.screen
            if trace.steps:
                before = trace.steps[-1].frame_before
            refs = (before, verdict.frame or trace.last_frame)
            names = ("before the last step", "when it was judged")
            pair = shots.pair(names, refs, judged=verdict.region, compares=compares)
            text = f"The claim {verdict.claim!r} {_VERDICTS[verdict.kind]}"
            return Deciding(pair, f"{text}: {verdict.reason}", len(steps))
    if assertion := _assertion(ended):
        shot = shots.shot(trace.last_frame, "the last screenshot")
        pair = Pair(shot, shot, "at the end", "at the end")
        return Deciding(pair, "", len(steps), "after", assertion)
    if trace.transients and not _was_cut_short(trace):
        first = trace.transients[0]
        pair = _transient_pair(trace, first, shots, compares=compares)
        difference = ""
        # It may only have come beside the failure, or beside a heal.
        if ended and ended.rule == NOT_AS_RECORDED and not trace.drifts:
            # What is not compared is like no other.
            difference = pair.name or trace.path.name
        number = first.step or len(steps)
        return Deciding(pair, first.problem, number, difference=difference)
    error = trace.ended.error.partition("\n")[0] if trace.ended else ""
    if not steps:
        shot = shots.shot(trace.started.screen, "the first screenshot")
        pair = Pair(shot, shot, "first screen", "first screen")
        text = f"{error}; no step was taken" if error else "no step was taken"
        return Deciding(pair, text, is_cause=bool(error))
    last = steps[-1]
    action = last.proposal.action
    refs = (last.frame_before, last.frame_after)
    pair = shots.pair(("before", "after"), refs, action=action, compares=compares)
    text = f"the last step: {format_caption(action, last.elements)}"
    text = "; ".join(filter(None, [error, text, last.error]))
    return Deciding(pair, text, last.number, is_cause=bool(error or last.error))


def _was_cut_short(trace: Trace) -> bool:
    return trace.ended is not None and trace.ended.outcome is not Outcome.DONE


def _verdicts_at_end(trace: Trace) -> Sequence[Verdict]:
    """Return the verdicts that may have decided the run: of one that was cut short,
    only those after its end.
    """
    if not _was_cut_short(trace):
        return trace.verdicts
    verdicts: list[Verdict] = []
    for timed in trace.events:
        match timed.event:
            case RunEnded():
                verdicts = []
            case Judged(verdict=verdict):
                verdicts.append(verdict)
    return verdicts


def _drift_pair(drift: Drift, shots: Shots, *, compares: bool) -> Pair:
    return shots.pair(
        ("recorded", "now"),
        (drift.recorded, drift.seen),
        region=drift.region,
        boxes=drift.boxes,
        compares=compares,
    )


def _transient_pair(
    trace: Trace, transient: Transient, shots: Shots, *, compares: bool
) -> Pair:
    name = "at the end"
    beside = trace.last_frame
    for step in trace.all_steps:
        if step.number == transient.step:
            name = f"after step {step.number}"
            beside = step.frame_after
    names = (name, "transient")
    refs = (beside, transient.seen)
    return shots.pair(names, refs, region=transient.region, compares=compares)


def _assertion(ended: FinishedTest | None) -> str:
    """Return the statement of the test's body that failed, and pytest's explanation of
    it; "" if none did.
    """
    if ended is None or not ended.is_bad or ended.phase != "call":
        return ""
    if not _ASSERTION.search(ended.failure):
        return ""
    lines = [
        line for line in ended.failure.splitlines() if line.startswith((">", "E "))
    ]
    return short("\n".join(lines[:_MAX_ASSERTION_LINES]))


def _others(
    trace: Trace, shots: Shots, deciding: Pair, *, compares: bool
) -> Iterator[tuple[Badge, str, Pair]]:
    """Yield the drifts and transients that did not decide the run. Its steps show
    whether a drift was healed.
    """
    for drift in trace.drifts:
        badge = Badge("not as recorded", "bad")
        if drift.healed:
            badge = Badge("a model continued", "doubt")
        pair = _drift_pair(drift, shots, compares=compares or drift.healed)
        if pair != deciding:
            yield badge, short(drift.problem), pair
    for transient in trace.transients:
        pair = _transient_pair(trace, transient, shots, compares=True)
        if pair != deciding:
            yield Badge("transient", "doubt"), short(transient.problem), pair


def _claims(trace: Trace, shots: Shots) -> Iterator[ClaimView]:
    for verdict in trace.verdicts:
        yield ClaimView(
            claim=short(fill(verdict.claim, trace.started.values)),
            badge=Badge(verdict.kind, VERDICT_TONES[verdict.kind]),
            reason=short(verdict.reason),
            judging=short(phrases.format_judging(verdict), 500),
            pair=_judged(trace, verdict, shots),
        )
    for extracted in trace.extracted:
        reading = extracted.reading
        badge = Badge(f"read as {extracted.form}")
        if extracted.problem:
            badge = Badge(f"it is no {extracted.form}", "doubt")
        value = short(json.dumps(reading.value, ensure_ascii=False, default=str))
        reasons = [value, extracted.problem, reading.reason]
        yield ClaimView(
            claim=short(reading.question),
            badge=badge,
            reason=short(": ".join(filter(None, reasons))),
            judging=f"read by {reading.model}",
            pair=_judged(trace, reading, shots),
        )


def _judged(trace: Trace, judged: Verdict | Reading, shots: Shots) -> Pair:
    """Return the judged screen, with the region that the judge named."""
    ref = judged.frame or trace.last_frame
    return shots.pair(("judged", "judged"), (ref, ref), judged=judged.region)


def _logs_of(path: Path) -> list[tuple[str, str]]:
    """Return the last lines of each log, and how much was before them."""
    try:
        logs = read_logs(path)
    except OSError as exc:
        return [("logs", f"cannot be read: {exc}")]
    ends = []
    for role, text in logs.items():
        lines = text.splitlines()
        before = len(lines) - _MAX_LOG_LINES
        if before > 0:
            lines = [f"({before} lines before)", *lines[before:]]
        end = "\n".join(lines)
        if len(end) > _MAX_LOG:
            end = f"(the last {_MAX_LOG} of {len(end)} characters) {end[-_MAX_LOG:]}"
        ends.append((role, end))
    return ends


@dataclass
class _Surroundings:
    """What a trace has around a step, between the steps before and after it."""

    turn: Sequence[int] = ()
    """The numbers of the steps of the same answer."""
    exchanges: Sequence[int] = ()
    """The numbers of the exchanges with the planner before it."""
    drift: Drift | None = None
    """The drift before it, at which a model continued."""
    finished_at_s: float | None = None
    judged_s: float = 0.0
    """The seconds that a judge was asked after it."""


def _surroundings(trace: Trace) -> Mapping[int, _Surroundings]:
    """Return what is around each step, by its number."""
    by_step = defaultdict[int, _Surroundings](_Surroundings)
    exchanges_by_turn: dict[int, list[int]] = {}
    waiting: list[int] = []
    exchange_count = 0
    latest_step = 0
    drift: Drift | None = None
    for timed in trace.events:
        match timed.event:
            case ModelExchange(purpose=purpose, duration_s=duration_s):
                if purpose == "planner":
                    waiting.append(exchange_count)
                else:
                    by_step[latest_step].judged_s += duration_s
                exchange_count += 1
            case TurnDecided(number=turn):
                exchanges_by_turn[turn] = waiting
                waiting = []
            case Drift(healed=True) as healed:
                drift = healed
            case StepFinished(step=step):
                latest_step = step.number
                surroundings = by_step[step.number]
                surroundings.exchanges = exchanges_by_turn.pop(step.turn, [])
                surroundings.drift = drift
                surroundings.finished_at_s = timed.at_s
    turns = defaultdict[int, list[int]](list)
    for step in trace.all_steps:
        turns[step.turn].append(step.number)
        by_step[step.number].turn = turns[step.turn]
    return by_step


def _steps(trace: Trace, shots: Shots, *, has_passed: bool) -> list[StepView]:
    around = _surroundings(trace)
    texts = _exchanges(trace)
    spans = {
        step.number: _spans(trace, step, around[step.number])
        for step in trace.all_steps
    }
    max_s = max((sum(span.values()) for span in spans.values()), default=0.0)
    views = []
    for step in trace.all_steps:
        action = step.proposal.action
        surroundings = around[step.number]
        mode, why = _mode(trace, step, surroundings.drift, has_passed=has_passed)
        text = step.proposal.intent
        if not text and step.number == surroundings.turn[0]:
            text = step.text
        crop = None
        if step.crop and not is_named(step):
            crop = shots.shot(step.crop, "the place of the step")
        refs = (step.frame_before, step.frame_after)
        facts = _facts_of_step(trace, step, surroundings)
        view = StepView(
            number=step.number,
            title=short(format_caption(action, step.elements), 600),
            caption=tuple(
                replace(part, text=short(part.text, 300))
                for part in caption(action, step.elements)
            ),
            text=short(text),
            badges=_step_badges(step),
            mode=mode,
            mode_reason=short(why),
            lines=[(kind, short(text)) for kind, text in _lines_of(step) if text],
            pair=shots.pair(("before", "after"), refs, action=action),
            bars=_bars(spans[step.number], max_s),
            facts=[(name, short(text, 500)) for name, text in facts if text],
            transients=[
                shots.shot(ref, "shown in between") for ref in step.transient_frames
            ],
            exchanges=[
                texts[number]
                for number in surroundings.exchanges
                if number < len(texts)
            ],
            crop=crop if crop and not crop.problem else None,
        )
        views.append(view)
    return views


def _lines_of(step: Step) -> Iterator[tuple[str, str]]:
    yield "ruling", phrases.format_ruling(step.ruling)
    if step.ruling.kind != "deny":
        yield "error", step.error
    if step.output:
        yield "output", f"returned: {step.output}"
    if step.note:
        yield "note", f"note to the planner: {step.note}"


def _facts_of_step(
    trace: Trace, step: Step, surroundings: _Surroundings
) -> Iterator[tuple[str, str]]:
    if step.settled:
        yield "screen", phrases.SETTLED[step.settled]
    if is_named(step):
        yield "point", " to ".join(map(str, points(step.proposal.action)))
    turn = surroundings.turn
    if len(turn) > 1:
        yield "answer", f"action {turn.index(step.number) + 1} of {len(turn)}"
    if surroundings.finished_at_s is not None:
        yield "at", f"{surroundings.finished_at_s:.1f} s"
    yield "tokens", phrases.format_tokens(step.usage)
    prices = [trace.exchanges[number].dollars for number in surroundings.exchanges]
    dollars = [price for price in prices if price is not None]
    if dollars:
        yield "cost", f"${sum(dollars):.4f}"
    if step.repeated_requests:
        yield (
            "asked again",
            f"{step.repeated_requests} times, as the screen had changed",
        )
    yield "URL", step.url


def _exchanges(trace: Trace) -> list[Exchange]:
    try:
        return [_format_exchange(call) for call in read_exchanges(trace.path)]
    except (RunDirectoryError, AttributeError, TypeError) as exc:
        # the lines are damaged
        error = f"cannot be read: {short(exc, 300)}"
        return [Exchange("request", "", "", error)] * len(trace.exchanges)


def _format_exchange(call: ModelExchange) -> Exchange:
    title = f"{call.purpose}: {call.model or 'a model'}, attempt {call.attempt}"
    answer = ""
    if call.response is not None:
        answer = phrases.as_json(call.response, _MAX_JSON)
    return Exchange(
        short(f"{title}, {call.duration_s:.1f} s", 300),
        phrases.as_json(call.request, _MAX_JSON),
        answer,
        short(call.error),
    )


def _mode(
    trace: Trace, step: Step, drift: Drift | None, *, has_passed: bool
) -> tuple[str, str]:
    """Return who chose the step, and the reason. Only a test that passed has healed its
    recording.
    """
    planner = trace.started.planner
    if drift:
        why = f"the recording did not fit any more: {drift.problem}"
        return "healed" if has_passed else NOT_HEALED, why
    if planner == "manual":
        return "manual", ""
    if trace.is_replay and not step.model:
        return "replayed", ""
    if "scripted" in planner and not step.model:
        return "scripted", ""
    model = step.model or planner
    return "live", f"by {model}" if model else ""


def _step_badges(step: Step) -> list[Badge]:
    if step.ruling.kind == "deny":
        return [Badge("denied", "bad")]
    if step.ruling.kind == "ask":
        return [Badge("waits for approval", "doubt")]
    return [Badge("failed", "bad")] if step.error else []


def _spans(trace: Trace, step: Step, surroundings: _Surroundings) -> dict[str, float]:
    """Return the activities of a step in their order, each with its seconds.

    Before a recorded step comes the wait for its gate, then perhaps the question to a
    model that continues. After a recorded step comes the wait for the gate of the next
    one.
    """
    times = step.times
    asked_s = times.model_s
    if trace.is_replay:
        calls = [trace.exchanges[number] for number in surroundings.exchanges]
        asked_s = min(sum(call.duration_s for call in calls), times.model_s)
    is_recorded = trace.is_replay and not step.model
    spans = {
        "gate": times.model_s - asked_s,
        "model": asked_s,
        "act": times.act_s,
        "next gate" if is_recorded else "settle": times.settle_s,
        "capture": times.capture_s,
        "judge": surroundings.judged_s,
    }
    return {name: seconds for name, seconds in spans.items() if seconds > 0}


def _bars(spans: Mapping[str, float], max_s: float) -> list[Bar]:
    bars = []
    started_s = 0.0
    for name, seconds in spans.items():
        start = round(1000 * started_s / max_s)
        length = max(round(1000 * seconds / max_s), 2)
        bars.append(Bar(name, start, length, seconds))
        started_s += seconds
    return bars
