"""The options of the command line and of ini files, and the settings of a session that
they and variables make.

Every session loads this module, so it imports what reads settings only where one may be
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
"""The layers of settings of a session, weakest first, each with a function that names a
setting in that layer.
"""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add each setting as an ini option, and some as options too."""
    group = parser.getgroup(
        "vnc-use",
        "tests over VNC (pytest-vnc-use); what a project sets once is an ini option",
    )
    for name, field in FIELDS.items():
        about = field.metadata["help"] + _shown_default(field.default)
        metavar = field.metadata["metavar"]
        if not metavar:
            parser.addini(f"vnc_{name}", about, default=None)
            continue
        group.addoption(
            option_name(name),
            dest=f"vnc_{name}",
            metavar=metavar,
            help=about,
        )
        parser.addini(f"vnc_{name}", f"As {option_name(name)}", default=None)
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


def _shown_default(value: object) -> str:
    if value in ("", (), None):
        return ""
    if isinstance(value, tuple):
        value = "x".join(map(str, value))
    elif isinstance(value, float):
        value = f"{value:g}"
    return f" (default: {value})"


def secret_sources(config: pytest.Config) -> list[tuple[str, str, Path]]:
    """Return the texts of the session's secrets, each with its option, and the
    directory where its paths begin.
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
        in_ini = {name: _ini(config, name) for name in FIELDS}
    options = {name: config.getoption(f"vnc_{name}", None) for name in OPTIONS}
    has_secrets = bool(secret_sources(config))
    has_variables = any(name.startswith(ENVIRONMENT_PREFIX) for name in os.environ)
    if not (has_secrets or has_variables or _sets(in_ini) or _sets(options)):
        return False
    from pytest_vnc_use.errors import SettingsError
    from pytest_vnc_use.settings.fallbacks import fallback_layer, strongest_value
    from pytest_vnc_use.settings.layers import absolute_text, environment_layer
    from pytest_vnc_use.settings.variables import VARIABLES, use_env_file

    overrides = _overrides(config)
    in_files: dict[str, object] = {}
    for name, value in in_ini.items():
        if name in overrides:
            continue
        if value and isinstance(value, str):
            value = absolute_text(name, value, config.rootpath)
        in_files[name] = value
    layers: list[Layer] = [
        (in_files, lambda name: f"ini option vnc_{name}"),
        environment_layer(os.environ),
        (overrides, lambda name: f"-o vnc_{name}"),
        (options, option_name),
    ]
    env_file = strongest_value("env_file", layers)
    if env_file:
        try:
            restore = use_env_file(env_file, config.rootpath)
        except SettingsError as exc:
            raise pytest.UsageError(str(exc)) from exc
        config.add_cleanup(restore)
    # with the variables of that file
    layers[1] = environment_layer(VARIABLES)
    _reject_misspelt(VARIABLES)
    layers.insert(0, fallback_layer(layers))
    config.stash[_LAYERS] = layers
    return has_secrets or any(_sets(layer) for layer, _ in layers)


def _sets(layer: Mapping[str, object]) -> bool:
    return any(value is not None for value in layer.values())


def _overrides(config: pytest.Config) -> dict[str, object]:
    """Return the settings of `-o vnc_NAME=value`."""
    overrides: dict[str, object] = {}
    for text in config.getoption("override_ini") or ():
        key, _, value = text.partition("=")
        name = key.removeprefix("vnc_")
        if name != key and name in FIELDS:
            overrides[name] = value
    return overrides


def _reject_unknown(config: pytest.Config, in_file: Iterable[str]) -> None:
    """Raise UsageError for an ini option with our prefix that no plugin has: pytest
    would only warn.
    """
    known = [f"vnc_{field}" for field in FIELDS]
    for name in in_file:
        if not name.startswith("vnc_") or name in (*known, "vnc_secrets"):
            continue
        try:
            config.getini(name)  # pytest-vnc has some too
        except ValueError as exc:
            remedy = "`pytest --help` lists them"
            if near := _nearest(name, known, 0.8):
                remedy = f"Did you mean {near}?"
            raise pytest.UsageError(f"unknown ini option {name}. {remedy}") from exc


def _reject_misspelt(variables: Iterable[str]) -> None:
    """Raise UsageError for an environment variable whose name is nearly one of ours.
    Others with our prefix belong to the user.
    """
    known = [*map(variable_of, FIELDS)]
    for name in variables:
        if not name.startswith(ENVIRONMENT_PREFIX) or name in known:
            continue
        if near := _nearest(name, known, 0.9):
            raise pytest.UsageError(
                f"unknown environment variable {name}. Did you mean {near}?"
            )


def _nearest(
    name: str,
    names: Sequence[str],
    likeness: float,
) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, names, n=1, cutoff=likeness)
    return "".join(near)


def _ini(config: pytest.Config, name: str) -> object:
    """Return an ini option, also one of a native type of TOML: no type of pytest's
    options takes them all.
    """
    try:
        return config.getini(f"vnc_{name}")
    except (TypeError, pytest.UsageError):
        # pytest accepts only text for an option without a type
        tomllib = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
        assert config.inipath is not None
        tables = tomllib.loads(config.inipath.read_text(encoding="utf-8"))
        tool = tables.get("tool", {})
        native = {**tool.get("pytest", {}), **tables.get("pytest", {})}
        value: object = native.get(f"vnc_{name}")
        return value


def layers_of(config: pytest.Config) -> Sequence[Layer]:
    """Return the layers of settings of the session, weakest first; none where nothing
    is set.
    """
    return config.stash.get(_LAYERS, ())
