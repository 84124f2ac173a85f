"""`cua-vnc doctor`: finds what works on this machine and what does not; every check
ends within some seconds.
"""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import partial
from importlib.metadata import entry_points, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from pytest_vnc_use.agent import build, credentials, leasing, providers
from pytest_vnc_use.cli import CTRL_C, Commands
from pytest_vnc_use.cli.ini_file import IniFile
from pytest_vnc_use.cli.options import add_options, option_values
from pytest_vnc_use.cli.typing_check import (
    LIMIT_S,
    READS_LINES,
    check_lines,
    check_typing,
)
from pytest_vnc_use.deadline import Deadline, DeadlineExceeded
from pytest_vnc_use.desktops import qt
from pytest_vnc_use.desktops.started import check_linux
from pytest_vnc_use.errors import (
    AuthenticationFailed,
    DesktopError,
    InfraError,
    SettingsError,
    VncUseError,
    install_hint,
)
from pytest_vnc_use.plain_text import plain, without_query
from pytest_vnc_use.settings.fallbacks import format_fallbacks
from pytest_vnc_use.settings.layers import absolute_text
from pytest_vnc_use.settings.settings import FIELDS, Settings
from pytest_vnc_use.settings.variables import VARIABLE, format_env_file, use_env_file

if TYPE_CHECKING:
    from pytest_vnc_use.backends.security import ServerFacts

LANGSMITH = "langsmith_plugin"
LEAVE_OUT = f"-p no:{LANGSMITH}"
ABOUT_LANGSMITH = (
    "langgraph brings langsmith, whose own pytest plugin costs every session 0.5 to 1 s"
)
RECIPES = (
    "https://github.com/pytest-vnc-use/pytest-vnc-use/blob/main/docs/vnc-servers.md"
)
PACKAGES = ("pytest", "langgraph", "google-genai", "vncdotool")
_APPLE_VERSION = "3.889"
_NO_XTERM = (
    "not checked: this needs xterm (apt-get install xterm); your own program does not"
    " need it"
)


DOCTOR_OPTIONS = {
    "--vnc": "server",
    "--user": "username",
    "--password-env": "password_env",
    "--planner": "planner",
    "--model": "model",
}
ABOUT_DOCTOR = {
    "server": (
        "VNC desktop: host::port, unix socket, xvnc, qt, container:IMAGE (default:"
        " xvnc)"
    ),
    "planner": "Planner to check: gemini; a missing key is then a failure",
    "model": "Model to look for",
}
FAILED = 1


def add(commands: Commands) -> None:
    """Register `cua-vnc doctor` and its options."""
    doctor = commands.add_parser(
        "doctor",
        help="Print what works on this machine and what does not",
        description=(
            "Print what works (ok), what is missing (--) with the command that installs"
            " it, and what was asked for and does not work (FAIL). Exit code 1 if a"
            " line says FAIL, else 0; 2 for wrong usage."
        ),
    )
    doctor.add_argument(
        "--no-typing", action="store_true", help="Press no key on an external desktop"
    )
    add_options(doctor, DOCTOR_OPTIONS, ABOUT_DOCTOR, needs_server=False)
    doctor.set_defaults(command=_doctor)


def _doctor(arguments: argparse.Namespace) -> int:
    values = option_values(arguments, DOCTOR_OPTIONS)
    values["planner"] = values["planner"] or (values["model"] and "gemini")
    failed = []
    ini = IniFile.find(Path.cwd())
    directory = Path.cwd()
    if not os.environ.get(VARIABLE):  # else that file has been read
        use_env_file(ini.options.get("vnc_env_file"), directory)
    in_ini = {}
    for name in FIELDS:
        value = ini.options.get(f"vnc_{name}")
        if isinstance(value, str):
            value = absolute_text(name, value, directory)
        if value is not None:
            in_ini[name] = value
    try:
        settings = build.settings_of(
            values, (in_ini, lambda name: f"vnc_{name} in {ini.name}")
        )
        for finding in diagnose(settings, typing=not arguments.no_typing):
            print(without_query(plain(str(finding))), flush=True)
            if finding.word == "FAIL":
                failed.append(finding.about)
    except KeyboardInterrupt:
        print("interrupted")
        return CTRL_C
    if failed:
        print(f"does not work: {', '.join(failed)}")
        return FAILED
    print("all that was asked for works")
    return 0


class Finding(NamedTuple):
    """The result of one check: it works, it is missing and was not asked for, or it
    fails.
    """

    word: Literal["ok", "--", "FAIL"]
    about: str
    text: str

    def __str__(self) -> str:
        return f"{self.word:<4}  {self.about}: {self.text}"


