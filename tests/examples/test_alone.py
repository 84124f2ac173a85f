"""The examples in a network without a way out, and without a umask: nobody is called, and nobody else may read."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.paths import ROOT
from support.vnc_servers import require, require_pyside

pytestmark = [pytest.mark.desktop, pytest.mark.slow]

WITNESS = """
import json
import os
import pathlib
import tempfile

def pytest_vnc_step(item, step):
    "Note who may read what is there while a test runs."
    directory = pathlib.Path(tempfile.gettempdir())
    for path in sorted(directory.rglob("*")):
        inner = path.relative_to(directory).parts[1:]
        if inner[:1] != ("Home",) or not inner[1:]:
            try:
                note = str(path), path.lstat().st_mode & 0o777, path.is_symlink()
            except OSError:
                continue
            with open(os.environ["WITNESSED"], "a") as file:
                file.write(json.dumps(note) + "\\n")
"""
TESTS = ("test_two_apples",)
ALONE = 'ip link set lo up; umask 0; exec strace -f --seccomp-bpf -qq -e trace=connect,sendto -o "$0" "$@"'


@pytest.fixture
def short_dir() -> Iterator[Path]:
    """A temporary directory whose path leaves room for a socket's."""
    with tempfile.TemporaryDirectory(prefix="t") as directory:
        yield Path(directory)


def test_examples_call_nobody_and_leave_nothing_for_others(tmp_path: Path, short_dir: Path) -> None:
    for program in ("strace", "unshare", "ip"):
        require(program)
    require_pyside()
    probe = subprocess.run(
        ["unshare", "-rn", "strace", "-qq", "-o", "/dev/null", "true"], capture_output=True, text=True
    )
    if probe.returncode:
        pytest.skip(f"no network namespace, or no strace in it, is allowed here: {probe.stderr.strip()}")
    (tmp_path / "witness.py").write_text(WITNESS)
    log, runs = tmp_path / "connects", tmp_path / "runs"
    tests = [f"{ROOT}/examples/test_shop.py::{name}" for name in TESTS]
    options = [
        "-p",
        "witness",
        "-p",
        "no:cacheprovider",
        f"--vnc-runs-dir={runs}",
        f"--html={tmp_path / 'report.html'}",
    ]
    python = [sys.executable, "-m", "pytest", "-q", *options, *tests]
    variables = {"PYTHONPATH": str(tmp_path), "TMPDIR": str(short_dir), "WITNESSED": str(tmp_path / "witnessed")}
    command = ["unshare", "-rn", "sh", "-c", ALONE, str(log), *python]
    ran = subprocess.run(command, cwd=ROOT, env=os.environ | variables, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert called(log.read_text()) == set()
    witnessed = [json.loads(line) for line in (tmp_path / "witnessed").read_text().splitlines()]
    open_ones = {path: oct(mode) for path, mode, is_link in witnessed if mode & 0o077 and not is_link}
    assert witnessed
    assert open_ones == {}
    kept = [runs, *runs.rglob("*")]
    assert len(kept) > 20
    assert {str(each): oct(each.stat().st_mode) for each in kept if each.stat().st_mode & 0o077} == {}


def called(log: str) -> set[str]:
    """Return the addresses that a process called, beside loopback and sockets of this machine."""
    families = set(re.findall(r"sa_family=(AF_\w+)", log))
    assert "AF_UNIX" in families, "strace has seen nothing"
    internet = re.findall(r"^.*sa_family=AF_INET6?,.*$", log, re.MULTILINE)
    here = re.compile(r'inet_addr\("127\.|inet_pton\(AF_INET6, "::1"')
    others = re.findall(r"^.*sa_family=(?!AF_(?:UNIX|INET6?|NETLINK|UNSPEC)\b).*$", log, re.MULTILINE)
    return {line for line in internet if not here.search(line)} | {*others}
