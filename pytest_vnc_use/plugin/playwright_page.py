"""Playwright's `page` in the Chromium of the test's desktop, with `vnc_cdp` and
pytest-playwright.

A plugin where that one is loaded. Its fixtures come before those of pytest-playwright,
and leave tests whose desktop has no such browser to them. This module does not import
Playwright: it gets its objects from fixtures.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vnc_use import clock
from pytest_vnc_use.agent import leasing
from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.plugin.state import needs_desktop, state_of

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

_MAX_CALLS = 1000


@pytest.fixture
def context(request: pytest.FixtureRequest) -> Iterator[BrowserContext]:
    """Return the context of the browser on the test's desktop; without a desktop,
    pytest-playwright's.
    """
    if not _is_on_desktop(request):
        yield request.getfixturevalue("context")
        return
    engine = request.getfixturevalue("browser_name")
    if engine != "chromium":
        raise SettingsError(
            "the browser on a desktop is driven through Chrome's DevTools, but this"
            f" test asks for {engine!r}. Mark it with"
            " @pytest.mark.only_browser('chromium')"
        )
    playwright = request.getfixturevalue("playwright")
    settings = request.getfixturevalue("vnc_settings")
    desktop = request.getfixturevalue("vnc_desktop")
    url = leasing.devtools_url(settings, desktop)
    # without Playwright's defaults a download, a file dialog and the focus are as a
    # user has them
    browser = playwright.chromium.connect_over_cdp(url, no_defaults=True)
    try:
        calls = state_of(request.node).playwright_calls
        with _noting_calls(type(browser), calls):
            yield browser.contexts[0]
    finally:
        browser.close()  # only the connection: the browser belongs to the desktop


@contextmanager
def _noting_calls(kind: type, calls: list[str]) -> Iterator[None]:
    """Note each call that waits. All calls pass through one private method; if a
    version of Playwright lacks it, none is noted.
    """
    for base in kind.__mro__:
        wait_for = vars(base).get("_sync")
        if wait_for:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(base, "_sync", _note_calls(wait_for, calls))
                yield
            return
    yield


@pytest.fixture
def page(request: pytest.FixtureRequest, context: BrowserContext) -> Page:
    """Return the page that the browser on the desktop shows; without a desktop, a new
    one of pytest-playwright.
    """
    if not _is_on_desktop(request):
        default_page: Page = request.getfixturevalue("page")
        return default_page
    pages = context.pages or [context.new_page()]
    if len(pages) > 1:
        for page in pages:
            if page.evaluate("document.visibilityState") == "visible":
                return page
    return pages[0]


def _is_on_desktop(request: pytest.FixtureRequest) -> bool:
    if not needs_desktop(request.node):
        return False
    return bool(request.getfixturevalue("vnc_settings").cdp)


def _note_calls(
    wait_for: Callable[[Any, Any], Any],
    calls: list[str],
) -> Callable[[Any, Any], Any]:
    """Return the method that also notes each call: when, what, and how long it took."""

    def noting(self: Any, call: Any) -> Any:
        __tracebackhide__ = True
        name = getattr(call, "__qualname__", type(self).__name__)
        started_at = clock.utc_now().astimezone()
        started_s = clock.monotonic()
        end = ""
        try:
            return wait_for(self, call)
        except BaseException as exc:
            end = f", {type(exc).__name__}"
            raise
        finally:
            if len(calls) < _MAX_CALLS:
                at = f"{started_at:%H:%M:%S}.{started_at.microsecond // 1000:03d}"
                seconds = clock.monotonic() - started_s
                calls.append(f"{at} {name}, {seconds:.2f} s{end}")

    return noting


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Put the calls of Playwright into the test's report."""
    try:
        return (yield)
    finally:
        if calls := state_of(item).playwright_calls:
            item.add_report_section("call", "playwright", "\n".join(calls))
