"""Answers of a model's service of anything, for each planner, over a real connection."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from types import SimpleNamespace

from pytest_vnc_use.planners.common.http import Backoff
from pytest_vnc_use.types import Click, Observation, Wait, ignore_report
from support.fuzzing.trial import (
    Target,
    Try,
    assert_on_screen,
    hostile,
    mutated,
    mutated_json,
)
from support.json_server import JsonServer, Reply
from support.players import PLAYERS, Said, frame_of

_FRAME = frame_of(7)
_SCREEN = _FRAME.ref
_TURNS = (Said((Click(720, 450),), "Now."), Said((Wait(1.0),)))
_STATUSES = (204, 400, 401, 403, 404, 418, 429, 500, 503)
_RETRY_AFTER = ("nan", "-1", "1e999", "x", "9" * 50)
_ELSEWHERE = ("http://127.0.0.1:1/", "file:///etc/passwd", "/x", "")


def _malformed(random: Random, reply: Reply) -> Reply:
    """Return an answer with changes; now and then one that is large, deep, elsewhere,
    or of another status.
    """
    body = json.dumps(mutated_json(random, reply.body)).encode()
    if random.random() < 0.1:
        body = mutated(random, body)
    match random.randrange(100):
        case 0:
            body = b'{"a":' * 10_000 + b"1" + b"}" * 10_000
        case 1:
            body = json.dumps(reply.body).encode() + b" " * 50_000_000
        case 2:
            headers = {"Location": random.choice(_ELSEWHERE)}
            return Reply(body, random.choice((301, 302, 307, 308)), headers)
        case 3 | 4 | 5:
            headers = {"retry-after": random.choice(_RETRY_AFTER)}
            return Reply(body, random.choice(_STATUSES), headers)
    return replace(reply, body=body)


@contextmanager
def _planner(name: str, _dir: Path) -> Iterator[Try]:
    player = PLAYERS[name]
    replies = [*map(player.say, _TURNS), player.done]
    with JsonServer(lambda _: replies[-1]) as server:
        service = SimpleNamespace(url=server.url, api_key="k")
        planner = player.planner(service, backoff=Backoff(attempts=1))

        def attempt(random: Random) -> None:
            server.requests.clear()
            reply = random.choice([*replies, player.call("f", a=hostile(random))])
            answer = _malformed(random, reply)
            server.answer = lambda _: answer
            seen = Observation(
                "a task", _SCREEN, _SCREEN, (), lambda _: _FRAME.png, ignore_report
            )
            decision = planner.decide(seen, timeout_s=8.0)
            for proposal in decision.proposals:
                assert_on_screen(proposal.action, _SCREEN)
            json.dumps(decision.provider_details, allow_nan=False)

        yield attempt


TARGETS = tuple(
    Target(f"answers to the planner {name}", partial(_planner, name), 60)
    for name in PLAYERS
)
