"""A model of OpenAI as a judge: the Responses API, without the computer tool, with the answer bound to a schema."""

from __future__ import annotations

from pytest_vnc_use.planners.common.http import Backoff, Failure, Service, found_key, found_url
from pytest_vnc_use.planners.common.judge import Grid, JudgeReply, ServiceJudge
from pytest_vnc_use.planners.common.screens import SentScreen
from pytest_vnc_use.planners.openai.planner import (
    API_URL,
    KEY_VARIABLE,
    LIMIT,
    URL_VARIABLE,
    read_answer,
    rebuild_items,
    usage_of,
)
from pytest_vnc_use.types import FrameRef, JsonObject, Observation


class OpenAIJudge(ServiceJudge):
    """A judge that asks a model of OpenAI.

    `max_output_tokens` counts reasoning too. `api_key` and `base_url` (with its `/v1`) default to OPENAI_API_KEY and
    OPENAI_BASE_URL. Raises SettingsError, and KeyMissing if no key is set.
    """

    def __init__(
        self,
        *,
        model: str = "gpt-5.5",
        api_key: str | None = None,
        base_url: str | None = None,
        max_output_tokens: int = 16_000,
        backoff: Backoff | None = None,
    ) -> None:
        key, url = found_key(api_key, (KEY_VARIABLE,)), found_url(base_url, URL_VARIABLE) or API_URL
        service = Service(f"{url.rstrip('/')}/responses", model, key, {"Authorization": f"Bearer {key}"}, usage_of)
        super().__init__(service, backoff=backoff)
        self._fixed: JsonObject = {"model": model, "max_output_tokens": max_output_tokens, "store": False}

    def _grid(self, screen: FrameRef) -> Grid:
        sent = SentScreen.within(LIMIT, screen)
        return Grid(sent.width, sent.height)

    def _body(self, part: str, asked: Observation) -> JsonObject:
        return {**self._fixed, "instructions": part, "input": rebuild_items(asked, limit=LIMIT)}

    def _binding(self, name: str, schema: JsonObject) -> JsonObject:
        return {"text": {"format": {"type": "json_schema", "name": name, "strict": True, "schema": schema}}}

    def _read(self, body: JsonObject) -> JudgeReply | Failure:
        answer = read_answer(body)
        return answer if isinstance(answer, Failure) else JudgeReply(answer.words, answer.model, answer.usage)
