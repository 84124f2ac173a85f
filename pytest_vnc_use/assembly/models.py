"""Build the planner, the judge and the policy from `Settings`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pytest_vnc_use.assembly.followed import check_followed
from pytest_vnc_use.assembly.in_turn import in_turn
from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.safety.rules import Policy, Unmatched
from pytest_vnc_use.settings.settings import PLANNERS, Settings
from pytest_vnc_use.settings.variables import VARIABLES
from pytest_vnc_use.types.protocols import Judge, Planner

if TYPE_CHECKING:
    from pytest_vnc_use.costs.budget import Budget
    from pytest_vnc_use.costs.ledger import Ledger
    from pytest_vnc_use.planners.common.http import Backoff
    from pytest_vnc_use.planners.common.screens import PictureLimit

GEMINI_KEY_VARIABLES = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
API_KEY_VARIABLES = (*GEMINI_KEY_VARIABLES, "ANTHROPIC_API_KEY", "OPENAI_API_KEY")
MODELS = {"gemini": "gemini-3.8-flash", "anthropic": "claude-sonnet-5", "openai": "gpt-5.5"}
"""The default model of each service."""


def counted_in(settings: Settings, look: Callable[[], bytes]) -> Callable[[int, int], tuple[int, int]]:
    """Return a function from the screen's size to the size of the model's coordinates.

    `look` returns the screen as PNG. It is called only if the size depends on the picture that is sent.
    """
    settings = in_turn(settings)[0]
    in_pixels = settings.coordinates == "pixels" if settings.base_url else settings.planner in ("anthropic", "openai")
    if settings.planner in PLANNERS and not in_pixels:
        return lambda *_: (1000, 1000)
    limit = _picture_limit(settings.planner, settings)
    if _sends_smaller(settings) and settings.planner in PLANNERS:
        from pytest_vnc_use.planners.common.screens import png_size, reduced

        return lambda *_: png_size(reduced(look(), settings.picture_bytes, limit, settings.picture_size))
    return limit.fitted if limit else lambda width, height: (width, height)


def _sends_smaller(settings: Settings) -> bool:
    return bool(settings.picture_bytes or settings.picture_size)


def _picture_limit(service: str, settings: Settings) -> PictureLimit | None:
    """Return the largest picture that a service accepts without scaling it down, if that is known."""
    from pytest_vnc_use.planners.anthropic.planner import TOOLS
    from pytest_vnc_use.planners.openai.planner import LIMIT

    match service:
        case "anthropic":
            return TOOLS[settings.computer_tool].limit
        case "openai" if not settings.base_url:
            return LIMIT
        case _:
            return None


def build_planner(settings: Settings, functions: Sequence[Callable[..., object]] = ()) -> Planner:
    """Build the planner that the settings name. Raises SettingsError; KeyMissing if its key is missing."""
    settings = in_turn(settings)[0]
    _check_base_url(settings)
    if settings.planner:
        check_followed(settings)
    planner = _planner_by_name(settings, functions)
    if not _sends_smaller(settings) or settings.planner not in PLANNERS:
        return planner
    from pytest_vnc_use.planners.common.screens import SmallerPictures

    limit = _picture_limit(settings.planner, settings)
    return SmallerPictures(planner, settings.picture_bytes, limit, settings.picture_size)


def _planner_by_name(settings: Settings, functions: Sequence[Callable[..., object]]) -> Planner:
    match settings.planner:
        case "":
            raise SettingsError(
                "no planner is configured: do the task once yourself with --vnc-record=demonstrate, pass "
                "--vnc-planner=gemini with a key in GOOGLE_API_KEY (each run then costs money), or override the "
                "fixture vnc_planner"
            )
        case "gemini":
            return _gemini(settings, functions)
        case "anthropic":
            return _anthropic(settings, functions)
        case "openai" if settings.base_url:
            return _openai_compatible(settings, functions)
        case "openai":
            return _openai(settings, functions)
        case path:
            from pytest_vnc_use.planners.local.callables import named_planner

            return named_planner(path)


def no_planner(why: Exception | None = None) -> Planner:
    """Return the planner of a run without a planner, such as a replay. It raises `why` if it is asked."""
    from pytest_vnc_use.planners.local.scripted import NoPlanner

    return NoPlanner(why)


def is_no_planner(planner: Planner) -> bool:
    """Return whether `no_planner` made this planner."""
    from pytest_vnc_use.planners.local.scripted import NoPlanner

    return isinstance(planner, NoPlanner)


def given_planner(thing: object) -> Planner:
    """Return a user's planner as it is, or a callable as a planner. Raises SettingsError."""
    from pytest_vnc_use.planners.local.callables import as_planner

    return as_planner(thing)


