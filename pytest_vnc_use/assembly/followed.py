"""The settings that only some planners support. Any other planner refuses them by name."""

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
"""The planners that support a setting. A setting that is missing here concerns all planners, or none."""


def check_followed(settings: Settings) -> None:
    """Raise SettingsError if a setting differs from its default and the planner does not support it."""
    check_followed_by({planner_of(settings)}, settings)


def check_followed_by(planners: Collection[str], settings: Settings) -> None:
    """Raise SettingsError if a setting differs from its default and none of the planners supports it."""
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
