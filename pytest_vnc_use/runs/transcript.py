"""A run as lines for a terminal or a log. Text of a model or a program cannot do harm there."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_vnc_use.plain_text import line as line, plain as plain
from pytest_vnc_use.runs.captions import action_in_words, caption
from pytest_vnc_use.types import Action, Outcome, RunResult, Step
from pytest_vnc_use.types.elements import Elements
from pytest_vnc_use.types.verdicts import VIEWER_OPEN

LAST_STEPS = 5


def format_action(action: Action) -> str:
    """Return an action as text: `click(x=10, y=20)`."""
    values = {name: value for name, value in vars(action).items() if name != "kind"}
    given = ", ".join(f"{name}={value!r}" for name, value in values.items() if value is not None and value is not False)
    return f"{action.kind}({line(given)})"


def action_line(action: Action, elements: Elements) -> str:
    """Return an action by the names of its elements, or, where there are none, as `format_action` does."""
    if any(part.is_name for part in caption(action, elements)):
        return line(action_in_words(action, elements))
    return format_action(action)


def step_line(step: Step) -> str:
    """Return a step as text: `3 click "Basket" (button): open the basket`, and the error, if there is one."""
    reason = line(step.proposal.intent or step.words)
    text = f"{step.number} {action_line(step.proposal.action, step.elements)}" + (f": {reason}" if reason else "")
    if step.asked_again:
        text += f"\n  asked again {times(step.asked_again)}: the screen changed while the model thought"
    return text + (f"\n  failed: {line(step.error)}" if step.error else "")


def times(count: int) -> str:
    """Return a count as text: `once`, `3 times`."""
    return "once" if count == 1 else f"{count} times"


def transcript(steps: Sequence[Step]) -> str:
    """Return the steps, one line each."""
    return "\n".join(map(step_line, steps))


def format_run_failure(headline: str, result: RunResult) -> str:
    """Return a failure in a few lines: the headline, the task, the last steps with their reasons, the run folder."""
    lines = transcript(result.steps[-LAST_STEPS:]).splitlines()
    steps = [f"last steps of {len(result.steps)}:", *(f"  {each}" for each in lines)] if lines else ["no step was made"]
    if VIEWER_OPEN in result.message:
        steps = []
    return "\n  ".join([headline, f"task: {line(result.task)}", *steps, f"run folder: {result.run_folder}"])


ADVICE = {
    Outcome.DENIED: "if it may happen in a test, a rule of the policy file (--vnc-policy) allows it",
    Outcome.STEP_LIMIT: "if it needs more, max_steps= in the marker, or --vnc-max-steps, allows them",
    Outcome.TIME_LIMIT: "if it needs longer, max_seconds= in the marker, or --vnc-max-seconds, allows it",
}


def format_end(result: RunResult) -> str:
    """Return the failure of a run that did not end as done, with advice if a setting may help."""
    text = format_run_failure(f"the task ended as {result.outcome}: {line(result.message)}", result)
    return f"{text}\n  {ADVICE[result.outcome]}" if result.outcome in ADVICE else text
