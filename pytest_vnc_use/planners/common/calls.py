"""A call as the model made it, and the calls with which a run ends."""

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
"""The function that says what words without a call say too."""


@dataclass(frozen=True)
class FunctionCall:
    """One call as the model made it; `id` is empty where the service gave none."""

    name: str
    args: JsonObject
    id: str = ""


def ending_of(calls: Sequence[FunctionCall], words: str) -> tuple[Literal["finished", "gave_up"], str] | None:
    """How these calls end the run, and with what words: by giving up, whatever stands beside it; by `done` alone."""
    gave_up = next((call for call in calls if call.name == GIVE_UP.name), None)
    if gave_up is not None:
        return "gave_up", str(gave_up.args.get("reason") or words)
    if not calls:
        return "finished", words
    return ("finished", str(calls[0].args.get("message") or words)) if [c.name for c in calls] == [DONE.name] else None
