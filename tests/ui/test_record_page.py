"""Recording in a real browser: what a user does with pointer and keyboard on the page becomes steps on a desktop."""

from __future__ import annotations

import queue
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from pytest_vnc_use.backends.redaction import RedactingController
from pytest_vnc_use.backends.vnc import VNCController, connect
from pytest_vnc_use.demonstrate.gestures import near
from pytest_vnc_use.errors import ActionError
from pytest_vnc_use.recordings.format import RecordedRun
from pytest_vnc_use.runs.redaction import Redactor
from pytest_vnc_use.types import Action, Click, KeyCombo, TypeText
from support.vnc_servers import VncServer, require, require_package

require_package("starlette")
playwright = require_package("playwright.sync_api")
axe = require_package("axe_playwright_python.sync_playwright")
from pytest_vnc_use.ui.link import Link, Watcher  # noqa: E402
from pytest_vnc_use.ui.manual import REFUSED, PageUser, key_name  # noqa: E402
from pytest_vnc_use.ui.server import Desk, DeskServer  # noqa: E402

LONG_MS, LONG_S = 120_000, 120
TASK, CLAIM, SECRET = "Say hello", "it says hello", "w0nder-land"
XTERM = ("xterm", "-bg", "white", "-cr", "white", "-geometry", "100x30+0+0", "-e", "cat")


class Recording:
    """A task that is recorded on the page of an own desk."""

    def __init__(self, controller: VNCController) -> None:
        desk = Desk()
        self.server = DeskServer(desk)
        threading.Thread(target=self.server.run, daemon=True).start()
        secrets = {"SHOP": SECRET}
        hide = Redactor(secrets).hide
        self.link = Link(self.server.session_url, desk.session_token, "", lambda: None)
        self.watcher = Watcher(self.link, "test_it", hide)
        self.watcher.start()
        self.user = PageUser(self.link, "test_it", secrets=secrets, ambient={}, asks_claims=True)
        self._done: queue.SimpleQueue[RecordedRun | str | Exception] = queue.SimpleQueue()
        self._controller = RedactingController(controller, hide)
        threading.Thread(target=self._record, daemon=True).start()

    def _record(self) -> None:
        try:
            self._done.put(self.user.record(TASK, [CLAIM], self._controller, self.watcher))
        except Exception as exc:  # noqa: BLE001  # the test raises it
            self._done.put(exc)

    @property
    def done(self) -> RecordedRun | str:
        done = self._done.get(timeout=LONG_S)
        if isinstance(done, Exception):
            raise done
        return done

    def close(self) -> None:
        self.watcher.close()
        self.link.close()
        self.server.end()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    executable = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if executable is None:
        require("chromium")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=executable, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield browser
        browser.close()


@pytest.fixture
def recording(tigervnc: VncServer) -> Iterator[Recording]:
    with tigervnc.run(*XTERM), closing(connect(tigervnc.address)) as controller:
        made = Recording(controller)
        try:
            yield made
        finally:
            made.close()


@contextmanager
def opened(browser: Any, recording: Recording) -> Iterator[Any]:
    page = browser.new_page(viewport={"width": 1700, "height": 1300})  # so that no pixel is scaled
    page.set_default_timeout(LONG_MS)
    page.goto(recording.server.url)
    page.get_by_role("heading", name=TASK).wait_for()
    page.wait_for_function("() => document.querySelector('#record-screen canvas')?.width > 300")
    yield page
    page.close()


