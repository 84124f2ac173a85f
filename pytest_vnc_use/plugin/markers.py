"""The markers of a test. They are read and checked when the test is collected, without a desktop."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from unittest import TestCase

import pytest

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.plugin.redaction import secrets_of
from pytest_vnc_use.plugin.session_settings import must_replay
from pytest_vnc_use.plugin.stash import OVERRULED, SECRETS, SPECS, is_ours
from pytest_vnc_use.plugin.task_spec import TaskSpec, task_spec
from pytest_vnc_use.settings.paths import policy_path

OF_A_TEST = ("app", "tokens", "dollars", "record", "planner")
"""Arguments that one of several markers sets for all of them."""
_PROBLEM = pytest.StashKey[str]()


def read(item: pytest.Item) -> None:
    """Store the specs of the item's markers.

    A wrong marker ends the session. On a worker of pytest-xdist it fails the test instead, as nobody sees the end of a
    worker's session.
    """
    item.stash[SPECS] = ()
    try:
        item.stash[SPECS] = _specs(item)
        if must_replay(item.config):
            _overrule_record(item)
        for spec in item.stash[SPECS]:
            secrets_of(item.config).declare(spec.secrets)
        if SECRETS in item.config.stash:
            _check_id(item)
    except SettingsError as exc:
        from pytest_vnc_use.triage.failure_text import sanitize

        problem = sanitize(f"{item.nodeid}: {exc}", secrets_of(item.config).hide)
        if not hasattr(item.config, "workerinput"):
            raise pytest.UsageError(problem) from exc
        item.stash[_PROBLEM] = problem


def _overrule_record(item: pytest.Item) -> None:
    """Take `record` out of the specs, so that the command line's counts."""
    for spec in item.stash[SPECS]:
        if "record" in spec.settings:
            item.stash[OVERRULED] = str(spec.settings["record"])
    item.stash[SPECS] = tuple(
        replace(spec, settings={name: value for name, value in spec.settings.items() if name != "record"})
        for spec in item.stash[SPECS]
    )


def learn_secrets(config: pytest.Config, marks: Iterable[pytest.Mark]) -> None:
    """Redact the secrets of markers from now on: the parameters of their test get their ids next."""
    for mark in marks:
        with suppress(SettingsError):  # `read` tells of a wrong marker
            secrets_of(config).declare(task_spec(mark.args, mark.kwargs).secrets)


def _check_id(item: pytest.Item) -> None:
    """Raise SettingsError if the test's id, which stands in file names and in every report, holds a secret."""
    name = str(getattr(getattr(item, "callspec", None), "id", ""))
    hidden = secrets_of(item.config).hide_in_id(name)
    if hidden != name:
        raise SettingsError(f"the id of a parameter contains a secret: [{hidden}]; give it another id with ids=…")


def tasks_of(item: pytest.Item) -> tuple[TaskSpec, ...]:
    """Return the specs of the item's markers with absolute paths, as a fixture may have changed the working folder."""
    return tuple(_seen_from(item.config.invocation_params.dir, spec) for spec in item.stash.get(SPECS, ()))


def _seen_from(base: Path, spec: TaskSpec) -> TaskSpec:
    policy = spec.settings.get("policy")
    return replace(spec, settings={**spec.settings, "policy": policy_path(base, str(policy))}) if policy else spec


def error_of(item: pytest.Item) -> SettingsError | None:
    """Return the error in the markers, if any. A marker that was added after collection is an error too."""
    if _PROBLEM in item.stash:
        return SettingsError(item.stash[_PROBLEM])
    if len(_marks(item)) != len(item.stash.get(SPECS, ())):
        return SettingsError("vnc_task was added after the test was collected; put it on the function or its class")
    return None


def agreed(specs: Sequence[TaskSpec]) -> dict[str, object]:
    """Return the settings of the whole test: those that all markers share, and those that one marker sets for all."""
    settings = {name: value for spec in specs for name, value in spec.settings.items()}
    return {
        name: value
        for name, value in settings.items()
        if name in OF_A_TEST or all(spec.settings.get(name) == value for spec in specs)
    }


def declared_secrets(item: pytest.Item) -> dict[str, str]:
    """Return the secrets of all markers. Raises SettingsError if neither an option nor the environment holds one."""
    given = secrets_of(item.config).given
    secrets = {
        name: given.get(name, value) for spec in item.stash.get(SPECS, ()) for name, value in spec.secrets.items()
    }
    for name, value in secrets.items():
        if not value:
            raise SettingsError(
                f"vnc_task(secrets=…) names the environment variable {name!r}, which is not set; set it, or name "
                f"another source: --vnc-secret {name}=file:PATH"
            )
    return secrets


def _specs(item: pytest.Item) -> tuple[TaskSpec, ...]:
    specs = tuple(task_spec(mark.args, mark.kwargs) for mark in _marks(item))
    kind = getattr(item, "cls", None)
    if kind and issubclass(kind, TestCase) and is_ours(item):
        raise SettingsError(
            f"pytest-vnc-use does not work in a unittest.TestCase, got {kind.__name__!r}; use a function, or a method "
            "of a plain class"
        )
    if specs:
        _check_callable(item)
    for path in {str(spec.settings["policy"]) for spec in specs if "policy" in spec.settings}:
        _check_policy(path)
    for name, silent in (("model", None), *((name, "") for name in OF_A_TEST)):
        values = {str(spec.settings.get(name, silent)) for spec in specs} - {""}
        if len(values) > 1:
            values_in_words = " and ".join(map(repr, sorted(values)))
            raise SettingsError(f"vnc_task({name}=…) must be the same in all markers of a test, got {values_in_words}")
    return specs


def _check_policy(path: str) -> None:
    from pytest_vnc_use.safety.policy_file import load_policy

    load_policy(path)


def _marks(item: pytest.Item) -> list[pytest.Mark]:
    """Return the markers, outermost first, decorators from top to bottom; those of the test's parameters come last."""
    of_parameters = [mark for mark in getattr(getattr(item, "callspec", None), "marks", ()) if mark.name == "vnc_task"]
    outer = list(item.iter_markers("vnc_task"))
    for mark in of_parameters:
        outer.remove(mark)
    return [*reversed(outer), *of_parameters]


def _check_callable(item: pytest.Item) -> None:
    """Raise SettingsError if pytest does not call the hook that carries out the task, pytest_pyfunc_call."""
    if not isinstance(item, pytest.Function):
        raise SettingsError(f"vnc_task must mark a test function, got a {type(item).__name__}")
    if inspect.iscoroutinefunction(item.obj) and not _has_event_loop(item):
        raise SettingsError("vnc_task does not work on an `async def` that no plugin runs; write `def`")


def _has_event_loop(item: pytest.Function) -> bool:
    """Return whether a plugin runs the item's coroutine: by an item of its own, as a fixture (anyio), or by a mark."""
    marked = item.get_closest_marker("asyncio") or item.get_closest_marker("trio")
    return type(item) is not pytest.Function or "anyio_backend" in item.fixturenames or marked is not None
