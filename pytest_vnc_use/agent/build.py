"""From `Settings` to concrete classes: planner, judge, policy, budget, desktop, connection.

The only module that chooses concrete classes. Each is imported when it is chosen: none is needed to collect tests.
"""

from __future__ import annotations

import inspect
import os
import re
import shlex
import subprocess
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pytest_vnc_use.desktops.environment import withhold
from pytest_vnc_use.errors import DesktopRefused, KeyMissing, SettingsError
from pytest_vnc_use.errors.faults import named
from pytest_vnc_use.plain_text import line
from pytest_vnc_use.safety.rules import Policy
from pytest_vnc_use.settings.env_file import use_named_env_file
from pytest_vnc_use.settings.fallbacks import (
    LOCAL_AGENT,
    fallback_layer,
    fallbacks_in_words as fallbacks_in_words,
    local_agent_value,
)
from pytest_vnc_use.settings.layers import environment_layer, merge, read_value
from pytest_vnc_use.settings.settings import FIELDS, OPTIONS, PLANNERS, Settings, option_name
from pytest_vnc_use.settings.variables import VARIABLES, from_file
from pytest_vnc_use.types import Action, Frame
from pytest_vnc_use.types.elements import ASK_S, Element, Elements
from pytest_vnc_use.types.protocols import Controller, Desktop, Judge, MessageTap, Planner
from pytest_vnc_use.types.wire import Wire, host_and_port

if TYPE_CHECKING:
    from pytest_vnc_use.agent.budget import Budget, Ledger
    from pytest_vnc_use.backends.browser import BrowsableDesktop
    from pytest_vnc_use.backends.vnc import VNCController
    from pytest_vnc_use.desktops.external import Lease
    from pytest_vnc_use.planners.common.http import Backoff
    from pytest_vnc_use.planners.common.screens import PictureLimit

GEMINI_KEY_VARIABLES = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
API_KEY_VARIABLES = (*GEMINI_KEY_VARIABLES, "ANTHROPIC_API_KEY", "OPENAI_API_KEY")
MODELS = {"gemini": "gemini-3.8-flash", "anthropic": "claude-sonnet-5", "openai": "gpt-5.5"}
"""The default model of each service."""
KEY_COMMAND_S = 60.0
"""The most seconds that `api_key_command` may take, such as one that asks a password store."""
MAX_KEY = 8192
PROTECT = "use a server with TLS (vnc_tls=require), wss://, or a tunnel (ssh -L)"

_SERVER = "openai with --vnc-base-url"
_COMPUTER_TOOLS = ("gemini", "anthropic", "openai")
_SERVICES = (*_COMPUTER_TOOLS, _SERVER)
SUPPORTED_BY: dict[str, tuple[str, ...]] = {
    "model": _SERVICES,
    "exclude": _SERVICES,
    "answer_tokens": _SERVICES,
    "include_initial_screenshot": _SERVICES,
    "keep_screenshots": _SERVICES,
    "api_key_command": _SERVICES,
    "include_thoughts": _COMPUTER_TOOLS,
    "environment": ("gemini",),
    "search_page": ("gemini",),
    "detect_prompt_injection": ("gemini",),
    "disabled_safety_policies": ("gemini",),
    "computer_tool": ("anthropic",),
    "toolset": (_SERVER,),
    "coordinates": (_SERVER,),
    "temperature": (_SERVER,),
    "keep_thoughts": (_SERVER,),
    "error_format": (_SERVER,),
    "extra_calls": (_SERVER,),
    "api_key_env": (_SERVER,),
}
"""The planners that support a setting. A setting that is missing here concerns all planners, or none."""
START_SETTINGS = (
    *("server", "screen_size", "rendering", "start_seconds"),
    *("container_engine", "container_port", "container_env", "container_network", "volumes"),
)
"""The settings that decide which desktop is started, its program aside."""
CONNECTION_SETTINGS = (
    *("server", "password_env", "cdp", "scroll", "typing", "show_pointer", "show_secrets", "rfb_log"),
    *("username", "tls", "tls_ca", "tls_fingerprint"),
    *("blank_seconds", "frozen_seconds"),
)
"""The settings that decide how a controller connects."""

