"""From `Settings` to concrete classes: planner, judge, policy, budget, desktop, connection.

The only module that chooses concrete classes. Each is imported when it is chosen: none is needed to collect tests.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import re
import shlex
import subprocess
import threading
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_vnc_use.agent.budget import Budget, CostLimits, Ledger, load_prices
from pytest_vnc_use.agent.claims import NoJudge
from pytest_vnc_use.desktops.session import withhold
from pytest_vnc_use.errors import DesktopRefused, KeyMissing, SettingsError
from pytest_vnc_use.errors.causes import named
from pytest_vnc_use.plain_text import line
from pytest_vnc_use.planners.common.functions import VERIFY
from pytest_vnc_use.planners.local.callables import named_planner
from pytest_vnc_use.safety.policy_file import load_policy
from pytest_vnc_use.safety.rules import Policy
from pytest_vnc_use.settings.fallbacks import (
    LOCAL_AGENT,
    OPTIONS as LOCAL_OPTIONS,
    Layer,
    fallback_layer,
    format_fallbacks as format_fallbacks,
    local_agent_value,
)
from pytest_vnc_use.settings.layers import environment_layer, merge, read_value
from pytest_vnc_use.settings.settings import FIELDS, OPTIONS, PLANNERS, Settings, option_name
from pytest_vnc_use.settings.variables import VARIABLES, from_file, use_named_env_file
from pytest_vnc_use.types import Action
from pytest_vnc_use.types.elements import ASK_S, Element, Elements
from pytest_vnc_use.types.protocols import Controller, Desktop, Judge, MessageTap, Planner
from pytest_vnc_use.types.wire import Wire, host_and_port

if TYPE_CHECKING:
    from pytest_vnc_use.backends.browser import BrowsableDesktop
    from pytest_vnc_use.backends.vnc import VNCController

GEMINI_KEY_VARIABLES = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
API_KEY_VARIABLES = (*GEMINI_KEY_VARIABLES, "ANTHROPIC_API_KEY", "OPENAI_API_KEY")
SERVER_KEY_VARIABLE = "VNC_USE_API_KEY"
"""The variable with the key of the server at `base_url`."""
MODELS = {"gemini": "gemini-3.8-flash", "anthropic": "claude-sonnet-5", "openai": "gpt-5.5"}
"""The default model of each service."""
KEY_COMMAND_S = 60.0
"""The most seconds that `api_key_command` may take, such as one that asks a password store."""
MAX_KEY = 8192
PROTECT = "use a server with TLS (vnc_tls=require), wss://, or a tunnel (ssh -L)"

START_SETTINGS = (
    *("server", "screen_size", "rendering", "start_seconds"),
    *("container_engine", "container_args", "app", "exec"),
)
"""The settings that decide which desktop is started, with its program."""
CONNECTION_SETTINGS = (
    *("server", "password_env", "cdp", "scroll", "typing", "toolset", "show_secrets", "rfb_log"),
    *("username", "tls", "start_seconds"),
)
"""The settings that decide how a controller connects."""

_key_lock = threading.Lock()
_fetched_keys: dict[str, tuple[str, str]] = {}
"""The key that each command printed in this process, and why it printed none."""
_warned: set[str] = set()
"""The servers of which the user was warned in this process."""


def settings_of(values: Mapping[str, object], *project: Layer) -> Settings:
    """Return settings from Python keyword arguments over the environment and the file that it names.

    Those of a project's configuration are weaker. Raises SettingsError.
    """
    if not from_file:
        use_named_env_file()
    layers: tuple[Layer, ...] = (*project, environment_layer(), (values, str))
    return merge(fallback_layer(layers), *layers)


def build_policy(settings: Settings, *, ask: bool = False) -> Policy:
    """Return the policy file's rules. An undecided action is asked about, or denied without an approver."""
    if not settings.policy:
        return Policy(unmatched="ask" if ask else "deny")
    return load_policy(settings.policy, unmatched="ask" if ask else "deny")


