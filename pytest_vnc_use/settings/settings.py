"""The frozen `Settings`.

Each field has its help text and the parser of its text. One list makes the ini option `vnc_<field>`, the
environment variable `VNC_USE_<FIELD>` and, for the fields in `OPTIONS`, the command line's `--vnc-<field>`. The comment
above a group states why its fields are settings: nothing that can be detected is one.
"""

import dataclasses
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # pytest loads this module even if no test uses the plugin
    from pytest_vnc_use.types import ScrollMeans, TypingMeans


def _items(text: str) -> tuple[str, ...]:
    """Return the items, which commas or spaces separate."""
    return tuple(text.replace(",", " ").split())


def _switch(text: str) -> bool:
    """Return true for `true`, `yes`, `on`, `1`, and false for `false`, `no`, `off`, `0`, in either case."""
    values = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
    if text.lower() not in values:
        raise ValueError("true or false")
    return values[text.lower()]


def _whole(fits: Callable[[int], bool], wanted: str) -> Callable[[str], int]:
    """Return a parser of whole numbers that fit."""

    def read(text: str) -> int:
        if not text.isdecimal() or not fits(int(text)):
            raise ValueError(wanted)
        return int(text)

    return read


def _number(fits: Callable[[float], bool], wanted: str) -> Callable[[str], float]:
    """Return a parser of finite numbers that fit."""

    def read(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = float("nan")
        if not fits(number) or number == float("inf"):
            raise ValueError(wanted)
        return number

    return read


def _limit(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return a parser of a limit that is optional: empty text gives None."""
    return lambda text: read(text) if text else None


_count = _whole(lambda number: number >= 1, "a whole number, at least 1")
_odd_number = _whole(lambda number: number % 2 == 1, "an odd number, at least 1")
_count_or_none = _whole(lambda number: True, "a whole number, 0 for none")
_seconds = _number(lambda number: number > 0, "a number of seconds above 0")
_dollars = _number(lambda number: number > 0, "a number of US dollars above 0")
_pause = _number(lambda number: number >= 0, "a number of seconds, 0 or more")


def _pairs(text: str) -> tuple[str, ...]:
    """Return the pairs NAME=VALUE, which commas or spaces separate; a value may have commas."""
    pairs = tuple(re.split(r"[\s,]+(?=\w+=)", text.strip())) if text.strip() else ()
    if not all(re.match(r"\w+=\S", pair) and " " not in pair for pair in pairs):
        raise ValueError("pairs NAME=VALUE")
    return pairs


def _size(text: str) -> tuple[int, int]:
    """Return width and height in pixels from text such as `1440x900`."""
    width, x, height = text.lower().partition("x")
    if not (x and width.isdecimal() and height.isdecimal() and int(width) and int(height)):
        raise ValueError("WIDTHxHEIGHT in pixels, such as 1440x900")
    return int(width), int(height)


def _one_of(*choices: str) -> Callable[[str], str]:
    """Return a parser that accepts only these choices. An empty one stands for no setting, and no error names it."""

    def read(text: str) -> str:
        if text not in choices:
            raise ValueError("one of " + ", ".join(filter(None, choices)))
        return text

    return read


PLANNERS = ("gemini", "anthropic", "openai")


def _planner(text: str) -> str:
    module, _, name = text.partition(":")
    if text not in ("", *PLANNERS) and not (module and module not in PLANNERS and name.isidentifier()):
        raise ValueError(f"one of {', '.join(PLANNERS)}, whose model --vnc-model names, or package.module:name")
    return text


def _judge(text: str) -> str:
    if text and text.partition(":")[0] not in PLANNERS:
        raise ValueError(f"one of {', '.join(PLANNERS)}, also with a model, as gemini:gemini-3.8-flash")
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

    # Where the desktop and the program are, and how a command gets there: only the user knows.
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
        "run a command on an external desktop: 'docker exec -i NAME', 'ssh HOST' ({host} and {port} are filled in)",
        "COMMAND",
    )
    # What a started desktop is like: programs and recordings depend on it.
    screen_size: tuple[int, int] = _setting((1440, 900), _size, "size of a desktop that is started", "WxH")
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
    # What differs between machines: the container engine, its arguments, how slow a start is.
    container_engine: str = _setting(
        "",
        _one_of("", "docker", "podman"),
        "the program that runs containers: docker or podman (default: the first that answers)",
    )
    container_args: str = _setting(
        "",
        str,
        "arguments of docker run for a container: -e NAME=VALUE or -e NAME, -v HERE:THERE:ro, --network none",
    )
    start_seconds: float = _setting(
        60.0, _seconds, "how long a desktop may take until it is ready, and until its screen shows more than one colour"
    )
    # What else knows the page or the program: it needs something that not every desktop has.
    cdp: str = _setting(
        "",
        str,
        "address of Chrome's DevTools on the desktop: host:port, or the file PROFILE/DevToolsActivePort in the "
        "program's directory; pytest-playwright's `context` and `page` then use this browser",
    )
    elements: bool = _setting(
        False,
        _switch,
        "let the model list the elements of X programs, and name each step by its element; needs python3-gi, x11-utils "
        "and at-spi2-core on the desktop, with at-spi-bus-launcher started before the program (elements of a page need "
        "only vnc_cdp)",
    )
    # A readable report against hidden secrets: the user's choice.
    show_secrets: bool = _setting(
        False, _switch, "show typed secrets in screenshots as the screen does (default: redact them)"
    )
    # How long other users may hold a shared desktop, and what its server asks for.
    lease_seconds: float = _setting(600.0, _seconds, "how long to wait for a desktop while another test uses it")
    password_env: str = _setting("VNC_USE_PASSWORD", str, "environment variable that holds the VNC password")
    username: str = _setting("", str, "user name for a VNC server that asks for one")
    tls: str = _setting(
        "auto",
        str,
        "TLS to an external VNC server: auto (across a network, if the server offers a certificate), require, off, a "
        "PEM file of authorities, or sha256:HEX, the fingerprint of the only accepted certificate",
    )
    # Which model plans and judges, how it is reached, what it may use: it costs money, and differs by project.
    planner: str = _setting(
        "",
        _planner,
        "the planner: gemini, anthropic, openai (these cost money), or module:name",
        "PLANNER",
    )
    model: str = _setting("", str, "the planner's model (gemini-3.8-flash, gpt-5.5)", "NAME")
    planner_options: tuple[str, ...] = _setting(
        (),
        _pairs,
        "further arguments of the planner's class: environment=browser include_thoughts=true",
    )
    functions: str = _setting("", str, "Python module whose functions the model may call")
    base_url: str = _setting("", str, "with openai: your own server with chat completions", "URL")
    api_key_command: str = _setting(
        "", str, "command that prints the key of the planner's service; it runs once a session"
    )
    toolset: str = _setting(
        "commands",
        _one_of("commands", "computer_use", "vnc_command", "local_agent"),
        "with --vnc-base-url: the tools for the model: commands, computer_use (Qwen's), vnc_command, or local_agent, "
        "which also sets the planner, the server and the limits of a local vision agent",
    )
    request_seconds: float = _setting(120.0, _seconds, "how long one request to a model may take")
    judge: str = _setting(
        "",
        _judge,
        "the judge of claims: a service, or gemini:MODEL (default: the planner)",
        "JUDGE",
    )
    votes: int = _setting(1, _odd_number, "number of votes that decide a claim; it must be odd", "N")
    exclude: tuple[str, ...] = _setting((), _items, "actions that the model may not use, comma-separated")
    # What a run may do and take: the user's risk.
    policy: str = _setting(
        "", str, "TOML file with the actions that are allowed without a person; or strict, a preset", "FILE"
    )
    max_steps: int = _setting(40, _count, "maximum actions of one run", "N")
    max_seconds: float = _setting(300.0, _seconds, "maximum seconds of one run", "S")
    # Off for a screen that never rests, where each turn would be asked about again.
    watch: bool = _setting(
        True,
        _switch,
        "show the model the screen after half the wait for it; if the screen has changed when the model answers, ask "
        "again, at most twice a turn",
    )
    # What some programs need, and no VNC server reports.
    step_delay: float = _setting(0.0, _pause, "seconds to wait after each step, after the screen has settled")
    scroll: "ScrollMeans" = _setting(
        "wheel", _one_of("wheel", "keys"), "scroll by the wheel, or by page and arrow keys"
    )
    typing: "TypingMeans" = _setting(
        "keys",
        _one_of("keys", "clipboard"),
        "type text by keys, as far as the server supports them, or paste all text, as for a keyboard layout without "
        "Latin letters",
    )
    # What a test and a session may cost: the user's money, at the user's prices.
    max_tokens: int | None = _setting(None, _limit(_count), "maximum tokens of one test, with its judge", "N")
    max_dollars: float | None = _setting(None, _limit(_dollars), "maximum US dollars of one test", "USD")
    session_max_steps: int | None = _setting(
        None, _limit(_count), "maximum steps of the session, over all its processes", "N"
    )
    session_max_seconds: float | None = _setting(None, _limit(_seconds), "maximum seconds of the session", "S")
    session_max_tokens: int | None = _setting(None, _limit(_count), "maximum tokens of the session", "N")
    session_max_dollars: float | None = _setting(None, _limit(_dollars), "maximum US dollars of the session", "USD")
    prices: str = _setting("", str, "TOML file with prices of models; they replace the known ones")
    # What is recorded, healed or failed: a developer, a nightly job and a release need different answers.
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
    # How often a replay is checked and how long it waits: a slow program needs more.
    rehearse: int = _setting(
        2,
        _count_or_none,
        "replay a new recording this many times, each on a fresh desktop, to learn which parts vary and whether the "
        "test repeats (0: never)",
    )
    gate_seconds: float = _setting(10.0, _seconds, "how long a replay waits until the screen is as recorded")
    watch_seconds: float = _setting(1.2, _seconds, "how long the end of a task must stay unchanged")
    # One session's own: how often, and with which variables.
    repeat: int = _setting(1, _count, "run each test this many times; print pass^k", "N")
    env_file: str = _setting(
        "", str, "file of NAME=value lines, such as .env, for variables that the environment does not have"
    )
    # What is kept, and where: the disk and the CI job decide.
    runs_dir: str = _setting("runs", str, "directory of the run directories", "DIR")
    artifacts: str = _setting(
        "on",
        _one_of("on", "retain-on-failure", "off"),
        "keep screenshots, logs and exchanges in the run directories: on, retain-on-failure or off",
        "WHEN",
    )
    rfb_log: bool = _setting(
        False,
        _switch,
        "keep in the run directory each key, click and text that is sent to the VNC server, with its time",
    )
    max_megabytes: int = _setting(
        0,
        _count_or_none,
        "maximum megabytes of run directories; at the session's end the oldest passed runs are deleted (0: no limit)",
    )
    results: str = _setting(
        "",
        str,
        "JSON file for the results of the tests (default: vnc-results.json in the directory of the runs)",
        "FILE",
    )

    def __init__(self, **values: Any) -> None:
        if unknown := values.keys() - FIELDS.keys():
            raise TypeError(f"unknown setting {min(unknown)!r}. Use one of {', '.join(FIELDS)}")
        vars(self).update({name: field.default for name, field in FIELDS.items()}, **values)

    def __setattr__(self, name: str, value: object) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot set {name!r}. Use dataclasses.replace")

    def __eq__(self, other: object) -> bool:
        return vars(self) == vars(other) if isinstance(other, Settings) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))

    def __repr__(self) -> str:
        changed = {name: getattr(self, name) for name, field in FIELDS.items() if getattr(self, name) != field.default}
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in changed.items())})"


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
    """Return the pytest argument that sets a field: `--vnc-max-steps=3`, or `-ovnc_rehearse=5` if it is no option."""
    return f"{option_name(field)}={value}" if field in OPTIONS else f"-ovnc_{field}={value}"
