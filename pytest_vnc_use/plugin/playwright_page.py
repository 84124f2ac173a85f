"""Playwright's `page` in the Chromium of the test's desktop, with `vnc_playwright` and pytest-playwright.

A plugin where that setting is on. Its fixtures then come before those of pytest-playwright,
and leave tests without a desktop to them. This module does not import Playwright: it gets its objects from fixtures.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vnc_use import clock
from pytest_vnc_use.agent import build
from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.plugin.state import is_ours, state_of

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page, Playwright

_NAMES = ("playwright", "pytest_playwright.pytest_playwright")
"""The names of pytest-playwright as a plugin: by its entry point, and by `-p`."""
_MOST_CALLS = 1000


@pytest.fixture
def context(request: pytest.FixtureRequest) -> Iterator[BrowserContext]:
    """Return the context of the browser on the test's desktop; without a desktop, pytest-playwright's own."""
    if not _is_on_desktop(request):
        yield request.getfixturevalue("context")
        return
    playwright, address = _playwright(request), _devtools_url(request)
    # without Playwright's defaults a download, a file dialog and the focus are as a user has them
    browser = playwright.chromium.connect_over_cdp(address, no_defaults=True)
    try:
        with _noted_calls(request.node, browser):
            yield browser.contexts[0]
    finally:
        browser.close()  # only the connection: the browser belongs to the desktop


@pytest.fixture
def page(request: pytest.FixtureRequest, context: BrowserContext) -> Page:
    """Return the page that the browser on the desktop shows; without a desktop, a new one of pytest-playwright."""
    if not _is_on_desktop(request):
        own: Page = request.getfixturevalue("page")
        return own
    pages = context.pages or [context.new_page()]
    visible = (each for each in pages[1:] and pages if each.evaluate("document.visibilityState") == "visible")
    return next(visible, pages[0])


def _is_on_desktop(request: pytest.FixtureRequest) -> bool:
    return is_ours(request.node) and request.getfixturevalue("vnc_settings").playwright


def _playwright(request: pytest.FixtureRequest) -> Playwright:
    """Return pytest-playwright's Playwright. Raises SettingsError where it cannot drive this desktop's browser."""
    if not any(map(request.config.pluginmanager.has_plugin, _NAMES)):
        raise SettingsError(
            "vnc_playwright needs the plugin pytest-playwright, which is not loaded: "
            "pip install 'pytest-vnc-use[playwright]'"
        )
    engine = request.getfixturevalue("browser_name")
    if engine != "chromium":
        raise SettingsError(
            f"the browser on a desktop is driven through Chrome's DevTools, and this test asks for {engine!r}: "
            "mark it with @pytest.mark.only_browser('chromium')"
        )
    playwright: Playwright = request.getfixturevalue("playwright")
    return playwright


def _devtools_url(request: pytest.FixtureRequest) -> str:
    """Return where the DevTools of the desktop's browser listen, once they do. Raises DesktopError, SettingsError."""
    return build.devtools_url(request.getfixturevalue("vnc_settings"), request.getfixturevalue("vnc_desktop"))


@contextmanager
def _noted_calls(item: pytest.Item, of_playwright: object) -> Iterator[None]:
    """Note each call of Playwright that waits for the browser: when, what, and how long it took.

    They all pass through one method of the base class of Playwright's objects, which is private. Where another version
    has none, nothing is noted.
    """
    base = next((kind for kind in type(of_playwright).__mro__ if "_sync" in vars(kind)), None)
    with pytest.MonkeyPatch.context() as patch:
        if base is not None:
            patch.setattr(base, "_sync", _noting(vars(base)["_sync"], state_of(item).playwright_calls))
        yield


def _noting(wait_for: Callable[[Any, Any], Any], calls: list[str]) -> Callable[[Any, Any], Any]:
    def noting(self: Any, call: Any) -> Any:
        __tracebackhide__ = True
        name = getattr(call, "__qualname__", type(self).__name__)
        began, started, end = clock.utc_now().astimezone(), clock.monotonic(), ""
        try:
            return wait_for(self, call)
        except BaseException as exc:
            end = f", {type(exc).__name__}"
            raise
        finally:
            if len(calls) < _MOST_CALLS:
                calls.append(
                    f"{began:%H:%M:%S}.{began.microsecond // 1000:03d} {name}, {clock.monotonic() - started:.2f} s{end}"
                )

    return noting


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Put the calls of Playwright into the test's report."""
    try:
        return (yield)
    finally:
        if calls := state_of(item).playwright_calls:
            item.add_report_section("call", "playwright", "\n".join(calls))
