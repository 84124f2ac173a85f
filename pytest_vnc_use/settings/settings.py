"""The frozen `Settings`.

Each field has a help text and a parser of its text. It is the ini option `vnc_<field>`,
the environment variable `VNC_USE_<FIELD>` and, for the fields in `OPTIONS`, the command
line option `--vnc-<field>`. The comment above a group states why its fields are
settings: nothing that can be detected is one.
"""

import dataclasses
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # pytest loads this module even if no test uses the plugin
    from pytest_vnc_use.types import ScrollMeans, TypingMeans


def _items(text: str) -> tuple[str, ...]:
    """Return the items, which are separated by commas or spaces."""
    return tuple(text.replace(",", " ").split())


def _switch(text: str) -> bool:
    """Return true for `true`, `yes`, `on` and `1`, and false for `false`, `no`, `off`
    and `0`, whatever their case.
    """
    if text.lower() in ("true", "yes", "on", "1"):
        return True
    if text.lower() in ("false", "no", "off", "0"):
        return False
    raise ValueError("true or false")


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


count = _whole(lambda number: number >= 1, "a whole number, at least 1")
_odd_number = _whole(lambda number: number % 2 == 1, "an odd number, at least 1")
_count_or_none = _whole(lambda number: True, "a whole number, 0 for none")
_seconds = _number(lambda number: number > 0, "a number of seconds above 0")
_dollars = _number(lambda number: number > 0, "a number of US dollars above 0")
_pause = _number(lambda number: number >= 0, "a number of seconds, 0 or more")


def _pairs(text: str) -> tuple[str, ...]:
    """Return the pairs NAME=VALUE, which are separated by commas or spaces. A value may
    contain commas.
    """
    pairs = tuple(re.split(r"[\s,]+(?=\w+=)", text.strip())) if text.strip() else ()
    if not all(re.match(r"\w+=\S", pair) and " " not in pair for pair in pairs):
        raise ValueError("pairs NAME=VALUE")
    return pairs


def _size(text: str) -> tuple[int, int]:
    """Return width and height in pixels from text such as `1440x900`."""
    size = re.fullmatch(r"(\d+)x(\d+)", text.lower())
    if not size or not int(size[1]) or not int(size[2]):
        raise ValueError("WIDTHxHEIGHT in pixels, such as 1440x900")
    return int(size[1]), int(size[2])


def _one_of(*choices: str) -> Callable[[str], str]:
    """Return a parser that accepts only these choices. An empty choice means that
    nothing is set; errors do not list it.
    """

    def read(text: str) -> str:
        if text not in choices:
            raise ValueError("one of " + ", ".join(filter(None, choices)))
        return text

    return read


LOCAL_SERVERS = ("xvnc", "qt")
"""The values of `server` for a desktop that the plugin starts on this machine."""


def _server(text: str) -> str:
    """Return the text, unless it is a misspelt kind of desktop, which would be taken for
    a host.
    """
    letters = sorted(text.lower())
    is_misspelt = text == "container" or letters in (sorted("qt"), sorted("xvnc"))
    if is_misspelt and text not in LOCAL_SERVERS:
        raise ValueError("host::port, wss://…, xvnc, qt, or container:IMAGE")
    return text


PLANNERS = ("gemini", "anthropic", "openai")


def _planner(text: str) -> str:
    module, _, name = text.partition(":")
    is_path = bool(module) and module not in PLANNERS and name.isidentifier()
    if text not in ("", *PLANNERS) and not is_path:
        raise ValueError(
            f"one of {', '.join(PLANNERS)}, whose model --vnc-model names, or"
            " package.module:name"
        )
    return text


def _judge(text: str) -> str:
    if text and text.partition(":")[0] not in PLANNERS:
        raise ValueError(
            f"one of {', '.join(PLANNERS)}, also with a model, as"
            " gemini:gemini-3.8-flash"
        )
    return text


