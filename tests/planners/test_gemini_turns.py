"""Turns of Gemini Computer Use: what is asked, what is read, and what goes back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from google.genai import types

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.planners.gemini.actions import can_detect_injection
from pytest_vnc_use.planners.gemini.planner import GeminiComputerUse
from pytest_vnc_use.types import (
    InvalidAction,
)
from support.gemini_conversations import Conversation
from support.gemini_rules import COMPUTER_USE_ONLY
from support.gemini_server import calls, text

Converse = Callable[..., Conversation]
POINT = {"x": 500, "y": 500}
CLICK = calls(("click", {**POINT, "intent": "open it"}), words="I open it.")
DONE = text("It is open.")


def test_first_request(converse: Converse) -> None:
    talk = converse([CLICK])
    talk.decide()
    [request] = talk.server.requests
    assert (request.version, request.model) == ("v1beta", "gemini-3.8-flash")
    [content] = request.contents
    assert content["parts"][0] == {"text": "Open the basket"}
    assert request.images == (talk.history.pngs[talk.history.first.digest],)
    assert request.computer_use == {"environment": "ENVIRONMENT_DESKTOP", "enablePromptInjectionDetection": True}
    assert request.body["generationConfig"] == {"maxOutputTokens": 8192}
    assert "screenshot" in request.body["systemInstruction"]["parts"][0]["text"]
    assert talk.planner.name == "gemini (gemini-3.8-flash)"


@pytest.mark.parametrize(
    ("changes", "response"),
    [
        ({}, {"output": "ok", "url": ""}),
        ({"error": "no such key"}, {"error": "no such key", "url": ""}),
        ({"url": "https://shop/basket"}, {"output": "ok", "url": "https://shop/basket"}),
        ({"output": "3 users", "note": "Nothing changed."}, {"output": "3 users\nNothing changed.", "url": ""}),
    ],
)
def test_response_holds_result_and_url(converse: Converse, changes: dict[str, Any], response: dict[str, Any]) -> None:
    talk = converse([CLICK, DONE])
    talk.act(**changes)
    talk.decide()
    assert talk.server.requests[1].function_responses[0]["response"] == response


@pytest.mark.slow
def test_every_response_of_newest_turns_has_image(converse: Converse) -> None:
    """Whole turns have them, the newest, until there are as many as asked for."""
    two, one = ("click", POINT), ("wait", {})
    talk = converse([calls(two, two), calls(one), calls(two, two, one), DONE], keep_screenshots=4)
    for _ in range(3):
        talk.history.carry_out(talk.decide())
    talk.decide()
    with_images = [bool(response.get("parts")) for response in talk.server.requests[3].function_responses]
    assert with_images == [False, False, True, True, True, True]
    assert talk.server.refusals == []


@pytest.mark.parametrize(
    ("settings", "offered"),
    [
        ({}, ["click"]),
        ({"environment": "Desktop"}, ["click"]),
        ({"environment": "browser"}, ["click", "navigate"]),
        ({"environment": "mobile"}, ["click"]),
        ({"model": COMPUTER_USE_ONLY}, ["click_at", "navigate"]),
        ({"model": COMPUTER_USE_ONLY, "environment": "mobile"}, ["click_at", "navigate"]),
        ({"model": "gemini-3-flash-preview", "environment": "browser"}, ["click_at", "navigate"]),
    ],
)
def test_only_names_of_models_dialect_are_sent(converse: Converse, settings: Any, offered: list[str]) -> None:
    talk = converse([calls(("click", POINT))], excluded_actions=["click", "click_at", "navigate"], **settings)
    [proposal] = talk.decide().proposals
    assert isinstance(proposal.action, InvalidAction)
    assert talk.server.refusals == []
    [request] = talk.server.requests
    assert request.computer_use is not None
    assert request.computer_use["excludedPredefinedFunctions"] == offered


def test_injection_detection_and_safety_policies(converse: Converse) -> None:
    if "disabled_safety_policies" not in types.ComputerUse.model_fields:
        pytest.skip("this google-genai has no safety policies")
    policies = ["account_creation", "DATA_MODIFICATION"]
    talk = converse([CLICK], detect_prompt_injection=True, disabled_safety_policies=policies)
    talk.decide()
    assert talk.server.requests[0].computer_use == {
        "environment": "ENVIRONMENT_DESKTOP",
        "enablePromptInjectionDetection": True,
        "disabledSafetyPolicies": ["ACCOUNT_CREATION", "DATA_MODIFICATION"],
    }


@pytest.mark.parametrize(
    ("model", "can"),
    [
        *[(f"gemini-{version}", True) for version in ("3.5-flash", "3.5-flash-lite", "3.8-flash", "4-argon", "10-pro")],
        *[(f"gemini-{version}", False) for version in ("2.5-computer-use-preview-10-2025", "3-flash-preview")],
        *[(model, False) for model in ("gemini-3.1-pro-preview", "gemini-flash-latest", "mine", "gemini-3.5x")],
    ],
)
def test_detection_is_on_where_model_can(model: str, can: bool) -> None:
    assert can_detect_injection(model) is can


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"environment": "laptop"}, r"must be one of \[.*'desktop'.*\], got 'laptop'"),
        ({"disabled_safety_policies": ["fun"]}, "got .*'fun'"),
    ],
)
def test_wrong_setting_says_what_would_be_right(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(SettingsError, match=problem):
        GeminiComputerUse(api_key="a key", **settings)
