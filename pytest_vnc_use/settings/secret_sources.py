"""The source of a secret's value: an environment variable, a file, or the output of a command."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.settings.variables import VARIABLES
from pytest_vnc_use.types.actions import SecretText

SPELLING = "NAME, NAME=env:VARIABLE, NAME=file:PATH or NAME=cmd:COMMAND"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MOST_BYTES = 1 << 20
_COMMAND_S = 60.0
"""The most seconds that a command may take, such as one that asks a password store."""


def read_secret(text: str, origin: str, base: Path) -> tuple[str, SecretText]:
    """Return a secret's name and value from text such as `SHOP_PASSWORD=file:password.txt`.

    A name alone is the environment variable of that name. `base` is the directory of relative paths, and of commands.
    Line feeds at the end of a file or an output are no part of the value. Raises SettingsError, without the value.
    """
    name, equals, place = text.partition("=")
    kind, colon, where = place.partition(":") if equals else ("env", ":", name)
    if not _NAME.fullmatch(name) or not colon or not where or kind not in _READERS:
        spelling = f"{name}=…" if equals else text  # what comes after the sign may be the value itself
        raise SettingsError(f"{origin} must be {SPELLING}, got {spelling!r}")
    value = _READERS[kind](where, f"{origin} {name}", base)
    if not value:
        raise SettingsError(f"{origin} {name} comes from {kind}:{where}, which is empty")
    return name, SecretText.of(name, value)


def _from_environment(variable: str, origin: str, base: Path) -> str:
    try:
        value = VARIABLES.get(variable)
    except ValueError:  # no variable can have that name
        value = None
    if not value:
        raise SettingsError(f"{origin} names the environment variable {variable!r}, which is not set, or is empty")
    return value


def _from_file(path: str, origin: str, base: Path) -> str:
    try:
        with Path(base, path).open("rb") as file:  # a pipe of the shell, such as <(pass show shop), is fine too
            value = file.read(_MOST_BYTES + 1)
        if len(value) <= _MOST_BYTES:
            return value.decode().rstrip("\r\n")
        problem = f"it has more than {_MOST_BYTES} bytes"
    except OSError as exc:
        problem = exc.strerror or str(exc)
    except UnicodeDecodeError:
        problem = "it is not UTF-8"
    except ValueError:
        problem = "no file has that name"
    raise SettingsError(f"{origin} cannot be read from the file {path!r}: {problem}")


def _from_command(command: str, origin: str, base: Path) -> str:
    try:
        words = shlex.split(command, posix=os.name == "posix")
        ran = subprocess.run(words, cwd=base, stdout=subprocess.PIPE, timeout=_COMMAND_S, check=True)
        return ran.stdout.decode("utf-8").rstrip("\r\n")
    except subprocess.CalledProcessError as exc:
        problem = f"it exited with {exc.returncode}"
    except subprocess.TimeoutExpired:
        problem = f"it has not ended within {_COMMAND_S:g} s"
    except (OSError, ValueError) as exc:
        problem = "its output is not UTF-8" if isinstance(exc, UnicodeDecodeError) else str(exc)
    raise SettingsError(f"{origin} cannot be read from the command {command!r}: {problem}")


_READERS = {"env": _from_environment, "file": _from_file, "cmd": _from_command}
