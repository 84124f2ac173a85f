"""Chromium under Playwright, for pages that this project serves or writes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from support.vnc_servers import require, require_package


@contextmanager
def chromium() -> Iterator[Any]:
    """Chromium under Playwright, whose driver does not even start in a bare system."""
    found = next(
        filter(
            None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))
        ),
        "",
    )
    if not found:
        require("chromium")
    with require_package("playwright.sync_api").sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=found, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield browser
        browser.close()
