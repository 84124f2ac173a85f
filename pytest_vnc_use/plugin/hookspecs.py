"""The hooks of this plugin. They are called in the process that runs the test: with pytest-xdist, on its worker.

All data is a copy, and holds no secret. `run_dir` is the directory of the newest run: it has the screenshots that a
`FrameRef` names, as `screens/DIGEST.png`. A function may leave out arguments that it does not need. If it raises, also
`pytest.fail` or `pytest.skip`, the session's summary names it, and the result of the test stays as it is. The runs of
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
    """Receive each step of a run of the test `item`, once its action was performed or refused."""


@pytest.hookspec
def pytest_vnc_verdict(item: pytest.Item, verdict: Verdict, run_dir: Path | None) -> None:
    """Receive each verdict on a claim, by a judge or by recorded evidence; before the first run without a directory."""


@pytest.hookspec
def pytest_vnc_drift(item: pytest.Item, drift: Drift, run_dir: Path) -> None:
    """Receive each difference between the screen and its recording: what differs, where, and if a model took over."""


@pytest.hookspec
def pytest_vnc_run_end(item: pytest.Item, run: RunFigures) -> None:
    """Receive the figures of each run that has ended or broken: outcome, steps, seconds, models, tokens, dollars.

    Claims are judged after that.
    """
