"""Tests without Python: `test_*.vnc.toml` files, read into the same task specs as
`vnc_task` markers.

app = "python shop"                      # above the first [[test]]: for all tests of the file

[[test]]
name = "basket"
task = "Sign in as alice and add two {fruit} to the basket"   # or several, performed in order
expect = ["the basket shows 2 {fruit}"]  # or false: on purpose, no judge is asked about the end state
max_steps = 20              # also: max_seconds, max_tokens, max_dollars, votes, planner, model, policy, app
recording = "sign_in"                    # shared by tests; a list if there are several tasks
secrets = ["SHOP_PASSWORD"]              # names of environment variables; <secret:SHOP_PASSWORD> in the task
parameters = { fruit = ["apples", "pears"] }                  # one test for each, or each combination
values = { count = 2 }                   # <value:count> in the task; a parameter may be one: <value:fruit>
"""

from __future__ import annotations

import itertools
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.files import check_out, explain_unreadable, read_regular
from pytest_vnc_use.plain_text import got
from pytest_vnc_use.plugin.markers import names_of_repetitions
from pytest_vnc_use.plugin.tasks import MARKER_SETTINGS, TaskSpec, task_spec
from pytest_vnc_use.settings.layers import policy_path, read_value
from pytest_vnc_use.types import POLICY_PRESETS, SECRET_MARK
from pytest_vnc_use.types.values import (
    UNUSED_VALUE,
    check_names,
    value_mark,
    value_names,
)

if TYPE_CHECKING:
    from pytest_vnc_use.agent.agent import VncUseAgent

tomllib = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")

Table = Mapping[str, Any]
Mistake = tuple[int | None, str, str]
"""The number of a [[test]] from 0, None for what is above the first; the key in it; and
what is wrong with its value.
"""
_FILE_KEYS = (*MARKER_SETTINGS, "secrets", "test")
_TEST_KEYS = (
    *MARKER_SETTINGS,
    "secrets",
    "name",
    "task",
    "expect",
    "parameters",
    "recording",
    "values",
)
_HEADER = re.compile(r"\s*\[\[\s*test\s*\]\]")
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


class TaskFile(pytest.Module):
    """A file of tasks, to pytest an empty module."""

    lines: dict[str, int]
    """The line of each test, by its name."""
    shared_names: dict[str, str]
    """The name of each test that its recording has, which all its values share."""

    def _getobj(self) -> ModuleType:
        return ModuleType(self.path.name)

    def collect(self) -> Iterator[pytest.Function]:
        """Yield an item for each test and repetition. Raises CollectError if the file
        is wrong.
        """
        try:
            tests = read_task_file(self.path)
        except SettingsError as exc:
            raise self.CollectError(str(exc)) from exc
        self.lines = {}
        self.shared_names = {}
        names = names_of_repetitions(self.config)
        repetitions = [f"[{name}]" for name in names] or [""]
        for test, repetition in itertools.product(tests, repetitions):
            item = TaskFileTest.from_parent(
                self, name=test.name + repetition, callobj=_no_body
            )
            self.lines[item.name] = test.line
            self.shared_names[item.name] = test.shared_name
            for spec in reversed(test.specs):
                marker = pytest.mark.vnc_task(spec.task, **spec.arguments)
                item.add_marker(marker)
            yield item


class TaskFileTest(pytest.Function):
    """One test of a file of tasks: a function without a body, marked with its tasks."""

    @property
    def recorded_as(self) -> str:
        """The name of the test without its repetition and its values."""
        assert isinstance(self.parent, TaskFile)
        return self.parent.shared_names[self.name]

    def reportinfo(self) -> tuple[Path, int, str]:
        """Return the file, the line from 0, and the name of the test."""
        assert isinstance(self.parent, TaskFile)
        line = self.parent.lines[self.name]
        return self.path, line - 1, self.name


def _no_body(vnc_agent: VncUseAgent) -> None:
    """Do nothing: the tasks have run before, and their claims are the test."""


@dataclass(frozen=True)
class FileTest:
    """One test of a file: its name, such as `basket[apples]`, the line of its table,
    its tasks in order, and its name without the parameters that are values.
    """

    name: str
    line: int
    specs: tuple[TaskSpec, ...]
    shared_name: str


