"""A setting that the chosen planner cannot follow is refused by its name."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from pytest_vnc_use.agent import build
from pytest_vnc_use.agent.build import _SERVER, SUPPORTED_BY, build_planner, check_supported
from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.planners.anthropic.planner import AnthropicComputer
from pytest_vnc_use.planners.chat.planner import OpenAICompatible
from pytest_vnc_use.planners.gemini import GeminiComputerUse
from pytest_vnc_use.planners.openai.planner import OpenAIComputer
from pytest_vnc_use.settings.layers import merge
from pytest_vnc_use.settings.settings import FIELDS, Settings

OTHER: dict[str, Any] = {
    "model": "some-model",
    "exclude": ("wait",),
    "toolset": "computer_use",
    "api_key_command": "echo a-key",
    "planner_options": ("include_initial_screenshot=false",),
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
    with pytest.raises(SettingsError, match=r"does not support vnc_toolset, .*=openai with --vnc-base-url"):
        build_planner(Settings(planner="gemini", toolset="computer_use"))


NAMES = {
    "exclude": "excluded_actions",
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
    followed = {NAMES.get(name, name) for name, followers in SUPPORTED_BY.items() if planner in followers}
    assert followed - {"planner_options"} <= takes
    assert set(SUPPORTED_BY) <= set(FIELDS)


OPTIONS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "gemini": (
        ("disabled_safety_policies=A,B", "detect_prompt_injection=false", "search_page=https://search.example"),
        {
            "disabled_safety_policies": ["A", "B"],
            "detect_prompt_injection": False,
            "search_page": "https://search.example",
        },
    ),
    "anthropic": (("tool=computer_20250124", "max_tokens=9"), {"tool": "computer_20250124", "max_tokens": 9}),
    "openai": (("include_thoughts=true",), {"include_thoughts": True}),
    _SERVER: (("temperature=0.5", "coordinates=pixels"), {"temperature": 0.5, "coordinates": "pixels"}),
}


@pytest.mark.parametrize("planner", OPTIONS)
def test_planner_options_become_arguments(planner: str) -> None:
    words, arguments = OPTIONS[planner]
    settings = merge(({**PLANNERS[planner], "planner_options": " ".join(words)}, str))
    assert build._options(settings, CLASSES[planner], ()) == arguments
    assert (
        build._options(merge(({**PLANNERS[planner], "planner_options": list(words)}, str)), CLASSES[planner], ())
        == arguments
    )


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("temperature=hot", "temperature of vnc_planner_options must be float, got 'hot'"),
        ("max_tokens=true", "max_tokens of vnc_planner_options must be int, got 'true'"),
        ("colour=red", "has no option 'colour'; vnc_planner_options takes api_key, "),
        ("log=x", "has no option 'log'"),
    ],
)
def test_planner_option_invalid_raises_settings_error(word: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        build._options(Settings(**PLANNERS[_SERVER], planner_options=(word,)), OpenAICompatible, ())
