"""`cua-vnc doctor`: finds what works here, what does not, and what would help; every check ends within some seconds."""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import re
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

from pytest_vnc_use.agent import build
from pytest_vnc_use.cli.ini_file import IniFile
from pytest_vnc_use.cli.options import ABOUT, add_options, given
from pytest_vnc_use.cli.typing_check import LIMIT_S, READS_LINES, check_lines, check_typing
from pytest_vnc_use.deadline import Deadline, DeadlineExceeded
from pytest_vnc_use.errors import (
    AuthenticationFailed,
    DesktopError,
    InfraError,
    SettingsError,
    VncUseError,
)
from pytest_vnc_use.plain_text import plain, without_query
from pytest_vnc_use.settings.env_file import VARIABLE, env_file_in_words, use_env_file
from pytest_vnc_use.settings.settings import Settings

if TYPE_CHECKING:
    from pytest_vnc_use.backends.security import ServerFacts

LANGSMITH = "langsmith_plugin"
LEAVE_OUT = f"-p no:{LANGSMITH}"
ABOUT_LANGSMITH = "langgraph brings langsmith, whose own pytest plugin costs every session 0.5 to 1 s"
RECIPES = "https://github.com/pytest-vnc-use/pytest-vnc-use/blob/main/docs/vnc-servers.md"
PACKAGES = ("pytest", "langgraph", "google-genai", "vncdotool")
MEANS = ("xvnc", "qt", "container")
_X11VNC_NAME = re.compile(r"[\w.-]+:\d+")
"""The name that x11vnc gives a desktop: host and display."""
_APPLE_VERSION = "3.889"
_NO_XTERM = "not checked: this needs xterm (apt-get install xterm); your own program does not need it"


DOCTOR_OPTIONS = {
    "--vnc": "server",
    "--user": "username",
    "--password-env": "password_env",
    "--planner": "planner",
    "--model": "model",
}
ABOUT_DOCTOR = {
    "server": f"{ABOUT['server']}; or xvnc, qt, container:IMAGE (without it a desktop is started on TigerVNC)",
    "planner": "who decides what to do: gemini; with it, or with --model, a missing key is a failure",
    "model": "the model to look for",
}
FAILED, CTRL_C = 1, 130


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    doctor = commands.add_parser(
        "doctor",
        help="print what works here and what does not",
        description="Print what works here (ok), what is missing (--) with the command that installs it, and what was "
        "asked for and does not work (FAIL). Exit code 1 if a line says FAIL, else 0; 2 for wrong usage.",
    )
    doctor.add_argument("--no-typing", action="store_true", help="press no key on an external desktop")
    add_options(doctor, DOCTOR_OPTIONS, ABOUT_DOCTOR, needs_server=False)
    doctor.set_defaults(command=_doctor)


def _doctor(arguments: argparse.Namespace) -> int:
    values = given(arguments, [DOCTOR_OPTIONS])
    values["planner"] = values["planner"] or (values["model"] and "gemini")
    failed = []
    use_env_file_of_ini()
    try:
        for finding in diagnose(build.settings_of(values), typing=not arguments.no_typing):
            print(without_query(plain(str(finding))), flush=True)
            failed += [finding.about] if finding.word == "FAIL" else []
    except KeyboardInterrupt:
        print("interrupted")
        return CTRL_C
    print(f"does not work: {', '.join(failed)}" if failed else "all that was asked for works")
    return FAILED if failed else 0


class Finding(NamedTuple):
    """The result of one check: it works, it is missing and was not asked for, or it fails."""

    word: Literal["ok", "--", "FAIL"]
    about: str
    text: str

    def __str__(self) -> str:
        return f"{self.word:<4}  {self.about}: {self.text}"


def use_env_file_of_ini() -> None:
    """Load the variables of the file that `vnc_env_file` names in this directory's ini file.

    VNC_USE_ENV_FILE comes first: if it names a file, this does nothing. Raises SettingsError.
    """
    if not os.environ.get(VARIABLE):
        use_env_file(IniFile.find(Path.cwd()).options.get("vnc_env_file"), Path.cwd())


