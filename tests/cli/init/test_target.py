"""The answer to the first question: which program, and what shows it."""

from __future__ import annotations

import shlex
import socket
from pathlib import Path

import pytest

from pytest_vnc_use.cli.init.target import read_target
from pytest_vnc_use.errors import SettingsError


@pytest.mark.parametrize(
    ("program", "where", "kind", "server", "app"),
    [
        ("mousepad", "", "xvnc", "xvnc", "mousepad"),
        (" xterm -e nano ", "", "xvnc", "xvnc", "xterm -e nano"),
        ("container:shop:1.2 xterm -e nano", "", "container", "container:shop:1.2", "xterm -e nano"),
        ("container:registry:5000/shop", "", "container", "container:registry:5000/shop", ""),
        ("xterm", "container:shop", "container", "container:shop", "xterm"),
        ("winbox::5900", "", "address", "winbox::5900", ""),
        ("vnc://winbox:5900", "", "address", "vnc://winbox:5900", ""),
        ("winbox:1", "", "address", "winbox:1", ""),
        ("[fe80::1]::5901", "", "address", "[fe80::1]::5901", ""),
        ("a::5901,b::5901", "", "address", "a::5901,b::5901", ""),
        ("notepad.exe", "winbox::5900", "address", "winbox::5900", "notepad.exe"),
        ("viewer --qt", "qt", "qt", "qt", "viewer --qt"),
        ("Grüße --größe 2", "", "xvnc", "xvnc", "Grüße --größe 2"),
    ],
)
def test_a_program_has_its_desktop(tmp_path: Path, program: str, where: str, kind: str, server: str, app: str) -> None:
    target = read_target(program, where, tmp_path)
    assert (target.kind, target.server, target.app) == (kind, server, app)


@pytest.mark.parametrize(("source", "kind"), [("from PySide6 import QtGui", "qt"), ("import tkinter", "xvnc")])
def test_a_script_that_imports_qt_has_qts_own_platform(tmp_path: Path, source: str, kind: str) -> None:
    (tmp_path / "app.py").write_text(f"import sys\n\n{source}\n")
    target = read_target("python app.py --big", "", tmp_path)
    assert (target.kind, target.app) == (kind, "python ./app.py --big")
    assert target.qt_bindings == (("PySide6",) if kind == "qt" else ())


def test_files_are_found_from_the_programs_own_folder(tmp_path: Path) -> None:
    (tmp_path / "my notes.txt").touch()
    (tmp_path / "mousepad").touch()
    assert read_target("mousepad 'my notes.txt'", "", tmp_path).app == "./mousepad './my notes.txt'"


@pytest.mark.parametrize("address", ["http://localhost:8000/a?b=1&c='2'", "https://[::1]/", "file:///tmp/page.html"])
def test_a_web_address_is_shown_on_the_whole_screen(tmp_path: Path, address: str) -> None:
    target = read_target(address, "", tmp_path)
    words = shlex.split(target.app)
    assert (target.kind, target.server, words[-1]) == ("page", "xvnc", address)
    assert {"--kiosk", "--remote-debugging-port=0", "--user-data-dir=profile"} <= set(words)


def test_a_unix_socket_is_an_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("vnc.socket")
        assert read_target("./vnc.socket", "", tmp_path).kind == "address"


@pytest.mark.parametrize(
    ("program", "where", "said"),
    [
        ("", "", "got nothing"),
        ("mouse\npad", "", "one line of printable characters"),
        ("mousepad \x1b[31m", "", "one line of printable characters"),
        ("mousepad \udcff", "", "one line of printable characters"),
        ("echo 'hello", "", "No closing quotation"),
        ("localhost:8000", "", "http://localhost:8000, or a VNC server's, localhost::8000"),
        ("localhost:8000/shop", "", "a web address, http://localhost:8000/shop"),
        ("http://a b", "", "write spaces as %20"),
        ("http://", "", "a web address needs a host, such as http://localhost:8000/, got 'http://'"),
        ("https://:8000/shop", "", "a web address needs a host"),
        ("http://[::1", "", "a web address needs a host"),
        ("file://", "", "a web address needs a path, such as file:///srv/shop.html, got 'file://'"),
        ("https://ann:s3cret@shop.test/", "", "got one before '@shop.test'"),
        ("https://t0ken@shop.test/", "", "a web address must have no name and no password, as it is written into"),
        ("http://localhost", "qt", "shown on --vnc=xvnc"),
        ("container:", "", "an image must be named"),
        ("mousepad", "xvfb", "--vnc must be xvnc, qt, container:IMAGE, host::port or host:display, got 'xvfb'"),
    ],
)
def test_what_is_not_clear_is_refused(tmp_path: Path, program: str, where: str, said: str) -> None:
    with pytest.raises(SettingsError) as told:
        read_target(program, where, tmp_path)
    assert said in str(told.value)
    assert "s3cret" not in str(told.value)
    assert "t0ken" not in str(told.value)
