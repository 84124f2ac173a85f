"""From `Settings` to concrete classes; the only place that chooses them. Each is imported when it is chosen."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.ports import Controller, Desktop, Judge, Planner
from pytest_vnc_use.safety import Policy, Unmatched
from pytest_vnc_use.settings import Settings, environment_layer, merge

API_KEY_VARIABLES = ("GOOGLE_API_KEY", "GEMINI_API_KEY")


def settings_of(given: Mapping[str, object]) -> Settings:
    """Settings from Python keyword arguments over the environment."""
    return merge(environment_layer(), (given, str))


def lease_desktop(settings: Settings, holder: str = "") -> Desktop:
    """The desktop that the settings name, for one user at a time: started here, or one of the given addresses.

    `holder` is who others are told has it. Raises DesktopError, SettingsError.
    """
    command = shlex.split(settings.app, posix=os.name == "posix")
    match settings.server:
        case "":
            raise SettingsError(
                "no desktop is given: pass --vnc-server=host::port, or let one be started: --vnc-server=xvnc, or "
                "--vnc-server=qt with --vnc-app"
            )
        case "qt":
            if not command:
                raise SettingsError("--vnc-server=qt starts the program under test, and --vnc-app does not say which")
            from pytest_vnc_use.desktops.qt import QtDesktop

            return QtDesktop(command, size=settings.screen_size)
        case "xvnc":
            from pytest_vnc_use.desktops.xvnc import XvncDesktop

            return XvncDesktop(command, size=settings.screen_size)
        case addresses:
            from pytest_vnc_use.desktops.pool import LeasedDesktop, lease

            servers = [address.strip() for address in addresses.split(",") if address.strip()]
            return LeasedDesktop(lease(servers, holder, timeout_s=settings.lease_seconds))


def connect(settings: Settings, password: str | None = None) -> Controller:
    """Eyes and hands on the desktop at `settings.server`. Raises DesktopError."""
    from pytest_vnc_use.backends import vnc

    password = password or os.environ.get(settings.password_env) or None
    return vnc.connect(settings.server, password, scroll_by=settings.scroll)


def build_planner(settings: Settings, functions: Sequence[Callable[..., object]] = ()) -> Planner:
    """The planner that the settings name."""
    if settings.planner != "gemini":
        raise SettingsError(
            "no planner is configured: pass --vnc-planner=gemini, with a key in GOOGLE_API_KEY (each run then costs "
            "money), or override the fixture vnc_planner"
        )
    from pytest_vnc_use.planners.gemini import GeminiComputerUse

    return GeminiComputerUse(
        model=settings.model,
        environment=settings.environment,
        excluded_actions=settings.exclude,
        functions=functions,
        include_thoughts=settings.include_thoughts,
        detect_prompt_injection=settings.detect_prompt_injection,
        disabled_safety_policies=settings.disabled_safety_policies,
        include_initial_screenshot=settings.include_initial_screenshot,
        keep_screenshots=settings.keep_screenshots,
    )


def build_judge(settings: Settings) -> Judge:
    """The judge of claims; where no model is configured, one to whom every claim is unsure."""
    if settings.planner != "gemini" and not settings.judge_model:
        from pytest_vnc_use.verification import NoJudge

        return NoJudge()
    from pytest_vnc_use.planners.gemini_judge import GeminiJudge

    return GeminiJudge(model=model_that_judges(settings))


def model_that_judges(settings: Settings) -> str:
    """The judge's model; where none is given the planner's, unless that does nothing without the Computer Use tool."""
    acts_only = settings.model.startswith("gemini-2.5-computer-use")
    return settings.judge_model or (Settings().model if acts_only else settings.model)


def build_policy(settings: Settings, *, ask: bool = False) -> Policy:
    """The policy file's rules; what no rule decides is asked, or denied where nobody can be asked."""
    unmatched: Unmatched = "ask" if ask else "deny"
    if not settings.policy:
        return Policy(unmatched=unmatched)
    from pytest_vnc_use.policy import load_policy

    return load_policy(settings.policy, unmatched=unmatched)


def api_keys() -> dict[str, str]:
    """The keys of models in the environment, by the names of their variables."""
    found = {name: os.environ.get(name, "").strip() for name in API_KEY_VARIABLES}
    return {name: value for name, value in found.items() if value}


def ambient_secrets(settings: Settings, password: str | None = None) -> dict[str, str]:
    """What must appear nowhere though no test declared it: the API keys and the VNC password."""
    found = {settings.password_env: os.environ.get(settings.password_env, "").strip(), "VNC_PASSWORD": password or ""}
    return api_keys() | {name: value for name, value in found.items() if value}
