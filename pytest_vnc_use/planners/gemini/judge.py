"""Gemini as a judge: one claim or question, one screenshot, and an answer in JSON that is bound to a schema."""

from __future__ import annotations

from pytest_vnc_use.planners.common.endpoint import Endpoint, found_key, found_url
from pytest_vnc_use.planners.common.judge import Question, ScreenJudge
from pytest_vnc_use.planners.common.judge_answers import Grid, JudgeReply
from pytest_vnc_use.planners.common.retry import Backoff
from pytest_vnc_use.planners.gemini.messages import start_contents
from pytest_vnc_use.planners.gemini.service import base_config, generate
from pytest_vnc_use.types import FrameRef, Report

GRID = Grid(1000, 1000, rows_first=True)


class GeminiJudge(ScreenJudge):
    """A judge that asks Gemini, without the Computer Use tool. Raises KeyMissing if no key is set."""

    def __init__(
        self,
        *,
        model: str = "gemini-3.8-flash",
        api_key: str | None = None,
        base_url: str | None = None,
        max_output_tokens: int = 4096,
        backoff: Backoff | None = None,
    ) -> None:
        self._model = model
        self._endpoint = Endpoint(found_key(api_key), found_url(base_url), backoff or Backoff())
        self._max_output_tokens = max_output_tokens

    def _grid(self, screen: FrameRef) -> Grid:
        return GRID

    def _ask(self, asked: Question, report: Report, timeout_s: float) -> JudgeReply:
        config = base_config(
            system_instruction=asked.part,
            max_output_tokens=self._max_output_tokens,
            response_mime_type="application/json",
            response_json_schema={**asked.schema, "propertyOrdering": asked.schema["required"]},
        )
        contents = start_contents(asked.words, asked.frame.png)
        answer = generate(
            self._endpoint, self._model, contents, config, purpose="judge", timeout_s=timeout_s, report=report
        )
        return JudgeReply(answer.words, answer.model, answer.usage)
