"""End-to-end tests of graphical programs, written as plain sentences, run by a vision
model over VNC.

The names below are loaded on first use, so that pytest can import the plugin without
paying for the engine.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_vnc_use.agent.agent import VncUseAgent
    from pytest_vnc_use.errors import VncUseError
    from pytest_vnc_use.safety.rules import Policy
    from pytest_vnc_use.types import Limits, Outcome, RunResult, Verdict

__all__ = [
    "Limits",
    "Outcome",
    "Policy",
    "RunResult",
    "Verdict",
    "VncUseAgent",
    "VncUseError",
]

_MODULES = {
    "VncUseAgent": "agent.agent",
    "VncUseError": "errors",
    "Policy": "safety",
    "Limits": "types",
    "Outcome": "types",
    "RunResult": "types",
    "Verdict": "types",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
