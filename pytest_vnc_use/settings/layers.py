"""The layers of settings, from the weakest to the strongest: defaults, ini file,
environment, command line, marker.

Paths in settings are made absolute once, so that a later change of the working
directory has no effect.
"""

from __future__ import annotations

import dataclasses
import math
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.settings.settings import FIELDS, Settings, count, variable_of
from pytest_vnc_use.settings.variables import VARIABLES
from pytest_vnc_use.types import POLICY_PRESETS


def read_value(field: str, value: object, origin: str) -> Any:
    """Return the value of one field as `Settings` needs it. The field's parser reads a
    string.

    Raises SettingsError with `origin`, the value, and the valid format.
    """
    read = FIELDS[field].metadata["read"]
    try:
        return read(value if isinstance(value, str) else _as_text(value))
    except ValueError as exc:
        raise SettingsError(f"{origin} must be {exc}, got {value!r}") from exc


def read_count(text: str, origin: str, maximum: float = math.inf) -> int:
    """Return a whole number, at least 1. Raises SettingsError with `origin`."""
    try:
        number: int = count(text)
    except ValueError as exc:
        raise SettingsError(f"{origin} must be {exc}, got {text!r}") from exc
    if number > maximum:
        raise SettingsError(f"{origin} must be at most {maximum:g}, got {text!r}")
    return number


def _as_text(value: object) -> str:
    """Return the value as written on a command line. Raises ValueError if that is not
    possible.
    """
    if value is None:
        return ""
    if not isinstance(value, (tuple, list)):
        return _scalar_text(value)
    is_size = bool(value) and all(
        isinstance(side, int) and not isinstance(side, bool) for side in value
    )
    return ("x" if is_size else ",").join(map(_scalar_text, value))


def _scalar_text(value: object) -> str:
    if isinstance(value, (Mapping, list, tuple)):
        raise ValueError("text, a number, true or false, or a list of these")  # noqa: TRY004  # read_value names it
    return str(value)


def merge(*layers: tuple[Mapping[str, object], Callable[[str], str]]) -> Settings:
    """Return the settings merged from layers, weakest first.

    A layer is its values, and a function from a field to its name for users. A value of
    None counts as not set.
    """
    values = {}
    for layer, name_of in layers:
        for field, value in layer.items():
            if value is not None:
                values[field] = read_value(field, value, name_of(field))
    return Settings(**values)


def environment_layer(
    environ: Mapping[str, str] = VARIABLES,
) -> tuple[Mapping[str, object], Callable[[str], str]]:
    """Return the layer of the `VNC_USE_<FIELD>` variables."""
    return {field: environ.get(variable_of(field)) for field in FIELDS}, variable_of


_FILES = ("policy", "prices", "runs_dir", "results", "tls")
_DESKTOP = ("app", "home", "exec", "server", "tls", "container_args")


def absolute_files(settings: Settings, base: Path) -> Settings:
    """Return the settings with the tests' files and directories resolved against
    `base`.
    """
    return _absolute(settings, _FILES, base)


def absolute_desktop(settings: Settings, base: Path) -> Settings:
    """Return the settings with a desktop's programs, volumes, authorities and unix
    sockets resolved against `base`.
    """
    return _absolute(settings, _DESKTOP, base)


def _absolute(settings: Settings, names: Sequence[str], base: Path) -> Settings:
    values = {name: getattr(settings, name) for name in names}
    texts: dict[str, Any] = {
        name: absolute_text(name, text, base) for name, text in values.items() if text
    }
    return dataclasses.replace(settings, **texts)


def absolute_text(name: str, text: str, base: Path) -> str:
    """Return the text of one setting, as it is in a file, with the paths in it resolved
    against `base`.
    """
    match name:
        case "policy":
            return policy_path(base, text)
        case "tls" if text in ("auto", "require", "off") or text.startswith("sha256:"):
            return text
        case "prices" | "runs_dir" | "results" | "tls" | "home":
            return str(base / text)
        case "app" | "exec":
            return absolute_command(text, base)
        case "container_args":
            return _container_args(text, base)
        case "server":
            return _sockets(text, base)
        case _:
            return text


def _sockets(servers: str, base: Path) -> str:
    absolute = []
    for server in map(str.strip, servers.split(",")):
        is_path = "/" in server and ":" not in server
        absolute.append(str(base / server) if is_path else server)
    return ",".join(absolute)


def absolute_command(command_line: str, base: Path) -> str:
    """Return the command line with each argument that has a slash and is a file under
    `base` made absolute.
    """
    try:
        argv = shlex.split(command_line, posix=os.name == "posix")
    except ValueError:  # the user of the command line reports it
        return command_line
    absolute = []
    for arg in argv:
        is_file = "/" in arg and (base / arg).exists()
        absolute.append(str(base / arg) if is_file else arg)
    return command_line if absolute == argv else shlex.join(absolute)


def _container_args(text: str, base: Path) -> str:
    """Return the arguments with the directories of volumes made absolute."""
    try:
        argv = shlex.split(text)
    except ValueError:  # the user of the arguments reports it
        return text
    absolute = []
    for option, arg in zip(["", *argv], argv, strict=False):
        local, _, remote = arg.partition(":")
        prefix = ""
        if local.startswith("--volume="):
            prefix = "--volume="
        elif local.startswith("-v"):
            prefix = "-v"
        local = local.removeprefix(prefix)
        is_volume = bool(prefix) or option in ("-v", "--volume")
        if is_volume and local and remote and (base / local).exists():
            arg = f"{prefix}{base / local}:{remote}"
        absolute.append(arg)
    return text if absolute == argv else shlex.join(absolute)


def policy_path(base: Path, policy: str) -> str:
    """Return the path of a policy file, resolved against `base`; the name of a preset is
    returned as it is.
    """
    return policy if policy in POLICY_PRESETS else str(base / policy)
