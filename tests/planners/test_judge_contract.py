"""What every judge keeps to, whichever model it asks."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from pytest_vnc_use.errors import AnswerRefused, Inconclusive, KeyRejected, ModelUnavailable
from pytest_vnc_use.types import Region
from pytest_vnc_use.types.protocols import Reader
from support.judge_servers import CLAIM, KEY, KINDS, QUESTION, Kind, court, opinion, value

UNREADABLE = ["It holds, I think.", '{"reason": "Yes.", "verdict": "yes"}']


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


def test_a_claim_that_holds(kind: Kind) -> None:
    with court(kind, kind.say(opinion(box_2d=kind.box))) as asked:
        verdict = asked.ask()
        assert verdict
        assert (verdict.claim, verdict.reason, verdict.frame) == (CLAIM, "The row says 2 apples.", asked.frame.ref)
        assert verdict.region == Region(360, 0, 1080, 450)
        assert verdict.model
        assert (verdict.usage.input, verdict.usage.output + verdict.usage.thinking) == (1500, 100)


def test_one_exchange_that_shows_claim_and_picture_but_no_key(kind: Kind) -> None:
    with court(kind, kind.say(opinion())) as asked:
        asked.ask()
        [exchange] = asked.exchanges
        assert (exchange.purpose, exchange.error) == ("judge", "")
        told = repr(exchange)
        assert CLAIM in told
        assert f"sha256:{asked.frame.ref.digest}" in told
        assert KEY not in told


def test_no_computer_use_tool_is_offered(kind: Kind) -> None:
    with court(kind, kind.say(opinion())) as asked:
        asked.ask()
        assert "computer" not in repr(asked.bodies)


@pytest.mark.parametrize("verdict", ["fails", "unsure"])
def test_only_holds_passes(kind: Kind, verdict: str) -> None:
    with court(kind, kind.say(opinion(verdict=verdict))) as asked:
        told = asked.ask()
        assert (told.kind, told.holds) == (verdict, False)


@pytest.mark.parametrize("words", UNREADABLE)
def test_an_unreadable_answer_is_asked_for_again_once(kind: Kind, words: str) -> None:
    with court(kind, kind.say(words), kind.say(opinion())) as asked:
        verdict = asked.ask()
        assert verdict
        assert verdict.usage.input == 3000
        assert len(asked.exchanges) == 2


@pytest.mark.parametrize("words", UNREADABLE)
def test_two_unreadable_answers_are_unsure(kind: Kind, words: str) -> None:
    with court(kind, kind.say(words), kind.say(words), kind.say(opinion())) as asked:
        verdict = asked.ask()
        assert verdict.kind == "unsure"
        assert "not the JSON that was asked for" in verdict.reason
        assert verdict.usage.input == 3000
        assert len(asked.exchanges) == 2


def test_a_key_that_is_refused(kind: Kind) -> None:
    with court(kind, kind.say(opinion()), api_key="another-key") as asked:
        with pytest.raises(KeyRejected):
            asked.ask()
        assert len(asked.exchanges) == 1
        assert "another-key" not in repr(asked.exchanges)


def test_a_service_that_refuses_to_answer_is_an_error_and_no_verdict(kind: Kind) -> None:
    with court(kind, kind.blocked, kind.say(opinion())) as asked:
        with pytest.raises(AnswerRefused):
            asked.ask()
        assert len(asked.exchanges) == 1


def test_no_verdict_outlasts_its_time(kind: Kind) -> None:
    with court(kind, replace(kind.say(opinion()), hang_s=60.0)) as asked:
        started = time.monotonic()
        with pytest.raises(ModelUnavailable, match="did not answer within"):
            asked.ask(timeout_s=0.4)
        assert time.monotonic() - started < 20.0


# --- reading values --------------------------------------------------------------------------------------------------


def test_a_value_is_read_with_its_reason_and_where_it_stands(kind: Kind) -> None:
    with court(kind, kind.say(value(box_2d=kind.box))) as asked:
        assert isinstance(asked.judge, Reader)
        reading = asked.read()
        assert (reading.question, reading.value, reading.reason) == (QUESTION, {"apples": 2}, "The row says 2 apples.")
        assert (reading.region, reading.frame) == (Region(360, 0, 1080, 450), asked.frame.ref)
        assert (bool(reading.model), reading.usage.input) == (True, 1500)
        assert asked.server.refusals == []
        told = repr(asked.bodies)
        assert QUESTION in told
        assert "#/$defs/Count" in told


def test_what_is_not_on_the_screen_is_none(kind: Kind) -> None:
    with court(kind, kind.say(value(value=None))) as asked:
        assert asked.read().value is None


def test_a_value_that_cannot_be_read_is_asked_for_again_once(kind: Kind) -> None:
    with court(kind, kind.say("Two."), kind.say(value())) as asked:
        assert asked.read().value == {"apples": 2}
    with court(kind, kind.say("Two."), kind.say('{"reason": "so"}'), kind.say(value())) as asked:
        with pytest.raises(Inconclusive, match="not the JSON that was asked for, twice"):
            asked.read()
        assert len(asked.exchanges) == 2


def test_an_outage_is_no_value(kind: Kind) -> None:
    with court(kind, kind.blocked) as asked, pytest.raises(AnswerRefused):
        asked.read()
