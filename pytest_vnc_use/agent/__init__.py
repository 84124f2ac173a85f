"""The agent: run a task, judge a claim, keep a budget. `VncUseAgent` is loaded on first
use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_vnc_use.agent.agent import VncUseAgent as VncUseAgent


def __getattr__(name: str) -> Any:
    if name != "VncUseAgent":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pytest_vnc_use.agent.agent import VncUseAgent

    return VncUseAgent
