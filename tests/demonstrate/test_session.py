"""A user's session: events in, actions on the desktop and in the recording out, without
secrets.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from pytest_vnc_use import clock
from pytest_vnc_use.backends.vnc import connect
from pytest_vnc_use.demonstrate.gestures import AGAIN_S, DemonstratedAction, Motion
from pytest_vnc_use.demonstrate.session import ManualSession, recorded_steps
from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.recordings.build import SegmentBuilder
from pytest_vnc_use.recordings.format import MANUAL, RecordedStep, Screen, Segment
from pytest_vnc_use.recordings.images import pixels_in
from pytest_vnc_use.recordings.manual import ManualRun
from pytest_vnc_use.recordings.moving import stable_screen
from pytest_vnc_use.runs.directory import RunDirectory
from pytest_vnc_use.runs.redactor import Redactor
from pytest_vnc_use.types import (
    NO_FRAME,
    Action,
    Click,
    DesktopAction,
    KeyCombo,
    KeyDown,
    KeyUp,
    MouseDown,
    MouseUp,
    Move,
    Observation,
    Region,
    TypeText,
)
from pytest_vnc_use.types.elements import Element
from pytest_vnc_use.types.protocols import ForwardingController
from support import vnc_servers
from support.memory_desktop import PaintedController
from support.rfb_server import RAW, drawn
from support.served_screen import ServedScreen, served_screen
from support.vnc_servers import VncServer, wait_for
from support.witness_programs import SECOND_OPTION_PX, SELECT_PAGE, chromium, element

SECRET = "hunter2"
AMBIENT = "xyzzy-7"
CARD = Redactor({"CARD": "4111-1111"})
BLACK = Screen(pixels=lambda: np.zeros((4, 4), np.uint32))


def receive(session: ManualSession, *motions: Motion | None) -> None:
    for motion in motions:
        session.receive(motion, clock.monotonic())


def struck(text: str) -> list[Motion]:
    motions: list[Motion] = []
    for key in text:
        motions += [KeyDown(key), KeyUp(key)]
    return motions


def press(x: int, y: int) -> list[Motion]:
    return [MouseDown(x, y), MouseUp(x, y)]


def actions_of(session: ManualSession) -> list[object]:
    return [step.action for step in session.demonstration.steps]


def demonstrated(screen: ServedScreen, text: str) -> tuple[RecordedStep, ...]:
    """Return the recording of a click, a text and ctrl+s."""
    save = [KeyDown("control"), *struck("s"), KeyUp("control")]
    with closing(connect(screen.address)) as desktop:
        session = ManualSession(desktop, print)
        receive(session, *press(30, 40), *struck(text), *save, None)
        session.run()
    declared = Redactor({"PASSWORD": SECRET})
    ambient = Redactor({"TOKEN": AMBIENT})
    return recorded_steps(session.demonstration.steps, declared, ambient)


def test_demonstrated_actions_arrive_and_are_recorded() -> None:
    with served_screen() as screen:
        steps = demonstrated(screen, f"my {SECRET}")
    assert [step.action for step in steps] == [
        Click(30, 40),
        TypeText("my <secret:PASSWORD>"),
        KeyCombo(("control", "s")),
    ]
    assert isinstance(screen.motions[1], MouseDown)
    keys = [motion.key for motion in screen.motions if isinstance(motion, KeyDown)]
    assert [key for key in keys if len(key) == 1] == [*f"my {SECRET}", "s"]


def test_typed_ambient_secret_is_not_recorded() -> None:
    typed = "types the value of 'TOKEN', so nothing is"
    with served_screen() as screen, pytest.raises(SettingsError, match=typed):
        demonstrated(screen, AMBIENT)


def test_pointer_that_rests_is_moved_back_before_click() -> None:
    with served_screen() as screen, closing(connect(screen.address)) as desktop:
        session = ManualSession(desktop, print)
        receive(session, *press(30, 40), Move(200, 150))

        def click_once_rested() -> None:
            wait_for(lambda: Move(200, 150) in screen.motions, "the pointer's rest")
            receive(session, *press(90, 40), None)

        run_with(session, click_once_rested)
    assert actions_of(session) == [Click(30, 40), Click(90, 40)]


def run_with(session: ManualSession, user: Callable[[], None]) -> Screen:
    """Run the session while a user acts in another thread; return its last screen."""
    thread = threading.Thread(target=user)
    thread.start()
    end = session.run()
    thread.join()
    return end


@pytest.mark.parametrize("late_s", [0.0, 2.0])
def test_answer_is_timed_without_later_hover(
    monkeypatch: pytest.MonkeyPatch, late_s: float
) -> None:
    """A gate waits for as long as the program took, and no longer because a user read,
    and moved the pointer over a button.
    """
    receive_motion = ServedScreen.receive

    def answer(screen: ServedScreen, motion: Motion) -> Iterator[bytes]:
        yield from receive_motion(screen, motion)
        at = {MouseUp(30, 40): 60, Move(200, 150): 190}.get(motion)
        if at is None:
            return
        if isinstance(motion, MouseUp):
            time.sleep(late_s)  # the program works
        part = screen.pixels[140:160, at : at + 20]
        part[:] ^= 0x202020
        yield drawn(part, RAW, part.tobytes(), at, 140)

    monkeypatch.setattr(ServedScreen, "receive", answer)
    with served_screen() as screen, closing(connect(screen.address)) as desktop:
        session = ManualSession(desktop, print)
        receive(session, *press(30, 40))

        def read_and_move_on() -> None:
            wait_for(lambda: MouseUp(30, 40) in screen.motions, "the click")
            time.sleep(late_s + 2.0)  # the user reads
            receive(session, Move(200, 150))
            wait_for(lambda: Move(200, 150) in screen.motions, "the pointer's rest")
            receive(session, *press(90, 40), None)

        end = run_with(session, read_and_move_on)
    assert actions_of(session) == [Click(30, 40), Click(90, 40)]
    first, second = [step.screen for step in session.demonstration.steps]
    assert first
    assert first.appeared_s == 0.0
    assert second
    assert second.appeared_s == late_s
    assert end.appeared_s == 0.0


@pytest.mark.desktop
def test_text_after_changed_screen_is_separate(tigervnc: VncServer) -> None:
    """The user presses a key that opens something, sees it, and types on."""
    with closing(connect(tigervnc.address)) as desktop:
        session = ManualSession(desktop, print)

        def receive_at_once(*motions: Motion | None) -> None:
            for motion in motions:
                session.receive(motion, 0.0)

        def type_chi() -> None:
            receive_at_once(*struck("c"))
            steps = session.demonstration.steps
            wait_for(lambda: steps and steps[0].screen, "the first key")
            tigervnc.paint(7)
            time.sleep(0.7)  # the user looks
            receive_at_once(*struck("hi"), None)

        run_with(session, type_chi)
    assert actions_of(session) == [TypeText("c"), TypeText("hi")]


class Timed(ForwardingController):
    """Notes when buttons were pressed and released."""

    times: tuple[float, ...] = ()

    def perform(self, action: DesktopAction) -> None:
        self.desktop.perform(action)
        if isinstance(action, (MouseDown, MouseUp)):
            self.times += (time.monotonic(),)


@pytest.mark.desktop
def test_two_recorded_clicks_are_no_double_click(tigervnc: VncServer) -> None:
    """The user clicks slowly, but the session has the second click ready when it has
    performed the first.
    """
    with closing(connect(tigervnc.address)) as desktop:
        controller = Timed(desktop)
        session = ManualSession(desktop, print, controller=controller)
        for at_s in (0.0, AGAIN_S + 0.1):
            session.receive(MouseDown(140, 224), at_s)
            session.receive(MouseUp(140, 224), at_s)
        session.receive(None, 1.0)
        session.run()
    assert actions_of(session) == [Click(140, 224), Click(140, 224)]
    assert controller.times[2] - controller.times[1] >= AGAIN_S


@pytest.mark.parametrize(
    ("action", "differs_at", "is_repeated"),
    [
        (Click(30, 40), (390, 290), True),
        (Click(30, 40), (30, 40), False),
        (TypeText("a"), (390, 290), False),
    ],
)
def test_step_is_repeated_if_only_clock_differs(
    monkeypatch: pytest.MonkeyPatch,
    action: Click | TypeText,
    differs_at: tuple[int, int],
    *,
    is_repeated: bool,
) -> None:
    monkeypatch.setattr("pytest_vnc_use.demonstrate.session._BESIDE_S", 0.1)
    monkeypatch.setattr("pytest_vnc_use.demonstrate.session._REPEAT_S", 0.5)
    problems: list[str] = []
    with served_screen() as screen, closing(connect(screen.address)) as desktop:
        shown = desktop.frame()
        before = pixels_in(shown).copy()
        before[differs_at[1], differs_at[0]] ^= 0xFFFFFF
        session = ManualSession(desktop, problems.append)
        step = DemonstratedAction(action, Screen(pixels=lambda: before))
        assert session.repeat([step]) == is_repeated
    if is_repeated:
        assert actions_of(session) == [action]
        assert problems == []
    else:
        assert actions_of(session) == []
        (problem,) = problems
        assert "step 1 was not repeated: " in problem


@pytest.mark.browser
def test_chosen_option_names_click_and_drag() -> None:
    vnc_servers.require("chromium")
    with (
        vnc_servers.tigervnc((1000, 700)) as server,
        chromium(server, SELECT_PAGE) as browser,
        closing(connect(server.address)) as desktop,
    ):
        x, y = element(browser, "Delivery").centre
        option = (x, y + SECOND_OPTION_PX)
        choose = [*press(x, y), *press(*option)]
        session = ManualSession(desktop, print, browser.acted_on)
        receive(session, *choose, *choose)
        receive(session, KeyDown("home"), KeyUp("home"), MouseDown(x, y))

        def drag_once_options_show() -> None:
            try:
                wait_for(lambda: callable(browser.acted_on(Click(*option))), "options")
            finally:
                receive(session, Move(*option), MouseUp(*option), None)

        run_with(session, drag_once_options_show)
    assert [names_of(step) for step in session.demonstration.steps] == [
        ["Delivery"],
        ["Express (2 days)"],
        ["Delivery"],
        [],
        [],
        ["Delivery", "Express (2 days)"],
    ]


def names_of(step: DemonstratedAction) -> list[str]:
    return [element.name for element in step.elements if element]


@pytest.fixture
def paid() -> Segment:
    """A recording of clicks on buttons whose names have secrets."""
    card = Element("button", "pay with 4111-1111", Region(0, 0, 9, 9))
    key = Element("button", f"key-1 {'x' * 100_000}", Region(0, 0, 9, 9))
    actions = [
        DemonstratedAction(Click(1, 1), BLACK, (card,)),
        DemonstratedAction(KeyCombo(("enter",)), BLACK),
        DemonstratedAction(Click(2, 2), BLACK, (key,)),
    ]
    steps = recorded_steps(actions, CARD, Redactor({"KEY": "key-1"}))
    return Segment(task="pay", planner=MANUAL, steps=steps, end=BLACK)


def test_element_names_have_no_secret(paid: Segment) -> None:
    elements = chain.from_iterable(step.elements for step in paid.steps)
    card, key = [element.name for element in elements if element]
    assert card == "pay with <secret:CARD>"
    assert "<secret:KEY> xxx" in key
    assert len(key) < 300


def test_element_names_follow_steps(paid: Segment, tmp_path: Path) -> None:
    desktop = PaintedController()
    directory = RunDirectory.create(tmp_path, "run", "")
    builder = SegmentBuilder("pay", MANUAL, directory, lambda _: stable_screen(desktop))
    run = ManualRun(lambda: paid, desktop, builder)
    run.decide(Observation("pay", NO_FRAME, NO_FRAME, (), lambda _: b""), timeout_s=60)
    named = []
    for step in paid.steps:
        named.append(run.elements_of(step.action))
        run.perform(step.action)  # type: ignore[arg-type]
    assert named == [step.elements for step in paid.steps]
    assert builder.complete() == paid


def test_secret_typed_in_pieces_is_never_written() -> None:
    pause = [TypeText("4111-"), TypeText("1111")]
    assert recorded(*pause) == [TypeText("<secret:CARD>")]
    corrected = [TypeText("4111-x"), KeyCombo(("backspace",)), TypeText("1111")]
    with pytest.raises(SettingsError, match="typed in several pieces"):
        recorded(*corrected)


def recorded(*actions: Action) -> list[Action]:
    demonstrated = [DemonstratedAction(action, BLACK) for action in actions]
    steps = recorded_steps(demonstrated, CARD, Redactor({}))
    return [step.action for step in steps]
