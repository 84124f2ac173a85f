"""Hooks that a conftest.py or another plugin can implement."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_vnc_use.types import Step


@pytest.hookspec
def pytest_vnc_step(item: pytest.Item, step: Step) -> None:
    """Receive each step of a run of the test `item`, in the process that runs the test; secrets are taken out."""