_key_lock = threading.Lock()
_fetched_keys: dict[str, tuple[str, str]] = {}
"""The key that each command printed in this process, and why it printed none."""
_warned: set[str] = set()
"""The servers of which the user was warned in this process."""


def settings_of(given: Mapping[str, object]) -> Settings:
    """Return settings from Python keyword arguments over the environment and the file that it names.

    Raises SettingsError.
    """
    if not from_file:
        use_named_env_file()
    layers = (environment_layer(), (given, str))
    return merge(fallback_layer(layers), *layers)


def build_policy(settings: Settings, *, ask: bool = False) -> Policy:
    """Return the policy file's rules. An action that no rule decides is asked about, or denied if nobody is there."""
    if not settings.policy:
        return Policy(unmatched="ask" if ask else "deny")
    from pytest_vnc_use.safety.policy_file import load_policy

    return load_policy(settings.policy, unmatched="ask" if ask else "deny")


def build_budget(settings: Settings, ledger: Ledger | None = None) -> Budget:
    """Return the budget of a test; with a ledger, of its session too. Raises SettingsError for a missing price."""
    from pytest_vnc_use.agent.budget import Budget, Most, load_prices

    prices = load_prices(settings.prices)
    if settings.max_dollars or settings.session_max_dollars:
        asked = {model_of(settings)} if settings.planner in PLANNERS else set()
        for model in (asked | {model_that_judges(settings)}) - {""}:
            prices.check(model)
    test = Most(tokens=settings.max_tokens, dollars=settings.max_dollars)
    session = Most(
        "--vnc-session-max-",
        settings.session_max_steps,
        settings.session_max_seconds,
        settings.session_max_tokens,
        settings.session_max_dollars,
    )
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
        found["vnc_api_key_command"] = _fetched_keys.get(settings.api_key_command, ("", ""))[0]
    return api_keys() | {name: value for name, value in found.items() if value}


def fetched_key(command: str) -> str:
    """Return the key that the command prints; it stays in this process, and never gets into the environment.

    The command runs once. Raises KeyMissing, without its output.
    """
    with _key_lock:
        if command not in _fetched_keys:
            _fetched_keys[command] = _run_key_command(command)
        key, problem = _fetched_keys[command]
    if problem:
        raise KeyMissing(f"vnc_api_key_command {command!r} must print a key: {problem}")
    return key


def _run_key_command(command: str) -> tuple[str, str]:
    """Return the key, and why there is none."""
    try:
        argv = shlex.split(command, posix=os.name == "posix")
        ended = subprocess.run(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=KEY_COMMAND_S
        )
    except subprocess.TimeoutExpired:
        return "", f"it did not end within {KEY_COMMAND_S:g} s"
    except (OSError, ValueError) as exc:
        return "", str(exc)
    key = ended.stdout.strip()
    if ended.returncode:
        return "", f"its exit code was {ended.returncode}"
    if not key:
        return "", "it printed nothing"
    if len(key) > MAX_KEY or not all(32 < byte < 127 for byte in key):
        return "", f"its output must be one word of at most {MAX_KEY} ASCII characters"
    return key.decode("ascii"), ""


def _service_key(settings: Settings, service: str) -> str | None:
    """Return the key that the user's command prints, if there is one and the service is the planner's."""
    return fetched_key(settings.api_key_command) if settings.api_key_command and service == settings.planner else None


def _backoff(settings: Settings) -> Backoff:
    from pytest_vnc_use.planners.common.http import Backoff

    return Backoff(each_s=settings.request_seconds)


# --- the planner -----------------------------------------------------------------------------------------------------


