"""The frozen `Settings`.

Each field carries its own help text and the parser of its text. One list makes the ini option `vnc_<field>`, the
environment variable `VNC_USE_<FIELD>` and, for the fields in `OPTIONS`, the command line's `--vnc-<field>`.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pytest_vnc_use.settings.parsers import (
    count as _count,
    count_or_none as _count_or_none,
    dollars as _dollars,
    limit as _limit,
    odd as _odd,
    one_of as _one_of,
    pause as _pause,
    seconds as _seconds,
    size as _size,
    switch as _switch,
    temperature as _temperature,
    words as _words,
)

if TYPE_CHECKING:  # pytest loads this module even if nobody uses the plugin
    from pytest_vnc_use.types import ScrollMeans, TypingMeans
    from pytest_vnc_use.types.wire import TlsChoice

Coordinates = Literal["1000", "pixels"]
PLANNERS = ("gemini", "anthropic", "openai")


def _planner(text: str) -> str:
    module, _, name = text.partition(":")
    if text not in ("", *PLANNERS) and not (module and module not in PLANNERS and name.isidentifier()):
        raise ValueError(f"one of {', '.join(PLANNERS)}, whose model --vnc-model names, or package.module:name")
    return text


def _setting(default: Any, read: Callable[[str], Any], help_text: str, metavar: str = "") -> Any:
    """Return a field of Settings. With a `metavar` it is an option of the command line too."""
    return dataclasses.field(default=default, metadata={"read": read, "help": help_text, "metavar": metavar})


@dataclass(init=False, eq=False, repr=False)
class Settings:
    """All settings of a run. The meaning of a field is its help text; `pytest --help` shows it.

    Settings are frozen, and their repr shows only the values that differ from the defaults. The methods below are
    written by hand, because `dataclass` would generate them field by field at every start of pytest. That would be a
    third of the plugin's cost in projects that do not use it.
    """

    server: str = _setting(
        "",
        str,
        "the desktop: host::port (several with commas), wss://…, xvnc or qt to start one, container:IMAGE",
        "TARGET",
    )
    app: str = _setting("", str, "the program under test; it is started before the test", "COMMAND")
    exec: str = _setting(
        "",
        str,
        "run a command on a given desktop: 'docker exec -i NAME', 'ssh HOST' ({host} and {port} are filled in)",
        "COMMAND",
    )
    screen_size: tuple[int, int] = _setting((1440, 900), _size, "size of a desktop started here", "WxH")
    rendering: str = _setting(
        "pinned",
        _one_of("pinned", "system"),
        "Fonts, theme, locale and time zone of programs on xvnc and qt: alike on every machine (pinned), or this "
        "machine's (system)",
    )
    scope: str = _setting(
        "test", _one_of("test", "module", "session"), "keep a desktop for one test, one module or the session", "SCOPE"
    )
    qt_host_network: str = _setting(
        "false",
        _one_of("false", "true", "always"),
        "with qt: if the program may run on the machine's own network, where its VNC server has no password: false, "
        "true (if the machine allows no network namespace), always (for a program that needs that network)",
    )
    container_engine: str = _setting(
        "",
        _one_of("", "docker", "podman"),
        "the program that runs containers: docker or podman (default: the first that answers)",
    )
    container_port: int = _setting(5901, _count, "port of the VNC server inside a container")
    container_env: tuple[str, ...] = _setting(
        (), _words, "variables of a container: NAME=VALUE, or NAME to copy it from here"
    )
    container_network: str = _setting(
        "", str, "none: a container has no network; its image must have bash (default: the engine's own network)"
    )
    volumes: tuple[str, ...] = _setting((), _words, "folders to mount in a container: HERE:THERE or HERE:THERE:ro")
    start_seconds: float = _setting(
        60.0, _seconds, "how long a desktop that is started here may take until it is ready"
    )
    blank_seconds: float = _setting(
        10.0, _seconds, "how long a screen of one colour counts as a desktop that is still starting"
    )
    frozen_seconds: float = _setting(
        60.0,
        _seconds,
        "if no pixel changes for this time while actions are carried out, the desktop counts as frozen",
    )
    cdp: str = _setting(
        "",
        str,
        "address of Chrome's DevTools on the desktop: host:port, or the file PROFILE/DevToolsActivePort in the "
        "program's folder",
    )
    playwright: bool = _setting(
        False,
        _switch,
        "with pytest-playwright and vnc_cdp: its fixtures `context` and `page` use the browser on the desktop",
    )
    elements: bool = _setting(
        False,
        _switch,
        "let the model list the elements of X programs, and name each step by its element; needs python3-gi, x11-utils "
        "and at-spi2-core on the desktop, with at-spi-bus-launcher started before the program (elements of a page need "
        "only vnc_cdp)",
    )
    show_pointer: bool = _setting(
        False, _switch, "draw the pointer into screenshots, in the server's shape, at the place where it was sent last"
    )
    show_secrets: bool = _setting(
        False, _switch, "show typed secrets in pictures as the screen does (default: redact them)"
    )
    lease_seconds: float = _setting(600.0, _seconds, "how long to wait for a desktop while another test uses it")
    password_env: str = _setting("VNC_USE_PASSWORD", str, "environment variable that holds the VNC password")
    username: str = _setting("", str, "user name for a VNC server that asks for one")
    tls: "TlsChoice" = _setting(
        "auto",
        _one_of("auto", "require", "off"),
        "TLS to a given VNC server: auto uses it across a network if the server offers a certificate; require accepts "
        "only a certificate; off uses none",
    )
    tls_ca: str = _setting(
        "", str, "PEM file of the authorities for a VNC server's certificate (default: the system's); requires TLS"
    )
    tls_fingerprint: str = _setting(
        "", str, "the only certificate that a VNC server may show: sha256:HEX; no authority is asked; requires TLS"
    )
    planner: str = _setting(
        "",
        _planner,
        "the planner: gemini, anthropic, openai (these cost money), or module:name",
        "PLANNER",
    )
    model: str = _setting("", str, "the planner's model (gemini-3.8-flash, gpt-5.5)", "NAME")
    functions: str = _setting("", str, "Python module whose functions the model may call")
    environment: str = _setting(
        "desktop", _one_of("desktop", "browser"), "Computer Use environment for the model: desktop or browser"
    )
    search_page: str = _setting(
        "", str, "address that Gemini's function search opens (default: the browser's own key, Ctrl+K)"
    )
    base_url: str = _setting("", str, "with openai: your own server with chat completions", "URL")
    api_key_env: str = _setting("VNC_USE_API_KEY", str, "environment variable that holds the key for --vnc-base-url")
    api_key_command: str = _setting(
        "", str, "command that prints the key of the planner's service; it runs once a session"
    )
    toolset: str = _setting(
        "commands",
        _one_of("commands", "computer_use", "vnc_command", "local_agent"),
        "with --vnc-base-url: the tools for the model: commands, computer_use (Qwen's), vnc_command, or local_agent, "
        "which also sets the planner, the server and the limits of a local vision agent",
    )
    coordinates: Coordinates = _setting(
        "1000", _one_of("1000", "pixels"), "with --vnc-base-url: the model's coordinates: a grid of 1000, or pixels"
    )
    temperature: float | None = _setting(
        None, _temperature, "with --vnc-base-url: the temperature (default: the model's own)"
    )
    keep_thoughts: int = _setting(
        0, _count_or_none, "with --vnc-base-url: send back the model's thoughts of this many newest turns"
    )
    error_format: str = _setting(
        "text",
        _one_of("text", "json"),
        "with --vnc-base-url: report a failed action to the model as text, or as json with the kind of the error",
    )
    extra_calls: str = _setting(
        "refuse",
        _one_of("refuse", "first"),
        "with --vnc-base-url: if an answer has more actions than a turn may hold, refuse all of them, or do the first "
        "and refuse the others by name",
    )
    answer_tokens: int = _setting(0, _count_or_none, "most tokens of one answer (0: the planner's own limit)")
    request_seconds: float = _setting(120.0, _seconds, "how long one request to a model may take")
    computer_tool: str = _setting(
        "computer_toolset_20260801",
        _one_of("computer_toolset_20260801", "computer_20251124", "computer_20250124"),
        "with --vnc-planner=anthropic: the model's computer use tool",
    )
    include_thoughts: bool = _setting(False, _switch, "ask the model for summaries of its thoughts")
    detect_prompt_injection: bool | None = _setting(
        None,
        _switch,
        "let the model's service look for prompt injection (default: if the model can, as Gemini 3.5 can)",
    )
    disabled_safety_policies: tuple[str, ...] = _setting(
        (), _words, "categories of actions for which the model asks for no confirmation, comma-separated"
    )
    include_initial_screenshot: bool = _setting(True, _switch, "send the first screenshot with the task")
    keep_screenshots: int = _setting(
        0,
        _count_or_none,
        "how many of the newest screenshots each request has, more if one turn has more (0: 3; for Gemini's older "
        "dialect and as an agent in a browser, those of all newest turns)",
    )
    picture_bytes: int = _setting(
        0,
        _count_or_none,
        "most bytes of a screenshot in a request, to plan or to judge; a larger one is scaled down (0: no limit)",
    )
    picture_size: tuple[int, int] | None = _setting(
        None, _limit(_size), "scale pictures down to fit into WxH before a model gets them, as 1536x864"
    )
    judge: str = _setting(
        "",
        _one_of("", *PLANNERS),
        "the judge of claims: gemini, anthropic or openai (default: as the planner)",
        "PLANNER",
    )
    judge_model: str = _setting("", str, "the model that judges claims (default: the planner's)")
    votes: int = _setting(1, _odd, "number of votes that decide a claim; it must be odd", "N")
    exclude: tuple[str, ...] = _setting((), _words, "actions that the model may not use, comma-separated")
    policy: str = _setting(
        "", str, "TOML file with the actions that are allowed without a person; or strict, a preset", "FILE"
    )
    max_steps: int = _setting(40, _count, "most actions of one run", "N")
    max_seconds: float = _setting(300.0, _seconds, "most seconds of one run", "S")
    watch: bool = _setting(
        True,
        _switch,
        "show the model the screen after half the wait for it; if the screen has changed when the model answers, ask "
        "again, at most twice a turn",
    )
    step_delay: float = _setting(0.0, _pause, "seconds to wait after each step, after the screen has settled")
    stall: int = _setting(3, _count, "end a run that repeats the same action on the same screen this many times")
    scroll: "ScrollMeans" = _setting(
        "wheel", _one_of("wheel", "keys"), "scroll by the wheel, or by page and arrow keys"
    )
    typing: "TypingMeans" = _setting(
        "keys",
        _one_of("keys", "clipboard"),
        "type text by keys, as far as the server supports them, or paste all text, as for a keyboard layout without "
        "Latin letters",
    )
    max_tokens: int | None = _setting(None, _limit(_count), "most tokens of one test, with its judge", "N")
    max_dollars: float | None = _setting(None, _limit(_dollars), "most US dollars of one test", "USD")
    session_max_steps: int | None = _setting(
        None, _limit(_count), "most steps of the session, over all its processes", "N"
    )
    session_max_seconds: float | None = _setting(None, _limit(_seconds), "most seconds of the session", "S")
    session_max_tokens: int | None = _setting(None, _limit(_count), "most tokens of the session", "N")
    session_max_dollars: float | None = _setting(None, _limit(_dollars), "most US dollars of the session", "USD")
    prices: str = _setting("", str, "TOML file with prices of models; they replace the known ones")
    record: str = _setting(
        "",
        _one_of("", "auto", "replay", "accept", "rewrite", "manual", "off"),
        "replay, auto (replay, heal and record), accept (replay, and ask about what differs), rewrite, manual (a "
        "person does the tasks) or off (default: auto if the test has a recording, replay with CI=true)",
        "MODE",
    )
    healed: str = _setting(
        "pass", _one_of("pass", "fail"), "result of a test that passed only after healing: pass or fail"
    )
    transients: str = _setting(
        "report",
        _one_of("report", "fail"),
        "Report or fail on transients missing from the recording: report, fail",
        "MODE",
    )
    rehearse: int = _setting(
        2,
        _count_or_none,
        "replay a new recording this many times, each on a fresh desktop, to learn which parts vary and whether the "
        "test repeats (0: never)",
    )
    gate_seconds: float = _setting(10.0, _seconds, "how long a replay waits until the screen is as recorded")
    watch_seconds: float = _setting(1.2, _seconds, "how long the end of a task must stay unchanged")
    repeat: int = _setting(1, _count, "run each test this many times; print pass^k", "N")
    env_file: str = _setting(
        "", str, "file of NAME=value lines, such as .env, for variables that the environment does not have"
    )
    runs_dir: str = _setting("runs", str, "folder of the run folders", "DIR")
    artifacts: str = _setting(
        "on",
        _one_of("on", "retain-on-failure", "off"),
        "keep pictures, logs and exchanges in the run folders: on, retain-on-failure or off",
        "WHEN",
    )
    rfb_log: bool = _setting(
        False, _switch, "keep in the run folder each key, click and text that is sent to the VNC server, with its time"
    )
    max_megabytes: int = _setting(
        0,
        _count_or_none,
        "most megabytes of the run folders; at the session's end the oldest passed runs are deleted (0: no limit)",
    )
    results: str = _setting(
        "", str, "JSON file for the results of the tests (default: vnc-results.json in the folder of the runs)", "FILE"
    )

    def __init__(self, **given: Any) -> None:
        if unknown := given.keys() - FIELDS.keys():
            raise TypeError(f"there is no setting {min(unknown)!r}; there are {', '.join(FIELDS)}")
        vars(self).update({name: field.default for name, field in FIELDS.items()}, **given)

    def __setattr__(self, name: str, value: object) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot set {name!r}; dataclasses.replace makes other settings")

    def __eq__(self, other: object) -> bool:
        return vars(self) == vars(other) if isinstance(other, Settings) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))

    def __repr__(self) -> str:
        given = {name: getattr(self, name) for name, field in FIELDS.items() if getattr(self, name) != field.default}
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in given.items())})"


FIELDS = {field.name: field for field in dataclasses.fields(Settings)}
OPTIONS = frozenset(name for name, field in FIELDS.items() if field.metadata["metavar"])
"""The settings that a user sets for one run: options of the command line. A project sets the others in its ini file."""
ENVIRONMENT_PREFIX = "VNC_USE_"
TIMING = tuple(name for name, field in FIELDS.items() if field.metadata["read"] in (_seconds, _pause))
"""The settings that are durations in seconds."""


def option_name(field: str) -> str:
    """Return the command line option of a field: `screen_size` -> `--vnc-screen-size`."""
    return "--vnc-" + field.replace("_", "-")


def argument(field: str, value: object) -> str:
    """Return the pytest argument that sets a field: `--vnc-max-steps=3`, or `-ovnc_stall=5` if it is no option."""
    return f"{option_name(field)}={value}" if field in OPTIONS else f"-ovnc_{field}={value}"
