"""`cua-vnc doctor`: finds what works here, what does not, and what would help; every check ends within some seconds."""

from __future__ import annotations

import importlib
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pytest_vnc_use import assembly
from pytest_vnc_use.cli.other_plugins import langsmith_in
from pytest_vnc_use.deadline import Deadline, DeadlineExceeded
from pytest_vnc_use.errors import (
    ActionError,
    AuthenticationFailed,
    DesktopError,
    DesktopRefused,
    InfraError,
    SettingsError,
    VncUseError,
)
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import KeyCombo, Move, TypeText, Wait
from pytest_vnc_use.types.protocols import Controller, Desktop

if TYPE_CHECKING:
    from pytest_vnc_use.backends.inspection import ServerFacts
    from pytest_vnc_use.backends.vnc import VNCController

LIMIT_S = 10.0
"""The longest wait for a server, an engine or the model's service."""
PACKAGES = ("pytest", "langgraph", "google-genai", "vncdotool")
MEANS = ("xvnc", "qt", "container")
LINE = "Ab1 ~!@#$%^&*()_+{}|:\"<>?`-=[]\\;',./"
"""A text with every key of a US keyboard that makes a sign, most of them with shift."""
LETTER = "w"
"""The letter that is typed and taken back; as a command it does no harm in vi, less or a shell."""
BEYOND = "é Ω Ж 日 😀"
"""Characters that a US keyboard does not have."""
_BEFORE_S, _SHOWS_S, _TAKEN_BACK_S, _GLANCE_S = 2.2, 2.0, 2.0, 0.1
_FRAMES_AT_REST = 2
"""The most frames of a screen at rest.

A blinking caret makes two; a clock with seconds makes three within `_BEFORE_S`.
"""
_FIFO = "mkfifo line 2>/dev/null"
_READS_LINES = ("xterm", "-u8", "-geometry", "80x24+0+0", "-e", f"{_FIFO}; head -n 2 >line")
_TELLS_THE_LINES = ("sh", "-c", f"{_FIFO}; cat line")
_IN_XTERM = Move(100, 100)
"""A move of the pointer into the xterm: without a window manager, the window under the pointer gets the keys."""

Word = Literal["ok", "--", "FAIL"]


@dataclass(frozen=True)
class Finding:
    """The result of one check: it works, it is missing and was not asked for, or it fails."""

    word: Word
    about: str
    said: str

    def __str__(self) -> str:
        return f"{self.word:<4}  {self.about}: {self.said}"


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
        ("Qt", partial(_means, "Qt", "qt", _qt, asked=means == "qt")),
        ("containers", partial(_means, "containers", "container:IMAGE", engine, asked=means == "container")),
        *(("server", partial(_given, address, settings, typing)) for address in _addresses(settings.server)),
        ("own desktop", partial(_own_desktop, settings.server)),
        ("model", partial(_model, settings)),
        ("langsmith", _langsmith),
    ]
    for about, check in checks:
        yield from _findings(about, check)


def diagnose_asked(settings: Settings) -> Iterator[Finding]:
    """Check only what the settings ask for; press no key on a given desktop. Raises as `diagnose` does."""
    means = settings.server.partition(":")[0]
    checks: list[tuple[str, Callable[[], Iterable[Finding]]]] = [
        *(("server", partial(_given, address, settings, False)) for address in _addresses(settings.server))
    ]
    if means == "xvnc":
        checks.append(("TigerVNC", partial(_means, "TigerVNC", "xvnc", _tigervnc, asked=True)))
        checks += [("window manager", _window_manager), ("own desktop", partial(_own_desktop, "xvnc"))]
    elif means == "qt":
        checks.append(("Qt", partial(_means, "Qt", "qt", _qt, asked=True)))
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


def _missing(about: str, said: str, *, asked: bool = False) -> Finding:
    return Finding("FAIL" if asked else "--", about, said)


def _means(about: str, option: str, found: Callable[[], str], *, asked: bool) -> Iterator[Finding]:
    """Check a way to start desktops; `found` returns what is there, or raises VncUseError with what would help."""
    from pytest_vnc_use.desktops.kinds.local import check_linux

    try:
        check_linux(option, "for which its programs are made")
        yield Finding("ok", about, f"{found()}, for --vnc-server={option}")
    except VncUseError as exc:
        yield _missing(about, str(exc), asked=asked)


def _tigervnc() -> str:
    from pytest_vnc_use.desktops.kinds.xvnc import SERVERS

    found = next(filter(None, map(shutil.which, SERVERS)), "")
    if not found:
        raise DesktopError("not installed: apt-get install tigervnc-standalone-server")
    return found


def _window_manager() -> Iterator[Finding]:
    from pytest_vnc_use.desktops.kinds.xvnc import WINDOW_MANAGER

    found = shutil.which(WINDOW_MANAGER[0])
    if found:
        yield Finding("ok", "window manager", found)
    else:
        yield _missing("window manager", f"none, windows have no frames: apt-get install {WINDOW_MANAGER[0]}")