def check_supported(settings: Settings) -> None:
    """Raise SettingsError if a setting differs from its default and the planner does not support it."""
    planner = _SERVER if settings.base_url else settings.planner
    for name, planners in SUPPORTED_BY.items():
        value = getattr(settings, name)
        if value != FIELDS[name].default and planner not in planners:
            option = option_name(name) if name in OPTIONS else f"vnc_{name}"
            raise SettingsError(
                f"the planner {settings.planner!r} does not support {option}, got {value!r}. Remove {option}, or use "
                f"--vnc-planner={' or '.join(planners)}"
            )


def build_planner(settings: Settings, functions: Sequence[Callable[..., object]] = ()) -> Planner:
    """Build the planner that the settings name. Raises SettingsError; KeyMissing if its key is missing."""
    if not settings.planner:
        raise SettingsError(
            "no planner is configured: do the task once yourself with --vnc-record=manual, pass "
            "--vnc-planner=gemini with a key in GOOGLE_API_KEY (each run then costs money), or override the fixture "
            "vnc_planner"
        )
    if settings.base_url and settings.planner != "openai":
        raise SettingsError(f"--vnc-base-url needs --vnc-planner=openai, got --vnc-planner={settings.planner!r}")
    if settings.base_url and not settings.model:
        raise SettingsError(f"--vnc-model must name the model at --vnc-base-url={settings.base_url!r}, got ''")
    check_supported(settings)
    if settings.planner not in PLANNERS:
        from pytest_vnc_use.planners.local.callables import named_planner

        return named_planner(settings.planner)
    planner = _chat_planner(settings, functions) if settings.base_url else _service_planner(settings, functions)
    if not _sends_smaller(settings):
        return planner
    from pytest_vnc_use.planners.common.screens import SmallerPictures

    limit = _picture_limit(settings.planner, settings)
    exactly = settings.toolset == LOCAL_AGENT
    return SmallerPictures(planner, settings.picture_bytes, limit, settings.picture_size, exactly=exactly)


def _service_planner(settings: Settings, functions: Sequence[Callable[..., object]]) -> Planner:
    shared: dict[str, Any] = {
        "model": model_of(settings),
        "api_key": _service_key(settings, settings.planner),
        "excluded_actions": settings.exclude,
        "functions": functions,
        "include_thoughts": settings.include_thoughts,
        "include_initial_screenshot": settings.include_initial_screenshot,
        "keep_screenshots": settings.keep_screenshots or 3,
        "backoff": _backoff(settings),
    }
    match settings.planner:
        case "gemini":
            from pytest_vnc_use.planners.gemini.planner import GeminiComputerUse

            return GeminiComputerUse(
                **{**shared, "keep_screenshots": settings.keep_screenshots or None},
                environment=settings.environment,
                detect_prompt_injection=settings.detect_prompt_injection,
                disabled_safety_policies=settings.disabled_safety_policies,
                search_page=settings.search_page,
                opens_windows=bool(settings.cdp),
                max_output_tokens=settings.answer_tokens or 8192,
            )
        case "anthropic":
            from pytest_vnc_use.planners.anthropic.planner import AnthropicComputer

            max_tokens = settings.answer_tokens or 16_000
            return AnthropicComputer(**shared, tool=settings.computer_tool, max_tokens=max_tokens)
        case _:
            from pytest_vnc_use.planners.openai.planner import OpenAIComputer

            return OpenAIComputer(**shared, max_output_tokens=settings.answer_tokens or 16_000)


