"""One frozen `Settings`, from defaults < ini < environment < command line < marker; and what a `vnc_task` marker says.

Each field carries its own help text and the way it is read from a string, so that the ini option `vnc_<field>`, the
environment variable `VNC_USE_<FIELD>` and the command line's `--vnc-<field>` are made from one list.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.types import ScrollMeans

ENVIRONMENT_PREFIX = "VNC_USE_"


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.replace(",", " ").split())


def _switch(text: str) -> bool:
    known = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
    if text.lower() not in known:
        raise ValueError("true or false")
    return known[text.lower()]


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ValueError("a whole number, at least 1")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise ValueError("a number of seconds above 0")
    return seconds


def _size(text: str) -> tuple[int, int]:
    width, x, height = text.lower().partition("x")
    if not (x and width.isdecimal() and height.isdecimal() and int(width) and int(height)):
        raise ValueError("WIDTHxHEIGHT in pixels, such as 1440x900")
    return int(width), int(height)


def _one_of(*choices: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in choices:
            raise ValueError("one of " + ", ".join(choices))
        return text

    return read


def _setting(default: Any, read: Callable[[str], Any], help_text: str) -> Any:
    return dataclasses.field(default=default, metadata={"read": read, "help": help_text})


@dataclass(frozen=True)
class Settings:
    """Everything that a run can be told. A field's meaning is its help text, shown by `pytest --help`."""

    server: str = _setting(
        "",
        str,
        "VNC desktop: host::port, host:display or a unix socket, several with commas to share among the tests; "
        "xvnc to start one on TigerVNC; qt to start --vnc-app on Qt's own VNC",
    )
    app: str = _setting("", str, "command line of the program under test, started where the plugin starts the desktop")
    screen_size: tuple[int, int] = _setting(
        (1440, 900), _size, "WIDTHxHEIGHT of a desktop the plugin starts (a given desktop keeps its own size)"
    )
    lease_seconds: float = _setting(600.0, _seconds, "how long to wait for a given desktop that another test uses")
    password_env: str = _setting("VNC_USE_PASSWORD", str, "environment variable that holds the VNC password")
    planner: str = _setting("", _one_of("", "gemini"), "who decides what to do: gemini (asks the model, costs money)")
    model: str = _setting("gemini-3.8-flash", str, "the planner's model")
    judge_model: str = _setting("", str, "the model that judges claims (the planner's, where not given)")
    environment: str = _setting(
        "desktop", _one_of("desktop", "browser"), "Computer Use environment the model is told of: desktop or browser"
    )
    exclude: tuple[str, ...] = _setting((), _words, "actions of the model's that it may not use, comma-separated")
    policy: str = _setting("", str, "TOML file that says which actions are allowed without a person")
    steps: int = _setting(40, _count, "most actions of one run")
    seconds: float = _setting(300.0, _seconds, "most seconds of one run")
    stall: int = _setting(3, _count, "how often the same action on the same screen is taken for standing still")
    scroll: ScrollMeans = _setting("wheel", _one_of("wheel", "keys"), "scroll by the wheel, or by page and arrow keys")
    include_thoughts: bool = _setting(False, _switch, "ask the model for summaries of its thoughts")
    detect_prompt_injection: bool = _setting(False, _switch, "have the model's service look for prompt injection")
    disabled_safety_policies: tuple[str, ...] = _setting(
        (), _words, "categories for which the model need not ask for confirmation, comma-separated"
    )
    include_initial_screenshot: bool = _setting(True, _switch, "send the first screenshot with the task")
    keep_screenshots: int = _setting(3, _count, "how many of the newest screenshots each request carries")
    runs_dir: str = _setting("runs", str, "folder under which every run leaves its run folder")


FIELDS = {field.name: field for field in dataclasses.fields(Settings)}


def option_name(field: str) -> str:
    """`screen_size` -> `--vnc-screen-size`."""
    return "--vnc-" + field.replace("_", "-")


def read_value(field: str, value: object, origin: str) -> Any:
    """The value of one field as `Settings` wants it; a string is read the way the field says.

    Raises SettingsError that names `origin`, the value, and what would be right.
    """
    read = FIELDS[field].metadata["read"]
    text = value if isinstance(value, str) else _as_text(value)
    try:
        return read(text)
    except ValueError as exc:
        raise SettingsError(f"{origin} must be {exc}, got {value!r}") from exc


def _as_text(value: object) -> str:
    if isinstance(value, (tuple, list)):
        return ("x" if all(isinstance(each, int) for each in value) and value else ",").join(map(str, value))
    return str(value)


def merge(*layers: tuple[Mapping[str, object], Callable[[str], str]]) -> Settings:
    """Settings from layers, weakest first. A layer is its values and a function from a field to the name users know.

    Values that are None count as not given.
    """
    values = {
        field: read_value(field, value, name_of(field))
        for layer, name_of in layers
        for field, value in layer.items()
        if value is not None
    }
    return Settings(**values)


def environment_layer(environ: Mapping[str, str] = os.environ) -> tuple[Mapping[str, object], Callable[[str], str]]:
    """The layer of `VNC_USE_<FIELD>` variables."""

    def name_of(field: str) -> str:
        return ENVIRONMENT_PREFIX + field.upper()

    return {field: environ.get(name_of(field)) for field in FIELDS}, name_of


# --- the marker ------------------------------------------------------------------------------------------------------

MARKER_SETTINGS = ("steps", "seconds", "policy", "model")


@dataclass(frozen=True)
class TaskSpec:
    """What one `vnc_task` marker says: the sentence, its claims, its settings, its secrets (placeholder to value)."""

    task: str
    expect: tuple[str, ...] = ()
    settings: Mapping[str, object] = dataclasses.field(default_factory=dict)
    secrets: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)


def task_spec(args: tuple[object, ...], kwargs: Mapping[str, object]) -> TaskSpec:
    """Read a marker's arguments. Raises SettingsError that says which argument is wrong and what would be right."""
    unknown = sorted(set(kwargs) - {"expect", "secrets", *MARKER_SETTINGS})
    if unknown:
        raise SettingsError(
            f"vnc_task has no argument {unknown[0]!r}; it takes a task, expect, secrets, {', '.join(MARKER_SETTINGS)}"
        )
    if len(args) != 1 or not isinstance(args[0], str) or not args[0].strip():
        raise SettingsError(f"vnc_task needs exactly one task, a sentence, got {args!r}")
    settings = {name: kwargs[name] for name in MARKER_SETTINGS if kwargs.get(name) is not None}
    for name, value in settings.items():
        read_value(name, value, f"vnc_task({name}=…)")
    return TaskSpec(args[0], _claims(kwargs.get("expect", ())), settings, _secrets(kwargs.get("secrets", ())))


def _claims(expect: object) -> tuple[str, ...]:
    claims = (expect,) if isinstance(expect, str) else expect
    if not isinstance(claims, (tuple, list)) or not all(isinstance(claim, str) and claim.strip() for claim in claims):
        raise SettingsError(f"vnc_task(expect=…) must be a claim or several, got {expect!r}")
    return tuple(claims)


def _secrets(names: object) -> Mapping[str, str]:
    """Values of the environment variables whose names are given; a missing one reads as "" and is refused at use."""
    names = (names,) if isinstance(names, str) else names
    if not isinstance(names, (tuple, list)) or not all(isinstance(name, str) and name for name in names):
        raise SettingsError(f"vnc_task(secrets=…) must name environment variables, got {names!r}")
    return {name: os.environ.get(name, "") for name in names}