def diagnose(settings: Settings, *, typing: bool = True) -> Iterator[Finding]:
    """Check what the settings ask for, and what else there is; yield the findings of a check as soon as it is done.

    Without `typing` no key is pressed on a given desktop. Raises SettingsError if a setting makes no sense.
    """
    means = settings.server.partition(":")[0]
    engine = partial(_container_engine, settings.container_engine)
    checks: list[tuple[str, Callable[[], Iterable[Finding]]]] = [
        ("versions", _versions),
        ("TigerVNC", partial(_means, "TigerVNC", "xvnc", _tigervnc, asked=means == "xvnc")),
        ("window manager", _window_manager),
        ("Qt", partial(_means, "Qt", "qt", partial(_qt, settings.qt_host_network), asked=means == "qt")),
        ("containers", partial(_means, "containers", "container:IMAGE", engine, asked=means == "container")),
        *(("server", partial(_given_desktop, address, settings, typing)) for address in _addresses(settings.server)),
        ("own desktop", partial(_own_desktop, settings.server, settings.rendering == "pinned")),
        ("vnc_env_file", _env_file),
        ("model", partial(_model, settings)),
        ("langsmith", _langsmith),
    ]
    for about, check in checks:
        yield from _findings(about, check)


def diagnose_asked(settings: Settings) -> Iterator[Finding]:
    """Check only what the settings ask for; press no key on a given desktop. Raises as `diagnose` does."""
    means = settings.server.partition(":")[0]
    checks: list[tuple[str, Callable[[], Iterable[Finding]]]] = [
        *(("server", partial(_given_desktop, address, settings, False)) for address in _addresses(settings.server))
    ]
    if means == "xvnc":
        checks.append(("TigerVNC", partial(_means, "TigerVNC", "xvnc", _tigervnc, asked=True)))
        checks += [
            ("window manager", _window_manager),
            ("own desktop", partial(_own_desktop, "xvnc", settings.rendering == "pinned")),
        ]
    elif means == "qt":
        checks.append(("Qt", partial(_means, "Qt", "qt", partial(_qt, settings.qt_host_network), asked=True)))
    elif means == "container":
        engine = partial(_container_engine, settings.container_engine)
        checks.append(("containers", partial(_means, "containers", "container:IMAGE", engine, asked=True)))
    if settings.planner:
        checks.append(("model", partial(_model, settings)))
    for about, check in checks:
        yield from _findings(about, check)


