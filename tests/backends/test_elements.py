"""Elements for a model and for reports: of a page through DevTools, of other programs through AT-SPI."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_vnc_use.backends.elements import _choose, acted_on_program, desktop_elements, elements_function
from pytest_vnc_use.backends.vnc import VNCController
from pytest_vnc_use.desktops.external import ExternalDesktop
from pytest_vnc_use.errors import DesktopError
from pytest_vnc_use.types import Action, Click, Drag, Region, TypeText
from pytest_vnc_use.types.elements import Element
from pytest_vnc_use.types.protocols import CommandResult
from support import accessible, vnc_servers
from support.paths import PROGRAMS
from support.vnc_servers import VncServer, wait_for


def test_list_counts_as_model_does_and_names_fault() -> None:
    button = Element("push button", "Save", Region(512, 384, 1024, 768))
    listed = elements_function(lambda: ([button] * 200, (1024, 768)), lambda width, height: (1000, 1000))().splitlines()
    assert listed[0] == "1. push button 'Save' at (750, 750), [500, 500, 1000, 1000]"
    assert listed[-1] == "… and 50 more"
    assert elements_function(lambda: ([], (1024, 768)))() == "there are no elements in view"
    nothing_runs = elements_function(lambda: (desktop_elements(ExternalDesktop("lab-7:1").run), (1024, 768)))()
    assert nothing_runs.startswith("no list of elements is available here: cannot run '/usr/bin/python3 --version'")
    assert len(nothing_runs.splitlines()) == 1
    for ran, problem in (
        (CommandResult(0, '[{"role": 1}]', ""), "the accessibility probe printed invalid data"),
        (CommandResult(3, "", ""), "failed on this desktop: exit code 3"),
        (CommandResult(1, "", "xprop is missing"), "failed on this desktop: xprop is missing"),
    ):
        with pytest.raises(DesktopError, match=problem):
            desktop_elements(lambda command: ran)  # noqa: B023  # called at once


def seen(found: tuple[Element | None, ...]) -> list[tuple[str, str] | None]:
    return [each and (each.role, each.name) for each in found]


def node(number: int, role: str, name: str = "", parent: int | None = None, **properties: object) -> dict[str, object]:
    seen = [{"name": each, "value": {"value": value}} for each, value in properties.items()]
    above = {} if parent is None else {"parentId": str(parent)}
    values = {"role": {"value": role}, "name": {"value": name}}
    return {"nodeId": str(number), "ignored": False, "properties": seen, **values, **above}


def test_content_of_field_is_never_name() -> None:
    field = node(3, "generic", editable="richtext", focusable=True)
    inner = node(2, "button", "typed value", 3, editable="richtext")
    assert _choose([node(1, "heading", "typed", 2, editable="richtext"), inner, field]) is field
    assert _choose([node(1, "generic", parent=2), node(2, "generic", parent=1)]) is None  # a loop of parents
    assert _choose([]) is None


def test_elements_of_program(tigervnc: VncServer, connected: Callable[..., VNCController], tmp_path: Path) -> None:
    accessible.needed()

    def run(command: list[str]) -> CommandResult:
        environment = {**os.environ, **tigervnc.environment}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30)
        return CommandResult(done.returncode, done.stdout, done.stderr)

    def boxes() -> dict[str, list[Element]]:
        found: dict[str, list[Element]] = {}
        try:
            for each in desktop_elements(run):
                found.setdefault(each.role, []).append(each)
        except DesktopError:
            pass
        return found

    def acted_on(action: Action) -> list[tuple[str, str] | None]:
        return seen(acted_on_program(run, action))

    command = accessible.started("/usr/bin/python3", str(PROGRAMS / "named_form.py"))
    with vnc_servers.running(*command, environment={**tigervnc.environment, "XDG_CACHE_HOME": str(tmp_path)}):
        wait_for(lambda: "push button" in boxes(), "the program's elements", 30)
        form, hands = {role: found[0] for role, found in boxes().items()}, connected(tigervnc)
        assert acted_on(Click(*form["push button"].centre)) == [("push button", "Sign in")]
        assert acted_on(Click(*form["password text"].centre)) == [("password text", "Password")]
        assert acted_on(Click(*form["combo box"].centre)) == [("combo box", "")]
        assert acted_on(Click(900, 700)) == [None]
        drag = Drag(*form["push button"].centre, *form["text"].centre)
        assert acted_on(drag) == [("push button", "Sign in"), ("text", "User")]
        hands.click(*form["password text"].centre)
        wait_for(lambda: acted_on(TypeText("a")) == [("password text", "Password")], "the focus", 10)
        hands.click(*form["menu"].centre)
        below = form["menu"].box.left + 15, form["menu"].box.bottom + 12
        wait_for(lambda: acted_on(Click(*below)) == [("menu item", "Open")], "the menu", 10)
