"""Elements of a program that is no browser, through the whole stack: what vnc_elements offers a model, and a test."""

from __future__ import annotations

import shlex
import sys

import pytest

from pytest_vnc_use.backends.elements import desktop_elements, elements_function
from pytest_vnc_use.errors import DesktopError
from pytest_vnc_use.types import Region
from pytest_vnc_use.types.elements import Element
from pytest_vnc_use.types.protocols import Ran
from support import accessible, vnc_servers
from support.vnc_servers import require

pytestmark = pytest.mark.desktop

DESKTOP = ("-ovnc_elements=on", "-p", "no:cacheprovider", "-p", "no:pytest-vnc", "-p", "no:html")
LISTS_THEN_CLICKS = """
    import re
    import pytest
    from pytest_vnc_use.planners import finish
    from pytest_vnc_use.types import CallFunction, Click

    TOLD = []

    def plan(observation):
        if not observation.turns:
            return CallFunction("list_elements", {})
        if len(observation.turns) > 1:
            return finish()
        TOLD.append(observation.turns[0].steps[0].output)
        found = re.search(r"push button 'Save' at \\((\\d+), (\\d+)\\)", TOLD[0])
        return Click(int(found[1]), int(found[2])) if found else finish()

    @pytest.fixture
    def vnc_planner():
        return plan
"""


def test_model_clicks_listed_element_of_qt_program(pytester: pytest.Pytester) -> None:
    require("Xtigervnc")
    accessible.needed()
    (pytester.path / "program.py").write_text(accessible.PROGRAM)
    told = pytester.path / "told"
    app = shlex.join(accessible.started(sys.executable, str(pytester.path / "program.py"), str(told)))
    pytester.makepyfile(
        f"""{LISTS_THEN_CLICKS}
    @pytest.fixture
    def accessible(vnc_desktop):
        def names():
            return [element.name for element in vnc_desktop.elements()]
        deadline = __import__("time").monotonic() + 20
        while "Save" not in names():
            assert __import__("time").monotonic() < deadline
        assert "Hidden" not in names()

    @pytest.mark.vnc_task("Save it", expect=None)
    def test_it(accessible, vnc_agent):
        import pathlib
        assert "text '' at (" in TOLD[0]
        assert pathlib.Path({str(told)!r}).read_text() == "saved"
        """
    )
    pytester.runpytest_inprocess(*DESKTOP, "--vnc-server=xvnc", f"--vnc-app={app}").assert_outcomes(passed=1)


def test_list_without_accessibility_bus_says_why(pytester: pytest.Pytester) -> None:
    require("Xtigervnc")
    accessible.needed()
    told_why(pytester, "--vnc-server=xvnc", why="no at-spi-bus-launcher runs there")


def test_list_without_commands_says_why(pytester: pytest.Pytester, tigervnc: vnc_servers.VncServer) -> None:
    with tigervnc.run("xterm"):
        told_why(pytester, f"--vnc-server={tigervnc.address}", why="only VNC reaches the desktop")


def told_why(pytester: pytest.Pytester, *options: str, why: str) -> None:
    pytester.makepyfile(
        f"""{LISTS_THEN_CLICKS}
    @pytest.mark.vnc_task("Save it", expect=None)
    def test_it(vnc_agent):
        [told] = TOLD
        assert told.startswith("no list of elements is available here: ")
        assert {why!r} in told
        assert len(told.splitlines()) == 1 and len(told) < 500
        """
    )
    pytester.runpytest_inprocess(*DESKTOP, *options).assert_outcomes(passed=1)


def test_invalid_answer_of_probe_is_named() -> None:
    for ran, problem in (
        (Ran(0, '[{"role": 1}]', ""), "the accessibility probe printed invalid data"),
        (Ran(3, "", ""), "failed on this desktop: exit code 3"),
        (Ran(1, "", "xprop is missing there"), "failed on this desktop: xprop is missing there"),
    ):
        with pytest.raises(DesktopError, match=problem):
            desktop_elements(lambda command: ran)  # noqa: B023  # called at once


def test_list_counts_as_model_does() -> None:
    button = Element("push button", "Save", Region(512, 384, 1024, 768))
    listed = elements_function(lambda: ([button] * 200, (1024, 768)), lambda width, height: (1000, 1000))().splitlines()
    assert listed[0] == "1. push button 'Save' at (750, 750), [500, 500, 1000, 1000]"
    assert listed[-1] == "… and 50 more"
    assert elements_function(lambda: ([], (1024, 768)))() == "there are no elements in view"
