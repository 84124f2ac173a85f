"""A judge that asks any model behind chat completions, as LM Studio, vLLM, llama.cpp and many services serve them."""

from __future__ import annotations

from typing import Any

from pytest_vnc_use.planners.chat.answers import read_answer
from pytest_vnc_use.planners.chat.planner import chat_service, user_message
from pytest_vnc_use.planners.common.arguments import GRID, Coordinates
from pytest_vnc_use.planners.common.http import Backoff, Failure, malformed
from pytest_vnc_use.planners.common.judge import Grid, JudgeReply, ServiceJudge
from pytest_vnc_use.types import FrameRef, JsonObject, Observation


class ChatJudge(ServiceJudge):
    """A judge that asks the model behind `base_url`, such as `http://localhost:1234/v1`.

    `coordinates` is the model's unit, as for the planner. If `temperature` is None, the model's own holds. `max_tokens`
    counts thinking too. Raises SettingsError, and KeyRejected if the key cannot be sent.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        api_key: str = "",
        *,
        coordinates: Coordinates = "1000",
        temperature: float | None = None,
        max_tokens: int = 4096,
        backoff: Backoff | None = None,
    ) -> None:
        super().__init__(chat_service(base_url, model, api_key), backoff=backoff)
        self._coordinates = coordinates
        self._max_tokens = max_tokens
        self._fixed: dict[str, Any] = {"model": model, "max_tokens": max_tokens}
        if temperature is not None:
            self._fixed["temperature"] = temperature

    def _grid(self, screen: FrameRef) -> Grid:
        return Grid(screen.width, screen.height) if self._coordinates == "pixels" else Grid(int(GRID), int(GRID))

    def _body(self, part: str, asked: Observation) -> JsonObject:
        question = user_message(asked.task, asked.load_png(asked.frame))
        return {**self._fixed, "messages": [{"role": "system", "content": part}, question]}

    def _binding(self, name: str, schema: JsonObject) -> JsonObject:
        described = {"name": name, "strict": True, "schema": schema}
        return {"response_format": {"type": "json_schema", "json_schema": described}}

    def _read(self, body: JsonObject) -> JudgeReply | Failure:
        answer = read_answer(body)
        if isinstance(answer, Failure):
            return answer
        if answer.cut_off:
            return malformed(f"it was cut off at max_tokens={self._max_tokens}")
        return JudgeReply(answer.words, answer.model or self._service.model, answer.usage)
