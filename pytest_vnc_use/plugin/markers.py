"""What a test is to do: its `vnc_task` markers, read and checked when it is collected; and `--vnc-repeat`."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from unittest import TestCase

import pytest

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.plugin import register_plugins
from pytest_vnc_use.plugin.options import must_replay
from pytest_vnc_use.plugin.redaction import secrets_of
from pytest_vnc_use.plugin.state import FIXTURES, SECRETS, SETTINGS, needs_desktop, state_of
from pytest_vnc_use.safety.policy_file import load_policy
from pytest_vnc_use.settings.layers import policy_path, read_value
from pytest_vnc_use.settings.variables import VARIABLES
from pytest_vnc_use.triage import sanitize
from pytest_vnc_use.types.actions import SecretText

MARKER_SETTINGS = (
    *("max_steps", "max_seconds", "max_tokens", "max_dollars"),
    *("votes", "policy", "planner", "model", "app", "record"),
)

TEST_SETTINGS = ("app", "max_tokens", "max_dollars", "record", "planner")
"""Arguments that one of several markers sets for all of them."""
REPETITION = "vnc_repetition"
"""The parameter of a test's repetitions."""


@dataclass(frozen=True)
class TaskSpec:
    """The content of one `vnc_task` marker: the task, its claims, its settings, its secrets (placeholder to value)."""

    task: str
    expect: tuple[str, ...] = ()
    """The claims that are judged after the task."""
    settings: Mapping[str, object] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    body_checks: bool = False
    """True if the marker has `expect=None`: the body alone checks, and nothing is judged."""

    @property
    def arguments(self) -> dict[str, object]:
        """The marker's arguments beside the task; `task_spec` makes the same spec from them."""
        expect = None if self.body_checks else self.expect
        return {**self.settings, "expect": expect, "secrets": tuple(self.secrets)}


def task_spec(args: tuple[object, ...], kwargs: Mapping[str, object]) -> TaskSpec:
    """Read a marker's arguments. Raises SettingsError with the invalid argument and the valid ones."""
    unknown = sorted(set(kwargs) - {"expect", "secrets", *MARKER_SETTINGS})
    if unknown:
        raise SettingsError(
            f"vnc_task has no argument {unknown[0]!r}. It supports task, expect, secrets, {', '.join(MARKER_SETTINGS)}"
        )
    if len(args) != 1 or not isinstance(args[0], str) or not args[0].strip():
        raise SettingsError(f"vnc_task needs exactly one task as text, got {args!r}")
    settings = {name: kwargs[name] for name in MARKER_SETTINGS if kwargs.get(name) is not None}
    if not isinstance(settings.get("app", ""), str):
        raise SettingsError(f"vnc_task(app=…) must be a command line in one string, got {settings['app']!r}")
    for name, value in settings.items():
        read_value(name, value, f"vnc_task({name}=…)")
    expect = kwargs.get("expect", ())
    claims = _texts(() if expect is None else expect, "expect=…) must be a claim or several")
    names = _texts(kwargs.get("secrets", ()), "secrets=…) must name environment variables")
    secrets = {name: SecretText.of(name, VARIABLES.get(name, "")) for name in names}  # the use of an empty one fails
    return TaskSpec(args[0], claims, settings, secrets, body_checks=expect is None)


def _texts(value: object, problem: str) -> tuple[str, ...]:
    """Return one text or several as a tuple. Raises SettingsError if one is empty or not a text."""
    texts = (value,) if isinstance(value, str) else value
    if not isinstance(texts, (tuple, list)) or not all(isinstance(text, str) and text.strip() for text in texts):
        raise SettingsError(f"vnc_task({problem}, got {value!r}")
    return tuple(texts)


def read(item: pytest.Item) -> None:
    """Store the specs of the item's markers.

    A wrong marker ends the session. On a worker of pytest-xdist it fails the test instead, as no user sees the end of a
    worker's session.
    """
    state = state_of(item)
    try:
        state.specs = _specs(item)
        if must_replay(item.config):  # then the command line's `record` counts
            modes = [str(spec.settings["record"]) for spec in state.specs if "record" in spec.settings]
            state.overruled = modes[0] if modes else ""
            state.specs = tuple(
                replace(spec, settings={name: value for name, value in spec.settings.items() if name != "record"})
                for spec in state.specs
            )
        for spec in state.specs:
            secrets_of(item.config).declare(spec.secrets)
        # the id of a test is in file names and in every report
        name = str(getattr(getattr(item, "callspec", None), "id", ""))
        hidden = secrets_of(item.config).hide_in_id(name) if SECRETS in item.config.stash else name
        if hidden != name:
            raise SettingsError(f"the id of a parameter contains a secret: [{hidden}]. Give it another id with ids=…")
    except SettingsError as exc:
        problem = sanitize(f"{item.nodeid}: {exc}", secrets_of(item.config).hide)
        if not hasattr(item.config, "workerinput"):
            raise pytest.UsageError(problem) from exc
        state.problem = problem


def learn_secrets(config: pytest.Config, marks: Iterable[pytest.Mark]) -> None:
    """Redact the secrets of markers from now on: the parameters of their test get their ids next."""
    for mark in marks:
        with suppress(SettingsError):  # `read` reports an invalid marker
            secrets_of(config).declare(task_spec(mark.args, mark.kwargs).secrets)


