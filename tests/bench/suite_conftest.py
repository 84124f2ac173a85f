"""What the tests of the suite share; suite.py copies it as their conftest.py."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture
def program(request: pytest.FixtureRequest) -> Path:
    """The directory of the programs under test; a bug is in those of one test alone."""
    programs = Path(os.environ["SUITE_PROGRAMS"])
    of_test = programs / request.node.name
    return of_test if of_test.exists() else programs
