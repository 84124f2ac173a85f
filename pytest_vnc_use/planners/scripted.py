"""Moved to `pytest_vnc_use.planners.local.scripted`; this name goes away with the next version."""

import warnings

from pytest_vnc_use.planners.local.scripted import (
    AT_ITS_END as AT_ITS_END,
    ScriptedPlanner as ScriptedPlanner,
)

warnings.warn(
    "pytest_vnc_use.planners.scripted is now pytest_vnc_use.planners.local.scripted", DeprecationWarning, stacklevel=2
)
