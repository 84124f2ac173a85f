"""What a test is to do: its `vnc_task` markers, read and checked when it is collected;
and `--vnc-repeat`.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from unittest import TestCase

import pytest

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.plugin.options import layers_of
from pytest_vnc_use.plugin.redaction import secrets_of
from pytest_vnc_use.plugin.registration import register_plugins
from pytest_vnc_use.plugin.state import (
    FIXTURES,
    SETTINGS,
    Marked,
    needs_desktop,
    state_of,
)
from pytest_vnc_use.plugin.tasks import TaskSpec, task_spec
from pytest_vnc_use.safety.policy_file import load_policy
from pytest_vnc_use.settings.fallbacks import strongest_value
from pytest_vnc_use.settings.layers import policy_path
from pytest_vnc_use.triage import sanitize
from pytest_vnc_use.types.values import check_names

TEST_SETTINGS = ("app", "max_tokens", "max_dollars", "record", "planner")
"""Arguments that one of several markers sets for all of them."""
REPETITION = "vnc_repetition"
"""The parameter of a test's repetitions."""


def read(item: pytest.Item) -> None:
    """Store the specs of the item's markers.

    A wrong marker ends the session. On a worker of pytest-xdist it fails the test
    instead, as no user sees the end of a worker's session.
    """
    marked = state_of(item).marked
    secrets = secrets_of(item.config)
    try:
        marked.specs = _specs(item)
        # the last two layers are of the command line: `-o` and the options
        if strongest_value("record", layers_of(item.config)[-2:]) == "replay":
            _overrule_record(marked)
        for spec in marked.specs:
            secrets.declare(spec.secrets)
        _check_id(item)
    except SettingsError as exc:
        problem = sanitize(f"{item.nodeid}: {exc}", secrets.hide)
        if not hasattr(item.config, "workerinput"):
            raise pytest.UsageError(problem) from exc
        marked.problem = problem


def _overrule_record(marked: Marked) -> None:
    """Take `record` out of the specs: no marker overrides `replay` on the command
    line.
    """
    specs = []
    for spec in marked.specs:
        settings = dict(spec.settings)
        mode = settings.pop("record", "")
        marked.overruled = marked.overruled or str(mode)
        specs.append(replace(spec, settings=settings))
    marked.specs = tuple(specs)


def _check_id(item: pytest.Item) -> None:
    """Raise SettingsError if the id of a parameter contains a secret: ids are in file
    names and in every report.
    """
    if not hasattr(item, "callspec"):
        return
    name = item.callspec.id
    hidden = secrets_of(item.config).hide_in_id(name)
    if hidden != name:
        raise SettingsError(
            f"the id of a parameter contains a secret: [{hidden}]. Give it another"
            " id with ids=…"
        )


def learn_secrets(config: pytest.Config, marks: Iterable[pytest.Mark]) -> None:
    """Redact the secrets of markers from now on, before the parameters of their test
    get their ids.
    """
    for mark in marks:
        with suppress(SettingsError):  # `read` reports an invalid marker
            spec = task_spec(mark.args, mark.kwargs)
            secrets_of(config).declare(spec.secrets)


def tasks_of(item: pytest.Item) -> tuple[TaskSpec, ...]:
    """Return the specs of the item's markers with absolute paths: a fixture may have
    changed the working directory.
    """
    base = item.config.invocation_params.dir
    specs = []
    for spec in state_of(item).marked.specs:
        if policy := spec.settings.get("policy"):
            path = policy_path(base, str(policy))
            spec = replace(spec, settings={**spec.settings, "policy": path})
        specs.append(spec)
    return tuple(specs)


def check(item: pytest.Item) -> None:
    """Raise the error in the markers, if any. A marker that was added after collection
    is an error too.
    """
    marked = state_of(item).marked
    problem = marked.problem
    if not problem and len(_marks(item)) != len(marked.specs):
        problem = (
            "vnc_task was added after the test was collected. Put it on the function or"
            " its class"
        )
    if problem:
        register_plugins(item.config)
        raise SettingsError(problem)


