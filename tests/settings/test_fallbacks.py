"""The settings of a local vision agent: one setting chooses them, and its variables are
read only then.
"""

from __future__ import annotations

import pytest

from pytest_vnc_use.agent import build, providers
from pytest_vnc_use.settings.fallbacks import VARIABLES, format_fallbacks

CHOSEN = {"toolset": "local_agent"}


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "VNC_USE_API_KEY", "VNC_USE_BASE_URL", *VARIABLES):
        monkeypatch.delenv(name, raising=False)


def test_setting_is_stronger_than_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LMSTUDIO_MODEL", "qwen3-vl-4b-instruct")
    settings = build.settings_of({**CHOSEN, "model": "other", "max_steps": 3})
    assert (settings.model, settings.max_steps) == ("other", 3)
    assert (
        providers.build_planner(settings).name
        == "openai-compatible (other at localhost:1234)"
    )


@pytest.mark.parametrize("base_url", ["", "https://a.example"])
def test_variables_go_nowhere_else(
    monkeypatch: pytest.MonkeyPatch, base_url: str
) -> None:
    monkeypatch.setenv("LMSTUDIO_ENDPOINT", "http://localhost:9/v1/chat/completions")
    monkeypatch.setenv("LMSTUDIO_MODEL", "qwen3-vl-8b")
    monkeypatch.setenv("AGENT_MAX_STEPS", "12")
    settings = build.settings_of({"planner": "openai", "base_url": base_url})
    assert settings.model == ""
    assert settings.base_url == base_url
    assert settings.max_steps == 40


def test_doctor_names_variables_and_no_value() -> None:
    found = {"LMSTUDIO_ENDPOINT": "http://secret.example", "AGENT_MAX_STEPS": "12"}
    said = {
        toolset: [*format_fallbacks(toolset, found)]
        for toolset in ("local_agent", "commands")
    }
    assert said == {
        "local_agent": [
            "read where no setting says otherwise: LMSTUDIO_ENDPOINT, AGENT_MAX_STEPS"
        ],
        "commands": [
            "not read: LMSTUDIO_ENDPOINT, AGENT_MAX_STEPS; they count with vnc_toolset"
            " = local_agent"
        ],
    }
    assert [*format_fallbacks("local_agent", {})] == []