def _qt() -> str:
    from pytest_vnc_use.desktops.kinds.qt import why_not_closable

    try:
        pyside = importlib.import_module("PySide6")
        importlib.import_module("PySide6.QtGui")
    except ImportError as exc:  # PySide6, or a library that it needs, is missing
        raise DesktopError(f"{exc}: pip install 'pytest-vnc-use[demo]', apt-get install libegl1 libxkbcommon0") from exc
    plugin = Path(str(pyside.__file__)).parent / "Qt" / "plugins" / "platforms" / "libqvnc.so"
    if not plugin.exists():
        raise DesktopError(
            f"PySide6 {pyside.__version__} lacks its platform vnc, {plugin}: reinstall PySide6-Essentials"
        )
    reason = why_not_closable()
    reach = f"which everybody reaches: no network namespace, {reason}" if reason else "which only this user reaches"
    return f"PySide6 {pyside.__version__} with its platform vnc, {reach}"


def _langsmith() -> Iterator[Finding]:
    is_left_out, told = langsmith_in(Path.cwd())
    yield Finding("ok" if is_left_out else "--", "langsmith", told)


def _container_engine(wanted: str) -> str:
    from pytest_vnc_use.desktops.kinds.container_engine import find_engine

    try:
        return f"{Deadline(LIMIT_S).call(partial(find_engine, wanted)).name} answers"
    except DeadlineExceeded as exc:
        raise DesktopError(f"no engine has answered within {LIMIT_S:g} s: restart it") from exc


# --- a given desktop -------------------------------------------------------------------------------------------------


def _given(server: str, settings: Settings, typing: bool) -> Iterator[Finding]:
    from pytest_vnc_use.backends.inspection import ServerFacts, inspect

    facts, deadline = ServerFacts(), Deadline(LIMIT_S)
    try:
        password = os.environ.get(settings.password_env) or None
        controller = inspect(server, password, facts, timeout_s=LIMIT_S, type_by=settings.typing)
    except DesktopError as exc:
        remedy = f"; it is read from {settings.password_env}" if isinstance(exc, AuthenticationFailed) else ""
        yield Finding("FAIL", "server", f"{exc}{remedy}")
        yield from _security(facts)
        return
    with closing(controller):
        shown = f"showed its screen of {'x'.join(map(str, facts.size))} after {1000 * deadline.spent_s:.0f} ms"
        yield Finding("ok", "server", f"{server!r} speaks RFB {facts.version}, is named {facts.name!r}, {shown}")
        yield from _security(facts)
        yield _pixels(facts)
        tried = _typing(controller, server) if typing else Finding("--", "typing", "not tried: --no-typing")
        yield Finding(tried.word, tried.about, f"{tried.said}; {controller.quirks}")


def _security(facts: ServerFacts) -> Iterator[Finding]:
    """Yield nothing if the server did not get so far."""
    from pytest_vnc_use.backends.inspection import SPOKEN

    offered = ", ".join(facts.security_types)
    if facts.security_used:
        yield Finding("ok", "security", f"offers {offered}; used here: {facts.security_used}, nothing is encrypted")
    elif offered:
        yield Finding("FAIL", "security", f"offers {offered}; let it offer {' or '.join(SPOKEN)}, spoken here")


def _pixels(facts: ServerFacts) -> Finding:
    sent = " and ".join(sorted(facts.encodings))
    clipboard = "confirmed" if facts.extended_clipboard else "not offered"
    return Finding("ok", "pixels", f"{facts.pixel_format}; first frame sent as {sent}; extended clipboard {clipboard}")


def _typing(controller: VNCController, server: str) -> Finding:
    """Type a letter, but only if nobody else uses the desktop."""
    from pytest_vnc_use.desktops.sharing.leases import lease

    try:
        held = lease([server], "cua-vnc doctor", timeout_s=0.0)
    except DesktopRefused as exc:
        return Finding("--", "typing", f"not tried, the desktop is in use: {exc}")
    try:
        return _letter_there_and_back(controller)
    finally:
        held.release()


def _letter_there_and_back(controller: VNCController) -> Finding:
    """Type a letter and take it back. Do the same with a pasted character if characters without a key are pasted."""
    before = _at_rest(controller)
    if len(before) > _FRAMES_AT_REST:
        return Finding("--", "typing", "not tried: the screen moves by itself, which would hide what a letter does")
    controller.perform(TypeText(LETTER))
    if all(png in before for png in _glances(controller, _SHOWS_S)):
        return _no_letter(controller, before)
    if not _is_taken_back(controller, before):
        return Finding(
            "FAIL", "typing", f"{LETTER!r} changed the screen, BackSpace did not undo it: focus an empty text field"
        )
    if controller.quirks.text == "clipboard":
        return _pasted_there_and_back(controller, before)
    which = ", which one the desktop's keyboard layout decides," if controller.quirks.text == "ascii" else ""
    return Finding("ok", "typing", f"a letter showed{which} and was taken back")


