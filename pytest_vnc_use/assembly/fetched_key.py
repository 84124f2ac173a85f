"""The key that a command prints. It is kept in the memory of this process only, never in the environment."""

from __future__ import annotations

import functools
import os
import shlex
import subprocess
import threading

from pytest_vnc_use.errors import KeyMissing

LIMIT_S = 60.0
"""The most seconds that the command may take, such as one that asks a password store."""
LONGEST_KEY = 8192

_one_at_a_time = threading.Lock()
_keys: dict[str, str] = {}


def fetched_key(command: str) -> str:
    """Return what the command prints. It runs once in this process. Raises KeyMissing, without its output."""
    with _one_at_a_time:
        key, problem = _run(command)
    if problem:
        raise KeyMissing(f"vnc_api_key_command {command!r} must print a key: {problem}")
    _keys[command] = key
    return key


def known_key(command: str) -> str:
    """Return the key of a command that has already run; "" if there is none."""
    return _keys.get(command, "")


@functools.cache
def _run(command: str) -> tuple[str, str]:
    """Return the key, and why there is none."""
    try:
        words = shlex.split(command, posix=os.name == "posix")
        ran = subprocess.run(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=LIMIT_S
        )
    except subprocess.TimeoutExpired:
        return "", f"it did not end within {LIMIT_S:g} s"
    except (OSError, ValueError) as exc:
        return "", str(exc)
    key = ran.stdout.strip()
    if ran.returncode:
        return "", f"its exit code was {ran.returncode}"
    if not key:
        return "", "it printed nothing"
    if len(key) > LONGEST_KEY or not all(32 < byte < 127 for byte in key):
        return "", f"its output must be one word of at most {LONGEST_KEY} ASCII characters"
    return key.decode("ascii"), ""