def _chat_planner(settings: Settings, functions: Sequence[Callable[..., object]]) -> Planner:
    from pytest_vnc_use.planners.chat.planner import AgentLog, OpenAICompatible
    from pytest_vnc_use.planners.common.functions import VERIFY

    names = {getattr(function, "__name__", "") for function in functions}
    takes_verify = settings.toolset in ("commands", "vnc_command") and VERIFY.name not in names
    verifies = takes_verify and bool(judge_of(settings))
    log = None
    if settings.toolset == LOCAL_AGENT:
        directory, prefix, start = (local_agent_value(f"AGENT_DUMP_{name}") for name in ("DIR", "PREFIX", "START"))
        log = AgentLog(directory, prefix, read_value("stall", start, "AGENT_DUMP_START"))
    return OpenAICompatible(
        settings.base_url,
        settings.model,
        _service_key(settings, settings.planner) or VARIABLES.get(settings.api_key_env, ""),
        toolset=settings.toolset,
        coordinates=settings.coordinates,
        functions=(*functions, VERIFY) if verifies else functions,
        excluded_actions=settings.exclude,
        keep_screenshots=settings.keep_screenshots or 3,
        include_initial_screenshot=settings.include_initial_screenshot,
        keep_thoughts=settings.keep_thoughts,
        error_format=settings.error_format,
        extra_calls=settings.extra_calls,
        temperature=settings.temperature,
        max_tokens=settings.answer_tokens or 4096,
        log=log,
        backoff=_backoff(settings),
    )


def model_of(settings: Settings) -> str:
    """Return the planner's model, or the default of its service."""
    return settings.model or MODELS.get(settings.planner, "")


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


def counted_in(settings: Settings, look: Callable[[], bytes]) -> Callable[[int, int], tuple[int, int]]:
    """Return a function from the screen's size to the size of the model's coordinates.

    `look` returns the screen as PNG. It is called only if the size depends on the picture that is sent.
    """
    in_pixels = settings.planner in ("anthropic", "openai")
    if settings.base_url:
        in_pixels = settings.coordinates == "pixels" or settings.toolset == "vnc_command"
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


# --- the judge -------------------------------------------------------------------------------------------------------


def build_judge(settings: Settings) -> Judge:
    """Build the judge of claims, by default of the planner's service. Without one, every claim is unsure."""
    judge = _judge_by_name(settings)
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


def _judge_by_name(settings: Settings) -> Judge:
    model, backoff = model_that_judges(settings), _backoff(settings)
    fetched = _service_key(settings, judge_of(settings))
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
            from pytest_vnc_use.agent.claims import NoJudge

            return NoJudge()


def judge_of(settings: Settings) -> str:
    """Return the service that judges; "" if none does."""
    if settings.judge or settings.planner in PLANNERS:
        return settings.judge or settings.planner
    return "gemini" if settings.judge_model else ""


def model_that_judges(settings: Settings) -> str:
    """Return the judge's model: by default the planner's, unless that is of another service or cannot judge."""
    judge = judge_of(settings)
    acts_only = settings.model.startswith("gemini-2.5-computer-use")
    own = "" if acts_only or judge != settings.planner else settings.model
    return settings.judge_model or own or MODELS.get(judge, "")


# --- the desktop -----------------------------------------------------------------------------------------------------


def is_given(settings: Settings) -> bool:
    """Return whether somebody else started the desktop."""
    return settings.server not in ("", "qt", "xvnc") and not settings.server.startswith("container:")


def settings_at(settings: Settings, server: str) -> Settings:
    """Return the settings for a desktop at this address. The rules of the wire are for a given desktop only.

    A desktop that is started here has a private socket, or a loopback address with a random password.
    """
    if is_given(settings):
        return replace(settings, server=server)
    return replace(settings, server=server, username="", tls="off", tls_ca="", tls_fingerprint="")


def same_connection(one: Settings, other: Settings) -> bool:
    """Return whether `connect` would make the same controller from both."""
    return all(getattr(one, name) == getattr(other, name) for name in CONNECTION_SETTINGS)


def same_start(one: Settings, other: Settings) -> bool:
    """Return whether both ask for the same desktop, with any program."""
    return all(getattr(one, name) == getattr(other, name) for name in START_SETTINGS)


def same_desktop(one: Settings, other: Settings) -> bool:
    """Return whether both ask for the same desktop, with the same program."""
    return same_start(one, other) and (one.app, one.exec) == (other.app, other.exec)


