"""The cost of a session's models: one account for all workers, checks of the limits,
and the cost of each test.
"""

from __future__ import annotations

import functools
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_vnc_use.agent import build
from pytest_vnc_use.agent.budget import PREFIX
from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.plugin.state import SETTINGS, ItemState, Notes, workerinput_of

ACCOUNT = pytest.StashKey[Path]()
"""The directory of the session's ledger, if the session has a limit."""
_COSTS = (
    "calls",
    "tokens_in",
    "tokens_cached",
    "tokens_out",
    "calls_uncounted",
    "tokens_estimated",
    "dollars",
)
"""The notes on a test's cost. Cached tokens are input tokens too. Estimated tokens are
those of calls that the service did not count.
"""
_MAX_TESTS = 20


def pytest_configure(config: pytest.Config) -> None:
    """Check the prices, and open the session's account if the session has a limit."""
    settings = config.stash[SETTINGS]
    if settings.prices or settings.max_dollars or settings.session_max_dollars:
        try:
            build.build_budget(settings)
        except SettingsError as exc:
            raise pytest.UsageError(str(exc)) from exc
    limits = (
        settings.session_max_steps,
        settings.session_max_seconds,
        settings.session_max_tokens,
        settings.session_max_dollars,
    )
    if any(limits) or settings.rerecord:
        config.stash[ACCOUNT] = _account(config)


def _account(config: pytest.Config) -> Path:
    """Return the directory that all workers on one machine share; workers on another
    machine share another.
    """
    session = workerinput_of(config).get("vnc_use_account", "")
    if session:
        return Path(tempfile.gettempdir(), session)
    account = Path(tempfile.mkdtemp(prefix=PREFIX))
    remove = functools.partial(shutil.rmtree, account, ignore_errors=True)
    config.add_cleanup(remove)
    return account


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Pass the name of the session's account to a worker of pytest-xdist."""
    if ACCOUNT in node.config.stash:
        node.workerinput["vnc_use_account"] = node.config.stash[ACCOUNT].name


def notes_of(state: ItemState) -> dict[str, Any]:
    """Return the notes on what the test and its rehearsals have cost so far."""
    notes: dict[str, Any] = {}
    spent = state.budget.spent if state.budget else None
    if spent and spent.calls:
        notes["calls"] = spent.calls
        notes["tokens_in"] = spent.usage.input
        notes["tokens_cached"] = spent.usage.cached
        notes["tokens_out"] = spent.usage.output + spent.usage.thinking
        if spent.uncounted:
            notes["calls_uncounted"] = spent.uncounted
            notes["tokens_estimated"] = spent.estimated.tokens
        if not spent.unpriced:
            notes["dollars"] = round(spent.dollars, 6)
    add(notes, state.rehearsed.costs)
    return notes


def add(notes: dict[str, Any], more: Notes) -> None:
    """Add the costs in other notes."""
    for name in _COSTS:
        if name in more:
            notes[name] = notes.get(name, 0) + more[name]


def summary(attempts: Sequence[tuple[str, Notes]]) -> Iterator[str]:
    """Yield the cost of the session's models, and of each attempt at a test that called
    one, from its notes.
    """
    paid = [(test, notes) for test, notes in attempts if notes.get("calls")]
    if not paid:
        return
    costs = dict.fromkeys(_COSTS, 0)
    is_priced = True
    for _, notes in paid:
        add(costs, notes)
        is_priced = is_priced and "dollars" in notes
    dollars = costs["dollars"] if is_priced else None
    yield (
        f"{costs['calls']:,} model calls: {costs['tokens_in']:,} input tokens"
        f" ({costs['tokens_cached']:,} cached), {costs['tokens_out']:,} output"
        f" tokens, {_price(dollars)}"
    )
    if costs["calls_uncounted"]:
        yield (
            f"  the service reported no usage for {costs['calls_uncounted']:,} of"
            f" them; estimated at {costs['tokens_estimated']:,} tokens"
        )
    paid.sort(key=_tokens_in, reverse=True)
    for test, notes in paid[:_MAX_TESTS]:
        price = _price(notes.get("dollars"))
        yield f"  {price} {test}"


def _tokens_in(attempt: tuple[str, Notes]) -> int:
    _, notes = attempt
    tokens: int = notes["tokens_in"]
    return tokens


def _price(dollars: float | None) -> str:
    if dollars is None:
        return "an unknown price"
    return f"${dollars:.4f}"
