"""From settings to planners and judges: one row a service.

Each class is imported when it is chosen: none is needed to collect tests.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

from pydantic import TypeAdapter, ValidationError

from pytest_vnc_use.agent.credentials import SERVER_KEY_VARIABLE, fetch_key
from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.planners.common.arguments import Coordinates
from pytest_vnc_use.planners.common.functions import LIST_ELEMENTS, VERIFY
from pytest_vnc_use.planners.local.callables import named_planner
from pytest_vnc_use.planners.local.scripted import NoJudge
from pytest_vnc_use.settings.fallbacks import (
    LOCAL_AGENT,
    OPTIONS as LOCAL_OPTIONS,
    local_agent_value,
)
from pytest_vnc_use.settings.layers import read_count
from pytest_vnc_use.settings.settings import (
    FIELDS,
    OPTIONS,
    PLANNERS,
    Settings,
    option_name,
)
from pytest_vnc_use.settings.variables import VARIABLES
from pytest_vnc_use.types.protocols import (
    Judge,
    Planner,
)

_KINDS: tuple[Any, ...] = (str, bool, int, float, Sequence[str], Coordinates)
OPTION_TYPES = (*_KINDS, *(kind | None for kind in _KINDS))
"""The types of a planner's parameters that the setting `planner_options` can give."""


class Provider(NamedTuple):
    """A service of models, and its classes in a module of `planners`, which is imported
    when one of them is chosen.
    """

    default_model: str
    module: str
    planner: str
    judge: str

    def class_of(self, name: str) -> Any:
        """Return one of the classes."""
        return getattr(import_module(f"pytest_vnc_use.planners.{self.module}"), name)


PROVIDERS = {
    "gemini": Provider(
        default_model="gemini-3.8-flash",
        module="gemini.computer_use",
        planner="GeminiComputerUse",
        judge="GeminiJudge",
    ),
    "anthropic": Provider(
        default_model="claude-sonnet-5",
        module="anthropic",
        planner="AnthropicComputer",
        judge="AnthropicJudge",
    ),
    "openai": Provider(
        default_model="gpt-5.5",
        module="openai",
        planner="OpenAIComputer",
        judge="OpenAIJudge",
    ),
}


def _key_and_backoff(settings: Settings, service: str) -> dict[str, Any]:
    """Return how the user's command prints the key, if the service is the planner's,
    and how requests are repeated.
    """
    # with httpx2, which an idle session does not need
    from pytest_vnc_use.planners.common.http import Backoff

    is_fetched = settings.api_key_command and service == settings.planner
    key = partial(fetch_key, settings.api_key_command) if is_fetched else None
    return {"api_key": key, "backoff": Backoff(each_s=settings.request_seconds)}


def check_supported(settings: Settings) -> None:
    """Raise SettingsError if a setting differs from its default and the planner does
    not support it.
    """
    supported_by = {}
    if not settings.base_url:
        supported_by["toolset"] = "openai with --vnc-base-url"
    if settings.planner not in PLANNERS:
        for name in ("model", "exclude", "api_key_command", "planner_options"):
            supported_by[name] = " or ".join(PLANNERS)
    for name, planners in supported_by.items():
        value = getattr(settings, name)
        if value == FIELDS[name].default:
            continue
        option = option_name(name) if name in OPTIONS else f"vnc_{name}"
        raise SettingsError(
            f"the planner {settings.planner!r} does not support {option}, got"
            f" {value!r}. Remove {option}, or use --vnc-planner={planners}"
        )