def _setting(
    default: Any, read: Callable[[str], Any], help_text: str, metavar: str = ""
) -> Any:
    """Return a field of Settings. With a `metavar` it is an option of the command line
    too.
    """
    return dataclasses.field(
        default=default, metadata={"read": read, "help": help_text, "metavar": metavar}
    )


@dataclass(init=False, eq=False, repr=False)
class Settings:
    """All settings of a run. The meaning of a field is its help text; `pytest --help`
    shows it.

    Settings are frozen, and their repr shows only the values that differ from the
    defaults. The methods below are written by hand, because `dataclass` would generate
    them field by field at every start of pytest. That would be a third of the plugin's
    cost in projects that do not use it.
    """

    # Where the desktop and the program are, and how a command is run there: only the
    # user knows.
    server: str = _setting(
        "",
        _server,
        "Desktop: host::port (several with commas), wss://…, xvnc, qt, or"
        " container:IMAGE",
        "TARGET",
    )
    app: str = _setting(
        "", str, "Command of the program under test, started first", "COMMAND"
    )
    exec: str = _setting(
        "",
        str,
        "Command prefix for an external desktop, with {host} and {port}: 'ssh {host}',"
        " 'docker exec -i NAME'",
        "COMMAND",
    )
    # What a started desktop is like: programs and recordings depend on it.
    home: str = _setting(
        "",
        str,
        "Directory copied into the program's HOME before it starts, on xvnc and qt",
    )
    screen_size: tuple[int, int] = _setting(
        (1440, 900), _size, "Size of a started desktop", "WxH"
    )
    rendering: str = _setting(
        "pinned",
        _one_of("pinned", "system"),
        "Fonts, theme, locale, time zone on xvnc and qt: pinned (same everywhere),"
        " system",
    )
    scope: str = _setting(
        "test",
        _one_of("test", "module", "session"),
        "Desktop per: test, module, session",
        "SCOPE",
    )
    qt_host_network: str = _setting(
        "false",
        _one_of("false", "true", "always"),
        "Use the host network with qt, without password: false, true (as fallback),"
        " always",
    )
    # What differs between machines: the container engine, its arguments, and how long a
    # start takes.
    container_engine: str = _setting(
        "",
        _one_of("", "docker", "podman"),
        "Program that runs containers: docker, podman (default: the first that"
        " answers)",
    )
    container_args: str = _setting(
        "",
        str,
        "Arguments of docker run: -e NAME=VALUE, -e NAME, -v HOST:CONTAINER:ro,"
        " --network none",
    )
    start_seconds: float = _setting(
        60.0,
        _seconds,
        "Maximum seconds until a desktop is ready and shows more than one colour",
    )
    # Other sources of the page's and the programs' content, which not every desktop has.
    cdp: str = _setting(
        "",
        str,
        "Chrome's DevTools on the desktop: host:port, or the file"
        " PROFILE/DevToolsActivePort",
    )
    elements: bool = _setting(
        False,
        _switch,
        "List X programs' elements for the model, and name each step by its element",
    )
    # Whether a readable report or hidden secrets matter more: the user's choice.
    show_secrets: bool = _setting(
        False, _switch, "Show typed secrets in screenshots instead of redacting them"
    )
    # How long other users may hold a shared desktop, and what its server asks for.
    lease_seconds: float = _setting(
        600.0, _seconds, "Maximum seconds to wait for a desktop that another test uses"
    )
    password_env: str = _setting(
        "VNC_USE_PASSWORD", str, "Environment variable that holds the VNC password"
    )
    username: str = _setting("", str, "User name for a VNC server that asks for one")
    tls: str = _setting(
        "auto",
        str,
        "TLS to an external server: auto, require, off, PEM file, sha256:FINGERPRINT",
    )
    # Which model plans and judges, how it is reached, what it may use: it costs money,
    # and differs by project.
    planner: str = _setting(
        "",
        _planner,
        "Planner: gemini, anthropic, openai (these cost money), or module:name",
        "PLANNER",
    )
    model: str = _setting(
        "", str, "Model of the planner, such as gemini-3.8-flash", "NAME"
    )
    planner_options: tuple[str, ...] = _setting(
        (),
        _pairs,
        "Arguments of the planner's class: environment=browser include_thoughts=true",
    )
    functions: str = _setting(
        "", str, "Python module whose functions the model may call"
    )
    base_url: str = _setting(
        "", str, "URL of a custom chat completions server, for openai", "URL"
    )
    api_key_command: str = _setting(
        "", str, "Command that prints the planner's API key, run once per process"
    )
    toolset: str = _setting(
        "commands",
        _one_of("commands", "computer_use", "vnc_command", "local_agent"),
        "Tools at --vnc-base-url: commands, computer_use, vnc_command, local_agent",
    )
    request_seconds: float = _setting(
        120.0, _seconds, "Maximum seconds of one request to a model"
    )
    judge: str = _setting(
        "",
        _judge,
        "Judge of claims: a service, or gemini:MODEL (default: the planner)",
        "JUDGE",
    )
    votes: int = _setting(1, _odd_number, "Odd number of votes on a claim", "N")
    exclude: tuple[str, ...] = _setting(
        (), _items, "Actions that the model may not use, comma-separated"
    )
    # What a run may do and take: the user's risk.
    policy: str = _setting(
        "",
        str,
        "Policy that allows actions without asking a user: TOML file, or strict",
        "FILE",
    )
    max_steps: int = _setting(40, count, "Maximum actions of one run", "N")
    max_seconds: float = _setting(300.0, _seconds, "Maximum seconds of one run", "S")
    # Off for a screen that is never stable, with which each turn would be repeated.
    watch: bool = _setting(
        True,
        _switch,
        "Ask the model before the screen is stable, and again (at most twice) if it"
        " changes",
    )
    # What some programs need, and no VNC server reports.
    step_delay: float = _setting(
        0.0, _pause, "Seconds to wait after each step, once the screen is stable"
    )
    scroll: "ScrollMeans" = _setting(
        "wheel",
        _one_of("wheel", "keys"),
        "Scroll by wheel, or by page and arrow keys: wheel, keys",
    )
    typing: "TypingMeans" = _setting(
        "keys",
        _one_of("keys", "clipboard"),
        "Type by keys that the server supports, or paste all text: keys, clipboard",
    )
    # What a test and a session may cost: the user's money, at the user's prices.
    max_tokens: int | None = _setting(
        None, _limit(count), "Maximum tokens of one test, including its judge", "N"
    )
    max_dollars: float | None = _setting(
        None, _limit(_dollars), "Maximum US dollars of one test", "USD"
    )
    session_max_steps: int | None = _setting(
        None,
        _limit(count),
        "Maximum steps of the session, over all its processes",
        "N",
    )
    session_max_seconds: float | None = _setting(
        None, _limit(_seconds), "Maximum seconds of the session", "S"
    )
    session_max_tokens: int | None = _setting(
        None, _limit(count), "Maximum tokens of the session", "N"
    )
    session_max_dollars: float | None = _setting(
        None, _limit(_dollars), "Maximum US dollars of the session", "USD"
    )
    prices: str = _setting(
        "", str, "TOML file of model prices, which replace the built-in ones"
    )
    # What is recorded, healed or failed: a developer, a nightly job and a release need
    # different answers.
    record: str = _setting(
        "",
        _one_of("", "auto", "replay", "accept", "rewrite", "manual", "off"),
        "Mode: replay, auto, accept, rewrite, manual, off (default: off; once recorded,"
        " replay or auto)",
        "MODE",
    )
    rerecord: tuple[str, ...] = _setting(
        (),
        _items,
        "Named recordings to record again, comma-separated",
        "NAME",
    )
    healed: str = _setting(
        "pass",
        _one_of("pass", "fail"),
        "Result of a test that passes only after healing: pass, fail",
    )
    transients: str = _setting(
        "fail",
        _one_of("fail", "report"),
        "Fail on transients missing from the recording, or report: fail, report",
        "MODE",
    )
    # How often a replay is checked and how long it waits: a slow program needs more.
    rehearse: int = _setting(
        2,
        _count_or_none,
        "Replays of a new recording, on fresh desktops, to learn what varies; 0 for"
        " none",
    )
    gate_seconds: float = _setting(
        10.0, _seconds, "Maximum seconds until a replay's screen is as recorded"
    )
    watch_seconds: float = _setting(
        1.2,
        _seconds,
        "Seconds the end of a task must stay unchanged; what comes later is not seen",
    )
    # One session's own: how often, and with which variables.
    repeat: int = _setting(
        1, count, "Run each test this many times; print how reliable it is", "N"
    )
    env_file: str = _setting(
        "",
        str,
        "File of NAME=value lines, such as .env, for variables that are not set",
    )
    # What is kept, and where: the disk and the CI job decide.
    runs_dir: str = _setting(
        "runs", str, "Parent directory of the run directories", "DIR"
    )
    artifacts: str = _setting(
        "on",
        _one_of("on", "retain-on-failure", "off"),
        "Keep screenshots, logs and exchanges: on, retain-on-failure, off",
        "WHEN",
    )
    video: str = _setting(
        "off",
        _one_of("off", "on", "retain-on-failure", "on-first-retry"),
        "Keep a video of each run: off, on, retain-on-failure, on-first-retry",
        "WHEN",
    )
    rfb_log: bool = _setting(
        False,
        _switch,
        "Log each key, click and text sent to the VNC server, with its time",
    )
    max_megabytes: int = _setting(
        0,
        _count_or_none,
        "Maximum megabytes of runs (0: no limit); the oldest passed runs are deleted"
        " first",
    )
    results: str = _setting(
        "",
        str,
        "JSON file of test results (default: vnc-results.json in the runs directory)",
        "FILE",
    )

    def __init__(self, **values: Any) -> None:
        if unknown := values.keys() - FIELDS.keys():
            raise TypeError(
                f"unknown setting {min(unknown)!r}. Use one of {', '.join(FIELDS)}"
            )
        vars(self).update(
            {name: field.default for name, field in FIELDS.items()}, **values
        )

    def __setattr__(self, name: str, value: object) -> None:
        raise dataclasses.FrozenInstanceError(
            f"cannot set {name!r}. Use dataclasses.replace"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Settings):
            return NotImplemented
        return vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))

    def __repr__(self) -> str:
        changed = []
        for name, field in FIELDS.items():
            value = getattr(self, name)
            if value != field.default:
                changed.append(f"{name}={value!r}")
        return f"Settings({', '.join(changed)})"


FIELDS = {field.name: field for field in dataclasses.fields(Settings)}
OPTIONS = frozenset(name for name, field in FIELDS.items() if field.metadata["metavar"])
"""The settings that a user sets for one run: options of the command line. A project
sets the others in its ini file.
"""
ENVIRONMENT_PREFIX = "VNC_USE_"
TIMING = tuple(
    name
    for name, field in FIELDS.items()
    if field.metadata["read"] in (_seconds, _pause)
)
"""The settings that are durations in seconds."""


def variable_of(field: str) -> str:
    """Return the name of a setting's environment variable."""
    return ENVIRONMENT_PREFIX + field.upper()


def option_name(field: str) -> str:
    """Return the command line option of a field: `screen_size` ->
    `--vnc-screen-size`.
    """
    return "--vnc-" + field.replace("_", "-")


def argument(field: str, value: object) -> str:
    """Return the pytest argument that sets a field: `--vnc-max-steps=3`, or
    `-ovnc_rehearse=5` if it is no option.
    """
    if field in OPTIONS:
        return f"{option_name(field)}={value}"
    return f"-ovnc_{field}={value}"
