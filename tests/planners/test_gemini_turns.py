"""Turns of Gemini Computer Use: what is asked, what is read, and what goes back."""

from __future__ import annotations

from collections.abc import Callable

from conversations import Conversation
from gemini_server import calls, text

from pytest_vnc_use.types import Click


def test_a_click_and_then_done(converse: Callable[..., Conversation]) -> None:
    talk = converse(
        [calls(("click", {"x": 500, "y": 500, "intent": "open it"}), words="I open it."), text("It is open.")]
    )
    clicked = talk.decide()
    assert clicked.kind == "act"
    assert [proposal.action for proposal in clicked.proposals] == [Click(720, 450)]
    assert clicked.proposals[0].intent == "open it"
    assert (clicked.words, clicked.model) == ("I open it.", "gemini-3.8-flash-001")
    assert (clicked.usage.input, clicked.usage.cached, clicked.usage.output, clicked.usage.thinking) == (
        1500,
        300,
        40,
        60,
    )
    talk.history.carry_out(clicked)
    done = talk.decide()
    assert (done.kind, done.words) == ("finished", "It is open.")
    assert talk.server.refusals == []
