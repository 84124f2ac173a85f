"""What the tests of the desktops share: a small Qt program, and desktops that are
stopped whatever happens.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from support.vnc_servers import require_pyside

PROGRAM = """
import os, sys
from pathlib import Path
from PySide6.QtWidgets import QApplication, QLabel
application = QApplication(sys.argv)
label = QLabel("hello")
label.show()
Path("seen.txt").write_text(" ".join([os.environ.get("FRUIT", ""), *sys.argv[1:]]), encoding="utf-8")
Path("pid.txt").write_text(str(os.getpid()))
print("ready", flush=True)
application.exec()
"""


@pytest.fixture(scope="session")
def qt_program(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Command of a Qt program that writes down what it sees, and its process id."""
    require_pyside()
    path: Path = tmp_path_factory.mktemp("program") / "program.py"
    path.write_text(PROGRAM)
    return [sys.executable, str(path)]


@pytest.fixture
def start() -> Iterator[Callable[..., Any]]:
    """Start a desktop or a session by its class, and stop it after the test."""
    with ExitStack() as stack:

        def started(make: Callable[..., Any], *args: Any, **options: Any) -> Any:
            desktop = make(*args, **options)
            stack.callback(desktop.stop)
            return desktop

        yield started
