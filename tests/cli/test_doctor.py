"""`cua-vnc doctor`: against real servers and a fake server for the model's service, in a process of its own."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_vnc_use.backends.vnc import VNCController
from pytest_vnc_use.cli import main
from pytest_vnc_use.cli.doctor import Finding, diagnose
from pytest_vnc_use.cli.typing_check import LINE
from pytest_vnc_use.desktops import qt
from pytest_vnc_use.desktops.external import lease
from pytest_vnc_use.settings.settings import Settings
from support import vnc_servers
from support.forked_python import run_python
from support.gemini_server import GeminiServer
from support.vnc_servers import VncServer, require, require_package, require_pyside

GREETS_OTHERWISE = b"SSH-2.0-OpenSSH_9.2\r\n"


@dataclass(frozen=True)
class Told:
    code: int
    out: str
    err: str


@pytest.fixture
def doctor(capsys: pytest.CaptureFixture[str]) -> Callable[..., Told]:
    """The command with these arguments."""
    return lambda *arguments: Told(main(["doctor", *arguments]), *capsys.readouterr())


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key or password of the person who runs the tests."""
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY", "VNC_USE_PASSWORD", "VNC_USE_SERVER"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The directory that is all there is on PATH: no program is installed."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def finding(settings: Settings, about: str, *, typing: bool = False) -> Finding:
    """The one finding about something."""
    (found,) = (found for found in diagnose(settings, typing=typing) if found.about == about)
    return found


@pytest.mark.container
@pytest.mark.desktop
def test_desktop_of_its_own_is_started_and_typed_into(tmp_path: Path) -> None:
    require("Xtigervnc")
    require("xterm")
    done = run_python("pytest_vnc_use.cli", "doctor", env={**os.environ, "TMPDIR": str(tmp_path)}, timeout=400)
    assert (done.returncode, done.stderr) == (0, "")
    assert "ok    own desktop: ready with an xterm after" in done.stdout
    assert f"ok    typing: typing {len(LINE)} characters and pasting 'é Ω Ж 日 😀' works" in done.stdout
    assert done.stdout.splitlines()[-1] == "all that was asked for works"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("has_platform", "word"), [(True, "ok    Qt: PyQt6 with Qt 6.9.1 and its platform vnc"), (False, "FAIL  Qt: PyQt6")]
)
def test_pyqt_brings_platform_too(tmp_path: Path, has_platform: bool, word: str) -> None:
    """A fake server for its wheel, in a process that finds no PySide6."""
    platforms = tmp_path / "PyQt6" / "Qt6" / "plugins" / "platforms"
    platforms.mkdir(parents=True)
    for name, text in {"__init__": "", "QtGui": "", "QtCore": "def qVersion(): return '6.9.1'"}.items():
        (tmp_path / "PyQt6" / f"{name}.py").write_text(text)
    if has_platform:
        (platforms / "libqvnc.so").touch()
    hidden = (
        "import sys; from importlib import util; found = util.find_spec\n"
        "util.find_spec = lambda name, *rest: None if name == 'PySide6' else found(name, *rest)\n"
        "from pytest_vnc_use.cli import main; sys.exit(main(['doctor', '--vnc', 'qt']))"
    )
    env = {
        **os.environ,
        "PYTHONPATH": str(tmp_path),
        "VNC_USE_QT_HOST_NETWORK": "true",
    }  # no network namespace is needed
    done = subprocess.run(
        [sys.executable, "-c", hidden], env=env, capture_output=True, text=True, timeout=400, check=False
    )
    assert word in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("settings", "word", "said"),
    [
        (Settings(server="qt"), "FAIL", "allows no network namespace to protect it (unshare: refused). Allow"),
        (Settings(server="winbox::1"), "--", "behind a firewall, -o vnc_qt_host_network=true"),
        (Settings(server="qt", qt_host_network="true"), "ok", "which everybody can reach: vnc_qt_host_network is true"),
        (
            Settings(server="qt", qt_host_network="always"),
            "ok",
            "which everybody can reach: vnc_qt_host_network is always",
        ),
    ],
)
def test_qt_that_nothing_protects_is_refused_as_by_pytest(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, word: str, said: str
) -> None:
    require_pyside()
    monkeypatch.setattr(qt, "why_not_closable", lambda: "unshare: refused")
    found = next(found for found in diagnose(settings, typing=False) if found.about == "Qt")
    assert (found.word, said in found.text) == (word, True), str(found)


