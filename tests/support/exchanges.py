"""A list that keeps the exchanges with a model."""

from __future__ import annotations

from pytest_vnc_use.types import ModelExchange, Report


def into(exchanges: list[ModelExchange]) -> Report:
    """Return a report that keeps the exchanges, and not what is told before each of them."""
    return lambda event: exchanges.append(event) if isinstance(event, ModelExchange) else None