def agreed(specs: Sequence[TaskSpec]) -> dict[str, object]:
    """Return the settings of the whole test: those that all markers share, and those
    that one marker sets for all.
    """
    settings: dict[str, object] = {}
    for spec in specs:
        for name, value in spec.settings.items():
            is_shared = all(other.settings.get(name) == value for other in specs)
            if is_shared or name in TEST_SETTINGS:
                settings[name] = value
    return settings


def declared_secrets(item: pytest.Item) -> dict[str, str]:
    """Return the secrets of all markers. Raises SettingsError if neither an option nor
    the environment holds one.
    """
    from_options = secrets_of(item.config).from_options
    secrets: dict[str, str] = {}
    for spec in state_of(item).marked.specs:
        secrets.update(spec.secrets)
    for name, value in secrets.items():
        secrets[name] = from_options.get(name, value)
        if not secrets[name]:
            raise SettingsError(
                f"vnc_task(secrets=…) names the environment variable {name!r}, which is"
                " not set. Set it, or name another source: --vnc-secret"
                f" {name}=file:PATH"
            )
    return secrets


def _specs(item: pytest.Item) -> tuple[TaskSpec, ...]:
    """Return the specs of the item's markers. Raises SettingsError if one is wrong, or
    if they do not fit the test or each other.
    """
    specs = []
    for mark in _marks(item):
        spec = task_spec(mark.args, mark.kwargs)
        if policy := spec.settings.get("policy"):
            load_policy(str(policy))
        specs.append(spec)
    kind = getattr(item, "cls", None)
    if kind and issubclass(kind, TestCase) and needs_desktop(item):
        raise SettingsError(
            "pytest-vnc-use does not work in a unittest.TestCase, got"
            f" {kind.__name__!r}. Use a function, or a method of a plain class"
        )
    if specs:
        _check_function(item)
        _check_values(item, specs)
        for name in ("model", *TEST_SETTINGS):
            _check_agreement(name, specs)
    return tuple(specs)


def _check_values(item: pytest.Item, specs: Sequence[TaskSpec]) -> None:
    """Raise SettingsError for a value of a task that is no parameter or fixture of the
    test, and not given, or that is a secret too.
    """
    secrets = {*secrets_of(item.config).from_options}
    for spec in specs:
        secrets |= spec.secrets.keys()
    for spec in specs:
        # a test of a file of tasks requests what its function has
        of_test = getattr(item, "fixturenames", ())
        check_names(spec.value_names, [*spec.values, *of_test], secrets)


def _check_function(item: pytest.Item) -> None:
    """Raise SettingsError if pytest calls no hook that could run the test's tasks, or
    no plugin runs its coroutine.
    """
    if not isinstance(item, pytest.Function):
        raise SettingsError(
            f"vnc_task must mark a test function, got a {type(item).__name__}"
        )
    if not inspect.iscoroutinefunction(item.obj):
        return
    has_marker = any(map(item.get_closest_marker, ("asyncio", "trio")))
    has_custom_item = type(item) is not pytest.Function
    is_of_anyio = "anyio_backend" in item.fixturenames
    if not (has_marker or has_custom_item or is_of_anyio):
        raise SettingsError(
            "vnc_task does not work on an `async def` that no plugin runs. Write `def`"
        )


def _check_agreement(name: str, specs: Sequence[TaskSpec]) -> None:
    """Raise SettingsError if the markers of a test differ in a setting that must be the
    same for the whole test. A marker without a model differs from one with a model.
    """
    unset = None if name == "model" else ""
    values = {str(spec.settings.get(name, unset)) for spec in specs}
    values.discard("")
    if len(values) > 1:
        joined = " and ".join(map(repr, sorted(values)))
        raise SettingsError(
            f"vnc_task({name}=…) must be the same in all markers of a test, got"
            f" {joined}"
        )