def build_budget(settings: Settings, ledger: Ledger | None = None) -> Budget:
    """Return the budget of a test; with a ledger, of its session too. Raises SettingsError for a missing price."""
    prices = load_prices(settings.prices)
    if settings.max_dollars or settings.session_max_dollars:
        asked = {model_of(settings)} if settings.planner in PLANNERS else set()
        for model in (asked | {model_that_judges(settings)}) - {""}:
            prices.check(model)
    test = CostLimits(tokens=settings.max_tokens, dollars=settings.max_dollars)
    session = CostLimits(
        "--vnc-session-max-",
        settings.session_max_steps,
        settings.session_max_seconds,
        settings.session_max_tokens,
        settings.session_max_dollars,
    )
    return Budget(prices, test, session, ledger, model_that_judges(settings))


def api_keys() -> dict[str, str]:
    """Return the keys of models in the environment, by the names of their variables."""
    keys = {name: VARIABLES.get(name, "").strip() for name in API_KEY_VARIABLES}
    return {name: value for name, value in keys.items() if value}


def ambient_secrets(settings: Settings, password: str | None = None) -> dict[str, str]:
    """Return the secrets that no test declares: the API keys, the VNC password, the queries of desktops' URLs."""
    secrets = {name: VARIABLES.get(name, "").strip() for name in (settings.password_env, SERVER_KEY_VARIABLE)}
    secrets["VNC_PASSWORD"] = password or ""
    queries = re.findall(r"://[^?#,]*[?#](?!…)([^,]*[^\s,])", settings.server)
    secrets |= {f"vnc_server_query_{number}": query for number, query in enumerate(queries, 1)}
    if settings.api_key_command:
        secrets["vnc_api_key_command"] = _fetched_keys.get(settings.api_key_command, ("", ""))[0]
    return api_keys() | {name: value for name, value in secrets.items() if value}


def fetch_key(command: str, rejected: str = "") -> str:
    """Return the key that the command prints, which stays in this process, out of the environment.

    The command runs once, and again if its key was `rejected`. Raises KeyMissing, without its output.
    """
    with _key_lock:
        if command not in _fetched_keys or (rejected and _fetched_keys[command][0] == rejected):
            key, problem = b"", ""
            try:
                argv = shlex.split(command, posix=os.name == "posix")
                result = subprocess.run(
                    argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=KEY_COMMAND_S, check=True
                )
                key = result.stdout.strip()
            except subprocess.TimeoutExpired:
                problem = f"it did not end within {KEY_COMMAND_S:g} s"
            except subprocess.CalledProcessError as exc:
                problem = f"its exit code was {exc.returncode}"
            except (OSError, ValueError) as exc:
                problem = str(exc)
            if len(key) > MAX_KEY or not all(32 < byte < 127 for byte in key):
                key, problem = b"", f"its output must be one word of at most {MAX_KEY} ASCII characters"
            _fetched_keys[command] = key.decode("ascii"), problem or ("" if key else "it printed nothing")
        fetched, problem = _fetched_keys[command]
    if problem:
        raise KeyMissing(f"vnc_api_key_command {command!r} must print a key: {problem}")
    return fetched


def _key_and_backoff(settings: Settings, service: str) -> dict[str, Any]:
    """Return how the user's command prints the key, if the service is the planner's, and how requests are repeated."""
    from pytest_vnc_use.planners.common.http import Backoff  # with httpx2, which an idle session does not need

    is_fetched = settings.api_key_command and service == settings.planner
    key = partial(fetch_key, settings.api_key_command) if is_fetched else None
    return {"api_key": key, "backoff": Backoff(each_s=settings.request_seconds)}


