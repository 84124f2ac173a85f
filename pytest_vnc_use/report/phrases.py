"""The text about a run for a reader; none of it is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pytest_vnc_use.runs.folder import Trace
from pytest_vnc_use.runs.transcript import (
    Caption,
    action_in_words as action_in_words,
    caption,
    is_named as is_named,
)
from pytest_vnc_use.types import Outcome, Ruling, RulingKind, SettledReason, Step, Usage, Verdict

Tone = Literal["good", "bad", "doubt", "plain"]
"""The colour of a word. No outcome is good: only a verdict or the test's body can say that the task was achieved."""

_LONGEST_REASON = 300
_RULINGS: dict[RulingKind, str] = {"allow": "allowed", "deny": "denied", "ask": "waits for a yes"}
_SETTLED: dict[SettledReason, str] = {
    "settled": "the screen changed and came to rest",
    "animated": "the screen came to rest but for moving parts",
    "nothing_changed": "nothing changed on the screen",
    "limit": "the screen was still changing when the wait ran out",
}
_OUTCOMES: dict[Outcome, tuple[str, Tone]] = {
    Outcome.DONE: ("done, says the planner", "plain"),
    Outcome.GAVE_UP: ("gave up", "doubt"),
    Outcome.STEP_LIMIT: ("step limit reached", "doubt"),
    Outcome.TIME_LIMIT: ("time limit reached", "doubt"),
    Outcome.BUDGET: ("budget used up", "doubt"),
    Outcome.DENIED: ("denied", "bad"),
    Outcome.BLOCKED: ("blocked", "bad"),
    Outcome.WAITING: ("waits for approval", "doubt"),
}
_REPLAYED: tuple[str, Tone] = ("carried out as recorded", "plain")
_DEMONSTRATED: tuple[str, Tone] = ("done by a person", "plain")


def caption_of(step: Step) -> Caption:
    """Return the caption of a step in parts, so that readers can distinguish the names in it from the words."""
    return caption(step.proposal.action, step.elements)


def ruling_in_words(ruling: Ruling) -> str:
    """Return text such as `denied by the policy: rule 1 'no deletes': …`; empty if the action was plainly harmless."""
    if ruling.kind == "allow" and ruling.rule == "harmless":
        return ""
    who = "" if ruling.kind == "ask" else " by a person" if ruling.by == "person" else " by the policy"
    rule = "" if ruling.rule in ruling.explanation else f"{ruling.rule}: "
    return f"{_RULINGS[ruling.kind]}{who}: {rule}{ruling.explanation}"


def timing_in_words(step: Step) -> str:
    """Return how the screen reacted, and how the seconds of a step were spent."""
    times = step.times
    parts = {"model": times.model_s, "act": times.act_s, "settle": times.settle_s, "capture": times.capture_s}
    seconds = " + ".join(f"{name} {seconds:.2f} s" for name, seconds in parts.items() if seconds)
    return "; ".join(filter(None, [_SETTLED[step.settled] if step.settled else "", seconds]))


def settled_in_words(step: Step) -> str:
    """Return how the screen reacted to a step; empty if nobody waited for it."""
    return _SETTLED[step.settled] if step.settled else ""


def outcome_in_words(trace: Trace) -> tuple[str, Tone]:
    """Return the outcome of the run, and its colour."""
    if trace.ended is None:
        return _OUTCOMES[Outcome.WAITING] if trace.asked else ("no end recorded: it still runs, or was killed", "bad")
    if trace.ended.outcome is None or trace.ended.error:
        return "broke", "bad"
    if trace.ended.outcome is Outcome.DONE and trace.started.planner == "a person":
        return _DEMONSTRATED
    was_replayed = trace.started.planner.startswith("recording") and not trace.drifts
    return _REPLAYED if was_replayed and trace.ended.outcome is Outcome.DONE else _OUTCOMES[trace.ended.outcome]


def unjudged_in_words(trace: Trace) -> str:
    """Return why there is no verdict."""
    on_purpose = "none, on purpose: with expect=None the test's body alone checks"
    return on_purpose if trace.started.body_checks else "none, no claim was judged"


def planner_in_words(trace: Trace) -> str:
    """Return who decided; say plainly if no model did."""
    models = sorted({turn.decision.model for turn in trace.turns} - {""})
    name = trace.started.planner
    if "scripted" in name and not models:
        return f"scripted planner, no model was asked{' to plan' if any(v.model for v in trace.verdicts) else ''}"
    unnamed = [model for model in models if model not in name]
    return f"{name}, answered by {', '.join(unnamed)}" if unnamed else name


def usage_in_words(trace: Trace) -> str:
    """Return the tokens of all answers, also the judge's; empty if there are none."""
    price = "" if trace.dollars is None else f": ${trace.dollars:.4f}"
    return tokens_in_words(trace.usage) + price


def judging_in_words(verdict: Verdict) -> str:
    """Return who judged, with which votes, and on how many screens."""
    judge = f"judged by {verdict.model}" if verdict.model else "no model judged"
    votes = f"votes: {', '.join(verdict.votes)}" if len(verdict.votes) > 1 else ""
    looks = f"asked on {verdict.looks} screens" if verdict.looks > 1 else ""
    return "; ".join(filter(None, [judge, votes, looks]))


def turn_in_words(steps: Sequence[Step]) -> str:
    """Return text such as `Turn 2: one answer, 5 steps`, and the tokens of the answer."""
    tokens = tokens_in_words(steps[0].usage)
    return f"Turn {steps[0].turn}: one answer, {len(steps)} steps" + (f"; tokens: {tokens}" if tokens else "")


def tokens_in_words(usage: Usage) -> str:
    """Return the tokens as text; empty if there are none."""
    if usage == Usage():
        return ""
    thinking = f" + {usage.thinking:,} thinking" if usage.thinking else ""
    return f"{usage.input:,} in ({usage.cached:,} cached), {usage.output:,} out{thinking}"


def retries_in_words(trace: Trace) -> str:
    """Return how often a model was asked again; empty if never."""
    retries = sum(exchange.retry_in_s is not None for exchange in trace.exchanges)
    return f"{retries} among {len(trace.exchanges)} requests to a model" if retries else ""


def thrown_away_in_words(trace: Trace) -> str:
    """Return how many of the planner's answers were discarded because the screen had changed; empty for none."""
    count = sum(turn.decision.asked_again for turn in trace.turns)
    return f"{count}: the screen had changed while the model thought, so that it was asked again" if count else ""


def reasons_for_retries(trace: Trace) -> str:
    """Return the errors for which a model was asked again, each once."""
    reasons = (exchange.error[:_LONGEST_REASON] for exchange in trace.exchanges if exchange.retry_in_s is not None)
    return "; ".join(dict.fromkeys(filter(None, reasons)))


def duration_in_words(trace: Trace) -> str:
    """Return the total time of the steps."""
    model_s = sum(step.times.model_s for step in trace.steps)
    hands_s = sum(step.times.act_s + step.times.settle_s + step.times.capture_s for step in trace.steps)
    return f"{model_s + hands_s:.1f} s" + (f", of which the model {model_s:.1f} s" if model_s else "")


def last_lines(text: str, count: int) -> str:
    """Return the last `count` lines, and the number of lines before them."""
    lines = text.splitlines()
    left_out = len(lines) - count
    return "\n".join([f"({left_out} lines before)", *lines[-count:]] if left_out > 0 else lines)
