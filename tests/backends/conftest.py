"""A TigerVNC desktop for all tests of a module, and chromium on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import vnc_servers
from vnc_servers import VncServer

pytest.register_assert_rewrite("witnesses")
from witnesses import Page, chromium_page  # noqa: E402


@pytest.fixture(scope="module")
def desktop() -> Iterator[VncServer]:
    """A TigerVNC desktop of 1024 x 768 pixels."""
    with vnc_servers.tigervnc() as server:
        yield server


@pytest.fixture(scope="module")
def chromium(desktop: VncServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """Chromium filling that desktop with the witness page."""
    with chromium_page(desktop, tmp_path_factory.mktemp("profile")) as page:
        yield page