@pytest.mark.desktop
@pytest.mark.browser
@pytest.mark.slow
def test_page_records_pointer_and_keys(browser: Any, recording: Recording) -> None:
    with opened(browser, recording) as page:
        assert axe.Axe().run(page).violations_count == 0
        session = page.context.new_cdp_session(page)
        page.locator("#record-screen canvas").click(position={"x": 101, "y": 51})
        page.keyboard.type("Hi")
        wait_typed(page, "Hi")
        page.keyboard.press("Control+b")
        wait_typed(page, "Hi|")
        for type_ in ("rawKeyDown", "keyUp"):  # AltGr+q on a German keyboard
            session.send("Input.dispatchKeyEvent", {"type": type_, "key": "AltGraph", "code": "AltRight"})
        session.send("Input.dispatchKeyEvent", {"type": "keyDown", "key": "@", "code": "KeyQ", "text": "@"})
        session.send("Input.dispatchKeyEvent", {"type": "rawKeyDown", "key": "Dead", "code": "Equal"})
        session.send("Input.imeSetComposition", {"text": "´", "selectionStart": 1, "selectionEnd": 1})
        session.send("Input.insertText", {"text": "é"})
        wait_typed(page, "@é")
        page.keyboard.down("Control")
        page.evaluate("() => window.dispatchEvent(new Event('blur'))")
        page.keyboard.type("c")
        wait_typed(page, "@éc")
        page.keyboard.up("Control")
        page.get_by_text("Send keys").click()
        page.get_by_role("button", name="alt+f4").click()
        wait_typed(page, "@éc|")
        page.get_by_role("button", name="Type text…").click()
        page.get_by_label("Paste it here").fill("two\nlines")
        page.get_by_role("button", name="Type it").click()
        wait_typed(page, "two|lines")
        page.get_by_text("Type a secret").click()
        page.get_by_role("button", name="SHOP").click()
        wait_typed(page, "two|lines<secret:SHOP>")
        page.get_by_role("button", name="Mark a region").click()
        canvas = page.locator("#record-screen canvas").bounding_box()
        page.mouse.move(canvas["x"] + 11, canvas["y"] + 301)
        page.mouse.down()
        page.mouse.move(canvas["x"] + 40, canvas["y"] + 320)
        page.mouse.up()
        page.get_by_role("button", name="Add").click()
        page.get_by_text("Mask: ").wait_for()
        page.keyboard.press("Shift+Escape")
        page.get_by_role("button", name="Done…").click()
        assert axe.Axe().run(page).violations_count == 0
        page.get_by_role("group", name="Is this done").get_by_label("Yes").check()
        page.get_by_role("group", name=CLAIM).get_by_label("It holds").check()
        page.get_by_label("What does the screen show now").fill("the window is white")
        page.get_by_role("button", name="Record", exact=True).click()
        done = recording.done
    assert isinstance(done, RecordedRun)
    clicked, *others = joined(done)
    assert isinstance(clicked, Click)
    assert near((clicked.x, clicked.y), (101, 51))
    assert others == [
        TypeText("Hi"),
        KeyCombo(("control", "b")),
        TypeText("@éc"),
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
    """Wait until the steps type that; | stands for each other step. A slow machine makes two texts of one."""
    page.wait_for_function(f"""() => [...document.querySelectorAll("#record-steps li")].map(
        (step) => step.textContent.match(/^type "(.*)"/)?.[1] ?? "|").join("").includes({text!r})""")


def joined(done: RecordedRun) -> list[Action]:
    """Return the actions; texts in a row are one."""
    actions: list[Action] = []
    for step in done.steps:
        last = actions[-1] if actions else None
        if isinstance(last, TypeText) and isinstance(step.action, TypeText):
            actions[-1] = TypeText(last.text + step.action.text)
        else:
            actions.append(step.action)
    return actions


@pytest.mark.desktop
@pytest.mark.browser
@pytest.mark.slow
def test_discard_on_page_records_nothing(browser: Any, recording: Recording) -> None:
    with opened(browser, recording) as page:
        page.locator("#record-screen canvas").click()
        page.get_by_role("button", name="Discard").click()
        assert recording.done == f"{REFUSED}: it was discarded"


@pytest.mark.parametrize(
    ("key", "code", "is_chord", "name"),
    [
        ("a", "KeyA", False, "a"),
        ("é", "Digit2", False, "é"),
        ("с", "KeyC", True, "c"),
        ("с", "KeyC", False, "с"),
        ("c", "KeyJ", True, "c"),
        ("Shift", "ShiftRight", False, "shiftr"),
        ("Control", "ControlLeft", False, "control"),
        ("Meta", "MetaLeft", False, "super"),
        ("AltGraph", "AltRight", False, "altgr"),
        ("Enter", "NumpadEnter", False, "kpenter"),
        ("5", "Numpad5", False, "5"),
        ("ArrowLeft", "Numpad4", False, "left"),
        ("PageUp", "PageUp", False, "pageup"),
        (" ", "Space", False, " "),
    ],
)
def test_key_name_follows_key_then_code(key: str, code: str, is_chord: bool, name: str) -> None:
    assert key_name(key, code, is_chord=is_chord) == name


def test_key_name_unknown_key_raises() -> None:
    names: Callable[[str], str] = lambda key: key_name(key, "", is_chord=False)  # noqa: E731
    with pytest.raises(ActionError, match="MediaPlayPause"):
        names("MediaPlayPause")