def read_task_file(path: Path) -> tuple[FileTest, ...]:
    """Return the tests of a file. Raises SettingsError that names the file and the line
    of each mistake.
    """
    try:
        # Windows puts a mark before UTF-8
        text = read_regular(path).decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as exc:
        raise SettingsError(f"{path}: must be saved as UTF-8: {exc}") from exc
    except OSError as exc:
        raise SettingsError(f"{path}: cannot be read: {exc.strerror}") from exc
    data = _loads(path, text)
    if not text.strip():
        problem = f"'test' is missing, because the file is empty. {check_out(path)}"
        raise SettingsError(f"{path}:1: {problem}")
    mistakes = []
    for number, key, problem in _mistakes(path.parent, data):
        line = line_of(text, number, key)
        mistakes.append(f"{path}:{line}: {key!r} {problem}")
    if mistakes:
        raise SettingsError("\n".join(mistakes))
    shared = dict(data)
    tables = shared.pop("test")
    tests: dict[str, FileTest] = {}
    for number, table in enumerate(tables):
        line = line_of(text, number)
        table = {**shared, **table}
        try:
            of_table = [*_tests_of(path.parent, line, table)]
        except SettingsError as exc:
            raise SettingsError(f"{path}:{line}: {table['name']}: {exc}") from exc
        for test in of_table:
            if test.name in tests:
                problem = (
                    f"the name of a test must be unique, got {test.name!r} also in line"
                    f" {tests[test.name].line}"
                )
                raise SettingsError(f"{path}:{test.line}: {problem}")
            tests[test.name] = test
    return tuple(tests.values())


def _loads(path: Path, text: str) -> Table:
    """Return the data in a text. Raises SettingsError if it is no TOML."""
    try:
        data: Table = tomllib.loads(text)
    except (ValueError, RecursionError) as exc:
        problem = explain_unreadable(text.encode(), "a file of tasks", check_out(path))
        if problem:
            raise SettingsError(f"{path}: {problem}") from exc
        reason: object = exc
        if isinstance(exc, RecursionError):
            reason = "it is nested too deeply"
        line = len(text.splitlines())
        if at := re.search(r"at line (\d+)", str(exc)):
            line = int(at[1])
        raise SettingsError(f"{path}:{line}: not TOML: {reason}") from exc
    return data


def _tests_of(
    base: Path,
    line: int,
    table: Table,
) -> Iterator[FileTest]:
    """Yield a test for each combination of a table's parameters. Raises
    SettingsError.
    """
    _check_names(table)
    parameters = table.get("parameters", {})
    for combination in itertools.product(*parameters.values()):
        values = dict(zip(parameters, combination, strict=True))
        name = _name(table["name"], values)
        specs = tuple(_specs(base, table, values))
        used: set[str] = set()
        for spec in specs:
            used.update(spec.values)
        others = {key: value for key, value in values.items() if key not in used}
        yield FileTest(name, line, specs, _name(table["name"], others))


def _specs(
    base: Path,
    table: Table,
    values: Table,
) -> Iterator[TaskSpec]:
    """Yield each task of a table with these values of its parameters. Raises
    SettingsError.
    """
    arguments = {}
    for key in (*MARKER_SETTINGS, "secrets"):
        if key in table:
            arguments[key] = table[key]
    if "policy" in arguments:
        arguments["policy"] = policy_path(base, arguments["policy"])
    if "app" in arguments:
        arguments["app"] = _fill(str(arguments["app"]), values)
    *tasks, last_task = [_fill(task, values) for task in _listed(table["task"])]
    expect = table.get("expect", ())
    # `false` applies to all tasks, claims are of the last one
    arguments["expect"] = None if expect is False else ()
    names = _recordings(table)
    available = {**values, **table.get("values", {})}
    for task in tasks:
        arguments["recording"] = names.pop(0)
        arguments["values"] = _values_in([task], available)
        yield task_spec((task,), arguments)
    arguments["recording"] = names.pop(0)
    claims = []
    if expect:
        claims = [_fill(claim, values) for claim in _listed(expect)]
        arguments["expect"] = claims
    arguments["values"] = _values_in([last_task, *claims], available)
    yield task_spec((last_task,), arguments)


def _values_in(texts: Sequence[str], available: Table) -> dict[str, object]:
    """Return the values that a task and its claims name. Raises SettingsError."""
    names = value_names(*texts)
    check_names(names, available, ())
    return {name: available[name] for name in names}


def _recordings(table: Table) -> list[str]:
    """Return the name of each task's recording, "" for none. Raises SettingsError."""
    count = len(_listed(table["task"]))
    names = table.get("recording", [""] * count)
    names = _listed(names)
    if len(names) != count:
        raise SettingsError(
            f"'recording' must have a name for each of the {count} tasks, \"\" for none,"
            f" got {got(names)}"
        )
    return names


def _check_names(table: Table) -> None:
    """Raise SettingsError for a secret in a test's text that the test does not name, or
    a parameter that its text does not use.
    """
    claims = table.get("expect") or ()
    app = str(table.get("app", ""))
    text = "\n".join([*_listed(table["task"]), *_listed(claims), app])
    unnamed = set(SECRET_MARK.findall(text)).difference(table.get("secrets", ()))
    if unnamed:
        name = min(unnamed)
        raise SettingsError(
            f"'<secret:{name}>' stands for a secret. Add {name!r} to 'secrets'"
        )
    values = value_names(text)
    for name in table.get("parameters", ()):
        if f"{{{name}}}" not in text and name not in values:
            raise SettingsError(
                f"the parameter {name!r} is never used. Write {{{name}}} in task,"
                f" expect or app, or {value_mark(name)} in task or expect"
            )
    for name in table.get("values", ()):
        if name not in values:
            raise SettingsError(UNUSED_VALUE.format(name))


