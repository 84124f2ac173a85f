"""A run performed by hand."""

from __future__ import annotations

import pytest

from support.conversations import History


@pytest.fixture
def history() -> History:
    return History()
