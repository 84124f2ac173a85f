"""Two machines, each with desktops of its own, and one report: what
examples/many_machines shows.
"""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
from base64 import b64decode
from pathlib import Path

import pytest

from support.paths import ROOT
from support.vnc_servers import missing, require

SCRIPT = ROOT / "examples" / "many_machines" / "two_hosts.sh"
LONGEST_S = 100
pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True, scope="module")
def _machine_can_be_two() -> None:
    for program in ("ip", "ssh", "sshd", "unshare", "Xtigervnc"):
        require(program)
    probe = subprocess.run(
        ["unshare", "--mount", "--net", "--pid", "--fork", "true"],
        capture_output=True,
        text=True,
    )
    if probe.returncode:
        missing(
            "a namespace",
            f"needs root, or what may make namespaces: {probe.stderr.strip()}",
        )


@pytest.fixture(autouse=True)
def _runs_elsewhere(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Leave the runs of the project's own directory alone."""
    monkeypatch.setenv("VNC_USE_RUNS_DIR", str(tmp_path_factory.mktemp("runs")))


def test_tests_of_both_machines_are_in_one_report(tmp_path: Path) -> None:
    options = [
        "--self-contained-html",
        "--vnc-max-steps=1",
        "-k",
        "stranger or capitals",
    ]
    command = [
        SCRIPT,
        "-p",
        "no:cacheprovider",
        f"--html={tmp_path / 'report.html'}",
        *options,
    ]
    environment = os.environ | {"PYTHON": sys.executable}
    done = subprocess.run(
        command,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    report = html.unescape(
        html.unescape((tmp_path / "report.html").read_text(encoding="utf-8"))
    )
    assert sorted(re.findall("<dt>machine</dt> <dd>(.*?)</dd>", report)) == [
        "one",
        "two",
    ]
    screenshots = re.findall(
        r"background-image:url\(data:image/png;base64,(.*?)\)", report
    )
    assert len(screenshots) >= 2
    assert all(b64decode(data).startswith(b"\x89PNG") for data in screenshots)
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    assert set(re.findall("on the machine (one|two)", done.stdout)) == {"one", "two"}
