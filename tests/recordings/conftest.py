"""Directories with and without a recording of the till."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from support.forked_python import made_once
from support.judges import CLAIM, Says
from support.tills import STEPS, Steps, Tills


@pytest.fixture
def tills(tmp_path: Path) -> Tills:
    """A directory without a recording."""
    return Tills(tmp_path)


@pytest.fixture(scope="session")
def recorded_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directories with the recording of one run of `STEPS`, without claims and with
    them.
    """

    def record(directory: Path) -> Path:
        judge = Says()
        with Tills(directory / "judged").agent(
            "auto", Steps(*STEPS), judge=judge
        ) as played:
            played.run()
            assert played.recorded.write()
            shutil.copytree(
                directory / "judged",
                directory / "recorded",
                ignore=shutil.ignore_patterns("runs"),
            )
            assert played.agent.assess(CLAIM)
            judge.kind = "fails"
            assert not played.agent.assess("an error is shown")
            assert played.agent.extract(int, "how many apples?") == 2
            assert played.recorded.write()
        shutil.rmtree(directory / "judged" / "runs")
        return directory

    return made_once(tmp_path_factory, "recorded_tills", record)


@pytest.fixture
def judged(recorded_once: Path, tmp_path: Path) -> Tills:
    """A copy of a recording with a claim that holds, one that fails, and a value that
    was read.
    """
    return Tills(Path(shutil.copytree(recorded_once / "judged", tmp_path / "judged")))


@pytest.fixture
def recorded(recorded_once: Path, tmp_path: Path) -> Tills:
    """A copy of the same recording without them."""
    return Tills(
        Path(shutil.copytree(recorded_once / "recorded", tmp_path / "recorded"))
    )
