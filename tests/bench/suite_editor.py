"""A GTK program, mousepad: six tests of the suite's repository.

suite.py copies it there as test_editor.py.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from pytest_vnc_use.types.protocols import Desktop

START = """
printf 'to buy:\\n  tea\\n  salt' >list.txt
mkdir -p .config/glib-2.0/settings
cp {settings} .config/glib-2.0/settings/keyfile
export GSETTINGS_BACKEND=keyfile XDG_CONFIG_HOME="$PWD/.config"
if [ "$(id -u)" = 0 ] && unshare --map-user=1000 true; then
    exec unshare --map-user=1000 mousepad list.txt # as root it would show a warning
fi
exec mousepad list.txt
"""


@pytest.fixture
def vnc_app(program: Path) -> list[str]:
    settings = shlex.quote(str(program / "mousepad.ini"))
    return ["sh", "-c", START.format(settings=settings)]


@pytest.mark.vnc_task("Add milk at the end of the list, and save it", expect=None)
def test_item_is_added(vnc_desktop: Desktop) -> None:
    assert vnc_desktop.read_file("list.txt").split()[-1] == "milk"


@pytest.mark.vnc_task("Add milk", expect="milk is as far to the right as salt")
def test_item_is_indented() -> None:
    pass


@pytest.mark.vnc_task("Put two tabs in front", expect="the first line is at column 16")
def test_line_has_tabs() -> None:
    pass


@pytest.mark.vnc_task("Find the salt", expect="salt is highlighted")
def test_item_is_found() -> None:
    pass


@pytest.mark.vnc_task("Go to line 2", expect="the status bar says line 2")
def test_line_is_reached() -> None:
    pass


@pytest.mark.vnc_task("Replace the list by the word closed, and save it", expect=None)
def test_list_is_replaced(vnc_desktop: Desktop) -> None:
    assert vnc_desktop.read_file("list.txt") == "closed"
