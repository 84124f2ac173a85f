"""A run folder as one block of HTML, for the cell that pytest-html gives a test.

The block brings its style and needs no script. Its pictures are SVG images and its classes begin with `vnc-`, because
pytest-html's script uses the first `img` of the cell and class names such as `log` and `media`. This file makes what
the template `run.html.j2` shows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.resources import files
from itertools import groupby
from pathlib import Path

from pytest_vnc_use.errors import RunFolderError
from pytest_vnc_use.plain_text import cut
from pytest_vnc_use.report import phrases
from pytest_vnc_use.report.annotate import action_path, region_path
from pytest_vnc_use.report.assets import Link
from pytest_vnc_use.report.page.model import Badge, Box
from pytest_vnc_use.report.page.pictures import Screens, around
from pytest_vnc_use.report.phrases import Tone
from pytest_vnc_use.report.templates import render
from pytest_vnc_use.runs.folder import RunFolder, Trace, read_logs, read_trace
from pytest_vnc_use.runs.transcript import Caption, CaptionPart
from pytest_vnc_use.types import FrameRef, Reading, Region, Step, Verdict, VerdictKind

_STYLE = files(__package__).joinpath("run.css").read_text("utf-8")
_VERDICT_TONES: dict[VerdictKind, Tone] = {"holds": "good", "fails": "bad", "unsure": "doubt"}
_PRINTED_LINES = 200
_LEAST_PART = (480, 300)
"""The least part of a screen that is shown of a drift, in its pixels: all of it is read easily at a figure's width."""

Line = tuple[str, str]
"""A paragraph: its class without `vnc-`, and its text. One without text is left out."""


@dataclass(frozen=True)
class Picture:
    """The address and the size of a picture in pixels, or why there is none.

    `mark` is the drawing over it, and `frame` a thin border around a part of it, as the data of an SVG path. `zoom` is
    the transform, in CSS, that shows only a part, as long as the picture is not enlarged.
    """

    address: str = ""
    width: int = 0
    height: int = 0
    problem: str = ""
    mark: str = ""
    frame: str = ""
    zoom: str = ""


@dataclass(frozen=True)
class Figure:
    """A picture with its caption: badge and title, lines, and under them `transients`. `marks` stand over the lines.

    `step` is the number of its step, 0 if it is of none. `crop` is a picture of the place of a step that
    nothing names; it stands beside the title.
    """

    tone: Tone
    picture: Picture | None
    title: str | Caption
    lines: Sequence[Line]
    badge: Badge | None = None
    marks: Sequence[Badge] = ()
    transients: Sequence[Picture] = ()
    step: int = 0
    crop: Picture | None = None


@dataclass(frozen=True)
class FigureGroup:
    """Figures that stand side by side. Those of one turn have its title and reason."""

    figures: Sequence[Figure]
    title: str = ""
    reason: str = ""


Show = Callable[[FrameRef], Picture]
"""A function from a stored frame to its picture."""


def run_html(
    run_folder: Path, *, link: Link, machine: str = "", page: str = "", sentence: str = "", are_thumbs: bool = False
) -> str:
    """Return the whole run: outcome, drifts, each step with its picture, the last frame, verdicts and readings.

    The block says what is missing or damaged in the run folder. `machine` is the machine that has the run folder, if
    the reader may be on another. `page` is the address of the run's own page, `sentence` the message of its test. With
    `are_thumbs` the pictures are small, and lead to that page at their step. Raises OSError if `link` writes files and
    cannot (see `assets`).
    """
    try:
        trace = read_trace(run_folder)
    except RunFolderError as exc:
        badge = Badge("never started" if exc.never_started else "cannot be shown", "bad")
        return render("run", style=_STYLE, problem=badge, problem_text=exc.never_started or str(exc))
    verdicts = [Badge(f"claim {verdict.kind}", _VERDICT_TONES[verdict.kind]) for verdict in trace.verdicts]
    return render(
        "run",
        style=_STYLE,
        problem=None,
        task=trace.started.task,
        marks=[_outcome(trace), *verdicts],
        lines=_ending(trace),
        facts={name: text for name, text in _facts(trace, machine).items() if text},
        groups=list(_groups(trace, partial(_picture, Screens(RunFolder(run_folder)), link))),
        page=page,
        sentence=sentence,
        are_thumbs=are_thumbs,
        printed=[(role, phrases.last_lines(text, _PRINTED_LINES)) for role, text in read_logs(run_folder).items()],
    )


def _groups(trace: Trace, show: Show) -> Iterator[FigureGroup]:
    """Yield what decided the run, its turns, and its end with what was judged there."""
    verdicts = trace.verdicts
    bad = [_verdict_figure(each, trace, show, is_first=True) for each in verdicts if each.kind != "holds"]
    held = [_verdict_figure(each, trace, show) for each in verdicts if each.kind == "holds"]
    if decided := [*_drift_figures(trace, show), *bad]:
        yield FigureGroup(decided)
    yield from _turns(trace, show)
    transients, readings = _transient_figures(trace, show), _reading_figures(trace, show)
    yield FigureGroup([_end_figure(trace, show), *transients, *held, *readings])


def _picture(screens: Screens, link: Link, ref: FrameRef) -> Picture:
    try:
        return Picture(link(screens.png(ref)), ref.width, ref.height)
    except RunFolderError as exc:
        return Picture(problem=f"no picture: {exc}")


def _with_border(picture: Picture, region: Region | None) -> Picture:
    if region is None or picture.problem:
        return picture
    return replace(picture, frame=region_path(region, (picture.width, picture.height)))


