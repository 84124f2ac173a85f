"""Options for a local model: its thoughts sent back, errors as JSON, the first call done, images of a size."""

from __future__ import annotations

import json
from dataclasses import replace

from pytest_vnc_use.types import Ruling, Turn, Wait
from support.chat_conversations import chat
from support.chat_server import call, calls

CLICK = ("click", {"x": 500, "y": 500})
TWO = calls(("computer_use", {"action": "wait"}), ("computer_use", {"action": "left_click", "coordinate": [1, 1]}))


def test_thoughts_of_newest_turns_are_sent_back() -> None:
    script = [
        calls(CLICK, words="<think>The first.</think>I click."),
        calls(CLICK, words="I click.", reasoning_content="The second."),
        calls(CLICK, words="The third.</think>I click."),
        calls(CLICK, words="I click."),
    ]
    with chat(script, keep_thoughts=2) as talk:
        for _ in range(4):
            talk.act()
        requests = talk.server.requests
    assert [message["content"] for message in requests[3].of("assistant")] == [
        "I click.",
        "<think>\nThe second.\n</think>\n\nI click.",
        "<think>\nThe third.\n</think>\n\nI click.",
    ]
    assert requests[1].of("assistant")[0]["content"].startswith("<think>\nThe first.\n</think>")


def test_long_thoughts_are_cut() -> None:
    with chat([calls(CLICK, words=f"<think>{'a' * 9000}</think>Go."), call("wait")], keep_thoughts=1) as talk:
        talk.act()
        talk.decide()
        [message] = talk.server.requests[1].of("assistant")
    assert len(message["content"]) < 2100
    assert message["content"].endswith("(cut, of 9000 characters)\n</think>\n\nGo.")


def test_without_option_no_thought_is_sent_back() -> None:
    with chat([calls(CLICK, reasoning="A thought."), call("wait")]) as talk:
        talk.act()
        talk.decide()
        assert "thought" not in json.dumps(talk.server.requests[1].of("assistant"))


def test_error_is_json_with_its_kind() -> None:
    batch = call("batch", actions=[{"command": "wait"}, {"command": "jump"}, {"command": "wait"}])
    with chat([batch, call("wait"), call("wait")], error_format="json") as talk:
        decision = talk.decide()
        talk.history.carry_out(decision)
        first, second, third = talk.history.turns[0].steps
        halted = replace(third, error="not performed: an earlier action of this turn failed", note="Look.")
        talk.history.turns = [Turn(decision, (first, replace(second, error="no command"), halted))]
        talk.act(ruling=Ruling("deny", "rule 2", "not there"))
        talk.decide()
        queue, refused = (tool["content"] for tool in talk.server.requests[2].of("tool"))
    lines = [line.partition(": ")[2] for line in queue.splitlines()]
    assert lines[0] == "ok"
    assert json.loads(lines[1]) == {"error": {"kind": "invalid_call", "message": "no command"}}
    assert json.loads(lines[2])["error"]["kind"] == "skipped"
    assert json.loads(lines[2])["note"] == "Look."
    assert json.loads(refused) == {"error": {"kind": "refused", "message": "refused: not there"}}


def test_first_of_two_calls_is_done_and_second_refused_by_name() -> None:
    with chat([TWO, TWO], toolset="computer_use", extra_calls="first") as talk:
        assert talk.actions() == [Wait(1.0)]
        talk.decide()
        first, second = (tool["content"] for tool in talk.server.requests[1].of("tool"))
    assert first == "ok"
    assert "computer_use: one turn may hold 1 action, and this call was not performed" in second


def test_second_call_cannot_end_run() -> None:
    ending = ("computer_use", {"action": "terminate", "status": "success"})
    with chat([calls(("computer_use", {"action": "wait"}), ending)], toolset="computer_use", extra_calls="first") as t:
        assert t.decide().kind == "act"
