from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from support import vnc_servers
from support.desks import Served
from support.page_user import Recorder
from support.tills import TILL
from support.vnc_servers import require_package


@pytest.fixture
def served() -> Iterator[Served]:
    made = Served()
    yield made
    made.end()


@pytest.fixture
def violations() -> Callable[[Any], int]:
    """`violations(page)`: how many rules of accessibility a page breaks."""
    axe = require_package("axe_playwright_python.sync_playwright").Axe()
    return lambda page: int(axe.run(page).violations_count)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Recorder]]:
    """`start(source, record, …)`: pytest on a test's source, with this mode of
    recording.
    """
    vnc_servers.require_pyside()
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    with ExitStack() as stack:

        def started(
            source: str, record: str, *options: str, **environment: str
        ) -> Recorder:
            (tmp_path / "test_till.py").write_text(source, encoding="utf-8")
            app = f"--vnc-app={shlex.quote(sys.executable)} {shlex.quote(str(TILL))}"
            desktop = [
                "--vnc-server=qt",
                app,
                "--vnc-screen-size=800x400",
                f"--vnc-record={record}",
            ]
            command = [
                "pytest",
                "-p",
                "no:pytest-vnc",
                "-p",
                "no:cacheprovider",
                *desktop,
                *options,
            ]
            return stack.enter_context(Recorder(*command, cwd=tmp_path, **environment))

        yield started