def _marks(item: pytest.Item) -> list[pytest.Mark]:
    """Return the markers, outermost first, decorators from top to bottom; those of the
    test's parameters come last.
    """
    marks = list(item.iter_markers("vnc_task"))
    callspec = getattr(item, "callspec", None)
    of_parameters = []
    for mark in getattr(callspec, "marks", ()):
        if mark in marks:
            marks.remove(mark)
            of_parameters.append(mark)
    return [*reversed(marks), *of_parameters]


@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Add a parameter for the repetitions to each test with a desktop."""
    names = names_of_repetitions(metafunc.config)
    if names and not FIXTURES.isdisjoint(metafunc.fixturenames):
        metafunc.fixturenames.append(REPETITION)
        metafunc.parametrize(REPETITION, range(1, len(names) + 1), ids=names)


def names_of_repetitions(config: pytest.Config) -> list[str]:
    """Return the names of the repetitions, such as `["run1", "run2"]`; none if each
    test is performed once.
    """
    repeat = config.stash[SETTINGS].repeat
    if repeat <= 1:
        return []
    return [f"run{number}" for number in range(1, repeat + 1)]


def authored_name(item: pytest.Item) -> tuple[str, set[str]]:
    """Return the name of the test and of its parameters as its author wrote them,
    without those of repetitions, and of a parametrization that has a value: one
    recording serves all its sets.

    A parameter that begins with two underscores repeats the test: pytest-repeat,
    pytest-loop and pytest-flakefinder add one, as the first or the last.
    """
    name = item.nodeid.partition("::")[2]
    callspec = getattr(item, "callspec", None)
    if callspec is None:  # a test of a file of tasks
        return getattr(item, "recorded_as", name), set()
    parameters = [*callspec.params]
    # pytest offers only their joined text, where "1-2" may be one id or two
    ids = [*callspec._idlist]
    for end in (0, -1):
        while parameters and _repeats(parameters[end]):
            del parameters[end]
            del ids[end]
    parameters, ids = _without_values(item, parameters, ids)
    if len(ids) < len(callspec._idlist):
        name = name.removesuffix(f"[{callspec.id}]")
        if ids:
            name += f"[{'-'.join(ids)}]"
    return name, set(parameters)


def _without_values(
    item: pytest.Item, parameters: Sequence[str], ids: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return a test's parameters and the ids of its sets without the parametrizations
    that have a value of its tasks.
    """
    values: set[str] = set()
    for spec in state_of(item).marked.specs:
        values.update(spec.value_names)
    if values.issuperset(parameters):
        return [], []
    sets = _sets_of(item, parameters)
    # An id may be hidden: then it is unknown which parameters an id belongs to.
    if len(sets) != len(ids):
        return [*parameters], [*ids]
    kept_parameters: list[str] = []
    kept_ids = []
    for together, set_id in zip(sets, ids, strict=True):
        if values.isdisjoint(together):
            kept_parameters += together
            kept_ids.append(set_id)
    return kept_parameters, kept_ids


def _sets_of(item: pytest.Item, parameters: Iterable[str]) -> list[list[str]]:
    """Return the parameters that are set together, each with those beside it."""
    decorated: list[set[str]] = []
    for mark in item.iter_markers("parametrize"):
        names = mark.args[0] if mark.args else mark.kwargs.get("argnames", ())
        if isinstance(names, str):
            names = names.split(",")
        decorated.append({name.strip() for name in names})
    sets: list[list[str]] = []
    for parameter in parameters:
        together = [*sets[-1], parameter] if sets else []
        if sets and any(names.issuperset(together) for names in decorated):
            sets[-1] = together
        else:
            sets.append([parameter])
    return sets


def _repeats(parameter: str) -> bool:
    return parameter == REPETITION or parameter.startswith("__")
