"""Fixtures for every room: real VNC servers, and programs on them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
import vnc_servers
from vnc_servers import VncServer

from pytest_vnc_use.backends.vnc import VNCController

LONGEST_TEST_S = 150


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Nothing hangs, no test either."""
    for item in items:
        item.add_marker(pytest.mark.timeout(LONGEST_TEST_S))


@pytest.fixture
def tigervnc() -> Iterator[VncServer]:
    """An empty TigerVNC desktop of 1024 x 768 pixels, without a password."""
    with vnc_servers.tigervnc() as server:
        yield server


@pytest.fixture
def tightvnc() -> Iterator[VncServer]:
    """The same of TightVNC."""
    with vnc_servers.tightvnc() as server:
        yield server


@pytest.fixture
def x11vnc() -> Iterator[VncServer]:
    """The same of x11vnc, before an Xvfb."""
    with vnc_servers.x11vnc() as server:
        yield server


@pytest.fixture(params=vnc_servers.STARTERS)
def x_desktop(request: pytest.FixtureRequest) -> Iterator[VncServer]:
    """Each of the three in turn."""
    with vnc_servers.STARTERS[request.param]() as server:
        yield server


@pytest.fixture
def connected() -> Iterator[Callable[..., VNCController]]:
    """Connects to a server, as `backends.vnc.connect` does, and closes the connection after the test."""
    from pytest_vnc_use.backends.vnc import connect

    with contextlib.ExitStack() as stack:
        yield lambda server, *args, **options: stack.enter_context(closing(connect(server.address, *args, **options)))