def check_supported(settings: Settings) -> None:
    """Raise SettingsError if a setting differs from its default and the planner does not support it."""
    wants = {} if settings.base_url else {"toolset": "openai with --vnc-base-url"}
    if settings.planner not in PLANNERS:
        wants |= dict.fromkeys(("model", "exclude", "api_key_command", "planner_options"), " or ".join(PLANNERS))
    for name, planners in wants.items():
        value = getattr(settings, name)
        if value != FIELDS[name].default:
            option = option_name(name) if name in OPTIONS else f"vnc_{name}"
            raise SettingsError(
                f"the planner {settings.planner!r} does not support {option}, got {value!r}. Remove {option}, or use "
                f"--vnc-planner={planners}"
            )


def build_planner(settings: Settings, functions: Sequence[Callable[..., object]] = ()) -> Planner:
    """Build the planner that the settings name. Raises SettingsError; KeyMissing if its key is missing."""
    if not settings.planner:
        raise SettingsError(
            "no planner is configured. Do the task once yourself with --vnc-record=manual, pass "
            "--vnc-planner=gemini with a key in GOOGLE_API_KEY (each run then costs money), or override the fixture "
            "vnc_planner"
        )
    if settings.base_url and settings.planner != "openai":
        raise SettingsError(f"--vnc-base-url needs --vnc-planner=openai, got --vnc-planner={settings.planner!r}")
    if settings.base_url and not settings.model:
        raise SettingsError(f"--vnc-model must name the model at --vnc-base-url={settings.base_url!r}, got ''")
    check_supported(settings)
    if settings.planner not in PLANNERS:
        return named_planner(settings.planner)
    planner = _chat_planner(settings, functions) if settings.base_url else _service_planner(settings, functions)
    if settings.toolset != LOCAL_AGENT:
        return planner
    from pytest_vnc_use.planners.common.screens import ScaledScreens

    names = "AGENT_IMAGE_W", "AGENT_IMAGE_H"
    width, height = (read_value("max_steps", local_agent_value(name), name) for name in names)
    return ScaledScreens(planner, (width, height))


_OPTION_TYPES: dict[str, tuple[type, ...]] = {
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
    "Sequence[str]": (list,),
}


def _options(settings: Settings, planner: type, fixed: Collection[str]) -> dict[str, Any]:
    """Return the `planner_options` as keyword arguments of a planner's class. Raises SettingsError."""
    parameters = inspect.signature(planner).parameters.values()
    kinds = {arg.name: str(arg.annotation).removesuffix(" | None") for arg in parameters if arg.name not in fixed}
    supported = sorted(name for name, kind in kinds.items() if kind in ("str", "Coordinates", *_OPTION_TYPES))
    texts: dict[str, tuple[str, str]] = {}
    if settings.toolset == LOCAL_AGENT:
        texts |= {name: (local_agent_value(variable), variable) for name, variable in LOCAL_OPTIONS.items()}
    for option in settings.planner_options:
        name, _, text = option.partition("=")
        texts[name] = text, f"{name} of vnc_planner_options"
    options: dict[str, Any] = {}
    for name, (text, origin) in texts.items():
        if name not in supported:
            raise SettingsError(
                f"the planner {settings.planner!r} has no option {name!r}. vnc_planner_options supports "
                f"{', '.join(supported)}"
            )
        kind = kinds[name]
        options[name] = text
        if name == "system_instruction":
            try:
                options[name] = Path(text).read_text(encoding="utf-8")
            except (OSError, ValueError) as exc:
                raise SettingsError(f"{origin} must be a file with a prompt: {exc}") from exc
        elif kind == "Sequence[str]":
            options[name] = text.split(",")
        elif kind in _OPTION_TYPES:
            try:
                options[name] = json.loads(text)
            except ValueError:
                options[name] = text
            if not isinstance(options[name], _OPTION_TYPES[kind]) or (kind != "bool" and options[name] is True):
                raise SettingsError(f"{origin} must be {'true or false' if kind == 'bool' else kind}, got {text!r}")
    return options


def _coordinates(settings: Settings) -> Any:
    from pytest_vnc_use.planners.chat.planner import OpenAICompatible

    return _options(settings, OpenAICompatible, ()).get("coordinates", "1000")


