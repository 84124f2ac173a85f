from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from support.desks import Served, chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


@pytest.fixture
def served() -> Iterator[Served]:
    made = Served()
    yield made
    made.end()
