"""A desktop known by its address: a server to connect to, and nothing else."""

from __future__ import annotations

import pytest

from pytest_vnc_use.desktops.address import AddressDesktop
from pytest_vnc_use.errors import DesktopError
from pytest_vnc_use.ports import Desktop


def test_an_address_is_handed_on_as_it_was_given() -> None:
    desktop: Desktop = AddressDesktop("lab-7:1")
    assert desktop.server == "lab-7:1"


def test_a_file_is_out_of_reach_and_the_error_says_what_would_not_be() -> None:
    desktop = AddressDesktop("lab-7:1")
    with pytest.raises(DesktopError, match=r"cannot read the file 'orders.csv': .*'lab-7:1'.*--vnc-server=xvnc"):
        desktop.read_file("orders.csv")
    with pytest.raises(DesktopError, match=r"cannot write the file 'notes.txt'"):
        desktop.write_file("notes.txt", "hello")
    with pytest.raises(DesktopError, match=r"cannot run 'ls -l': .*--vnc-server=xvnc"):
        desktop.run(["ls", "-l"])


def test_stopping_leaves_the_server_alone() -> None:
    desktop = AddressDesktop("lab-7:1")
    desktop.stop()
    desktop.stop()
    assert desktop.server == "lab-7:1"
