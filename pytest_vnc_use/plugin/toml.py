"""Tests without Python: `test_*.vnc.toml` files, read into the same task specs as `vnc_task` markers.

app = "python shop"                      # above the first [[test]]: for all tests of the file

[[test]]
name = "basket"
task = "Sign in as alice and add two {fruit} to the basket"   # or several, performed in order
expect = ["the basket shows 2 {fruit}"]  # or false: on purpose, no judge is asked about the end state
max_steps = 20              # also: max_seconds, max_tokens, max_dollars, votes, planner, model, policy, app
secrets = ["SHOP_PASSWORD"]              # names of environment variables; <secret:SHOP_PASSWORD> in the task
parameters = { fruit = ["apples", "pears"] }                  # one test for each, or each combination
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
from pytest_vnc_use.files import read_regular
from pytest_vnc_use.plain_text import got
from pytest_vnc_use.plugin.markers import MARKER_SETTINGS, TaskSpec, names_of_repetitions, task_spec
from pytest_vnc_use.settings.layers import policy_path, read_value
from pytest_vnc_use.types import POLICY_PRESETS, SECRET_MARK

if TYPE_CHECKING:
    from pytest_vnc_use.agent.agent import VncUseAgent

tomllib = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")

Table = Mapping[str, Any]
Location = tuple[str | int, ...]
"""Where a value is in a file, such as ("test", 1, "max_steps")."""
_FILE_KEYS = (*MARKER_SETTINGS, "secrets", "test")
_TEST_KEYS = (*MARKER_SETTINGS, "secrets", "name", "task", "expect", "parameters")
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


class TaskFile(pytest.Module):
    """A file of tasks, to pytest an empty module."""

    def _getobj(self) -> ModuleType:
        return ModuleType(self.path.name)

    def collect(self) -> Iterator[pytest.Function]:
        """Yield an item for each test and repetition. Raises CollectError if the file is wrong."""
        try:
            tests = read_task_file(self.path)
        except SettingsError as exc:
            raise self.CollectError(str(exc)) from exc
        repetitions = [f"[{name}]" for name in names_of_repetitions(self.config)] or [""]
        for test, repetition in itertools.product(tests, repetitions):
            item = TaskFileTest.from_parent(self, name=test.name + repetition, callobj=_no_body)
            item.line = test.line
            for spec in reversed(test.specs):
                item.add_marker(pytest.mark.vnc_task(spec.task, **spec.arguments))
            yield item


class TaskFileTest(pytest.Function):
    """One test of a file of tasks: a function without a body, marked with its tasks."""

    line = 1

    def reportinfo(self) -> tuple[Path, int, str]:
        """Return the file, the line from 0, and the name of the test."""
        return self.path, self.line - 1, self.name


def _no_body(vnc_agent: VncUseAgent) -> None:
    """Do nothing: the tasks run before this, and their claims are the test."""


@dataclass(frozen=True)
class FileTest:
    """One test of a file: its name, such as `basket[apples]`, the line of its table, and its tasks in order."""

    name: str
    line: int
    specs: tuple[TaskSpec, ...]


def read_task_file(path: Path) -> tuple[FileTest, ...]:
    """Return the tests of a file. Raises SettingsError that names the file and the line of each mistake."""
    try:
        text = read_regular(path).decode("utf-8-sig").replace("\r\n", "\n")  # Windows puts a mark before UTF-8
    except UnicodeDecodeError as exc:
        raise SettingsError(f"{path}: must be saved as UTF-8: {exc}") from exc
    except OSError as exc:
        raise SettingsError(f"{path}: cannot be read: {exc.strerror}") from exc
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as exc:
        at = re.search(r"at line (\d+)", str(exc))
        problem = "it is nested too deeply" if isinstance(exc, RecursionError) else exc
        raise SettingsError(f"{path}:{at[1] if at else len(text.splitlines())}: not TOML: {problem}") from exc
    mistakes = [
        f"{path}:{line_of(text, location)}: {location[-1]!r} {problem}"
        for location, problem in _mistakes(path.parent, data)
    ]
    if mistakes:
        raise SettingsError("\n".join(mistakes))
    shared = {key: value for key, value in data.items() if key != "test"}
    tests, lines = list[FileTest](), dict[str, int]()
    for number, table in enumerate(data["test"]):
        line = line_of(text, ("test", number))
        try:
            tests += _tests_of(path.parent, line, {**shared, **table})
        except SettingsError as exc:
            raise SettingsError(f"{path}:{line}: {table['name']}: {exc}") from exc
    for test in tests:
        if test.name in lines:
            problem = f"the name of a test must be unique, got {test.name!r} also in line {lines[test.name]}"
            raise SettingsError(f"{path}:{test.line}: {problem}")
        lines[test.name] = test.line
    return tuple(tests)


def _tests_of(base: Path, line: int, table: Table) -> Iterator[FileTest]:
    """Yield a test for each combination of a table's parameters. Raises SettingsError."""
    tasks, claims, parameters = _listed(table["task"]), table.get("expect", ()), table.get("parameters", {})
    arguments = {key: value for key, value in table.items() if key in (*MARKER_SETTINGS, "secrets")}
    if "policy" in arguments:
        arguments["policy"] = policy_path(base, arguments["policy"])
    text = "\n".join([*tasks, *(_listed(claims) if claims else ()), str(arguments.get("app", ""))])
    if unknown := set(SECRET_MARK.findall(text)) - set(arguments.get("secrets", ())):
        name = min(unknown)
        raise SettingsError(f"'<secret:{name}>' stands for a secret. Add {name!r} to 'secrets'")
    if unused := [name for name in parameters if f"{{{name}}}" not in text]:
        raise SettingsError(f"the parameter {unused[0]!r} is never used. Write {{{unused[0]}}} in task, expect or app")
    for combination in itertools.product(*parameters.values()):
        values = dict(zip(parameters, combination, strict=True))
        suffix = f"[{'-'.join(map(str, values.values()))}]" if values else ""
        filled = {key: _fill(str(value), values) if key == "app" else value for key, value in arguments.items()}
        # the last task gets the claims, but `false` applies to all tasks
        expects: list[Any] = [None if claims is False else ()] * len(tasks)
        if claims is not False:
            expects[-1] = tuple(_fill(claim, values) for claim in _listed(claims))
        specs = (
            task_spec((_fill(task, values),), {**filled, "expect": expect})
            for task, expect in zip(tasks, expects, strict=True)
        )
        # the name of a test is on one line
        name = "".join(char if char.isprintable() else repr(char)[1:-1] for char in table["name"] + suffix)
        yield FileTest(name, line, tuple(specs))


