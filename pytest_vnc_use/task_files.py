"""Tests without Python: `test_*.vnc.toml` files, read into the same task specs as `vnc_task` markers.

app = "python shop"                      # above the first [[test]]: for all tests of the file

[[test]]
name = "basket"
task = "Sign in as alice and add two {fruit} to the basket"   # or several, carried out in order
expect = ["the basket shows 2 {fruit}"]
steps = 20                               # also: seconds, votes, model, policy, app
secrets = ["SHOP_PASSWORD"]              # names of environment variables; <secret:SHOP_PASSWORD> in the task
parameters = { fruit = ["apples", "pears"] }                  # one test for each, or each combination
"""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.settings import MARKER_SETTINGS, TaskSpec, task_spec

tomllib = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")

Text = Annotated[str, Field(min_length=1)]
Scalar = str | int | float | bool
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class FileTest:
    """One test of a file: its name, such as `basket[apples]`, the line of its table, and its tasks in order."""

    name: str
    line: int
    specs: tuple[TaskSpec, ...]


class _Limits(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    steps: int | None = None
    seconds: float | None = None
    tokens: int | None = None
    dollars: float | None = None
    votes: int | None = None
    model: Text | None = None
    policy: Text | None = None
    app: Text | None = None
    secrets: list[Text] | None = None


class _TestTable(_Limits):
    name: Annotated[str, Field(pattern=r"^\w[\w -]*$")]
    task: Text | list[Text]
    expect: Text | list[Text] = []
    parameters: dict[str, Annotated[list[Scalar], Field(min_length=1)]] = {}


class _File(_Limits):
    test: Annotated[list[_TestTable], Field(min_length=1)]


def read_task_file(path: Path) -> tuple[FileTest, ...]:
    """The tests of a file. Raises SettingsError that names the file and the line of each mistake."""
    text = path.read_text(encoding="utf-8")
    try:
        file = _File.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as exc:
        raise SettingsError(f"{path}: not TOML: {exc}") from exc
    except ValidationError as exc:
        told = [_told(path, text, dict(error)) for error in exc.errors(include_url=False)]
        raise SettingsError("\n".join(dict.fromkeys(told))) from exc
    tests = [test for number, table in enumerate(file.test) for test in _tests_of(path, text, number, file, table)]
    _check_names(path, tests)
    return tuple(tests)


def _tests_of(path: Path, text: str, number: int, file: _File, table: _TestTable) -> Iterator[FileTest]:
    line = line_of(text, ("test", number))
    shared = {name: getattr(file, name) for name in (*MARKER_SETTINGS, "secrets")}
    own = {name: getattr(table, name) for name in (*MARKER_SETTINGS, "secrets")}
    given = {**_present(shared), **_present(own)}
    if "policy" in given:
        given["policy"] = str(path.parent / given["policy"])
    for values in _combinations(table.parameters):
        shown = f"[{'-'.join(map(str, values.values()))}]" if values else ""
        try:
            specs = _specs(table, given, values)
        except SettingsError as exc:
            raise SettingsError(f"{path}:{line}: {table.name}: {exc}") from exc
        yield FileTest(table.name + shown, line, specs)


def _specs(table: _TestTable, given: Mapping[str, Any], values: Mapping[str, Scalar]) -> tuple[TaskSpec, ...]:
    """One spec a task; the claims are the last one's."""
    tasks = [table.task] if isinstance(table.task, str) else table.task
    claims = [table.expect] if isinstance(table.expect, str) else table.expect
    filled = {name: _filled(value, values) if name == "app" else value for name, value in given.items()}
    last = len(tasks) - 1
    return tuple(
        task_spec(
            (_filled(task, values),),
            {**filled, "expect": [_filled(claim, values) for claim in claims] if number == last else ()},
        )
        for number, task in enumerate(tasks)
    )


def _present(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _combinations(parameters: Mapping[str, list[Scalar]]) -> Iterator[dict[str, Scalar]]:
    for values in itertools.product(*parameters.values()):
        yield dict(zip(parameters, values, strict=True))


def _filled(text: str, values: Mapping[str, Scalar]) -> str:
    """The text with `{name}` replaced by the parameter of that name. Raises SettingsError where there is none."""

    def value_of(match: re.Match[str]) -> str:
        if match[1] not in values:
            known = ", ".join(map(repr, values)) or "none"
            raise SettingsError(f"{match[0]!r} stands for a parameter, and the test's parameters are: {known}")
        return str(values[match[1]])

    return _PLACEHOLDER.sub(value_of, text)


def _check_names(path: Path, tests: list[FileTest]) -> None:
    lines: dict[str, int] = {}
    for test in tests:
        if test.name in lines:
            problem = f"{path}:{test.line}: the name of a test must be its own, got {test.name!r} as in line"
            raise SettingsError(f"{problem} {lines[test.name]}")
        lines[test.name] = test.line


# --- where a mistake stands ------------------------------------------------------------------------------------------


def _told(path: Path, text: str, error: Mapping[str, Any]) -> str:
    place = error["loc"]
    depth = 3 if place[:1] == ("test",) else 1
    key = place[:depth][-1] if isinstance(place[:depth][-1], str) else "test"
    if error["type"] == "extra_forbidden":
        fault = f"is not known here; known are {', '.join((_TestTable if depth == 3 else _File).model_fields)}"
    elif error["type"] == "missing":
        fault = "is missing"
    else:
        fault = (
            f"{error['msg'].replace('Input should', 'must').replace('String should', 'must')}, got {error['input']!r}"
        )
    return f"{path}:{line_of(text, place)}: {key!r} {fault}"


def line_of(text: str, place: tuple[str | int, ...]) -> int:
    """The line, from 1, of a key such as ("test", 1, "steps"): its own, or that of the table it should stand in."""
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
