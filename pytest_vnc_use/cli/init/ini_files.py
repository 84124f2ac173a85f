"""The file with pytest's configuration in a project: pytest finds the same one; options are added to it."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from iniconfig import IniConfig, ParseError

from pytest_vnc_use.cli.init.files import read_text
from pytest_vnc_use.errors import SettingsError

tomllib = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")


@dataclass(frozen=True)
class Dialect:
    """A kind of file: the table of pytest's options in it, how one is written, and how the file is read.

    `native` says that a list of words is a list, and not a text.
    """

    table: str
    options: Callable[[str], Mapping[str, Any] | None]
    is_toml: bool = False
    native: bool = False

    def line(self, name: str, value: str) -> str:
        """Return an option as a line of the file."""
        if self.native and name == "addopts":
            return f"{name} = {json.dumps(value.split())}"
        return f"{name} = {json.dumps(value, ensure_ascii=False) if self.is_toml else value}"

    def value(self, value: str, name: str) -> object:
        """Return an option as the file's reader gives it back."""
        return value.split() if self.native and name == "addopts" else value


def _toml(*table: str, native: bool = False) -> Dialect:
    def options(text: str) -> Mapping[str, Any] | None:
        found: Any = tomllib.loads(text)
        for name in table:
            found = found.get(name) if isinstance(found, Mapping) else None
        if table == ("tool", "pytest") and isinstance(found, Mapping) and not found.keys() - {"ini_options"}:
            return None  # it is only there to hold the older table
        return found if isinstance(found, Mapping) else None

    return Dialect(".".join(table), options, is_toml=True, native=native)


def _ini(section: str) -> Dialect:
    def options(text: str) -> Mapping[str, Any] | None:
        found = IniConfig("", data=text).sections
        return found.get(section)

    return Dialect(section, options)


_PYPROJECT = _toml("tool", "pytest", "ini_options")
_PYTEST_INI = _ini("pytest")
_PLACES: tuple[tuple[str, Dialect, bool], ...] = (
    ("pytest.toml", _toml("pytest", native=True), True),
    (".pytest.toml", _toml("pytest", native=True), True),
    ("pytest.ini", _PYTEST_INI, True),
    (".pytest.ini", _PYTEST_INI, True),
    ("pyproject.toml", _toml("tool", "pytest", native=True), False),
    ("pyproject.toml", _PYPROJECT, False),
    ("tox.ini", _PYTEST_INI, False),
    ("setup.cfg", _ini("tool:pytest"), False),
)
"""The places where pytest looks, in its order; and whether pytest uses the file without that table."""


@dataclass(frozen=True)
class IniFile:
    """The file with pytest's options: its name, its text (None if it is not there yet) and the options in it."""

    name: str
    dialect: Dialect
    text: str | None
    options: Mapping[str, Any]

    @classmethod
    def find(cls, folder: Path) -> IniFile:
        """Find the file that pytest uses, or the one that it will use. Raises SettingsError for one that is broken."""
        for name, dialect, counts_empty in _PLACES:
            text = read_text(folder / name)
            options = None if text is None else _read(name, dialect, text)
            if options is not None or (counts_empty and text is not None):
                return cls(name, dialect, text, options or {})
        pyproject = read_text(folder / "pyproject.toml")
        if pyproject is not None:
            return cls("pyproject.toml", _PYPROJECT, pyproject, {})
        return cls("pytest.ini", _PYTEST_INI, None, {})

    def words(self, name: str) -> list[str]:
        """Return an option that is a list of words, which pytest reads as a shell does. Raises SettingsError."""
        value = self.options.get(name, ())
        if not isinstance(value, str):
            return [str(each) for each in value] if isinstance(value, Iterable) else [str(value)]
        try:
            return shlex.split(value)
        except ValueError as exc:
            raise SettingsError(
                f"nothing is written: {name} in {self.name} must be words as a shell reads them ({exc}), got {value!r}"
            ) from exc

    def with_options(self, wanted: Mapping[str, tuple[str, str]]) -> str:
        """Return the text with these options, each a value and a comment, added to the table. The options must be new.

        Raises SettingsError if the table is written so that lines cannot be added.
        """
        text = self.text or ""
        end = "\r\n" if "\r\n" in text else "\n"
        lines = []
        for name, (value, comment) in wanted.items():
            lines += [f"# {each}" for each in comment.splitlines()]
            lines.append(self.dialect.line(name, value))
        added = "".join(f"{line}{end}" for line in lines)
        changed = self._inserted(text, added, end)
        expected = {**self.options, **{name: self.dialect.value(value, name) for name, (value, _) in wanted.items()}}
        if _read(self.name, self.dialect, changed, fresh=True) != expected:
            raise SettingsError(self._cannot())
        return changed

    def _inserted(self, text: str, added: str, end: str) -> str:
        name = r"\s*\.\s*".join(map(re.escape, self.dialect.table.split(".")))
        header = re.search(rf"^\ufeff?\s*\[\s*{name}\s*\][^\S\n]*(?:[#;][^\n]*)?(?:\n|\Z)", text, re.MULTILINE)
        if header:
            head, tail = text[: header.end()], text[header.end() :]
            return f"{head}{'' if head.endswith(chr(10)) else end}{added}{tail}"
        gap = "" if not text else end if text.endswith("\n") else 2 * end
        return f"{text}{gap}[{self.dialect.table}]{end}{added}"

    def _cannot(self) -> str:
        return (
            f"nothing is written: options cannot be added to {self.name}: its table [{self.dialect.table}] must be "
            "written with a heading of its own, and each option on a line of its own"
        )


def _read(name: str, dialect: Dialect, text: str, *, fresh: bool = False) -> Mapping[str, Any] | None:
    """Return pytest's options in the text; None if it has no table of them."""
    try:
        found = dialect.options(text)
    except (tomllib.TOMLDecodeError, ParseError) as exc:
        if fresh:
            return None
        raise SettingsError(f"nothing is written: {name} cannot be read: {exc}") from exc
    return found
