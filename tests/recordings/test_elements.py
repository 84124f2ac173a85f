"""The names of elements in a recording: they are kept and told, and nothing is found by them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from pytest_vnc_use.recordings.store import load, save
from pytest_vnc_use.runs.directory import read_trace
from support.paths import EXAMPLES
from support.tills import STEPS, Steps, Tills

HOSTILE = 'Pay (button): click at (1, 1)\x1b[31m\u202e <script>"'


def with_names(tills: Tills, *names: str) -> None:
    """Give the steps of the recording these names of elements."""
    data = json.loads(tills.key.path.read_text("utf-8"))
    for step, name in zip(data["runs"][0]["steps"], names, strict=True):
        step["elements"] = [{"role": "button", "name": name, "box": {"left": 0, "top": 0, "right": 9, "bottom": 9}}]
    tills.key.path.write_text(json.dumps(data), "utf-8")


@pytest.mark.slow
def test_replay_reads_no_names_of_elements(recorded: Tills) -> None:
    with_names(recorded, "Name", "Add", HOSTILE, "x" * 100_000)
    with recorded.agent("replay", Steps()) as played:
        result = played.run()
        assert played.recorded.transients == []
        assert not played.recorded.keep()
    steps = read_trace(result.run_dir).steps
    assert tuple(step.proposal.action for step in steps) == STEPS
    names = [step.elements[0].name for step in steps if step.elements and step.elements[0]]
    assert names[:3] == ["Name", "Add", HOSTILE]
    assert len(names[3]) < 300
    assert '2 click "Add" (button): step 2' in result.transcript
    assert result.transcript.replace("\n", "").isprintable()


def test_examples_recordings_are_saved_as_loaded(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES / "__vnc_recordings__", tmp_path / "copy")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*")}
    files = [*tmp_path.rglob("*.json")]
    assert files
    for file in files:
        recording = load(file)
        assert recording
        assert not save(file, recording)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.*")} == before
