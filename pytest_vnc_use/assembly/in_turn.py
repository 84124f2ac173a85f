"""The settings of each planner of a list such as `gemini:flash-lite,gemini:flash`, cheap ones first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pytest_vnc_use.assembly.followed import FOLLOWERS, check_followed_by, planner_of
from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.settings.settings import FIELDS, PLANNERS, Settings

SHORT_NAMES = {
    "gemini": {"flash-lite": "gemini-3.5-flash-lite", "flash": "gemini-3.8-flash", "pro": "gemini-3.1-pro-preview"}
}
"""The short names of models, by service."""


def in_turn(settings: Settings) -> tuple[Settings, ...]:
    """Return the settings of each planner, in order; the settings themselves if they simply name one planner.

    Raises SettingsError if the settings do not fit the list.
    """
    named = settings.planner.split(",")
    if len(named) == 1 and named[0].partition(":")[0] not in PLANNERS:
        return (settings,)
    if settings.model and (len(named) > 1 or ":" in settings.planner):
        raise SettingsError(
            f"--vnc-planner={settings.planner!r} already names its models, as in gemini:flash. Remove "
            f"--vnc-model={settings.model!r}"
        )
    others: dict[str, Any] = {"base_url": ""} if any(who.strip().partition(":")[0] == "openai" for who in named) else {}
    each = tuple(_one(settings, who.strip(), others) for who in named)
    services = {planner_of(one) for one in each}
    if settings.api_key_command and len(services) > 1:
        raise SettingsError(
            f"vnc_api_key_command works with one service, but --vnc-planner={settings.planner!r} names "
            f"{len(services)}. Remove it, and set the keys as environment variables"
        )
    check_followed_by(services, settings)
    return tuple(_without_others(one) for one in each) if len(each) > 1 else each


def _one(settings: Settings, who: str, others: Mapping[str, Any]) -> Settings:
    """Return the settings of one planner; `others` hold for all but openai."""
    service, _, model = (part.strip() for part in who.partition(":"))
    if service not in PLANNERS:
        return replace(settings, planner=who, **others)
    model = SHORT_NAMES.get(service, {}).get(model, model) or settings.model
    return replace(settings, planner=service, model=model, **({} if service == "openai" else others))


def _without_others(settings: Settings) -> Settings:
    """Return the settings without those that only other planners of the list support."""
    planner = planner_of(settings)
    others: dict[str, Any] = {name: FIELDS[name].default for name, who in FOLLOWERS.items() if planner not in who}
    return replace(settings, **others)
