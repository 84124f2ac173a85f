"""The paths in settings, made absolute once, so that a later change of the working folder changes nothing."""

from __future__ import annotations

import dataclasses
import os
import shlex
from pathlib import Path
from typing import Any

from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import POLICY_PRESETS

_FILES = ("prices", "runs_dir", "results")


def absolute_files(settings: Settings, base: Path) -> Settings:
    """Return the settings with the tests' own files and folders resolved against `base`."""
    given: dict[str, Any] = {name: str(base / value) for name in _FILES if (value := getattr(settings, name))}
    policy = policy_path(base, settings.policy) if settings.policy else ""
    return dataclasses.replace(settings, policy=policy, tls=_tls(settings.tls, base), **given)


def absolute_desktop(settings: Settings, base: Path) -> Settings:
    """Return the settings with a desktop's programs, folders, authorities and unix sockets resolved against `base`."""
    return dataclasses.replace(
        settings,
        app=absolute_command(settings.app, base),
        exec=absolute_command(settings.exec, base),
        server=_sockets(settings.server, base),
        tls=_tls(settings.tls, base),
        container_args=_container_args(settings.container_args, base),
    )


def absolute_text(name: str, text: str, base: Path) -> str:
    """Return the text of one setting, as it stands in a file, with the paths in it resolved against `base`."""
    if name == "policy":
        return policy_path(base, text)
    if name in _FILES:
        return str(base / text)
    if name in ("app", "exec"):
        return absolute_command(text, base)
    if name == "container_args":
        return _container_args(text, base)
    if name == "tls":
        return _tls(text, base)
    return _sockets(text, base) if name == "server" else text


def _tls(text: str, base: Path) -> str:
    return text if text in ("auto", "require", "off") or text.startswith("sha256:") else str(base / text)


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
    """Return the path of a policy file that is named from the folder `base`; the name of a preset as it is."""
    return policy if policy in POLICY_PRESETS else str(base / policy)
