"""Layers of settings, and what a marker may say."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import pytest

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.plugin.markers import task_spec
from pytest_vnc_use.settings.layers import environment_layer, merge
from pytest_vnc_use.settings.settings import Settings, option_name


def test_stronger_layer_wins_unless_none() -> None:
    ini = ({"max_steps": "10", "max_seconds": "5", "model": "a"}, lambda name: f"ini option vnc_{name}")
    environment = environment_layer({"VNC_USE_MAX_STEPS": "20"})
    command_line = ({"max_steps": None, "max_seconds": "7.5"}, option_name)
    settings = merge(ini, environment, command_line)
    assert (settings.max_steps, settings.max_seconds, settings.model) == (20, 7.5, "a")
    assert settings.votes == Settings().votes


def test_values_may_be_python_ones() -> None:
    settings = merge(({"screen_size": (800, 600), "exclude": ("search", "go_back"), "elements": True}, str))
    assert settings.screen_size == (800, 600)
    assert settings.exclude == ("search", "go_back")
    assert settings.elements is True


@pytest.mark.parametrize(
    ("field", "value", "right"),
    [
        ("max_steps", "0", "a whole number, at least 1"),
        ("max_steps", "many", "a whole number, at least 1"),
        ("max_seconds", "-1", "a number of seconds above 0"),
        ("max_seconds", "nan", "a number of seconds above 0"),
        ("step_delay", "-0.5", "a number of seconds"),
        ("step_delay", "nan", "a number of seconds"),
        ("step_delay", "soon", "a number of seconds, 0 or more"),
        ("screen_size", "1440", "WIDTHxHEIGHT"),
        ("screen_size", "0x900", "WIDTHxHEIGHT"),
        ("planner", "oracle", "one of"),
        ("rehearse", "-1", "a whole number, 0 for none"),
        ("transients", "maybe", "one of report, fail"),
        ("elements", "perhaps", "true or false"),
    ],
)
def test_wrong_value_names_origin_and_remedy(field: str, value: str, right: str) -> None:
    with pytest.raises(SettingsError) as caught:
        merge(({field: value}, option_name))
    assert str(caught.value).startswith(option_name(field))
    assert right in str(caught.value)
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize(("value", "seconds"), [("0", 0), ("0.00", 0), ("00", 0), ("0.25", 0.25)])
def test_pause_may_be_zero_in_any_spelling(value: str, seconds: float) -> None:
    assert merge(({"step_delay": value}, option_name)).step_delay == seconds


def test_settings_show_what_was_given() -> None:
    assert repr(Settings()) == "Settings()"
    assert repr(Settings(max_steps=3, server="xvnc")) == "Settings(server='xvnc', max_steps=3)"


def test_settings_are_frozen_values() -> None:
    settings = Settings(max_steps=3)
    with pytest.raises(FrozenInstanceError, match="max_steps"):
        settings.max_steps = 4
    assert settings == replace(Settings(), max_steps=3) != Settings()
    assert {settings: "found"}[replace(settings)] == "found"


def test_unknown_setting_is_refused() -> None:
    with pytest.raises(TypeError, match="no setting 'step'; there are server, app,"):
        Settings(step=3)


def test_marker_is_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "apple")
    spec = task_spec(("Sign in",), {"expect": "the basket is empty", "max_steps": 3, "secrets": ["SHOP_PASSWORD"]})
    assert spec.task == "Sign in"
    assert spec.expect == ("the basket is empty",)
    assert spec.settings == {"max_steps": 3}
    assert spec.secrets == {"SHOP_PASSWORD": "apple"}
    assert "apple" not in repr(spec)