def build_planner(
    settings: Settings, functions: Sequence[Callable[..., object]] = ()
) -> Planner:
    """Build the planner that the settings name. Raises SettingsError; KeyMissing if its
    key is missing.
    """
    if not settings.planner:
        raise SettingsError(
            "no planner is configured. Do the task once yourself with"
            " --vnc-record=manual, pass --vnc-planner=gemini with a key in"
            " GOOGLE_API_KEY (each run then costs money), or override the fixture"
            " vnc_planner"
        )
    if settings.base_url and settings.planner != "openai":
        raise SettingsError(
            "--vnc-base-url needs --vnc-planner=openai, got"
            f" --vnc-planner={settings.planner!r}"
        )
    if settings.base_url and not settings.model:
        raise SettingsError(
            f"--vnc-model must name the model at --vnc-base-url={settings.base_url!r},"
            " got ''"
        )
    check_supported(settings)
    if settings.planner not in PLANNERS:
        return named_planner(settings.planner)
    build = _chat_planner if settings.base_url else _service_planner
    planner = build(settings, functions)
    if settings.toolset != LOCAL_AGENT:
        return planner
    from pytest_vnc_use.planners.common.screens import ScaledScreens

    width = read_count(local_agent_value("AGENT_IMAGE_W"), "AGENT_IMAGE_W")
    height = read_count(local_agent_value("AGENT_IMAGE_H"), "AGENT_IMAGE_H")
    return ScaledScreens(planner, (width, height))


def _options(
    settings: Settings,
    planner: type,
    fixed: Collection[str] = (),
) -> dict[str, Any]:
    """Return the `planner_options` as keyword arguments of a planner's class, but those
    that are `fixed`. Raises SettingsError.
    """
    hints = get_type_hints(planner.__init__)  # type: ignore[misc]
    kinds = {
        name: hint
        for name, hint in hints.items()
        if hint in OPTION_TYPES and name not in fixed
    }
    options: dict[str, Any] = {}
    for name, text, origin in _option_texts(settings):
        if name not in kinds:
            raise SettingsError(
                f"the planner {settings.planner!r} has no option {name!r}."
                f" vnc_planner_options supports {', '.join(sorted(kinds))}"
            )
        if name == "system_instruction":
            options[name] = _prompt_in(text, origin)
        else:
            options[name] = _read_option(text, kinds[name], origin)
    return options


def _option_texts(settings: Settings) -> Iterator[tuple[str, str, str]]:
    """Yield name, text and origin of each option; the last of a name counts."""
    if settings.toolset == LOCAL_AGENT:
        for name, variable in LOCAL_OPTIONS.items():
            yield name, local_agent_value(variable), variable
    for option in settings.planner_options:
        name, _, text = option.partition("=")
        yield name, text, f"{name} of vnc_planner_options"


def _read_option(
    text: str,
    kind: Any,
    origin: str,
) -> Any:
    """Return the text as a value of this type. Raises SettingsError."""
    is_list = kind in (Sequence[str], Sequence[str] | None)
    try:
        return TypeAdapter(kind).validate_python(text.split(",") if is_list else text)
    except ValidationError as exc:
        [problem] = exc.errors(include_url=False)
        raise SettingsError(f"{origin}: {problem['msg']}, got {text!r}") from exc


def _prompt_in(file: str, origin: str) -> str:
    """Return the text of a file. Raises SettingsError."""
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, ValueError) as exc:
        raise SettingsError(f"{origin} must be a file with a prompt: {exc}") from exc


def _coordinates(settings: Settings) -> Any:
    from pytest_vnc_use.planners.chat.chat_completions import OpenAICompatible

    return _options(settings, OpenAICompatible).get("coordinates", "1000")


def _service_planner(
    settings: Settings, functions: Sequence[Callable[..., object]]
) -> Planner:
    fixed: dict[str, Any] = {
        **_key_and_backoff(settings, settings.planner),
        "model": model_of(settings),
        "excluded_actions": settings.exclude,
        "functions": functions,
    }
    if settings.planner == "gemini":
        fixed["has_devtools"] = bool(settings.cdp)
    provider = PROVIDERS[settings.planner]
    kind = provider.class_of(provider.planner)
    planner: Planner = kind(**fixed, **_options(settings, kind, fixed))
    return planner


