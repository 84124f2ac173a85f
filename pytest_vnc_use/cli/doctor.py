"""`cua-vnc doctor`: finds what works here, what does not, and what would help; every check ends within some seconds."""

from __future__ import annotations

import importlib
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vnc_use.agent import build
from pytest_vnc_use.cli.finding import Finding
from pytest_vnc_use.cli.other_plugins import langsmith_in
from pytest_vnc_use.cli.recipes import recipe_of
from pytest_vnc_use.cli.typing_check import LIMIT_S, READS_LINES, check_lines, check_typing
from pytest_vnc_use.deadline import Deadline, DeadlineExceeded
from pytest_vnc_use.errors import (
    AuthenticationFailed,
    DesktopError,
    InfraError,
    SettingsError,
    VncUseError,
)
from pytest_vnc_use.settings.env_file import VARIABLE, env_file_in_words, use_env_file
from pytest_vnc_use.settings.settings import Settings

if TYPE_CHECKING:
    from pytest_vnc_use.backends.client import ServerFacts

PACKAGES = ("pytest", "langgraph", "google-genai", "vncdotool")
MEANS = ("xvnc", "qt", "container")
_NO_XTERM = "not checked: this needs xterm (apt-get install xterm); your own program does not need it"


def use_env_file_of_ini() -> None:
    """Load the variables of the file that `vnc_env_file` names in this folder's ini file.

    VNC_USE_ENV_FILE comes first: if it names a file, this does nothing. Raises SettingsError.
    """
    from pytest_vnc_use.cli.init.ini_files import IniFile  # its package imports this module

    if not os.environ.get(VARIABLE):
        use_env_file(IniFile.find(Path.cwd()).options.get("vnc_env_file"), Path.cwd())


def diagnose(settings: Settings, *, typing: bool = True) -> Iterator[Finding]:
    """Check what the settings ask for, and what else there is; yield the findings of a check as soon as it is done.

    Without `typing` no key is pressed on a given desktop. Raises SettingsError if a setting makes no sense.
    """
    means = settings.server.partition(":")[0]
    engine = partial(_container_engine, settings.engine)
    checks: list[tuple[str, Callable[[], Iterable[Finding]]]] = [
        ("versions", _versions),
        ("TigerVNC", partial(_means, "TigerVNC", "xvnc", _tigervnc, asked=means == "xvnc")),
        ("window manager", _window_manager),
        ("Qt", partial(_means, "Qt", "qt", partial(_qt, settings.qt_open), asked=means == "qt")),
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
        checks.append(("Qt", partial(_means, "Qt", "qt", partial(_qt, settings.qt_open), asked=True)))
    elif means == "container":
        engine = partial(_container_engine, settings.engine)
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
    except Exception as exc:  # noqa: BLE001  # a doctor reports what breaks, and the other checks go on
        yield Finding("FAIL", about, f"{type(exc).__name__}: {exc}")


def _addresses(server: str) -> list[str]:
    """Return the addresses that the setting names, none if it names a means to start a desktop."""
    if server.partition(":")[0] in MEANS:
        return []
    return [address.strip() for address in server.split(",") if address.strip()]


# --- installed programs ----------------------------------------------------------------------------------------------


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


_QT_FOLDERS = {"PySide6": "Qt", "PyQt6": "Qt6"}
"""The packages that bring Qt with its platform vnc, and the folder of Qt in each."""


def _qt(qt_open: str) -> str:
    """Return what Qt is there, and who reaches its server. Raises DesktopError; SettingsError where that is refused."""
    name = next((name for name in _QT_FOLDERS if find_spec(name)), "PySide6")
    try:
        package = importlib.import_module(name)
        qt = importlib.import_module(f"{name}.QtCore").qVersion()
        importlib.import_module(f"{name}.QtGui")
    except ImportError as exc:  # the package, or a library that it needs, is missing
        raise DesktopError(f"{exc}: pip install 'pytest-vnc-use[demo]', apt-get install libegl1 libxkbcommon0") from exc
    plugin = Path(str(package.__file__)).parent / _QT_FOLDERS[name] / "plugins" / "platforms" / "libqvnc.so"
    if not plugin.exists():
        raise DesktopError(f"{name} with Qt {qt} lacks the platform vnc, {plugin}: reinstall {name}")
    return f"{name} with Qt {qt} and its platform vnc, {_reach_of_qt(qt_open)}"


def _reach_of_qt(qt_open: str) -> str:
    from pytest_vnc_use.desktops.qt import check_network, why_not_closable

    if qt_open == "always" or (qt_open == "true" and why_not_closable()):
        return f"which everybody can reach: vnc_qt_open is {qt_open}"
    check_network(may_be_open=False)
    return "which only this user reaches"


def _env_file() -> Iterator[Finding]:
    if text := env_file_in_words():
        yield Finding("ok", "vnc_env_file", text)


def _langsmith() -> Iterator[Finding]:
    is_left_out, text = langsmith_in(Path.cwd())
    yield Finding("ok" if is_left_out else "--", "langsmith", text)


def _container_engine(name: str) -> str:
    from pytest_vnc_use.desktops.container import find_engine

    try:
        return f"{Deadline(LIMIT_S).call(partial(find_engine, name)).name} answers"
    except DeadlineExceeded as exc:
        raise DesktopError(f"no engine answered within {LIMIT_S:g} s: restart it") from exc


# --- a given desktop -------------------------------------------------------------------------------------------------


def _given_desktop(server: str, settings: Settings, typing: bool) -> Iterator[Finding]:
    from pytest_vnc_use.backends.client import ServerFacts
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
        tried = Finding("--", "typing", "not checked: --no-typing")
        if typing:
            tried = check_typing(controller, server)
        yield Finding(tried.word, tried.about, f"{tried.text}; {controller.quirks}")


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


# --- a desktop of our own --------------------------------------------------------------------------------------------


def _own_desktop(server: str, pinned: bool) -> Iterator[Finding]:
    """Check a desktop of our own; yield nothing if another one is asked for, or none can be started."""
    from pytest_vnc_use.desktops.xvnc import SERVERS, XvncDesktop

    if server not in ("", "xvnc") or sys.platform != "linux" or not any(map(shutil.which, SERVERS)):
        return
    program = READS_LINES if shutil.which("xterm") else ()
    deadline = Deadline(LIMIT_S)
    desktop = XvncDesktop(program, start_timeout_s=LIMIT_S, pinned=pinned)
    try:
        program_text = "with an xterm" if program else "without a program"
        yield Finding("ok", "own desktop", f"ready {program_text} after {1000 * deadline.spent_s:.0f} ms")
        yield check_lines(desktop) if program else _missing("typing", _NO_XTERM)
    finally:
        desktop.stop()


# --- the model -------------------------------------------------------------------------------------------------------


def _model(settings: Settings) -> Iterator[Finding]:
    yield from (Finding("--", "model", line) for line in build.fallbacks_in_words(settings.base_url))
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