@pytest.mark.desktop
@pytest.mark.usefixtures("bare")
def test_what_is_missing_is_told_with_what_installs_it() -> None:
    found = {found.about: found for found in diagnose(Settings())}
    assert "own desktop" not in found
    for about, remedy in {
        "TigerVNC": "apt-get install tigervnc-standalone-server",
        "window manager": "apt-get install openbox",
        "containers": "apt-get install podman",
        "model": "export GOOGLE_API_KEY=",
    }.items():
        assert found[about].word == "--"
        assert remedy in found[about].text


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize(
    ("arguments", "failed"),
    [
        (["--vnc", "xvnc"], "TigerVNC"),
        (["--vnc", "container:desktop"], "containers"),
        (["--planner", "gemini"], "model"),
        (["--model", "gemini-3.8-flash"], "model"),
    ],
)
def test_what_is_missing_and_asked_for_fails(doctor: Callable[..., Told], arguments: list[str], failed: str) -> None:
    told = doctor(*arguments)
    assert told.code == 1
    assert f"FAIL  {failed}: " in told.out
    assert told.out.splitlines()[-1] == f"does not work: {failed}"


def test_what_container_engine_says_is_told(bare: Path) -> None:
    require_package("python_on_whales")
    engine = bare / "docker"
    engine.write_text("#!/bin/sh\necho 'Cannot connect to the Docker daemon' >&2\nexit 1\n")
    engine.chmod(0o755)
    found = finding(Settings(), "containers")
    assert "docker cannot list containers: Cannot connect to the Docker daemon" in found.text
    assert "podman is not on PATH" in found.text


@pytest.mark.desktop
def test_given_server_is_described(doctor: Callable[..., Told], tigervnc: VncServer) -> None:
    told = doctor("--vnc", tigervnc.address, "--no-typing")
    assert told.code == 0, told.out
    assert f"ok    server: '{tigervnc.address}' speaks RFB 3.8, is named " in told.out
    assert "screen of 1024x768" in told.out
    assert "ok    security: offers None; used here: None" in told.out
    assert "depth 24; first frame sent as Cursor and Tight" in told.out
    assert "; extended clipboard confirmed" in told.out
    assert "--    typing: not checked: --no-typing; ASCII goes by keys, lines with anything else by the" in told.out
    assert "own desktop" not in told.out


@pytest.mark.desktop
@pytest.mark.parametrize(
    ("password", "code", "said"),
    [
        ("sesame", 0, "VncAuth; used here: VncAuth"),
        ("close", 1, "refused the password: Authentication failure; it is read from DOOR"),
        ("", 1, "wants a password, but none is set; it is read from DOOR"),
    ],
    ids=["right", "wrong", "none"],
)
def test_password_is_read_from_variable_named(
    doctor: Callable[..., Told],
    monkeypatch: pytest.MonkeyPatch,
    guarded: VncServer,
    password: str,
    code: int,
    said: str,
) -> None:
    monkeypatch.setenv("DOOR", password)
    told = doctor("--vnc", guarded.address, "--no-typing", "--password-env", "DOOR")
    assert told.code == code
    assert said in told.out
    assert "ok    security: offers VeNCrypt, VncAuth" in told.out
    assert not password or password not in told.out


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VncServer]:
    """A TigerVNC desktop whose password is sesame."""
    file = vnc_servers.password_file(tmp_path_factory.mktemp("password"), "sesame")
    with vnc_servers.tigervnc(password_file=file) as server:
        yield server