def _service_planner(settings: Settings, functions: Sequence[Callable[..., object]]) -> Planner:
    shared: dict[str, Any] = {
        **_key_and_backoff(settings, settings.planner),
        "model": model_of(settings),
        "excluded_actions": settings.exclude,
        "functions": functions,
    }
    shared |= {"opens_windows": bool(settings.cdp)} if settings.planner == "gemini" else {}
    kind = _class_of(settings.planner, 1)
    planner: Planner = kind(**shared, **_options(settings, kind, shared))
    return planner


_CLASSES = {
    "gemini": ("gemini.planner", "GeminiComputerUse", "GeminiJudge"),
    "anthropic": ("anthropic", "AnthropicComputer", "AnthropicJudge"),
    "openai": ("openai", "OpenAIComputer", "OpenAIJudge"),
}
"""The module, the planner and the judge of each service."""


def _class_of(service: str, number: int) -> Any:
    """Return the planner's class of a service, 1, or the judge's, 2; only its module is imported."""
    return getattr(import_module(f"pytest_vnc_use.planners.{_CLASSES[service][0]}"), _CLASSES[service][number])


def _chat_planner(settings: Settings, functions: Sequence[Callable[..., object]]) -> Planner:
    from pytest_vnc_use.planners.chat.planner import AgentLog, OpenAICompatible

    names = {getattr(function, "__name__", "") for function in functions}
    takes_verify = settings.toolset in ("commands", "vnc_command") and VERIFY.name not in names
    verifies = takes_verify and bool(judge_of(settings))
    log = None
    if settings.toolset == LOCAL_AGENT:
        directory, prefix, start = (local_agent_value(f"AGENT_DUMP_{name}") for name in ("DIR", "PREFIX", "START"))
        log = AgentLog(directory, prefix, read_value("max_steps", start, "AGENT_DUMP_START"))
    fixed: dict[str, Any] = {
        **_key_and_backoff(settings, settings.planner),
        "base_url": settings.base_url,
        "model": settings.model,
        "toolset": settings.toolset,
        "functions": (*functions, VERIFY) if verifies else functions,
        "excluded_actions": settings.exclude,
        "log": log,
    }
    fixed["api_key"] = fixed["api_key"] or VARIABLES.get(SERVER_KEY_VARIABLE, "")
    return OpenAICompatible(**fixed, **_options(settings, OpenAICompatible, fixed))


def model_of(settings: Settings) -> str:
    """Return the planner's model, or the default of its service."""
    return settings.model or MODELS.get(settings.planner, "")


def counted_in(settings: Settings) -> Callable[[int, int], tuple[int, int]]:
    """Return a function from the screen's size to the size of the model's coordinates."""
    in_pixels = settings.planner in ("anthropic", "openai")
    if settings.base_url:
        in_pixels = _coordinates(settings) == "pixels" or settings.toolset == "vnc_command"
    if settings.planner in PLANNERS and not in_pixels:
        return lambda *_: (1000, 1000)
    if settings.planner == "anthropic":
        from pytest_vnc_use.planners.anthropic import TOOLS, AnthropicComputer

        default = inspect.signature(AnthropicComputer).parameters["tool"].default
        return TOOLS[_options(settings, AnthropicComputer, ()).get("tool", default)].limit.fitted
    if settings.planner == "openai" and not settings.base_url:
        from pytest_vnc_use.planners.openai import LIMIT

        return LIMIT.fitted
    return lambda width, height: (width, height)


def build_judge(settings: Settings) -> Judge:
    """Build the judge of claims, by default of the planner's service. Without one, every claim is unsure."""
    service = judge_of(settings)
    if not service:
        return NoJudge()
    shared = {"model": model_that_judges(settings), **_key_and_backoff(settings, service)}
    if service == "openai" and settings.base_url:
        from pytest_vnc_use.planners.chat.planner import ChatJudge

        shared["api_key"] = shared["api_key"] or VARIABLES.get(SERVER_KEY_VARIABLE, "")
        return ChatJudge(settings.base_url, **shared, coordinates=_coordinates(settings))
    judge: Judge = _class_of(service, 2)(**shared)
    return judge


