"""`cua-vnc doctor`: against real servers and a fake server for the model's service, in
a process of its own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_vnc_use.cli import doctor as doctor_module, main
from pytest_vnc_use.cli.doctor import Finding, diagnose
from pytest_vnc_use.cli.typing_check import LINE
from pytest_vnc_use.desktops import qt
from pytest_vnc_use.desktops.external import lease
from pytest_vnc_use.settings.settings import Settings
from support import vnc_servers
from support.forked_python import run_python
from support.gemini_server import GeminiServer
from support.rfb_server import playing
from support.vnc_servers import VncServer, require, require_pyside


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str


@pytest.fixture
def doctor(capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """The command with these arguments."""
    return lambda *arguments: Result(main(["doctor", *arguments]), *capsys.readouterr())


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key or password of the user who runs the tests."""
    for name in (
        "GOOGLE_API_KEY",
        "GEMINI_API_KEY",
        "VNC_USE_PASSWORD",
        "VNC_USE_SERVER",
    ):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The only directory on PATH, which is empty: no program is installed."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def finding(settings: Settings, about: str, *, typing: bool = False) -> Finding:
    """The one finding about something."""
    (found,) = (
        found for found in diagnose(settings, typing=typing) if found.about == about
    )
    return found


@pytest.mark.container
@pytest.mark.desktop
def test_managed_desktop_is_started_and_typed_into(tmp_path: Path) -> None:
    require("Xtigervnc")
    require("xterm")
    done = run_python(
        "pytest_vnc_use.cli",
        "doctor",
        env={**os.environ, "TMPDIR": str(tmp_path)},
        timeout=400,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "ok    managed desktop: ready with an xterm after" in done.stdout
    assert (
        f"ok    typing: typing {len(LINE)} characters and pasting 'é Ω Ж 日 😀' works"
        in done.stdout
    )
    assert done.stdout.splitlines()[-1] == "all that was asked for works"
    # a container engine without root keeps directories of its own there
    assert not list(tmp_path.glob("vnc-use-*"))


@pytest.mark.parametrize(
    ("settings", "word", "text"),
    [
        (
            Settings(server="qt"),
            "FAIL",
            "allows no network namespace to protect it (unshare: refused). Allow",
        ),
        (
            Settings(server="winbox::1"),
            "--",
            "behind a firewall, -o vnc_qt_host_network=true",
        ),
        (
            Settings(server="qt", qt_host_network="true"),
            "ok",
            "which all users can reach: vnc_qt_host_network is true",
        ),
    ],
)
def test_qt_without_network_namespace_is_rejected(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, word: str, text: str
) -> None:
    require_pyside()
    monkeypatch.setattr(qt, "why_not_closable", lambda: "unshare: refused")
    found = finding(settings, "Qt")
    assert found.word == word
    assert text in found.text


@pytest.mark.parametrize(("server", "word"), [("qt", "ok"), ("xvnc", "--")])
def test_program_may_bring_its_qt(
    monkeypatch: pytest.MonkeyPatch, server: str, word: str
) -> None:
    monkeypatch.setattr(doctor_module, "_QT_DIRS", {"no_such_qt": "Qt"})
    found = finding(Settings(server=server, qt_host_network="always"), "Qt")
    assert found.word == word
    assert "no PySide6 or PyQt6" in found.text


REMEDIES = {
    "TigerVNC": "apt-get install tigervnc-standalone-server",
    "window manager": "apt-get install openbox",
    "containers": "apt-get install podman",
    "model": "export GOOGLE_API_KEY=",
}


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize(
    ("arguments", "failed"),
    [
        ([], None),
        (["--vnc", "xvnc"], "TigerVNC"),
        (["--vnc", "container:desktop"], "containers"),
        (["--model", "gemini-3.8-flash"], "model"),
    ],
)
def test_missing_program_fails_if_asked_for(
    doctor: Callable[..., Result], arguments: list[str], failed: str | None
) -> None:
    result = doctor(*arguments)
    assert result.code == bool(failed)
    words = {
        about: re.findall(f"^(.*?) +{about}: .*{remedy}", result.out, re.MULTILINE)
        for about, remedy in REMEDIES.items()
    }
    expected = dict.fromkeys(REMEDIES, "--")
    if failed:
        expected[failed] = "FAIL"
    assert words == {about: [word] for about, word in expected.items()}
    assert "managed desktop" not in result.out
    last = f"does not work: {failed}" if failed else "all that was asked for works"
    assert result.out.splitlines()[-1] == last


@pytest.mark.desktop
def test_external_server_is_described(
    doctor: Callable[..., Result], tigervnc: VncServer
) -> None:
    result = doctor("--vnc", f"/no/such/socket,{tigervnc.address}", "--no-typing")
    assert result.code == 1, result.out
    assert "FAIL  server: " in result.out
    assert f"ok    server: '{tigervnc.address}' speaks RFB 3.8, is named " in result.out
    assert "screen of 1024x768" in result.out
    assert "ok    security: offers None; used here: None" in result.out
    assert "depth 24; first frame sent as Cursor and Tight" in result.out
    assert "; extended clipboard confirmed" in result.out
    assert (
        "--    typing: not checked: --no-typing; ASCII goes by keys, lines with"
        " anything else by the" in result.out
    )
    assert "managed desktop" not in result.out


@pytest.mark.desktop
@pytest.mark.parametrize(
    ("password", "code", "text"),
    [
        ("sesame", 0, "VncAuth; used here: VncAuth"),
        (
            "close",
            1,
            "refused the password: Authentication failure; it is read from DOOR",
        ),
        ("", 1, "wants a password, but none is set. Set DOOR\n"),
    ],
)
def test_password_is_read_from_named_variable(
    doctor: Callable[..., Result],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    password: str,
    code: int,
    text: str,
) -> None:
    monkeypatch.setenv("DOOR", password)
    file = vnc_servers.password_file(tmp_path, "sesame")
    with vnc_servers.tigervnc(password_file=file) as server:
        result = doctor("--vnc", server.address, "--no-typing", "--password-env=DOOR")
    assert result.code == code
    assert text in result.out
    assert "ok    security: offers VeNCrypt, VncAuth" in result.out
    assert not password or password not in result.out


@pytest.mark.parametrize(
    ("message", "lines"),
    [
        (
            b"SSH-2.0-OpenSSH_9.2\r\n",
            ["is no VNC server: it greets with 'SSH-2.0-OpenSSH_9.2'"],
        ),
        (
            b"RFB 003.003\n" + b"\0\0\0\2" + bytes(16),
            ["ok    security: offers VncAuth; used here: VncAuth"],
        ),
        (
            b"RFB 003.889\n" + bytes([4, 30, 33, 35, 36]),
            [
                (
                    "FAIL  security: offers Apple, type 33, type 35, type 36; this"
                    " client can use none of them"
                ),
                "ok    recipe: macOS (RFB 3.889): ",
            ],
        ),
    ],
    ids=["no VNC server", "RFB 3.3", "macOS"],
)
def test_foreign_server_is_recognised(
    doctor: Callable[..., Result], message: bytes, lines: list[str]
) -> None:
    with playing(message) as address:
        result = doctor("--vnc", address, "--no-typing")
    assert result.code == 1
    assert [line for line in lines if line not in result.out] == []


@pytest.mark.desktop
def test_ncache_of_x11vnc_fails_with_remedy(doctor: Callable[..., Result]) -> None:
    with vnc_servers.x11vnc((640, 480), options=("-ncache", "10")) as server:
        result = doctor("--vnc", server.address)
    assert result.code == 1
    assert "FAIL  server: " in result.out
    assert "640x5760" in result.out
    assert "Restart x11vnc with -ncache 0" in result.out
    assert "ok    recipe: x11vnc" in result.out
    assert "typing" not in result.out


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("127.0.0.1::1", "Connection refused"),
        ("/no/such/socket", "there is no unix socket '/no/such/socket'"),
    ],
)
def test_unreachable_server_fails(address: str, text: str) -> None:
    found = finding(Settings(server=address), "server")
    assert found.word == "FAIL"
    assert text in found.text


