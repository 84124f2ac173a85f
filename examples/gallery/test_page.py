"""A page in Chromium: it is driven by its pixels, and read through DevTools."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_vnc_use.cli.target import browser_command
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types.protocols import Desktop

PAGE = Path(__file__).parent / "order.html"


@pytest.fixture
def vnc_settings(vnc_settings: Settings) -> Settings:
    return replace(vnc_settings, cdp="profile/DevToolsActivePort")


@pytest.fixture
def vnc_app() -> list[str]:
    return [*shlex.split(browser_command()), PAGE.as_uri()]


@pytest.mark.needs("chromium", package="chromium")
@pytest.mark.vnc_task("Order 3 pears", expect=None)
def test_order_is_taken(vnc_desktop: Desktop) -> None:
    assert "3 × pears will be sent" in vnc_desktop.browser.text()
