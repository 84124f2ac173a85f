"""Elements of programs that are no browser: a Qt program on TigerVNC, asked through AT-SPI."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_vnc_use.backends.accessibility import Element, desktop_elements, elements_function
from pytest_vnc_use.backends.vnc import VNCController
from pytest_vnc_use.errors import DesktopError
from pytest_vnc_use.types.protocols import Ran
from support import accessible, vnc_servers
from support.vnc_servers import VncServer, wait_for
from support.witness_programs import assert_becomes

pytestmark = pytest.mark.desktop


def runner(server: VncServer, **environment: str) -> Callable[[list[str]], Ran]:
    """Commands on that display, as a Desktop runs them."""

    def run(command: list[str]) -> Ran:
        done = subprocess.run(
            command, env={**os.environ, **server.environment, **environment}, capture_output=True, text=True, timeout=30
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return run


def found(run: Callable[[list[str]], Ran]) -> dict[str, Element]:
    try:
        return {each.name: each for each in desktop_elements(run)}
    except DesktopError:
        return {}


@pytest.fixture
def needed() -> None:
    accessible.needed()


@pytest.mark.usefixtures("needed")
def test_a_click_on_an_element_of_a_qt_program(
    tigervnc: VncServer, connected: Callable[..., VNCController], tmp_path: Path
) -> None:
    run = runner(tigervnc)
    command = accessible.started(sys.executable, "-c", accessible.PROGRAM, str(tmp_path / "told"))
    environment = {**tigervnc.environment, "XDG_CACHE_HOME": str(tmp_path)}
    with vnc_servers.running(*command, environment=environment):
        wait_for(lambda: "Save" in found(run), "the program's elements", 20)
        elements = desktop_elements(run)
        assert [each.role for each in elements if each.role in ("push button", "text")] == ["push button", "text"]
        assert "Hidden" not in {each.name for each in elements}
        button = found(run)["Save"]
        connected(tigervnc).click(*button.centre)
        assert_becomes(lambda: (tmp_path / "told").exists(), True)
        x, y = button.centre
        told = elements_function(lambda: (elements, (1024, 768)), lambda width, height: (1000, 1000))()
        assert f"push button 'Save' at ({x * 1000 // 1024}, {y * 1000 // 768}), [" in told


@pytest.mark.usefixtures("needed")
def test_a_desktop_without_xprop(tigervnc: VncServer, tmp_path: Path) -> None:
    assert shutil.which("xprop", path=str(tmp_path)) is None
    with pytest.raises(DesktopError, match="failed on this desktop: xprop is missing there"):
        desktop_elements(runner(tigervnc, PATH=str(tmp_path)))


def test_answers_that_make_no_sense() -> None:
    with pytest.raises(DesktopError, match="the accessibility probe printed invalid data"):
        desktop_elements(lambda command: Ran(0, '[{"role": 1}]', ""))
    with pytest.raises(DesktopError, match="failed on this desktop: exit code 3"):
        desktop_elements(lambda command: Ran(3, "", ""))