def _check_base_url(settings: Settings) -> None:
    if settings.base_url and settings.planner != "openai":
        raise SettingsError(f"--vnc-base-url needs --vnc-planner=openai, got --vnc-planner={settings.planner!r}")
    if settings.base_url and not settings.model:
        raise SettingsError(f"--vnc-model must name the model at --vnc-base-url={settings.base_url!r}, got ''")


def _in_common(settings: Settings, functions: Sequence[Callable[..., object]]) -> dict[str, Any]:
    """Return the arguments that the planners of all services with a computer tool share."""
    return {
        "model": model_of(settings),
        "api_key": _key_from_command(settings, settings.planner),
        "excluded_actions": settings.exclude,
        "functions": functions,
        "include_thoughts": settings.include_thoughts,
        "include_initial_screenshot": settings.include_initial_screenshot,
        "keep_screenshots": settings.keep_screenshots,
        "backoff": _backoff(settings),
    }


def _key_from_command(settings: Settings, service: str) -> str | None:
    """Return the key that the user's command prints, if there is one and the service is the planner's."""
    if not settings.api_key_command or service != settings.planner:
        return None
    from pytest_vnc_use.assembly.fetched_key import fetched_key

    return fetched_key(settings.api_key_command)


def _gemini(settings: Settings, functions: Sequence[Callable[..., object]]) -> Planner:
    from pytest_vnc_use.planners.gemini.planner import GeminiComputerUse

    return GeminiComputerUse(
        **_in_common(settings, functions),
        environment=settings.environment,
        detect_prompt_injection=settings.detect_prompt_injection,
        disabled_safety_policies=settings.disabled_safety_policies,
        search_page=settings.search_page,
        opens_windows=bool(settings.cdp),
        max_output_tokens=settings.answer_tokens or 8192,
    )


def _anthropic(settings: Settings, functions: Sequence[Callable[..., object]]) -> Planner:
    from pytest_vnc_use.planners.anthropic.planner import AnthropicComputer

    return AnthropicComputer(
        **_in_common(settings, functions),
        tool=settings.computer_tool,
        max_tokens=settings.answer_tokens or 16_000,
    )


def _openai(settings: Settings, functions: Sequence[Callable[..., object]]) -> Planner:
    from pytest_vnc_use.planners.openai.planner import OpenAIComputer

    return OpenAIComputer(
        **_in_common(settings, functions),
        max_output_tokens=settings.answer_tokens or 16_000,
    )


def _openai_compatible(settings: Settings, functions: Sequence[Callable[..., object]]) -> Planner:
    from pytest_vnc_use.planners.chat.planner import OpenAICompatible
    from pytest_vnc_use.planners.common.functions import VERIFY

    own = {getattr(function, "__name__", "") for function in functions}
    verifies = settings.vocabulary != "computer_use" and bool(judge_of(settings)) and VERIFY.name not in own
    return OpenAICompatible(
        settings.base_url,
        settings.model,
        _key_from_command(settings, settings.planner) or VARIABLES.get(settings.api_key_env, ""),
        vocabulary=settings.vocabulary,
        coordinates=settings.coordinates,
        functions=(*functions, VERIFY) if verifies else functions,
        excluded_actions=settings.exclude,
        keep_screenshots=settings.keep_screenshots,
        include_initial_screenshot=settings.include_initial_screenshot,
        keep_thoughts=settings.keep_thoughts,
        error_format=settings.error_format,
        extra_calls=settings.extra_calls,
        temperature=settings.temperature,
        max_tokens=settings.answer_tokens or 4096,
        backoff=_backoff(settings),
    )


def _backoff(settings: Settings) -> Backoff:
    from pytest_vnc_use.planners.common.http import Backoff

    return Backoff(each_s=settings.request_seconds)


def model_of(settings: Settings) -> str:
    """Return the planner's model, or the default of its service."""
    return settings.model or MODELS.get(settings.planner, "")


def build_judge(settings: Settings) -> Judge:
    """Build the judge of claims, by default of the planner's service. Without one, every claim is unsure.

    Of several planners, the last one's service judges.
    """
    settings = in_turn(settings)[-1]
    judge = _named_judge(settings)
    if not _sends_smaller(settings):
        return judge
    from pytest_vnc_use.planners.common.judge import ScreenJudge
    from pytest_vnc_use.planners.common.screens import SmallerFrames

    if not isinstance(judge, ScreenJudge):
        return judge
    limit = _picture_limit(judge_of(settings), settings)
    return SmallerFrames(judge, settings.picture_bytes, limit, settings.picture_size)


