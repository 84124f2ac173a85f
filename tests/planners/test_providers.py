"""Every provider stands in the contracts of import-linter, which a forgotten one would pass silently."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest_vnc_use.planners
from support.paths import ROOT

tomllib = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")


def test_every_provider_stands_in_contracts() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = {contract["name"]: contract for contract in settings["tool"]["importlinter"]["contracts"]}
    directories = {path.parent.name for path in Path(pytest_vnc_use.planners.__path__[0]).glob("*/__init__.py")}
    providers = {f"pytest_vnc_use.planners.{name}" for name in directories - {"common"}}
    above_common = contracts["what planners share knows none of them"]["layers"][0]
    assert set(above_common.split(" | ")) == providers
    assert set(contracts["a planner's directory knows no other's"]["modules"]) == providers
