"""The paths in settings, made absolute once, so that a later change of the working directory changes nothing."""

from __future__ import annotations

import dataclasses
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import POLICY_PRESETS

_FILES = ("policy", "prices", "runs_dir", "results", "tls")
_DESKTOP = ("app", "exec", "server", "tls", "container_args")


def absolute_files(settings: Settings, base: Path) -> Settings:
    """Return the settings with the tests' own files and directories resolved against `base`."""
    return _absolute(settings, _FILES, base)


def absolute_desktop(settings: Settings, base: Path) -> Settings:
    """Return the settings with a desktop's programs, volumes, authorities and unix sockets resolved against `base`."""
    return _absolute(settings, _DESKTOP, base)


def _absolute(settings: Settings, names: Sequence[str], base: Path) -> Settings:
    values = {name: getattr(settings, name) for name in names}
    texts: dict[str, Any] = {name: absolute_text(name, text, base) for name, text in values.items() if text}
    return dataclasses.replace(settings, **texts)


def absolute_text(name: str, text: str, base: Path) -> str:
    """Return the text of one setting, as it is in a file, with the paths in it resolved against `base`."""
    match name:
        case "policy":
            return policy_path(base, text)
        case "tls" if text in ("auto", "require", "off") or text.startswith("sha256:"):
            return text
        case "prices" | "runs_dir" | "results" | "tls":
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
    stripped = map(str.strip, servers.split(","))
    return ",".join(str(base / each) if "/" in each and ":" not in each else each for each in stripped)


def absolute_command(command_line: str, base: Path) -> str:
    """Return the command line with each word that has a slash and is a file under `base` made absolute."""
    try:
        words = shlex.split(command_line, posix=os.name == "posix")
    except ValueError:  # the user of the command line reports it
        return command_line
    absolute = [str(base / word) if "/" in word and (base / word).exists() else word for word in words]
    return command_line if absolute == words else shlex.join(absolute)


def _container_args(text: str, base: Path) -> str:
    """Return the arguments with the directories of volumes made absolute."""
    try:
        words = shlex.split(text)
    except ValueError:  # the user of the arguments reports it
        return text
    absolute = []
    for before, word in zip(["", *words], words, strict=False):
        option, here, there = before, *word.partition(":")[::2]
        prefix = "--volume=" if here.startswith("--volume=") else "-v" if here.startswith("-v") else ""
        here = here.removeprefix(prefix)
        is_volume = bool(there and here) and (bool(prefix) or option in ("-v", "--volume"))
        absolute.append(f"{prefix}{base / here}:{there}" if is_volume and (base / here).exists() else word)
    return text if absolute == words else shlex.join(absolute)


def policy_path(base: Path, policy: str) -> str:
    """Return the path of a policy file that is named from the directory `base`; the name of a preset as it is."""
    return policy if policy in POLICY_PRESETS else str(base / policy)