def _zoomed(picture: Picture, region: Region | None) -> Picture:
    """Return a picture with a border around a region. Only the region and its surroundings are shown."""
    if region is None or picture.problem:
        return picture
    box = Box(region.left, region.top, region.right - region.left, region.bottom - region.top)
    part = around((box,), (picture.width, picture.height), _LEAST_PART)
    scale = min(picture.width / part.width, picture.height / part.height)
    x = _start(part.x + part.width / 2, picture.width / scale, picture.width)
    y = _start(part.y + part.height / 2, picture.height / scale, picture.height)
    return replace(_with_border(picture, region), zoom=f"scale({scale:.3f}) translate({-x:.1f}px, {-y:.1f}px)")


def _start(middle: float, length: float, most: int) -> float:
    """Return where a part of this length begins, if it is to be around `middle` and end before `most`."""
    return min(max(middle - length / 2, 0.0), most - length)


# --- the parts of the block -------------------------------------------------------------------------------------------


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


def _outcome(trace: Trace) -> Badge:
    if any(not drift.healed for drift in trace.drifts):
        return Badge("not as recorded", "bad")
    return Badge(*phrases.outcome_in_words(trace))


def _ending(trace: Trace) -> list[Line]:
    return [("message", trace.ended.message), ("error", trace.ended.error)] if trace.ended else []


def _turns(trace: Trace, show: Show) -> Iterator[FigureGroup]:
    """Yield the turns. The steps of one turn are below the text that they share."""
    for _, of_turn in groupby(trace.all_steps, key=lambda step: step.turn):
        steps = tuple(of_turn)
        words = steps[0].words
        if len(steps) == 1:
            yield FigureGroup([_step_figure(steps[0], words, show)])
        else:
            yield FigureGroup([_step_figure(step, "", show) for step in steps], phrases.turn_in_words(steps), words)


def _step_figure(step: Step, reason: str, show: Show) -> Figure:
    state, tone = _state(step)
    picture = show(step.frame_before)
    if not picture.problem:
        picture = replace(picture, mark=action_path(step.proposal.action, (picture.width, picture.height)))
    return Figure(
        tone,
        picture,
        (CaptionPart(f"{step.number}. "), *(replace(part, text=cut(part.text)) for part in phrases.caption_of(step))),
        _step_lines(step, reason),
        badge=Badge(state, tone) if state else None,
        transients=[show(frame) for frame in step.passed],
        step=step.number,
        crop=show(step.crop) if step.crop and not phrases.is_named(step) else None,
    )


def _state(step: Step) -> tuple[str, Tone]:
    if step.ruling.kind == "deny":
        return "denied", "bad"
    if step.ruling.kind == "ask":
        return "waits for a yes", "doubt"
    return ("failed", "bad") if step.error else ("", "plain")


def _step_lines(step: Step, reason: str) -> list[Line]:
    is_denied = step.ruling.kind == "deny"
    return [
        ("reason", step.proposal.intent or reason),
        ("ruling", phrases.ruling_in_words(step.ruling)),
        ("error", "" if is_denied else step.error),
        ("output", f"returned: {step.output}" if step.output else ""),
        ("note", f"the planner is told: {step.note}" if step.note else ""),
        ("small", phrases.timing_in_words(step)),
    ]


def _end_figure(trace: Trace, show: Show) -> Figure:
    outcome = _outcome(trace)
    title = "The last frame" if trace.steps else "The first frame; no step was taken"
    return Figure(outcome.tone, show(trace.last_frame), title, _ending(trace), marks=[outcome])


def _drift_figures(trace: Trace, show: Show) -> Iterator[Figure]:
    """Yield the recorded screen and the current one, side by side. Whether the test passes is not known yet."""
    for drift in trace.drifts:
        badge = Badge("a model went on", "doubt") if drift.healed else Badge("not as recorded", "bad")
        for name, frame in (("as recorded", drift.recorded), ("now", drift.seen)):
            yield Figure(badge.tone, _zoomed(show(frame), drift.region), name, [("reason", drift.problem)], badge)


def _transient_figures(trace: Trace, show: Show) -> Iterator[Figure]:
    """Yield the transient frames that were not recorded."""
    for transient in trace.transients:
        picture = _with_border(show(transient.seen), transient.region)
        badge = Badge("for a moment", "doubt")
        yield Figure("doubt", picture, "not when it was recorded", [("reason", transient.problem)], badge)


def _verdict_figure(verdict: Verdict, trace: Trace, show: Show, *, is_first: bool = False) -> Figure:
    """Return a verdict with the judged screen. The first verdict always has it; a later one does not repeat it."""
    badge = Badge(verdict.kind, _VERDICT_TONES[verdict.kind])
    lines = [("reason", verdict.reason), ("small", phrases.judging_in_words(verdict))]
    picture = _judged_picture(verdict, None if is_first else trace.last_frame, trace.last_frame, show)
    return Figure(badge.tone, picture, verdict.claim, lines, badge)


def _reading_figures(trace: Trace, show: Show) -> Iterator[Figure]:
    for each in trace.extracted:
        reading = each.reading
        badge = Badge(f"it is no {each.form}", "doubt") if each.problem else Badge(f"read as {each.form}", "plain")
        lines = [
            ("output", f"read: {json.dumps(reading.value, ensure_ascii=False)}"),
            ("error", each.problem),
            ("reason", reading.reason),
            ("small", f"read by {reading.model}"),
        ]
        yield Figure(
            badge.tone,
            _judged_picture(reading, trace.last_frame, trace.last_frame, show),
            reading.question,
            lines,
            badge,
        )


def _judged_picture(judged: Verdict | Reading, earlier: FrameRef | None, last: FrameRef, show: Show) -> Picture | None:
    """Return the picture of the judged region; None if it would repeat the frame that is `earlier` already."""
    frame = judged.frame or last
    if judged.region:
        return _with_border(show(frame), judged.region)
    return show(frame) if frame != earlier else None
