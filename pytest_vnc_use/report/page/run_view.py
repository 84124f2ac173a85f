"""The page of a run: its result, the deciding difference, its steps and its claims."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_vnc_use.errors import RunFolderError
from pytest_vnc_use.report import phrases
from pytest_vnc_use.report.page.model import Badge, ClaimView, Pair, RunLine, RunView
from pytest_vnc_use.report.page.shots import Shots
from pytest_vnc_use.report.page.step_view import step_views
from pytest_vnc_use.report.page.text import short, without_place
from pytest_vnc_use.report.phrases import Tone
from pytest_vnc_use.runs.folder import EndedTest, Trace, read_ended_test, read_logs, read_trace
from pytest_vnc_use.runs.transcript import outcome_of
from pytest_vnc_use.types import Judged, Outcome, Reading, RunEnded, Step, Verdict, VerdictKind

VERDICT_TONES: dict[VerdictKind, Tone] = {"holds": "good", "fails": "bad", "unsure": "doubt"}
RESULT_TONES: dict[str, Tone] = {"passed": "good", "failed": "bad", "error": "bad", "xpassed": "doubt"}
DID_NOT_END = "did not end"
_PRINTED_LINES = 200
_PRINTED_MOST = 50_000


@dataclass(frozen=True)
class RunPage:
    """A run with its page. `trace` and `ended` are None if there is none, or it cannot be read.

    `made` has the pictures that the page adds, by address. The writer clears it, because they are large.

    `is_result_damaged` says that a result is written, and cannot be read. `unwritten` says why its page is not written.
    """

    path: Path
    view: RunView
    made: dict[str, bytes]
    trace: Trace | None = None
    ended: EndedTest | None = None
    is_result_damaged: bool = False
    unwritten: str = ""

    def line(self, page: str) -> RunLine:
        """Return the run for the list of the session; `page` is the address of its page."""
        trace, view = self.trace, self.view
        pair = view.deciding
        return RunLine(
            run_id=view.run_id,
            page=page,
            task=short(view.task, 300),
            deciding=pair,
            deciding_text=view.deciding_text,
            difference=pair.name if pair and trace and _failing_drift(trace) else "",
            ways=dict(Counter(step.way for step in view.steps)),
            claims=dict(Counter(verdict.kind for verdict in trace.verdicts)) if trace else {},
            duration_s=_seconds(trace) if trace else 0.0,
            dollars=trace.dollars if trace else None,
        )


@dataclass(frozen=True)
class _Deciding:
    """The two screens that explain the result, a sentence about them, and the number of their step."""

    pair: Pair
    text: str
    step: int = 0
    where: str = "at"


def show_run(path: Path, *, quick: bool = False, pack: bool = False) -> RunPage:
    """Return the page of a run folder; it says what is missing or damaged.

    With `quick` the screens of a test that did not fail are not compared: that takes most of the time. `pack` is that
    of `Shots`.
    """
    damage: list[str] = []
    damage_of_trace: list[str] = []
    ended = None
    try:
        ended = read_ended_test(path)
    except RunFolderError as exc:
        damage.append(without_place(exc, path))
    is_fine = ended is not None and not ended.is_bad
    shots = Shots(path, ended.pictures if ended else "", quick=quick and is_fine, pack=pack)
    try:
        trace = read_trace(path, damage_of_trace)
    except RunFolderError as exc:
        return RunPage(path, _problem_view(path, exc, ended), shots.made, None, ended)
    view = _view(trace, ended, shots, [*damage, *damage_of_trace])
    return RunPage(path, view, shots.made, trace, ended, is_result_damaged=bool(damage))


def _problem_view(path: Path, error: RunFolderError, ended: EndedTest | None) -> RunView:
    """Return a run without a screen, and why it has none."""
    badge = Badge("never started" if error.never_started else "cannot be shown", "bad")
    why = short(without_place(error.never_started or error, path))
    test = short(ended.test if ended else "", 500)
    return RunView(path.name, test, "", [badge], "", problem=why, never_started=bool(error.never_started))


def _view(trace: Trace, ended: EndedTest | None, shots: Shots, damage: list[str]) -> RunView:
    steps = trace.all_steps
    has_passed = ended is not None and ended.result == "passed"
    # before the deciding pair, which has the screens of the last of them
    views = step_views(trace, steps, shots, has_passed=has_passed)
    deciding = _deciding(trace, steps, shots)
    sentence, rule = _sentence(trace, ended)
    outcome = Badge("not as recorded", "bad") if _failing_drift(trace) else Badge(*phrases.outcome_in_words(trace))
    verdicts = [Badge(f"claim {verdict.kind}", VERDICT_TONES[verdict.kind]) for verdict in trace.verdicts[:8]]
    result = [Badge(short(ended.result, 40), RESULT_TONES.get(ended.result, "plain"))] if ended else []
    if ended is None and trace.started.test_id:
        result = [Badge(DID_NOT_END, "bad")]
    triage = [Badge(short(ended.triage, 40), "bad" if ended.is_bad else "plain")] if ended and ended.triage else []
    return RunView(
        run_id=trace.path.name,
        test=short(trace.started.test_id or (ended.test if ended else ""), 500),
        task=short(trace.started.task),
        badges=[*result, *triage, outcome, *verdicts],
        sentence=short(sentence),
        rule=short(rule, 300),
        deciding=deciding.pair if deciding else None,
        deciding_text=short(deciding.text) if deciding else "",
        deciding_step=deciding.step if deciding else 0,
        deciding_where=deciding.where if deciding else "",
        facts=[(name, short(text, 500)) for name, text in _facts(trace, ended) if text],
        steps=[replace(each, is_deciding=deciding is not None and each.number == deciding.step) for each in views],
        claims=[*_claims(trace, shots), *_readings(trace, shots)],
        damage=[short(each, 500) for each in damage],
        printed=_logs_of(trace.path),
        failure=short(ended.failure, 20_000) if ended else "",
    )


def _failing_drift(trace: Trace) -> bool:
    return any(not drift.healed for drift in trace.drifts)


# --- what it came to --------------------------------------------------------------------------------------------------


def _sentence(trace: Trace, ended: EndedTest | None) -> tuple[str, str]:
    """Return the result of the run in words, and the rule that decided it."""
    message = ""
    if trace.ended:
        first_line = trace.ended.error.partition("\n")[0]
        message = ": ".join(filter(None, [trace.ended.message, first_line]))
    if _failing_drift(trace):
        message = trace.drifts[-1].problem
    if ended is None and trace.started.test_id:
        return f"The test did not end, or its result is lost. Of its run: {message or 'it did not end'}", ""
    if ended is None:
        return message or "no test's result is written here", ""
    what = f"The test {_RESULTS.get(ended.result, ended.result)}"
    if ended.phase != "call" and ended.is_bad:
        what += f" in its {ended.phase}"
    return f"{what}: {ended.message or message}" if ended.message or message else what, ended.rule


_RESULTS = {
    "error": "broke",
    "skipped": "was skipped",
    "xfailed": "failed, as it was expected to",
    "xpassed": "passed, and was expected to fail",
}


def _facts(trace: Trace, ended: EndedTest | None) -> Iterator[tuple[str, str]]:
    yield "planner", phrases.planner_in_words(trace)
    yield "steps", f"{len(trace.steps)} of at most {trace.started.limits.steps}"
    yield "time", f"{_seconds(trace):.1f} s"
    yield "cost", "none" if trace.dollars is None and not trace.exchanges else phrases.usage_in_words(trace)
    yield "verdicts", "" if trace.verdicts else phrases.unjudged_in_words(trace)
    yield "attempt", f"{ended.attempt}" if ended and ended.attempt > 1 else ""
    yield "rehearsal", "of the recording that the test had just made" if ended and ended.is_rehearsal else ""
    yield "worker", ended.worker if ended else ""
    yield "retries", phrases.retries_in_words(trace)
    yield "asked again because", phrases.reasons_for_retries(trace)
    yield "answers thrown away", phrases.thrown_away_in_words(trace)
    yield "started", trace.started.started_at
    yield "desktop", trace.started.server


def _seconds(trace: Trace) -> float:
    """Return the seconds of the run by its events, or, for older traces, those of its steps."""
    at_s = [each.at_s for each in trace.events if each.at_s is not None]
    times = [step.times for step in trace.steps]
    return max(at_s, default=sum(each.model_s + each.act_s + each.settle_s + each.capture_s for each in times))


# --- what decided it --------------------------------------------------------------------------------------------------


def _deciding(trace: Trace, steps: tuple[Step, ...], shots: Shots) -> _Deciding | None:
    """Return the difference that failed the run, or else the screens that a reviewer would look at first."""
    drifts = [drift for drift in trace.drifts if not drift.healed]
    if drifts:
        drift = drifts[-1]
        pair = shots.pair(("recorded", "now"), (drift.recorded, drift.seen), region=drift.region)
        return _Deciding(pair, drift.problem, len(trace.steps), "after")
    has_broken_off = trace.ended is not None and trace.ended.outcome is not Outcome.DONE
    verdicts = _verdicts_after_end(trace) if has_broken_off else trace.verdicts
    judged = [verdict for verdict in verdicts if verdict.kind != "holds"]
    if judged:
        return _by_verdict(trace, judged[0], shots)
    if trace.transients and not has_broken_off:
        transient = trace.transients[-1]
        refs = trace.last_frame, transient.seen
        pair = shots.pair(("at the end", "for a moment"), refs, region=transient.region)
        return _Deciding(pair, transient.problem, len(steps))
    return _by_step(trace, steps, shots)


def _verdicts_after_end(trace: Trace) -> list[Verdict]:
    """Return the verdicts after the run's end: those before it did not end a run that was not done."""
    events = [timed.event for timed in trace.events]
    end = max(number for number, event in enumerate(events) if isinstance(event, RunEnded))
    return [event.verdict for event in events[end:] if isinstance(event, Judged)]


