"""Moved to `pytest_vnc_use.planners.local.person_judge`; this name goes away with the next version."""

import warnings

from pytest_vnc_use.planners.local.person_judge import (
    AtTheKeyboard as AtTheKeyboard,
)

warnings.warn(
    "pytest_vnc_use.planners.keyboard_judge is now pytest_vnc_use.planners.local.person_judge",
    DeprecationWarning,
    stacklevel=2,
)