def lease_desktop(settings: Settings, holder: str = "", name: str = "") -> Desktop:
    """Lease the desktop that the settings name, with its program, for one user: a given one, or one started here.

    `holder` is the name that other waiting tests see. A desktop that is started has its home at a path that follows
    from `name`. Raises DesktopError, SettingsError.
    """
    command = program_of(settings)
    desktop = _given_desktop(settings, holder) if is_given(settings) else start_desktop(settings, name)
    try:
        if command:
            desktop.launch(command)
    except BaseException:  # whatever it was, Ctrl-C too: nothing that was started stays behind
        desktop.stop()
        raise
    return desktop


def program_of(settings: Settings) -> list[str]:
    """Return the words of the program under test. Raises SettingsError if one is missing or cannot be started."""
    try:
        command = shlex.split(settings.app, posix=os.name == "posix")
    except ValueError as exc:
        raise SettingsError(f"--vnc-app must be a command line, got {settings.app!r}: {exc}") from exc
    if settings.server == "qt" and not command:
        raise SettingsError("--vnc-server=qt starts the program under test: --vnc-app must name its command, got ''")
    if command and is_given(settings) and not settings.exec:
        raise SettingsError(
            f"--vnc-app={settings.app!r} cannot be started on the desktop at {settings.server!r}, because only "
            "VNC reaches that desktop. Say with --vnc-exec how a command runs there, or remove --vnc-app and "
            "start the program yourself"
        )
    return command


def given_servers(settings: Settings) -> list[str]:
    """Return the addresses of desktops that somebody else started. Raises SettingsError if one is not an address."""
    from pytest_vnc_use.desktops.remote import remote_exec_of

    servers = [address.strip() for address in settings.server.split(",") if address.strip()]
    for address in servers or [settings.server]:
        if ":" not in address and "/" not in address and not address.isdecimal():
            raise SettingsError(
                "--vnc-server must be host::port, host:display, ws://…, wss://…, the path of a unix socket, xvnc, qt "
                f"or container:IMAGE, got {address!r}"
            )
        host_and_port(address)
    if settings.exec and len({remote_exec_of(settings.exec, address).command for address in servers}) < len(servers):
        raise SettingsError(
            f"--vnc-exec={settings.exec!r} runs the same command for several servers, got {servers!r}. Put "
            "{host} or {port} into the command, such as 'ssh {host}'"
        )
    return servers


def start_desktop(settings: Settings, name: str = "") -> Desktop:
    """Start a desktop without a program; `name` as in `lease_desktop`. Raises DesktopError, SettingsError."""
    withhold(settings.password_env, settings.api_key_env)
    started: dict[str, Any] = {"size": settings.screen_size, "start_timeout_s": settings.start_seconds}
    own_home: dict[str, Any] = {"pinned": settings.rendering == "pinned", "name": name}
    match settings.server:
        case "":
            raise SettingsError(
                "--vnc-server must name a desktop, got ''. Give its address, such as --vnc-server=host::port, or "
                "start a desktop with --vnc-server=xvnc, --vnc-server=container:IMAGE, or --vnc-server=qt with "
                "--vnc-app"
            )
        case "qt":
            from pytest_vnc_use.desktops.qt import QtDesktop

            qt_open = settings.qt_host_network
            return QtDesktop(**started, is_open=qt_open == "always", may_be_open=qt_open != "false", **own_home)
        case "xvnc":
            from pytest_vnc_use.desktops.xvnc import XvncDesktop

            return XvncDesktop(**started, **own_home)
        case _:
            from pytest_vnc_use.backends import vnc
            from pytest_vnc_use.desktops.container import ContainerDesktop

            return ContainerDesktop(
                settings.server.removeprefix("container:"),
                **started,
                environment=settings.container_env,
                volumes=settings.volumes,
                port=settings.container_port,
                network=settings.container_network,
                engine=settings.container_engine,
                password=given_password(settings),
                connect=partial(vnc.connect, encoding="raw"),
            )