def test_malformed_server_is_rejected(doctor: Callable[..., Result]) -> None:
    result = doctor("--vnc", "host:first")
    assert result.code == 2
    assert "or a socket's path, got 'host:first'" in result.err


NO_PASTE = ("-xrm", "*VT100.translations: #override Shift <KeyPress> Insert: ignore()")


@pytest.mark.slow
@pytest.mark.container
@pytest.mark.desktop
@pytest.mark.parametrize(
    ("program", "options", "word", "text"),
    [
        (
            "cat",
            (),
            "ok",
            "typing a letter and pasting 'é' work; ASCII goes by keys, lines with",
        ),
        (
            "cat",
            NO_PASTE,
            "--",
            "typing a letter works; pasting 'é' failed: no program fetched the text",
        ),
        (
            "stty -echo; cat",
            (),
            "--",
            "typing changed nothing: focus a text field to check typing (a read-only",
        ),
    ],
    ids=["field", "no paste", "no echo"],
)
def test_letter_is_typed_and_taken_back(
    tigervnc: VncServer,
    tmp_path: Path,
    program: str,
    options: tuple[str, ...],
    word: str,
    text: str,
) -> None:
    require("xterm")
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    window = ["-u8", "-geometry", "150x50+0+0", *options]
    with tigervnc.run("xterm", *window, "-e", f"echo >{ready}; {program}"):
        ready.read_bytes()
        found = finding(Settings(server=tigervnc.address), "typing", typing=True)
    assert found.word == word
    assert text in found.text


