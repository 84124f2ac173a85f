"""The contract of the document about Gemini in a browser agent: its functions, their end, and what goes back."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
from PIL import Image

from pytest_vnc_use import Outcome, VncUseAgent
from pytest_vnc_use.backends.browser import browser_functions
from pytest_vnc_use.planners.gemini.actions import OLDER
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import (
    Action,
    CallFunction,
    Click,
    Drag,
    KeyCombo,
    Move,
    OpenAddress,
    Scroll,
    TakeScreenshot,
    TraverseHistory,
    TypeText,
    Wait,
)
from support.gemini_conversations import Conversation
from support.gemini_rules import COMPUTER_USE_ONLY
from support.gemini_server import Reply, calls, candidate, text
from support.images import noise
from support.memory_desktop import PaintedController

AT = {"x": 500, "y": 500}
IN_BROWSER: dict[str, Any] = {"model": COMPUTER_USE_ONLY, "environment": "browser", "with_ids": False}
Converse = Callable[..., Conversation]


def call(name: str, **args: Any) -> Reply:
    return calls((name, args), signed=False)


DONE = call("done", message="Top article: pears")


@pytest.fixture
def converse(request: pytest.FixtureRequest) -> Converse:
    from pytest_vnc_use.planners.gemini.planner import GeminiComputerUse
    from support.gemini_conversations import QUICK
    from support.gemini_server import GeminiServer

    def start(script: Any, *, with_ids: bool = True, **settings: Any) -> Conversation:
        server = GeminiServer(script, with_ids=with_ids).__enter__()
        request.addfinalizer(lambda: server.__exit__(None, None, None))
        settings = {"api_key": server.api_key, "base_url": server.url, "backoff": QUICK, **settings}
        return Conversation(server, GeminiComputerUse(**settings))

    return start


FUNCTIONS: list[tuple[str, dict[str, Any], Action]] = [
    ("open_web_browser", {}, OpenAddress("about:blank", in_new_window=True)),
    ("navigate", {"url": "https://news.example"}, OpenAddress("https://news.example")),
    ("go_back", {}, TraverseHistory("back")),
    ("go_forward", {}, TraverseHistory("forward")),
    ("search", {}, OpenAddress("https://www.google.com")),
    ("click_at", AT, Click(720, 450)),
    ("hover_at", AT, Move(720, 450)),
    ("drag_and_drop", {**AT, "destination_x": 0, "destination_y": 0}, Drag(720, 450, 0, 0)),
    ("type_text_at", {**AT, "text": "a"}, TypeText("a", 720, 450, press_enter=True, clear_first=True)),
    ("key_combination", {"keys": "Control+C"}, KeyCombo(("Control", "C"))),
    *[
        ("scroll_document", {"direction": direction}, Scroll(720, 450, direction, clicks))
        for direction, clicks in (("up", 7), ("down", 7), ("left", 12), ("right", 12))
    ],
    ("scroll_at", {**AT, "direction": "down"}, Scroll(720, 450, "down", 7)),
    ("scroll_at", {**AT, "direction": "down", "magnitude": 400}, Scroll(720, 450, "down", 4)),
    ("wait_5_seconds", {}, Wait(5.0)),
]


def test_every_function_of_dialect_is_in_table() -> None:
    assert {name for name, _, _ in FUNCTIONS} == set(OLDER)


@pytest.mark.parametrize(("name", "args", "action"), FUNCTIONS)
def test_function_means_action(converse: Converse, name: str, args: dict[str, Any], action: Action) -> None:
    talk = converse([call(name, **args)], opens_windows=True, **IN_BROWSER)
    assert [proposal.action for proposal in talk.decide().proposals] == [action]


def test_request_names_environment_and_model(converse: Converse) -> None:
    talk = converse([DONE], **IN_BROWSER)
    talk.decide()
    [request] = talk.server.requests
    assert request.model == "gemini-2.5-computer-use-preview-10-2025"
    assert request.computer_use == {"environment": "ENVIRONMENT_BROWSER"}


def test_browser_opens_once_and_answers_blank_page(converse: Converse) -> None:
    twice = calls(("open_web_browser", {}), ("open_web_browser", {}), signed=False)
    talk = converse([twice, call("open_web_browser"), DONE], opens_windows=True, **IN_BROWSER)
    opened = [proposal.action for proposal in talk.act(url="https://shop.example/").proposals]
    opened += [proposal.action for proposal in talk.act(url="https://shop.example/").proposals]
    assert opened == [OpenAddress("about:blank", in_new_window=True), TakeScreenshot(), TakeScreenshot()]
    talk.decide()
    urls = [each["response"]["url"] for each in talk.server.requests[-1].function_responses]
    assert urls == ["about:blank"] * 3


def test_url_is_that_of_page(converse: Converse) -> None:
    talk = converse([*[call("click_at", **AT)] * 3, DONE], **IN_BROWSER)
    for url in ("", "https://shop.example/", ""):
        talk.act(url=url)
    talk.decide()
    urls = [each["response"]["url"] for each in talk.server.requests[-1].function_responses]
    assert urls == ["", "https://shop.example/", "https://shop.example/"]


def test_browser_without_devtools_opens_nothing(converse: Converse) -> None:
    talk = converse([call("open_web_browser"), DONE], **IN_BROWSER)
    assert [proposal.action for proposal in talk.act().proposals] == [TakeScreenshot()]
    talk.decide()
    [response] = talk.server.requests[-1].function_responses
    assert response["response"]["url"] == "about:blank"
    assert "do not call this again" in response["response"]["output"]


def test_done_beside_other_call_is_refused(converse: Converse) -> None:
    talk = converse([calls(("click_at", AT), ("done", {"message": "Bought."}), signed=False), DONE], **IN_BROWSER)
    assert [proposal.action.kind for proposal in talk.act().proposals] == ["click", "invalid"]
    assert talk.decide().kind == "finished"


def test_browser_state_is_offered_with_devtools(converse: Converse) -> None:
    functions = browser_functions(lambda: None, lambda width, height: (1000, 1000))  # type: ignore[arg-type, return-value]
    talk = converse([call("get_browser_state"), DONE], functions=functions, **IN_BROWSER)
    text_of_page = "x" * 20_000
    assert talk.act(output=text_of_page).proposals[0].action == CallFunction("get_browser_state", {})
    talk.decide()
    [response] = talk.server.requests[-1].function_responses
    assert response["response"]["output"] == text_of_page


@pytest.mark.parametrize("part", [{"text": "Hm.", "thought": True}, {"text": "", "thoughtSignature": "c2ln+/8="}])
def test_thoughts_go_back_unchanged(converse: Converse, part: dict[str, Any]) -> None:
    click = {"functionCall": {"name": "click_at", "args": AT}}
    talk = converse([candidate([part, click]), DONE], **IN_BROWSER)
    talk.act()
    talk.decide()
    [user, model, answered] = talk.server.requests[-1].contents
    assert ([user["role"], model["role"], answered["role"]], model["parts"][0]) == (["user", "model", "user"], part)


@pytest.mark.parametrize("words", ["I look for it.", '{"thinking": "…", "action": [{"click": 5}]}'])
def test_words_alone_do_not_end(converse: Converse, words: str) -> None:
    talk = converse([text(words), DONE], **IN_BROWSER)
    assert [proposal.action for proposal in talk.act().proposals] == [TakeScreenshot()]
    done = talk.decide()
    assert (done.kind, done.words) == ("finished", "Top article: pears")
    contents = talk.server.requests[1].contents
    assert [content["role"] for content in contents] == ["user", "model", "user"]
    assert "call done(message=…)" in contents[-1]["parts"][0]["text"]
    assert len(talk.server.requests[1].images) == 2
    assert talk.server.refusals == []


def test_words_alone_end_elsewhere(converse: Converse) -> None:
    talk = converse([text("It is open.")], model=COMPUTER_USE_ONLY, with_ids=False)
    assert talk.decide().kind == "finished"


@pytest.mark.parametrize(
    "rule",
    [
        "by calling functions only",
        "in words, or in JSON, does nothing",
        "Begin with open_web_browser",
        "Then navigate",
        "get_browser_state",
        'call done(message="…")',
        "Nothing else ends the task",
    ],
)
def test_prompt_has_rule(converse: Converse, rule: str) -> None:
    talk = converse([DONE], **IN_BROWSER)
    talk.decide()
    assert rule in " ".join(talk.server.requests[0].body["systemInstruction"]["parts"][0]["text"].split())


@pytest.mark.parametrize(("settings", "size"), [(IN_BROWSER, (400, 300)), ({}, (800, 600))])
def test_screenshot_over_200_kb_is_halved(converse: Converse, settings: dict[str, Any], size: tuple[int, int]) -> None:
    talk = converse([DONE], **settings)
    talk.history.pngs[talk.history.first.digest] = large = noise(800, 600)
    assert len(large) > 200_000
    talk.decide()
    with Image.open(io.BytesIO(talk.server.requests[0].images[0])) as image:
        assert (image.size, image.format) == (size, "PNG")


def test_every_response_keeps_its_screenshot(converse: Converse) -> None:
    """In every turn of a run with the default limit."""
    talk = converse(lambda request: call("click_at", **AT), **IN_BROWSER)
    decision = talk.decide()
    for _ in range(40):
        talk.history.carry_out(decision)
    talk.decide()
    request = talk.server.requests[-1]
    assert [bool(each.get("parts")) for each in request.function_responses] == [True] * 40
    roles = [content["role"] for content in request.contents]
    assert roles == ["user", *["model", "user"] * 40]


def test_run_without_done_ends_at_its_limit(converse: Converse) -> None:
    server = converse(lambda request: call("click_at", **AT), **IN_BROWSER).server
    with agent_at(server.url, server.api_key, max_steps=3) as agent:
        assert agent.run("Find the top article").outcome is Outcome.STEP_LIMIT


def agent_at(url: str, key: str, **more: Any) -> VncUseAgent:
    from pytest_vnc_use.planners.gemini.planner import GeminiComputerUse

    planner = GeminiComputerUse(model=COMPUTER_USE_ONLY, environment="browser", api_key=key, base_url=url)
    return VncUseAgent(settings=Settings(planner="gemini", **more), planner=planner, controller=PaintedController())
