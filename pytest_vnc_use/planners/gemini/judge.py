"""Gemini as a judge: one claim or question, one screenshot, and an answer in JSON that is bound to a schema."""

from __future__ import annotations

from pytest_vnc_use.planners.common.http import Backoff
from pytest_vnc_use.planners.common.judge import Grid, JudgeReply, Question, ScreenJudge
from pytest_vnc_use.planners.gemini.planner import gemini_service, generate, question
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
        self._service, self._backoff = gemini_service(model, api_key, base_url), backoff or Backoff()
        self._max_output_tokens = max_output_tokens

    def _grid(self, screen: FrameRef) -> Grid:
        return GRID

    def _ask(self, asked: Question, report: Report, timeout_s: float) -> JudgeReply:
        body = {
            "contents": question(asked.words, asked.frame.png),
            "systemInstruction": {"role": "user", "parts": [{"text": asked.part}]},
            "generationConfig": {
                "maxOutputTokens": self._max_output_tokens,
                "responseMimeType": "application/json",
                "responseJsonSchema": {**asked.schema, "propertyOrdering": asked.schema["required"]},
            },
        }
        answer = generate(
            self._service, body, purpose="judge", timeout_s=timeout_s, report=report, backoff=self._backoff
        )
        return JudgeReply(answer.words, answer.model, answer.usage)