@pytest.mark.desktop
def test_desktop_in_use_is_not_typed_into(tigervnc: VncServer) -> None:
    held = lease([tigervnc.address], "tests/test_shop.py::test_basket", timeout_s=0)
    try:
        found = finding(Settings(server=tigervnc.address), "typing", typing=True)
    finally:
        held.release()
    assert found.word == "--"
    assert f"by tests/test_shop.py::test_basket (process {os.getpid()})" in found.text


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize(
    ("model", "variables", "code", "line"),
    [
        (
            "gemini-3.7-flash",
            {},
            0,
            "ok    model: the key in GEMINI_API_KEY works, and it may use"
            " 'gemini-3.7-flash'",
        ),
        (
            "gemini-0",
            {},
            1,
            "404 NOT_FOUND: models/gemini-0 is not found for API version v1beta",
        ),
        (
            "",
            {"GEMINI_API_KEY": "AIza-a-bad-key"},
            1,
            "FAIL  model: the API key is missing or was rejected: 400 INVALID",
        ),
        (
            "",
            {"GOOGLE_GEMINI_BASE_URL": "http://127.0.0.1:1"},
            1,
            "cannot be reached: ConnectError",
        ),
    ],
    ids=["works", "unknown model", "bad key", "unreachable"],
)
def test_model_is_checked_without_cost(
    doctor: Callable[..., Result],
    monkeypatch: pytest.MonkeyPatch,
    model: str,
    variables: dict[str, str],
    code: int,
    line: str,
) -> None:
    with GeminiServer() as server:
        monkeypatch.setenv("GEMINI_API_KEY", server.api_key)
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        result = doctor(*(["--model", model] if model else []))
    assert result.code == code
    assert line in result.out
    assert server.requests == []
    assert "AIza-a-bad-key" not in result.out + result.err


def test_project_settings_and_variables_are_read(
    doctor: Callable[..., Result], bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(bare)
    (bare / "pytest.ini").write_text(
        "[pytest]\nvnc_env_file = .env\nvnc_server = localhost::1\n"
    )
    (bare / ".env").write_text("SHOP_PASSWORD=the value\n")
    result = doctor()
    assert "vnc_env_file: read from the file: SHOP_PASSWORD" in result.out
    assert "FAIL  server: no VNC connection to 'localhost::1'" in result.out
    assert "the value" not in result.out + result.err
    (bare / ".env").write_text("the value\n")
    result = doctor()
    assert result.code == 2
    assert "line 1, must be NAME=value" in result.err
    assert "the value" not in result.err
