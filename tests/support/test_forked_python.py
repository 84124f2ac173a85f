"""Forked sessions test the package of the session that starts them."""

from __future__ import annotations

import pytest_vnc_use
from support.forked_python import run_python


def test_forked_process_imports_package_under_test() -> None:
    ran = run_python("-c", "import pytest_vnc_use; print(pytest_vnc_use.__file__)", timeout=400)
    assert ran.stdout.strip() == pytest_vnc_use.__file__
