"""The options of the plugin, and the layers of settings that a session reads from them
and from environment variables.

Every session loads this module, so it imports what reads settings only if one may be
set.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_vnc_use.settings.settings import (
    ENVIRONMENT_PREFIX,
    FIELDS,
    OPTIONS,
    option_name,
    variable_of,
)

if TYPE_CHECKING:
    from pytest_vnc_use.settings.fallbacks import Layer

SECRET_HELP = (
    "Secret: NAME=env:VARIABLE, NAME=file:PATH or NAME=cmd:COMMAND; repeatable"
)
_LAYERS: pytest.StashKey[Sequence[Layer]] = pytest.StashKey()
"""The layers of settings of a session, weakest first."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add an ini option for each setting, and a command-line option for some."""
    group = parser.getgroup(
        "vnc-use",
        "tests over VNC (pytest-vnc-use); what a project sets once is an ini option",
    )
    for name, field in FIELDS.items():
        help_text = field.metadata["help"] + _format_default(field.default)
        ini_help = help_text
        if name in OPTIONS:
            group.addoption(
                option_name(name),
                dest=f"vnc_{name}",
                metavar=field.metadata["metavar"],
                help=help_text,
            )
            ini_help = f"As {option_name(name)}"
        parser.addini(f"vnc_{name}", ini_help, default=None)
    group.addoption(
        "--vnc-ui",
        dest="vnc_ui",
        action="store_true",
        default=None,
        help="Serve a page to watch the tests as they run",
    )
    group.addoption(
        "--vnc-secret",
        dest="vnc_secret",
        metavar="NAME=…",
        action="append",
        default=[],
        help=SECRET_HELP,
    )
    parser.addini(
        "vnc_secrets", "As --vnc-secret, one per line", type="linelist", default=[]
    )


def _format_default(value: object) -> str:
    if value in ("", (), None):
        return ""
    if isinstance(value, tuple):
        value = "x".join(map(str, value))
    elif isinstance(value, float):
        value = f"{value:g}"
    return f" (default: {value})"


def secret_sources(config: pytest.Config) -> list[tuple[str, str, Path]]:
    """Return the session's secrets as they are written, each with its option and the
    base directory of its paths.
    """
    sources = []
    for text in config.getini("vnc_secrets"):
        sources.append((text, "ini option vnc_secrets", config.rootpath))
    for text in config.getoption("vnc_secret"):
        sources.append((text, "--vnc-secret", config.invocation_params.dir))
    return sources


def read_layers(config: pytest.Config) -> bool:
    """Read and store the layers of settings. Return whether one of them sets
    something.
    """
    # pytest 9 warns about a list in [tool.pytest.ini_options], and about inicfg
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        _reject_unknown(config, getattr(config, "inicfg", ()))
        ini_values = {name: _ini_value(config, name) for name in FIELDS}
    options = {name: config.getoption(f"vnc_{name}", None) for name in OPTIONS}
    has_secrets = bool(secret_sources(config))
    has_variables = any(name.startswith(ENVIRONMENT_PREFIX) for name in os.environ)
    if not (has_secrets or has_variables or _sets(ini_values) or _sets(options)):
        return False
    from pytest_vnc_use.errors import SettingsError
    from pytest_vnc_use.settings.fallbacks import fallback_layer, strongest_value
    from pytest_vnc_use.settings.layers import absolute_text, environment_layer
    from pytest_vnc_use.settings.variables import VARIABLES, use_env_file

    # pytest's ini values include those of `-o`, which have a layer of their own.
    overrides = _overrides(config)
    file_values: dict[str, object] = {}
    for name, value in ini_values.items():
        if name in overrides:
            continue
        if value and isinstance(value, str):
            value = absolute_text(name, value, config.rootpath)
        file_values[name] = value
    ini_layer: Layer = (file_values, lambda name: f"ini option vnc_{name}")
    command_line: list[Layer] = [
        (overrides, lambda name: f"-o vnc_{name}"),
        (options, option_name),
    ]

    env_file = strongest_value(
        "env_file", [ini_layer, environment_layer(os.environ), *command_line]
    )
    if env_file:
        try:
            restore = use_env_file(env_file, config.rootpath)
        except SettingsError as exc:
            raise pytest.UsageError(str(exc)) from exc
        config.add_cleanup(restore)
    # From here on, VARIABLES includes the variables of that file.
    _reject_misspelt(VARIABLES)
    layers = [ini_layer, environment_layer(VARIABLES), *command_line]
    layers.insert(0, fallback_layer(layers))
    config.stash[_LAYERS] = layers
    return has_secrets or any(_sets(values) for values, _ in layers)


def layers_of(config: pytest.Config) -> Sequence[Layer]:
    """Return the layers of settings of the session, weakest first; none if nothing is
    set.
    """
    return config.stash.get(_LAYERS, ())


def _sets(values: Mapping[str, object]) -> bool:
    return any(value is not None for value in values.values())


def _overrides(config: pytest.Config) -> dict[str, object]:
    """Return the settings of `-o vnc_NAME=value`."""
    overrides: dict[str, object] = {}
    for text in config.getoption("override_ini") or ():
        key, _, value = text.partition("=")
        name = key.removeprefix("vnc_")
        if name != key and name in FIELDS:
            overrides[name] = value
    return overrides


def _reject_unknown(config: pytest.Config, names: Iterable[str]) -> None:
    """Raise UsageError for an ini option with the prefix `vnc_` that no plugin has:
    pytest would only warn.
    """
    known = [f"vnc_{field}" for field in FIELDS]
    for name in names:
        if not name.startswith("vnc_") or name in (*known, "vnc_secrets"):
            continue
        try:
            # Other plugins, such as pytest-vnc, use the prefix too.
            config.getini(name)
        except ValueError as exc:
            remedy = "`pytest --help` lists them"
            if nearest := _nearest(name, known, 0.8):
                remedy = f"Did you mean {nearest}?"
            raise pytest.UsageError(f"unknown ini option {name}. {remedy}") from exc


def _reject_misspelt(variables: Iterable[str]) -> None:
    """Raise UsageError for a variable whose name is nearly that of a setting. Other
    variables with the prefix belong to the user.
    """
    known = [variable_of(field) for field in FIELDS]
    for name in variables:
        if not name.startswith(ENVIRONMENT_PREFIX) or name in known:
            continue
        if nearest := _nearest(name, known, 0.9):
            raise pytest.UsageError(
                f"unknown environment variable {name}. Did you mean {nearest}?"
            )


def _nearest(name: str, names: Sequence[str], cutoff: float) -> str:
    """Return the most similar of the names; "" if none is similar enough."""
    from difflib import get_close_matches

    return "".join(get_close_matches(name, names, n=1, cutoff=cutoff))


def _ini_value(config: pytest.Config, name: str) -> object:
    """Return the value of an ini option, which in TOML may have a native type."""
    try:
        return config.getini(f"vnc_{name}")
    except (TypeError, pytest.UsageError):
        # pytest accepts only text for an option without a type, and no type of its
        # options accepts all native ones.
        tomllib = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
        assert config.inipath is not None
        tables = tomllib.loads(config.inipath.read_text(encoding="utf-8"))
        # pyproject.toml has [tool.pytest], pytest.toml has [pytest].
        in_pyproject = tables.get("tool", {}).get("pytest", {})
        native = {**in_pyproject, **tables.get("pytest", {})}
        value: object = native.get(f"vnc_{name}")
        return value
