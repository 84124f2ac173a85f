"""A run folder as one block of HTML, for the cell that pytest-html gives a test.

The block brings its style and needs no script. Its pictures are SVG images and its classes begin with `vnc-`, because
pytest-html's own script takes the first `img` of the cell, and names such as `log` or `media`, for its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from html import escape
from importlib.resources import files
from itertools import groupby
from pathlib import Path

from pytest_vnc_use.errors import RunFolderError
from pytest_vnc_use.plain_text import cut
from pytest_vnc_use.report import phrases
from pytest_vnc_use.report.annotate import mark_action, mark_region
from pytest_vnc_use.report.assets import Link
from pytest_vnc_use.report.phrases import Tone
from pytest_vnc_use.runs.folder import RunFolder, Trace, read_trace
from pytest_vnc_use.runs.program_logs import read_logs
from pytest_vnc_use.types import FrameRef, Reading, Step, Verdict, VerdictKind

_STYLE = files(__package__).joinpath("run.css").read_text("utf-8")
_VERDICT_TONES: dict[VerdictKind, Tone] = {"holds": "good", "fails": "bad", "unsure": "doubt"}
_PRINTED_LINES = 200
_UNFINISHED = "begun and never finished: whether it took effect is unknown"

Draw = Callable[[bytes], bytes]
Show = Callable[[FrameRef, Draw], str]
"""A function from a stored frame, and a drawing on it, to HTML."""


def run_html(run_folder: Path, *, link: Link, machine: str = "") -> str:
    """Return the whole run: planner and outcome, each step with its picture, the last frame, verdicts and readings.

    All text of the task, the planner or an error is escaped. The block says what is missing or damaged in the run
    folder. `machine` is the machine that has the run folder, if the reader may be on another. Raises OSError if `link`
    writes files and cannot (see `assets`).
    """
    try:
        trace = read_trace(run_folder)
    except RunFolderError as exc:
        return _block(f"{_badge('cannot be shown', 'bad')}{_p('error', str(exc))}")
    show = partial(_picture, RunFolder(run_folder), link)
    other = [*_drift_figures(trace, show), *_transient_figures(trace, show)]
    judged = [*other, *_verdict_figures(trace, show), *_reading_figures(trace, show)]
    figures = [*_turns(trace, show), _end_figure(trace, show), *judged]
    return _block(f'{_head(trace, machine)}<div class="vnc-grid">{"".join(figures)}</div>{_printed(run_folder)}')


def _block(content: str) -> str:
    return f'<style>{_STYLE}</style><div class="vnc-run">{content}</div>'


def _p(kind: str, text: str) -> str:
    return f'<p class="vnc-{kind}">{escape(text)}</p>' if text else ""


def _badge(text: str, tone: Tone) -> str:
    return f'<span class="vnc-badge vnc-{tone}">{escape(text)}</span>'


def _figure(tone: Tone, picture: str, *caption: str) -> str:
    return f'<figure class="vnc-{tone}">{picture}<figcaption>{"".join(caption)}</figcaption></figure>'


def _picture(folder: RunFolder, link: Link, ref: FrameRef, draw: Draw) -> str:
    try:
        address = link(draw(folder.load_png(ref)))
    except RunFolderError as exc:
        return _p("error", f"no picture: {exc}")
    image = f'<image href="{escape(address)}" width="{ref.width}" height="{ref.height}"/>'
    svg = f'<svg viewBox="0 0 {ref.width} {ref.height}" role="img">{image}</svg>'
    shape = f"aspect-ratio: {ref.width} / {ref.height}"
    return f'<details class="vnc-shot" style="{shape}"><summary title="enlarge, or back">{svg}</summary></details>'


def _undrawn(png: bytes) -> bytes:
    return png


# --- the parts of the block -------------------------------------------------------------------------------------------


def _head(trace: Trace, machine: str) -> str:
    verdicts = (_badge(f"claim {verdict.kind}", _VERDICT_TONES[verdict.kind]) for verdict in trace.verdicts)
    facts = {name: text for name, text in _facts(trace, machine).items() if text}
    rows = "".join(f"<dt>{name}</dt><dd>{escape(text)}</dd>" for name, text in facts.items())
    return f"<h3>{escape(trace.started.task)}</h3>{_ending(trace, *verdicts)}<dl>{rows}</dl>"


def _facts(trace: Trace, machine: str) -> dict[str, str]:
    return {
        "planner": phrases.planner_in_words(trace),
        "verdicts": "" if trace.verdicts else phrases.unjudged_in_words(trace),
        "steps": f"{len(trace.steps)} of at most {trace.started.limits.steps}",
        "tokens": phrases.usage_in_words(trace),
        "retries": phrases.retries_in_words(trace),
        "asked again because": phrases.reasons_for_retries(trace),
        "answers thrown away": phrases.thrown_away_in_words(trace),
        "steps took": phrases.duration_in_words(trace),
        "started": trace.started.started_at,
        "desktop": trace.started.server,
        "run folder": str(trace.path),
        "on the machine": machine,
    }


def _ending(trace: Trace, *badges: str) -> str:
    outcome, tone = phrases.outcome_in_words(trace)
    told = _p("message", trace.ended.message) + _p("error", trace.ended.error) if trace.ended else ""
    return f"<div>{_badge(outcome, tone)}{''.join(badges)}</div>{told}"


def _printed(run_folder: Path) -> str:
    """Return the output of the desktop's processes, folded away: the last lines of each."""
    return "".join(
        f'<details class="vnc-printed"><summary>printed by: {escape(role)}</summary>'
        f"<pre>{escape(phrases.last_lines(text, _PRINTED_LINES))}</pre></details>"
        for role, text in read_logs(run_folder).items()
    )


