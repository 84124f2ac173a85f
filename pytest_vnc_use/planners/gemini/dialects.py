"""The functions that Gemini's models are offered, by environment and dialect, and the names that may be excluded."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.planners.common.calls import DONE, GIVE_UP
from pytest_vnc_use.planners.gemini.actions import DESKTOP, OLDER, PREDEFINED_FUNCTIONS, READERS, excluding_name
from pytest_vnc_use.types import TakeScreenshot

BROWSER_ONLY = ("gemini-2.5-", "gemini-3-", "gemini-3.1-")
"""Prefixes of models that know no desktop. They get a browser as environment, and use the older dialect."""

BROWSER = frozenset({*DESKTOP, "navigate", "go_back", "go_forward"})
MOBILE = frozenset({"click", "type", "drag_and_drop", "press_key", "go_back", "wait", "take_screenshot"})
"""The functions of a phone that a desktop has too."""


def excluded_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names, each once. Raises SettingsError if one is no predefined function."""
    unknown = sorted(set(names) - PREDEFINED_FUNCTIONS)
    if unknown:
        raise SettingsError(f"excluded_actions must be among {sorted(PREDEFINED_FUNCTIONS)}, got {unknown!r}")
    return tuple(dict.fromkeys(names))


def dialect_of(model: str, environment: str) -> tuple[bool, str]:
    """Return whether a model knows the older dialect only, and its environment: such a model knows no desktop."""
    older, environment = model.startswith(BROWSER_ONLY), environment.lower()
    return older, "browser" if older and environment == "desktop" else environment


def in_dialect(names: Sequence[str], environment: str, *, older: bool) -> list[str]:
    """Return the names that a model is offered in this environment, and that the service knows there.

    `older` marks a model of the older dialect, which it uses in every environment.
    """
    newer: Mapping[str, Collection[str]] = {"desktop": DESKTOP, "browser": BROWSER, "mobile": MOBILE}
    offered = OLDER if older else newer[environment]
    return [name for name in names if name in offered]


def offered_names(environment: str, excluded: Collection[str], *, older: bool) -> tuple[str, ...]:
    """Return the names of the functions that a model may call there, with those beside the predefined ones."""
    predefined = in_dialect(tuple(READERS), environment, older=older)
    left = [name for name in predefined if excluding_name(name, TakeScreenshot(), excluded) is None]
    return (*left, DONE.name, GIVE_UP.name)


def can_detect_injection(model: str) -> bool:
    """Return whether the model's service can look for orders on the screen: from Gemini 3.5 on, by its name."""
    found = re.match(r"gemini-(\d+)(?:\.(\d+))?-", model)
    return found is not None and (int(found[1]), int(found[2] or 0)) >= (3, 5)
