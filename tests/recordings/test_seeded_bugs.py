"""The bench of seeded bugs still does what it says: a few of its bugs, which are seen in different ways.

All of it: python tests/bench/run.py seeded_bugs.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from support.paths import PROGRAMS, TESTS
from support.vnc_servers import missing, require

pytestmark = pytest.mark.desktop

SEEN = {
    "wrong_character_at_first": "gate before anything",
    "stale_status": "the last gate",
    "wrong_total_in_file": "body",
}
GTK = "import gi; gi.require_version('Gtk', '3.0')"


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(TESTS / "bench" / "run.py"), "seeded_bugs", *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def test_bug_is_listed_in_its_program() -> None:
    bugs = [line.split() for line in bench("--list").stdout.splitlines() if ": " in line]
    assert len(bugs) >= 80
    for name, file in (("qt", "buggy_shop.py"), ("gtk", "buggy_form.py"), ("page", "buggy_page.html")):
        source = (PROGRAMS / file).read_text("utf-8")
        assert [bug for program, *_, bug in bugs if program == name and "_ms" not in bug and bug not in source] == []


@pytest.mark.slow
@pytest.mark.timeout(300)  # two sessions of pytest, one after the other, on a loaded machine
def test_bench_sees_bug_and_passes_without() -> None:
    require("Xtigervnc")
    if subprocess.run(["/usr/bin/python3", "-c", GTK], stderr=subprocess.DEVNULL).returncode:
        missing("GTK 3 for the system's Python", "apt-get install python3-gi gir1.2-gtk-3.0")
    ended = bench("gtk", "--only", *SEEN, "--flavours", "body", "claim", "--at-once", "1")
    for name, who in SEEN.items():
        (line,) = [line for line in ended.stdout.splitlines() if f"| {name.replace('_', ' ')} |" in line]
        flavours = line.split("|")[4:6]
        assert [cell.strip() for cell in flavours] == ([who, ""] if who == "body" else [who, who])
    assert "without a bug" not in ended.stdout
    assert ended.returncode == 0
