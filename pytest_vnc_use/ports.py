"""Moved to `pytest_vnc_use.types.protocols`; this name goes away with the next version."""

import warnings

from pytest_vnc_use.types.protocols import (
    Approver as Approver,
    Controller as Controller,
    Desktop as Desktop,
    Judge as Judge,
    Planner as Planner,
    Ran as Ran,
    Reader as Reader,
    RunObserver as RunObserver,
)

warnings.warn("pytest_vnc_use.ports is now pytest_vnc_use.types.protocols", DeprecationWarning, stacklevel=2)