def tasks_of(item: pytest.Item) -> tuple[TaskSpec, ...]:
    """Return the specs of the item's markers with absolute paths: a fixture may have changed the working directory."""
    base, specs = item.config.invocation_params.dir, list(state_of(item).specs)
    for number, spec in enumerate(specs):
        if policy := spec.settings.get("policy"):
            specs[number] = replace(spec, settings={**spec.settings, "policy": policy_path(base, str(policy))})
    return tuple(specs)


def check(item: pytest.Item) -> None:
    """Raise the error in the markers, if any. A marker that was added after collection is an error too."""
    problem = state_of(item).problem
    if not problem and len(_marks(item)) != len(state_of(item).specs):
        problem = "vnc_task was added after the test was collected. Put it on the function or its class"
    if problem:
        register_plugins(item.config)
        raise SettingsError(problem)


def agreed(specs: Sequence[TaskSpec]) -> dict[str, object]:
    """Return the settings of the whole test: those that all markers share, and those that one marker sets for all."""
    settings = {name: value for spec in specs for name, value in spec.settings.items()}
    return {
        name: value
        for name, value in settings.items()
        if name in TEST_SETTINGS or all(spec.settings.get(name) == value for spec in specs)
    }


def declared_secrets(item: pytest.Item) -> dict[str, str]:
    """Return the secrets of all markers. Raises SettingsError if neither an option nor the environment holds one."""
    values = secrets_of(item.config).from_options
    secrets = {name: values.get(name, value) for spec in state_of(item).specs for name, value in spec.secrets.items()}
    for name, value in secrets.items():
        if not value:
            raise SettingsError(
                f"vnc_task(secrets=…) names the environment variable {name!r}, which is not set. Set it, or name "
                f"another source: --vnc-secret {name}=file:PATH"
            )
    return secrets


def _specs(item: pytest.Item) -> tuple[TaskSpec, ...]:
    specs = tuple(task_spec(mark.args, mark.kwargs) for mark in _marks(item))
    kind = getattr(item, "cls", None)
    if kind and issubclass(kind, TestCase) and needs_desktop(item):
        raise SettingsError(
            f"pytest-vnc-use does not work in a unittest.TestCase, got {kind.__name__!r}. Use a function, or a method "
            "of a plain class"
        )
    if specs and not isinstance(item, pytest.Function):  # pytest does not call the hook that runs tasks
        raise SettingsError(f"vnc_task must mark a test function, got a {type(item).__name__}")
    if specs and inspect.iscoroutinefunction(getattr(item, "obj", None)):
        # a plugin runs it: by a custom item, as a fixture (anyio), or by a mark
        is_run = type(item) is not pytest.Function or "anyio_backend" in item.fixturenames
        if not (is_run or item.get_closest_marker("asyncio") or item.get_closest_marker("trio")):
            raise SettingsError("vnc_task does not work on an `async def` that no plugin runs. Write `def`")
    for path in {str(spec.settings["policy"]) for spec in specs if "policy" in spec.settings}:
        load_policy(path)
    for name, unset in (("model", None), *((name, "") for name in TEST_SETTINGS)):
        values = {str(spec.settings.get(name, unset)) for spec in specs} - {""}
        if len(values) > 1:
            joined = " and ".join(map(repr, sorted(values)))
            raise SettingsError(f"vnc_task({name}=…) must be the same in all markers of a test, got {joined}")
    return specs


def _marks(item: pytest.Item) -> list[pytest.Mark]:
    """Return the markers, outermost first, decorators from top to bottom; those of the test's parameters come last."""
    inner = [mark for mark in getattr(getattr(item, "callspec", None), "marks", ()) if mark.name == "vnc_task"]
    outer = list(item.iter_markers("vnc_task"))
    for mark in inner:
        outer.remove(mark)
    return [*reversed(outer), *inner]


@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Add a parameter for the repetitions to each test with a desktop."""
    names = names_of_repetitions(metafunc.config)
    if names and not FIXTURES.isdisjoint(metafunc.fixturenames):
        metafunc.fixturenames.append(REPETITION)
        metafunc.parametrize(REPETITION, range(1, len(names) + 1), ids=names)


def names_of_repetitions(config: pytest.Config) -> list[str]:
    """Return the names of the repetitions, such as `["run1", "run2"]`; none if each test is performed once."""
    repeat = config.stash[SETTINGS].repeat
    return [f"run{number}" for number in range(1, repeat + 1)] if repeat > 1 else []


def authored_name(item: pytest.Item) -> tuple[str, set[str]]:
    """Return the name of the test and of its parameters as its author wrote them, without those of repetitions.

    A parameter that begins with two underscores repeats the test: pytest-repeat, pytest-loop and pytest-flakefinder add
    one, as the first or the last.
    """
    name = item.nodeid.partition("::")[2]
    callspec = getattr(item, "callspec", None)
    if callspec is None:  # a test of a file of tasks
        for repetition in names_of_repetitions(item.config):
            name = name.removesuffix(f"[{repetition}]")
        return name, set()
    parameters = [*callspec.params]
    if any(map(_repeats, parameters)):
        ids = [*callspec._idlist]  # pytest offers only their joined text, where "1-2" may be one id or two
        for end in (0, -1):
            while parameters and _repeats(parameters[end]):
                del parameters[end], ids[end]
        name = name.removesuffix(f"[{callspec.id}]") + (f"[{'-'.join(ids)}]" if ids else "")
    return name, set(parameters)


def _repeats(parameter: str) -> bool:
    return parameter == REPETITION or parameter.startswith("__")
