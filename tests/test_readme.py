"""README is short, CI runs its two commands, and its head is the package's description;
see test_docs.py too.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from importlib.metadata import metadata
from pathlib import Path

import pytest

from support.forked_python import run_python
from support.page_user import Recorder
from support.paths import ROOT
from support.vnc_servers import require

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[str]:
    return [text for name, text in BLOCKS if name == language]


def test_ci_takes_its_commands_from_readme() -> None:
    script = '. .ci/readme && printf "%s\\n" "${try_it[@]}"'
    taken = subprocess.run(
        ["bash", "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    demo, tests = (block for block in blocks("bash") if "pip install -e" in block)
    packages, *commands = demo.splitlines()
    assert packages.startswith("sudo apt-get install python3-venv ")
    assert taken.splitlines() == [*commands, *tests.splitlines()]
    assert ["pip install -e" in command for command in taken.splitlines()] == [
        False,
        True,
        True,
    ]


@pytest.mark.desktop
@pytest.mark.slow
def test_readme_first_test_replays(tmp_path: Path) -> None:
    for program in ("Xtigervnc", "xterm", "nano"):
        require(program)
    (block,) = [block for block in blocks("bash") if "cua-vnc init" in block]
    init, records, replay = (
        shlex.split(line) for line in block.splitlines() if not line.startswith("sudo ")
    )
    assert (
        run_python("pytest_vnc_use.cli", *init[1:], cwd=tmp_path, timeout=60).returncode
        == 0
    )

    with Recorder(*records[2:], cwd=tmp_path) as recorder:
        with recorder.user() as user:
            user.type("hello")
            user.press("Control", "s")
        ended = recorder.ended()
    assert (ended.code, "1 recording written" in ended.out) == (0, True), ended.out
    (test,) = [block for block in blocks("python") if "def test_first" in block]
    tmp_path.joinpath("tests/test_first.py").write_text(test, encoding="utf-8")
    done = run_python(*replay[2:], cwd=tmp_path, timeout=200)
    assert (done.returncode, "1 run planned by recording" in done.stdout) == (
        0,
        True,
    ), done.stdout


def test_packages_description_is_its_head() -> None:
    """pytest-metadata parses all of it at every start of pytest."""
    description = metadata("pytest-vnc-use")["Description"]
    assert description.strip().startswith("# pytest-vnc-use\n")
    assert "@pytest.mark.vnc_task(" in description
    assert "## Try it" in README
    assert "## Try it" not in description
    targets = re.findall(r"\]\(([^)]+)\)", description)
    assert targets
    assert [target for target in targets if not target.startswith("https://")] == []