def _turns(trace: Trace, show: Show) -> Iterator[str]:
    for _, steps in groupby(_all_steps(trace), key=lambda step: step.turn):
        yield _turn(tuple(steps), show)


def _turn(steps: Sequence[Step], show: Show) -> str:
    """Return the figures of a turn; several figures stand under the text that they share."""
    if len(steps) == 1:
        return _step_figure(steps[0], steps[0].words, show)
    figures = "".join(_step_figure(step, "", show) for step in steps)
    head = f'<p class="vnc-what">{escape(phrases.turn_in_words(steps))}</p>{_p("reason", steps[0].words)}'
    return f'<section class="vnc-turn">{head}<div class="vnc-grid">{figures}</div></section>'


def _step_figure(step: Step, reason: str, show: Show) -> str:
    state, tone = _state(step)
    picture = show(step.frame_before, partial(mark_action, action=step.proposal.action))
    title = _step_title(step, _badge(state, tone) if state else "")
    return _figure(tone, picture, title, _step_story(step, reason), _passed(step, show))


def _passed(step: Step, show: Show) -> str:
    if not step.passed:
        return ""
    pictures = "".join(show(frame, _undrawn) for frame in step.passed)
    return f'<p class="vnc-small">shown in between:</p><div class="vnc-passed">{pictures}</div>'


def _all_steps(trace: Trace) -> tuple[Step, ...]:
    """Return the finished steps, and the one that was begun or waits for an answer."""
    frame = _last_frame(trace)
    if trace.asked:
        asked = trace.asked
        return *trace.steps, Step(asked.number, len(trace.turns), asked.proposal, asked.ruling, frame, frame)
    if trace.open_step:
        begun = trace.open_step
        unfinished = Step(begun.number, begun.turn, begun.proposal, begun.ruling, frame, frame, error=_UNFINISHED)
        return *trace.steps, unfinished
    return trace.steps


def _last_frame(trace: Trace) -> FrameRef:
    return trace.steps[-1].frame_after if trace.steps else trace.started.screen


