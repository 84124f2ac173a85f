"""The text about a run for a reader: of limited length, and without characters that
hide or reverse it.

Jinja2 escapes what is markup. `sanitize` makes control characters visible, and those
that change the direction of a text, so that a text cannot look like another.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, Literal

from pytest_vnc_use.plain_text import MAX_LENGTH, cut
from pytest_vnc_use.runs.directory import Trace
from pytest_vnc_use.types import (
    Outcome,
    Ruling,
    RulingKind,
    SettledReason,
    Usage,
    Verdict,
)

Tone = Literal["good", "bad", "doubt", "plain"]
"""The colour of a word. No outcome is good: only a verdict or the test's body can show
that the task was achieved.
"""

_RULINGS: dict[RulingKind, str] = {
    "allow": "allowed",
    "deny": "denied",
    "ask": "waits for approval",
}
SETTLED: dict[SettledReason, str] = {
    "settled": "the screen changed and became stable",
    "animated": "the screen became stable but for moving regions",
    "nothing_changed": "nothing changed on the screen",
    "limit": "the screen was still changing when the wait ran out",
}
_OUTCOMES: dict[Outcome, tuple[str, Tone]] = {
    Outcome.DONE: ("done, according to the planner", "plain"),
    Outcome.GAVE_UP: ("gave up", "doubt"),
    Outcome.STEP_LIMIT: ("step limit reached", "doubt"),
    Outcome.TIME_LIMIT: ("time limit reached", "doubt"),
    Outcome.BUDGET: ("budget used up", "doubt"),
    Outcome.DENIED: ("denied", "bad"),
    Outcome.BLOCKED: ("blocked", "bad"),
    Outcome.WAITING: ("waits for approval", "doubt"),
}
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\ufff0-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)
"""Control characters but tab and newline, invisible ones, bidi marks, halves of a
surrogate pair, tags.
"""


def sanitize(value: object) -> object:
    """Return a text with its hidden characters shown as `⟨U+202E⟩`; other values and
    finished HTML as they are.
    """
    if hasattr(value, "__html__") or not isinstance(value, str):
        return value
    text = value.replace("\r\n", "\n")
    return _HIDDEN.sub(lambda match: f"⟨U+{ord(match.group()):04X}⟩", text)


def short(text: object, max_length: int = MAX_LENGTH) -> str:
    """Return the text; if it is longer than `max_length` characters, its start and its
    length.
    """
    return cut(str(text), max_length)


def as_json(value: Any, max_length: int) -> str:
    """Return a JSON value as indented text of at most `max_length` characters."""
    try:
        text = json.dumps(value, ensure_ascii=False, indent=1, default=str)
    except RecursionError:
        return "(nested too deeply to be shown)"
    return short(text, max_length)


def without_parent_path(text: object, directory: Path) -> str:
    """Return the text without the path of a directory, because a shared page must not
    show it.
    """
    return str(text).replace(f"{directory.parent}{os.sep}", "")


def free_name(name: str, taken: set[str]) -> str:
    """Return the name, or, if it is taken, the first free one of `name-2`, `name-3`, …;
    mark it taken.

    Names that differ in case alone are one name: on some disks they are one file.
    """
    free = name
    number = 1
    while free.casefold() in taken:
        number += 1
        free = f"{name}-{number}"
    taken.add(free.casefold())
    return free


def format_ruling(ruling: Ruling) -> str:
    """Return text such as `denied by the policy: rule 1 'no deletes': …`; empty if the
    action was plainly harmless.
    """
    if ruling.kind == "allow" and ruling.rule == "harmless":
        return ""
    text = _RULINGS[ruling.kind]
    if ruling.kind != "ask":
        text += " by a user" if ruling.by == "user" else " by the policy"
    if ruling.rule not in ruling.explanation:
        text += f": {ruling.rule}"
    return f"{text}: {ruling.explanation}"


def format_outcome(trace: Trace) -> tuple[str, Tone]:
    """Return the outcome of the run, and its colour."""
    if trace.ended is None and trace.open_approval:
        return _OUTCOMES[Outcome.WAITING]
    if trace.ended is None:
        return "no end recorded: still running, or killed", "bad"
    outcome = trace.ended.outcome
    if outcome is None or trace.ended.error:
        return "failed with an error", "bad"
    if outcome is Outcome.DONE and trace.started.planner == "manual":
        return "done by a user", "plain"
    if outcome is Outcome.DONE and trace.is_replay and not trace.drifts:
        return "replayed as recorded", "plain"
    return _OUTCOMES[outcome]


def format_planner(trace: Trace) -> str:
    """Format who decided, or that no model did."""
    models = sorted({turn.decision.model for turn in trace.turns} - {""})
    name = trace.started.planner
    if "scripted" in name and not models:
        has_judge = any(verdict.model for verdict in trace.verdicts)
        return f"scripted planner, no model was asked{' to plan' if has_judge else ''}"
    unnamed = [model for model in models if model not in name]
    return f"{name}, answered by {', '.join(unnamed)}" if unnamed else name


def format_tokens(usage: Usage) -> str:
    """Return the tokens as text; empty if there are none."""
    if usage == Usage():
        return ""
    thinking = f" + {usage.thinking:,} thinking" if usage.thinking else ""
    return (
        f"{usage.input:,} input ({usage.cached:,} cached), {usage.output:,}"
        f" output{thinking}"
    )


def format_judging(verdict: Verdict) -> str:
    """Return who judged, with which votes, and on how many screens."""
    judge = f"judged by {verdict.model}" if verdict.model else "no model judged"
    votes = f"votes: {', '.join(verdict.votes)}" if len(verdict.votes) > 1 else ""
    screens = f"asked on {verdict.screens} screens" if verdict.screens > 1 else ""
    return "; ".join(filter(None, [judge, votes, screens]))
