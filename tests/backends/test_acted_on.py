"""What an action is about to act on: a page in Chromium through DevTools, a program of GTK through AT-SPI."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from pytest_vnc_use.backends.browser import Browser
from pytest_vnc_use.backends.elements import Element, _choose, acted_on_program, desktop_elements
from pytest_vnc_use.backends.vnc import VNCController
from pytest_vnc_use.errors import DesktopError
from pytest_vnc_use.types import Action, Click, Drag, Move, Scroll, TypeText
from pytest_vnc_use.types.protocols import Ran
from support import accessible, vnc_servers
from support.paths import PROGRAMS
from support.vnc_servers import VncServer, wait_for

PAGE = """data:text/html,<title>Names</title><body style="margin:8px">
<h1>Sign in</h1><label>User <input id=user value="typed value"></label><br>
<label>Password <input id=password type=password value="typed value"></label><br>
<div id=note contenteditable role=button>typed <b>value</b></div>
<button id=go><span>Go <b>on</b></span></button><div id=plain>plain text</div>
<form aria-label=Account><div id=empty style="height:20px"></div></form>
<iframe id=frame srcdoc="<body style='margin:0'><button>Framed</button>" style="height:40px"></iframe>
<button id=long></button><script>long.ariaLabel = 'x'.repeat(1e7); long.textContent = 'L'</script>"""


def middle(browser: Browser, name: str) -> tuple[int, int]:
    script = "(box => [box.left + Math.min(box.width / 2, 20), box.top + Math.min(box.height / 2, 10)])"
    element = f"document.getElementById({name!r}) || document.querySelector({name!r})"
    x, y = browser._read(lambda page: page.evaluate(f"{script}(({element}).getBoundingClientRect())"))
    window = browser.window
    return int(window.left + x * window.ratio), int(window.top + y * window.ratio)


def told(found: tuple[Element | None, ...]) -> list[tuple[str, str] | None]:
    return [each and (each.role, each.name) for each in found]


def test_elements_of_page(browser: Browser, hands: VNCController) -> None:
    browser.navigate(PAGE.replace("\n", ""))

    def at(name: str) -> list[tuple[str, str] | None]:
        return told(browser.acted_on(Click(*middle(browser, name))))

    assert at("h1") == [("heading", "Sign in")]
    assert at("user") == [("textbox", "User")]
    assert at("password") == [("textbox", "Password")]
    assert at("go") == at("#go b") == [("button", "Go on")]
    assert at("plain") == [("text", "plain text")]
    assert at("empty") == [("form", "Account")]
    assert at("frame") == [("button", "Framed")]
    assert "typed" not in str(at("note"))
    (long,) = at("long")
    assert long is not None
    assert long[1].startswith("(the first 10000 of 10000000 characters) xxx")
    assert told(browser.acted_on(Click(2, 2))) == [None]
    drag = Drag(*middle(browser, "go"), *middle(browser, "h1"))
    assert told(browser.acted_on(drag)) == [("button", "Go on"), ("heading", "Sign in")]
    for action in (Move(*middle(browser, "go")), Scroll(*middle(browser, "go"), "down")):
        assert told(browser.acted_on(action)) == [("button", "Go on")]


def test_focus_of_page_stays_where_it_is(browser: Browser, hands: VNCController) -> None:
    browser.navigate(PAGE.replace("\n", ""))
    assert told(browser.acted_on(TypeText("a"))) == [None]
    hands.click(*middle(browser, "password"))
    wait_for(lambda: browser._read(lambda page: page.evaluate("document.activeElement.id")) == "password", "focus", 5)
    began_s = time.monotonic()
    assert told(browser.acted_on(TypeText("a"))) == [("textbox", "Password")]
    assert told(browser.acted_on(Click(*middle(browser, "user")))) == [("textbox", "User")]
    assert time.monotonic() - began_s < 5
    assert browser._read(lambda page: page.evaluate("document.activeElement.id")) == "password"


def node(number: int, role: str, name: str = "", parent: int | None = None, **properties: object) -> dict[str, object]:
    told = [{"name": each, "value": {"value": value}} for each, value in properties.items()]
    above = {} if parent is None else {"parentId": str(parent)}
    values = {"role": {"value": role}, "name": {"value": name}}
    return {"nodeId": str(number), "ignored": False, "properties": told, **values, **above}


def test_node_in_loop_of_parents_is_no_hang() -> None:
    assert _choose([node(1, "generic", parent=2), node(2, "generic", parent=1)]) is None
    assert _choose([]) is None


def test_what_stands_in_field_is_never_name() -> None:
    field = node(3, "generic", editable="richtext", focusable=True)
    inner = node(2, "button", "typed value", 3, editable="richtext")
    assert _choose([node(1, "heading", "typed", 2, editable="richtext"), inner, field]) is field


def test_elements_of_program(tigervnc: VncServer, connected: Callable[..., VNCController], tmp_path: Path) -> None:
    accessible.needed()

    def run(command: list[str]) -> Ran:
        environment = {**os.environ, **tigervnc.environment}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30)
        return Ran(done.returncode, done.stdout, done.stderr)

    def boxes() -> dict[str, list[Element]]:
        found: dict[str, list[Element]] = {}
        try:
            for each in desktop_elements(run):
                found.setdefault(each.role, []).append(each)
        except DesktopError:
            pass
        return found

    def acted_on(action: Action) -> list[tuple[str, str] | None]:
        return told(acted_on_program(run, action))

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
