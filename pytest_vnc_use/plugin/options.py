"""Options of the command line and of ini files, read into layers of settings."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path

import pytest

from pytest_vnc_use.settings.fallbacks import fallback_layer
from pytest_vnc_use.settings.layers import environment_layer, merge
from pytest_vnc_use.settings.settings import FIELDS, OPTIONS, Settings, option_name

SECRET_HELP = (
    "a secret: its name, and where its value comes from, such as SHOP=env:SHOP_PASSWORD, file:PATH, cmd:COMMAND"
)
LAYERS = pytest.StashKey[list[tuple[Mapping[str, object], Callable[[str], str]]]]()
"""The layers of settings of a session, weakest first, each with a function that names a setting in that layer."""
OLD_OPTIONS = frozenset(
    """
    depth start_ahead engine container_port container_env volumes start_seconds blank_seconds frozen_seconds
    cdp elements encoding show_pointer lease_seconds password_env environment api_key_env coordinates
    temperature answer_tokens request_seconds computer_tool include_thoughts detect_prompt_injection
    disabled_safety_policies include_initial_screenshot keep_screenshots picture_bytes judge_model exclude
    settle_first_seconds settle_quiet_seconds watch step_delay stall scroll typing prices rehearse
    gate_seconds functions healed vocabulary
    """.split()
)
"""The settings that were options until 0.2. Their options still work in 0.2, and give a warning."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add each setting as an ini option, and some as options too; old options stay as hidden ones."""
    group = parser.getgroup("vnc-use", "tests over VNC (pytest-vnc-use); what a project sets once is an ini option")
    old_options = parser.getgroup("vnc-use-old")  # own group: pytest compares an option with all others of its group
    for name, field in FIELDS.items():
        about, metavar = field.metadata["help"], field.metadata["metavar"]
        default = "" if field.default in ("", (), None) else f" (default: {_shown(field.default)})"
        if metavar:
            group.addoption(option_name(name), dest=f"vnc_{name}", metavar=metavar, help=about + default)
            parser.addini(f"vnc_{name}", f"as {option_name(name)}", default=None)
        else:
            parser.addini(f"vnc_{name}", about + default, default=None)
        if name in OLD_OPTIONS:
            old_options.addoption(option_name(name), dest=f"vnc_{name}", help=argparse.SUPPRESS)
    group.addoption("--vnc-secret", dest="vnc_secret", metavar="NAME=…", action="append", default=[], help=SECRET_HELP)
    parser.addini("vnc_secrets", "as --vnc-secret, one a line", type="linelist", default=[])


def secret_sources(config: pytest.Config) -> list[tuple[str, str, Path]]:
    """Return the texts of the session's secrets, each with the option that it is from, and the folder that it means."""
    in_file = [(text, "ini option vnc_secrets", config.rootpath) for text in config.getini("vnc_secrets")]
    return [
        *in_file,
        *((text, "--vnc-secret", config.invocation_params.dir) for text in config.getoption("vnc_secret")),
    ]


def read_layers(config: pytest.Config) -> bool:
    """Keep the layers of settings in the stash. Return whether one of them sets something."""
    pairs = (each.partition("=") for each in config.getoption("override_ini") or () if each.startswith("vnc_"))
    overrides = {key.removeprefix("vnc_"): value for key, _, value in pairs if key.removeprefix("vnc_") in FIELDS}
    in_ini = {name: _ini(config, name) for name in FIELDS.keys() - overrides.keys()}
    options = {name: config.getoption(f"vnc_{name}") for name in OPTIONS | OLD_OPTIONS}
    _read_env_file(config, (in_ini, environment_layer(os.environ)[0], overrides, options))
    layers = (
        (in_ini, lambda name: f"ini option vnc_{name}"),
        environment_layer(),
        (overrides, lambda name: f"-o vnc_{name}"),
        (options, option_name),
    )
    config.stash[LAYERS] = [fallback_layer(layers), *layers]
    has_setting = any(value is not None for layer, _ in config.stash[LAYERS] for value in layer.values())
    return has_setting or bool(secret_sources(config))


def _read_env_file(config: pytest.Config, layers: Iterable[Mapping[str, object]]) -> None:
    """Read the file of variables that the strongest layer names, for the time of this session. Raises UsageError."""
    named = [layer["env_file"] for layer in layers if layer.get("env_file") is not None]
    if not (named and named[-1]):
        return
    from pytest_vnc_use.errors import SettingsError
    from pytest_vnc_use.settings.env_file import use_env_file

    try:
        config.add_cleanup(use_env_file(named[-1], config.rootpath))
    except SettingsError as exc:
        raise pytest.UsageError(str(exc)) from exc


def warn_of_old_options(config: pytest.Config) -> None:
    """Warn of each old option, and say what to write instead. Raises UsageError if warnings are errors."""
    for name in sorted(OLD_OPTIONS):
        if config.getoption(f"vnc_{name}") is None:
            continue
        warning = f"{option_name(name)} goes with 0.3: write -o vnc_{name}=…, or vnc_{name} in the ini file"
        try:
            config.issue_config_time_warning(pytest.PytestDeprecationWarning(warning), stacklevel=2)
        except pytest.PytestDeprecationWarning as exc:
            raise pytest.UsageError(warning) from exc


def read_settings(config: pytest.Config) -> Settings:
    """Return the settings of the session. Raises UsageError if one of them is wrong."""
    from pytest_vnc_use.errors import SettingsError

    try:
        settings = merge(*config.stash[LAYERS])
        if settings.policy:
            from pytest_vnc_use.safety.policy_file import load_policy

            load_policy(settings.policy)
    except SettingsError as exc:
        from pytest_vnc_use.triage.failure_text import sanitize

        raise pytest.UsageError(sanitize(str(exc), str)) from exc
    return settings


def _shown(value: object) -> str:
    return (
        "x".join(map(str, value))
        if isinstance(value, tuple)
        else f"{value:g}"
        if isinstance(value, float)
        else str(value)
    )


def _ini(config: pytest.Config, name: str) -> object:
    """Return an ini option, also of a native type of TOML; a path in it is relative to the ini file."""
    try:
        with warnings.catch_warnings():  # pytest 9 warns about a list in [tool.pytest.ini_options]
            warnings.simplefilter("ignore", DeprecationWarning)
            value = config.getini(f"vnc_{name}")
    except (TypeError, pytest.UsageError):  # pytest accepts only text for an option without a type
        value = _native(config, f"vnc_{name}")
    if isinstance(value, str) and value and name == "policy":
        from pytest_vnc_use.settings.paths import policy_path

        return policy_path(config.rootpath, value)
    if isinstance(value, str) and value and name in ("prices", "runs_dir", "results", "tls_ca"):
        return str(config.rootpath / value)
    return value


def _native(config: pytest.Config, key: str) -> object:
    """Return the TOML value of an option in [tool.pytest], or in [pytest] of pytest.toml."""
    tomllib = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    assert config.inipath is not None
    tables = tomllib.loads(config.inipath.read_text(encoding="utf-8"))
    native: object = {**tables.get("tool", {}).get("pytest", {}), **tables.get("pytest", {})}.get(key)
    return native
