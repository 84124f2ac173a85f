"""The variables of LM Studio's agents: read together, only where nothing else says which server is to be asked."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_vnc_use.agent import build
from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.settings.fallbacks import fallbacks_in_words

URL = "http://localhost:1234/v1"


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "VNC_USE_API_KEY", "VNC_USE_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LMSTUDIO_BASE_URL", URL)
    monkeypatch.setenv("LMSTUDIO_MODEL", "qwen3-vl-8b")
    monkeypatch.setenv("LMSTUDIO_API_KEY", "a key")
    monkeypatch.setenv("AGENT_MAX_STEPS", "12")


def test_they_are_read_where_nothing_else_is_given() -> None:
    settings = build.settings_of({"planner": "openai"})
    read = (settings.base_url, settings.model, settings.api_key_env, settings.steps)
    assert read == (URL, "qwen3-vl-8b", "LMSTUDIO_API_KEY", 12)
    assert build.ambient_secrets(settings)["LMSTUDIO_API_KEY"] == "a key"
    assert build.build_planner(settings).name == "openai-compatible (qwen3-vl-8b at localhost:1234)"


def test_a_setting_is_stronger() -> None:
    settings = build.settings_of({"planner": "openai", "model": "other", "steps": 3})
    assert (settings.base_url, settings.model, settings.steps) == (URL, "other", 3)


@pytest.mark.parametrize(
    "given", [{"planner": "gemini"}, {}, {"planner": "openai", "base_url": "https://models.example/v1"}]
)
def test_their_key_and_model_go_nowhere_else(given: dict[str, Any]) -> None:
    settings = build.settings_of(given)
    assert (settings.model, settings.api_key_env, settings.steps) == ("", "VNC_USE_API_KEY", 40)


def test_with_a_key_of_openai_the_planner_is_openai(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "another key")
    assert build.settings_of({"planner": "openai"}).base_url == ""


def test_a_wrong_value_is_refused_by_the_name_of_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_MAX_STEPS", "many")
    with pytest.raises(SettingsError, match="AGENT_MAX_STEPS must be a whole number, at least 1, got 'many'"):
        build.settings_of({"planner": "openai"})


def test_doctor_names_them_and_no_value() -> None:
    assert list(fallbacks_in_words(URL)) == [
        "read where no setting says otherwise: LMSTUDIO_BASE_URL, LMSTUDIO_MODEL, AGENT_MAX_STEPS, LMSTUDIO_API_KEY"
    ]
    [unread] = fallbacks_in_words("")
    assert unread.startswith("not read: LMSTUDIO_BASE_URL")
    assert list(fallbacks_in_words("", {})) == []