def _chat_planner(
    settings: Settings, functions: Sequence[Callable[..., object]]
) -> Planner:
    from pytest_vnc_use.planners.chat.chat_completions import AgentLog, OpenAICompatible

    offered: Sequence[Any] = functions
    names = _names_of(functions)
    if _offers_verify(settings) and VERIFY.name not in names:
        offered = (*offered, VERIFY)
    if reads_text(settings) and LIST_ELEMENTS.name not in names:
        offered = (*offered, LIST_ELEMENTS)
    log = None
    if settings.toolset == LOCAL_AGENT:
        directory = local_agent_value("AGENT_DUMP_DIR")
        prefix = local_agent_value("AGENT_DUMP_PREFIX")
        start = local_agent_value("AGENT_DUMP_START")
        log = AgentLog(directory, prefix, read_count(start, "AGENT_DUMP_START"))
    fixed: dict[str, Any] = {
        **_key_and_backoff(settings, settings.planner),
        "base_url": settings.base_url,
        "model": settings.model,
        "toolset": settings.toolset,
        "functions": offered,
        "excluded_actions": settings.exclude,
        "log": log,
    }
    fixed["api_key"] = fixed["api_key"] or VARIABLES.get(SERVER_KEY_VARIABLE, "")
    return OpenAICompatible(**fixed, **_options(settings, OpenAICompatible, fixed))


def _names_of(functions: Sequence[Callable[..., object]]) -> set[str]:
    return {getattr(function, "__name__", "") for function in functions}


def _offers_verify(settings: Settings) -> bool:
    """Return whether the model may ask the judge about the screen."""
    return settings.toolset in ("commands", "vnc_command") and bool(judge_of(settings))


def reads_text(settings: Settings) -> bool:
    """Return whether text is read off the screen for the model: for one toolset alone,
    and with the extra `[ocr]`.
    """
    if not settings.base_url or settings.toolset != "vnc_command":
        return False
    # with numpy: collecting needs this module, not it
    from pytest_vnc_use import ocr

    return ocr.is_installed()


def model_of(settings: Settings) -> str:
    """Return the planner's model, or the default of its service."""
    return settings.model or _default_model(settings.planner)


def counted_in(settings: Settings) -> Callable[[int, int], tuple[int, int]]:
    """Return a function from the screen's size to the size of the model's
    coordinates.
    """
    if settings.base_url:
        in_pixels = _coordinates(settings) == "pixels"
        in_pixels = in_pixels or settings.toolset == "vnc_command"
        return _pixels if in_pixels else _thousandths
    match settings.planner:
        case "anthropic":
            from pytest_vnc_use.planners.anthropic import TOOLS, AnthropicComputer

            parameters = inspect.signature(AnthropicComputer).parameters
            default = parameters["tool"].default
            tool = _options(settings, AnthropicComputer).get("tool", default)
            return TOOLS[tool].limit.fitted
        case "openai":
            from pytest_vnc_use.planners.openai import LIMIT

            return LIMIT.fitted
        case "gemini":
            return _thousandths
        case _:
            return _pixels


def _pixels(width: int, height: int) -> tuple[int, int]:
    return width, height


def _thousandths(width: int, height: int) -> tuple[int, int]:
    return 1000, 1000


def build_judge(settings: Settings) -> Judge:
    """Build the judge of claims, by default of the planner's service. Without one,
    every claim is unsure.
    """
    service = judge_of(settings)
    if not service:
        return NoJudge()
    shared = {
        "model": model_that_judges(settings),
        **_key_and_backoff(settings, service),
    }
    if service == "openai" and settings.base_url:
        from pytest_vnc_use.planners.chat.chat_completions import ChatJudge

        shared["api_key"] = shared["api_key"] or VARIABLES.get(SERVER_KEY_VARIABLE, "")
        return ChatJudge(
            settings.base_url, **shared, coordinates=_coordinates(settings)
        )
    provider = PROVIDERS[service]
    judge: Judge = provider.class_of(provider.judge)(**shared)
    return judge


def judge_of(settings: Settings) -> str:
    """Return the service that judges; "" if none does."""
    service = settings.judge.partition(":")[0]
    if not service and settings.planner in PLANNERS:
        return settings.planner
    return service


def model_that_judges(settings: Settings) -> str:
    """Return the judge's model: by default the planner's, unless that is of another
    service or cannot judge.
    """
    judge = judge_of(settings)
    named = settings.judge.partition(":")[2]
    if named:
        return named
    acts_only = settings.model.startswith("gemini-2.5-computer-use")
    if settings.model and judge == settings.planner and not acts_only:
        return settings.model
    return _default_model(judge)


def _default_model(service: str) -> str:
    return PROVIDERS[service].default_model if service in PROVIDERS else ""
