"""The cost of a session's models: one account for all workers, checks of the limits, and the cost of each test.

A plugin, registered by on_demand.py.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.plugin.session_results import DOLLARS
from pytest_vnc_use.plugin.stash import BUDGET, SETTINGS
from pytest_vnc_use.settings.settings import Settings

if TYPE_CHECKING:
    from pytest_vnc_use.agent.budget import Budget, Spent

ACCOUNT = pytest.StashKey[Path]()
"""The folder of the session's ledger, if the session has a limit."""
CALLS, INPUT, CACHED, OUTPUT = "vnc_calls", "vnc_tokens_in", "vnc_tokens_cached", "vnc_tokens_out"
"""Properties of a test beside its cost: calls of models, and tokens. The cached tokens are among the input tokens."""
UNCOUNTED, RECKONED = "vnc_calls_uncounted", "vnc_tokens_reckoned"
"""Properties for calls whose usage the service did not count: their number, and the tokens that they may have used."""
_OF_SPENDING = (CALLS, INPUT, CACHED, OUTPUT, UNCOUNTED, RECKONED, DOLLARS)
_MOST_TESTS = 20


def pytest_configure(config: pytest.Config) -> None:
    """Check the prices, and open the session's account if the session has a limit."""
    settings = config.stash[SETTINGS]
    if settings.prices or settings.dollars or settings.max_dollars:
        _check_prices(settings)
    if settings.max_steps or settings.max_seconds or settings.max_tokens or settings.max_dollars:
        config.stash[ACCOUNT] = _account(config)


def _check_prices(settings: Settings) -> None:
    from pytest_vnc_use.agent import build

    try:
        build.build_budget(settings)
    except SettingsError as exc:
        raise pytest.UsageError(str(exc)) from exc


def _account(config: pytest.Config) -> Path:
    """Return the folder that all workers on one machine share; workers on another machine share one there."""
    session: str = getattr(config, "workerinput", {}).get("vnc_use_account", "")
    if session:
        return Path(tempfile.gettempdir(), session)
    from pytest_vnc_use.agent.budget import PREFIX
    from pytest_vnc_use.plugin.owned_folder import OwnedFolder

    account = OwnedFolder(PREFIX)
    config.add_cleanup(account.close)
    return account.path


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of pytest-xdist the name of its session's account."""
    if ACCOUNT in node.config.stash:
        node.workerinput["vnc_use_account"] = node.config.stash[ACCOUNT].name


def budget_of(item: pytest.Item, settings: Settings) -> Budget:
    """Return the budget of one test. Raises SettingsError."""
    from pytest_vnc_use.agent import build
    from pytest_vnc_use.agent.budget import Ledger

    folder = item.config.stash.get(ACCOUNT, None)
    item.stash[BUDGET] = build.build_budget(settings, Ledger(folder) if folder else None)
    return item.stash[BUDGET]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item) -> None:
    """Note, before each report is made, the cost of the test's phases so far; the report includes it."""
    if BUDGET in item.stash:
        others = [each for each in item.user_properties if each[0] not in _OF_SPENDING]
        item.user_properties[:] = [*others, *_properties(item.stash[BUDGET].spent)]


def add(item: pytest.Item, report: pytest.TestReport, properties: Iterable[tuple[str, object]]) -> None:
    """Add what a rehearsal of the test spent to the properties of the test and of its report."""
    more: dict[str, Any] = {name: value for name, value in properties if name in _OF_SPENDING}
    if not more:
        return
    before: dict[str, Any] = dict(item.user_properties)
    summed = [(name, before.get(name, 0) + value) for name, value in more.items()]
    for noted in (item.user_properties, report.user_properties):
        noted[:] = [*(each for each in noted if each[0] not in more), *summed]


def _properties(spent: Spent) -> Iterator[tuple[str, object]]:
    if not spent.calls:
        return
    yield CALLS, spent.calls
    yield INPUT, spent.usage.input
    yield CACHED, spent.usage.cached
    yield OUTPUT, spent.usage.output + spent.usage.thinking
    if spent.uncounted:
        yield UNCOUNTED, spent.uncounted
        yield RECKONED, spent.reckoned.tokens
    if not spent.unpriced:
        yield DOLLARS, round(spent.dollars, 6)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Report the cost of the session's models, and of each of its tests."""
    from pytest_vnc_use.plain_text import line

    paid = [*_attempts_with_cost(terminalreporter)]
    if not paid:
        return
    names = (CALLS, INPUT, CACHED, OUTPUT, UNCOUNTED, RECKONED)
    counts = {name: sum(properties.get(name, 0) for _, properties in paid) for name in names}
    dollars = [properties.get(DOLLARS) for _, properties in paid]
    terminalreporter.write_line(
        f"vnc-use: {counts[CALLS]:,} calls of models, {counts[INPUT]:,} tokens in ({counts[CACHED]:,} of them cached), "
        f"{counts[OUTPUT]:,} out: {_price(None if None in dollars else sum(filter(None, dollars)))}"
    )
    if counts[UNCOUNTED]:
        terminalreporter.write_line(
            f"vnc-use:   the service reported no usage for {counts[UNCOUNTED]:,} of them; estimated at "
            f"{counts[RECKONED]:,} tokens"
        )
    for nodeid, properties in sorted(paid, key=lambda each: -each[1][INPUT])[:_MOST_TESTS]:
        terminalreporter.write_line(line(f"vnc-use:   {_price(properties.get(DOLLARS))} {nodeid}"))


def _attempts_with_cost(terminalreporter: pytest.TerminalReporter) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each attempt at a test that called a model, with the properties of its most complete report."""
    most: dict[tuple[str, int], dict[str, Any]] = {}
    for report in itertools.chain(*terminalreporter.stats.values()):
        properties = dict(getattr(report, "user_properties", ()))
        attempt = getattr(report, "nodeid", ""), getattr(report, "rerun", 0)  # as pytest-rerunfailures counts
        if properties.get(CALLS, 0) > most.get(attempt, {}).get(CALLS, 0):
            most[attempt] = properties
    for (nodeid, _), properties in most.items():
        yield nodeid, properties


def _price(dollars: float | None) -> str:
    return "an unknown price" if dollars is None else f"${dollars:.4f}"