@pytest.mark.desktop
def test_server_that_speaks_other_security_types_only() -> None:
    with vnc_servers.tigervnc(options=["-SecurityTypes", "TLSNone"]) as server:
        found = finding(Settings(server=server.address), "security")
    assert found == Finding(
        "FAIL", "security", "offers VeNCrypt; VeNCrypt has TLSNone; this client can use none of them"
    )


@contextmanager
def greeting(words: bytes) -> Iterator[str]:
    """The address of a server that says so much and no more."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def greet() -> None:
            connection, _ = listener.accept()
            with connection, suppress(ConnectionError):
                connection.sendall(words)
                connection.recv(1)

        thread = threading.Thread(target=greet)
        thread.start()
        yield f"127.0.0.1::{listener.getsockname()[1]}"
        thread.join()


def test_server_no_vnc_server(doctor: Callable[..., Told]) -> None:
    with greeting(GREETS_OTHERWISE) as address:
        told = doctor("--vnc", address)
    assert told.code == 1
    assert "does not speak VNC as expected: invalid initial server response bytearray(b'SSH-2.0-Open')" in told.out


def test_server_of_first_protocol_chooses_security_type_itself() -> None:
    with greeting(b"RFB 003.003\n" + b"\0\0\0\2" + bytes(16)) as address:
        found = finding(Settings(server=address), "security")
    assert found == Finding("ok", "security", "offers VncAuth; used here: VncAuth")


def test_recipe_of_server_that_only_its_own_viewer_can_open() -> None:
    with greeting(b"RFB 003.889\n" + bytes([4, 30, 33, 35, 36])) as address:
        found = {each.about: each for each in diagnose(Settings(server=address), typing=False)}
    assert (found["security"].word, found["recipe"].word) == ("FAIL", "ok")
    assert "offers Apple, type 33, type 35, type 36; this client can use none of them" in found["security"].text
    assert found["recipe"].text.startswith("macOS (RFB 3.889): ")


@pytest.mark.container
@pytest.mark.desktop
def test_interrupted_doctor_shows_no_traceback() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(30)
        address = f"127.0.0.1::{listener.getsockname()[1]}"
        command = [sys.executable, "-m", "pytest_vnc_use.cli", "doctor", "--vnc", address]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            connection, _ = listener.accept()
            with connection:
                process.send_signal(signal.SIGINT)
                out, err = process.communicate(timeout=30)
    assert (process.returncode, out.splitlines()[-1], err) == (130, "interrupted", "")


@pytest.mark.parametrize(
    ("address", "said"),
    [
        (lambda: f"127.0.0.1::{vnc_servers.free_port()}", "Connection refused"),
        (lambda: "no.such.host.invalid::5901", "DNS lookup failed"),
        (lambda: "/no/such/socket", "there is no unix socket '/no/such/socket'"),
    ],
    ids=["refused port", "no such host", "no such socket"],
)
def test_server_not_there(address: Callable[[], str], said: str) -> None:
    found = finding(Settings(server=address()), "server")
    assert found.word == "FAIL"
    assert said in found.text


@pytest.mark.desktop
def test_every_given_server_is_looked_at(tigervnc: VncServer) -> None:
    both = Settings(server=f"/no/such/socket,{tigervnc.address}")
    assert [found.word for found in diagnose(both, typing=False) if found.about == "server"] == ["FAIL", "ok"]


def test_address_that_makes_no_sense_is_wrong_usage(doctor: Callable[..., Told]) -> None:
    told = doctor("--vnc", "host:first")
    assert told.code == 2
    assert "or a socket's path, got 'host:first'" in told.err


@contextmanager
def xterm(server: VncServer, directory: Path, program: str, *options: str) -> Iterator[None]:
    """A program in an xterm that is under the pointer; it runs when the block begins."""
    require("xterm")
    ready = directory / "ready"
    os.mkfifo(ready)
    with server.run("xterm", "-u8", "-geometry", "150x50+0+0", *options, "-e", f"echo >{ready}; {program}"):
        ready.read_bytes()
        yield


@pytest.mark.slow
@pytest.mark.container
@pytest.mark.desktop
@pytest.mark.parametrize(
    ("program", "word", "said"),
    [
        ("cat", "ok", "typing a letter and pasting 'é' work; ASCII goes by keys, lines with"),
        ("stty -echo; cat", "--", "typing changed nothing: focus a text field to check typing (a read-only"),
        (
            "stty erase q; cat",
            "FAIL",
            "'w' changed the screen, but BackSpace did not undo it: focus an empty text field",
        ),
        ("while :; do date +%N; sleep 0.1; done", "--", "not checked: the screen moves"),
    ],
    ids=["a line", "no echo", "no erasing", "moving"],
)
def test_letter_is_typed_and_taken_back(
    tigervnc: VncServer, tmp_path: Path, program: str, word: str, said: str
) -> None:
    with xterm(tigervnc, tmp_path, program):
        found = finding(Settings(server=tigervnc.address), "typing", typing=True)
    assert found.word == word
    assert said in found.text


@pytest.mark.slow
@pytest.mark.container
@pytest.mark.desktop
def test_program_that_takes_no_paste(tigervnc: VncServer, tmp_path: Path) -> None:
    no_paste = ("-xrm", "*VT100.translations: #override Shift <KeyPress> Insert: ignore()")
    with xterm(tigervnc, tmp_path, "cat", *no_paste):
        found = finding(Settings(server=tigervnc.address), "typing", typing=True)
    assert found.word == "--"
    assert "typing a letter works; pasting 'é' failed: no program fetched the text" in found.text


@pytest.mark.slow
@pytest.mark.container
@pytest.mark.desktop
def test_server_without_clipboard(x11vnc: VncServer, tmp_path: Path) -> None:
    with xterm(x11vnc, tmp_path, "cat"):
        found = finding(Settings(server=x11vnc.address), "typing", typing=True)
    said = "typing small letters, capitals and \" ' ^ ` ~ works; the desktop's keyboard layout decides which others do"
    assert found == Finding("ok", "typing", f"{said}; ASCII goes by keys, nothing else can be typed")


@pytest.mark.slow
@pytest.mark.desktop
@pytest.mark.parametrize(
    ("options", "setting", "said"),
    [
        ((), ("xdotool", "key", "Caps_Lock"), "'w' arrived as 'W': Caps Lock is on"),
        # without this option only the first text of some is wrong
        (["-nomodtweak"], ("setxkbmap", "us", "intl"), "arrived as fewer characters: .* layout has dead keys"),
    ],
    ids=["Caps Lock", "dead keys"],
)
def test_keys_changed_by_desktop_fail_typing(
    tmp_path: Path, options: Sequence[str], setting: Sequence[str], said: str
) -> None:
    with vnc_servers.x11vnc(options=options) as server:
        server.output_of(*setting)
        with xterm(server, tmp_path, "cat"):
            found = finding(Settings(server=server.address), "typing", typing=True)
    assert found.word == "FAIL"
    assert re.search(said, found.text)


@pytest.mark.slow
@pytest.mark.container
@pytest.mark.desktop
def test_read_only_server() -> None:
    with vnc_servers.tigervnc(options=["-AcceptKeyEvents=0", "-AcceptPointerEvents=0"]) as server:
        found = finding(Settings(server=server.address), "typing", typing=True)
    assert found.word == "--"
    assert "(a read-only server drops keys too, without an error)" in found.text


@pytest.mark.slow
@pytest.mark.container
@pytest.mark.desktop
def test_keyboard_layout_without_latin_letters(
    tigervnc: VncServer, connected: Callable[..., VNCController], tmp_path: Path
) -> None:
    """TigerVNC makes keys for about 20 of them."""
    tigervnc.output_of("setxkbmap", "ru")
    with xterm(tigervnc, tmp_path, "cat"):
        hands = connected(tigervnc)
        hands.move(100, 100)
        hands.type_text("abcdefghijklmnopqrstuvwxyz", press_enter=True)
        hands.settle()
        lost = finding(Settings(server=tigervnc.address), "typing", typing=True)
        pasted = finding(Settings(server=tigervnc.address, typing="clipboard"), "typing", typing=True)
    assert lost.word == "FAIL"
    assert "The keyboard layout has no Latin letters: set vnc_typing=clipboard" in lost.text
    assert pasted == Finding("ok", "typing", "typing a letter works; all text goes by the clipboard")


@pytest.mark.container
@pytest.mark.desktop
def test_pasting_into_server_that_has_no_clipboard_is_wrong_usage(
    doctor: Callable[..., Told], x11vnc: VncServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VNC_USE_TYPING", "clipboard")
    told = doctor("--vnc", x11vnc.address)
    assert told.code == 2
    assert "this VNC server has no extended clipboard" in told.err


@pytest.mark.desktop
def test_desktop_in_use_is_not_typed_into(tigervnc: VncServer) -> None:
    held = lease([tigervnc.address], "tests/test_shop.py::test_basket", timeout_s=0)
    try:
        found = finding(Settings(server=tigervnc.address), "typing", typing=True)
    finally:
        held.release()
    assert found.word == "--"
    assert f"by tests/test_shop.py::test_basket (process {os.getpid()})" in found.text


@pytest.fixture
def gemini(bare: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GeminiServer]:
    """The service, and its key in the environment."""
    with GeminiServer() as server:
        monkeypatch.setenv("GEMINI_API_KEY", server.api_key)
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
        yield server


def test_key_that_works_costs_nothing(doctor: Callable[..., Told], gemini: GeminiServer) -> None:
    told = doctor("--model", "gemini-3.7-flash")
    assert told.code == 0, told.out
    assert "ok    model: the key in GEMINI_API_KEY works, and it may use 'gemini-3.7-flash'" in told.out
    assert gemini.requests == []


@pytest.mark.usefixtures("gemini")
def test_key_refused_fails_and_is_not_shown(doctor: Callable[..., Told], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "AIza-a-bad-key")
    told = doctor()
    assert told.code == 1
    assert "FAIL  model: the API key is missing or was refused: 400 INVALID_ARGUMENT: API key not valid." in told.out
    assert "AIza-a-bad-key" not in told.out + told.err


@pytest.mark.usefixtures("gemini")
def test_model_not_there_fails(doctor: Callable[..., Told]) -> None:
    told = doctor("--model", "gemini-0")
    assert told.code == 1
    assert "404 NOT_FOUND: models/gemini-0 is not found for API version v1beta" in told.out


def test_model_that_generates_nothing_fails(gemini: GeminiServer) -> None:
    gemini.methods = ("embedContent",)
    found = finding(Settings(), "model")
    assert found.word == "FAIL"
    assert "cannot generate content" in found.text


@pytest.mark.usefixtures("gemini")
def test_service_not_there_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", f"http://127.0.0.1:{vnc_servers.free_port()}")
    found = finding(Settings(), "model")
    assert found.word == "FAIL"
    assert "the model's service cannot be reached" in found.text


@pytest.mark.usefixtures("bare")
def test_key_that_no_model_needs_may_be_missing(doctor: Callable[..., Told]) -> None:
    told = doctor()
    assert told.code == 0
    assert "--    model: no API key: export GOOGLE_API_KEY=" in told.out


def test_variables_of_file_are_named(doctor: Callable[..., Told], bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(bare)
    (bare / "pytest.ini").write_text("[pytest]\nvnc_env_file = .env\n")
    (bare / ".env").write_text("SHOP_PASSWORD=the value\n")
    told = doctor()
    assert "vnc_env_file: read from the file: SHOP_PASSWORD" in told.out
    assert "the value" not in told.out + told.err
    (bare / ".env").write_text("the value\n")
    told = doctor()
    assert (told.code, "line 1, must be NAME=value" in told.err, "the value" in told.err) == (2, True, False)
