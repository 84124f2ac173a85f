"""What the tests of the desktops share: a small Qt program, and desktops that are stopped whatever happens."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from support.vnc_servers import require_pyside

PROGRAM = """
import os, subprocess, sys
from pathlib import Path
from PySide6.QtWidgets import QApplication, QLabel
application = QApplication(sys.argv)
label = QLabel("hello")
label.show()
child = subprocess.Popen(["sleep", "300"])
Path("seen.txt").write_text(" ".join([os.environ.get("FRUIT", ""), *sys.argv[1:]]), encoding="utf-8")
Path("pids.txt").write_text(f"{os.getpid()} {child.pid}")
print("ready", flush=True)
application.exec()
"""


@pytest.fixture(scope="session")
def qt_program(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Command of a Qt program that writes down what it sees, and its process id and its child's."""
    require_pyside()
    path: Path = tmp_path_factory.mktemp("program") / "program.py"
    path.write_text(PROGRAM)
    return [sys.executable, str(path)]


@pytest.fixture
def stopping() -> Iterator[Callable[[Any], Any]]:
    """Return a desktop or a session as it is, and stop it after the test."""
    with ExitStack() as stack:

        def keep(started: Any) -> Any:
            stack.callback(started.stop)
            return started

        yield keep
