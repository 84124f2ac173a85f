"""Policies: the actions that are allowed when no user is at the keyboard."""

from __future__ import annotations

from typing import Any

from pytest_vnc_use.safety.rules import Policy as Policy, Rule as Rule


def approve(agent: Any, run_id: str = "") -> Any:
    """Have an agent perform the action for which a run of it waits:
    `VncUseAgent.approve`.
    """
    return agent.approve(run_id)


def deny(agent: Any, run_id: str = "") -> Any:
    """Have an agent deny the action for which a run of it waits: `VncUseAgent.deny`."""
    return agent.deny(run_id)
