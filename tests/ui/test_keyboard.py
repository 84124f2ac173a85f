"""The keyboard on the page: what a browser reports of what a user types, event by event,
and what is recorded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from pytest_vnc_use.backends.vnc import connect
from support import vnc_servers
from support.vnc_servers import require_package

require_package("starlette")
from support.desks import Recording  # noqa: E402

pytestmark = [pytest.mark.desktop, pytest.mark.browser, pytest.mark.slow]

WITHIN_MS = 120_000
XTERM = ("xterm", "-geometry", "150x50+0+0", "-e", "cat")
NO_CHARACTER = (
    "not done: the browser does not report the character of the key {!r}."
    " Use Type text…"
)

# the modifiers of an event, as DevTools counts them
ALT = 1
CONTROL = 2
META = 4
SHIFT = 8
Event = tuple[str, dict[str, Any]]
"""A command of DevTools that sends an event to the page."""


def down(
    key: str, code: str = "", modifiers: int = 0, **properties: object
) -> list[Event]:
    event = {"key": key, "code": code, "modifiers": modifiers, **properties}
    if len(key) == 1 and not modifiers & (CONTROL | META):
        event |= {"type": "keyDown", "text": key}
    else:
        event["type"] = "rawKeyDown"
    return [("Input.dispatchKeyEvent", event)]


def up(key: str, code: str = "", modifiers: int = 0) -> list[Event]:
    event = {"type": "keyUp", "key": key, "code": code, "modifiers": modifiers}
    return [("Input.dispatchKeyEvent", event)]


def struck(key: str, code: str = "", modifiers: int = 0) -> list[Event]:
    return down(key, code, modifiers) + up(key, code, modifiers)


def script(text: str) -> list[Event]:
    """Dispatch events that DevTools cannot: `on(new Event(…))` is one of the field."""
    field = "const field = document.getElementById('record-keys')"
    on = "const on = (event) => field.dispatchEvent(event)"
    return [("Runtime.evaluate", {"expression": f"{{ {field}; {on}; {text} }}"})]


def composed(text: str) -> list[Event]:
    cursor = {"selectionStart": len(text), "selectionEnd": len(text)}
    return [
        ("Input.imeSetComposition", {"text": text, **cursor}),
        ("Input.insertText", {"text": text}),
    ]


def pointer(kind: str, modifiers: int = 0) -> list[Event]:
    button = {"button": "left", "clickCount": 1, "modifiers": modifiers}
    return [("Input.dispatchMouseEvent", {"type": kind, "x": 300, "y": 400, **button})]


BLUR = script("window.dispatchEvent(new Event('blur'))")
AWAY = script("""
  Object.defineProperty(document, "hidden", { value: true, configurable: true });
  document.dispatchEvent(new Event("visibilitychange")); delete document.hidden""")
A = struck("a", "KeyA")
B = struck("b", "KeyB")
ALT_DOWN = down("Alt", "AltLeft", ALT)
ALT_UP = up("Alt", "AltLeft")
META_DOWN = down("Meta", "MetaLeft", META)
META_UP = up("Meta", "MetaLeft")
CONTROL_DOWN = down("Control", "ControlLeft", CONTROL)
CONTROL_UP = up("Control", "ControlLeft")
CLICK = [*pointer("mousePressed"), *pointer("mouseReleased")]
ENTER_OF_INPUT_METHOD = """
  on(new KeyboardEvent("keydown", { key: "Enter", code: "Enter", keyCode: 229 }));
  on(new KeyboardEvent("keyup", { key: "Enter", code: "Enter", keyCode: 13 }))"""

WITHHELD = {
    "release of a letter pressed with cmd": (
        [*META_DOWN, *down("s", "KeyS", META), *META_UP, *struck("S", "KeyS", SHIFT)],
        ["press super+s", "type S"],
    ),
    "two letters with cmd": (
        [*META_DOWN, *down("a", "KeyA", META), *down("c", "KeyC", META), *META_UP, *A],
        ["press super+a", "press super+c", "type a"],
    ),
    "release of cmd": (
        [*META_DOWN, *down("s", "KeyS", META), *A],
        ["press super+s", "type a"],
    ),
    "all of alt+tab but alt": ([*A, *ALT_DOWN, *BLUR, *B], ["type ab"]),
    "all of alt+tab but alt, without a blur": ([*A, *ALT_DOWN, *B], ["type ab"]),
    "all of cmd+tab but cmd": ([*A, *META_DOWN, *BLUR, *B], ["type ab"]),
    "all after cmd in a hidden page": ([*A, *META_DOWN, *AWAY, *B], ["type ab"]),
    "press of alt before the page got the focus": ([*A, *ALT_UP, *B], ["type ab"]),
    "press of alt, and the pointer moves": (
        [*A, *pointer("mouseMoved", ALT), *ALT_UP, *B],
        ["type ab"],
    ),
    "press of control": (
        [*BLUR, *struck("b", "KeyB", CONTROL), *CONTROL_UP],
        ["press control+b"],
    ),
    "release of control in another window": (
        [*CONTROL_DOWN, *struck("b", "KeyB", CONTROL), *BLUR, *A],
        ["press control+b", "type a"],
    ),
    "release of shift, and a click": (
        [
            *down("Shift", "ShiftLeft", SHIFT),
            *pointer("mousePressed", SHIFT),
            *pointer("mouseReleased"),
        ],
        ["hold down shift", "click", "release shift"],
    ),
    "release of a letter when another window opened": (
        [*down("a", "KeyA"), *BLUR, *struck("A", "KeyA", SHIFT)],
        ["type aA"],
    ),
    "end of a composition": (
        [*script("field.value = 'あ'"), *struck("Enter", "Enter")],
        ["type あ", "press return"],
    ),
    "end of a composition in another window": (
        [*script("field.value = 'あ'"), *BLUR, *A],
        ["type あa"],
    ),
    "release of the Enter that ends a composition": (
        [*composed("あ"), *script(ENTER_OF_INPUT_METHOD.split(";\n")[0]), *A],
        ["type あa"],
    ),
}
"""Of each event that is withheld: those that come, and what is recorded."""
TYPED = {
    "alt alone": ([*ALT_DOWN, *ALT_UP], ["press alt"]),
    "cmd alone": ([*META_DOWN, *META_UP], ["press super"]),
    "held alt alone": ([*ALT_DOWN, *ALT_DOWN, *ALT_UP], ["press alt"]),
    "control alone": ([*CONTROL_DOWN, *CONTROL_UP], []),
    "alt and a click": (
        [*ALT_DOWN, *pointer("mousePressed", ALT), *pointer("mouseReleased"), *ALT_UP],
        ["hold down alt", "click", "release alt"],
    ),
    "cmd+shift, for a screenshot": (
        [*META_DOWN, *down("Shift", "ShiftLeft", META | SHIFT), *META_UP],
        [],
    ),
    "alt+f": ([*ALT_DOWN, *struck("f", "KeyF", ALT), *ALT_UP], ["press alt+f"]),
    "alt+f on a Russian keyboard": (struck("а", "KeyF", ALT), ["press alt+f"]),
    "ctrl+shift+b": (struck("B", "KeyB", CONTROL | SHIFT), ["press control+shift+b"]),
    "control on the place of caps lock": (
        [*down("Control", "CapsLock", CONTROL), *struck("b", "KeyB", CONTROL)],
        ["press control+b"],
    ),
    "right control": (
        [*down("Control", "ControlRight", CONTROL), *struck("b", "KeyB", CONTROL)],
        ["press controlr+b"],
    ),
    "caps lock of a Mac": (
        [*down("CapsLock", "CapsLock"), *struck("A", "KeyA"), *up("CapsLock"), *B],
        ["type Ab"],
    ),
    "a key with two characters": (
        script('on(new KeyboardEvent("keydown", { key: "لا", code: "KeyB" }))'),
        ["type لا"],
    ),
    "AltGr on Windows": (
        [
            *CONTROL_DOWN,
            *down("AltGraph", "AltRight"),
            *struck("@", "KeyQ"),
            *CONTROL_UP,
        ],
        ["type @"],
    ),
    "AltGr on Linux": (
        [*struck("AltGraph", "AltRight"), *struck("@", "KeyQ")],
        ["type @"],
    ),
    "Control and Alt for AltGr": (struck("@", "KeyQ", CONTROL | ALT), ["type @"]),
    "Enter of an input method after its composition": (
        [*composed("あ"), *script(ENTER_OF_INPUT_METHOD)],
        ["type あ"],
    ),
    "Safari's text before the end of its composition": (
        script("""field.value = 'あ';
          on(new InputEvent("input", { inputType: "insertFromComposition", data: "あ" }));
          on(new CompositionEvent("compositionend", { data: "あ" }))"""),
        ["type あ"],
    ),
    "an accent": ([*down("Dead", "Quote"), *composed("é"), *B], ["type éb"]),
    "an accent on Windows": ([*struck("Dead", "Quote"), *struck("é")], ["type é"]),
    "an accent that is lost": (
        [*struck("Dead", "Quote"), *struck("e", "KeyE")],
        ["type e", NO_CHARACTER.format("Dead")],
    ),
    "a keyboard on the screen": (
        [
            *down("Unidentified", windowsVirtualKeyCode=229),
            ("Input.insertText", {"text": "q"}),
            *up("Unidentified"),
        ],
        ["type q"],
    ),
    "Backspace on the screen": (
        [
            *A,
            *down(
                "Unidentified", windowsVirtualKeyCode=229, commands=["deleteBackward"]
            ),
            *up("Unidentified"),
        ],
        ["type a", "press backspace"],
    ),
    "a key without a name": (
        struck("Unidentified", "KeyA"),
        [NO_CHARACTER.format("Unidentified")],
    ),
}
"""Of what is typed: the events, and what is recorded."""
ON_MAC = {
    "Option+L": ([*A, *ALT_DOWN, *struck("@", "KeyL", ALT), *ALT_UP, *B], ["type a@b"]),
    "Option+Shift+7": (struck("\\", "Digit7", ALT | SHIFT), ["type \\"]),
    "Option+S": (struck("ß", "KeyS", ALT), ["type ß"]),
    "Option+N, N": (
        [*ALT_DOWN, *down("Dead", "KeyN", ALT), *ALT_UP, *composed("ñ")],
        ["type ñ"],
    ),
    "Option+left": (struck("ArrowLeft", "ArrowLeft", ALT), ["press alt+left"]),
    "Option+Cmd+L": (struck("@", "KeyL", ALT | META), ["press alt+super+@"]),
    "Option held for a click and a character": (
        [
            *ALT_DOWN,
            *pointer("mousePressed", ALT),
            *pointer("mouseReleased", ALT),
            *struck("@", "KeyL", ALT),
            *ALT_UP,
        ],
        ["hold down alt", "click", "release alt", "type @"],
    ),
}
"""As TYPED, on a Mac. Its events are those that are reported; no Mac sent them."""
ROWS = [
    *(("Linux x86_64", *row) for row in [*WITHHELD.values(), *TYPED.values()]),
    ("Linux x86_64", *ON_MAC["Option+L"]),
    *(("MacIntel", *row) for row in ON_MAC.values()),
]
IDS = [*(f"no {name}" for name in WITHHELD), *TYPED, "Option+L unnoticed", *ON_MAC]


Keyboard = Callable[[str, list[Event]], list[str]]


@pytest.fixture(scope="module")
def keyboard(browser: Any) -> Iterator[Keyboard]:
    """`keyboard(platform, events)`: send events to the page; return what it shows as
    recorded, and its notice.
    """
    with ExitStack() as stack:
        server = stack.enter_context(vnc_servers.tigervnc())
        stack.enter_context(server.run(*XTERM))
        controller = stack.enter_context(closing(connect(server.address)))
        recording = stack.enter_context(closing(Recording(controller, "Type", [], {})))
        page = stack.enter_context(browser.new_page())
        page.set_default_timeout(WITHIN_MS)
        recording.open(page)
        session = page.context.new_cdp_session(page)
        steps = page.locator("#record-steps li[value]")
        notice = page.locator("#record-notice")

        def recorded(platform: str, events: list[Event]) -> list[str]:
            agent = {"userAgent": "a browser", "platform": platform}
            session.send("Emulation.setUserAgentOverride", agent)
            page.locator("#record-keys").focus()
            count = steps.count()
            noticed = notice.text_content()
            for command, parameters in [*events, *struck("F9", "F9")]:
                session.send(command, parameters)
            page.wait_for_function(HAS_END, arg=count)
            made = joined(steps.all_text_contents()[count:-1])
            if notice.text_content() != noticed:
                made.append(re.sub(r"^after step \d+: ", "", notice.text_content()))
            return made

        recorded("Linux", CLICK)  # xterm gets the focus
        yield recorded


HAS_END = """(count) => {
  const steps = [...document.querySelectorAll("#record-steps li[value]")];
  return steps.length > count && steps.at(-1).textContent.endsWith("f9");
}"""


def joined(captions: list[str]) -> list[str]:
    """Return the captions without places; texts in a row, as of a busy machine, are
    one.
    """
    short: list[str] = []
    for caption in captions:
        if not caption.startswith("type "):
            short.append(re.sub(r" at \(.*", "", caption))
            continue
        text = json.loads(caption.removeprefix("type "))
        if short and short[-1].startswith("type "):
            short[-1] += text
        else:
            short.append(f"type {text}")
    return short


@pytest.mark.parametrize(("platform", "events", "recorded"), ROWS, ids=IDS)
def test_events_make_what_user_typed(
    keyboard: Keyboard, platform: str, events: list[Event], recorded: list[str]
) -> None:
    assert keyboard(platform, events) == recorded
