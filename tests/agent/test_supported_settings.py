"""A setting that the chosen planner cannot follow is refused by its name."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_vnc_use.agent import build
from pytest_vnc_use.agent.build import check_supported
from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.planners.anthropic import AnthropicComputer
from pytest_vnc_use.planners.chat.planner import OpenAICompatible
from pytest_vnc_use.planners.gemini import GeminiComputerUse
from pytest_vnc_use.planners.openai import OpenAIComputer
from pytest_vnc_use.settings.layers import merge
from pytest_vnc_use.settings.settings import Settings

SERVER = "openai with --vnc-base-url"
PLANNERS: dict[str, dict[str, Any]] = {
    "gemini": {"planner": "gemini"},
    "anthropic": {"planner": "anthropic"},
    "openai": {"planner": "openai"},
    SERVER: {"planner": "openai", "base_url": "http://localhost:1/v1"},
    "shop:plan": {"planner": "shop:plan"},
}
CLASSES = {
    "gemini": GeminiComputerUse,
    "anthropic": AnthropicComputer,
    "openai": OpenAIComputer,
    SERVER: OpenAICompatible,
}


@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize(
    ("name", "value"), [("model", "a-model"), ("api_key_command", "echo a-key"), ("toolset", "computer_use")]
)
def test_setting_is_supported_or_rejected_by_name(planner: str, name: str, value: object) -> None:
    check_supported(Settings(**PLANNERS[planner]))
    settings = Settings(**PLANNERS[planner], **{name: value})
    if planner == SERVER or (name != "toolset" and planner in CLASSES):
        check_supported(settings)
        return
    with pytest.raises(
        SettingsError, match=rf" does not support (--vnc-|vnc_){name}, got .* Remove (--vnc-|vnc_){name}, or use "
    ):
        check_supported(settings)


def test_planner_options_become_arguments() -> None:
    words = ["disabled_safety_policies=A,B", "detect_prompt_injection=false", "environment=browser"]
    for given in (" ".join(words), words):
        assert build._options(merge(({"planner": "gemini", "planner_options": given}, str)), GeminiComputerUse, ()) == {
            "environment": "browser",
            "disabled_safety_policies": ["A", "B"],
            "detect_prompt_injection": False,
        }


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("temperature=hot", "temperature of vnc_planner_options must be float, got 'hot'"),
        ("colour=red", "has no option 'colour'. vnc_planner_options supports base_url, "),
    ],
)
def test_planner_option_invalid_raises_settings_error(word: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        build._options(Settings(**PLANNERS[SERVER], planner_options=(word,)), OpenAICompatible, ())
