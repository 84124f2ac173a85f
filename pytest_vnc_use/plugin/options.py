"""The options of the command line and of ini files. session_settings.py reads them, where one may be set."""

from __future__ import annotations

import os
import warnings

import pytest

from pytest_vnc_use.settings.settings import ENVIRONMENT_PREFIX, FIELDS, option_name

SECRET_HELP = "a secret: NAME=env:VARIABLE, NAME=file:PATH or NAME=cmd:COMMAND; repeatable"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add each setting as an ini option, and some as options too."""
    group = parser.getgroup("vnc-use", "tests over VNC (pytest-vnc-use); what a project sets once is an ini option")
    for name, field in FIELDS.items():
        about, metavar = field.metadata["help"], field.metadata["metavar"]
        default = "" if field.default in ("", (), None) else f" (default: {_shown(field.default)})"
        if metavar:
            group.addoption(option_name(name), dest=f"vnc_{name}", metavar=metavar, help=about + default)
            parser.addini(f"vnc_{name}", f"as {option_name(name)}", default=None)
        else:
            parser.addini(f"vnc_{name}", about + default, default=None)
    group.addoption(
        "--vnc-ui", dest="vnc_ui", action="store_true", default=None, help="Serve a page to watch the tests as they run"
    )
    group.addoption("--vnc-secret", dest="vnc_secret", metavar="NAME=…", action="append", default=[], help=SECRET_HELP)
    parser.addini("vnc_secrets", "as --vnc-secret, one a line", type="linelist", default=[])


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
    if isinstance(value, tuple):
        return "x".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
