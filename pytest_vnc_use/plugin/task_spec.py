"""The content of a `vnc_task` marker: the task, its claims, its settings, its secrets."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.settings.layers import read_value
from pytest_vnc_use.settings.variables import VARIABLES
from pytest_vnc_use.types.secret_text import SecretText

MARKER_SETTINGS = ("steps", "seconds", "tokens", "dollars", "votes", "policy", "planner", "model", "app", "record")


@dataclass(frozen=True)
class TaskSpec:
    """The content of one `vnc_task` marker: the task, its claims, its settings, its secrets (placeholder to value)."""

    task: str
    expect: tuple[str, ...] = ()
    """The claims that are judged after the task."""
    settings: Mapping[str, object] = dataclasses.field(default_factory=dict)
    secrets: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    body_checks: bool = False
    """True if the marker says `expect=None`: the body alone checks, and nothing is judged."""

    @property
    def as_given(self) -> dict[str, object]:
        """The marker's arguments beside the task; `task_spec` makes the same spec from them."""
        expect = None if self.body_checks else self.expect
        return {**self.settings, "expect": expect, "secrets": tuple(self.secrets)}


def task_spec(args: tuple[object, ...], kwargs: Mapping[str, object]) -> TaskSpec:
    """Read a marker's arguments. Raises SettingsError that says which argument is wrong and what would be right."""
    unknown = sorted(set(kwargs) - {"expect", "secrets", *MARKER_SETTINGS})
    if unknown:
        raise SettingsError(
            f"vnc_task has no argument {unknown[0]!r}; it takes a task, expect, secrets, {', '.join(MARKER_SETTINGS)}"
        )
    if len(args) != 1 or not isinstance(args[0], str) or not args[0].strip():
        raise SettingsError(f"vnc_task needs exactly one task, a sentence, got {args!r}")
    settings = {name: kwargs[name] for name in MARKER_SETTINGS if kwargs.get(name) is not None}
    if not isinstance(settings.get("app", ""), str):
        raise SettingsError(f"vnc_task(app=…) must be a command line in one string, got {settings['app']!r}")
    for name, value in settings.items():
        read_value(name, value, f"vnc_task({name}=…)")
    expect = kwargs.get("expect", ())
    claims, secrets = _claims(() if expect is None else expect), _secrets(kwargs.get("secrets", ()))
    return TaskSpec(args[0], claims, settings, secrets, body_checks=expect is None)


def _claims(expect: object) -> tuple[str, ...]:
    claims = (expect,) if isinstance(expect, str) else expect
    if not isinstance(claims, (tuple, list)) or not all(isinstance(claim, str) and claim.strip() for claim in claims):
        raise SettingsError(f"vnc_task(expect=…) must be a claim or several, got {expect!r}")
    return tuple(claims)


def _secrets(names: object) -> Mapping[str, str]:
    """Return the values of the named environment variables. A missing one reads as "", and its use is refused."""
    names = (names,) if isinstance(names, str) else names
    if not isinstance(names, (tuple, list)) or not all(isinstance(name, str) and name for name in names):
        raise SettingsError(f"vnc_task(secrets=…) must name environment variables, got {names!r}")
    return {name: SecretText.of(name, VARIABLES.get(name, "")) for name in names}
