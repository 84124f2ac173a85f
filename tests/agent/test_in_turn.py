"""A list of planners: each has its model, and the settings that it follows."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_vnc_use.agent.build import build_budget, build_planner, counted_in, in_turn, judge_of, model_that_judges
from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.settings.layers import merge
from pytest_vnc_use.settings.settings import Settings

LOCAL = "http://localhost:1/v1"


def settings(**given: Any) -> Settings:
    return merge((given, str))


def models(**given: Any) -> list[tuple[str, str, str]]:
    return [(each.planner, each.model, each.base_url) for each in in_turn(settings(**given))]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"planner": ""}, [("", "", "")]),
        ({"planner": "shop:plan"}, [("shop:plan", "", "")]),
        ({"planner": "gemini", "model": "other"}, [("gemini", "other", "")]),
        ({"planner": "gemini: pro"}, [("gemini", "gemini-3.1-pro-preview", "")]),
        ({"planner": "gemini:pro"}, [("gemini", "gemini-3.1-pro-preview", "")]),
        (
            {"planner": "gemini:flash, gemini:pro"},
            [("gemini", "gemini-3.8-flash", ""), ("gemini", "gemini-3.1-pro-preview", "")],
        ),
        ({"planner": "shop:plan,anthropic"}, [("shop:plan", "", ""), ("anthropic", "", "")]),
        (
            {"planner": "openai:qwen3-vl:8b,gemini", "base_url": LOCAL},
            [("openai", "qwen3-vl:8b", LOCAL), ("gemini", "", "")],
        ),
    ],
)
def test_each_planner_of_a_list_has_its_model(given: dict[str, Any], expected: list[tuple[str, str, str]]) -> None:
    assert models(**given) == expected


def test_each_planner_follows_what_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "a-key")
    given = settings(planner="openai:qwen3-vl,gemini", base_url=LOCAL, temperature=0.5, environment="browser")
    local, google = in_turn(given)
    assert (local.temperature, local.environment) == (0.5, "desktop")
    assert (google.temperature, google.environment) == (Settings().temperature, "browser")
    name = "openai-compatible (qwen3-vl at localhost:1), then gemini (gemini-3.8-flash)"
    assert build_planner(given).name == name


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"planner": "gemini,anthropic", "model": "other"}, "already names its models.* Remove --vnc-model='other'"),
        ({"planner": "gemini:pro", "model": "other"}, "already names its models"),
        ({"planner": "gemini:flash,gemini:pro", "temperature": 0.5}, "does not support vnc_temperature"),
        ({"planner": "gemini,anthropic", "api_key_command": "echo"}, "works with one service, .* names 2"),
    ],
)
def test_what_does_not_fit_a_list_is_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        in_turn(settings(**given))


@pytest.mark.parametrize("planner", ["gemini,", ",gemini", "gemini,oracle", "gemini:", "a:b,c"])
def test_a_planner_that_is_none_is_refused(planner: str) -> None:
    with pytest.raises(SettingsError, match=r"one of gemini, .*several with commas"):
        settings(planner=planner)


def test_an_address_is_for_openai(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError, match="--vnc-base-url needs --vnc-planner=openai"):
        build_planner(settings(planner="gemini:flash,gemini:pro", base_url=LOCAL))


def test_the_last_planners_service_judges() -> None:
    given = settings(planner="shop:plan,gemini:flash,anthropic:claude-opus-5")
    assert (judge_of(given), model_that_judges(given)) == ("anthropic", "claude-opus-5")


def test_a_limit_in_dollars_needs_the_price_of_every_model() -> None:
    build_budget(settings(planner="gemini:flash-lite,gemini:flash", dollars=1.0))
    with pytest.raises(SettingsError, match="price of the model 'gemini-9-new'"):
        build_budget(settings(planner="gemini:gemini-9-new,gemini:flash", dollars=1.0))


def test_points_are_counted_as_the_first_planner_counts() -> None:
    given = settings(planner="gemini:flash,openai:gpt-5.5")
    assert counted_in(given, bytes)(1440, 900) == (1000, 1000)
