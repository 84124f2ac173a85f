"""Which files belong to the user's project."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import pytest_vnc_use
from pytest_vnc_use.body_checks.code_places import is_own_file

PACKAGE = Path(pytest_vnc_use.__file__).parent


@pytest.mark.parametrize(
    ("file", "own"),
    [
        (__file__, True),
        (f"{PACKAGE}_tests/test_it.py", True),
        (f"{PACKAGE}/agent/agent.py", False),
        (json.__file__, False),
        (pytest.__file__, False),
        ("/elsewhere/lib/python3.11/site-packages/library/it.py", False),
        ("/usr/lib/python3/dist-packages/library.py", False),
        ("<string>", False),
    ],
)
def test_a_file_is_the_users_own(file: str, own: bool) -> None:
    assert is_own_file(file) is own
