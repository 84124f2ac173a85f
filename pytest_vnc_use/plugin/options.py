"""The options of the command line and of ini files, and the settings of a session that they and variables make.

Every session loads this module, so it imports what reads settings only where one may be set.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_vnc_use.settings.settings import ENVIRONMENT_PREFIX, FIELDS, OPTIONS, option_name

if TYPE_CHECKING:
    from pytest_vnc_use.settings.fallbacks import Layer

SECRET_HELP = "Secret: NAME=env:VARIABLE, NAME=file:PATH or NAME=cmd:COMMAND; repeatable"
_LAYERS: pytest.StashKey[Sequence[Layer]] = pytest.StashKey()
"""The layers of settings of a session, weakest first, each with a function that names a setting in that layer."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add each setting as an ini option, and some as options too."""
    group = parser.getgroup("vnc-use", "tests over VNC (pytest-vnc-use); what a project sets once is an ini option")
    for name, field in FIELDS.items():
        about, metavar, value = field.metadata["help"], field.metadata["metavar"], field.default
        shown = "x".join(map(str, value)) if isinstance(value, tuple) else value
        shown = f"{value:g}" if isinstance(value, float) else shown
        default = "" if value in ("", (), None) else f" (default: {shown})"
        if metavar:
            group.addoption(option_name(name), dest=f"vnc_{name}", metavar=metavar, help=about + default)
            parser.addini(f"vnc_{name}", f"As {option_name(name)}", default=None)
        else:
            parser.addini(f"vnc_{name}", about + default, default=None)
    group.addoption(
        "--vnc-ui", dest="vnc_ui", action="store_true", default=None, help="Serve a page to watch the tests as they run"
    )
    group.addoption("--vnc-secret", dest="vnc_secret", metavar="NAME=…", action="append", default=[], help=SECRET_HELP)
    parser.addini("vnc_secrets", "As --vnc-secret, one per line", type="linelist", default=[])


def secret_sources(config: pytest.Config) -> list[tuple[str, str, Path]]:
    """Return the texts of the session's secrets, each with its option, and the directory where its paths begin."""
    in_file = [(text, "ini option vnc_secrets", config.rootpath) for text in config.getini("vnc_secrets")]
    in_options = [(text, "--vnc-secret", config.invocation_params.dir) for text in config.getoption("vnc_secret")]
    return in_file + in_options


def read_layers(config: pytest.Config) -> bool:
    """Read and store the layers of settings. Return whether one of them sets something."""
    with warnings.catch_warnings():  # pytest 9 warns about a list in [tool.pytest.ini_options], and about inicfg
        warnings.simplefilter("ignore", DeprecationWarning)
        _reject_unknown(config, getattr(config, "inicfg", ()))
        in_ini = {name: _ini(config, name) for name in FIELDS}
    options = {name: config.getoption(f"vnc_{name}", None) for name in OPTIONS}
    set_by_user = [value for value in (*in_ini.values(), *options.values()) if value is not None]
    if not (set_by_user or secret_sources(config) or any(name.startswith(ENVIRONMENT_PREFIX) for name in os.environ)):
        return False
    from pytest_vnc_use.errors import SettingsError
    from pytest_vnc_use.settings.fallbacks import fallback_layer
    from pytest_vnc_use.settings.layers import absolute_text, environment_layer
    from pytest_vnc_use.settings.variables import VARIABLES, use_env_file

    pairs = (text.partition("=") for text in config.getoption("override_ini") or ())
    by_name = {key.removeprefix("vnc_"): value for key, _, value in pairs if key.startswith("vnc_")}
    overrides = {name: value for name, value in by_name.items() if name in FIELDS}
    in_files = {
        name: absolute_text(name, value, config.rootpath) if isinstance(value, str) and value else value
        for name, value in in_ini.items()
        if name not in overrides
    }
    in_order = (in_files, environment_layer(os.environ)[0], overrides, options)
    env_files = [layer["env_file"] for layer in in_order if layer.get("env_file") is not None]
    if env_files and env_files[-1]:  # by the strongest layer; for the time of this session
        try:
            config.add_cleanup(use_env_file(env_files[-1], config.rootpath))
        except SettingsError as exc:
            raise pytest.UsageError(str(exc)) from exc
    _reject_misspelt(VARIABLES)
    layers = (
        (in_files, lambda name: f"ini option vnc_{name}"),
        environment_layer(),
        (overrides, lambda name: f"-o vnc_{name}"),
        (options, option_name),
    )
    config.stash[_LAYERS] = [fallback_layer(layers), *layers]
    has_setting = any(value is not None for layer, _ in config.stash[_LAYERS] for value in layer.values())
    return has_setting or bool(secret_sources(config))


def _reject_unknown(config: pytest.Config, in_file: Iterable[str]) -> None:
    """Raise UsageError for an ini option with our prefix that no plugin has: pytest would only warn."""
    for name in in_file:
        if name.startswith("vnc_") and name.removeprefix("vnc_") not in (*FIELDS, "secrets"):
            try:
                config.getini(name)  # pytest-vnc has some too
            except ValueError as exc:
                near = _nearest(name, [f"vnc_{field}" for field in FIELDS], 0.8)
                remedy = f"Did you mean {near}?" if near else "`pytest --help` lists them"
                raise pytest.UsageError(f"unknown ini option {name}. {remedy}") from exc


def _reject_misspelt(variables: Iterable[str]) -> None:
    """Raise UsageError for an environment variable that is nearly ours; others with the prefix are the user's."""
    known = [ENVIRONMENT_PREFIX + field.upper() for field in FIELDS]
    for name in variables:
        if name.startswith(ENVIRONMENT_PREFIX) and name not in known and (near := _nearest(name, known, 0.9)):
            raise pytest.UsageError(f"unknown environment variable {name}. Did you mean {near}?")


def _nearest(name: str, names: Sequence[str], likeness: float) -> str:
    from difflib import get_close_matches

    return next(iter(get_close_matches(name, names, 1, likeness)), "")


def _ini(config: pytest.Config, name: str) -> object:
    """Return an ini option, also of a native type of TOML, for which pytest has none that takes them all."""
    try:
        return config.getini(f"vnc_{name}")
    except (TypeError, pytest.UsageError):  # pytest accepts only text for an option without a type
        tomllib = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
        assert config.inipath is not None
        tables = tomllib.loads(config.inipath.read_text(encoding="utf-8"))
        native: object = {**tables.get("tool", {}).get("pytest", {}), **tables.get("pytest", {})}.get(f"vnc_{name}")
        return native


def layers_of(config: pytest.Config) -> Sequence[Layer]:
    """Return the layers of settings of the session, weakest first; none where nothing is set."""
    return config.stash.get(_LAYERS, ())


def must_replay(config: pytest.Config) -> bool:
    """Return whether the command line has `--vnc-record=replay` or `-o vnc_record=replay`; no marker overrides it."""
    on_command_line = [layer["record"] for layer, _ in layers_of(config)[-2:] if layer.get("record") is not None]
    return on_command_line[-1:] == ["replay"]
