"""Connections: by each form of an address and a recipe of the docs, how they fail, and
what they leave alone.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import pytest_socket

from pytest_vnc_use.backends.security import ServerFacts
from pytest_vnc_use.backends.vnc import VNCController, connect
from pytest_vnc_use.cli.doctor import diagnose, recipe_of
from pytest_vnc_use.errors import (
    ConnectionLost,
    DesktopRefused,
    SettingsError,
    VncUseError,
)
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import Move, TypeText
from support import vnc_servers
from support.paths import ROOT
from support.rfb_server import playing
from support.vnc_servers import (
    VncServer,
    is_free,
    own_displays,
    require,
    running,
    wait_for,
)


def assert_refused(
    address: str, error: type[VncUseError], message: str, **options: object
) -> None:
    started_s = time.monotonic()
    with pytest.raises(error, match=message):
        connect(address, **options)  # type: ignore[arg-type]
    assert time.monotonic() - started_s < 15.0


@pytest.mark.filterwarnings("ignore:A test tried to use socket")
def test_connect_sockets_blocked_names_what_to_allow() -> None:
    pytest_socket.disable_socket(allow_unix_socket=True)
    try:
        for host in ("localhost", "127.0.0.1"):
            assert_refused(
                f"{host}::5900",
                DesktopRefused,
                "pytest-socket blocks sockets. .* --allow-hosts=HOST",
            )
    finally:
        pytest_socket.enable_socket()


INVALID = {
    **dict.fromkeys(
        ("localhost:one", "[::1:5", "localhost::65536"),
        "a VNC server must be 'host::port'",
    ),
    "5999": "got '5999'. For a port of this machine write 'localhost::5999'$",
    "http://desk:6080/vnc.html?password=geheim": (
        "got the web page 'http://desk:6080/vnc.html'.*'ws://desk:6080/"
    ),
    "vnc://alice:geheim@desk:5900": "must not contain a user name or a password",
    "a..b::5901": "must be an IP address or a host name",
}


@pytest.mark.parametrize(("address", "message"), INVALID.items())
def test_invalid_address_raises_settings_error(address: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message) as refused:
        connect(address)
    assert "geheim" not in str(refused.value)


def test_password_not_ascii_raises_settings_error() -> None:
    with pytest.raises(SettingsError, match="ASCII"):
        connect("127.0.0.1::5900", "geheimß")


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(VNCController.frame, id="frame"),
        pytest.param(VNCController.settle, id="settle"),
        pytest.param(lambda controller: controller.click(1, 1), id="click"),
    ],
)
def test_call_on_closed_connection_raises_connection_lost(
    tigervnc: VncServer, call: Callable[[VNCController], object]
) -> None:
    controller = connect(tigervnc.address)
    controller.close()
    controller.close()
    with pytest.raises(ConnectionLost, match="is closed"):
        call(controller)


CONNECT = (
    "from pytest_vnc_use.backends.vnc import connect; controller ="
    " connect({address!r}); "
)


def python(code: str, server: VncServer) -> subprocess.Popen[bytes]:
    """A strict Python process that is connected to `server` and continues with
    `code`.
    """
    command = [
        sys.executable,
        "-W",
        "error",
        "-c",
        CONNECT.format(address=server.address) + code,
    ]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_server_out_of_reach_is_refused() -> None:
    port = vnc_servers.free_port()
    for address in (f"127.0.0.1::{port}", f"vnc://127.0.0.1:{port}"):
        message = (
            f"no VNC connection to '{address}', host '127.0.0.1', port {port}:"
            " .*refused"
        )
        assert_refused(address, DesktopRefused, message)
    assert_refused(
        "/nonexistent/socket",
        DesktopRefused,
        "there is no unix socket '/nonexistent/socket'",
    )
    # it swallows packets
    assert_refused("198.51.100.1::5900", DesktopRefused, "no", timeout_s=0.5)


def test_server_without_screen_is_refused_in_time() -> None:
    from freezegun import freeze_time

    for greeting in (b"", b"RFB 003.008\n"):
        # a clock that a test stops
        with playing(greeting, then_silent=True) as address, freeze_time("2030-01-02"):
            assert_refused(
                address, DesktopRefused, "showed no screen within", timeout_s=0.5
            )


@pytest.mark.parametrize(
    "form",
    [
        "127.0.0.1::{port}",
        "127.0.0.1:{display}",
        "localhost::{port}",
        "localhost:{display}",
        "localhost:{port}",
        "vnc://localhost:{port}",
        "VNC://127.0.0.1:{port}/",
        "vnc://localhost:{display}",
    ],
)
def test_connect_takes_every_form_of_address(tigervnc: VncServer, form: str) -> None:
    port = int(tigervnc.address.rpartition(":")[2])
    with closing(connect(form.format(port=port, display=port - 5900))) as controller:
        assert controller.size == (1024, 768)


@pytest.mark.parametrize(("password", "used"), [(None, "None"), ("geheim", "VncAuth")])
def test_connect_ipv6_uses_security_of_password(
    tmp_path: Path, password: str | None, used: str
) -> None:
    file = vnc_servers.password_file(tmp_path, "geheim")
    types = ["-SecurityTypes", "VncAuth,None"]
    facts = ServerFacts()
    with vnc_servers.tigervnc(
        interface="::1", password_file=file, options=types
    ) as server:
        port = server.address.rpartition(":")[2]
        connect(f"[::1]::{port}", password, facts=facts).close()
    assert sorted(facts.security_types) == ["None", "VncAuth"]
    assert facts.security_used == used


def test_connected_process_forks_and_exits_at_once(tigervnc: VncServer) -> None:
    code = (
        "import os, sys, time\nif os.fork() == 0:\n    try:"
        f" connect({tigervnc.address!r})\n    except Exception as error:"
        " print(type(error).__name__, 'spawn' in str(error), flush=True)\n   "
        " os._exit(0)\nos.wait(); print(controller.frame().ref.width, sys.excepthook"
        " is sys.__excepthook__, time.time(), flush=True)"
    )
    out, _ = python(code, tigervnc).communicate(timeout=400)
    child, parent = out.splitlines()
    assert (child, parent.split()[:2]) == (b"InfraError True", [b"1024", b"True"])
    assert time.time() - float(parent.split()[2]) < 15.0


def test_import_loads_neither_websockets_nor_reactor() -> None:
    """`twisted.internet.reactor` belongs to the process: the first import decides which
    one it is.
    """
    names = {"websockets", "twisted.internet.reactor"}
    code = (
        f"import sys; from pytest_vnc_use.backends import vnc; print({names} &"
        " sys.modules.keys())"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "set()\n"
    )


def test_ctrl_c_ends_wait_and_no_connection(tigervnc: VncServer) -> None:
    code = (
        "\ntry:\n"
        "    print('ready', flush=True)\n"
        "    while True: controller.wait(60)\n"
        "except KeyboardInterrupt: print(controller.frame().ref.width, flush=True)\n"
        "while True: controller.settle(); controller.move(1, 1)"
    )
    process = python(code, tigervnc)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == b"1024\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert err.rstrip().endswith(b"KeyboardInterrupt")


PAGE = (ROOT / "docs" / "vnc-servers.md").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.desktop
def test_commands_of_tigervnc_recipe_show_desktop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = re.search(
        r"^### TigerVNC\n(?:.*\n)*?```bash\n((?:.*\n)*?)```\n\nThe address is"
        r" .*?`(.+?)`",
        PAGE,
        re.M,
    )
    assert recipe
    for program in ("Xtigervnc", "xterm"):
        require(program)
    number = next(filter(is_free, range(own_displays()[0] + 40, own_displays()[1])))
    commands = re.sub(r"(?<=[:X])41\b", str(number), recipe[1]).replace(
        "5941", str(5900 + number)
    )
    address = recipe[2].replace("5941", str(5900 + number))
    monkeypatch.chdir(tmp_path)
    typed = tmp_path / "typed"
    with running("sh", "-c", commands, environment={"HOME": str(tmp_path)}):
        wait_for(typed.exists, "the start of the program")
        with closing(connect(address)) as controller:
            controller.perform(Move(100, 100))
            controller.perform(TypeText("recipe", press_enter=True))
            wait_for(lambda: typed.read_text() == "recipe\n", "the arrival of the word")
        findings = diagnose(Settings(server=address), typing=False, only_asked=True)
        assert [
            (each.word, "#tigervnc" in each.text)
            for each in findings
            if each.about == "recipe"
        ] == [("ok", True)]


@pytest.mark.parametrize(
    "address", ["localhost::5901", "ws://localhost:6080/websockify"]
)
@pytest.mark.parametrize(
    "facts",
    [
        ServerFacts(name="QEMU (vm)"),
        ServerFacts(name="Qt for Embedded Linux VNC Server"),
        ServerFacts(name="WayVNC"),
        ServerFacts(name="vm:2"),
        ServerFacts(name=""),
        ServerFacts(version="3.889"),
        ServerFacts(security_types=("Tight",)),
        ServerFacts(extended_clipboard=True),
    ],
)
def test_every_recipe_named_is_in_docs(facts: ServerFacts, address: str) -> None:
    lines = [line for line in PAGE.splitlines() if line.startswith("#")]
    headings = {line.lstrip("# ").lower() for line in lines}
    assert recipe_of(address, facts).text.rpartition("#")[2] in headings
