"""The contract of the document about Gemini in a browser agent: its functions, their
end, and what goes back.
"""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from typing import Any

import pytest

from pytest_vnc_use.backends.browser import browser_functions
from pytest_vnc_use.planners.common.screens import png_size
from pytest_vnc_use.planners.gemini.calls import OLDER
from pytest_vnc_use.types import (
    Action,
    CallFunction,
    Click,
    Drag,
    InvalidAction,
    KeyCombo,
    Move,
    OpenUrl,
    Scroll,
    TakeScreenshot,
    TraverseHistory,
    TypeText,
    Wait,
)
from support.gemini_server import COMPUTER_USE_ONLY, Reply, calls, text
from support.images import noise
from support.players import Conversation, gemini

AT = {"x": 500, "y": 500}
WITHOUT_IDS = {"with_ids": False}
IN_BROWSER: dict[str, Any] = {
    "model": COMPUTER_USE_ONLY,
    "environment": "browser",
    "serve": WITHOUT_IDS,
}


def call(name: str, **args: Any) -> Reply:
    return calls((name, args), signed=False)


DONE = call("done", message="Top article: pears")


def conversation_of(
    script: Any, **settings: Any
) -> AbstractContextManager[Conversation]:
    """Return a conversation in a browser, of a model that gives its calls no ids."""
    return gemini(script, **{**IN_BROWSER, **settings})


def urls_of(conversation: Conversation) -> list[str]:
    return [
        each["response"]["url"]
        for each in conversation.server.requests[-1].function_responses
    ]


FUNCTIONS: list[tuple[str, dict[str, Any], Action]] = [
    ("open_web_browser", {}, OpenUrl("about:blank")),
    ("navigate", {"url": "https://news.example"}, OpenUrl("https://news.example")),
    ("go_back", {}, TraverseHistory("back")),
    ("go_forward", {}, TraverseHistory("forward")),
    ("search", {}, OpenUrl("https://www.google.com")),
    ("click_at", AT, Click(720, 450)),
    ("hover_at", AT, Move(720, 450)),
    (
        "drag_and_drop",
        {**AT, "destination_x": 0, "destination_y": 0},
        Drag(720, 450, 0, 0),
    ),
    (
        "type_text_at",
        {**AT, "text": "a"},
        TypeText("a", 720, 450, press_enter=True, clear_first=True),
    ),
    (
        "type_text_at",
        {**AT, "text": "a", "press_enter": False, "clear_before_typing": False},
        TypeText("a", 720, 450),
    ),
    ("key_combination", {"keys": "Control+C"}, KeyCombo(("Control", "C"))),
    *[
        (
            "scroll_document",
            {"direction": direction},
            Scroll(720, 450, direction, clicks),
        )
        for direction, clicks in (("up", 7), ("down", 7), ("left", 12), ("right", 12))
    ],
    ("scroll_at", {**AT, "direction": "down"}, Scroll(720, 450, "down", 7)),
    (
        "scroll_at",
        {**AT, "direction": "down", "magnitude": 400},
        Scroll(720, 450, "down", 4),
    ),
    ("wait_5_seconds", {}, Wait(5.0)),
]


def test_function_means_action() -> None:
    named = [(name, args) for name, args, _ in FUNCTIONS]
    assert {name for name, _ in named} == set(OLDER)
    with conversation_of(
        [calls(*named, signed=False)], has_devtools=True
    ) as conversation:
        found = conversation.actions()
    assert [
        (*call, action) for call, action in zip(named, found, strict=True)
    ] == FUNCTIONS


RULES = (
    "by calling functions only",
    "in words, or in JSON, does nothing",
    "Begin with open_web_browser",
    "Then navigate",
    "get_browser_state",
    'call done(message="…")',
    "Nothing else ends the task",
)


def test_request_names_environment_model_and_rules() -> None:
    with conversation_of([DONE]) as conversation:
        conversation.decide()
        [request] = conversation.server.requests
    assert request.model == "gemini-2.5-computer-use-preview-10-2025"
    assert request.computer_use == {"environment": "ENVIRONMENT_BROWSER"}
    prompt = " ".join(request.body["systemInstruction"]["parts"][0]["text"].split())
    assert [rule for rule in RULES if rule not in prompt] == []