def _listed(texts: str | Sequence[str]) -> list[str]:
    return [text.strip() for text in ([texts] if isinstance(texts, str) else texts)]


def _fill(text: str, values: Table) -> str:
    """Return the text with `{name}` replaced by the parameter of that name. Raises SettingsError if there is none."""

    def value_of(match: re.Match[str]) -> str:
        if match[1] not in values:
            names = ", ".join(map(repr, values)) or "none"
            raise SettingsError(f"{match[0]!r} is not a parameter of this test. Its parameters are: {names}")
        return str(values[match[1]])

    return _PLACEHOLDER.sub(value_of, text)


def _mistakes(base: Path, data: Table) -> Iterator[tuple[Location, str]]:
    """Yield each mistake in a file: where it is, and what is wrong."""
    for key, value in data.items():
        if key != "test" and (problem := _problem(base, key, value, _FILE_KEYS)):
            yield (key,), problem
    tables = data.get("test", [])
    if not (isinstance(tables, list) and all(isinstance(table, dict) for table in tables)):
        yield ("test",), "begins with two brackets. Write [[test]]"
        return
    if not tables:
        yield ("test",), "is missing"
    for number, table in enumerate(tables):
        for key in ("name", "task"):
            if key not in table:
                yield ("test", number, key), "is missing"
        for key, value in table.items():
            if problem := _problem(base, key, value, _TEST_KEYS):
                yield ("test", number, key), problem


def _problem(base: Path, key: str, value: Any, valid_keys: Sequence[str]) -> str:
    """Return what is wrong with the value of a key, or ""."""
    texts = [value] if isinstance(value, str) else value
    are_texts = isinstance(texts, list) and all(isinstance(text, str) and text.strip() for text in texts)
    match key:
        case _ if key not in valid_keys:
            return f"is unknown. It must be one of {', '.join(valid_keys)}"
        case "name" if not (isinstance(value, str) and re.fullmatch(r"\w[\w -]*", value)):
            return f"must be letters, digits, spaces, - and _, got {got(value)}"
        case "task" if not (are_texts and texts):
            return f"must be text, or a list of texts, got {got(value)}"
        case "expect" if not (are_texts or value is False):
            return f"must be text, a list of texts, or false, got {got(value)}"
        case "secrets" if not (
            isinstance(value, list) and all(re.fullmatch(r"[A-Za-z_]\w*", str(name)) for name in value)
        ):
            return "must name environment variables. Do not write the secret itself into a file"
        case "parameters" if not (
            isinstance(value, dict)
            and all(isinstance(values, list) and values for values in value.values())
            and all(isinstance(item, (str, int, float)) for values in value.values() for item in values)
        ):
            return f"must be lists of text, numbers, true or false, with at least one each, got {got(value)}"
        case "policy" if str(value) not in POLICY_PRESETS and not os.path.isfile(base / str(value)):  # noqa: PTH113  # raises nothing
            return f"must be a file, relative to the directory of this one, got {got(value)}"
        case _ if key in MARKER_SETTINGS:
            try:
                read_value(key, value, "")
            except SettingsError as exc:
                return str(exc).strip()
    return ""


def line_of(text: str, location: Location) -> int:
    """Return the line, from 1, of a key such as ("test", 1, "max_steps"); if it is missing, the line of its table."""
    lines = text.splitlines()
    headers = [number for number, line in enumerate(lines, 1) if re.match(r"\s*\[\[\s*test\s*\]\]", line)]
    first, end, names = 1, headers[0] if headers else len(lines) + 1, list(location)
    if len(location) > 1 and location[0] == "test" and isinstance(location[1], int) and location[1] < len(headers):
        first, names = headers[location[1]], list(location[2:])
        end = next((header for header in headers if header > first), len(lines) + 1)
    for number in range(first, end):
        if names and re.match(rf"\s*\[?(test\.)?[\"']?{re.escape(str(names[0]))}[\"']?\s*[\].=]", lines[number - 1]):
            return number
    return first
