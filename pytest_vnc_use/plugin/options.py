"""The options of the command line and of ini files. session_settings.py reads them, where one may be set."""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Sequence
from typing import Any

import pytest

from pytest_vnc_use.settings.settings import ENVIRONMENT_PREFIX, FIELDS, option_name

SECRET_HELP = (
    "a secret: its name, and where its value comes from, such as SHOP=env:SHOP_PASSWORD, file:PATH, cmd:COMMAND"
)
OLD_OPTIONS = frozenset(
    """
    engine container_port container_env container_network volumes start_seconds blank_seconds frozen_seconds
    cdp elements show_pointer lease_seconds password_env environment api_key_env coordinates
    temperature answer_tokens request_seconds computer_tool include_thoughts detect_prompt_injection
    disabled_safety_policies include_initial_screenshot keep_screenshots picture_bytes judge_model exclude
    watch step_delay stall scroll typing prices rehearse
    gate_seconds functions healed vocabulary
    """.split()
)
"""The settings that were options until 0.2. Their options still work in 0.2, and give a warning."""


class _OldOption(argparse.Action):
    """An old option, hidden from the help. Its value becomes that of the setting's option."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        setattr(namespace, str(option_string).removeprefix("--").replace("-", "_"), values)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add each setting as an ini option, and some as options too; old options stay as a hidden one."""
    group = parser.getgroup("vnc-use", "tests over VNC (pytest-vnc-use); what a project sets once is an ini option")
    for name, field in FIELDS.items():
        about, metavar = field.metadata["help"], field.metadata["metavar"]
        default = "" if field.default in ("", (), None) else f" (default: {_shown(field.default)})"
        if metavar:
            group.addoption(option_name(name), dest=f"vnc_{name}", metavar=metavar, help=about + default)
            parser.addini(f"vnc_{name}", f"as {option_name(name)}", default=None)
        else:
            parser.addini(f"vnc_{name}", about + default, default=None)
    group.addoption("--vnc-secret", dest="vnc_secret", metavar="NAME=…", action="append", default=[], help=SECRET_HELP)
    parser.addini("vnc_secrets", "as --vnc-secret, one a line", type="linelist", default=[])
    names = map(option_name, sorted(OLD_OPTIONS))  # one option of many names: each option slows pytest's start
    group.addoption(*names, dest="vnc_old", action=_OldOption, help=argparse.SUPPRESS)


def may_be_set(config: pytest.Config) -> bool:
    """Return whether an option, an ini option or a variable may set something. Each may still have a wrong value."""
    if any(value not in (None, []) for name, value in vars(config.option).items() if name.startswith("vnc_")):
        return True
    with warnings.catch_warnings():  # pytest 9 warns about a list in [tool.pytest.ini_options]
        warnings.simplefilter("ignore", DeprecationWarning)
        in_ini = any(_is_in_ini(config, f"vnc_{name}") for name in (*FIELDS, "secrets"))
    return in_ini or any(name.startswith(ENVIRONMENT_PREFIX) for name in os.environ)


def _is_in_ini(config: pytest.Config, name: str) -> bool:
    try:
        return config.getini(name) not in (None, [])
    except (TypeError, pytest.UsageError):  # pytest accepts only text for an option without a type
        return True


def _shown(value: object) -> str:
    return (
        "x".join(map(str, value))
        if isinstance(value, tuple)
        else f"{value:g}"
        if isinstance(value, float)
        else str(value)
    )
