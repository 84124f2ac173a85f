from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = """
import sys
import threading

IMPORTED_BY = {}


class Finder:
    def find_spec(self, name, path=None, target=None):
        IMPORTED_BY[name] = threading.current_thread().name


sys.meta_path.insert(0, Finder())
"""
TESTS = """
import sys

from conftest import IMPORTED_BY


def test_desktop(vnc_desktop):
    assert "langgraph.graph" not in sys.modules


def test_agent(vnc_agent):
    assert IMPORTED_BY["langgraph.graph"] == "vnc-use-engine"
"""
COMMAND = [sys.executable, "-m", "pytest", "-q", "-pno:cacheprovider", "-pno:langsmith_plugin", "-pno:pytest-vnc"]


@pytest.mark.slow
def test_engine_is_imported_in_thread_for_agent(tmp_path: Path) -> None:
    """In a process of its own, as this one has imported the engine."""
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(TESTS)
    options = ["--vnc-server=127.0.0.1::1", "--vnc-planner=builtins:print", "-W", "error"]
    ended = subprocess.run([*COMMAND, *options], cwd=tmp_path, capture_output=True, text=True, timeout=400)
    assert "2 passed" in ended.stdout, ended.stdout + ended.stderr


def test_collected_tests_import_no_numpy(tmp_path: Path) -> None:
    """In a process of its own. A session that only collects, or replays nothing, is spared 0.15 s."""
    (tmp_path / "conftest.py").write_text(CONFTEST + "\n\ndef pytest_unconfigure():\n    print(*IMPORTED_BY)\n")
    (tmp_path / "test_it.py").write_text(
        "import pytest\n\n\n@pytest.mark.vnc_task('Do it')\ndef test_it(vnc_desktop): pass\n"
    )
    ended = subprocess.run([*COMMAND, "--collect-only"], cwd=tmp_path, capture_output=True, text=True, timeout=400)
    imported = ended.stdout.split()
    assert "pytest_vnc_use.plugin.markers" in imported
    assert not {"numpy", "PIL", "twisted", "langgraph"} & {*imported}
