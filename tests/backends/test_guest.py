"""The VNC connection is a good guest: it holds up no exit, breaks no Ctrl-C, prints nothing and logs no secret."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_vnc_use.backends.vnc import VNCController
from support.vnc_servers import VncServer
from support.witness_programs import assert_becomes, xterm

pytestmark = pytest.mark.desktop

Connect = Callable[..., VNCController]
CONNECT = "from pytest_vnc_use.backends.vnc import connect; hands = connect({address!r}); "


def python(code: str, server: VncServer) -> subprocess.Popen[bytes]:
    """A strict Python process that is connected to `server` and continues with `code`."""
    command = [sys.executable, "-W", "error", "-c", CONNECT.format(address=server.address) + code]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_process_with_open_connection_exits_at_once(tigervnc: VncServer) -> None:
    code = "import sys, time; hook = sys.excepthook is sys.__excepthook__; print(hook, time.time()); sys.stdout.flush()"
    out, err = python(code, tigervnc).communicate(timeout=400)
    hook, before_s = out.split()
    assert hook == b"True"
    assert time.time() - float(before_s) < 15.0
    assert err == b""


@pytest.mark.parametrize("call", ["wait(60)", "settle()"])
def test_ctrl_c_works(tigervnc: VncServer, call: str) -> None:
    code = f"print('ready', flush=True)\nwhile True: hands.{call}; hands.move(1, 1)"
    process = python(code, tigervnc)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGINT)
    started_s = time.monotonic()
    _, err = process.communicate(timeout=400)
    assert time.monotonic() - started_s < 20.0
    assert process.returncode == -signal.SIGINT
    assert err.rstrip().endswith(b"KeyboardInterrupt")


def test_after_interrupt_connection_still_works(tigervnc: VncServer) -> None:
    code = (
        "import signal, os, threading\n"
        "threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "try: hands.wait(30)\n"
        "except KeyboardInterrupt: print(hands.frame().ref.width)"
    )
    out, err = python(code, tigervnc).communicate(timeout=10)
    assert (out, err) == (b"1024\n", b"")


def test_reactor_of_process_running_holds_nothing_up(tigervnc: VncServer) -> None:
    """pytest-twisted runs tests on the thread of `twisted.internet.reactor`, which they then block."""
    code = (
        "from twisted.internet import reactor\n"
        "from twisted.python.threadable import isInIOThread\n"
        "def work():\n"
        f"    other = connect({tigervnc.address!r}); other.move(9, 9); print(other.frame().ref.width, isInIOThread())\n"
        "    reactor.callLater(0, reactor.stop)\n"
        "print(reactor.running); reactor.callWhenRunning(work); reactor.run(); print(hands.frame().ref.width)"
    )
    out, err = python(code, tigervnc).communicate(timeout=60)
    assert (out, err) == (b"False\n1024 True\n1024\n", b"")


def test_forked_process_is_told(tigervnc: VncServer) -> None:
    code = (
        "import os\n"
        "if os.fork() == 0:\n"
        f"    try: connect({tigervnc.address!r})\n"
        "    except Exception as error: print(type(error).__name__, 'spawn' in str(error), flush=True)\n"
        "    os._exit(0)\n"
        "os.wait(); print(hands.frame().ref.width)"
    )
    out, _ = python(code, tigervnc).communicate(timeout=400)
    assert out == b"InfraError True\n1024\n"


def test_nothing_pasted_is_logged(
    tigervnc: VncServer, connected: Connect, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with xterm(tigervnc, f"cat > {tmp_path}/typed"):
        hands = connected(tigervnc)
        hands.click(50, 50)
        hands.type_text("gehéim", press_enter=True)
        assert_becomes((tmp_path / "typed").read_text, "gehéim\n")
    assert caplog.records == []


def test_killed_server_prints_nothing(
    tigervnc: VncServer, connected: Connect, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    hands = connected(tigervnc)
    os.kill(tigervnc.process.pid, signal.SIGKILL)
    with pytest.raises(Exception, match="was lost"):
        hands.wait(5)
    assert capfd.readouterr() == ("", "")
    assert caplog.records == []
