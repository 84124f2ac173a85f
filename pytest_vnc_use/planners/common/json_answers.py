"""The JSON that a model's service answers with: read, refused, and without the key."""

from __future__ import annotations

import json
from typing import Any

from pytest_vnc_use.errors import ModelUnavailable
from pytest_vnc_use.planners.common.retry import Failure
from pytest_vnc_use.runs.json_lines import DEEPEST, is_shallow
from pytest_vnc_use.types import JsonObject


class NotJson(Exception):
    """The service sent something that is not JSON, or JSON that nobody could write again."""


def read_json(text: str) -> JsonObject:
    """A response's JSON object, empty where there is none. Raises NotJson.

    Infinity, and half of a surrogate pair, can be read and not be sent back: the next turn would fail on them.
    """
    try:
        body = json.loads(text or "{}")
        json.dumps(body, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as exc:
        raise NotJson(f"the model's service sent something that is not JSON: {exc}") from exc
    if not is_shallow(body):
        raise NotJson(f"the model's service sent something that is not JSON: more than {DEEPEST} levels deep")
    return body if isinstance(body, dict) else {}


def malformed(why: str) -> Failure:
    """An answer that makes no sense, so that it is asked for again at once."""
    error = ModelUnavailable(f"the model's answer was empty or malformed: {shortened(why)}")
    return Failure(error, again=True, after_s=0.0)


def shortened(message: Any, limit: int = 500) -> str:
    text = " ".join(str(message or "").split())
    return text if len(text) <= limit else f"{text[:limit]} …"


def redact_key(text: str, *, key: str) -> str:
    return text.replace(key, "[api key]") if key else text
