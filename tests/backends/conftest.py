"""A TigerVNC desktop for all tests of a module, and chromium on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_vnc_use.backends.browser import Browser
from pytest_vnc_use.backends.vnc import VNCController
from support import vnc_servers
from support.vnc_servers import VncServer
from support.witness_programs import Site, chromium, openbox, site


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests whose fixtures start the desktop or Chromium, before -m
    selects.
    """
    for item in items:
        if item.path.parent == Path(__file__).parent:
            for fixture, mark in (
                ("desktop", "desktop"),
                ("shared_browser", "browser"),
            ):
                if fixture in getattr(item, "fixturenames", ()):
                    item.add_marker(mark)


@pytest.fixture(scope="module")
def desktop() -> Iterator[VncServer]:
    with vnc_servers.tigervnc() as server:
        yield server


@pytest.fixture(scope="module")
def tigervnc() -> Iterator[VncServer]:
    """A second desktop, which has nothing but what a test starts."""
    with vnc_servers.tigervnc() as server:
        yield server


@pytest.fixture(scope="module")
def pages() -> Iterator[Site]:
    with site() as running:
        yield running


@pytest.fixture(scope="module")
def shared_browser(desktop: VncServer, pages: Site) -> Iterator[Browser]:
    with openbox(desktop), chromium(desktop, pages.address) as browser:
        yield browser


@pytest.fixture
def browser(shared_browser: Browser, pages: Site) -> Browser:
    """Chromium on that desktop, at the site's first page."""
    shared_browser.navigate(pages.address)
    pages.reports.clear()
    return shared_browser


@pytest.fixture
def controller(
    desktop: VncServer, connected: Callable[..., VNCController]
) -> VNCController:
    return connected(desktop)