def judge_of(settings: Settings) -> str:
    """Return the service that judges; "" if none does."""
    return settings.judge.partition(":")[0] or (settings.planner if settings.planner in PLANNERS else "")


def model_that_judges(settings: Settings) -> str:
    """Return the judge's model: by default the planner's, unless that is of another service or cannot judge."""
    judge = judge_of(settings)
    acts_only = settings.model.startswith("gemini-2.5-computer-use")
    planner_model = "" if acts_only or judge != settings.planner else settings.model
    return settings.judge.partition(":")[2] or planner_model or MODELS.get(judge, "")


def is_external(settings: Settings) -> bool:
    """Return whether another user started the desktop."""
    return settings.server not in ("", "qt", "xvnc") and not settings.server.startswith("container:")


def settings_at(settings: Settings, server: str) -> Settings:
    """Return the settings for a desktop at this address. The rules of the wire are for an external desktop only.

    A desktop that the plugin starts has a private socket, or a loopback address with a random password.
    """
    if is_external(settings):
        return replace(settings, server=server)
    return replace(settings, server=server, username="", tls="off")


def agree(one: Settings, other: Settings, names: Sequence[str]) -> bool:
    """Return whether both have the same values of these settings."""
    return all(getattr(one, name) == getattr(other, name) for name in names)


def lease_desktop(settings: Settings, holder: str = "", name: str = "") -> Desktop:
    """Lease the desktop that the settings name, with its program, for one user: an external one, or a started one.

    `holder` is the name that other waiting tests see. A desktop that is started has its home at a path that follows
    from `name`. Raises DesktopError, SettingsError.
    """
    command = program_of(settings)
    desktop = _external_desktop(settings, holder) if is_external(settings) else start_desktop(settings, name)
    try:
        if command:
            desktop.launch(command)
    except BaseException:  # whatever it was, Ctrl-C too: nothing that was started stays behind
        desktop.stop()
        raise
    return desktop


def program_of(settings: Settings) -> list[str]:
    """Return the argv of the program under test. Raises SettingsError if one is missing or cannot be started."""
    try:
        command = shlex.split(settings.app, posix=os.name == "posix")
    except ValueError as exc:
        raise SettingsError(f"--vnc-app must be a command line, got {settings.app!r}: {exc}") from exc
    if settings.server == "qt" and not command:
        raise SettingsError("--vnc-server=qt needs --vnc-app, the command of the program under test, got ''")
    if command and is_external(settings) and not settings.exec:
        raise SettingsError(
            f"--vnc-app={settings.app!r} cannot be started on the desktop at {settings.server!r}, because only "
            "VNC reaches that desktop. Set --vnc-exec, such as 'ssh HOST', or remove --vnc-app and "
            "start the program yourself"
        )
    return command


def external_servers(settings: Settings) -> list[str]:
    """Return the addresses of desktops that another user started. Raises SettingsError if one is not an address."""
    from pytest_vnc_use.desktops.remote import remote_exec_of  # with numpy, which takes a tenth of a second

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
    withhold(settings.password_env, SERVER_KEY_VARIABLE)
    started: dict[str, Any] = {"size": settings.screen_size, "start_timeout_s": settings.start_seconds}
    desktop_options: dict[str, Any] = {"pinned": settings.rendering == "pinned", "name": name}
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
            return QtDesktop(**started, is_open=qt_open == "always", may_be_open=qt_open != "false", **desktop_options)
        case "xvnc":
            from pytest_vnc_use.desktops.xvnc import XvncDesktop

            return XvncDesktop(**started, **desktop_options)
        case _:
            from pytest_vnc_use.backends import vnc
            from pytest_vnc_use.desktops.container import ContainerDesktop

            image, colons, port = settings.server.removeprefix("container:").partition("::")
            return ContainerDesktop(
                image,
                **started,
                **_container_options(settings.container_args),
                port=read_value("max_steps", port, "the port of container:IMAGE::PORT") if colons else 5901,
                engine=settings.container_engine,
                password=desktop_password(settings),
                connect=partial(vnc.connect, encoding="raw"),
            )