def diagnose(
    settings: Settings, *, typing: bool, only_asked: bool = False
) -> Iterator[Finding]:
    """Yield the findings of each check as soon as it is done.

    What the settings ask for is checked and, unless `only_asked`, everything else that
    could be used. Without `typing` no key is pressed on an external desktop. Raises
    SettingsError if a setting is invalid.
    """
    kind = settings.server.partition(":")[0]
    means: dict[str, tuple[str, str, Callable[[], str]]] = {
        "xvnc": ("TigerVNC", "xvnc", _tigervnc),
        "qt": ("Qt", "qt", partial(_qt, settings.qt_host_network, asked=kind == "qt")),
        "container": (
            "containers",
            "container:IMAGE",
            partial(_container_engine, settings.container_engine),
        ),
    }
    servers = []
    if kind not in means:
        servers = list(filter(None, map(str.strip, settings.server.split(","))))
    checks: list[tuple[str, bool, Callable[[], Iterable[Finding]]]] = [
        ("versions", False, _versions),
        *(
            (entry[0], kind == name, partial(_means, *entry, asked=kind == name))
            for name, entry in means.items()
        ),
        ("window manager", kind == "xvnc", _window_manager),
        *(
            ("server", True, partial(_external_desktop, server, settings, typing))
            for server in servers
        ),
        ("managed desktop", kind == "xvnc", partial(_managed_desktop, settings)),
        ("vnc_env_file", False, _env_file),
        ("model", bool(settings.planner), partial(_model, settings)),
        ("langsmith", False, _langsmith),
    ]
    for about, is_asked, check in checks:
        if only_asked and not is_asked:
            continue
        try:
            yield from check()
        except SettingsError:
            raise
        except InfraError as exc:
            yield Finding("FAIL", about, str(exc))
        except Exception as exc:  # noqa: BLE001  # A failure is reported, and the other checks continue.
            yield Finding("FAIL", about, f"{type(exc).__name__}: {exc}")


def _versions() -> Iterator[Finding]:
    python = f"Python {platform.python_version()} on {platform.system()}"
    packages = [f"{name} {version(name)}" for name in PACKAGES]
    plugin = f"pytest-vnc-use {version('pytest-vnc-use')}"
    yield Finding("ok", "versions", ", ".join([plugin, python, *packages]))


def _means(
    about: str, option: str, find: Callable[[], str], *, asked: bool
) -> Iterator[Finding]:
    """Check a method of starting desktops; `find` returns what is installed, or raises
    VncUseError with the remedy.
    """
    try:
        check_linux(option, "because its programs are made for it")
        yield Finding("ok", about, f"{find()}, for --vnc-server={option}")
    except VncUseError as exc:
        yield Finding("FAIL" if asked else "--", about, str(exc))


def _tigervnc() -> str:
    from pytest_vnc_use.desktops.xvnc import SERVERS  # brings twisted

    if not (path := next(filter(None, map(shutil.which, SERVERS)), "")):
        raise DesktopError("not installed: apt-get install tigervnc-standalone-server")
    return path


def _window_manager() -> Iterator[Finding]:
    from pytest_vnc_use.desktops.xvnc import WINDOW_MANAGER  # brings twisted

    if path := shutil.which(WINDOW_MANAGER[0]):
        yield Finding("ok", "window manager", path)
    else:
        text = f"none, so windows have no frames: apt-get install {WINDOW_MANAGER[0]}"
        yield Finding("--", "window manager", text)


QT_LIBRARIES = (
    "libegl1",
    "libgl1",
    "libglib2.0-0",
    "libxkbcommon0",
    "libfontconfig1",
    "libdbus-1-3",
)
"""The Debian packages that Qt needs to be imported."""
_QT_DIRS = {"PySide6": "Qt", "PyQt6": "Qt6"}
"""The packages that bring Qt with its platform vnc, and the directory of Qt in each."""


def _qt(host_network: str, *, asked: bool) -> str:
    """Return the Qt that was found, and which users can reach its server.

    If the desktop is `asked` for, no Qt is needed here, because the program may bring
    its own. Raises DesktopError, and SettingsError if other users could reach the
    server although the setting does not allow it.
    """
    name = next((name for name in _QT_DIRS if find_spec(name)), "")
    if not name and not asked:
        raise DesktopError(f"no PySide6 or PyQt6 is installed. {install_hint('demo')}")
    found = "no PySide6 or PyQt6 here: the program's own Qt must have the platform vnc"
    if name:
        found = _qt_of(name)
    is_open = host_network == "always"
    if host_network == "true":
        is_open = bool(qt.why_not_closable())
    if is_open:
        reach = f"which all users can reach: vnc_qt_host_network is {host_network}"
    else:
        qt.check_network(may_be_open=False)
        reach = "which only this user reaches"
    return f"{found}, {reach}"


