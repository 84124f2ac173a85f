"""Directories that are made once for all workers of pytest-xdist."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], Path]) -> Path:
    """Return the directory `name`, which the first worker that asks for it has `make` make in an empty directory.

    `make` returns the directory to keep, within the empty one. It must hold no path of its own place: it is moved.
    """
    shared = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent  # one directory for each worker lies in it
    with FileLock(shared / f"{name}.lock"):
        if not (shared / name).exists():
            shutil.move(make(factory.mktemp(name)), shared / name)
    return shared / name
