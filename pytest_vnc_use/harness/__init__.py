"""A harness for custom agents: `Agent` with `act` and `run`, its actions, and the files
that a run leaves.
"""

from pytest_vnc_use.harness.custom_agent import (
    ERROR_FILE as ERROR_FILE,
    EXECUTION_FILE as EXECUTION_FILE,
    PARTIAL_EXECUTION_FILE as PARTIAL_EXECUTION_FILE,
    Agent as Agent,
    record_action as record_action,
)
from pytest_vnc_use.harness.mouse_actions import (
    MouseButton as MouseButton,
    MouseClickAction as MouseClickAction,
    MouseClickType as MouseClickType,
    MouseDragAction as MouseDragAction,
    Position as Position,
    ScrollAction as ScrollAction,
    ScrollDirection as ScrollDirection,
)
