"""The browser through DevTools, and elements for a model and for reports, of a page and
by AT-SPI of other programs.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from websockets.http11 import Request, Response
from websockets.sync.server import ServerConnection, serve

from pytest_vnc_use.backends.browser import Browser, browser_at, browser_functions
from pytest_vnc_use.backends.elements import (
    _choose,
    acted_on_program,
    desktop_elements,
    elements_function,
)
from pytest_vnc_use.backends.vnc import VNCController
from pytest_vnc_use.desktops.external import ExternalDesktop
from pytest_vnc_use.errors import ActionError, DesktopError, SettingsError, TaskFailed
from pytest_vnc_use.types import (
    Action,
    Click,
    Drag,
    OpenUrl,
    Region,
    TraverseHistory,
    TypeText,
)
from pytest_vnc_use.types.elements import AskAfter, Element, Elements
from pytest_vnc_use.types.protocols import CommandResult
from support import vnc_servers
from support.json_server import Reply
from support.paths import PROGRAMS
from support.vnc_servers import VncServer, missing, require, wait_for
from support.witness_programs import (
    Site,
    assert_becomes,
    element,
    evaluated,
    serving_pages,
)


def test_address_title_text_and_functions_of_model(
    browser: Browser, pages: Site
) -> None:
    assert browser.url == f"{pages.address}/"
    assert browser.title == "The shop"
    text = browser.text()
    assert "Apples & pears" in text
    assert "nobody reads this" not in text
    assert ">nobody reads this</p>" in browser.html()
    get_browser_state, list_elements = browser_functions(lambda: browser)
    assert get_browser_state().startswith(
        f"url: {pages.address}/\ntitle: The shop\nApples & pears\n"
    )
    coupon = element(browser, "Coupon")
    x, y = coupon.centre
    box = coupon.box
    line = (
        f"textbox 'Coupon' at ({x}, {y}), [{box.left}, {box.top}, {box.right},"
        f" {box.bottom}]"
    )
    assert line in [
        listed.partition(". ")[2] for listed in list_elements().splitlines()
    ]
    _, on_a_grid = browser_functions(
        lambda: browser, lambda width, height: (1000, 1000)
    )
    assert (
        f". textbox 'Coupon' at ({x * 1000 // 1024}, {y * 1000 // 768}), ["
        in on_a_grid()
    )


def test_wait_for_text_now_later_and_never(
    browser: Browser, controller: VNCController
) -> None:
    browser.wait_for_text("Apples & pears", within_s=0.5)
    with pytest.raises(
        TaskFailed,
        match=(
            r"did not show 'plums' within 0.3 s. It showed 'Apples & pears The"
            r" basket is"
        ),
    ):
        browser.wait_for_text("plums", within_s=0.3)
    for name, text in (
        ("Add an apple", "The basket holds 1 apple."),
        ("Slowly", "Slowly shown"),  # by a transition
        ("To the second page", "The second page"),
    ):
        controller.click(*element(browser, name).centre)
        browser.wait_for_text(text, within_s=10)
    with pytest.raises(
        TaskFailed, match=r"did not show 'Ordered by Ann' within .*Ordered by\\xa0Ann'"
    ):
        browser.wait_for_text("Ordered by Ann", within_s=0.3)


def test_elements_in_view(
    browser: Browser, controller: VNCController, pages: Site
) -> None:
    # Chromium scrolls smoothly: what is read meanwhile holds for no moment
    def has_come_to_rest() -> bool:
        places = [
            each.centre for each in browser.elements() if each.name == "Far below"
        ]
        controller.settle()
        return (
            places
            == [each.centre for each in browser.elements() if each.name == "Far below"]
            != []
        )

    elements = {(each.role, each.name) for each in browser.elements()}
    assert elements >= {
        ("heading", "Apples & pears"),
        ("button", "Add an apple"),
        ("textbox", "Coupon"),
        ("link", "To the second page"),
        ("button", "Framed"),
    }
    assert ("button", "Far below") not in elements
    controller.key_combo("end")
    assert_becomes(has_come_to_rest, True)
    controller.click(*element(browser, "Far below").centre)
    assert_becomes(lambda: pages.reports, ["far"])
    browser.navigate(pages.address)
    controller.key_combo("ctrl+plus")
    assert_becomes(lambda: browser.window.ratio > 1, True)
    for name in ("Framed", "Add an apple"):
        controller.click(*element(browser, name).centre)
    assert_becomes(lambda: sorted(pages.reports), ["apple", "far", "framed"])
    controller.key_combo("ctrl+0")
    assert_becomes(lambda: browser.window.ratio, 1)


NAMES = """data:text/html,<title>Names</title><body style="margin:8px">
<h1>Sign in</h1><label>User <input id=user value="typed value"></label><br>
<label>Password <input id=password type=password value="typed value"></label><br>
<div id=note contenteditable role=button>typed <b>value</b></div>
<button id=go><span>Go <b>on</b></span></button><div id=plain>plain text</div>
<iframe id=frame srcdoc="<body style='margin:0'><button>Framed</button>" style="height:40px"></iframe>
<button id=long></button><script>long.ariaLabel = 'x'.repeat(1e6); long.textContent = 'L'</script>"""


def middle(browser: Browser, name: str) -> tuple[int, int]:
    """Return a point in an element, of an id or a selector, on the screen."""
    element = f"document.getElementById({name!r}) || document.querySelector({name!r})"
    script = f"""(box => [
        box.left + Math.min(box.width / 2, 20),
        box.top + Math.min(box.height / 2, 10),
    ])(({element}).getBoundingClientRect())"""
    x, y = evaluated(browser, script)
    window = browser.window
    return int(window.left + x * window.ratio), int(window.top + y * window.ratio)


@pytest.fixture
def names(browser: Browser) -> Browser:
    """It shows the page of elements with names."""
    browser.navigate(NAMES.replace("\n", ""))
    return browser


@pytest.mark.parametrize(
    ("name", "element"),
    [
        ("h1", ("heading", "Sign in")),
        ("user", ("textbox", "User")),
        ("password", ("textbox", "Password")),
        ("go", ("button", "Go on")),
        ("#go b", ("button", "Go on")),
        ("plain", ("text", "plain text")),
        ("frame", ("button", "Framed")),
    ],
)
def test_clicked_element_is_named(
    names: Browser, name: str, element: tuple[str, str]
) -> None:
    assert seen(names.acted_on(Click(*middle(names, name)))) == [element]


def test_clicked_element_has_no_typed_value(names: Browser) -> None:
    elements = seen(names.acted_on(Click(*middle(names, "note"))))
    assert "typed" not in str(elements)


def test_clicked_element_with_long_name_is_cut(names: Browser) -> None:
    (long,) = seen(names.acted_on(Click(*middle(names, "long"))))
    assert long is not None
    assert long[1].startswith("(the first 10000 of 1000000 characters) xxx")


def test_clicked_page_has_no_element(names: Browser) -> None:
    assert seen(names.acted_on(Click(2, 2))) == [None]


def test_dragged_elements_are_named(names: Browser) -> None:
    drag = Drag(*middle(names, "go"), *middle(names, "h1"))
    assert seen(names.acted_on(drag)) == [("button", "Go on"), ("heading", "Sign in")]


def test_typed_text_is_of_focused_element(
    names: Browser, controller: VNCController
) -> None:
    def focused() -> object:
        return evaluated(names, "document.activeElement.id")

    assert seen(names.acted_on(TypeText("a"))) == [None]
    controller.click(*middle(names, "password"))
    wait_for(lambda: focused() == "password", "focus", 5)
    assert seen(names.acted_on(TypeText("a"))) == [("textbox", "Password")]


OPTIONS = "<select aria-label=Size><option>S<option>M</select><p><button>Under</button>"


@pytest.mark.parametrize("page", [OPTIONS, f"<iframe srcdoc='{OPTIONS}'></iframe>"])
def test_element_under_options_is_not_named(
    browser: Browser, controller: VNCController, page: str
) -> None:
    browser.navigate(f"data:text/html,{page}")
    select = Click(*element(browser, "Size").centre)
    under = Click(*element(browser, "Under").centre)
    assert seen(browser.acted_on(under)) == [("button", "Under")]
    controller.click(select.x, select.y)
    wait_for(lambda: callable(browser.acted_on(under)), "the options", 5)
    assert seen(browser.acted_on(select)) == [("combobox", "Size")]
    controller.click(under.x, under.y)


def test_navigating_and_back_and_forward(browser: Browser, pages: Site) -> None:
    browser.navigate(f"{pages.address}/second")
    assert browser.title == "Second"
    assert browser.text().splitlines()[0] == "The second page"
    with pytest.raises(
        ActionError, match="cannot go forward: there is no such page in its history"
    ):
        browser.forward()
    browser.back()
    browser.navigate(f"{pages.address}/file")  # a download
    assert browser.url == f"{pages.address}/"
    with pytest.raises(ActionError, match="ERR_ABORTED"):
        browser.navigate("chrome://crash")
    with pytest.raises(DesktopError, match="has crashed"):
        browser.text()
    browser.navigate(pages.address)
    assert "Apples" in browser.text()
    with pytest.raises(
        ActionError,
        match=r"cannot open 'http://127.0.0.1:\d+': net::ERR_CONNECTION_REFUSED",
    ):
        browser.navigate(f"http://127.0.0.1:{vnc_servers.free_port()}")


MALFORMED_BROWSER = "must be host:port or http://host:port"
NO_PAGE = {
    "[]": "has no page open",
    '[{"type": "page", "url": "http://a", "id": "1"}]': (
        "the page 'http://a' cannot be reached through DevTools"
    ),
    "[1": "is not Chrome's DevTools",
}
ASK_PAGE = [
    pytest.param(Browser.text, id="text"),
    pytest.param(lambda browser: browser.wait_for_text("plums", 0.2), id="wait"),
]


@pytest.mark.parametrize("ask", ASK_PAGE)
@pytest.mark.parametrize(("listed", "problem"), NO_PAGE.items())
def test_no_page_to_read_is_named(
    listed: str, problem: str, ask: Callable[[Browser], object]
) -> None:
    with (
        serving_pages(lambda _: Reply(listed.encode()), print) as url,
        pytest.raises(DesktopError, match=problem),
    ):
        ask(Browser(url))


@pytest.mark.parametrize("ask", ASK_PAGE)
def test_browser_not_running_is_named(ask: Callable[[Browser], object]) -> None:
    port = vnc_servers.free_port()
    problem = f"no browser answers at '127.0.0.1:{port}'.*. Start Chrome or Chromium"
    with pytest.raises(DesktopError, match=f"{problem} there with"):
        ask(Browser(f"127.0.0.1:{port}"))


def test_opening_page_is_awaited() -> None:
    """Chromium lists a tab before it has a page that answers."""
    asked: list[str] = []

    def pages(connection: ServerConnection, request: Request) -> Response | None:
        listed = '[{"type": "page", "url": "", "id": "1"}]'
        return connection.respond(200, listed) if request.path == "/json/list" else None

    def page(connection: ServerConnection) -> None:
        for message in connection:
            question = json.loads(message)
            asked.append(question["method"])
            result = {
                "currentIndex": 0,
                "entries": [{"url": "http://a/", "title": "A"}],
            }
            refusal = {"error": {"message": "Not attached to an active page"}}
            connection.send(
                json.dumps(
                    {
                        "id": question["id"],
                        **({"result": result} if asked[2:] else refusal),
                    }
                )
            )

    with (
        serve(page, "127.0.0.1", 0, process_request=pages) as server,
        ThreadPoolExecutor() as pool,
    ):
        pool.submit(server.serve_forever)
        assert Browser(f"127.0.0.1:{server.socket.getsockname()[1]}").url == "http://a/"
        assert asked == ["Page.getNavigationHistory"] * 3
        server.shutdown()


def no_file(name: str, *, timeout_s: float = 5.0) -> str:
    raise FileNotFoundError(f"the program's working directory has no file {name!r}")


@pytest.mark.parametrize(
    ("address", "error", "problem"),
    [
        ("", SettingsError, "vnc_cdp must be the address"),
        (
            "profile/DevToolsActivePort",
            DesktopError,
            "no browser has been started with --remote-debugging-port=0 yet",
        ),
        *(
            (address, SettingsError, f"{MALFORMED_BROWSER}, got {address!r}")
            for address in ("localhost", "ftp://localhost:21", "host:99999")
        ),
    ],
)
def test_no_browser_is_named(
    address: str, error: type[Exception], problem: str
) -> None:
    with pytest.raises(error, match=problem):
        browser_at(address, no_file)


def test_url_of_step_waits_for_no_browser(
    tigervnc: VncServer, connected: Callable[..., VNCController]
) -> None:
    """It is asked after each step, also of programs that are no browser, where
    `vnc_cdp` is set for all tests.
    """
    waited: list[float] = []

    def read_file(name: str, *, timeout_s: float = 5.0) -> str:
        waited.append(timeout_s)
        return no_file(name)

    controller = connected(
        tigervnc, browser=partial(browser_at, "profile/DevToolsActivePort", read_file)
    )
    assert (controller.page_url(), waited) == ("", [0])
    with pytest.raises(ActionError):
        controller.perform(TraverseHistory("back"))
    assert waited == [0, 5], "it may be starting"


def test_addresses_and_history_by_devtools_or_keys(
    desktop: VncServer,
    browser: Browser,
    controller: VNCController,
    pages: Site,
    connected: Callable[..., VNCController],
) -> None:
    by_devtools = connected(desktop, browser=lambda wait_s=5.0: browser)
    for acting in (by_devtools, controller):
        acting.perform(OpenUrl(f"{pages.address}/second"))
        browser.wait_for_text("The second page")
        acting.perform(TraverseHistory("back"))
        browser.wait_for_text("Apples")
        acting.perform(TraverseHistory("forward"))
        browser.wait_for_text("The second page")
        acting.settle()
        # DevTools do not take that: it is typed
        acting.perform(OpenUrl(pages.address.removeprefix("http://")))
        browser.wait_for_text("Apples")
    by_devtools.perform(OpenUrl("about:blank"))
    assert by_devtools.page_url() == "about:blank"
    by_devtools.perform(TraverseHistory("back"))
    browser.wait_for_text("Apples")
    gone = Browser(f"127.0.0.1:{vnc_servers.free_port()}")
    with pytest.raises(ActionError, match="no browser answers at"):
        connected(desktop, browser=lambda: gone).perform(TraverseHistory("back"))


def test_list_counts_as_model_does() -> None:
    button = Element("push button", "Save", Region(512, 384, 1024, 768))
    list_elements = elements_function(
        lambda: ([button] * 200, (1024, 768)), lambda width, height: (1000, 1000)
    )
    first, *_, last = list_elements().splitlines()
    assert first == "1. push button 'Save' at (750, 750), [500, 500, 1000, 1000]"
    assert last == "… and 50 more"


def test_list_elements_none_returns_sentence() -> None:
    list_elements = elements_function(lambda: ([], (1024, 768)))
    assert list_elements() == "there are no elements in view"


def test_list_on_desktop_without_commands_names_problem() -> None:
    run = ExternalDesktop("lab-7:1").run
    list_elements = elements_function(lambda: (desktop_elements(run), (1024, 768)))
    (line,) = list_elements().splitlines()
    assert line.startswith(
        "the elements cannot be listed: cannot run '/usr/bin/python3 --version'"
    )


@pytest.mark.parametrize(
    ("result", "problem"),
    [
        (
            CommandResult(0, '[{"role": 1}]', ""),
            "the accessibility probe printed invalid data",
        ),
        (CommandResult(3, "", ""), "failed on this desktop: exit code 3"),
        (
            CommandResult(1, "", "xprop is missing"),
            "failed on this desktop: xprop is missing",
        ),
    ],
)
def test_failed_accessibility_probe_is_named(
    result: CommandResult, problem: str
) -> None:
    with pytest.raises(DesktopError, match=problem):
        desktop_elements(lambda command: result)


def seen(found: Elements | AskAfter) -> list[tuple[str, str] | None]:
    assert not callable(found)
    return [each and (each.role, each.name) for each in found]


def node(
    number: int,
    role: str,
    name: str = "",
    parent: int | None = None,
    **properties: object,
) -> dict[str, object]:
    seen = [
        {"name": each, "value": {"value": value}} for each, value in properties.items()
    ]
    above = {} if parent is None else {"parentId": str(parent)}
    values = {"role": {"value": role}, "name": {"value": name}}
    return {
        "nodeId": str(number),
        "ignored": False,
        "properties": seen,
        **values,
        **above,
    }


def test_content_of_field_is_never_name() -> None:
    field = node(3, "generic", editable="richtext", focusable=True)
    inner = node(2, "button", "typed value", 3, editable="richtext")
    assert (
        _choose([node(1, "heading", "typed", 2, editable="richtext"), inner, field])
        is field
    )
    # a loop of parents
    assert _choose([node(1, "generic", parent=2), node(2, "generic", parent=1)]) is None
    assert _choose([]) is None


ACCESSIBILITY = "/usr/libexec/at-spi-bus-launcher"


def launched_accessibly(*command: str) -> list[str]:
    """Return the command of a program after the launcher of AT-SPI's bus, on a session
    bus of their own.
    """
    start = (
        f"{ACCESSIBILITY} --launch-immediately &"
        ' QT_LINUX_ACCESSIBILITY_ALWAYS_ON=1 exec "$@"'
    )
    return ["dbus-run-session", "--", "sh", "-c", start, "sh", *command]


def require_accessible() -> None:
    if not Path(ACCESSIBILITY).exists():
        missing("at-spi2-core", "apt-get install at-spi2-core")
    if subprocess.run(["/usr/bin/python3", "-c", "import gi"]).returncode:
        missing("python3-gi", "apt-get install python3-gi")
    require("dbus-run-session")
    require("xprop")


def test_elements_of_program(
    tigervnc: VncServer, connected: Callable[..., VNCController], tmp_path: Path
) -> None:
    require_accessible()

    def run(command: list[str]) -> CommandResult:
        environment = {**os.environ, **tigervnc.environment}
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=30
        )
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

    command = launched_accessibly("/usr/bin/python3", str(PROGRAMS / "named_form.py"))
    with vnc_servers.running(
        *command, environment={**tigervnc.environment, "XDG_CACHE_HOME": str(tmp_path)}
    ):
        wait_for(lambda: "push button" in boxes(), "the program's elements", 30)
        form = {role: found[0] for role, found in boxes().items()}
        controller = connected(tigervnc)
        assert acted_on(Click(*form["push button"].centre)) == [
            ("push button", "Sign in")
        ]
        assert acted_on(Click(*form["password text"].centre)) == [
            ("password text", "Password")
        ]
        assert acted_on(Click(*form["combo box"].centre)) == [("combo box", "")]
        assert acted_on(Click(900, 700)) == [None]
        drag = Drag(*form["push button"].centre, *form["text"].centre)
        assert acted_on(drag) == [("push button", "Sign in"), ("text", "User")]
        controller.click(*form["password text"].centre)
        wait_for(
            lambda: acted_on(TypeText("a")) == [("password text", "Password")],
            "the focus",
            10,
        )
        controller.click(*form["menu"].centre)
        below = form["menu"].box.left + 15, form["menu"].box.bottom + 12
        wait_for(
            lambda: acted_on(Click(*below)) == [("menu item", "Open")], "the menu", 10
        )
