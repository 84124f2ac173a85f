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
from typing import cast

from pytest_vnc_use.errors import RunDirectoryError
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
from pytest_vnc_use.types import (
    Drift,
    Judged,
    ModelExchange,
    Outcome,
    Reading,
    RunEnded,
    Step,
    StepFinished,
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

    `assertion` is the statement of the test's body that failed. `is_cause` is false for
    the last step of a run of which nothing more is known.
    """

    pair: Pair
    text: str = ""
    step: int = 0
    where: str = "at"
    assertion: str = ""
    is_cause: bool = True


@dataclass(frozen=True)
class RunView:
    """A run. `sentence` is its result as text, and `rule` the rule that decided it.

    `others` are drifts and transients that did not decide it. `last` is its last
    screenshot. `messages` is the URL of the messages that the run sent, where they are
    beside the page.
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
    messages: str = ""

    @property
    def problem_title(self) -> str:
        """What the problem means for the run."""
        return (
            "The run never started" if self.never_started else "The run cannot be shown"
        )


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
        deciding = self.view.deciding
        return (
            deciding.pair.name
            if deciding and self.trace and _failing_drift(self.trace)
            else ""
        )

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
    damage_of_trace: list[str] = []
    try:
        ended = read_finished_test(path) or ended
    except RunDirectoryError as exc:
        damage.append(without_parent_path(exc, path))
    is_good, has_passed = (
        ended is not None and not ended.is_bad,
        ended is not None and ended.result == "passed",
    )
    compares = compare == "all" or (compare == "failed" and not is_good)
    missing = ended.screenshots if ended else ""
    shots = Shots(path, missing, compares=compares, copy=copy, is_lossy=has_passed)
    try:
        trace = read_trace(path, damage_of_trace)
    except RunDirectoryError as exc:
        badge = Badge(
            "never started" if exc.never_started else "cannot be shown", "bad"
        )
        problem = short(without_parent_path(exc.never_started or exc, path))
        test = short(ended.test if ended else "", 500)
        view = RunView(
            path.name,
            test,
            "",
            [badge],
            "",
            problem=problem,
            never_started=bool(exc.never_started),
        )
        return RunPage(path, view, shots.added, None, ended)
    view = _view(
        trace,
        ended,
        shots,
        [*damage, *damage_of_trace],
        compares=compares or not is_good,
    )
    video = video_of(trace, ended)
    if video and copy:
        video = video.copied(path, shots.added)
    view = replace(view, video=video)
    modes = Counter(step.mode for step in view.steps)
    return RunPage(
        path,
        view,
        shots.added,
        trace,
        ended,
        is_result_damaged=bool(damage),
        modes=modes,
    )


def _view(
    trace: Trace,
    ended: FinishedTest | None,
    shots: Shots,
    damage: Sequence[str],
    *,
    compares: bool,
) -> RunView:
    # the steps come before the deciding pair, which has the screens of the last of them
    steps = _steps(
        trace, shots, has_passed=ended is not None and ended.result == "passed"
    )
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


def _failing_drift(trace: Trace) -> bool:
    return any(not drift.healed for drift in trace.drifts)


def _badges(trace: Trace, ended: FinishedTest | None) -> Iterator[Badge]:
    if ended:
        yield Badge(short(ended.result, 40), RESULT_TONES.get(ended.result, "plain"))
        if ended.triage:
            yield Badge(short(ended.triage, 40), "bad" if ended.is_bad else "plain")
    elif trace.started.test_id:
        yield Badge(DID_NOT_END, "bad")
    yield (
        Badge("not as recorded", "bad")
        if _failing_drift(trace)
        else Badge(*phrases.format_outcome(trace))
    )
    yield from transient_badge(len(trace.transients))
    for verdict in trace.verdicts[:8]:
        yield Badge(f"claim {verdict.kind}", VERDICT_TONES[verdict.kind])


def transient_badge(count: int) -> list[Badge]:
    """Return the badge of what was on the screen briefly, and is in no recording."""
    return (
        [Badge(f"{count} transient{'' if count == 1 else 's'}", "doubt")]
        if count
        else []
    )


def _sentence(trace: Trace, ended: FinishedTest | None) -> tuple[str, str]:
    """Return the result of the run as text, and the rule that decided it."""
    message = ""
    if trace.ended:
        first_line = trace.ended.error.partition("\n")[0]
        message = ": ".join(filter(None, [trace.ended.message, first_line]))
    if _failing_drift(trace):
        message = trace.drifts[-1].problem
    if ended is None and trace.started.test_id:
        return (
            (
                "The test did not end, or its result is lost. Of its run:"
                f" {message or 'it did not end'}"
            ),
            "",
        )
    if ended is None:
        return message or "No result of a test is stored here", ""
    text = f"The test {_RESULTS.get(ended.result, ended.result)}"
    if ended.phase != "call" and ended.is_bad:
        text += f" in its {ended.phase}"
    return (
        f"{text}: {ended.message or message}" if ended.message or message else text
    ), ended.rule


def _facts(trace: Trace, ended: FinishedTest | None) -> Iterator[tuple[str, str]]:
    yield "planner", phrases.format_planner(trace)
    yield "steps", f"{len(trace.steps)} of at most {trace.started.limits.steps}"
    values = trace.started.values.items()
    yield "values", ", ".join(f"{name}: {value}" for name, value in values)
    yield "time", f"{trace.seconds:.1f} s"
    tokens, dollars = (
        phrases.format_tokens(trace.usage),
        ("" if trace.dollars is None else f"${trace.dollars:.4f}"),
    )
    yield (
        "cost",
        ": ".join(filter(None, [tokens, dollars]))
        or ("" if trace.exchanges else "none"),
    )
    unjudged = (
        "on purpose: with expect=None the test's body alone checks"
        if trace.started.body_checks
        else ""
    )
    yield (
        "verdicts",
        ("" if trace.verdicts else f"none, {unjudged or 'no claim was judged'}"),
    )
    yield "attempt", f"{ended.attempt}" if ended and ended.attempt > 1 else ""
    yield (
        "rehearsal",
        (
            "of the recording that the test had just made"
            if ended and ended.is_rehearsal
            else ""
        ),
    )
    yield "worker", ended.worker if ended else ""
    retried = [
        exchange for exchange in trace.exchanges if exchange.retry_in_s is not None
    ]
    yield (
        "retries",
        (
            f"{len(retried)} among {len(trace.exchanges)} requests to a model"
            if retried
            else ""
        ),
    )
    reasons = dict.fromkeys(
        exchange.error[:300] for exchange in retried if exchange.error
    )
    yield "reasons for retries", "; ".join(reasons)
    discarded = sum(turn.decision.repeated_requests for turn in trace.turns)
    why = "the screen had changed while the model thought, so that it was asked again"
    yield "discarded answers", f"{discarded}: {why}" if discarded else ""
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
        return Deciding(
            _drift_pair(drifts[-1], shots, compares=compares),
            drifts[-1].problem,
            len(trace.steps),
            "after",
        )
    was_cut_short = trace.ended is not None and trace.ended.outcome is not Outcome.DONE
    verdicts: Sequence[Verdict] = trace.verdicts
    if was_cut_short:  # a verdict before the end did not end a run that was not done
        events = [timed.event for timed in trace.events]
        end = max(
            number for number, event in enumerate(events) if isinstance(event, RunEnded)
        )
        verdicts = [
            event.verdict for event in events[end:] if isinstance(event, Judged)
        ]
    for verdict in verdicts:
        if verdict.kind != "holds":
            earlier = (
                trace.steps[-1].frame_before if trace.steps else trace.started.screen
            )
            refs = earlier, verdict.frame or trace.last_frame
            names = "before the last step", "when it was judged"
            pair = shots.pair(names, refs, judged=verdict.region, compares=compares)
            return Deciding(
                pair,
                f"The claim {verdict.claim!r} {_VERDICTS[verdict.kind]}:"
                f" {verdict.reason}",
                len(steps),
            )
    if assertion := _assertion(ended) if ended else "":
        shot = shots.shot(trace.last_frame, "the last screenshot")
        return Deciding(
            Pair(shot, shot, "at the end", "at the end"),
            step=len(steps),
            where="after",
            assertion=assertion,
        )
    if trace.transients and not was_cut_short:
        transient = trace.transients[-1]
        refs = trace.last_frame, transient.seen
        pair = shots.pair(
            ("at the end", "transient"),
            refs,
            region=transient.region,
            compares=compares,
        )
        return Deciding(pair, transient.problem, len(steps))
    error = trace.ended.error.partition("\n")[0] if trace.ended else ""
    why = f"{error}; " if error else ""
    if not steps:
        shot = shots.shot(trace.started.screen, "the first screenshot")
        return Deciding(
            Pair(shot, shot, "first screen", "first screen"),
            f"{why}no step was taken",
            is_cause=bool(error),
        )
    last = steps[-1]
    action, refs = last.proposal.action, (last.frame_before, last.frame_after)
    pair = shots.pair(("before", "after"), refs, action=action, compares=compares)
    text = f"{why}the last step: {format_caption(action, last.elements)}"
    text = f"{text}; {last.error}" if last.error else text
    return Deciding(pair, text, last.number, is_cause=bool(error or last.error))


def _drift_pair(drift: Drift, shots: Shots, *, compares: bool) -> Pair:
    return shots.pair(
        ("recorded", "now"),
        (drift.recorded, drift.seen),
        region=drift.region,
        boxes=drift.boxes,
        compares=compares,
    )


def _assertion(ended: FinishedTest) -> str:
    """Return the statement of the test's body that failed, and pytest's explanation of
    it; "" if none did.
    """
    if (
        not ended.is_bad
        or ended.phase != "call"
        or not _ASSERTION.search(ended.failure)
    ):
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
        badge = (
            Badge("a model continued", "doubt")
            if drift.healed
            else Badge("not as recorded", "bad")
        )
        if (
            pair := _drift_pair(drift, shots, compares=compares or drift.healed)
        ) != deciding:
            yield badge, short(drift.problem), pair
    for transient in trace.transients:
        refs = trace.last_frame, transient.seen
        pair = shots.pair(
            ("at the end", "transient"), refs, region=transient.region, compares=True
        )
        if pair != deciding:
            yield Badge("transient", "doubt"), short(transient.problem), pair


def _claims(trace: Trace, shots: Shots) -> Iterator[ClaimView]:
    for verdict in trace.verdicts:
        badge = Badge(verdict.kind, VERDICT_TONES[verdict.kind])
        judging = short(phrases.format_judging(verdict), 500)
        yield ClaimView(
            short(fill(verdict.claim, trace.started.values)),
            badge,
            short(verdict.reason),
            judging,
            _judged(trace, verdict, shots),
        )
    for extracted in trace.extracted:
        reading, form = extracted.reading, extracted.form
        badge = (
            Badge(f"it is no {form}", "doubt")
            if extracted.problem
            else Badge(f"read as {form}")
        )
        value = short(json.dumps(reading.value, ensure_ascii=False, default=str))
        reason = short(
            ": ".join(filter(None, [value, extracted.problem, reading.reason]))
        )
        pair = _judged(trace, reading, shots)
        yield ClaimView(
            short(reading.question), badge, reason, f"read by {reading.model}", pair
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
        end = "\n".join(
            [f"({before} lines before)", *lines[-_MAX_LOG_LINES:]]
            if before > 0
            else lines
        )
        if len(end) > _MAX_LOG:
            end = f"(the last {_MAX_LOG} of {len(end)} characters) {end[-_MAX_LOG:]}"
        ends.append((role, end))
    return ends


def _steps(trace: Trace, shots: Shots, *, has_passed: bool) -> list[StepView]:
    steps, exchanges = trace.all_steps, _exchanges(trace)
    asked, judged_s, drifts, at_s = _events_of_steps(trace)
    turns: dict[int, list[int]] = {}
    for step in steps:
        turns.setdefault(step.turn, []).append(step.number)
    is_replay = trace.started.planner.startswith("recording")
    spans = {}
    for step in steps:
        asked_s = sum(
            trace.exchanges[number].duration_s for number in asked.get(step.number, ())
        )
        spans[step.number] = _spans(
            step, asked_s, judged_s[step.number], is_replay=is_replay
        )
    max_s = max(
        (sum(seconds for _, seconds in span) for span in spans.values()), default=0.0
    )
    views = []
    for step in steps:
        action, numbers = step.proposal.action, turns[step.turn]
        prices = [
            trace.exchanges[number].dollars for number in asked.get(step.number, ())
        ]
        dollars = [price for price in prices if price is not None]
        mode, why = _mode(trace, step, drifts.get(step.number), has_passed=has_passed)
        crop = (
            shots.shot(step.crop, "the place of the step")
            if step.crop and not is_named(step)
            else None
        )
        facts = [
            ("screen", phrases.SETTLED[step.settled] if step.settled else ""),
            ("point", " to ".join(map(str, points(action))) if is_named(step) else ""),
            (
                "answer",
                (
                    f"action {numbers.index(step.number) + 1} of {len(numbers)}"
                    if len(numbers) > 1
                    else ""
                ),
            ),
            ("at", f"{at_s[step.number]:.1f} s" if step.number in at_s else ""),
            ("tokens", phrases.format_tokens(step.usage)),
            ("cost", f"${sum(dollars):.4f}" if dollars else ""),
            (
                "asked again",
                (
                    f"{step.repeated_requests} times, as the screen had changed"
                    if step.repeated_requests
                    else ""
                ),
            ),
            ("URL", step.url),
        ]
        lines = [
            ("ruling", phrases.format_ruling(step.ruling)),
            ("error", "" if step.ruling.kind == "deny" else step.error),
            ("output", f"returned: {step.output}" if step.output else ""),
            ("note", f"note to the planner: {step.note}" if step.note else ""),
        ]
        view = StepView(
            number=step.number,
            title=short(format_caption(action, step.elements), 600),
            caption=tuple(
                replace(piece, text=short(piece.text, 300))
                for piece in caption(action, step.elements)
            ),
            text=short(
                step.proposal.intent or (step.text if numbers[0] == step.number else "")
            ),
            badges=_step_badges(step),
            mode=mode,
            mode_reason=short(why),
            lines=[(kind, short(text)) for kind, text in lines if text],
            pair=shots.pair(
                ("before", "after"),
                (step.frame_before, step.frame_after),
                action=action,
            ),
            bars=_bars(spans[step.number], max_s),
            facts=[(name, short(text, 500)) for name, text in facts if text],
            transients=[
                shots.shot(ref, "shown in between") for ref in step.transient_frames
            ],
            exchanges=[
                exchanges[number]
                for number in asked.get(step.number, ())
                if number < len(exchanges)
            ],
            crop=crop if crop and not crop.problem else None,
        )
        views.append(view)
    return views


def _events_of_steps(
    trace: Trace,
) -> tuple[
    dict[int, list[int]], Mapping[int, float], dict[int, Drift], dict[int, float]
]:
    """Return four values by the number of a step.

    They are the exchanges before it, the seconds of a judge's after it, the drift at
    which a model continued before it, and the time of its end.
    """
    asked: dict[int, list[int]] = {}
    judged_s = defaultdict[int, float](float)
    drifts: dict[int, Drift] = {}
    at_s: dict[int, float] = {}
    exchanges_by_turn: dict[int, list[int]] = {}
    waiting: list[int] = []
    number, latest, drift = 0, 0, cast("Drift | None", None)
    for timed in trace.events:
        match timed.event:
            case ModelExchange(purpose=purpose, duration_s=duration_s):
                if purpose == "planner":
                    waiting.append(number)
                else:
                    judged_s[latest] += duration_s
                number += 1
            case Drift(healed=True) as healed:
                drift = healed
            case TurnDecided(number=turn):
                exchanges_by_turn[turn], waiting = waiting, []
            case StepFinished(step=step):
                latest, at_s[step.number] = step.number, timed.at_s
                asked[step.number] = exchanges_by_turn.pop(step.turn, [])
                if drift:
                    drifts[step.number] = drift
    return asked, judged_s, drifts, at_s


def _exchanges(trace: Trace) -> list[Exchange]:
    try:
        return [
            Exchange(
                short(
                    f"{call.purpose}: {call.model or 'a model'}, attempt"
                    f" {call.attempt}, {call.duration_s:.1f} s",
                    300,
                ),
                phrases.as_json(call.request, _MAX_JSON),
                (
                    ""
                    if call.response is None
                    else phrases.as_json(call.response, _MAX_JSON)
                ),
                short(call.error),
            )
            for call in read_exchanges(trace.path)
        ]
    except (RunDirectoryError, AttributeError, TypeError) as exc:
        # the lines are damaged
        return [
            Exchange("request", "", "", f"cannot be read: {short(exc, 300)}")
            for _ in trace.exchanges
        ]


def _mode(
    trace: Trace, step: Step, drift: Drift | None, *, has_passed: bool
) -> tuple[str, str]:
    """Return who chose the step, and the reason. Only a test that passed has healed its
    recording.
    """
    planner = trace.started.planner
    if drift:
        return (
            "healed" if has_passed else NOT_HEALED
        ), f"the recording did not fit any more: {drift.problem}"
    if planner == "manual":
        return "manual", ""
    if not step.model and (planner.startswith("recording") or "scripted" in planner):
        return "replayed" if planner.startswith("recording") else "scripted", ""
    return "live", f"by {step.model or planner}" if step.model or planner else ""


def _step_badges(step: Step) -> list[Badge]:
    if step.ruling.kind == "deny":
        return [Badge("denied", "bad")]
    if step.ruling.kind == "ask":
        return [Badge("waits for approval", "doubt")]
    return [Badge("failed", "bad")] if step.error else []


def _spans(
    step: Step, asked_s: float, judged_s: float, *, is_replay: bool
) -> list[tuple[str, float]]:
    """Return the activities of a step in their order, each with its seconds.

    Before a recorded step comes the wait for its gate, then perhaps the question to a
    model that continues. After a recorded step comes the wait for the gate of the next
    one.
    """
    times = step.times
    asked_s = min(asked_s, times.model_s) if is_replay else times.model_s
    spans = [
        ("gate", times.model_s - asked_s),
        ("model", asked_s),
        ("act", times.act_s),
        ("settle" if step.model or not is_replay else "next gate", times.settle_s),
        ("capture", times.capture_s),
        ("judge", judged_s),
    ]
    return [(name, seconds) for name, seconds in spans if seconds > 0]


def _bars(spans: Sequence[tuple[str, float]], max_s: float) -> list[Bar]:
    bars, start = [], 0.0
    for name, seconds in spans:
        bars.append(
            Bar(
                name,
                round(1000 * start / max_s),
                max(round(1000 * seconds / max_s), 2),
                seconds,
            )
        )
        start += seconds
    return bars
