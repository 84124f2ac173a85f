"""Layers of settings, paths in them, and what a marker may say."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import pytest

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.plugin.tasks import task_spec
from pytest_vnc_use.settings.layers import (
    absolute_files,
    absolute_text,
    environment_layer,
    merge,
)
from pytest_vnc_use.settings.settings import Settings, option_name


def test_stronger_layer_wins_unless_none() -> None:
    ini = (
        {"max_steps": "10", "max_seconds": "5", "model": "a"},
        lambda name: f"ini option vnc_{name}",
    )
    environment = environment_layer({"VNC_USE_MAX_STEPS": "20"})
    command_line = ({"max_steps": None, "max_seconds": "7.5"}, option_name)
    settings = merge(ini, environment, command_line)
    assert (settings.max_steps, settings.max_seconds, settings.model) == (20, 7.5, "a")
    assert settings.votes == Settings().votes


INVALID = [
    ("max_steps", "0", "a whole number, at least 1"),
    ("step_delay", "nan", "a number of seconds"),
    ("screen_size", "1440", "WIDTHxHEIGHT"),
    ("planner", "oracle", "one of"),
    ("elements", "perhaps", "true or false"),
]


@pytest.mark.parametrize(("field", "value", "right"), INVALID)
def test_invalid_value_names_origin_and_remedy(
    field: str, value: str, right: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        merge(({field: value}, option_name))
    message = str(caught.value)
    assert message.startswith(option_name(field))
    assert right in message
    assert repr(value) in message


def test_zero_seconds_are_valid() -> None:
    assert merge(({"step_delay": "0.00"}, option_name)).step_delay == 0


def test_settings_are_frozen_and_show_given_values() -> None:
    settings = Settings(max_steps=3, server="xvnc")
    with pytest.raises(FrozenInstanceError, match="max_steps"):
        settings.max_steps = 4
    assert settings == replace(Settings(), max_steps=3, server="xvnc") != Settings()
    assert {settings: "found"}[replace(settings)] == "found"
    assert repr(settings) == "Settings(server='xvnc', max_steps=3)"
    assert repr(Settings()) == "Settings()"


def test_marker_is_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "apple")
    spec = task_spec(
        ("Sign in",),
        {"expect": "the basket is empty", "max_steps": 3, "secrets": ["SHOP_PASSWORD"]},
    )
    assert spec.task == "Sign in"
    assert spec.expect == ("the basket is empty",)
    assert spec.settings == {"max_steps": 3}
    assert spec.secrets == {"SHOP_PASSWORD": "apple"}
    assert "apple" not in repr(spec)


@pytest.mark.parametrize(
    ("policy", "absolute"),
    [
        ("a.toml", "{base}/a.toml"),
        ("strict", "strict"),
        ("./strict", "{base}/strict"),
        ("", ""),
    ],
)
def test_file_is_absolute_and_preset_is_no_file(
    tmp_path: Path, policy: str, absolute: str
) -> None:
    settings = absolute_files(Settings(policy=policy), tmp_path)
    assert settings.policy == absolute.format(base=tmp_path)


TEXTS = [
    ("app", "python ./app.py --file a/b", "python {base}/app.py --file a/b"),
    ("exec", "./app.py {{host}}", "{base}/app.py '{{host}}'"),
    ("server", "a::5900, ./socket", "a::5900,{base}/socket"),
    (
        "container_args",
        "-v ./app.py:/app.py -v data:/data",
        "-v {base}/app.py:/app.py -v data:/data",
    ),
    (
        "container_args",
        "--volume=app.py:/a:ro -vapp.py:/b",
        "--volume={base}/app.py:/a:ro -v{base}/app.py:/b",
    ),
    ("tls", "ca.pem", "{base}/ca.pem"),
    ("tls", "sha256:00", "sha256:00"),
]


@pytest.mark.parametrize(("name", "text", "absolute"), TEXTS)
def test_path_in_text_of_setting_begins_at_dir(
    tmp_path: Path, name: str, text: str, absolute: str
) -> None:
    (tmp_path / "app.py").touch()
    expected = absolute.format(base=tmp_path)
    assert absolute_text(name, text.format(), tmp_path) == expected
