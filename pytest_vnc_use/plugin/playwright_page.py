"""Playwright's `page` in the Chromium of the test's desktop, with `vnc_cdp` and pytest-playwright.

A plugin where that one is loaded. Its fixtures come before those of pytest-playwright, and leave tests whose desktop
has no such browser to them. This module does not import Playwright: it gets its objects from fixtures.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vnc_use import clock
from pytest_vnc_use.agent import build
from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.plugin.state import needs_desktop, state_of

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

NAMES = ("playwright", "pytest_playwright.pytest_playwright")
"""The names of pytest-playwright as a plugin: by its entry point, and by `-p`."""
_MAX_CALLS = 1000


@pytest.fixture
def context(request: pytest.FixtureRequest) -> Iterator[BrowserContext]:
    """Return the context of the browser on the test's desktop; without a desktop, pytest-playwright's."""
    if not _is_on_desktop(request):
        yield request.getfixturevalue("context")
        return
    engine = request.getfixturevalue("browser_name")
    if engine != "chromium":
        raise SettingsError(
            f"the browser on a desktop is driven through Chrome's DevTools, but this test asks for {engine!r}. "
            "Mark it with @pytest.mark.only_browser('chromium')"
        )
    playwright = request.getfixturevalue("playwright")
    url = build.devtools_url(request.getfixturevalue("vnc_settings"), request.getfixturevalue("vnc_desktop"))
    # without Playwright's defaults a download, a file dialog and the focus are as a user has them
    browser = playwright.chromium.connect_over_cdp(url, no_defaults=True)
    # each call that waits passes through one method, which is private; where another version has none, none is noted
    base = next((kind for kind in type(browser).__mro__ if "_sync" in vars(kind)), None)
    try:
        with pytest.MonkeyPatch.context() as patch:
            if base is not None:
                patch.setattr(base, "_sync", _note_calls(vars(base)["_sync"], state_of(request.node).playwright_calls))
            yield browser.contexts[0]
    finally:
        browser.close()  # only the connection: the browser belongs to the desktop


@pytest.fixture
def page(request: pytest.FixtureRequest, context: BrowserContext) -> Page:
    """Return the page that the browser on the desktop shows; without a desktop, a new one of pytest-playwright."""
    if not _is_on_desktop(request):
        default_page: Page = request.getfixturevalue("page")
        return default_page
    pages = context.pages or [context.new_page()]
    visible = (page for page in pages[1:] and pages if page.evaluate("document.visibilityState") == "visible")
    return next(visible, pages[0])


def _is_on_desktop(request: pytest.FixtureRequest) -> bool:
    return needs_desktop(request.node) and bool(request.getfixturevalue("vnc_settings").cdp)


def _note_calls(wait_for: Callable[[Any, Any], Any], calls: list[str]) -> Callable[[Any, Any], Any]:
    """Return the method that also notes each call: when, what, and how long it took."""

    def noting(self: Any, call: Any) -> Any:
        __tracebackhide__ = True
        name = getattr(call, "__qualname__", type(self).__name__)
        started_at, started_s, end = clock.utc_now().astimezone(), clock.monotonic(), ""
        try:
            return wait_for(self, call)
        except BaseException as exc:
            end = f", {type(exc).__name__}"
            raise
        finally:
            if len(calls) < _MAX_CALLS:
                at = f"{started_at:%H:%M:%S}.{started_at.microsecond // 1000:03d}"
                calls.append(f"{at} {name}, {clock.monotonic() - started_s:.2f} s{end}")

    return noting


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Put the calls of Playwright into the test's report."""
    try:
        return (yield)
    finally:
        if calls := state_of(item).playwright_calls:
            item.add_report_section("call", "playwright", "\n".join(calls))
