"""A setting that the chosen planner cannot follow is refused by its name."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from pytest_vnc_use.agent.build import _SERVER, SUPPORTED_BY, build_planner, check_supported
from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.planners.anthropic.planner import AnthropicComputer
from pytest_vnc_use.planners.chat.planner import OpenAICompatible
from pytest_vnc_use.planners.gemini import GeminiComputerUse
from pytest_vnc_use.planners.openai.planner import OpenAIComputer
from pytest_vnc_use.settings.settings import FIELDS, Settings

OTHER: dict[str, Any] = {
    "model": "some-model",
    "exclude": ("wait",),
    "answer_tokens": 100,
    "include_initial_screenshot": False,
    "keep_screenshots": 2,
    "include_thoughts": True,
    "environment": "browser",
    "search_page": "https://search.example",
    "detect_prompt_injection": False,
    "disabled_safety_policies": ("ACCOUNT_CREATION",),
    "computer_tool": "computer_20250124",
    "toolset": "computer_use",
    "coordinates": "pixels",
    "temperature": 0.5,
    "keep_thoughts": 2,
    "error_format": "json",
    "extra_calls": "first",
    "api_key_env": "OUR_KEY",
    "api_key_command": "echo a-key",
}
PLANNERS = {
    "gemini": {"planner": "gemini"},
    "anthropic": {"planner": "anthropic"},
    "openai": {"planner": "openai"},
    _SERVER: {"planner": "openai", "base_url": "http://localhost:1/v1"},
    "shop:plan": {"planner": "shop:plan"},
}


@pytest.mark.parametrize("planner", PLANNERS)
def test_every_setting_is_followed_or_refused_by_name(planner: str) -> None:
    assert set(OTHER) == set(SUPPORTED_BY)
    for name, followers in SUPPORTED_BY.items():
        settings = Settings(**PLANNERS[planner], **{name: OTHER[name]})
        if planner in followers:
            check_supported(settings)
            continue
        with pytest.raises(
            SettingsError, match=rf" does not support (--vnc-|vnc_){name}, got .* Remove (--vnc-|vnc_){name}, or use "
        ):
            check_supported(settings)


def test_the_defaults_suit_every_planner() -> None:
    for given in PLANNERS.values():
        check_supported(Settings(**given))


def test_nothing_is_built_with_a_setting_that_is_not_followed() -> None:
    with pytest.raises(SettingsError, match=r"does not support vnc_temperature, .*=openai with --vnc-base-url"):
        build_planner(Settings(planner="gemini", temperature=0.5))


NAMES = {
    "exclude": "excluded_actions",
    "answer_tokens": "max_output_tokens",
    "computer_tool": "tool",
    "api_key_env": "api_key",
    "api_key_command": "api_key",
}
CLASSES = {
    "gemini": GeminiComputerUse,
    "anthropic": AnthropicComputer,
    "openai": OpenAIComputer,
    _SERVER: OpenAICompatible,
}


@pytest.mark.parametrize("planner", CLASSES)
def test_each_class_takes_what_it_is_said_to_follow(planner: str) -> None:
    takes = set(inspect.signature(CLASSES[planner].__init__).parameters)
    takes |= {"max_output_tokens"} if "max_tokens" in takes else set()
    followed = {NAMES.get(name, name) for name, followers in SUPPORTED_BY.items() if planner in followers}
    assert followed <= takes
    assert set(SUPPORTED_BY) <= set(FIELDS)
