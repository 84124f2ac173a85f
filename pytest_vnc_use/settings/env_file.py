"""The file of variables that `vnc_env_file` names: lines of NAME=value, without shell expansion."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.regular_file import read_regular
from pytest_vnc_use.settings.variables import from_file

VARIABLE = "VNC_USE_ENV_FILE"
_MOST_BYTES = 1 << 20
_LINE = re.compile(r"(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*(.*)")
_QUOTED = re.compile(r"""'([^']*)'|"([^"\\$`]*)\"""")
_BARE = re.compile(r"""[^\s'"\\$`#]\S*(?:[ \t]+[^\s#]\S*)*""")
_COMMENT = re.compile(r"[ \t]*(?:[ \t]#.*)?")


def use_env_file(named: object, base: Path) -> Callable[[], None]:
    """Use the variables of a file instead of those of an earlier file; without a name, none.

    Return the function that restores the earlier ones. Raises SettingsError, without any value.
    """
    earlier = dict(from_file)
    found = read_env_file(base / str(named)) if named else {}
    _put(found)
    return partial(_put, earlier)


def use_named_env_file() -> None:
    """Use the variables of the file that the environment names, if it names one. Raises SettingsError."""
    use_env_file(os.environ.get(VARIABLE), Path.cwd())


def _put(variables: Mapping[str, str]) -> None:
    from_file.clear()
    from_file.update(variables)


def env_file_in_words() -> str:
    """Return the names of the file's variables, for `doctor`, and never a value; "" where there are none."""
    if not from_file:
        return ""
    used = [name for name in from_file if name not in os.environ]
    others = [name for name in from_file if name in os.environ]
    words = [f"read from the file: {', '.join(used)}"] if used else []
    return "; ".join([*words, f"the environment's own count: {', '.join(others)}"] if others else words)


def read_env_file(path: Path) -> dict[str, str]:
    """Return the variables of a file. Raises SettingsError that names the line, never its text, which may be a key."""
    try:
        text = read_regular(path, _MOST_BYTES).decode("utf-8-sig")
    except OSError as exc:
        raise SettingsError(f"vnc_env_file {str(path)!r} cannot be read: {exc.strerror or exc}") from exc
    except UnicodeDecodeError:
        raise SettingsError(f"vnc_env_file {str(path)!r} must be UTF-8") from None  # the error holds the text
    found: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        words = line.strip()
        if words and not words.startswith("#"):
            name, value = _variable(words, f"vnc_env_file {str(path)!r}, line {number},")
            if name in found:
                raise SettingsError(f"vnc_env_file {str(path)!r}, line {number}, has {name} for the second time")
            found[name] = value
    return found


def _variable(line: str, origin: str) -> tuple[str, str]:
    """Return the name and the value of a line."""
    parts = _LINE.fullmatch(line)
    if not parts or "\0" in line:
        raise SettingsError(f"{origin} must be NAME=value, a comment that begins with #, or empty")
    name, written = parts.groups()
    quoted, bare = _QUOTED.match(written), _BARE.match(written)
    if quoted and _COMMENT.fullmatch(written, quoted.end()):
        return name, quoted[1] if quoted[1] is not None else quoted[2]
    if bare and not re.search(r"[\\$`]", bare[0]) and _COMMENT.fullmatch(written, bare.end()):
        return name, bare[0]
    if not written or written.startswith("#"):
        return name, ""
    raise SettingsError(
        f"{origin} must have the value of {name} in single quotes, on one line, without a single quote in it: "
        "$, ` and \\ are not expanded"
    )