def _no_letter(controller: VNCController, before: set[bytes]) -> Finding:
    """Return a finding for a letter that did not show: does a pasted character arrive nevertheless?"""
    if controller.quirks.text == "clipboard" and _pasted_there_and_back(controller, before).word == "ok":
        return Finding(
            "FAIL",
            "typing",
            f"the key {LETTER!r} changed nothing, and {BEYOND[0]!r} was pasted: the desktop's keyboard layout has no "
            "Latin letters, give -o vnc_typing=clipboard or set another layout",
        )
    return Finding(
        "--",
        "typing",
        "nothing changed: focus a text field to check typing (a read-only server too takes no keys, and never says so)",
    )


def _pasted_there_and_back(controller: Controller, before: set[bytes]) -> Finding:
    try:
        controller.perform(TypeText(BEYOND[0]))
    except ActionError as exc:
        return Finding("--", "typing", f"a letter showed and was taken back, {BEYOND[0]!r} was not taken: {exc}")
    shown = any(png not in before for png in _glances(controller, _SHOWS_S))
    if shown and _is_taken_back(controller, before):
        return Finding("ok", "typing", f"a letter and {BEYOND[0]!r}, pasted, showed and were taken back")
    return Finding("--", "typing", f"a letter showed and was taken back, {BEYOND[0]!r}, pasted, was not")


def _at_rest(controller: VNCController) -> set[bytes]:
    """Return the frames, as PNG, that show while nothing is done; stop at one more than a caret makes.

    The pointer is moved first: TigerVNC draws it into the screen until the client moves it from where it was.
    """
    width, height = controller.size
    for x in (width // 2, width // 2 - 1):
        controller.perform(Move(x, height // 2))
        controller.frame()
    seen: set[bytes] = set()
    for png in _glances(controller, _BEFORE_S):
        seen.add(png)
        if len(seen) > _FRAMES_AT_REST:
            break
    return seen


def _is_taken_back(controller: Controller, before: set[bytes]) -> bool:
    controller.perform(KeyCombo(("BackSpace",)))
    return any(png in before for png in _glances(controller, _TAKEN_BACK_S))


def _glances(controller: Controller, seconds: float) -> Iterator[bytes]:
    """Yield the screen as PNG, again and again for so many seconds."""
    deadline = Deadline(seconds)
    while deadline.remaining_s:
        yield controller.frame().png
        controller.perform(Wait(_GLANCE_S))


# --- a desktop of our own --------------------------------------------------------------------------------------------


def _own_desktop(server: str) -> Iterator[Finding]:
    """Check a desktop of our own; yield nothing if another one is asked for, or none can be started."""
    from pytest_vnc_use.desktops.kinds.xvnc import SERVERS, XvncDesktop

    if server not in ("", "xvnc") or sys.platform != "linux" or not any(map(shutil.which, SERVERS)):
        return
    program = _READS_LINES if shutil.which("xterm") else ()
    deadline = Deadline(LIMIT_S)
    desktop = XvncDesktop(program, start_timeout_s=LIMIT_S)
    try:
        shown = "with an xterm" if program else "without a program"
        yield Finding("ok", "own desktop", f"ready {shown} after {1000 * deadline.spent_s:.0f} ms")
        yield _lines_typed(desktop) if program else _missing("typing", "needs a program: apt-get install xterm")
    finally:
        desktop.stop()


def _lines_typed(desktop: Desktop) -> Finding:
    """Type one line by keys, and one by the clipboard."""
    from pytest_vnc_use.backends import vnc

    with closing(vnc.connect(desktop.server, desktop.password)) as controller:
        controller.perform(_IN_XTERM)
        controller.perform(TypeText(f"{LINE}\n{BEYOND}", press_enter=True))
        arrived = desktop.run(_TELLS_THE_LINES, timeout_s=LIMIT_S).stdout
    if arrived == f"{LINE}\n{BEYOND}\n":
        said = f"{len(LINE)} signs arrived in xterm as they were typed, {BEYOND!r} by the clipboard"
        return Finding("ok", "typing", f"{said}; {controller.quirks}")
    return Finding("FAIL", "typing", f"typed {LINE!r} and {BEYOND!r}, arrived in xterm {arrived!r}")


# --- the model -------------------------------------------------------------------------------------------------------


def _model(settings: Settings) -> Iterator[Finding]:
    if settings.planner not in ("", "gemini"):
        yield Finding("--", "model", f"whether --planner={settings.planner} answers is not asked here, only Gemini is")
        return
    names = [name for name in assembly.api_keys() if name in assembly.GEMINI_KEY_VARIABLES]
    if not names:
        said = f"no API key: export {assembly.GEMINI_KEY_VARIABLES[0]}=… (from https://aistudio.google.com/apikey)"
        yield _missing("model", said, asked=bool(settings.planner))
        return
    from pytest_vnc_use.planners.common.endpoint import Endpoint, found_key, found_url
    from pytest_vnc_use.planners.gemini.planner import describe_model

    model = settings.model or assembly.MODELS["gemini"]
    described = describe_model(Endpoint(found_key(None), found_url(None)), model, timeout_s=LIMIT_S)
    actions = described.get("supported_actions")
    if actions and "generateContent" not in actions:
        yield Finding("FAIL", "model", f"{model!r} generates no content; give --model one that does")
    else:
        yield Finding("ok", "model", f"the key in {names[0]} works, and {model!r} is there for it")
