"""The cost of a session's models: one account for all workers, checks of the limits, and the cost of each test."""

from __future__ import annotations

import functools
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_vnc_use.agent import build
from pytest_vnc_use.agent.budget import PREFIX
from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.plugin.state import SETTINGS, ItemState

ACCOUNT = pytest.StashKey[Path]()
"""The directory of the session's ledger, if the session has a limit."""
_COSTS = ("calls", "tokens_in", "tokens_cached", "tokens_out", "calls_uncounted", "tokens_estimated", "dollars")
"""The notes on a test's cost. Cached tokens are input tokens too; estimated ones are estimates for uncounted calls."""
_MAX_TESTS = 20


def pytest_configure(config: pytest.Config) -> None:
    """Check the prices, and open the session's account if the session has a limit."""
    settings = config.stash[SETTINGS]
    if settings.prices or settings.max_dollars or settings.session_max_dollars:
        try:
            build.build_budget(settings)
        except SettingsError as exc:
            raise pytest.UsageError(str(exc)) from exc
    limits = ("max_steps", "max_seconds", "max_tokens", "max_dollars")
    if any(getattr(settings, f"session_{limit}") for limit in limits):
        config.stash[ACCOUNT] = _account(config)


def _account(config: pytest.Config) -> Path:
    """Return the directory that all workers on one machine share; workers on another machine share another."""
    if session := getattr(config, "workerinput", {}).get("vnc_use_account", ""):
        return Path(tempfile.gettempdir(), session)
    account = Path(tempfile.mkdtemp(prefix=PREFIX))
    config.add_cleanup(functools.partial(shutil.rmtree, account, ignore_errors=True))
    return account


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Pass the name of the session's account to a worker of pytest-xdist."""
    if ACCOUNT in node.config.stash:
        node.workerinput["vnc_use_account"] = node.config.stash[ACCOUNT].name


def notes_of(state: ItemState) -> dict[str, Any]:
    """Return the notes on what the test and its rehearsals have cost so far."""
    notes: dict[str, Any] = {}
    if state.budget and (spent := state.budget.spent).calls:
        notes |= {
            "calls": spent.calls,
            "tokens_in": spent.usage.input,
            "tokens_cached": spent.usage.cached,
            "tokens_out": spent.usage.output + spent.usage.thinking,
        }
        if spent.uncounted:
            notes |= {"calls_uncounted": spent.uncounted, "tokens_estimated": spent.estimated.tokens}
        if not spent.unpriced:
            notes["dollars"] = round(spent.dollars, 6)
    add(notes, state.rehearsed_costs)
    return notes


def add(notes: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Add the costs in other notes."""
    notes |= {name: notes.get(name, 0) + more[name] for name in _COSTS if name in more}


def summary(attempts: Sequence[tuple[str, Mapping[str, Any]]]) -> Iterator[str]:
    """Yield the cost of the session's models, and of each attempt at a test that called one, from its notes."""
    paid = [(test, notes) for test, notes in attempts if notes.get("calls")]
    if not paid:
        return
    counts = {name: sum(notes.get(name, 0) for _, notes in paid) for name in _COSTS}
    is_priced = all("dollars" in notes for _, notes in paid)
    yield (
        f"{counts['calls']:,} model calls: {counts['tokens_in']:,} input tokens "
        f"({counts['tokens_cached']:,} cached), {counts['tokens_out']:,} output tokens, "
        f"{_price(counts['dollars'] if is_priced else None)}"
    )
    if counts["calls_uncounted"]:
        yield (
            f"  the service reported no usage for {counts['calls_uncounted']:,} of them; estimated at "
            f"{counts['tokens_estimated']:,} tokens"
        )
    for test, notes in sorted(paid, key=lambda test_notes: -test_notes[1]["tokens_in"])[:_MAX_TESTS]:
        yield f"  {_price(notes.get('dollars'))} {test}"


def _price(dollars: float | None) -> str:
    return "an unknown price" if dollars is None else f"${dollars:.4f}"