def _state(step: Step) -> tuple[str, Tone]:
    if step.ruling.kind == "deny":
        return "denied", "bad"
    if step.ruling.kind == "ask":
        return "waits for a yes", "doubt"
    return ("failed", "bad") if step.error else ("", "plain")


def _step_title(step: Step, badge: str) -> str:
    return f'<p class="vnc-what">{badge}{step.number}. {escape(cut(phrases.action_in_words(step.proposal.action)))}</p>'


def _step_story(step: Step, reason: str) -> str:
    is_told_by_ruling = step.ruling.kind == "deny"
    return (
        _p("reason", step.proposal.intent or reason)
        + _p("ruling", phrases.ruling_in_words(step.ruling))
        + _p("error", "" if is_told_by_ruling else step.error)
        + _p("output", f"returned: {step.output}" if step.output else "")
        + _p("note", f"the planner is told: {step.note}" if step.note else "")
        + _p("small", phrases.timing_in_words(step))
    )


def _end_figure(trace: Trace, show: Show) -> str:
    _, tone = phrases.outcome_in_words(trace)
    what = "The last frame" if trace.steps else "The first frame; no step was taken"
    return _figure(tone, show(_last_frame(trace), _undrawn), f'<p class="vnc-what">{what}</p>', _ending(trace))


def _drift_figures(trace: Trace, show: Show) -> Iterator[str]:
    """Yield the recorded screen and the current one, side by side."""
    for drift in trace.drifts:
        tone: Tone = "doubt" if drift.healed else "bad"
        state = "healed" if drift.healed else "not as recorded"
        mark = partial(mark_region, region=drift.region) if drift.region else _undrawn
        for name, frame in (("as recorded", drift.recorded), ("now", drift.seen)):
            title = f'<p class="vnc-what">{_badge(state, tone)}{name}</p>'
            yield _figure(tone, show(frame, mark), title, _p("reason", drift.problem))


def _transient_figures(trace: Trace, show: Show) -> Iterator[str]:
    """Yield the transient frames that were not recorded."""
    for transient in trace.transients:
        title = f'<p class="vnc-what">{_badge("for a moment", "doubt")}not when it was recorded</p>'
        picture = show(transient.seen, partial(mark_region, region=transient.region))
        yield _figure("doubt", picture, title, _p("reason", transient.problem))


def _verdict_figures(trace: Trace, show: Show) -> Iterator[str]:
    for verdict in trace.verdicts:
        tone = _VERDICT_TONES[verdict.kind]
        title = f'<p class="vnc-what">{_badge(verdict.kind, tone)}{escape(verdict.claim)}</p>'
        picture = _judged_picture(verdict, _last_frame(trace), show)
        judging = _p("small", phrases.judging_in_words(verdict))
        yield _figure(tone, picture, title, _p("reason", verdict.reason), judging)


def _reading_figures(trace: Trace, show: Show) -> Iterator[str]:
    for each in trace.extracted:
        reading = each.reading
        tone: Tone = "doubt" if each.problem else "plain"
        badge = _badge(f"it is no {each.form}" if each.problem else f"read as {each.form}", tone)
        title = f'<p class="vnc-what">{badge}{escape(reading.question)}</p>'
        read = _p("output", f"read: {json.dumps(reading.value, ensure_ascii=False)}")
        picture = _judged_picture(reading, _last_frame(trace), show)
        told = (_p("error", each.problem), _p("reason", reading.reason), _p("small", f"read by {reading.model}"))
        yield _figure(tone, picture, title, read, *told)


def _judged_picture(judged: Verdict | Reading, last: FrameRef, show: Show) -> str:
    """Return the picture of the judged region; empty if it would repeat the last frame."""
    frame = judged.frame or last
    if judged.region:
        return show(frame, partial(mark_region, region=judged.region))
    return show(frame, _undrawn) if frame != last else ""
