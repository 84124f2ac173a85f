"""A run folder as one block of HTML, for the cell that pytest-html gives a test.

The block brings its style and needs no script. Its pictures are SVG images and its classes begin with `vnc-`, because
pytest-html's own script takes the first `img` of the cell, and names such as `log` or `media`, for its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from html import escape
from importlib.resources import files
from pathlib import Path

from pytest_vnc_use.errors import RunFolderError
from pytest_vnc_use.report import words
from pytest_vnc_use.report.links import Link
from pytest_vnc_use.report.picture import mark_action, mark_region
from pytest_vnc_use.report.words import Tone
from pytest_vnc_use.trace import RunFolder, Trace, read_trace
from pytest_vnc_use.types import FrameRef, Step, Verdict, VerdictKind

_STYLE = files(__package__).joinpath("run.css").read_text("utf-8")
_VERDICT_TONES: dict[VerdictKind, Tone] = {"holds": "good", "fails": "bad", "unsure": "doubt"}
_UNFINISHED = "begun and never finished: whether it took effect is unknown"

Draw = Callable[[bytes], bytes]
Show = Callable[[FrameRef, Draw], str]
"""From a stored frame, and what to draw on it, to HTML."""


def run_html(run_folder: Path, *, link: Link) -> str:
    """The whole run: who decided and how it ended, every step with its picture, the last frame, the verdicts.

    Everything that the task, the planner or an error says is escaped. What is missing or damaged in the run folder is
    told in the block. `link` may raise OSError where it writes files (see `links`).
    """
    try:
        trace = read_trace(run_folder)
    except RunFolderError as exc:
        return _block(f"{_badge('cannot be shown', 'bad')}{_p('error', str(exc))}")
    show = partial(_picture, RunFolder(run_folder), link)
    figures = [*_step_figures(trace, show), _end_figure(trace, show), *_verdict_figures(trace, show)]
    return _block(f'{_head(trace)}<div class="vnc-grid">{"".join(figures)}</div>')


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


# --- what is told -----------------------------------------------------------------------------------------------------


def _head(trace: Trace) -> str:
    verdicts = (_badge(f"claim {verdict.kind}", _VERDICT_TONES[verdict.kind]) for verdict in trace.verdicts)
    facts = {name: text for name, text in _facts(trace).items() if text}
    rows = "".join(f"<dt>{name}</dt><dd>{escape(text)}</dd>" for name, text in facts.items())
    return f"<h3>{escape(trace.started.task)}</h3>{_ending(trace, *verdicts)}<dl>{rows}</dl>"


def _facts(trace: Trace) -> dict[str, str]:
    retries = sum(exchange.retry_in_s is not None for exchange in trace.exchanges)
    return {
        "planner": words.planner_in_words(trace),
        "verdicts": "" if trace.verdicts else "none, no claim was judged",
        "steps": f"{len(trace.steps)} of at most {trace.started.limits.steps}",
        "tokens": words.usage_in_words(trace),
        "retries": f"{retries} among {len(trace.exchanges)} requests to a model" if retries else "",
        "steps took": words.duration_in_words(trace),
        "started": trace.started.started_at,
        "desktop": trace.started.server,
        "run folder": str(trace.path),
    }


def _ending(trace: Trace, *badges: str) -> str:
    outcome, tone = words.outcome_in_words(trace)
    told = _p("message", trace.ended.message) + _p("error", trace.ended.error) if trace.ended else ""
    return f"<div>{_badge(outcome, tone)}{''.join(badges)}</div>{told}"


def _step_figures(trace: Trace, show: Show) -> Iterator[str]:
    for step in _all_steps(trace):
        state, tone = _state(step)
        picture = show(step.frame_before, partial(mark_action, action=step.proposal.action))
        yield _figure(tone, picture, _step_title(step, _badge(state, tone) if state else ""), _step_story(step))


def _all_steps(trace: Trace) -> tuple[Step, ...]:
    """The steps that are over, and the one that was begun or waits for an answer."""
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
    return f'<p class="vnc-what">{badge}{step.number}. {escape(words.action_in_words(step.proposal.action))}</p>'


def _step_story(step: Step) -> str:
    is_told_by_ruling = step.ruling.kind == "deny"
    return (
        _p("reason", step.proposal.intent or step.words)
        + _p("ruling", words.ruling_in_words(step.ruling))
        + _p("error", "" if is_told_by_ruling else step.error)
        + _p("output", f"returned: {step.output}" if step.output else "")
        + _p("note", f"the planner is told: {step.note}" if step.note else "")
        + _p("small", words.timing_in_words(step))
    )


def _end_figure(trace: Trace, show: Show) -> str:
    _, tone = words.outcome_in_words(trace)
    what = "The last frame" if trace.steps else "The first frame; no step was taken"
    return _figure(tone, show(_last_frame(trace), _undrawn), f'<p class="vnc-what">{what}</p>', _ending(trace))


def _verdict_figures(trace: Trace, show: Show) -> Iterator[str]:
    for verdict in trace.verdicts:
        tone = _VERDICT_TONES[verdict.kind]
        title = f'<p class="vnc-what">{_badge(verdict.kind, tone)}{escape(verdict.claim)}</p>'
        judge = f"judged by {verdict.model}" if verdict.model else "no model judged"
        picture = _verdict_picture(verdict, _last_frame(trace), show)
        yield _figure(tone, picture, title, _p("reason", verdict.reason), _p("small", judge))


def _verdict_picture(verdict: Verdict, last: FrameRef, show: Show) -> str:
    """Empty where it would repeat the last frame."""
    frame = verdict.frame or last
    if verdict.region:
        return show(frame, partial(mark_region, region=verdict.region))
    return show(frame, _undrawn) if frame != last else ""