def _container_options(text: str) -> dict[str, Any]:
    """Return the keyword arguments of `ContainerDesktop` from arguments of `docker run`. Raises SettingsError."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("-e", "--env", dest="environment", action="append", default=[])
    parser.add_argument("-v", "--volume", dest="volumes", action="append", default=[])
    parser.add_argument("--network", "--net", default="")
    try:
        options, others = parser.parse_known_args(shlex.split(text))
    except (argparse.ArgumentError, ValueError) as exc:
        raise SettingsError(f"vnc_container_args must be arguments of docker run, got {text!r}: {exc}") from None
    if others:
        raise SettingsError(f"vnc_container_args supports only -e, -v and --network, got {shlex.join(others)!r}")
    return vars(options)


def _external_desktop(settings: Settings, holder: str) -> Desktop:
    """Lease the first desktop that is free. Of several, skip one that does not answer, and warn of it."""
    from pytest_vnc_use.desktops.external import ExternalDesktop, lease
    from pytest_vnc_use.desktops.remote import remote_exec_of

    withhold(settings.password_env, SERVER_KEY_VARIABLE)
    servers = external_servers(settings)

    def look(server: str, _: str | None) -> Controller:
        return connect_to(settings, server, desktop_password(settings))

    while True:
        leased = lease(servers, holder, timeout_s=settings.lease_seconds)
        try:
            if len(servers) > 1:
                look(leased.server, None).close()
            remote_exec = remote_exec_of(settings.exec, leased.server) if settings.exec else None
            return ExternalDesktop(leased.server, remote_exec, look, leased)
        except DesktopRefused as exc:
            leased.release()
            if len(servers) == 1:
                raise
            servers.remove(leased.server)
            warnings.warn(line(f"skipped this desktop: {exc}"), stacklevel=3)
        except BaseException:  # whatever it was, Ctrl-C too: the lease is given back
            leased.release()
            raise


def external_desktop(settings: Settings) -> Desktop:
    """Return the desktop at the settings' address, without a lease; with `exec` also its files and commands.

    Raises SettingsError.
    """
    from pytest_vnc_use.desktops.external import ExternalDesktop
    from pytest_vnc_use.desktops.remote import remote_exec_of

    withhold(settings.password_env, SERVER_KEY_VARIABLE)
    return ExternalDesktop(settings.server, remote_exec_of(settings.exec, settings.server) if settings.exec else None)


def desktop_password(settings: Settings) -> str | None:
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
    except (Exception, SystemExit) as exc:  # a user's own module may raise anything, and a script exits
        raise SettingsError(
            f"vnc_functions must be a module that can be imported (see PYTHONPATH), got {module!r}: {named(exc)}"
        ) from exc
    functions = [
        value
        for name, value in vars(imported).items()
        if inspect.isfunction(value) and value.__module__ == imported.__name__ and not name.startswith("_")
    ]
    if not functions:
        raise SettingsError(f"vnc_functions must be a module that defines functions, got {module!r}")
    return functions


def desktop_functions(settings: Settings, desktop: Desktop) -> Sequence[Callable[..., object]]:
    """Return the functions that a model may call: those of the module `functions`, and those that look at the desktop.

    The latter read the browser's page if `cdp` is set, programs if `elements` is on. Raises SettingsError.
    """
    functions = named_functions(settings.functions)
    size = counted_in(settings)
    if settings.cdp:
        from pytest_vnc_use.backends.browser import browser_at, browser_functions

        return (*functions, *browser_functions(partial(browser_at, settings.cdp, desktop.read_file), size))
    if settings.elements:
        from pytest_vnc_use.backends.elements import desktop_elements, elements_function

        def elements_in_view() -> tuple[list[Element], tuple[int, int]]:
            server = settings_at(settings, desktop.server)
            password = desktop.password or desktop_password(settings)
            elements = desktop_elements(desktop.run)
            with closing(connect_to(server, server.server, password)) as controller:
                screen = controller.frame().ref
            return elements, (screen.width, screen.height)

        return (*functions, elements_function(elements_in_view, size))
    return functions


def elements_asker(settings: Settings, desktop: Desktop) -> Callable[[Action], Elements]:
    """Return the function that finds the elements of an action: in the browser (`cdp`), in programs (`elements`)."""
    if settings.cdp:
        from pytest_vnc_use.backends.browser import browser_at

        return lambda action: browser_at(settings.cdp, desktop.read_file, wait_s=0, timeout_s=ASK_S).acted_on(action)
    if settings.elements:
        from pytest_vnc_use.backends.elements import acted_on_program as in_program

        return lambda action: in_program(partial(desktop.run, timeout_s=ASK_S), action)
    from pytest_vnc_use.agent.act import no_elements  # with numpy and Pillow: collecting needs this module, not them

    return no_elements


def wire_of(settings: Settings) -> Wire:
    """Return the rules of the connection to an external desktop. Raises SettingsError if they contradict each other."""
    return Wire.of(settings.username, settings.tls)


def devtools_url(settings: Settings, desktop: BrowsableDesktop) -> str:
    """Return where the DevTools of the desktop's browser listen, once they do. Raises DesktopError, SettingsError."""
    from pytest_vnc_use.backends.browser import await_devtools

    def is_over() -> bool:
        return bool(desktop.exit_reason() or desktop.program_exit_reason())

    return await_devtools(lambda: desktop.browser, settings.start_seconds, is_over)


