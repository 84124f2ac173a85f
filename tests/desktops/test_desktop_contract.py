"""The port Desktop: what every desktop does, however it came to be."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from pytest_vnc_use.desktops.external import ExternalDesktop
from pytest_vnc_use.desktops.program import greets_at
from pytest_vnc_use.desktops.xvnc import XvncDesktop
from pytest_vnc_use.errors import ActionError, DesktopError, SettingsError
from pytest_vnc_use.types.protocols import Desktop
from support.containers import started_container
from support.qt_desktop import QtDesktop
from support.vnc_servers import require

pytestmark = [pytest.mark.container, pytest.mark.desktop]

Wish = Callable[[Desktop], object]
WISHES: dict[str, Wish] = {
    "read": lambda desktop: desktop.read_file("list.txt"),
    "write": lambda desktop: desktop.write_file("list.txt", "apples"),
    "run": lambda desktop: desktop.run(["cat", "list.txt"]),
}


def started_by(means: str, request: pytest.FixtureRequest) -> Desktop:
    if means == "qt":
        return QtDesktop(request.getfixturevalue("qt_program"))
    if means == "container":
        return started_container("xterm")
    require("Xtigervnc")
    require("xterm")
    return XvncDesktop(["xterm"])


@pytest.fixture(params=["qt", "xvnc", "container"])
def started(request: pytest.FixtureRequest) -> Iterator[Desktop]:
    """Each desktop that is started here, with a program."""
    desktop = started_by(request.param, request)
    yield desktop
    desktop.stop()


@pytest.fixture(params=["address", "qt", "xvnc", "container"])
def desktop(request: pytest.FixtureRequest) -> Iterator[Desktop]:
    """Every desktop."""
    desktop = ExternalDesktop("lab-7:1") if request.param == "address" else started_by(request.param, request)
    yield desktop
    desktop.stop()


def test_it_says_where_it_is_and_stops_twice(desktop: Desktop) -> None:
    assert desktop.server
    assert desktop.password is None or len(desktop.password) == 8
    assert desktop.program_fault() == ""
    desktop.stop()
    desktop.stop()
    assert desktop.program_fault() == ""


@pytest.mark.parametrize("wish", WISHES.values(), ids=WISHES.keys())
def test_what_it_cannot_do_is_a_desktop_error(desktop: Desktop, wish: Wish) -> None:
    desktop.stop()
    with pytest.raises(DesktopError, match=r"cannot (read|write|run)"):
        wish(desktop)


def test_files_and_commands_meet_in_one_folder(started: Desktop) -> None:
    started.write_file("list.txt", "Äpfel\n")
    ran = started.run(["sh", "-c", "cat list.txt; echo plums > more.txt; echo no >&2; exit 7"])
    assert (ran.exit_code, ran.stdout, ran.stderr) == (7, "Äpfel\n", "no\n")
    assert started.read_file("more.txt") == "plums\n"


def test_half_surrogate_pair_is_refused(started: Desktop) -> None:
    started.write_file("list.txt", "before")
    with pytest.raises(ActionError, match=r"cannot write 'list.txt': .* got '\\ud83d' \(U\+D83D\) as character 4"):
        started.write_file("list.txt", "hi \ud83d")
    assert started.read_file("list.txt") == "before"
    with pytest.raises(SettingsError, match=r"a command must be text, got .*'\\ud83d' \(U\+D83D\)"):
        started.run(["echo", "hi \ud83d"])


def test_a_command_that_cannot_start_or_end_is_an_error(started: Desktop) -> None:
    with pytest.raises(DesktopError, match="cannot start 'no-such-command'"):
        started.run(["no-such-command"])
    with pytest.raises(DesktopError, match=r"did not end within 0.1 s"):
        started.run(["sleep", "60"], timeout_s=0.1)


def test_a_command_that_a_signal_ends_says_so(started: Desktop) -> None:
    assert started.run(["sh", "-c", "kill -9 $$"]).exit_code == -9


def test_a_qt_desktop_has_no_screen_before_its_program(qt_program: list[str]) -> None:
    desktop = QtDesktop()
    try:
        with pytest.raises(DesktopError, match="the desktop has no screen yet: launch a program first"):
            assert desktop.server
        desktop.launch(qt_program)
        assert greets_at(desktop.server, 5.0)
    finally:
        desktop.stop()
