"""Answers of a model's service of anything, for each planner and each judge, over a
real connection.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

from pytest_vnc_use.planners.common.http import Backoff
from pytest_vnc_use.types import (
    Click,
    Drag,
    KeyCombo,
    Observation,
    Scroll,
    TypeText,
    Wait,
    ignore_report,
)
from support.fuzzing.trial import Target, Try, mutated_json, text_of
from support.json_server import JsonServer, Reply
from support.players import KINDS, PLAYERS, Said, frame_of, opinion

_ONCE = Backoff(attempts=1)
_FRAME = frame_of(7)
_SCREEN = _FRAME.ref
_TURNS = (
    Said((Click(720, 450),), "Now."),
    Said((TypeText("a"),)),
    Said((Drag(1, 2, 3, 4),)),
    Said((Scroll(5, 5, "down", 3, "wheel"),)),
    Said((KeyCombo(("ctrl", "a")),)),
)


def _malformed(random: Random, reply: Reply) -> Reply:
    """Return an answer with changes; now and then one that is large, deep, elsewhere,
    or of another status.
    """
    body = text_of(random, mutated_json(random, reply.body))
    match random.randrange(100):
        case 0:
            body = b'{"a":' * 10_000 + b"1" + b"}" * 10_000
        case 1:
            body = json.dumps(reply.body).encode() + b" " * 50_000_000
        case 2:
            where = random.choice(
                ("http://127.0.0.1:1/", "file:///etc/passwd", "/x", "")
            )
            return Reply(body, random.choice((301, 302, 307, 308)), {"Location": where})
        case 3 | 4 | 5:
            after = random.choice(("nan", "-1", "1e999", "x", "9" * 50))
            return Reply(
                body,
                random.choice((204, 400, 401, 403, 404, 418, 429, 500, 503)),
                {"retry-after": after},
            )
    return replace(reply, body=body)


@contextmanager
def _planner(name: str, _dir: Path) -> Iterator[Try]:
    player = PLAYERS[name]
    replies = [*map(player.say, _TURNS), player.done]
    with JsonServer(lambda _: replies[-1]) as server:
        planner = player.planner(
            SimpleNamespace(url=server.url, api_key="k"), backoff=_ONCE
        )

        def attempt(random: Random) -> None:
            server.requests.clear()
            answer = _malformed(random, random.choice(replies))
            server.answer = lambda _: answer
            seen = Observation(
                "a task", _SCREEN, _SCREEN, (), lambda _: _FRAME.png, ignore_report
            )
            decision = planner.decide(seen, timeout_s=8.0)
            for proposal in decision.proposals:
                _check(proposal.action)
            json.dumps(decision.provider_details, allow_nan=False)

        yield attempt


def _check(action: Any) -> None:
    """Assert that an action is performed on the screen, and ends."""
    points = [(action.x, action.y)] if hasattr(action, "x") else []
    points += [(action.to_x, action.to_y)] if isinstance(action, Drag) else []
    for x, y in points:
        assert (x is y is None and isinstance(action, TypeText)) or (
            type(x) is type(y) is int
            and 0 <= x < _SCREEN.width
            and 0 <= y < _SCREEN.height
        ), action
    assert not isinstance(action, Wait) or 0 <= action.duration_s <= 60, action
    assert not isinstance(action, Scroll) or 1 <= action.clicks <= 1000, action


@contextmanager
def _judge(name: str, _dir: Path) -> Iterator[Try]:
    say = KINDS[name].say
    said = json.loads(opinion(box_2d=[0, 250, 500, 750]))
    with JsonServer(lambda _: say("")) as server:
        judge = KINDS[name].judge(
            SimpleNamespace(url=server.url, api_key="k"), backoff=_ONCE
        )

        def attempt(random: Random) -> None:
            server.requests.clear()
            if random.random() < 0.6:
                answer = say(
                    text_of(random, mutated_json(random, said)).decode(
                        "utf-8", "replace"
                    )
                )
            else:
                answer = _malformed(random, say(json.dumps(said)))
            server.answer = lambda _: answer
            verdict = judge.judge(
                "a claim", _FRAME, timeout_s=8.0, report=ignore_report
            )
            assert verdict.kind in ("holds", "fails", "unsure"), verdict
            if region := verdict.region:
                assert 0 <= region.left <= region.right <= _SCREEN.width, verdict
                assert 0 <= region.top <= region.bottom <= _SCREEN.height, verdict

        yield attempt


TARGETS = (
    *(
        Target(f"answers to the planner {name}", partial(_planner, name), 60)
        for name in PLAYERS
    ),
    *(
        Target(f"answers to the judge {name}", partial(_judge, name), 40)
        for name in KINDS
    ),
)