def _by_verdict(trace: Trace, verdict: Verdict, shots: Shots) -> _Deciding:
    seen = verdict.frame or trace.last_frame
    earlier = trace.steps[-1].frame_before if trace.steps else trace.started.screen
    pair = shots.pair(("before the last step", "when it was judged"), (earlier, seen), judged=verdict.region)
    text = f"The claim {verdict.claim!r} {_VERDICTS[verdict.kind]}: {verdict.reason}"
    return _Deciding(pair, text, len(trace.steps))


_VERDICTS: dict[VerdictKind, str] = {"holds": "holds", "fails": "fails", "unsure": "could not be judged"}


def _by_step(trace: Trace, steps: tuple[Step, ...], shots: Shots) -> _Deciding | None:
    """Return the last step, which is the one that failed or was denied, if any did; after the error of a broken run."""
    error = trace.ended.error.partition("\n")[0] if trace.ended else ""
    why = f"{error}; " if error else ""
    if not steps:
        shot = shots.shot(trace.started.screen, "the first screen")
        return _Deciding(Pair(shot, shot, "first screen", "first screen"), f"{why}no step was taken")
    last = steps[-1]
    refs = last.frame_before, last.frame_after
    pair = shots.pair(("before", "after"), refs, action=last.proposal.action)
    text = f"{why}the last step: {phrases.action_in_words(last.proposal.action, last.elements)}"
    return _Deciding(pair, f"{text}; {last.error}" if last.error else text, last.number)


