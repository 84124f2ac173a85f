"""The task of a `vnc_task` marker, read from its arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.recordings.names import check_name, is_name
from pytest_vnc_use.settings.layers import read_value
from pytest_vnc_use.settings.variables import VARIABLES
from pytest_vnc_use.types.actions import SecretText
from pytest_vnc_use.types.values import UNUSED_VALUE, value_names

MARKER_SETTINGS = (
    "max_steps",
    "max_seconds",
    "max_tokens",
    "max_dollars",
    "votes",
    "policy",
    "planner",
    "model",
    "app",
    "record",
)


@dataclass(frozen=True)
class TaskSpec:
    """The content of one `vnc_task` marker: the task, its claims, its settings, its
    secrets (placeholder to value).
    """

    task: str
    expect: tuple[str, ...] = ()
    """The claims that are judged after the task."""
    settings: Mapping[str, object] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    body_checks: bool = False
    """True if the marker has `expect=None`: the body alone checks, and nothing is
    judged.
    """
    recording: str = ""
    """The name of the recording that this task has in all tests; "" for the test's
    own.
    """
    values: Mapping[str, Any] = field(default_factory=dict)
    """The values that the marker gives, by name."""

    @property
    def value_names(self) -> tuple[str, ...]:
        """The names of the values in the task and its claims."""
        return value_names(self.task, *self.expect)

    @property
    def arguments(self) -> dict[str, object]:
        """The marker's arguments beside the task; `task_spec` makes the same spec from
        them.
        """
        arguments = dict(self.settings)
        arguments["expect"] = None if self.body_checks else self.expect
        arguments["secrets"] = tuple(self.secrets)
        arguments["recording"] = self.recording
        arguments["values"] = dict(self.values)
        return arguments


def task_spec(args: tuple[object, ...], kwargs: Mapping[str, object]) -> TaskSpec:
    """Read a marker's arguments. Raises SettingsError with the invalid argument and the
    valid ones.
    """
    arguments = dict(kwargs)
    expect = arguments.pop("expect", ())
    names = arguments.pop("secrets", ())
    recording = check_name(arguments.pop("recording", ""))
    values = arguments.pop("values", {})
    if not isinstance(values, Mapping):
        raise SettingsError(
            "vnc_task(values=…) must be a dictionary of names and values, got"
            f" {values!r}"
        )
    for name in sorted(arguments):
        if name not in MARKER_SETTINGS:
            raise SettingsError(
                f"vnc_task has no argument {name!r}. It supports task, expect,"
                f" secrets, recording, values, {', '.join(MARKER_SETTINGS)}"
            )
    if len(args) != 1 or not _is_text(args[0]):
        raise SettingsError(f"vnc_task needs exactly one task as text, got {args!r}")
    body_checks = expect is None
    claims: tuple[str, ...] = ()
    if not body_checks:
        claims = _texts(expect, "vnc_task(expect=…) must be a claim or several")
    secrets = {}
    rule = "vnc_task(secrets=…) must name environment variables"
    for name in _texts(names, rule):
        value = VARIABLES.get(name, "")  # the use of an empty one fails
        secrets[name] = SecretText.of(name, value)
    settings = _settings(arguments)
    spec = TaskSpec(
        args[0], claims, settings, secrets, body_checks, recording, dict(values)
    )
    for name in spec.values:
        if name not in spec.value_names:
            raise SettingsError(UNUSED_VALUE.format(name))
    return spec


def _settings(arguments: Mapping[str, object]) -> dict[str, object]:
    """Return the settings that a marker's arguments set. Raises SettingsError if one is
    invalid.
    """
    settings = {}
    for name, value in arguments.items():
        if value is None:
            continue
        if name == "app" and not isinstance(value, str):
            raise SettingsError(
                f"vnc_task(app=…) must be a command line in one string, got {value!r}"
            )
        try:
            read_value(name, value, f"vnc_task({name}=…)")
        except SettingsError as exc:
            if name == "record" and is_name(value):
                hint = f"The name of a recording is recording={value!r}"
                raise SettingsError(f"{exc}. {hint}") from exc
            raise
        settings[name] = value
    return settings


def _texts(value: object, rule: str) -> tuple[str, ...]:
    """Return an argument, one text or several, as a tuple. Raises SettingsError with
    the rule if one is empty or not a text.
    """
    if _is_text(value):
        return (value,)
    if isinstance(value, (tuple, list)) and all(map(_is_text, value)):
        return tuple(value)
    raise SettingsError(f"{rule}, got {value!r}")


def _is_text(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and bool(value.strip())
