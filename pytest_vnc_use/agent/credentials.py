"""Keys of models, passwords, and all else that no text may show."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import threading
from collections.abc import Collection, Mapping
from typing import NamedTuple

from pytest_vnc_use.errors import KeyMissing
from pytest_vnc_use.runs.redactor import Secrets
from pytest_vnc_use.settings.settings import (
    Settings,
)
from pytest_vnc_use.settings.variables import VARIABLES

GEMINI_KEY_VARIABLES = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
API_KEY_VARIABLES = (*GEMINI_KEY_VARIABLES, "ANTHROPIC_API_KEY", "OPENAI_API_KEY")
SERVER_KEY_VARIABLE = "VNC_USE_API_KEY"
"""The variable with the key of the server at `base_url`."""
KEY_COMMAND_S = 60.0
"""The maximum seconds that `api_key_command` may take, such as one that asks a password
store.
"""
MAX_KEY = 8192
_key_lock = threading.Lock()


class _FetchedKey(NamedTuple):
    """The key that a command printed, or why it printed none."""

    key: str = ""
    problem: str = ""


_fetched_keys: dict[str, _FetchedKey] = {}
"""What each command printed in this process."""


def api_keys() -> dict[str, str]:
    """Return the keys of models in the environment, by the names of their variables."""
    keys = {name: VARIABLES.get(name, "").strip() for name in API_KEY_VARIABLES}
    return {name: value for name, value in keys.items() if value}


def ambient_secrets(settings: Settings, password: str | None = None) -> dict[str, str]:
    """Return the secrets that no test declares: the API keys, the VNC password, the
    queries of desktops' URLs.
    """
    secrets = api_keys()
    for name in (settings.password_env, SERVER_KEY_VARIABLE):
        secrets[name] = VARIABLES.get(name, "").strip()
    secrets["VNC_PASSWORD"] = password or ""
    queries = re.findall(r"://[^?#,]*[?#](?!…)([^,]*[^\s,])", settings.server)
    for number, query in enumerate(queries, 1):
        secrets[f"vnc_server_query_{number}"] = query
    fetched = _fetched_keys.get(settings.api_key_command)
    if fetched:
        secrets["vnc_api_key_command"] = fetched.key
    return {name: value for name, value in secrets.items() if value}


def build_secrets(
    settings: Settings,
    declared: Mapping[str, str],
    password: str | None = None,
    others: Collection[tuple[str, str]] = (),
) -> Secrets:
    """Return the `declared` secrets of a task, with all that hides them and others.

    `others` are the names and values that other tests of the session declare. Raises
    SettingsError for a value that cannot be typed.
    """
    ambient = ambient_secrets(settings, password)
    return Secrets.of(
        declared,
        api_keys(),
        ambient,
        others,
    )


def fetch_key(command: str, rejected: str = "") -> str:
    """Return the key that the command prints, which stays in this process, out of the
    environment.

    The command runs once, and again if its key was `rejected`. Raises KeyMissing,
    without its output.
    """
    with _key_lock:
        fetched = _fetched_keys.get(command)
        if fetched is None or (rejected and fetched.key == rejected):
            fetched = _run_key_command(command)
            _fetched_keys[command] = fetched
    if fetched.problem:
        raise KeyMissing(
            f"vnc_api_key_command {command!r} must print a key: {fetched.problem}"
        )
    return fetched.key


def _run_key_command(command: str) -> _FetchedKey:
    try:
        result = subprocess.run(
            shlex.split(command, posix=os.name == "posix"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=KEY_COMMAND_S,
            check=True,
        )
    except subprocess.TimeoutExpired:
        return _FetchedKey(problem=f"it did not end within {KEY_COMMAND_S:g} s")
    except subprocess.CalledProcessError as exc:
        return _FetchedKey(problem=f"its exit code was {exc.returncode}")
    except (OSError, ValueError) as exc:
        return _FetchedKey(problem=str(exc))
    key = result.stdout.strip()
    if not key:
        return _FetchedKey(problem="it printed nothing")
    if len(key) > MAX_KEY or not all(32 < byte < 127 for byte in key):
        return _FetchedKey(
            problem=(
                f"its output must be one word of at most {MAX_KEY} ASCII characters"
            )
        )
    return _FetchedKey(key.decode("ascii"))


def desktop_password(settings: Settings) -> str | None:
    """Return the VNC password from the environment; None if there is none."""
    return VARIABLES.get(settings.password_env) or None
