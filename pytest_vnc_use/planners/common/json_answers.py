"""The JSON answers of a model's service: read, refused if malformed, and cleared of the key."""

from __future__ import annotations

import json
from typing import Any

from pytest_vnc_use.errors import ModelUnavailable
from pytest_vnc_use.planners.common.retry import Failure
from pytest_vnc_use.runs.json_lines import load_json
from pytest_vnc_use.types import JsonObject
from pytest_vnc_use.types.json_depth import DEEPEST, is_shallow

MOST_BYTES = 4 * 2**20
"""The largest answer that is read. A turn of a model is a few thousand bytes."""
MOST_VALUES = 200_000
"""The most values in an answer: a service must not fill the memory with a few million empty lists."""


class NotJson(Exception):
    """The service sent something that is not JSON, or JSON that cannot be written again."""


def read_json(text: str) -> JsonObject:
    """Return a response's JSON object; empty if there is none. Raises NotJson.

    Infinity and half of a surrogate pair can be read but not sent back: the next turn would fail on them.
    """
    try:
        body = load_json((text or "{}").encode(), MOST_VALUES)
        json.dumps(body, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as exc:
        raise NotJson(f"the model's service sent something that is not JSON: {exc}") from exc
    if not is_shallow(body):
        raise NotJson(f"the model's service sent something that is not JSON: more than {DEEPEST} levels deep")
    return body if isinstance(body, dict) else {}


def malformed(why: str) -> Failure:
    """Return the failure for an answer that cannot be read. The request is repeated at once."""
    error = ModelUnavailable(f"the model's answer was empty or malformed: {shortened(why)}")
    return Failure(error, again=True, after_s=0.0)


def shortened(message: Any, limit: int = 500) -> str:
    """Return the text on one line, cut if it is long."""
    text = " ".join(str(message or "").split())
    return text if len(text) <= limit else f"{text[:limit]} …"


def redact_key(text: str, *, key: str) -> str:
    """Return the text with the key replaced by a placeholder."""
    return text.replace(key, "[api key]") if key else text
