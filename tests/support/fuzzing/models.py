"""Answers of a model's service of anything, for each planner and each judge, over a real connection."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from pytest_vnc_use.planners.anthropic.planner import AnthropicComputer, AnthropicJudge
from pytest_vnc_use.planners.chat.planner import ChatJudge, OpenAICompatible
from pytest_vnc_use.planners.common.http import Backoff
from pytest_vnc_use.planners.gemini.planner import GeminiComputerUse, GeminiJudge
from pytest_vnc_use.planners.openai.planner import OpenAIComputer, OpenAIJudge
from pytest_vnc_use.types import Drag, FrameRef, Move, Observation, Scroll, TypeText, Wait, report_to_nobody
from support import chat_server, gemini_server, messages_server, responses_server
from support.fuzzing.mutations import mutated, mutated_json, text_of
from support.fuzzing.trial import Target, Try
from support.gemini_conversations import frame_of
from support.json_server import JsonServer, Reply
from support.judge_servers import opinion

_ONCE = Backoff(attempts=1)
_FRAME = frame_of(7)
_SCREEN = FrameRef(_FRAME.ref.digest, 1440, 900)
_SERVED: dict[str, tuple[Callable[[str], Any], list[Reply]]] = {
    "gemini": (
        lambda url: GeminiComputerUse(api_key="k", base_url=url, backoff=_ONCE),
        [
            gemini_server.calls(
                ("click", {"x": 500, "y": 500}), ("type", {"text": "a", "press_enter": True}), words="Now."
            ),
            gemini_server.calls(("drag_and_drop", {"start_x": 1, "start_y": 2, "end_x": 3, "end_y": 4}), thought="hm"),
            gemini_server.daily_quota(),
        ],
    ),
    "anthropic": (
        lambda url: AnthropicComputer(api_key="k", base_url=url, backoff=_ONCE),
        [
            messages_server.uses(
                ("left_click", {"coordinate": [720, 450]}),
                ("scroll", {"coordinate": [1, 2], "scroll_direction": "down", "scroll_amount": 3}),
            ),
            messages_server.uses(("type", {"text": "hello"}), ("key", {"text": "ctrl+a"})),
            messages_server.overloaded(),
        ],
    ),
    "openai": (
        lambda url: OpenAIComputer(api_key="k", base_url=url, backoff=_ONCE),
        [
            responses_server.acts(
                {"type": "click", "button": "left", "x": 720, "y": 450},
                {"type": "drag", "path": [{"x": 1, "y": 2}, {"x": 3, "y": 4}]},
            ),
            responses_server.acts(
                {"type": "scroll", "x": 1, "y": 2, "scroll_x": 0, "scroll_y": 100},
                {"type": "keypress", "keys": ["CTRL", "A"]},
            ),
            responses_server.calls("done", "{}"),
        ],
    ),
    "chat": (
        lambda url: OpenAICompatible(url, chat_server.MODEL, backoff=_ONCE),
        [
            chat_server.call("click", x=500, y=500),
            chat_server.calls(("drag", {"x": 1, "y": 2, "to_x": 3, "to_y": 4}), words="Now."),
            chat_server.said('<tool_call>{"name": "click", "arguments": {"x": 1, "y": 2}}</tool_call>'),
        ],
    ),
    "chat, computer_use": (
        lambda url: OpenAICompatible(url, chat_server.MODEL, toolset="computer_use", backoff=_ONCE),
        [
            chat_server.call("computer_use", action="left_click", coordinate=[500, 500]),
            chat_server.call("computer_use", action="scroll", coordinate=[5, 5], pixels=-300),
        ],
    ),
}
_JUDGES: dict[str, tuple[Callable[[str], Any], Callable[[str], Reply]]] = {
    "gemini": (lambda url: GeminiJudge(api_key="k", base_url=url, backoff=_ONCE), gemini_server.text),
    "anthropic": (lambda url: AnthropicJudge(api_key="k", base_url=url, backoff=_ONCE), messages_server.text),
    "openai": (lambda url: OpenAIJudge(api_key="k", base_url=url, backoff=_ONCE), responses_server.text),
    "chat": (lambda url: ChatJudge(base_url=url, model=chat_server.MODEL, backoff=_ONCE), chat_server.said),
}


def _spoilt(random: Random, reply: Reply) -> Reply:
    """Return an answer with changes; now and then one that is large, deep, elsewhere, or of another status."""
    body = text_of(random, mutated_json(random, reply.body)) if not isinstance(reply.body, bytes) else reply.body
    match random.randrange(120):
        case 0:
            body = b'{"a":' * 10_000 + b"1" + b"}" * 10_000
        case 1:
            body = b"[" * 10_000 + b"]" * 10_000
        case 2:
            body = json.dumps(reply.body).encode() + b" " * 50_000_000
        case 3:
            body = b"[" + b"[]," * 1_300_000 + b"[]]"
        case 4:
            return Reply(
                body,
                random.choice((301, 302, 307, 308)),
                {"Location": random.choice(("http://127.0.0.1:1/", "file:///etc/passwd", "/x", ""))},
            )
        case 5 | 6 | 7:
            return Reply(
                body,
                random.choice((204, 400, 401, 403, 404, 418, 429, 500, 503)),
                {"retry-after": random.choice(("nan", "-1", "1e999", "x", "9" * 50))},
            )
        case 8:
            body = mutated(random, body)
    return replace(reply, body=body)


def _planner(name: str) -> Callable[[Path], Iterator[Try]]:
    def opened(directory: Path) -> Iterator[Try]:
        starter, replies = _SERVED[name]
        current: list[Reply] = []
        with JsonServer(lambda _: current[0]) as server:
            planner = starter(server.url)

            def attempt(random: Random) -> None:
                server.requests.clear()
                current[:] = [_spoilt(random, random.choice(replies))]
                seen = Observation("a task", _SCREEN, _SCREEN, (), lambda _: _FRAME.png, report_to_nobody)
                decision = planner.decide(seen, timeout_s=8.0)
                for proposal in decision.proposals:
                    _check(proposal.action)
                json.dumps(decision.provider_details, allow_nan=False)

            yield attempt

    return opened


def _check(action: Any) -> None:
    """Assert that an action is performed on the screen, and ends."""
    points: list[tuple[Any, Any]] = [(action.x, action.y)] if hasattr(action, "x") else []
    points += [(action.to_x, action.to_y)] if isinstance(action, Drag) else []
    for x, y in points:
        assert (x is None and y is None and isinstance(action, TypeText)) or (type(x) is int and type(y) is int), action
        assert x is None or y is None or (0 <= x < _SCREEN.width and 0 <= y < _SCREEN.height), action
    assert not isinstance(action, Wait) or 0 <= action.duration_s <= 60, action
    assert not isinstance(action, Scroll) or 1 <= action.clicks <= 1000, action
    assert not isinstance(action, Move) or points, action


def _judge(name: str) -> Callable[[Path], Iterator[Try]]:
    def opened(directory: Path) -> Iterator[Try]:
        starter, say = _JUDGES[name]
        current: list[Reply] = []
        with JsonServer(lambda _: current[0]) as server:
            judge = starter(server.url)

            def attempt(random: Random) -> None:
                server.requests.clear()
                said = json.loads(opinion(box_2d=[0, 250, 500, 750]))
                if random.random() < 0.6:
                    current[:] = [say(text_of(random, mutated_json(random, said)).decode("utf-8", "replace"))]
                else:
                    current[:] = [_spoilt(random, say(json.dumps(said)))]
                verdict = judge.judge("a claim", _FRAME, timeout_s=8.0, report=report_to_nobody)
                assert verdict.kind in ("holds", "fails", "unsure"), verdict
                if region := verdict.region:
                    assert 0 <= region.left <= region.right <= 1440, verdict
                    assert 0 <= region.top <= region.bottom <= 900, verdict

            yield attempt

    return opened


TARGETS = (
    *(Target(f"answers to the planner {name}", contextmanager(_planner(name)), 60) for name in _SERVED),
    *(Target(f"answers to the judge {name}", contextmanager(_judge(name)), 40) for name in _JUDGES),
)