def _findings(about: str, check: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    try:
        yield from check()
    except SettingsError:
        raise
    except InfraError as exc:
        yield Finding("FAIL", about, str(exc))
    except Exception as exc:  # noqa: BLE001  # a doctor reports what breaks, and the other checks continue
        yield Finding("FAIL", about, f"{type(exc).__name__}: {exc}")


def _addresses(server: str) -> list[str]:
    """Return the addresses that the setting names, none if it names a means to start a desktop."""
    if server.partition(":")[0] in MEANS:
        return []
    return [address.strip() for address in server.split(",") if address.strip()]


def _versions() -> Iterator[Finding]:
    ours = f"pytest-vnc-use {version('pytest-vnc-use')}, Python {platform.python_version()} on {platform.system()}"
    yield Finding("ok", "versions", ", ".join([ours, *(f"{name} {version(name)}" for name in PACKAGES)]))


def _missing(about: str, text: str, *, asked: bool = False) -> Finding:
    return Finding("FAIL" if asked else "--", about, text)


def _means(about: str, option: str, found: Callable[[], str], *, asked: bool) -> Iterator[Finding]:
    """Check a way to start desktops; `found` returns what is there, or raises VncUseError with what would help."""
    from pytest_vnc_use.desktops.started import check_linux

    try:
        check_linux(option, "because its programs are made for it")
        yield Finding("ok", about, f"{found()}, for --vnc-server={option}")
    except VncUseError as exc:
        yield _missing(about, str(exc), asked=asked)


def _tigervnc() -> str:
    from pytest_vnc_use.desktops.xvnc import SERVERS

    found = next(filter(None, map(shutil.which, SERVERS)), "")
    if not found:
        raise DesktopError("not installed: apt-get install tigervnc-standalone-server")
    return found


def _window_manager() -> Iterator[Finding]:
    from pytest_vnc_use.desktops.xvnc import WINDOW_MANAGER

    found = shutil.which(WINDOW_MANAGER[0])
    if found:
        yield Finding("ok", "window manager", found)
    else:
        yield _missing("window manager", f"none, so windows have no frames: apt-get install {WINDOW_MANAGER[0]}")


_QT_DIRS = {"PySide6": "Qt", "PyQt6": "Qt6"}
"""The packages that bring Qt with its platform vnc, and the directory of Qt in each."""


def _qt(qt_open: str) -> str:
    """Return what Qt is there, and who reaches its server. Raises DesktopError; SettingsError where that is refused."""
    name = next((name for name in _QT_DIRS if find_spec(name)), "PySide6")
    try:
        package = importlib.import_module(name)
        qt = importlib.import_module(f"{name}.QtCore").qVersion()
        importlib.import_module(f"{name}.QtGui")
    except ImportError as exc:  # the package, or a library that it needs, is missing
        raise DesktopError(f"{exc}: pip install 'pytest-vnc-use[demo]', apt-get install libegl1 libxkbcommon0") from exc
    plugin = Path(str(package.__file__)).parent / _QT_DIRS[name] / "plugins" / "platforms" / "libqvnc.so"
    if not plugin.exists():
        raise DesktopError(f"{name} with Qt {qt} lacks the platform vnc, {plugin}: reinstall {name}")
    return f"{name} with Qt {qt} and its platform vnc, {_reach_of_qt(qt_open)}"


def _reach_of_qt(qt_open: str) -> str:
    from pytest_vnc_use.desktops.qt import check_network, why_not_closable

    if qt_open == "always" or (qt_open == "true" and why_not_closable()):
        return f"which everybody can reach: vnc_qt_host_network is {qt_open}"
    check_network(may_be_open=False)
    return "which only this user reaches"


def _env_file() -> Iterator[Finding]:
    if text := env_file_in_words():
        yield Finding("ok", "vnc_env_file", text)


def _langsmith() -> Iterator[Finding]:
    ini = IniFile.find(Path.cwd())
    addopts = [*ini.values("addopts"), *shlex.split(os.environ.get("PYTEST_ADDOPTS", ""))]
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
        raise DesktopError(f"no engine answered within {LIMIT_S:g} s: restart it") from exc


def _given_desktop(server: str, settings: Settings, typing: bool) -> Iterator[Finding]:
    from pytest_vnc_use.backends.security import ServerFacts
    from pytest_vnc_use.backends.vnc import connect

    facts, deadline = ServerFacts(), Deadline(LIMIT_S)
    try:
        password = build.given_password(settings)
        wire = build.wire_of(settings)
        controller = connect(server, password, facts=facts, timeout_s=LIMIT_S, type_by=settings.typing, wire=wire)
    except DesktopError as exc:
        remedy = f"; it is read from {settings.password_env}" if isinstance(exc, AuthenticationFailed) else ""
        yield Finding("FAIL", "server", f"{exc}{remedy}")
        yield from _security(facts, opened=isinstance(exc, AuthenticationFailed))
        if (recipe := recipe_of(server, facts)).word == "ok":
            yield recipe
        return
    with closing(controller):
        screen = f"showed its screen of {'x'.join(map(str, facts.size))} after {1000 * deadline.spent_s:.0f} ms"
        yield Finding("ok", "server", f"{server!r} speaks RFB {facts.version}, is named {facts.name!r}, {screen}")
        yield from _security(facts, controller.exposure)
        yield _pixels(facts)
        yield recipe_of(server, facts)
        word, text = check_typing(controller, server) if typing else ("--", "not checked: --no-typing")
        yield Finding(word, "typing", f"{text}; {controller.quirks}")


def _security(facts: ServerFacts, exposure: str = "", *, opened: bool = True) -> Iterator[Finding]:
    """Yield nothing if the server did not get that far."""
    if not facts.security_types:
        return
    offered = ", ".join(facts.security_types)
    offered += f"; VeNCrypt has {', '.join(facts.subtypes)}" if facts.subtypes else ""
    offer = f"offers {offered}; {'used' if opened else 'chosen'} here: {facts.security_used}"
    if facts.security_used in ("", "VeNCrypt"):
        yield Finding("FAIL", "security", f"offers {offered}; this client can use none of them")
    elif exposure:
        yield Finding("--", "security", f"{offer}, nothing is encrypted: {exposure}; {build.PROTECT}")
    elif opened:
        yield Finding("ok", "security", f"{offer}; {facts.protection}" if facts.protection else offer)
    else:
        yield Finding("--", "security", offer)


def _pixels(facts: ServerFacts) -> Finding:
    sent = " and ".join(sorted(facts.encodings))
    clipboard = "confirmed" if facts.extended_clipboard else "not offered"
    return Finding("ok", "pixels", f"{facts.pixel_format}; first frame sent as {sent}; extended clipboard {clipboard}")


def _own_desktop(server: str, pinned: bool) -> Iterator[Finding]:
    """Check a desktop that is started; yield nothing if another one is asked for, or none can be started."""
    from pytest_vnc_use.desktops.xvnc import SERVERS, XvncDesktop

    if server not in ("", "xvnc") or sys.platform != "linux" or not any(map(shutil.which, SERVERS)):
        return
    program = READS_LINES if shutil.which("xterm") else ()
    deadline = Deadline(LIMIT_S)
    desktop = XvncDesktop(program, start_timeout_s=LIMIT_S, pinned=pinned)
    try:
        program_text = "with an xterm" if program else "without a program"
        yield Finding("ok", "own desktop", f"ready {program_text} after {1000 * deadline.spent_s:.0f} ms")
        if not program:
            yield Finding("--", "typing", _NO_XTERM)
            return
        word, text = check_lines(desktop)
        yield Finding(word, "typing", text)
    finally:
        desktop.stop()


def _model(settings: Settings) -> Iterator[Finding]:
    yield from (Finding("--", "model", line) for line in build.fallbacks_in_words(settings.toolset))
    if settings.planner not in ("", "gemini"):
        yield Finding("--", "model", f"--planner={settings.planner} is not checked; doctor checks only Gemini")
        return
    names = [name for name in build.api_keys() if name in build.GEMINI_KEY_VARIABLES]
    if not names:
        problem = f"no API key: export {build.GEMINI_KEY_VARIABLES[0]}=… (from https://aistudio.google.com/apikey)"
        yield _missing("model", problem, asked=bool(settings.planner))
        return
    from pytest_vnc_use.planners.gemini.planner import describe_model

    model = settings.model or build.MODELS["gemini"]
    described = describe_model(model, timeout_s=LIMIT_S)
    if (actions := described.get("supportedGenerationMethods")) and "generateContent" not in actions:
        yield Finding("FAIL", "model", f"the model {model!r} cannot generate content: choose another --model")
    else:
        yield Finding("ok", "model", f"the key in {names[0]} works, and it may use {model!r}")


def recipe_of(address: str, facts: ServerFacts) -> Finding:
    """Return the finding that names the recipe, or says that no server was recognised."""
    name, reason = _recognise(facts)
    if address.startswith(("ws://", "wss://")):
        behind = f"; behind it {name} ({reason})" if name else "; the server behind it is not recognised"
        return Finding("ok", "recipe", f"a WebSocket (its address){behind}: {RECIPES}#websocket")
    if name:
        anchor = name.lower()
        return Finding("ok", "recipe", f"{name} ({reason}): {RECIPES}#{anchor}")
    return Finding("--", "recipe", f"not recognised by what it says about itself; all recipes: {RECIPES}#recipes")


def _recognise(facts: ServerFacts) -> tuple[str, str]:
    """Return the recipe's heading and the reason; both are "" for an unknown server."""
    if facts.version == _APPLE_VERSION:
        return "macOS", f"RFB {_APPLE_VERSION}"
    if facts.name.startswith("QEMU"):
        return "QEMU", "its desktop's name"
    if facts.name == "Qt for Embedded Linux VNC Server":
        return "Qt", "its desktop's name"
    if facts.name == "WayVNC":
        return "wayvnc", "its desktop's name"
    if "Tight" in facts.security_types:
        return "TightVNC", "its security type Tight"
    if facts.extended_clipboard:
        return "TigerVNC", "its extended clipboard"
    if _X11VNC_NAME.fullmatch(facts.name):
        return "x11vnc", "probably: its desktop is named as a host and a display"
    return "", ""
