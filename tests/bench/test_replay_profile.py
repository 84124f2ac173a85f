"""The benchmark replay_profile times functions of the package by their names; they exist."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest


def test_timed_functions_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parent)
    bench = runpy.run_path(str(Path(__file__).with_name("replay_profile.py")))
    for target in (target for targets in bench["PARTS"].values() for target in targets):
        owner, name = bench["owner_of"](target)
        assert callable(getattr(owner, name))
