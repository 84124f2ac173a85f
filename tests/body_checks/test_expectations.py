"""Playwright's `expect(…).to_…`: an assertion, and a look at the page over a connection from before the task."""

from __future__ import annotations

import pytest

from pytest_vnc_use.body_checks.sources import Sources
from pytest_vnc_use.body_checks.whole_functions import function_asserts
from support.vnc_servers import require_package

sync_api = require_package("playwright.sync_api")
expect = sync_api.expect


def asserts(page: object) -> None:
    expect(page).to_have_title("Both")


def asserts_by_its_module(page: object) -> None:
    sync_api.expect(page, "the page is there").not_to_have_title("Neither")


def asserts_perhaps(page: object) -> None:
    if page:
        expect(page).to_have_title("Both")


class Own:
    def to_have_title(self, title: str) -> None:
        """Check nothing."""


def asserts_nothing(page: object) -> None:
    def expect(_: object) -> Own:
        return Own()

    expect(page).to_have_title("Both")


@pytest.mark.parametrize("function", [asserts, asserts_by_its_module])
def test_it_is_an_assertion_over_a_connection(function: object) -> None:
    sources = Sources()
    assert function_asserts(function, {"page": object()}, sources)
    assert sources.connection


@pytest.mark.parametrize("function", [asserts_perhaps, asserts_nothing])
def test_nothing_else_is(function: object) -> None:
    assert not function_asserts(function, {"page": object()}, Sources())
