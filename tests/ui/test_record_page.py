"""Recording in a real browser: what a user does with pointer and keyboard on the page
becomes steps on a desktop.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from pytest_vnc_use.backends.vnc import connect
from pytest_vnc_use.demonstrate.gestures import near
from pytest_vnc_use.errors import ActionError
from pytest_vnc_use.recordings.format import Segment
from pytest_vnc_use.types import Action, Click, KeyCombo, MouseDown, MouseUp, TypeText
from support.page_user import Page, User
from support.vnc_servers import VncServer, require_package

require_package("starlette")
from pytest_vnc_use.ui.page_user import key_name  # noqa: E402
from support.desks import Recording  # noqa: E402

LONG_MS = 120_000
TASK = "Say hello"
CLAIM = "it says hello"
SECRET = "w0nder-land"
XTERM = "xterm -bg white -cr white -geometry 100x30+0+0 -e cat".split()


@pytest.fixture
def recording(tigervnc: VncServer) -> Iterator[Recording]:
    with tigervnc.run(*XTERM), closing(connect(tigervnc.address)) as controller:
        made = Recording(controller, TASK, [CLAIM], {"SHOP": SECRET})
        try:
            yield made
        finally:
            made.close()


LAYOUT = """text => {
    document.getElementById("record-notice").textContent = text;
    const {left, top, width, height} =
        document.querySelector("#record-screen canvas").getBoundingClientRect();
    return [left, top, width, height, document.documentElement.scrollHeight];
}"""


@pytest.mark.desktop
@pytest.mark.browser
@pytest.mark.parametrize("width", [1500, 1150, 800])
def test_notice_moves_nothing_on_page(
    browser: Any, recording: Recording, width: int
) -> None:
    """A user presses where the screen was when they looked."""
    with browser.new_page(viewport={"width": width, "height": 857}) as page:
        page.set_default_timeout(LONG_MS)
        recording.open(page)
        short = "Undo: a fresh desktop starts."
        notices = ("", short, "Only 7 of 9 steps were repeated. " * 3, short * 20)
        layouts = [page.evaluate(LAYOUT, notice) for notice in notices]
    assert layouts == [layouts[0]] * len(notices)


@pytest.mark.desktop
@pytest.mark.browser
@pytest.mark.slow
def test_page_records_pointer_and_keys(
    browser: Any, violations: Callable[[Any], int], recording: Recording
) -> None:
    with browser.new_page(viewport={"width": 1500, "height": 857}) as page:
        page.set_default_timeout(LONG_MS)
        recording.open(page)
        assert page.evaluate("() => document.documentElement.scrollHeight") == 857, (
            "the whole page is visible"
        )
        assert violations(page) == 0
        # so that no pixel is scaled
        page.set_viewport_size({"width": 1700, "height": 1300})
        page.locator("#record-screen canvas").click(position={"x": 101, "y": 51})
        page.keyboard.type("Hi")
        wait_typed(page, "Hi")
        page.keyboard.press("Control+b")
        wait_typed(page, "Hi|")
        page.get_by_text("Send keys").click()
        page.get_by_role("button", name="alt+f4").click()
        wait_typed(page, "Hi||")
        page.get_by_role("button", name="Type text…").click()
        page.get_by_label("Paste it here").fill("two\nlines")
        page.get_by_role("button", name="Type it").click()
        wait_typed(page, "two|lines")
        page.get_by_text("Type a secret").click()
        page.get_by_role("button", name="SHOP").click()
        wait_typed(page, "two|lines<secret:SHOP>")
        canvas = page.locator("#record-screen canvas").bounding_box()
        page.get_by_role("button", name="Mark a region").click()
        assert page.locator("#record-screen canvas").bounding_box() == canvas
        page.mouse.move(canvas["x"] + 11, canvas["y"] + 301)
        page.mouse.down()
        page.mouse.move(canvas["x"] + 40, canvas["y"] + 320)
        page.mouse.up()
        page.get_by_label("the region").select_option("is masked")
        page.get_by_role("button", name="Add").click()
        page.get_by_text("Mask: ").wait_for()
        page.keyboard.press("Shift+Escape")
        page.get_by_role("button", name="Done…").click()
        page.set_viewport_size({"width": 1280, "height": 720})
        canvas = page.locator("#record-screen canvas").bounding_box()
        form = page.get_by_role("dialog", name="Record what you did?").bounding_box()
        assert canvas["x"] + canvas["width"] <= form["x"], "the screen stays visible"
        assert form["y"] + form["height"] <= 720
        assert violations(page) == 0
        messages: list[str] = []
        page.once(
            "dialog", lambda dialog: (messages.append(dialog.message), dialog.dismiss())
        )
        page.get_by_role("button", name="Record", exact=True).click()
        assert "A question is not answered" in messages[0]
        page.get_by_role("group", name="Is this done").get_by_label("Yes").check()
        page.get_by_role("group", name=CLAIM).get_by_label("It holds").check()
        page.get_by_label("What does the screen show now").fill("the window is white")
        page.get_by_role("button", name="Record", exact=True).click()
        done = recording.done
    assert isinstance(done, Segment)
    clicked, *others = [step.action for step in done.steps]
    assert isinstance(clicked, Click)
    assert near((clicked.x, clicked.y), (101, 51))
    assert joined(others) == [
        TypeText("Hi"),
        KeyCombo(("control", "b")),
        KeyCombo(("alt", "f4")),
        TypeText("two"),
        KeyCombo(("return",)),
        TypeText("lines<secret:SHOP>"),
    ]
    (mask,) = recording.user.masks
    assert near((mask.left, mask.top), (10, 300))
    assert near((mask.right, mask.bottom), (40, 320))
    assert recording.user.claims == ("the window is white",)


def wait_typed(page: Any, text: str) -> None:
    """Wait until the steps type that; | stands for each other step. A slow machine
    makes two texts of one.
    """
    page.wait_for_function(
        f"""() => [...document.querySelectorAll("#record-steps li")].map(
        (step) => step.textContent.match(/^type "(.*)"/)?.[1] ?? "|").join("").includes({text!r})"""
    )


def joined(actions: list[Action]) -> list[Action]:
    """Return the actions; texts in a row are one."""
    made: list[Action] = []
    for action in actions:
        last = made[-1] if made else None
        if isinstance(last, TypeText) and isinstance(action, TypeText):
            made[-1] = TypeText(last.text + action.text)
        else:
            made.append(action)
    return made


@pytest.mark.desktop
@pytest.mark.slow
@pytest.mark.parametrize(
    ("held_ms", "actions"),
    [(100, [Click(50, 50)]), (1500, [MouseDown(50, 50), MouseUp(50, 50)])],
    ids=["a click", "held"],
)
def test_press_takes_as_long_as_on_page(
    recording: Recording, held_ms: int, actions: list[Action]
) -> None:
    """The press arrives late, and the release at once."""
    now = time.time() * 1000
    events = [
        (now, ["move", 50, 50]),
        (now - held_ms, ["down", 50, 50, "left"]),
        (now, ["up", 50, 50, "left"]),
    ]
    with Page(recording.server.url) as page, User(page) as user:
        for at, event in events:
            page.send(type="input", id=user.id, event=event, at=at)
    done = recording.done
    assert isinstance(done, Segment)
    assert [step.action for step in done.steps] == actions


@pytest.mark.parametrize(
    ("key", "code", "is_chord", "name"),
    [
        ("é", "Digit2", False, "é"),
        ("с", "KeyC", True, "c"),
        ("c", "KeyJ", True, "c"),
        ("Shift", "ShiftRight", False, "shiftr"),
        ("AltGraph", "AltRight", False, "altgr"),
        ("Enter", "NumpadEnter", False, "kpenter"),
        ("ArrowLeft", "Numpad4", False, "left"),
        (" ", "Space", False, " "),
    ],
)
def test_key_name_follows_key_then_code(
    key: str, code: str, is_chord: bool, name: str
) -> None:
    assert key_name(key, code, is_chord=is_chord) == name


def test_key_name_unknown_key_raises() -> None:
    with pytest.raises(ActionError, match="MediaPlayPause"):
        key_name("MediaPlayPause", "", is_chord=False)
