"""The check for a stall: the same action, proposed again and again on the same screen."""

from __future__ import annotations

import hashlib
import json

from pytest_vnc_use.runs.folder import to_json
from pytest_vnc_use.types import CallFunction, CUAState, Step, TakeScreenshot, Wait


def fingerprint(step: Step) -> str:
    """Return a text that is the same for the same action on the same frame."""
    action = json.dumps(to_json(step.proposal.action), sort_keys=True)
    return hashlib.sha256(f"{step.frame_before.digest} {action}".encode()).hexdigest()[:16]


def repeats(step: Step, state: CUAState) -> int:
    """Return how often the step's action was proposed on this frame, this time included. Waiting does not count."""
    if isinstance(step.proposal.action, (Wait, TakeScreenshot, CallFunction)):
        return 0
    return state["fingerprints"].count(fingerprint(step)) + 1
