"""The file with pytest's options in a project: the one that pytest finds, and options
added to it.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from iniconfig import IniConfig, ParseError

from pytest_vnc_use.errors import SettingsError

tomllib = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")

_LOCATIONS = (
    ("pytest.toml", "pytest", True),
    (".pytest.toml", "pytest", True),
    ("pytest.ini", "pytest", True),
    (".pytest.ini", "pytest", True),
    ("pyproject.toml", "tool.pytest", False),
    ("pyproject.toml", "tool.pytest.ini_options", False),
    ("tox.ini", "pytest", False),
    ("setup.cfg", "tool:pytest", False),
)
"""Where pytest looks, in its order: file, table, and whether pytest uses the file
without that table.
"""


def read_text(path: Path) -> str | None:
    """Return a file's text with its line ends as they are; None without a file. Raises
    SettingsError.
    """
    try:
        return path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as exc:
        raise SettingsError(
            f"{str(path)!r} is not text in UTF-8: {exc}. Nothing was written"
        ) from exc
    except OSError as exc:
        raise SettingsError(
            f"{str(path)!r} cannot be read: {exc.strerror}. Nothing was written"
        ) from exc


@dataclass(frozen=True)
class IniFile:
    """The file with pytest's options: its name, the table in it, its text (None without
    a file), and the options.
    """

    name: str
    table: str
    text: str | None
    options: Mapping[str, Any]

    @classmethod
    def find(cls, directory: Path) -> IniFile:
        """Find the file that pytest uses, or the one that it will use. Raises
        SettingsError for a malformed one.
        """
        for name, table, counts_empty in _LOCATIONS:
            if (text := read_text(directory / name)) is None:
                continue
            try:
                options = _options(name, table, text)
            except (tomllib.TOMLDecodeError, ParseError) as exc:
                raise SettingsError(
                    f"{name} cannot be read: {exc}. Nothing was written"
                ) from exc
            if options is not None or counts_empty:
                return cls(name, table, text, options or {})
        if (text := read_text(directory / "pyproject.toml")) is not None:
            return cls("pyproject.toml", "tool.pytest.ini_options", text, {})
        return cls("pytest.ini", "pytest", None, {})

    def values(self, name: str) -> list[str]:
        """Return an option that is a list, which pytest splits as a shell does. Raises
        SettingsError.
        """
        value = self.options.get(name, ())
        if not isinstance(value, str):
            values = value if isinstance(value, Iterable) else [value]
            return list(map(str, values))
        try:
            return shlex.split(value)
        except ValueError as exc:
            raise SettingsError(
                f"{name} in {self.name} cannot be split ({exc}), got {value!r}"
            ) from exc

    def with_options(self, options: Mapping[str, tuple[str, str]]) -> str:
        """Return the text with these new options, each a value and a comment, added to
        the table.

        Raises SettingsError if the table is written so that lines cannot be added.
        """
        text = self.text or ""
        end = "\r\n" if "\r\n" in text else "\n"
        lines = []
        for name, (value, comment) in options.items():
            lines += [f"# {comment}", self._line(name, value)]
        changed = self._insert(text, "".join(f"{line}{end}" for line in lines), end)
        try:
            read = _options(self.name, self.table, changed) or {}
        except (tomllib.TOMLDecodeError, ParseError):
            read = {}
        if not read.keys() >= {*self.options, *options}:
            raise SettingsError(
                f"options cannot be added to {self.name}: its table [{self.table}] has"
                " no separate heading. Nothing was written. Add these lines to it:"
                f" {'; '.join(lines)}"
            )
        return changed

    def _line(self, name: str, value: str) -> str:
        if not self.name.endswith(".toml"):
            return f"{name} = {value}"
        is_list = name == "addopts" and self.table in ("pytest", "tool.pytest")
        values = shlex.split(value) if is_list else value
        return f"{name} = {json.dumps(values, ensure_ascii=False)}"

    def _insert(self, text: str, added: str, end: str) -> str:
        name = r"\s*\.\s*".join(map(re.escape, self.table.split(".")))
        header = re.search(
            rf"^\ufeff?\s*\[\s*{name}\s*\][^\S\n]*(?:[#;][^\n]*)?(?:\n|\Z)",
            text,
            re.MULTILINE,
        )
        if header:
            head = text[: header.end()]
            tail = text[header.end() :]
            if not head.endswith("\n"):
                head += end
            return head + added + tail
        if text and not text.endswith("\n"):
            text += end
        if text:
            text += end
        return f"{text}[{self.table}]{end}{added}"


def _options(name: str, table: str, text: str) -> Mapping[str, Any] | None:
    """Return pytest's options in the text of a file; None if the text has no such
    table.
    """
    if not name.endswith(".toml"):
        return IniConfig("", data=text).sections.get(table)
    section: Any = tomllib.loads(text)
    for key in table.split("."):
        section = section.get(key) if isinstance(section, Mapping) else None
    if (
        table == "tool.pytest"
        and isinstance(section, Mapping)
        and not section.keys() - {"ini_options"}
    ):
        return None  # [tool.pytest] only holds the older table
    return section if isinstance(section, Mapping) else None
