"""Tests without Python: `test_*.vnc.toml` files, read into the same task specs as `vnc_task` markers.

app = "python shop"                      # above the first [[test]]: for all tests of the file

[[test]]
name = "basket"
task = "Sign in as alice and add two {fruit} to the basket"   # or several, carried out in order
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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.files import read_regular
from pytest_vnc_use.plain_text import got
from pytest_vnc_use.plugin.markers import MARKER_SETTINGS, TaskSpec, names_of_repetitions, task_spec
from pytest_vnc_use.settings.layers import read_value
from pytest_vnc_use.settings.paths import policy_path
from pytest_vnc_use.types import POLICY_PRESETS, SECRET_MARK

if TYPE_CHECKING:
    from pytest_vnc_use.agent.agent import VncUseAgent

tomllib = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")

Scalar = str | int | float | bool
Place = tuple[str | int, ...]
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


def _listed(value: Any) -> Any:
    if not isinstance(value, (str, list)):
        raise ValueError("must be text, or a list of texts")  # noqa: TRY004  # pydantic reports no TypeError
    return [value] if isinstance(value, str) else value


def _claims(value: Any) -> Any:
    if not isinstance(value, (str, list)) and value is not False:
        raise ValueError("must be text, a list of texts, or false")
    return [value] if isinstance(value, str) else value


def _scalar(value: Any) -> Scalar:
    if not isinstance(value, (str, int, float, bool)):
        raise ValueError("must be lists of text, numbers, true or false")  # noqa: TRY004  # as above
    return value


Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Texts = Annotated[list[Text], BeforeValidator(_listed)]
Claims = Annotated[list[Text] | Literal[False], BeforeValidator(_claims)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$")]
Values = Annotated[list[Annotated[Any, AfterValidator(_scalar)]], Field(min_length=1)]


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
                item.add_marker(pytest.mark.vnc_task(spec.task, **spec.as_given))
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


class _Limits(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    max_steps: int | None = None
    max_seconds: float | None = None
    max_tokens: int | None = None
    max_dollars: float | None = None
    votes: int | None = None
    planner: Text | None = None
    model: Text | None = None
    policy: Text | None = None
    app: Text | None = None
    record: Text | None = None
    secrets: list[Name] | None = None


class _TestTable(_Limits):
    name: Annotated[str, Field(pattern=r"^\w[\w -]*$")]
    task: Annotated[Texts, Field(min_length=1)]
    expect: Claims = []
    parameters: dict[str, Values] = {}


class _File(_Limits):
    test: Annotated[list[_TestTable], Field(min_length=1)]


def read_task_file(path: Path) -> tuple[FileTest, ...]:
    """Return the tests of a file. Raises SettingsError that names the file and the line of each mistake."""
    text = _text_of(path)
    try:
        file = _File.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as exc:
        line = re.search(r"at line (\d+)", str(exc))
        raise SettingsError(f"{path}:{line[1] if line else len(text.splitlines())}: not TOML: {exc}") from exc
    except RecursionError as exc:
        raise SettingsError(f"{path}: not TOML that can be read: it is nested too deeply") from exc
    except ValidationError as exc:
        errors = [dict(error) for error in exc.errors(include_url=False)]
        problems = [
            _format_error(path, text, error) for error in errors if error["type"] != "literal_error"
        ]  # pydantic reports a wrong `expect` twice
        raise SettingsError("\n".join(dict.fromkeys(problems))) from exc
    except ValueError as exc:  # a number of too many digits
        raise SettingsError(f"{path}: not TOML that can be read: {exc}") from exc
    _check_limits(path, text, file, ())
    tests = [test for number, table in enumerate(file.test) for test in _tests_of(path, text, number, file, table)]
    _check_names(path, tests)
    return tuple(tests)


def _text_of(path: Path) -> str:
    """Return the text of the file, without the mark that Windows puts before UTF-8."""
    try:
        return read_regular(path).decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as exc:
        raise SettingsError(f"{path}: must be saved as UTF-8: {exc}") from exc
    except OSError as exc:
        raise SettingsError(f"{path}: cannot be read: {exc.strerror}") from exc


def _tests_of(path: Path, text: str, number: int, file: _File, table: _TestTable) -> Iterator[FileTest]:
    _check_limits(path, text, table, ("test", number))
    line = line_of(text, ("test", number))
    given = {**_given_values(file), **_given_values(table)}
    if "policy" in given:
        given["policy"] = policy_path(path.parent, given["policy"])
    try:
        _check_words(table, given)
        for combination in itertools.product(*table.parameters.values()):
            values = dict(zip(table.parameters, combination, strict=True))
            suffix = f"[{'-'.join(map(_in_name, values.values()))}]" if values else ""
            yield FileTest(table.name + suffix, line, _specs(table, given, values))
    except SettingsError as exc:
        raise SettingsError(f"{path}:{line}: {table.name}: {exc}") from exc


def _given_values(table: _Limits) -> dict[str, Any]:
    values = {name: getattr(table, name) for name in (*MARKER_SETTINGS, "secrets")}
    return {name: value for name, value in values.items() if value is not None}


def _in_name(value: Scalar) -> str:
    """Return a parameter as it stands in the name of its test, on one line."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in str(value))


