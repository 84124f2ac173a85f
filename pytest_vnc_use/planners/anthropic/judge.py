"""Claude as a judge: the Messages API, without the computer use tool, with the answer bound to a schema.

Source: platform.claude.com/docs, "Structured outputs": `output_config.format`, and the keywords that its schemas may
not have. The newest models refuse a forced tool call. Models without structured outputs are asked in words.
"""

from __future__ import annotations

from typing import Any

from pytest_vnc_use.planners.anthropic.planner import (
    API_URL,
    API_VERSION,
    KEY_VARIABLE,
    LARGER,
    URL_VARIABLE,
    read_answer,
    rebuild_messages,
    usage_of,
)
from pytest_vnc_use.planners.common.http import Backoff, Failure, Service, found_key, found_url
from pytest_vnc_use.planners.common.judge import Grid, JudgeReply, ServiceJudge
from pytest_vnc_use.planners.common.screens import PictureLimit, SentScreen
from pytest_vnc_use.types import FrameRef, JsonObject, Observation


class AnthropicJudge(ServiceJudge):
    """A judge that asks Claude. `limit` is the largest picture that the model uses unscaled.

    `max_tokens` counts thinking too. `api_key` and `base_url` default to ANTHROPIC_API_KEY and ANTHROPIC_BASE_URL.
    Raises SettingsError, and KeyMissing if no key is set.
    """

    def __init__(
        self,
        *,
        model: str = "claude-sonnet-5",
        api_key: str | None = None,
        base_url: str | None = None,
        limit: PictureLimit = LARGER,
        max_tokens: int = 16_000,
        backoff: Backoff | None = None,
    ) -> None:
        key, url = found_key(api_key, (KEY_VARIABLE,)), found_url(base_url, URL_VARIABLE) or API_URL
        headers = {"x-api-key": key, "anthropic-version": API_VERSION}
        service = Service(f"{url.rstrip('/')}/v1/messages", model, key, headers, usage_of)
        super().__init__(service, backoff=backoff)
        self._limit = limit
        self._fixed: JsonObject = {"model": model, "max_tokens": max_tokens}

    def _grid(self, screen: FrameRef) -> Grid:
        sent = SentScreen.within(self._limit, screen)
        return Grid(sent.width, sent.height)

    def _body(self, part: str, asked: Observation) -> JsonObject:
        return {**self._fixed, "system": part, "messages": rebuild_messages(asked, limit=self._limit)}

    def _binding(self, name: str, schema: JsonObject) -> JsonObject:
        return {"output_config": {"format": {"type": "json_schema", "schema": _drop_lengths(schema)}}}

    def _read(self, body: JsonObject) -> JudgeReply | Failure:
        answer = read_answer(body)
        return answer if isinstance(answer, Failure) else JudgeReply(answer.words, answer.model, answer.usage)


def _drop_lengths(schema: Any) -> Any:
    """Return the schema without the lengths of its arrays, which are not supported."""
    if isinstance(schema, dict):
        return {key: _drop_lengths(inner) for key, inner in schema.items() if key not in ("minItems", "maxItems")}
    return [_drop_lengths(inner) for inner in schema] if isinstance(schema, list) else schema
