from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import pytest

from support.desks import Served, chromium
from support.vnc_servers import require_package


@pytest.fixture(scope="package")
def launch() -> Iterator[Any]:
    """`launch(**options)` starts a Chromium; all are of one Playwright."""
    with require_package("playwright.sync_api").sync_playwright() as playwright:
        yield partial(chromium, playwright)


@pytest.fixture(scope="package")
def browser(launch: Any) -> Iterator[Any]:
    started: AbstractContextManager[Any] = launch()
    with started as browser:
        yield browser


@pytest.fixture
def served() -> Iterator[Served]:
    made = Served()
    yield made
    made.end()