# --- claims and output ------------------------------------------------------------------------------------------------


def _claims(trace: Trace, shots: Shots) -> Iterator[ClaimView]:
    for verdict in trace.verdicts:
        badge = Badge(verdict.kind, VERDICT_TONES[verdict.kind])
        reason, judging = short(verdict.reason), short(phrases.judging_in_words(verdict), 500)
        yield ClaimView(short(verdict.claim), badge, reason, judging, _judged_pair(trace, verdict, shots))


def _readings(trace: Trace, shots: Shots) -> Iterator[ClaimView]:
    for each in trace.extracted:
        reading = each.reading
        badge = Badge(f"it is no {each.form}", "doubt") if each.problem else Badge(f"read as {each.form}")
        value = short(json.dumps(reading.value, ensure_ascii=False, default=str))
        reason = ": ".join(filter(None, [value, each.problem, reading.reason]))
        by = f"read by {reading.model}"
        yield ClaimView(short(reading.question), badge, short(reason), by, _judged_pair(trace, reading, shots))


def _judged_pair(trace: Trace, judged: Verdict | Reading, shots: Shots) -> Pair | None:
    """Return the judged screen, whole and the part that the judge named."""
    ref = judged.frame or trace.last_frame
    return shots.pair(("judged", "judged"), (ref, ref), judged=judged.region)


def _logs_of(path: Path) -> list[tuple[str, str]]:
    try:
        logs = read_logs(path)
    except OSError as exc:
        return [("logs", f"cannot be read: {exc}")]
    return [(role, _end(text)) for role, text in logs.items()]


def _end(text: str) -> str:
    page = phrases.last_lines(text, _PRINTED_LINES)
    if len(page) <= _PRINTED_MOST:
        return page
    return f"(the last {_PRINTED_MOST} of {len(page)} characters) {page[-_PRINTED_MOST:]}"


def outcome_word(page: RunPage) -> str:
    """Return the result of the test; for a run that no test made, how the run ended."""
    if page.ended:
        return page.ended.result
    if page.trace is None or page.is_result_damaged:
        return "unreadable"
    return DID_NOT_END if page.trace.started.test_id else outcome_of(page.trace)
