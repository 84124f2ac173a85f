"""Hooks are called in the process that runs the test: with pytest-xdist, in the worker.

All data is a copy and holds no secret. `run_dir` is the directory of the newest run. It
has the screenshots that a `FrameRef` names, as `screens/DIGEST.png`. A hook may omit
arguments that it does not need. If it raises, even `pytest.fail` or `pytest.skip`, the
session's summary names it, and the test's result does not change. Runs of
[rehearsals](record-replay.md#what-a-gate-compares) call the hooks too.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_vnc_use.report.results import RunFigures
    from pytest_vnc_use.types import Drift, Step, Verdict


@pytest.hookspec
def pytest_vnc_step(item: pytest.Item, step: Step, run_dir: Path) -> None:
    """Receive each step of a run of the test `item`, after its action was performed or
    rejected.
    """


@pytest.hookspec
def pytest_vnc_verdict(
    item: pytest.Item, verdict: Verdict, run_dir: Path | None
) -> None:
    """Receive each verdict on a claim, by a judge or recorded evidence; `run_dir` is
    None before the first run.
    """


@pytest.hookspec
def pytest_vnc_drift(item: pytest.Item, drift: Drift, run_dir: Path) -> None:
    """Receive each drift from a recording: what differs, where, and whether a model
    continued.
    """


@pytest.hookspec
def pytest_vnc_run_end(item: pytest.Item, run: RunFigures) -> None:
    """Receive the figures of each finished or failed run: outcome, steps, seconds,
    models, tokens, dollars.

    Claims are judged later.
    """
