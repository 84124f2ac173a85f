"""The examples without internet and without a umask: they call no service, and no other
user may read their files.
"""

from __future__ import annotations

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

ALONE = (
    "ip link set lo up; umask 0; exec strace -f --seccomp-bpf -qq -e"
    ' trace=connect,sendto -o "$0" "$@"'
)


@pytest.fixture
def short_dir() -> Iterator[Path]:
    """A temporary directory whose path leaves room for a socket's."""
    with tempfile.TemporaryDirectory(prefix="t") as directory:
        yield Path(directory)


def test_examples_call_nobody_and_leave_nothing_for_others(
    tmp_path: Path, short_dir: Path
) -> None:
    for program in ("strace", "unshare", "ip"):
        require(program)
    require_pyside()
    allowed = ["unshare", "-rn", "strace", "-qq", "-o", "/dev/null", "true"]
    probe = subprocess.run(allowed, capture_output=True, text=True)
    if probe.returncode:
        pytest.skip(
            "no network namespace, or no strace in it, is allowed here:"
            f" {probe.stderr.strip()}"
        )
    log = tmp_path / "connects"
    runs = tmp_path / "runs"
    options = [
        "-pno:cacheprovider",
        f"--vnc-runs-dir={runs}",
        f"--html={tmp_path / 'report.html'}",
    ]
    test = f"{ROOT}/examples/test_shop.py::test_two_apples"
    python = [sys.executable, "-m", "pytest", "-q", *options, test]
    command = ["unshare", "-rn", "sh", "-c", ALONE, str(log), *python]
    ran = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(short_dir)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert called(log.read_text()) == set()
    kept = [runs, *runs.rglob("*")]
    assert len(kept) > 20
    assert {
        str(each): oct(each.stat().st_mode)
        for each in kept
        if each.stat().st_mode & 0o077
    } == {}


def called(log: str) -> set[str]:
    """Return the addresses that a process called, beside loopback and sockets of this
    machine.
    """
    families = set(re.findall(r"sa_family=(AF_\w+)", log))
    assert "AF_UNIX" in families, "strace has seen nothing"
    internet = re.findall(r"^.*sa_family=AF_INET6?,.*$", log, re.MULTILINE)
    here = re.compile(r'inet_addr\("127\.|inet_pton\(AF_INET6, "::1"')
    others = re.findall(
        r"^.*sa_family=(?!AF_(?:UNIX|INET6?|NETLINK|UNSPEC)\b).*$", log, re.MULTILINE
    )
    return {line for line in internet if not here.search(line)} | {*others}
