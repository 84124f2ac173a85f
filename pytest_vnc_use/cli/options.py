"""Options that several commands share: the settings of a desktop and of a model, and
secrets.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pytest_vnc_use.agent import build
from pytest_vnc_use.settings.fallbacks import LOCAL_AGENT
from pytest_vnc_use.settings.layers import environment_layer
from pytest_vnc_use.settings.settings import FIELDS, Settings
from pytest_vnc_use.settings.variables import read_secret

DESKTOP_OPTIONS = {
    "--vnc": "server",
    "--user": "username",
    "--password-env": "password_env",
    "--exec": "exec",
    "--cdp": "cdp",
    "--runs-dir": "runs_dir",
}
"""Options of all commands that drive a desktop, and the settings that they give."""
RUN_OPTIONS = {
    "--planner": "planner",
    "--model": "model",
    "--base-url": "base_url",
    "--toolset": "toolset",
    "--planner-options": "planner_options",
    "--judge": "judge",
    "--elements": "elements",
    "--policy": "policy",
    "--exclude": "exclude",
    "--step-limit": "max_steps",
    "--seconds": "max_seconds",
}
"""Options of the commands that ask a model."""
ABOUT = {
    "server": "VNC desktop: host::port, host:display or a unix socket",
    "planner": (
        "Planner: gemini (default), anthropic, openai (these cost money), or"
        " package.module:name"
    ),
}
"""Help texts that differ from those of pytest's options."""


def add_options(
    parser: argparse.ArgumentParser,
    options: Mapping[str, str],
    about: Mapping[str, str] = ABOUT,
    *,
    needs_server: bool = True,
) -> None:
    """Add options that give settings. `--vnc` is required if the command needs a server
    and no variable names one.
    """
    default = Settings()
    needs_server = needs_server and not environment_layer()[0]["server"]
    for option, field in options.items():
        metadata = FIELDS[field].metadata
        value = getattr(default, field)
        text = about.get(field, metadata["help"])
        if isinstance(value, float):
            value = f"{value:g}"
        if value:
            text += f" (default: {value})"
        metavar = metadata["metavar"] or field.upper()
        required = needs_server and field == "server"
        names = [option, "--excluded-actions"] if field == "exclude" else [option]
        parser.add_argument(
            *names, dest=field, required=required, metavar=metavar, help=text
        )


def add_secret(parser: argparse.ArgumentParser) -> None:
    """Add `--secret`."""
    parser.add_argument(
        "--secret",
        action="append",
        default=[],
        metavar="NAME",
        help=(
            "Secret typed as <secret:NAME>: NAME, NAME=env:VARIABLE, NAME=file:PATH,"
            " NAME=cmd:…; repeatable"
        ),
    )


def option_values(
    arguments: argparse.Namespace, options: Iterable[Mapping[str, str]]
) -> dict[str, str | None]:
    """Return the values of the options by setting, None for an option that was not
    given.
    """
    values: dict[str, str | None] = {}
    for settings in options:
        values |= {field: getattr(arguments, field) for field in settings.values()}
    return values


def settings_of(
    arguments: argparse.Namespace, stored: Mapping[str, object] | None = None
) -> Settings:
    """Return the settings of a command that asks a model, by default Gemini.

    `stored` are the settings of the run that continues; options replace them. Raises
    SettingsError.
    """
    options = option_values(arguments, (DESKTOP_OPTIONS, RUN_OPTIONS))
    values: dict[str, object] = dict(stored or {})
    values |= {name: value for name, value in options.items() if value is not None}
    toolset = values.get("toolset") or environment_layer()[0]["toolset"]
    if not values.get("planner") and toolset != LOCAL_AGENT:
        values["planner"] = "gemini"
    return build.settings_of(values)


def secrets_of(names: Sequence[str]) -> dict[str, str]:
    """Return the secrets that `--secret` names, by name. Raises SettingsError if one
    cannot be read.
    """
    return dict(read_secret(name, "--secret", Path.cwd()) for name in names)
