"""The settings of a session: read from options, ini files and variables into layers."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path

import pytest

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.plugin.state import SETTINGS as SETTINGS
from pytest_vnc_use.settings.fallbacks import Layer, fallback_layer
from pytest_vnc_use.settings.layers import environment_layer, merge
from pytest_vnc_use.settings.paths import absolute_text
from pytest_vnc_use.settings.settings import FIELDS, OPTIONS, Settings, option_name

_LAYERS = pytest.StashKey[Sequence[Layer]]()
"""The layers of settings of a session, weakest first, each with a function that names a setting in that layer."""


def secret_sources(config: pytest.Config) -> list[tuple[str, str, Path]]:
    """Return the texts of the session's secrets, each with the option that it is from, and the folder that it means."""
    in_file = [(text, "ini option vnc_secrets", config.rootpath) for text in config.getini("vnc_secrets")]
    return [
        *in_file,
        *((text, "--vnc-secret", config.invocation_params.dir) for text in config.getoption("vnc_secret")),
    ]


def read_layers(config: pytest.Config) -> bool:
    """Read the layers of settings and keep them. Return whether one of them sets something."""
    pairs = (each.partition("=") for each in config.getoption("override_ini") or () if each.startswith("vnc_"))
    overrides = {key.removeprefix("vnc_"): value for key, _, value in pairs if key.removeprefix("vnc_") in FIELDS}
    with warnings.catch_warnings():  # pytest 9 warns about a list in [tool.pytest.ini_options]
        warnings.simplefilter("ignore", DeprecationWarning)
        in_ini = {name: _ini(config, name) for name in FIELDS.keys() - overrides.keys()}
    options = {name: config.getoption(f"vnc_{name}", None) for name in OPTIONS}
    _read_env_file(config, (in_ini, environment_layer(os.environ)[0], overrides, options))
    layers = (
        (in_ini, lambda name: f"ini option vnc_{name}"),
        environment_layer(),
        (overrides, lambda name: f"-o vnc_{name}"),
        (options, option_name),
    )
    config.stash[_LAYERS] = [fallback_layer(layers), *layers]
    has_setting = any(value is not None for layer, _ in config.stash[_LAYERS] for value in layer.values())
    return has_setting or bool(secret_sources(config))


def layers_of(config: pytest.Config) -> Sequence[Layer]:
    """Return the layers of settings of the session, weakest first; none where nothing is set."""
    return config.stash.get(_LAYERS, ())


def must_replay(config: pytest.Config) -> bool:
    """Return whether the command line says `--vnc-record=replay`, or `-o vnc_record=replay`; no marker overrules it."""
    on_command_line = [layer["record"] for layer, _ in layers_of(config)[-2:] if layer.get("record") is not None]
    return on_command_line[-1:] == ["replay"]


def _read_env_file(config: pytest.Config, layers: Iterable[Mapping[str, object]]) -> None:
    """Read the file of variables that the strongest layer names, for the time of this session. Raises UsageError."""
    named = [layer["env_file"] for layer in layers if layer.get("env_file") is not None]
    if not (named and named[-1]):
        return
    from pytest_vnc_use.settings.env_file import use_env_file

    try:
        config.add_cleanup(use_env_file(named[-1], config.rootpath))
    except SettingsError as exc:
        raise pytest.UsageError(str(exc)) from exc


def read_settings(config: pytest.Config) -> Settings:
    """Return the settings of the session. Raises UsageError if one of them is wrong."""
    try:
        settings = merge(*layers_of(config))
        if settings.policy:
            from pytest_vnc_use.safety.policy_file import load_policy

            load_policy(settings.policy)
    except SettingsError as exc:
        from pytest_vnc_use.triage.failure_text import sanitize

        raise pytest.UsageError(sanitize(str(exc), str)) from exc
    return settings


def _ini(config: pytest.Config, name: str) -> object:
    """Return an ini option, also of a native type of TOML; a path in it begins at pytest's root folder."""
    try:
        value = config.getini(f"vnc_{name}")
    except (TypeError, pytest.UsageError):  # pytest accepts only text for an option without a type
        value = _native(config, f"vnc_{name}")
    return absolute_text(name, value, config.rootpath) if isinstance(value, str) and value else value


def _native(config: pytest.Config, key: str) -> object:
    """Return the TOML value of an option in [tool.pytest], or in [pytest] of pytest.toml."""
    tomllib = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    assert config.inipath is not None
    tables = tomllib.loads(config.inipath.read_text(encoding="utf-8"))
    native: object = {**tables.get("tool", {}).get("pytest", {}), **tables.get("pytest", {})}.get(key)
    return native
