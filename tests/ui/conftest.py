from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from support import vnc_servers
from support.desks import Served
from support.forked_python import made_once
from support.pad_sessions import QUIET
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
            app = f"--vnc-app={shlex.join([sys.executable, str(TILL)])}"
            desktop = ["--vnc-server=qt", app, "--vnc-screen-size=800x400"]
            mode = f"--vnc-record={record}"
            command = ["pytest", *QUIET, *desktop, mode, *options]
            return stack.enter_context(Recorder(*command, cwd=tmp_path, **environment))

        yield started


@pytest.fixture
def record_once(
    tmp_path_factory: pytest.TempPathFactory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., None]:
    """`record_once(name, files, run)`: change to a directory with these files, and with
    the recordings that `run` made of their two tests.
    """

    def recorded(name: str, files: Mapping[str, str], run: Callable[[], str]) -> None:
        def record(directory: Path) -> Path:
            monkeypatch.chdir(directory)
            for file, text in files.items():
                Path(file).write_text(text)
            assert " 2 passed" in run()
            shutil.rmtree("runs")
            return directory

        once = made_once(tmp_path_factory, name, record)
        monkeypatch.chdir(tmp_path)
        shutil.copytree(once, tmp_path, dirs_exist_ok=True)

    return recorded
