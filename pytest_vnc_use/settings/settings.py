"""The frozen `Settings`.

Each field carries its own help text and the parser of its text. One list makes the ini option `vnc_<field>`, the
environment variable `VNC_USE_<FIELD>` and, for the fields in `OPTIONS`, the command line's `--vnc-<field>`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pytest_vnc_use.settings.parsers import (
    count as _count,
    count_or_none as _count_or_none,
    depth as _depth,
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
    from pytest_vnc_use.types import EncodingChoice, ScrollMeans, TypingMeans
    from pytest_vnc_use.types.wire import TlsChoice

Coordinates = Literal["1000", "pixels"]
PLANNERS = ("gemini", "anthropic", "openai")


def _planner(text: str) -> str:
    if not all(_is_planner(each.strip()) for each in text.split(",")) and text:
        raise ValueError(
            f"one of {', '.join(PLANNERS)}, one of them with a model (gemini:flash), package.module:name, or several "
            "with commas, cheap ones first"
        )
    return text


def _is_planner(text: str) -> bool:
    before, colon, name = text.partition(":")
    return text in PLANNERS or bool(colon and before and name and (before in PLANNERS or name.isidentifier()))


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
        "", str, "desktop: host::port (several with commas), wss://…, xvnc or qt to start one, container:IMAGE", "WHERE"
    )
    app: str = _setting("", str, "the program under test, started before the test", "COMMAND")
    exec: str = _setting(
        "",
        str,
        "runs a command on a given desktop: 'docker exec -i NAME', 'ssh HOST' ({host} and {port} are filled in)",
        "COMMAND",
    )
    screen_size: tuple[int, int] = _setting((1440, 900), _size, "size of a desktop started here", "WxH")
    depth: int = _setting(24, _depth, "bits a pixel of a desktop that xvnc starts: 16 or 24")
    scope: str = _setting(
        "test", _one_of("test", "module", "session"), "a desktop is kept for a test, a module or the session", "SCOPE"
    )
    desktops: int = _setting(
        0,
        _count_or_none,
        "start at most so many at once, on this machine, and reset them between tests (0: no limit)",
        "N",
    )
    start_ahead: bool = _setting(
        False,
        _switch,
        "start the next test's desktop, and its program, while a test ends, so before the next one's fixtures have "
        "prepared anything; with xvnc and qt, where the next test wants the same (not with --vnc-desktops)",
    )
    fork_workers: bool = _setting(
        False,
        _switch,
        "with pytest-xdist on Linux, fork the workers from a process that has imported what they need: each saves "
        "about a second of processor time",
    )
    qt_open: bool = _setting(
        False,
        _switch,
        "with qt, leave the program on the machine's network, on which its VNC server then listens without a password",
    )
    engine: str = _setting(
        "", _one_of("", "docker", "podman"), "what runs containers: docker or podman (the first of them that answers)"
    )
    container_port: int = _setting(5901, _count, "port on which the VNC server inside a container listens")
    container_env: tuple[str, ...] = _setting(
        (), _words, "environment of a container: NAME=VALUE, or NAME to hand it on"
    )
    volumes: tuple[str, ...] = _setting((), _words, "folders that a container sees: HERE:THERE or HERE:THERE:ro")
    start_seconds: float = _setting(60.0, _seconds, "how long a desktop that is started here may take to be ready")
    blank_seconds: float = _setting(
        10.0, _seconds, "how long a screen of one single colour is taken for a desktop that is not ready yet"
    )
    frozen_seconds: float = _setting(
        60.0,
        _seconds,
        "how long no pixel may change, while actions are carried out, before the desktop counts as frozen",
    )
    cdp: str = _setting(
        "",
        str,
        "Chrome's DevTools on the desktop: host:port, or the file PROFILE/DevToolsActivePort in the program's folder",
    )
    playwright: bool = _setting(
        False,
        _switch,
        "with pytest-playwright and vnc_cdp, its fixtures context and page are those of the browser on the desktop",
    )
    elements: bool = _setting(
        False,
        _switch,
        "offer the model list_elements, what programs on an X desktop show and where, and call each step by what it "
        "acted on; needs python3-gi, x11-utils and at-spi2-core there, its at-spi-bus-launcher "
        "started before the program (with vnc_cdp it has the page's anyway)",
    )
    encoding: EncodingChoice = _setting(
        "auto",
        _one_of("auto", "raw", "zrle", "tight"),
        "how pixels travel: raw, zrle or tight, none of which loses any (auto: raw where the link is fast, else tight)",
    )
    show_pointer: bool = _setting(
        False, _switch, "draw the pointer into the screenshots, as the server says it looks, where it was sent to last"
    )
    show_secrets: bool = _setting(
        False, _switch, "show typed secrets in all pictures as the screen does; they are covered there otherwise"
    )
    lease_seconds: float = _setting(600.0, _seconds, "how long to wait for a desktop that another test uses")
    password_env: str = _setting("VNC_USE_PASSWORD", str, "environment variable that holds the VNC password")
    user: str = _setting("", str, "user name, where the VNC server asks for one")
    tunnel: str = _setting("", str, "the way to the desktop: ssh://user@host:port", "WHERE")
    tls: TlsChoice = _setting(
        "auto",
        _one_of("auto", "require", "anonymous", "off"),
        "TLS of a given VNC server: auto uses it across a network where a certificate is offered, require wants a "
        "certificate, anonymous also takes TLS without one (which somebody between can read and change), off has none",
    )
    tls_ca: str = _setting(
        "", str, "file (PEM) of the authorities that vouch for a VNC server's certificate (the system's); requires TLS"
    )
    tls_fingerprint: str = _setting(
        "", str, "the one certificate that a VNC server may show: sha256:HEX, whoever vouches for it; requires TLS"
    )
    planner: str = _setting(
        "",
        _planner,
        "decides: gemini, anthropic, openai (asks a model: costs money), module:name; several: gemini:flash,gemini:pro",
        "WHO",
    )
    model: str = _setting("", str, "the planner's model (gemini-3.8-flash, gpt-5.5)", "NAME")
    functions: str = _setting("", str, "Python module of functions for the model", "MOD")
    environment: str = _setting(
        "desktop", _one_of("desktop", "browser"), "Computer Use environment the model is told of: desktop or browser"
    )
    search_page: str = _setting(
        "", str, "address that Gemini's function search opens (default: the browser's own key, Ctrl+K)"
    )
    base_url: str = _setting("", str, "with openai: a server of yours with chat completions", "URL")
    api_key_env: str = _setting("VNC_USE_API_KEY", str, "environment variable that holds the key for --vnc-base-url")
    api_key_command: str = _setting("", str, "command that prints the key of the planner's service, once a session")
    vocabulary: str = _setting(
        "commands",
        _one_of("commands", "computer_use", "vnc_command"),
        "with --vnc-base-url, tools: commands, computer_use (Qwen's) or vnc_command",
        "NAME",
    )
    coordinates: Coordinates = _setting(
        "1000", _one_of("1000", "pixels"), "what the model at --vnc-base-url counts in: a grid of 1000, or pixels"
    )
    temperature: float | None = _setting(None, _temperature, "temperature for --vnc-base-url (the model's own)")
    keep_thoughts: int = _setting(
        0, _count_or_none, "with --vnc-base-url: of how many of the newest turns the model's thoughts are sent back"
    )
    error_format: str = _setting(
        "text",
        _one_of("text", "json"),
        "with --vnc-base-url: how a model is told of an action that failed: text, or json with the kind of the error",
    )
    extra_calls: str = _setting(
        "refuse",
        _one_of("refuse", "first"),
        "with --vnc-base-url, an answer with more actions than a turn may hold: refuse it whole, or do the first calls "
        "and refuse the others by name",
    )
    answer_tokens: int = _setting(0, _count_or_none, "most tokens of one answer (0: what suits the planner)")
    request_seconds: float = _setting(120.0, _seconds, "how long one request to a model may take")
    computer_tool: str = _setting(
        "computer_toolset_20260801",
        _one_of("computer_toolset_20260801", "computer_20251124", "computer_20250124"),
        "with --vnc-planner=anthropic: the computer use tool that the model takes",
    )
    include_thoughts: bool = _setting(False, _switch, "ask the model for summaries of its thoughts")
    detect_prompt_injection: bool | None = _setting(
        None,
        _switch,
        "have the model's service look for prompt injection (default: where the model can, as Gemini 3.5)",
    )
    disabled_safety_policies: tuple[str, ...] = _setting(
        (), _words, "categories for which the model need not ask for confirmation, comma-separated"
    )
    include_initial_screenshot: bool = _setting(True, _switch, "send the first screenshot with the task")
    keep_screenshots: int = _setting(
        3, _count, "how many of the newest screenshots each request carries (more where a turn has more)"
    )
    picture_bytes: int = _setting(
        0,
        _count_or_none,
        "most bytes of a screenshot that a model is sent, to plan or to judge; larger ones are scaled down (0: any)",
    )
    picture_size: tuple[int, int] | None = _setting(
        None, _limit(_size), "WxH that pictures are scaled down to fit into before a model gets them, as 1536x864"
    )
    judge: str = _setting("", _one_of("", *PLANNERS), "judges claims: gemini, anthropic or openai (planner's)", "WHO")
    judge_model: str = _setting("", str, "the model that judges claims (the planner's, where not given)")
    votes: int = _setting(1, _odd, "so many votes decide a claim, an odd number", "N")
    exclude: tuple[str, ...] = _setting((), _words, "actions of the model's that it may not use, comma-separated")
    policy: str = _setting(
        "", str, "TOML file that says which actions are allowed without a person, or strict, a preset", "FILE"
    )
    steps: int = _setting(40, _count, "most actions of one run", "N")
    seconds: float = _setting(300.0, _seconds, "most seconds of one run", "S")
    settle_first_seconds: float = _setting(
        0.5, _seconds, "how long to wait for the screen's first change after an action"
    )
    settle_quiet_seconds: float = _setting(
        0.2, _seconds, "how long the screen must not change then, but for what blinks or spins by itself"
    )
    watch: bool = _setting(
        True,
        _switch,
        "show a model the screen after half that wait, watch it while the model thinks, and where it has changed by "
        "then, ask again, at most twice a turn",
    )
    step_delay: float = _setting(0.0, _pause, "seconds to wait after each step, once the screen has settled")
    stall: int = _setting(3, _count, "how often the same action on the same screen is taken for standing still")
    scroll: ScrollMeans = _setting("wheel", _one_of("wheel", "keys"), "scroll by the wheel, or by page and arrow keys")
    typing: TypingMeans = _setting(
        "keys",
        _one_of("keys", "clipboard"),
        "type text by keys as far as the server takes them, or all of it by the clipboard, as where the desktop's "
        "keyboard layout has no Latin letters",
    )
    tokens: int | None = _setting(None, _limit(_count), "most tokens of one test, the judge included", "N")
    dollars: float | None = _setting(None, _limit(_dollars), "most US dollars of one test", "USD")
    max_steps: int | None = _setting(None, _limit(_count), "most steps of the session, over all its processes", "N")
    max_seconds: float | None = _setting(
        None, _limit(_seconds), "no model is asked later than this in the session", "S"
    )
    max_tokens: int | None = _setting(None, _limit(_count), "most tokens of the session", "N")
    max_dollars: float | None = _setting(None, _limit(_dollars), "most US dollars of the session", "USD")
    prices: str = _setting("", str, "TOML file with prices of models, over those that are known here")
    record: str = _setting(
        "",
        _one_of("", "auto", "replay", "rewrite", "demonstrate", "off"),
        "recordings: replay, auto (replay, heal and record), rewrite, demonstrate (a person does the tasks) or off "
        "(default: auto where there is one, replay with CI=true)",
        "MODE",
    )
    healed: str = _setting(
        "pass", _one_of("pass", "fail"), "a test that passed after it was healed is to pass or fail", "HOW"
    )
    transients: str = _setting(
        "tell",
        _one_of("tell", "fail"),
        "tell or fail where a replay shows for a moment what its recording did not",
        "HOW",
    )
    rehearse: int = _setting(
        2,
        _count_or_none,
        "how often a recording is replayed right after it was made, each time on a fresh desktop, to learn what looks "
        "other now and then and to tell a test that will not repeat (0: never)",
    )
    gate_seconds: float = _setting(10.0, _seconds, "how long a replay waits for the screen to be as recorded")
    repeat: int = _setting(1, _count, "carry out each test so many times, and print pass^k", "N")
    env_file: str = _setting(
        "", str, "file of NAME=value lines that are read where the environment lacks a variable, as .env"
    )
    runs_dir: str = _setting("runs", str, "folder of the run folders", "DIR")
    artifacts: str = _setting(
        "on",
        _one_of("on", "retain-on-failure", "off"),
        "pictures, logs and exchanges in the run folders are kept: on, retain-on-failure or off",
        "WHEN",
    )
    keep_messages: bool = _setting(
        False, _switch, "keep each key, click and text that is sent to the VNC server in the run folder, with its time"
    )
    max_megabytes: int = _setting(
        0,
        _count_or_none,
        "most megabytes of the run folders; at the session's end the oldest passing runs go first (0: no limit)",
    )
    report_megabytes: int = _setting(
        40,
        _count_or_none,
        "most megabytes of a self-contained report of pytest-html; only where its pictures would pass it, tests that "
        "passed keep thumbnails alone (0: no limit)",
    )
    results: str = _setting(
        "", str, "how the tests ended, as JSON (default: vnc-results.json in the folder of the runs)", "FILE"
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
TIMING = tuple(name for name, field in FIELDS.items() if field.metadata["read"] in (_seconds, _pause))
"""The settings that are durations in seconds."""


def option_name(field: str) -> str:
    """Return the command line option of a field: `screen_size` -> `--vnc-screen-size`."""
    return "--vnc-" + field.replace("_", "-")


def argument(field: str, value: object) -> str:
    """Return the pytest argument that sets a field: `--vnc-steps=3`, or `-ovnc_depth=16` if it is no option."""
    return f"{option_name(field)}={value}" if field in OPTIONS else f"-ovnc_{field}={value}"