def person_as_judge(ask: Callable[[str], str]) -> Judge:
    """Return a judge that asks the person at the keyboard; `ask` raises EOFError if nobody is there."""
    from pytest_vnc_use.planners.local.person_judge import AtTheKeyboard

    return AtTheKeyboard(ask, records=True)


def _named_judge(settings: Settings) -> Judge:
    model, backoff = model_that_judges(settings), _backoff(settings)
    fetched = _key_from_command(settings, judge_of(settings))
    match judge_of(settings):
        case "gemini":
            from pytest_vnc_use.planners.gemini.judge import GeminiJudge

            return GeminiJudge(model=model, api_key=fetched, backoff=backoff)
        case "anthropic":
            from pytest_vnc_use.planners.anthropic.judge import AnthropicJudge

            return AnthropicJudge(model=model, api_key=fetched, backoff=backoff)
        case "openai" if settings.base_url:
            from pytest_vnc_use.planners.chat.judge import ChatJudge

            key, coordinates = fetched or VARIABLES.get(settings.api_key_env, ""), settings.coordinates
            return ChatJudge(settings.base_url, model, key, coordinates=coordinates, backoff=backoff)
        case "openai":
            from pytest_vnc_use.planners.openai.judge import OpenAIJudge

            return OpenAIJudge(model=model, api_key=fetched, backoff=backoff)
        case _:
            from pytest_vnc_use.verification.verifier import NoJudge

            return NoJudge()


def judge_of(settings: Settings) -> str:
    """Return the service that judges; "" if none does."""
    settings = in_turn(settings)[-1]
    if settings.judge or settings.planner in PLANNERS:
        return settings.judge or settings.planner
    return "gemini" if settings.judge_model else ""


def model_that_judges(settings: Settings) -> str:
    """Return the judge's model: by default the planner's, unless that is of another service or cannot judge."""
    settings = in_turn(settings)[-1]
    judge = judge_of(settings)
    acts_only = settings.model.startswith("gemini-2.5-computer-use")
    own = "" if acts_only or judge != settings.planner else settings.model
    return settings.judge_model or own or MODELS.get(judge, "")


def build_policy(settings: Settings, *, ask: bool = False) -> Policy:
    """Return the policy file's rules. An action that no rule decides is asked about, or denied if nobody is there."""
    unmatched: Unmatched = "ask" if ask else "deny"
    if not settings.policy:
        return Policy(unmatched=unmatched)
    from pytest_vnc_use.safety.policy_file import load_policy

    return load_policy(settings.policy, unmatched=unmatched)


def build_budget(settings: Settings, ledger: Ledger | None = None) -> Budget:
    """Return the budget of a test; with a ledger, of its session too. Raises SettingsError for a missing price."""
    from pytest_vnc_use.costs.budget import Budget, Most
    from pytest_vnc_use.costs.prices import load_prices

    prices = load_prices(settings.prices)
    if settings.dollars or settings.max_dollars:
        asked = {model_of(each) for each in in_turn(settings) if each.planner in PLANNERS}
        for model in (asked | {model_that_judges(settings)}) - {""}:
            prices.check(model)
    test = Most(tokens=settings.tokens, dollars=settings.dollars)
    session = Most("--vnc-max-", settings.max_steps, settings.max_seconds, settings.max_tokens, settings.max_dollars)
    return Budget(prices, test, session, ledger, model_that_judges(settings))


def api_keys() -> dict[str, str]:
    """Return the keys of models in the environment, by the names of their variables."""
    found = {name: VARIABLES.get(name, "").strip() for name in API_KEY_VARIABLES}
    return {name: value for name, value in found.items() if value}


def ambient_secrets(settings: Settings, password: str | None = None) -> dict[str, str]:
    """Return the secrets that no test declares: the API keys, the VNC password, the queries of desktops' addresses."""
    found = {name: VARIABLES.get(name, "").strip() for name in (settings.password_env, settings.api_key_env)}
    found["VNC_PASSWORD"] = password or ""
    queries = re.findall(r"://[^?#,]*[?#](?!…)([^,]*[^\s,])", settings.server)
    found |= {f"vnc_server_query_{number}": query for number, query in enumerate(queries, 1)}
    if settings.api_key_command:
        from pytest_vnc_use.assembly.fetched_key import printed_key

        found["vnc_api_key_command"] = printed_key(settings.api_key_command)
    return api_keys() | {name: value for name, value in found.items() if value}
