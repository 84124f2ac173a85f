"""The variables that settings, keys and secrets are read from: those of the environment,
then those of the file `vnc_env_file`.

The file is read by python-dotenv. Its variables are not put into the environment, so no
program that this process starts inherits them. A secret is the value of a variable, the
content of a file, or the output of a command.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections import ChainMap
from collections.abc import Callable, Mapping
from functools import partial
from io import StringIO
from pathlib import Path

from dotenv import dotenv_values
from dotenv.parser import parse_stream

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.files import read_regular
from pytest_vnc_use.types.actions import SecretText

from_file: dict[str, str] = {}
"""The variables of the file."""
VARIABLES = ChainMap[str, str](os.environ, from_file)
"""The variables to read. One of the environment is stronger than one of the file, even
if it is empty.
"""

VARIABLE = "VNC_USE_ENV_FILE"
_MAX_BYTES = 1 << 20


def use_env_file(name: object, base: Path) -> Callable[[], None]:
    """Use the variables of a file (none if `name` is empty) instead of those of an
    earlier file.

    Return a function that restores the earlier ones. Raises SettingsError, which shows
    no value.
    """
    earlier = dict(from_file)
    _put(read_env_file(base / str(name)) if name else {})
    return partial(_put, earlier)


def use_named_env_file() -> None:
    """Use the variables of the file that the environment names, if it names one. Raises
    SettingsError.
    """
    use_env_file(os.environ.get(VARIABLE), Path.cwd())


def _put(variables: Mapping[str, str]) -> None:
    from_file.clear()
    from_file.update(variables)


def format_env_file() -> str:
    """Return a text with the names of the file's variables, without any value; "" if
    there are none.
    """
    if not from_file:
        return ""
    used = [name for name in from_file if name not in os.environ]
    others = [name for name in from_file if name in os.environ]
    parts = []
    if used:
        parts.append(f"read from the file: {', '.join(used)}")
    if others:
        parts.append(f"set in the environment instead: {', '.join(others)}")
    return "; ".join(parts)


def read_env_file(path: Path) -> dict[str, str]:
    """Return the variables of a file. Raises SettingsError that names the line, never
    its text, which may be a key.
    """
    try:
        text = read_regular(path, _MAX_BYTES).decode("utf-8-sig")
    except OSError as exc:
        raise SettingsError(
            f"vnc_env_file {str(path)!r} cannot be read: {exc.strerror or exc}"
        ) from exc
    except UnicodeDecodeError:
        # the error holds the text
        raise SettingsError(f"vnc_env_file {str(path)!r} must be UTF-8") from None
    # `dotenv_values` leaves out what it cannot read
    for binding in parse_stream(StringIO(text)):
        if binding.error or (binding.key and binding.value is None):
            text = binding.original.string
            blank = text[: -len(text.lstrip())]
            number = binding.original.line + blank.count("\n")
            raise SettingsError(
                f"vnc_env_file {str(path)!r}, line {number}, must be NAME=value, or"
                " NAME='a value'"
            )
    return {
        name: value or ""
        for name, value in dotenv_values(stream=StringIO(text)).items()
    }


SECRET_FORMATS = "NAME, NAME=env:VARIABLE, NAME=file:PATH or NAME=cmd:COMMAND"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_COMMAND_S = 60.0
"""The maximum seconds that a command may take, such as one that asks a password store.
"""


def read_secret(text: str, origin: str, base: Path) -> tuple[str, SecretText]:
    """Return a secret's name and value from text such as
    `SHOP_PASSWORD=file:password.txt`.

    A name alone means the environment variable of that name. Relative paths and
    commands start from the directory `base`. Line feeds at the end of a file or an
    output do not belong to the value. Raises SettingsError, which does not show the
    value.
    """
    name, equals, source = text.partition("=")
    kind, colon, location = source.partition(":") if equals else ("env", ":", name)
    if not _NAME.fullmatch(name) or not colon or not location or kind not in _READERS:
        # what comes after the sign may be the value itself
        shown = f"{name}=…" if equals else text
        raise SettingsError(f"{origin} must be {SECRET_FORMATS}, got {shown!r}")
    value = _READERS[kind](location, f"{origin} {name}", base)
    if not value:
        raise SettingsError(
            f"{origin} {name} comes from {kind}:{location}, which is empty"
        )
    return name, SecretText.of(name, value)


def _from_environment(variable: str, origin: str, base: Path) -> str:
    try:
        value = VARIABLES.get(variable)
    except ValueError:  # no variable can have that name
        value = None
    if not value:
        raise SettingsError(
            f"{origin} names the environment variable {variable!r}, which is not set,"
            f" or is empty. Set it, or give the secret as {SECRET_FORMATS}"
        )
    return value


def _from_file(path: str, origin: str, base: Path) -> str:
    try:
        # a pipe of the shell, such as <(pass show shop), is fine too
        with Path(base, path).open("rb") as file:
            value = file.read(_MAX_BYTES + 1)
        if len(value) <= _MAX_BYTES:
            return value.decode().rstrip("\r\n")
        problem = f"it has more than {_MAX_BYTES} bytes"
    except OSError as exc:
        problem = exc.strerror or str(exc)
    except UnicodeDecodeError:
        problem = "it is not UTF-8"
    except ValueError:
        problem = "no file has that name"
    raise SettingsError(f"{origin} cannot be read from the file {path!r}: {problem}")


def _from_command(command: str, origin: str, base: Path) -> str:
    try:
        argv = shlex.split(command, posix=os.name == "posix")
        result = subprocess.run(
            argv, cwd=base, stdout=subprocess.PIPE, timeout=_COMMAND_S, check=True
        )
        return result.stdout.decode("utf-8").rstrip("\r\n")
    except subprocess.CalledProcessError as exc:
        problem = f"it exited with {exc.returncode}"
    except subprocess.TimeoutExpired:
        problem = f"it has not ended within {_COMMAND_S:g} s"
    except UnicodeDecodeError:
        problem = "its output is not UTF-8"
    except (OSError, ValueError) as exc:
        problem = str(exc)
    raise SettingsError(
        f"{origin} cannot be read from the command {command!r}: {problem}"
    )


_READERS = {"env": _from_environment, "file": _from_file, "cmd": _from_command}
