"""The composite action that replays tests on GitHub: a job of a matrix may have no
test, but not all of them.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from support.ci_jobs import BASH, empty_machine
from support.paths import ROOT
from support.vnc_servers import require_package

ACTION = ROOT / ".github" / "actions" / "replay" / "action.yml"
TASK = (
    "import pytest\n@pytest.mark.skip\n@pytest.mark.vnc_task('Click it')\ndef"
    " test_a(vnc_desktop): ...\n"
)


@pytest.mark.slow
@pytest.mark.parametrize(("test", "code"), [(TASK, 0), ("def test_plain(): ...\n", 5)])
def test_job_without_tests_passes_if_another_has_some(
    tmp_path: Path, test: str, code: int
) -> None:
    require_package("pytest_split")
    machine = empty_machine(tmp_path)
    (machine.clone / "test_it.py").write_text(test)
    (replay,) = (
        step
        for step in yaml.safe_load(ACTION.read_text())["runs"]["steps"]
        if step.get("name") == "Replay"
    )
    assert (
        machine.run(BASH, replay["run"], {"OPTIONS": "--splits 2 --group 2"}) == code
    ), machine.said
    assert ("no test for this job" in machine.said) == (code == 0)
