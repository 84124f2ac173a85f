"""Two worlds in one test: Playwright drives the page, and a sentence the file dialog,
which is no page.

Both drive the same Chromium, on the test's desktop: with `vnc_cdp` pytest-playwright's
`page` is its page.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_vnc_use import VncUseAgent
from pytest_vnc_use.cli.target import browser_command
from pytest_vnc_use.settings.settings import Settings

pytest.importorskip("pytest_playwright", reason="pip install -e '.[playwright]'")
from playwright.sync_api import Page, expect

PAGE = Path(__file__).parent / "upload.html"
START = f"""
echo "see you on Monday" >letter.txt
touch -d 2020-02-02 letter.txt # the dialog shows when a file was changed
exec {browser_command(profile=".profile")} '{PAGE.as_uri()}'
"""


@pytest.fixture
def vnc_settings(vnc_settings: Settings) -> Settings:
    return replace(vnc_settings, cdp=".profile/DevToolsActivePort")


@pytest.fixture
def vnc_app() -> list[str]:
    return ["sh", "-c", START]


@pytest.mark.needs("chromium", package="chromium")
def test_letter_is_sent(page: Page, vnc_agent: VncUseAgent) -> None:
    page.get_by_label("To").fill("all")
    page.get_by_label("Letter").click()
    vnc_agent.run("Choose the file letter.txt in the dialog", expect=None)
    expect(page.locator("output")).to_have_text("letter.txt says: see you on Monday")
    expect(page.get_by_label("To")).to_have_value("all")
