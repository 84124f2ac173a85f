"""A model's call as it came, and the calls that end a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pytest_vnc_use.planners.common.functions import Declaration
from pytest_vnc_use.types import JsonObject

GIVE_UP = Declaration(
    "task_failed",
    "Give up: the task cannot be done. Say what you saw on the screen that makes it impossible.",
    {"type": "object", "properties": {"reason": {"type": "string"}}, "required": ["reason"]},
)
"""The function with which the model gives up, beside the predefined ones."""

DONE = Declaration(
    "done",
    "The task is done, as the newest screenshot shows. Say in one sentence what you see.",
    {"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]},
)
"""The function that ends a run as done. An answer in words without a call means the same."""


@dataclass(frozen=True)
class FunctionCall:
    """One call as the model made it. `id` is empty if the service gave none."""

    name: str
    args: JsonObject
    id: str = ""


def ending_of(calls: Sequence[FunctionCall], words: str) -> tuple[Literal["finished", "gave_up"], str] | None:
    """Return how these calls end the run, and the model's words; None if they do not.

    Giving up ends the run whatever other calls there are. `done` ends it only if it is the only call.
    """
    gave_up = next((call for call in calls if call.name == GIVE_UP.name), None)
    if gave_up is not None:
        return "gave_up", str(gave_up.args.get("reason") or words)
    if not calls:
        return "finished", words
    return ("finished", str(calls[0].args.get("message") or words)) if [c.name for c in calls] == [DONE.name] else None