def _given_desktop(settings: Settings, holder: str) -> Desktop:
    """Lease the first desktop that is free. Of several, skip one that does not answer, and warn of it."""
    from pytest_vnc_use.desktops.external import lease

    withhold(settings.password_env, settings.api_key_env)
    servers = given_servers(settings)
    while True:
        leased = lease(servers, holder, timeout_s=settings.lease_seconds)
        try:
            return _leased_desktop(settings, leased, check=len(servers) > 1)
        except DesktopRefused as exc:
            leased.release()
            if len(servers) == 1:
                raise
            servers.remove(leased.server)
            warnings.warn(line(f"skipped this desktop: {exc}"), stacklevel=3)
        except BaseException:  # whatever it was, Ctrl-C too: the lease is given back
            leased.release()
            raise


def _leased_desktop(settings: Settings, leased: Lease, *, check: bool) -> Desktop:
    from pytest_vnc_use.desktops.external import ExternalDesktop
    from pytest_vnc_use.desktops.remote import remote_exec_of

    def look(server: str, _: str | None) -> Controller:
        return connect_to(settings, server, given_password(settings))

    if check:
        look(leased.server, None).close()
    remote_exec = remote_exec_of(settings.exec, leased.server) if settings.exec else None
    return ExternalDesktop(leased.server, remote_exec, look, leased)


def given_desktop(settings: Settings) -> Desktop:
    """Return the desktop at the settings' address, without a lease; with `exec` also its files and commands.

    Raises SettingsError.
    """
    from pytest_vnc_use.desktops.external import ExternalDesktop
    from pytest_vnc_use.desktops.remote import remote_exec_of

    withhold(settings.password_env, settings.api_key_env)
    return ExternalDesktop(settings.server, remote_exec_of(settings.exec, settings.server) if settings.exec else None)


def given_password(settings: Settings) -> str | None:
    """Return the VNC password from the environment; None if there is none."""
    return VARIABLES.get(settings.password_env) or None


def browsable(settings: Settings, desktop: Desktop) -> Desktop:
    """Return the desktop with its `browser`, which raises SettingsError if `cdp` does not say where it is."""
    from pytest_vnc_use.backends.browser import browser_at, with_browser

    return with_browser(desktop, partial(browser_at, settings.cdp, desktop.read_file))


def named_functions(module: str) -> Sequence[Callable[..., object]]:
    """Return the public functions that a module defines, in their order; () for "". Raises SettingsError."""
    if not module:
        return ()
    try:
        imported = import_module(module)
    except (Exception, SystemExit) as exc:  # a user's own module may raise anyvalue, and a script exits
        raise SettingsError(
            f"vnc_functions must be a module that can be imported (see PYTHONPATH), got {module!r}: {named(exc)}"
        ) from exc
    functions = [
        value
        for name, value in vars(imported).items()
        if inspect.isfunction(value) and value.__module__ == imported.__name__ and not name.startswith("_")
    ]
    if not functions:
        raise SettingsError(f"vnc_functions must be a module with functions of its own, got {module!r}")
    return functions


def desktop_functions(settings: Settings, desktop: Desktop) -> Sequence[Callable[..., object]]:
    """Return the functions that a model may call: those of the module `functions`, and those that look at the desktop.

    The latter read the browser's page if `cdp` is set, programs if `elements` is on. Raises SettingsError.
    """
    functions = named_functions(settings.functions)
    size = counted_in(settings, lambda: _screen_now(settings, desktop).png)
    if settings.cdp:
        from pytest_vnc_use.backends.browser import browser_at, browser_functions

        return (*functions, *browser_functions(partial(browser_at, settings.cdp, desktop.read_file), size))
    if settings.elements:
        from pytest_vnc_use.backends.accessibility import elements_function

        return (*functions, elements_function(partial(_elements_in_view, settings, desktop), size))
    return functions


def _elements_in_view(settings: Settings, desktop: Desktop) -> tuple[list[Element], tuple[int, int]]:
    from pytest_vnc_use.backends.accessibility import desktop_elements

    found, screen = desktop_elements(desktop.run), _screen_now(settings, desktop).ref
    return found, (screen.width, screen.height)