def connect_to(settings: Settings, server: str, password: str | None, **arguments: Any) -> VNCController:
    """Return a connection as the settings want it; warn once of a server without encryption.

    `arguments` are further arguments of `vnc.connect`. Raises DesktopError, SettingsError.
    """
    from pytest_vnc_use.backends import vnc

    controller = vnc.connect(server, password, type_by=settings.typing, wire=wire_of(settings), **arguments)
    if controller.exposure and server not in _warned:
        _warned.add(server)
        try:
            warnings.warn(
                f"the VNC connection to {controller.server!r} is not encrypted: {controller.exposure}; {PROTECT}",
                stacklevel=2,
            )
        except Warning:  # the user wants errors of warnings
            controller.close()
            raise
    return controller


def connect(
    settings: Settings,
    password: str | None = None,
    *,
    may_stay_blank: bool = False,
    program_exit_reason: Callable[[], str] = str,
    read_file: Callable[..., str] | None = None,
    tap: MessageTap | None = None,
) -> Controller:
    """Return a controller for the desktop at `settings.server`, with a watchdog. Raises DesktopError.

    A screen of one colour is an error after `start_seconds`, unless it `may_stay_blank`. If `program_exit_reason` says
    that the program ended, a lost connection is not replaced. With `cdp`, DevTools drive a browser; `read_file` reads a
    file of the desktop. `tap` gets each message that is sent.
    """
    from pytest_vnc_use.backends import vnc
    from pytest_vnc_use.backends.browser import browser_at

    read_file = read_file or external_desktop(settings).read_file
    return connect_to(
        settings,
        settings.server,
        password or desktop_password(settings),
        scroll_by=settings.scroll,
        show_pointer=settings.toolset == LOCAL_AGENT,
        tap=tap,
        # Only a local desktop has a known password. A whole screen in raw arrives 10 ms later.
        encoding="tight" if settings.record == "manual" else "raw" if password else None,
        watch=vnc.Watch(
            None if may_stay_blank else settings.start_seconds, vnc.FROZEN_S, program_exit_reason=program_exit_reason
        ),
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
        f"--vnc-record=manual needs the plugin's own controller, got a {type(controller).__name__!r}. Remove "
        "`controller`, or use a planner"
    )