def test_window_is_emptied_once_and_answer_is_blank_page() -> None:
    twice = calls(("open_web_browser", {}), ("open_web_browser", {}), signed=False)
    with conversation_of(
        [twice, call("open_web_browser"), DONE], has_devtools=True
    ) as conversation:
        opened = [
            *conversation.actions(url="https://shop.example/"),
            *conversation.actions(url="https://shop.example/"),
        ]
        conversation.decide()
        assert urls_of(conversation) == ["about:blank"] * 3
    assert opened == [
        OpenUrl("about:blank"),
        TakeScreenshot(),
        TakeScreenshot(),
    ]


def test_url_is_that_of_page() -> None:
    with conversation_of([*[call("click_at", **AT)] * 3, DONE]) as conversation:
        for url in ("", "https://shop.example/", ""):
            conversation.act(url=url)
        conversation.decide()
        assert urls_of(conversation) == [
            "",
            "https://shop.example/",
            "https://shop.example/",
        ]


def test_browser_without_devtools_opens_nothing() -> None:
    with conversation_of([call("open_web_browser"), DONE]) as conversation:
        assert conversation.actions() == [TakeScreenshot()]
        conversation.decide()
        [response] = conversation.server.requests[-1].function_responses
    assert response["response"]["url"] == "about:blank"
    assert "do not call this again" in response["response"]["output"]
    assert "needs vnc_cdp" in response["response"]["output"]


def test_done_beside_other_call_is_refused() -> None:
    both = calls(("click_at", AT), ("done", {"message": "Bought."}), signed=False)
    with conversation_of([both, DONE]) as conversation:
        assert [action.kind for action in conversation.actions()] == [
            "click",
            "invalid",
        ]
        assert conversation.decide().kind == "finished"


def test_browser_state_is_offered_with_devtools() -> None:
    functions = browser_functions(lambda: None, lambda width, height: (1000, 1000))  # type: ignore[arg-type, return-value]
    with conversation_of(
        [call("get_browser_state"), DONE], functions=functions
    ) as conversation:
        assert conversation.actions(output="x" * 20_000) == [
            CallFunction("get_browser_state", {})
        ]
        conversation.decide()
        [response] = conversation.server.requests[-1].function_responses
    assert response["response"]["output"] == "x" * 20_000


def test_browser_state_without_devtools_answers_what_is_missing() -> None:
    with conversation_of([call("get_browser_state"), DONE]) as conversation:
        [action] = conversation.actions()
        assert isinstance(action, InvalidAction)
        assert "needs vnc_cdp" in action.problem
        assert "get_browser_state" in json.dumps(
            conversation.server.requests[0].body["tools"]
        )
    excluded = {"excluded_actions": ["get_browser_state"]}
    with conversation_of([DONE], **excluded) as conversation:
        conversation.decide()
        assert "get_browser_state" not in json.dumps(
            conversation.server.requests[0].body["tools"]
        )


@pytest.mark.parametrize(
    "words", ["I look for it.", '{"thinking": "…", "action": [{"click": 5}]}']
)
def test_words_alone_do_not_end(words: str) -> None:
    with conversation_of([text(words), DONE]) as conversation:
        assert conversation.actions() == [TakeScreenshot()]
        done = conversation.decide()
        request = conversation.server.requests[1]
    assert (done.kind, done.text) == ("finished", "Top article: pears")
    assert [content["role"] for content in request.contents] == [
        "user",
        "model",
        "user",
    ]
    assert "call done(message=…)" in request.contents[-1]["parts"][0]["text"]
    assert len(request.images) == 2
    with gemini(
        [text("It is open.")], model=COMPUTER_USE_ONLY, serve=WITHOUT_IDS
    ) as elsewhere:
        assert elsewhere.decide().kind == "finished"


@pytest.mark.parametrize(
    ("environment", "size"), [("browser", (400, 300)), ("desktop", (800, 600))]
)
def test_screenshot_over_200_kb_is_halved(
    environment: str, size: tuple[int, int]
) -> None:
    with gemini([DONE], environment=environment) as conversation:
        conversation.history.pngs[conversation.history.first.digest] = large = noise(
            800, 600
        )
        assert len(large) > 200_000
        conversation.decide()
        assert png_size(conversation.server.requests[0].images[0]) == size


def test_every_response_keeps_its_screenshot() -> None:
    """In every turn of a run with the default limit."""
    with conversation_of(lambda request: call("click_at", **AT)) as conversation:
        decision = conversation.decide()
        for _ in range(40):
            conversation.history.perform(decision)
        conversation.decide()
        request = conversation.server.requests[-1]
    assert [bool(each.get("parts")) for each in request.function_responses] == [
        True
    ] * 40
    assert [content["role"] for content in request.contents] == [
        "user",
        *["model", "user"] * 40,
    ]
