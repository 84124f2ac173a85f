"""The names of recordings that several tests share."""

from __future__ import annotations

import re
from typing import TypeGuard

from pytest_vnc_use.errors import SettingsError

SHARED = "shared"
"""The directory of the recordings that have a name, in the place of a test file's."""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}")


def is_name(value: object) -> TypeGuard[str]:
    """Return whether a value may be the name of a recording."""
    return isinstance(value, str) and bool(_NAME.fullmatch(value))


def name_in(test: str) -> str:
    """Return the name in the test of a named recording, such as `shared::sign_in`; ""
    for a test's own.
    """
    module, _, name = test.partition("::")
    return name if module == SHARED else ""


def check_name(value: object) -> str:
    """Return the name of a recording, "" for none. Raises SettingsError."""
    if value == "" or is_name(value):
        return str(value)
    raise SettingsError(
        f"recording must be a name of letters, digits, - and _, got {value!r}"
    )
