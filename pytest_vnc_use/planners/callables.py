"""Moved to `pytest_vnc_use.planners.local.callables`; this name goes away with the next version."""

import warnings

from pytest_vnc_use.planners.local.callables import (
    ActingPlanner as ActingPlanner,
    CallablePlanner as CallablePlanner,
    as_planner as as_planner,
    finish as finish,
    give_up as give_up,
    key as key,
    scroll as scroll,
)

warnings.warn(
    "pytest_vnc_use.planners.callables is now pytest_vnc_use.planners.local.callables", DeprecationWarning, stacklevel=2
)
