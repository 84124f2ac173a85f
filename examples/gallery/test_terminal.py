"""A program in a terminal: nano in xterm."""

from __future__ import annotations

import pytest

from pytest_vnc_use.types.protocols import Desktop


@pytest.fixture
def vnc_app() -> list[str]:
    edit = (
        r"printf 'apples\npears\n' >list.txt; nano --ignorercfiles list.txt; echo bye;"
        r" exec cat"
    )
    return ["xterm", "-geometry", "80x24+60+60", "-e", "sh", "-c", edit]


@pytest.mark.needs("xterm", "nano", package="xterm nano")
@pytest.mark.vnc_task(
    "Put bread below the apples on the list, save it and leave the editor", expect=None
)
def test_list_is_edited(vnc_desktop: Desktop) -> None:
    assert vnc_desktop.read_file("list.txt") == "apples\nbread\npears\n"