def elements_asker(settings: Settings, desktop: Desktop) -> Callable[[Action], Elements]:
    """Return the function that finds the elements of an action: in the browser (`cdp`), in programs (`elements`)."""
    if settings.cdp:
        from pytest_vnc_use.backends.browser import browser_at

        return lambda action: browser_at(settings.cdp, desktop.read_file, timeout_s=ASK_S).acted_on(action)
    if settings.elements:
        from pytest_vnc_use.backends.accessibility import acted_on as in_program

        return lambda action: in_program(partial(desktop.run, timeout_s=ASK_S), action)
    return lambda _: ()


def _screen_now(settings: Settings, desktop: Desktop) -> Frame:
    """Return the screen now, through a connection of its own."""
    there = settings_at(settings, desktop.server)
    with closing(connect_to(there, there.server, desktop.password or given_password(settings))) as eyes:
        return eyes.frame()


# --- the connection --------------------------------------------------------------------------------------------------


def wire_of(settings: Settings) -> Wire:
    """Return the rules for the connection to a given desktop. Raises SettingsError if they contradict each other."""
    return Wire(settings.username, settings.tls, settings.tls_ca, settings.tls_fingerprint)


def devtools_url(settings: Settings, desktop: BrowsableDesktop) -> str:
    """Return where the DevTools of the desktop's browser listen, once they do. Raises DesktopError, SettingsError."""
    from pytest_vnc_use.backends.browser import await_devtools

    def is_over() -> bool:
        return bool(desktop.fault() or desktop.program_fault())

    return await_devtools(lambda: desktop.browser, settings.start_seconds, is_over)


def connect_to(settings: Settings, server: str, password: str | None, **given: Any) -> VNCController:
    """Return a connection as the settings want it; warn once of a server without encryption.

    `given` are further arguments of `vnc.connect`. Raises DesktopError, SettingsError.
    """
    from pytest_vnc_use.backends import vnc

    eyes = vnc.connect(server, password, type_by=settings.typing, wire=wire_of(settings), **given)
    if eyes.exposure and server not in _warned:
        _warned.add(server)
        try:
            warnings.warn(
                f"the VNC connection to {eyes.server!r} is not encrypted: {eyes.exposure}; {PROTECT}", stacklevel=2
            )
        except Warning:  # the user wants errors of warnings
            eyes.close()
            raise
    return eyes


def connect(
    settings: Settings,
    password: str | None = None,
    *,
    program_fault: Callable[[], str] = str,
    read_file: Callable[[str], str] | None = None,
    tap: MessageTap | None = None,
) -> Controller:
    """Return a controller for the desktop at `settings.server`, with a watchdog. Raises DesktopError.

    If `program_fault` says that the program ended, a lost connection is not replaced. With `cdp`, DevTools drive a
    browser; `read_file` reads a file of the desktop. `tap` gets each message that is sent.
    """
    from pytest_vnc_use.backends.browser import browser_at
    from pytest_vnc_use.backends.watch import Watch

    read_file = read_file or given_desktop(settings).read_file
    return connect_to(
        settings,
        settings.server,
        password or given_password(settings),
        scroll_by=settings.scroll,
        show_pointer=settings.show_pointer,
        tap=tap,
        encoding="raw" if password else None,  # only a desktop that was started here tells its password
        watch=Watch(settings.blank_seconds, settings.frozen_seconds, program_fault=program_fault),
        browser=partial(browser_at, settings.cdp, read_file) if settings.cdp else None,
    )


def vnc_behind(controller: Controller) -> VNCController:
    """Return the VNC connection of this controller. Raises SettingsError if it has none."""
    from pytest_vnc_use.backends.redaction import RedactingController
    from pytest_vnc_use.backends.vnc import VNCController

    if isinstance(controller, RedactingController):
        return vnc_behind(controller.desktop)
    if isinstance(controller, VNCController):
        return controller
    raise SettingsError(
        f"--vnc-record=manual needs the plugin's own controller, got a {type(controller).__name__!r}. Do not "
        "pass `controller`, or let a planner do the task"
    )
