"""The settings that only some planners follow. One that the chosen planner cannot follow is refused by its name."""

from __future__ import annotations

from collections.abc import Collection

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.settings.settings import FIELDS, OPTIONS, Settings, option_name

SERVER = "openai with --vnc-base-url"
_GOOGLE, _CLAUDE, _GPT = "gemini", "anthropic", "openai"
_SERVICES = (_GOOGLE, _CLAUDE, _GPT, SERVER)
FOLLOWERS: dict[str, tuple[str, ...]] = {
    "model": _SERVICES,
    "exclude": _SERVICES,
    "answer_tokens": _SERVICES,
    "include_initial_screenshot": _SERVICES,
    "keep_screenshots": _SERVICES,
    "include_thoughts": (_GOOGLE, _CLAUDE, _GPT),
    "environment": (_GOOGLE,),
    "search_page": (_GOOGLE,),
    "detect_prompt_injection": (_GOOGLE,),
    "disabled_safety_policies": (_GOOGLE,),
    "computer_tool": (_CLAUDE,),
    "vocabulary": (SERVER,),
    "coordinates": (SERVER,),
    "temperature": (SERVER,),
    "keep_thoughts": (SERVER,),
    "error_format": (SERVER,),
    "extra_calls": (SERVER,),
    "api_key_env": (SERVER,),
    "api_key_command": _SERVICES,
}
"""The planners that follow a setting. The settings that are not here concern no planner, or all of them."""


def check_followed(settings: Settings) -> None:
    """Raise SettingsError if a setting has another value than its default, and the planner cannot follow it."""
    check_followed_by({planner_of(settings)}, settings)


def check_followed_by(planners: Collection[str], settings: Settings) -> None:
    """Raise SettingsError if a setting has another value than its default, and none of the planners can follow it."""
    for name, followers in FOLLOWERS.items():
        value = getattr(settings, name)
        if value != FIELDS[name].default and not set(planners) & set(followers):
            spelled = option_name(name) if name in OPTIONS else f"vnc_{name}"
            raise SettingsError(
                f"the planner {settings.planner!r} does not support {spelled}, got {value!r}. Remove {spelled}, "
                f"or use --vnc-planner={' or '.join(followers)}"
            )


def planner_of(settings: Settings) -> str:
    """Return the planner as FOLLOWERS names it."""
    return SERVER if settings.base_url else settings.planner
