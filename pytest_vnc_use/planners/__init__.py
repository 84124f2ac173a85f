"""Planners and judges. A custom planner needs the names below; they are loaded on first
use.

A provider is a module, or a directory if its tools or answers need a separate module:
calls to actions, observation to request, answer to decision, and its judge. `common/`
has the HTTP client, the reader of toolsets and of arguments, the base of judges, the
prompts.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_vnc_use.planners.local.callables import (
        ActingPlanner as ActingPlanner,
        finish as finish,
        give_up as give_up,
        key as key,
        scroll as scroll,
    )
    from pytest_vnc_use.planners.local.scripted import (
        AT_ITS_END as AT_ITS_END,
        ScriptedPlanner as ScriptedPlanner,
    )

_MODULES = {
    "ActingPlanner": "local.callables",
    "finish": "local.callables",
    "give_up": "local.callables",
    "key": "local.callables",
    "scroll": "local.callables",
    "AT_ITS_END": "local.scripted",
    "ScriptedPlanner": "local.scripted",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
