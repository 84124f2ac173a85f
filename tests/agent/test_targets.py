"""What a step acts on: its elements, asked within a limit, and an image of the
place.
"""

from __future__ import annotations

import threading
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from pytest_vnc_use import RunResult, VncUseAgent
from pytest_vnc_use.agent import act as targets
from pytest_vnc_use.agent.act import Asker, Targets
from pytest_vnc_use.runs.directory import RunDirectory, read_trace
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import (
    Action,
    Click,
    Frame,
    FrameRef,
    KeyCombo,
    Proposal,
    Region,
    TypeText,
    Wait,
)
from pytest_vnc_use.types.elements import Element, Elements
from support import vnc_servers
from support.memory_desktop import (
    SIZE,
    ListPlanner,
    PaintedController,
    act,
    finished,
    painted,
)
from support.witness_programs import SECOND_OPTION_PX, SELECT_PAGE, chromium, element

BUTTON = Element("button", "Sign in", Region(10, 10, 60, 30))
FIELD = Element("textbox", "User", Region(10, 40, 60, 60))


def test_place_is_stored_as_it_was_before_action(tmp_path: Path) -> None:
    image = Image.new("RGB", SIZE, (0, 0, 90))
    image.paste((200, 10, 10), (150, 80, 170, 100))
    image.save(file := BytesIO(), "PNG")
    directory = RunDirectory.create(tmp_path, "run-1")
    frame = Frame(FrameRef("a" * 64, *SIZE), file.getvalue())
    seen = Targets(lambda _: (), directory)
    seen.seen = frame
    _, crop_ref = seen.of(Click(160, 90), frame.ref, 60)
    assert crop_ref is not None
    crop = Image.open(BytesIO(directory.load_png(crop_ref)))
    assert crop.size == (crop_ref.width, crop_ref.height) == targets.CROP_PX
    assert crop.getpixel((80, 30)) == (200, 10, 10)
    assert crop.getpixel((0, 0)) == (0, 0, 90)


def test_typed_text_targets_focus_or_last_clicked_field(tmp_path: Path) -> None:
    tree: dict[type, Elements] = {Click: (FIELD,)}
    seen = Targets(
        lambda action: tree.get(type(action), ()),
        RunDirectory.create(tmp_path, "run-1"),
    )
    frame = painted(1)
    seen.seen = frame

    def elements(action: Action) -> Elements:
        return seen.of(action, frame.ref, 60)[0]

    assert elements(TypeText("a")) == ()
    elements(Click(20, 50))
    elements(Wait())
    assert elements(TypeText("a")) == (FIELD,)
    assert (
        seen.of(TypeText("a"), frame.ref, 60)[1]
        == seen.of(Click(20, 50), frame.ref, 60)[1]
    )
    elements(KeyCombo(("tab",)))
    assert seen.of(TypeText("a"), frame.ref, 60) == ((), None)
    tree[Click] = (BUTTON,)
    elements(Click(20, 20))
    assert elements(TypeText("a")) == ()
    tree[TypeText] = (FIELD,)
    assert elements(TypeText("a")) == (FIELD,)


def test_hanging_or_broken_tree_fails_no_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "ASK_S", 0.05)
    monkeypatch.setattr(targets, "_SLOW_S", 0.05)
    asked = []
    never = threading.Event()

    def hang(action: Action) -> Elements:
        asked.append(action)
        never.wait(30)
        return (BUTTON,)

    ask = Asker(hang)
    assert [ask(Click(1, 1)) for _ in range(5)] == [()] * 5
    assert len(asked) == 3
    never.set()


class TellingController(PaintedController):
    """A controller that knows what each action acts on."""

    def __init__(self, *tree: Element) -> None:
        super().__init__()
        self.tree = tree

    def elements_of(self, action: Action) -> Elements:
        return self.tree


def run_on(tmp_path: Path, *tree: Element, **options: Any) -> RunResult:
    planner = ListPlanner([act(Proposal(Click(20, 20), "go")), finished()])
    settings = Settings(runs_dir=str(tmp_path / "runs"))
    agent = VncUseAgent(
        settings=settings,
        controller=TellingController(*tree),
        planner=planner,
        **options,
    )
    return agent.run("sign in")


def test_step_keeps_element_as_name(tmp_path: Path) -> None:
    result = run_on(tmp_path, BUTTON)
    (step,) = read_trace(result.run_dir).steps
    assert step.elements == (BUTTON,)
    assert step.crop is not None
    assert RunDirectory(result.run_dir).load_png(step.crop)
    assert result.transcript == '1 click "Sign in" (button): go'


@pytest.mark.browser
def test_clicked_option_of_select_is_named(tmp_path: Path) -> None:
    """Chromium's DevTools know no box of a shown option: only the choice tells."""
    vnc_servers.require("chromium")
    with (
        vnc_servers.tigervnc((1000, 700)) as server,
        chromium(server, SELECT_PAGE) as browser,
    ):
        select = Click(*element(browser, "Delivery").centre)
        second = Click(select.x, select.y + SECOND_OPTION_PX)
        clicks = [select, second, select, Click(700, 500), select, second]
        decisions = [act(Proposal(click, "go")) for click in clicks]
        settings = Settings(
            server=server.address, cdp=browser.address, runs_dir=str(tmp_path)
        )
        planner = ListPlanner([*decisions, finished()])
        with VncUseAgent(settings=settings, planner=planner) as agent:
            result = agent.run("choose")
    nameless = "click(x={0.x}, y={0.y}, button='left', count=1)".format
    assert [line.partition(" ")[2] for line in result.transcript.splitlines()] == [
        'click "Delivery" (combobox): go',
        'click "Express (2 days)" (option): go',
        'click "Delivery" (combobox): go',
        f"{nameless(clicks[3])}: go",
        'click "Delivery" (combobox): go',
        f"{nameless(second)}: go",
    ]


def test_no_secret_and_no_endless_name_is_kept(tmp_path: Path) -> None:
    hostile = "x" * 195 + "hunter22" + "y" * 10_000_000 + "\x1b[31m\u202e"
    name = Element("button", targets.cut(hostile, 10_000), BUTTON.box)
    split = Element("button", "hun\u200bter22 \x1b]0;title\x07", BUTTON.box)
    result = run_on(tmp_path, name, split, secrets={"PASSWORD": "hunter22"})
    trace = (result.run_dir / "trace.jsonl").read_text("utf-8")
    assert "hunter" not in trace
    assert "ter22" not in trace
    first, second = read_trace(result.run_dir).steps[0].elements
    assert first is not None
    assert len(first.name) < 300
    assert "10000209 characters" in first.name
    assert second is not None
    assert second.name.startswith("<secret:PASSWORD>")
    assert result.transcript.isprintable()
