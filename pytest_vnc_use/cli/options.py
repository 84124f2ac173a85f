"""Options that several commands share: settings of the desktop and the model, and
secrets.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_vnc_use.agent import build
from pytest_vnc_use.settings.fallbacks import LOCAL_AGENT
from pytest_vnc_use.settings.settings import FIELDS, Settings, variable_of
from pytest_vnc_use.settings.variables import VARIABLES, read_secret

DESKTOP_OPTIONS = {
    "--vnc": "server",
    "--user": "username",
    "--password-env": "password_env",
    "--exec": "exec",
    "--cdp": "cdp",
    "--runs-dir": "runs_dir",
}
"""Options of the commands that drive a desktop, each with its setting."""
RUN_OPTIONS = {
    **DESKTOP_OPTIONS,
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
"""Options of the commands that ask a model, each with its setting."""
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
    has_server = bool(VARIABLES.get(variable_of("server")))
    for option, field in options.items():
        # `vnc_use.cli`, which `cua-vnc` replaces, has another name for --exclude.
        names = [option, "--excluded-actions"] if field == "exclude" else [option]
        metadata = FIELDS[field].metadata
        text = about.get(field, metadata["help"])
        value = getattr(default, field)
        if isinstance(value, float):
            value = f"{value:g}"
        if value:
            text += f" (default: {value})"
        parser.add_argument(
            *names,
            dest=field,
            required=field == "server" and needs_server and not has_server,
            metavar=metadata["metavar"] or field.upper(),
            help=text,
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
    arguments: argparse.Namespace, options: Mapping[str, str]
) -> dict[str, str | None]:
    """Return the values of the options by setting; None for an option that was not
    given.
    """
    return {field: getattr(arguments, field) for field in options.values()}


def settings_of(
    arguments: argparse.Namespace, stored: Mapping[str, object] | None = None
) -> Settings:
    """Return the settings of a command that asks a model, by default Gemini.

    `stored` are the settings of the run that continues; options replace them. Raises
    SettingsError.
    """
    values: dict[str, object] = dict(stored or {})
    for field, value in option_values(arguments, RUN_OPTIONS).items():
        if value is not None:
            values[field] = value
    # The toolset of the local agent brings its planner.
    toolset = values.get("toolset") or VARIABLES.get(variable_of("toolset"))
    if not values.get("planner") and toolset != LOCAL_AGENT:
        values["planner"] = "gemini"
    return build.settings_of(values)


def secrets_of(names: Sequence[str]) -> dict[str, str]:
    """Return the secrets that `--secret` names, by name. Raises SettingsError if one
    cannot be read.
    """
    return dict(read_secret(name, "--secret", Path.cwd()) for name in names)