def _qt_of(name: str) -> str:
    try:
        package = importlib.import_module(name)
        qt_version = importlib.import_module(f"{name}.QtCore").qVersion()
        importlib.import_module(f"{name}.QtGui")
    except ImportError as exc:  # a library that the package needs is missing
        raise DesktopError(f"{exc}: apt-get install {' '.join(QT_LIBRARIES)}") from exc
    plugins = Path(str(package.__file__)).parent / _QT_DIRS[name] / "plugins"
    plugin = plugins / "platforms" / "libqvnc.so"
    if not plugin.exists():
        raise DesktopError(
            f"{name} with Qt {qt_version} lacks the platform vnc, {plugin}. Reinstall"
            f" {name}"
        )
    return f"{name} with Qt {qt_version} and its platform vnc"


def _env_file() -> Iterator[Finding]:
    if text := format_env_file():
        yield Finding("ok", "vnc_env_file", text)


def _langsmith() -> Iterator[Finding]:
    ini = IniFile.find(Path.cwd())
    addopts = [
        *ini.values("addopts"),
        *shlex.split(os.environ.get("PYTEST_ADDOPTS", "")),
    ]
    if not entry_points(group="pytest11", name=LANGSMITH):
        yield Finding("ok", "langsmith", "not installed")
    elif f"no:{LANGSMITH}" in " ".join(addopts):
        yield Finding("ok", "langsmith", "its pytest plugin is disabled")
    else:
        remedy = f"unless your tests use it, add '{LEAVE_OUT}' to addopts in {ini.name}"
        yield Finding("--", "langsmith", f"{ABOUT_LANGSMITH}; {remedy}")


def _container_engine(name: str) -> str:
    from pytest_vnc_use.desktops.container import find_engine

    try:
        return f"{Deadline(LIMIT_S).call(partial(find_engine, name)).name} answers"
    except DeadlineExceeded as exc:
        raise DesktopError(
            f"no engine answered within {LIMIT_S:g} s. Restart it"
        ) from exc


def _external_desktop(
    server: str, settings: Settings, typing: bool
) -> Iterator[Finding]:
    from pytest_vnc_use.backends.security import ServerFacts  # brings twisted
    from pytest_vnc_use.backends.vnc import connect

    facts = ServerFacts()
    deadline = Deadline(LIMIT_S)
    password = credentials.desktop_password(settings)
    try:
        wire = leasing.wire_of(settings)
        controller = connect(
            server,
            password,
            facts=facts,
            timeout_s=LIMIT_S,
            type_by=settings.typing,
            wire=wire,
        )
    except (DesktopError, SettingsError) as exc:
        if isinstance(exc, SettingsError) and not facts.name:
            raise  # a setting of this client, and not of the server, is wrong
        is_password = isinstance(exc, AuthenticationFailed)
        text = str(exc)
        if is_password and password:
            text += f"; it is read from {settings.password_env}"
        elif not is_password:
            text += f"; recipes of servers: {RECIPES}"
        yield Finding("FAIL", "server", text)
        yield from _security(facts, opened=is_password)
        if (recipe := recipe_of(server, facts)).word == "ok":
            yield recipe
        return
    with closing(controller):
        size = "x".join(map(str, facts.size))
        screen = f"showed its screen of {size} after {1000 * deadline.spent_s:.0f} ms"
        yield Finding(
            "ok",
            "server",
            f"{server!r} speaks RFB {facts.version}, is named {facts.name!r}, {screen}",
        )
        yield from _security(facts, controller.exposure)
        yield _pixels(facts)
        yield recipe_of(server, facts)
        if typing:
            status, text = check_typing(controller, server)
            yield Finding(status, "typing", f"{text}; {controller.quirks}")
        else:
            yield Finding(
                "--", "typing", f"not checked: --no-typing; {controller.quirks}"
            )


def _security(
    facts: ServerFacts, exposure: str = "", *, opened: bool = True
) -> Iterator[Finding]:
    """Yield what protects the connection; nothing if the server has not offered
    security types.
    """
    if not facts.security_types:
        return
    offered = ", ".join(facts.security_types)
    if facts.subtypes:
        offered += f"; VeNCrypt has {', '.join(facts.subtypes)}"
    used = "used" if opened else "chosen"
    offer = f"offers {offered}; {used} here: {facts.security_used}"
    if facts.security_used in ("", "VeNCrypt"):
        yield Finding(
            "FAIL", "security", f"offers {offered}; this client can use none of them"
        )
    elif exposure:
        yield Finding(
            "--",
            "security",
            f"{offer}, nothing is encrypted: {exposure}; {leasing.PROTECT}",
        )
    elif opened:
        text = f"{offer}; {facts.protection}" if facts.protection else offer
        yield Finding("ok", "security", text)
    else:
        yield Finding("--", "security", offer)