def _name(name: str, values: Table) -> str:
    """Return the name of a test, which is on one line."""
    if values:
        parameters = "-".join(map(str, values.values()))
        name = f"{name}[{parameters}]"
    for char in set(name):
        if not char.isprintable():
            escaped = repr(char).strip("'")
            name = name.replace(char, escaped)
    return name


def _listed(texts: str | Sequence[str]) -> list[str]:
    if isinstance(texts, str):
        texts = [texts]
    return [text.strip() for text in texts]


def _fill(text: str, values: Table) -> str:
    """Return the text with `{name}` replaced by the parameter of that name. Raises
    SettingsError if there is none.
    """

    def value_of(match: re.Match[str]) -> str:
        name = match[1]
        if name not in values:
            names = ", ".join(map(repr, values)) or "none"
            raise SettingsError(
                f"{match[0]!r} is not a parameter of this test. Its parameters are:"
                f" {names}"
            )
        return str(values[name])

    return _PLACEHOLDER.sub(value_of, text)


def _mistakes(base: Path, data: Table) -> Iterator[Mistake]:
    """Yield each mistake in a file."""
    for key, value in data.items():
        if key == "test":
            continue
        if problem := _problem(base, key, value, _FILE_KEYS):
            yield None, key, problem
    tables = data.get("test", [])
    if not isinstance(tables, list) or not _are_all(dict, tables):
        yield None, "test", "begins with two brackets. Write [[test]]"
        return
    if not tables:
        yield None, "test", "is missing"
    for number, table in enumerate(tables):
        for key in ("name", "task"):
            if key not in table:
                yield number, key, "is missing"
        for key, value in table.items():
            if problem := _problem(base, key, value, _TEST_KEYS):
                yield number, key, problem


def _problem(
    base: Path,
    key: str,
    value: Any,
    valid_keys: Sequence[str],
) -> str:
    """Return what is wrong with the value of a key, or ""."""
    if key not in valid_keys:
        return f"is unknown. It must be one of {', '.join(valid_keys)}"
    match key:
        case "name" if not _is_name(value):
            return f"must be letters, digits, spaces, - and _, got {got(value)}"
        case "recording" if not _is_text(value or "none"):
            return f"must be a name, or a list of names, got {got(value)}"
        case "task" if not value or not _is_text(value):
            return f"must be text, or a list of texts, got {got(value)}"
        case "expect" if value is not False and not _is_text(value):
            return f"must be text, a list of texts, or false, got {got(value)}"
        case "secrets" if not _names_variables(value):
            return (
                "must name environment variables. Do not write the secret itself into a"
                " file"
            )
        case "parameters" if not _are_parameters(value):
            return (
                "must be lists of text, numbers, true or false, with at least one"
                f" each, got {got(value)}"
            )
        case "values" if not isinstance(value, dict):
            return f"must be a table of names and values, got {got(value)}"
        case "policy" if not _is_policy(base, str(value)):
            return (
                "must be a file, relative to the directory of this one, got"
                f" {got(value)}"
            )
    if key in MARKER_SETTINGS:
        try:
            read_value(key, value, "")
        except SettingsError as exc:
            return str(exc).strip()
    return ""


def _are_all(kind: type | tuple[type, ...], values: Sequence[object]) -> bool:
    return all(isinstance(value, kind) for value in values)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(re.fullmatch(r"\w[\w -]*", value))


def _is_text(value: object) -> bool:
    """Return whether a value is a text, or a list of texts, none of them blank."""
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not _are_all(str, texts):
        return False
    return all(text.strip() for text in texts)


def _names_variables(value: object) -> bool:
    if not isinstance(value, list):
        return False
    return all(re.fullmatch(r"[A-Za-z_]\w*", str(name)) for name in value)


def _are_parameters(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    for values in value.values():
        if not isinstance(values, list) or not values:
            return False
        if not _are_all((str, int, float), values):
            return False
    return True


def _is_policy(base: Path, value: str) -> bool:
    if value in POLICY_PRESETS:
        return True
    return os.path.isfile(base / value)  # noqa: PTH113  # raises nothing


def line_of(
    text: str,
    table: int | None,
    key: str = "",
) -> int:
    """Return the line, from 1, of a key of the [[test]] with this number from 0; if it
    is missing, the line of its table.

    Without a number, the key is above the first table.
    """
    lines = text.splitlines()
    starts = [1]
    for number, line in enumerate(lines, 1):
        if _HEADER.match(line):
            starts.append(number)
    starts.append(len(lines) + 1)
    region = 0 if table is None else table + 1
    if region + 1 >= len(starts):
        # the tables are in one value: test = [{…}]
        region = 0
        key = "test"
    first = starts[region]
    if not key:
        return first
    pattern = re.compile(rf"\s*\[?(test\.)?[\"']?{re.escape(key)}[\"']?\s*[\].=]")
    for number in range(first, starts[region + 1]):
        if pattern.match(lines[number - 1]):
            return number
    return first