def _specs(table: _TestTable, given: Mapping[str, Any], values: Mapping[str, Scalar]) -> tuple[TaskSpec, ...]:
    """Return one spec for each task; the last task gets the claims, but `false` applies to all tasks."""
    filled = {name: _fill(value, values) if name == "app" else value for name, value in given.items()}
    if table.expect is False:
        return tuple(task_spec((_fill(task, values),), {**filled, "expect": None}) for task in table.task)
    claims = [_fill(claim, values) for claim in table.expect]
    *before, last = (_fill(task, values) for task in table.task)
    return (*(task_spec((task,), filled) for task in before), task_spec((last,), {**filled, "expect": claims}))


def _fill(text: str, values: Mapping[str, Scalar]) -> str:
    """Return the text with `{name}` replaced by the parameter of that name. Raises SettingsError if there is none."""

    def value_of(match: re.Match[str]) -> str:
        if match[1] not in values:
            known = ", ".join(map(repr, values)) or "none"
            raise SettingsError(f"{match[0]!r} is not a parameter of this test; its parameters are: {known}")
        return str(values[match[1]])

    return _PLACEHOLDER.sub(value_of, text)


# --- checks beyond types ---------------------------------------------------------------------------------------------


def _check_limits(path: Path, text: str, table: _Limits, place: Place) -> None:
    for name in MARKER_SETTINGS:
        value, at = getattr(table, name), f"{path}:{line_of(text, (*place, name))}: {name!r}"
        if value is None:
            continue
        read_value(name, value, at)
        if name == "policy" and value not in POLICY_PRESETS and not os.path.isfile(path.parent / value):  # noqa: PTH113  # raises nothing
            raise SettingsError(f"{at} must be a file, relative to the folder of this one, got {value!r}")


def _check_words(table: _TestTable, given: Mapping[str, Any]) -> None:
    """Raise SettingsError if a secret is used but not declared, or a parameter is declared but not used."""
    text = "\n".join([*table.task, *(table.expect or ()), given.get("app", "")])
    if unknown := set(SECRET_MARK.findall(text)) - set(given.get("secrets", ())):
        name = min(unknown)
        raise SettingsError(f"'<secret:{name}>' stands for a secret: add {name!r} to 'secrets'")
    if unused := [name for name in table.parameters if f"{{{name}}}" not in text]:
        raise SettingsError(f"the parameter {unused[0]!r} is never used: write {{{unused[0]}}} in task, expect or app")


def _check_names(path: Path, tests: list[FileTest]) -> None:
    lines: dict[str, int] = {}
    for test in tests:
        if test.name in lines:
            problem = f"{path}:{test.line}: the name of a test must be unique, got {test.name!r} also in line"
            raise SettingsError(f"{problem} {lines[test.name]}")
        lines[test.name] = test.line


# --- the place of a mistake ------------------------------------------------------------------------------------------


def _format_error(path: Path, text: str, error: Mapping[str, Any]) -> str:
    place = error["loc"]
    depth = 3 if place[:1] == ("test",) else 1
    key = place[:depth][-1] if isinstance(place[:depth][-1], str) else "test"
    known = ", ".join((_TestTable if depth == 3 else _File).model_fields)
    return f"{path}:{line_of(text, place)}: {key!r} {_fault(key, known, error)}"


def _fault(key: str, known: str, error: Mapping[str, Any]) -> str:
    match error["type"]:
        case "extra_forbidden":
            return f"is unknown; it must be one of {known}"
        case "missing":
            return "is missing"
        case "list_type" if key == "test":
            return "begins with two brackets: write [[test]]"
        case "string_pattern_mismatch" if key == "name":
            return f"must be letters, digits, spaces, - and _, got {got(error['input'])}"
        case "string_pattern_mismatch":
            return "must name environment variables; do not write the secret itself into a file"
        case _:
            message = re.sub(r"^(\w+ should|Value error, must)", "must", error["msg"])
            return f"{message}, got {got(error['input'])}"


def line_of(text: str, place: Place) -> int:
    """Return the line, from 1, of a key such as ("test", 1, "max_steps"); if it is missing, the line of its table."""
    lines = text.splitlines()
    headers = [number for number, line in enumerate(lines, 1) if re.match(r"\s*\[\[\s*test\s*\]\]", line)]
    first, end, names = 1, headers[0] if headers else len(lines) + 1, list(place)
    if len(place) > 1 and place[0] == "test" and isinstance(place[1], int) and place[1] < len(headers):
        first, names = headers[place[1]], list(place[2:])
        end = next((header for header in headers if header > first), len(lines) + 1)
    for number in range(first, end):
        if names and re.match(rf"\s*\[?(test\.)?[\"']?{re.escape(str(names[0]))}[\"']?\s*[\].=]", lines[number - 1]):
            return number
    return first