def _pixels(facts: ServerFacts) -> Finding:
    sent = " and ".join(sorted(facts.encodings))
    clipboard = "confirmed" if facts.extended_clipboard else "not offered"
    return Finding(
        "ok",
        "pixels",
        f"{facts.pixel_format}; first frame sent as {sent}; extended clipboard"
        f" {clipboard}",
    )


def _managed_desktop(settings: Settings) -> Iterator[Finding]:
    """Check a managed desktop; yield nothing if none can be started, or another one is
    asked for.
    """
    from pytest_vnc_use.desktops.xvnc import SERVERS, XvncDesktop  # brings twisted

    if (
        settings.server not in ("", "xvnc")
        or sys.platform != "linux"
        or not any(map(shutil.which, SERVERS))
    ):
        return
    program = READS_LINES if shutil.which("xterm") else ()
    deadline = Deadline(LIMIT_S)
    desktop = XvncDesktop(
        program, start_timeout_s=LIMIT_S, pinned=settings.rendering == "pinned"
    )
    try:
        program_text = "with an xterm" if program else "without a program"
        yield Finding(
            "ok",
            "managed desktop",
            f"ready {program_text} after {1000 * deadline.spent_s:.0f} ms",
        )
        if not program:
            yield Finding("--", "typing", _NO_XTERM)
            return
        status, text = check_lines(desktop)
        yield Finding(status, "typing", text)
    finally:
        desktop.stop()


def _model(settings: Settings) -> Iterator[Finding]:
    yield from (
        Finding("--", "model", line) for line in format_fallbacks(settings.toolset)
    )
    if settings.planner not in ("", "gemini"):
        yield Finding(
            "--",
            "model",
            f"--planner={settings.planner} is not checked; doctor checks only Gemini",
        )
        return
    keys = credentials.api_keys()
    names = [name for name in keys if name in credentials.GEMINI_KEY_VARIABLES]
    if not names:
        problem = (
            f"no API key: export {credentials.GEMINI_KEY_VARIABLES[0]}=… (from"
            " https://aistudio.google.com/apikey)"
        )
        yield Finding("FAIL" if settings.planner else "--", "model", problem)
        return
    from pytest_vnc_use.planners.gemini.computer_use import describe_model

    model = settings.model or providers.PROVIDERS["gemini"].default_model
    try:
        described = describe_model(model, timeout_s=LIMIT_S)
    except SettingsError as exc:  # the service does not have the model
        yield Finding("FAIL", "model", str(exc))
        return
    actions = described.get("supportedGenerationMethods")
    if actions and "generateContent" not in actions:
        yield Finding(
            "FAIL",
            "model",
            f"the model {model!r} cannot generate content. Choose another --model",
        )
    else:
        yield Finding(
            "ok", "model", f"the key in {names[0]} works, and it may use {model!r}"
        )


def recipe_of(server: str, facts: ServerFacts) -> Finding:
    """Return the finding that names the recipe, or says that no server was
    recognised.
    """
    from pytest_vnc_use.backends.quirks import is_named_by_x11vnc

    signs = [
        ("macOS", facts.version == _APPLE_VERSION, f"RFB {_APPLE_VERSION}"),
        ("QEMU", facts.name.startswith("QEMU"), "its desktop's name"),
        ("Qt", facts.name == "Qt for Embedded Linux VNC Server", "its desktop's name"),
        ("wayvnc", facts.name == "WayVNC", "its desktop's name"),
        ("TightVNC", "Tight" in facts.security_types, "its security type Tight"),
        ("TigerVNC", facts.extended_clipboard, "its extended clipboard"),
        (
            "x11vnc",
            is_named_by_x11vnc(facts.name),
            "probably: its desktop is named as a host and a display",
        ),
    ]
    recognised = [(name, reason) for name, fits, reason in signs if fits]
    name, reason = recognised[0] if recognised else ("", "")
    if server.startswith(("ws://", "wss://")):
        behind = "the server behind it is not recognised"
        if name:
            behind = f"behind it {name} ({reason})"
        return Finding(
            "ok", "recipe", f"a WebSocket (its address); {behind}: {RECIPES}#websocket"
        )
    if name:
        return Finding("ok", "recipe", f"{name} ({reason}): {RECIPES}#{name.lower()}")
    return Finding(
        "--",
        "recipe",
        f"not recognised by what it says about itself; all recipes: {RECIPES}#recipes",
    )
