from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.desks import Served, chromium
from support.vnc_servers import require_package


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def served() -> Iterator[Served]:
    made = Served()
    yield made
    made.end()


@pytest.fixture
def violations() -> Callable[[Any], int]:
    """`violations(page)`: how many rules of accessibility a page breaks."""
    axe = require_package("axe_playwright_python.sync_playwright").Axe()
    return lambda page: int(axe.run(page).violations_count)
