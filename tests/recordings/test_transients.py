"""What a replay shows in between and its recording did not is listed; what a slow
program shows late is not.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from PIL import Image, ImageDraw

from pytest_vnc_use.backends.pixels import encode_png
from pytest_vnc_use.cli.target import browser_command
from pytest_vnc_use.recordings.course import Course
from pytest_vnc_use.recordings.format import (
    RecordedStep,
    Screen,
    Segment,
    ShownValue,
    dynamic_region,
    held,
)
from pytest_vnc_use.recordings.images import Pixels, levels_of, pixels_of
from pytest_vnc_use.recordings.painting import (
    Passage,
    cleared_place,
    has_text_at,
    is_moved_text,
    unknown_parts,
)
from pytest_vnc_use.recordings.replay import Replay
from pytest_vnc_use.runs.directory import RunDirectory, read_trace
from pytest_vnc_use.types import (
    Action,
    Click,
    Decision,
    FrameRef,
    Observation,
    Region,
    TypeText,
)
from support.images import numbers
from support.programs_on_x import Desk
from support.tills import STEPS, Steps, Tills
from support.vnc_servers import require

desktop = pytest.mark.desktop


def replayed(tills: Tills, *till: str) -> tuple[list[str], Path]:
    """Replay the recording to the test's end; return the problems reported, and its run
    directory.
    """
    with tills.agent("replay", None, *till) as played:
        result = played.run()
        played.agent.end_body()
        return played.recorded.transients.messages, result.run_dir


def test_transient_is_listed_with_its_frame(recorded: Tills) -> None:
    problems, directory = replayed(recorded, "--fault=toast")
    assert problems
    assert problems[0].startswith(
        "after step 2 of 4, click at (140, 224), the screen showed a"
        " transient that is not recorded, from ("
    )
    transients = read_trace(directory).transients
    assert [each.problem for each in transients] == problems
    assert transients[0].step == 2
    regions = [each.region for each in transients]
    assert any(500 <= each.left < 700 and 300 <= each.top < 340 for each in regions), (
        regions
    )
    assert all(RunDirectory(directory).load_png(each.seen) for each in transients)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("--slow=0", ["--slow=1"]),
        ("--fault=toast", ["--fault=toast"]),
        ("--panel=0", ["--panel=0.6", "--slow=0.5"]),
    ],
)
@desktop
def test_slow_toast_or_window_pieces_are_not_listed(
    tills: Tills, was: str, now: list[str]
) -> None:
    with tills.agent("auto", Steps(*STEPS), was) as played:
        played.run()
        assert played.recorded.write()
    assert replayed(tills, *now)[0] == []


class Slow(Steps):
    """A planner that thinks for so long before each step after the first two."""

    thinks_s = 0.0

    def decide(self, observation: Observation, *, timeout_s: float) -> Decision:
        time.sleep(self.thinks_s if len(observation.turns) >= 2 else 0)
        return super().decide(observation, timeout_s=timeout_s)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "thinks_s", "corner", "acts_beside_it"),
    [("long toast", 6.5, (520, 305), True), ("toast on Pay", 3.5, (540, 208), False)],
)
@desktop
def test_recorded_toast_delays_only_steps_on_it(
    tills: Tills,
    fault: str,
    thinks_s: float,
    corner: tuple[int, int],
    acts_beside_it: bool,
) -> None:
    planner = Slow(*STEPS)
    planner.thinks_s = thinks_s
    with tills.agent("auto", planner, f"--fault={fault}") as played:
        played.run()
        assert played.recorded.write()
    with tills.agent("replay", None, f"--fault={fault}") as played:
        result = played.run()
        played.agent.end_body()
        assert played.recorded.transients.messages == []
    x, y = corner
    before_paying = pixels_of(
        RunDirectory(result.run_dir).load_png(result.steps[3].frame_before)
    )
    assert (before_paying[y, x] == 0xFFE0A0) == acts_beside_it


SIZE = (320, 200)
FIELD = (20, 20, 200, 50)
BUTTON = (20, 120, 140, 160)
BLUE = "#2070b0"
RED = "#c02020"


def page(
    text: str = "",
    *,
    status: str = "",
    ring: str = BLUE,
    button: str = BLUE,
    note: str = "",
    toast: str = "",
    beside: str = "",
) -> Pixels:
    """A field with a text, a message beside it, a button and a status line; a toast, if
    there is one.
    """
    image = Image.new("RGB", SIZE, "white")
    pen = ImageDraw.Draw(image)
    pen.rectangle(FIELD, outline="grey")
    pen.text((30, 30), text, "black")
    pen.text((210, 30), beside, "black")
    pen.rectangle(BUTTON, fill=button, outline=ring, width=2)
    pen.text((50, 135), "Sign in", "white")
    pen.text((50, 150), note, "white")
    pen.text((20, 180), status, "black")
    if toast:
        pen.rectangle((210, 80, 310, 110), fill="#ffe0a0")
        pen.text((220, 90), toast, "black")
    return numbers(image)


SCREENS = [
    page(),
    page("alice"),
    page("alice", status="welcome"),
    page("alice", status="paid"),
    page("alice", status="paid", toast="updates"),
]


def screen_of(shown: Pixels, *values: ShownValue) -> Screen:
    """A recorded screen, and where it shows values."""
    return Screen(pixels=lambda: shown, values=values)


PAY = Click(80, 140)


def after_two_steps(
    screens: Sequence[Screen] = (),
    action: Action = PAY,
    acted_on: Pixels | None = None,
) -> Course:
    """A replay after its second step, a click on the button, performed on the second
    screen as it was recorded, or on `acted_on`.
    """
    *before, end = screens or map(screen_of, SCREENS)
    steps = tuple(RecordedStep(action=action, screen=screen) for screen in before)
    course = Course(Segment(task="Sign in", steps=steps, end=end))
    replay = Replay(cast(Any, None), course)
    first, second, *_ = [screen.pixels() for screen in course.segment.screens]
    for shown in (first, second if acted_on is None else acted_on):
        frame = FrameRef(str(shown.sum()), *SIZE)
        png = encode_png(shown)
        replay.decide(
            Observation("Sign in", frame, frame, (), lambda _, png=png: png),
            timeout_s=1.0,
        )
    return course


@pytest.mark.parametrize(
    "shown",
    [
        page("alice"),
        page("alice", status="paid"),
        page(status="welcome"),
        page(status="paid"),
        page("alice", ring="black"),
        page("alice", button="#104070"),
        page("alice", toast="updates"),
        page(status="one more second"),
    ],
    ids=[
        "late",
        "next",
        "earlier with later part",
        "earlier with next",
        "focused",
        "pressed",
        "recorded later",
        "status on its way",
    ],
)
def test_unknown_parts_slow_program_shows_none(shown: Pixels) -> None:
    assert after_two_steps().unknown_parts(shown) == []


@pytest.mark.parametrize(
    "shown",
    [
        page("alice", toast="added"),
        page("alice", toast="ERROR 500", status="paid"),
        page("alice", status="ERROR 500"),
        page("alice", note="ERROR"),
    ],
    ids=["toast", "other toast", "status", "note"],
)
def test_unknown_parts_unrecorded_drawing_is_listed(shown: Pixels) -> None:
    assert after_two_steps().unknown_parts(shown)


def test_unknown_parts_status_that_step_leaves_is_listed() -> None:
    course = after_two_steps([screen_of(page(status="open"))] * 4)
    assert course.unknown_parts(page(status="ERROR 500"))


def test_unknown_parts_message_over_status_on_its_way_is_listed() -> None:
    shown = page(status="ERROR 500")
    status = Region(15, 176, 120, 196).part_of(shown)
    status[status == 0xFFFFFF] = 0xFFE0A0
    assert after_two_steps().unknown_parts(shown)


def after_value() -> Course:
    """A replay with another value, which shows on the screens around the gate's."""
    user = ShownValue(name="user", region=Region(*FIELD))
    return after_two_steps(
        [
            screen_of(page()),
            screen_of(page("alice"), user),
            screen_of(page(status="welcome")),
            screen_of(page("alice", status="paid"), user),
            screen_of(page(status="done")),
        ]
    )


@pytest.mark.parametrize(
    "shown", [page("bob"), page("bob", status="paid")], ids=["late", "next"]
)
def test_unknown_parts_other_value_shows_none(shown: Pixels) -> None:
    assert after_value().unknown_parts(shown) == []


def test_unknown_parts_toast_beside_value_is_listed() -> None:
    assert after_value().unknown_parts(page("bob", toast="added"))


def blend(one: Pixels, other: Pixels, share: float) -> Pixels:
    """One screen that has faded into another so far."""
    images = [
        Image.fromarray(levels_of(shown).astype("uint8")) for shown in (one, other)
    ]
    return numbers(Image.blend(*images, share))


def test_unknown_parts_fade_shows_none() -> None:
    shown = blend(SCREENS[1], SCREENS[2], 0.4)
    assert after_two_steps().unknown_parts(shown) == []


def test_unknown_parts_text_of_other_step_that_fades_is_none() -> None:
    shown = blend(page("alice"), SCREENS[4], 0.5)
    assert after_two_steps().unknown_parts(shown) == []


def test_unknown_parts_message_that_fades_is_listed() -> None:
    message = page("alice", note="ERROR 500")
    shown = blend(SCREENS[1], message, 0.4)
    assert after_two_steps().unknown_parts(shown)


HINT = "What is missing?"
TYPED = [
    page(HINT),
    page(HINT, status="1 of 3"),
    page(HINT, status="2 of 3"),
    page(HINT, status="3 of 3"),
]
"""A field that Enter empties."""


@pytest.mark.parametrize(
    ("action", "places"),
    [
        (TypeText("bread\n", 110, 35), ()),
        (TypeText("bread\n"), (Region(30, 28, 32, 44),)),
    ],
    ids=["clicked", "caret"],
)
@pytest.mark.parametrize(
    ("shown", "is_known"),
    [
        (page("bread", status="1 of 3"), True),
        (page("bread", status="2 of 3"), True),
        (page("bread", status="1 of 3", toast="added"), False),
        (page(HINT, status="1 of 3", beside="it is too short"), False),
        (page("bread", status="1 of 3", note="ERROR 500"), False),
    ],
    ids=["typed", "with its result", "toast", "beside the field", "note"],
)
def test_unknown_parts_typed_text_before_enter(
    action: Action, places: Sequence[Region], shown: Pixels, *, is_known: bool
) -> None:
    carets = tuple(dynamic_region(place, "caret") for place in places)
    screens = [Screen(pixels=held(pixels), dynamic=carets) for pixels in TYPED]
    unknown = after_two_steps(screens, action).unknown_parts(shown)
    assert (unknown == []) == is_known


def test_unknown_parts_typed_text_at_part_that_blinks() -> None:
    caret = dynamic_region(Region(20, 22, 34, 48), "blinks")
    screens = [Screen(pixels=held(shown), dynamic=(caret,)) for shown in TYPED]
    course = after_two_steps(screens, TypeText("bread\n"))
    assert course.unknown_parts(page("bread", status="1 of 3")) == []


def test_passage_shows_last_of_typed_words() -> None:
    """The first are as in a text that was typed before."""
    screens = [*TYPED[1:3], page("white wine")]
    shown = page("white bread")
    (box,) = unknown_parts(shown, screens, np.zeros(shown.shape, np.bool_))
    field = Region(30, 28, 32, 44)
    assert box.left > field.right + 20
    assert Passage(TYPED[1:3], screens[2:], [field], is_drawn=True).shows(box, shown)
    elsewhere = [field.moved(0, 60)]
    assert not Passage(TYPED[1:3], screens[2:], elsewhere, True).shows(box, shown)


def open_to_right(shown: Pixels) -> Pixels:
    """A page whose field has no border on its right side."""
    _, top, right, bottom = FIELD
    opened = shown.copy()
    opened[top + 1 : bottom, right] = 0xFFFFFF
    return opened


def in_row_of_lamp(message: str) -> Pixels:
    """A page with a message further along the row of its status."""
    shown = page(HINT, status="1 of 3")
    message_at = Region(205, 26, 290, 46)
    place = message_at.moved(-60, 150)
    place.part_of(shown)[:] = message_at.part_of(page(HINT, beside=message))
    return shown


LAMP = dynamic_region(Region(300, 178, 306, 194), "blinks")
CARET = dynamic_region(Region(30, 28, 32, 44), "caret")


@pytest.mark.parametrize(
    ("action", "shown", "is_known"),
    [
        (TypeText("bread\n", 110, 35), page("bread", status="1 of 3"), True),
        (TypeText("bread", press_enter=True), page("bread", status="1 of 3"), True),
        (TypeText("bread", 110, 35), page("bread", status="1 of 3"), False),
        (
            TypeText("bread\n", 110, 35),
            page(HINT, status="1 of 3", beside="it is too short"),
            False,
        ),
        (TypeText("bread\n"), in_row_of_lamp("ERROR 500"), False),
    ],
    ids=["clicked", "caret", "no Enter", "right of click", "lamp"],
)
def test_unknown_parts_message_in_row_of_field_is_listed(
    action: Action, shown: Pixels, *, is_known: bool
) -> None:
    screens = []
    for pixels in TYPED:
        opened = held(open_to_right(pixels))
        screens.append(Screen(pixels=opened, dynamic=(CARET, LAMP)))
    course = after_two_steps(screens, action)
    assert (course.unknown_parts(open_to_right(shown)) == []) == is_known


def pager(command: str, *, caret: bool = True) -> Pixels:
    """The last lines of a terminal: a text, and a command that is typed, with the
    caret, a block, behind it.
    """
    image = Image.new("RGB", SIZE, "white")
    pen = ImageDraw.Draw(image)
    pen.text((2, 162), "line 23", "black")
    pen.text((2, 182), command, "black")
    left = 2 + 6 * len(command)
    if caret:
        pen.rectangle((left, 180, left + 5, 193), fill="black")
    return numbers(image)


@pytest.mark.parametrize(
    ("action", "shown", "is_known"),
    [
        (TypeText("/pears\n"), pager("/pears"), True),
        (TypeText("30n"), pager(":30"), True),
        (TypeText("/pears\n"), pager("not found", caret=False), False),
        (PAY, pager("/pears"), False),
    ],
    ids=["searched", "without Enter", "message", "not typed"],
)
def test_unknown_parts_typed_line_ends_with_block(
    action: Action, shown: Pixels, *, is_known: bool
) -> None:
    screens = [screen_of(pager(":")) for _ in TYPED]
    unknown = after_two_steps(screens, action).unknown_parts(shown)
    assert (unknown == []) == is_known


def accordion(opened_px: int, colour: str = "black", message: str = "") -> Pixels:
    """A part that is opened so far, with two headings below it; a message over it."""
    image = Image.new("RGB", SIZE, "white")
    pen = ImageDraw.Draw(image)
    pen.text((30, 22), "first line\nsecond line\nthird line", colour)
    pen.rectangle((20, 20 + opened_px, 299, 120 + opened_px), fill="white")
    for number in range(2):
        top = 20 + opened_px + 25 * number
        pen.rectangle((20, top, 299, top + 20), fill="#d0d0d0", outline="grey")
        pen.text((30, top + 4), f"Heading {number}", "black")
    if message:
        pen.rectangle((60, 45, 150, 65), fill="#ffe0a0")
        pen.text((70, 50), message, "black")
    return numbers(image)


def with_sign(shape: str, toast: str = "") -> Pixels:
    """A page with a sign that has no text, as a click makes it or while it works."""
    image = Image.fromarray(levels_of(page("alice", toast=toast)).astype("uint8"))
    pen = ImageDraw.Draw(image)
    if shape == "ripple":
        pen.ellipse((64, 124, 96, 156), fill="#80b0d8")
    else:
        pen.arc((250, 20, 280, 50), 30, 120, fill="navy", width=4)
    return numbers(image)


@pytest.mark.parametrize("shape", ["ripple", "spinner"])
def test_unknown_parts_sign_without_text_is_none(shape: str) -> None:
    course = after_two_steps()
    assert course.unknown_parts(with_sign(shape)) == []
    assert course.unknown_parts(with_sign(shape, toast="added"))


@pytest.mark.parametrize(
    ("text", "is_known"), [("New todo", True), ("ERROR 500", False)]
)
def test_passage_shows_name_of_field_that_becomes_smaller(
    text: str, *, is_known: bool
) -> None:
    def form(text: str, y: int, font_size: int, ground: str = "white") -> Pixels:
        image = Image.new("RGB", SIZE, "white")
        pen = ImageDraw.Draw(image)
        pen.rectangle((25, y - 3, 140, y + 24), fill=ground)
        pen.text((30, y), text, "#707070", font_size=font_size)
        pen.line((30, 75, 290, 75), "black")
        return numbers(image)

    screens = [form("New todo", 40, 20), form("New todo", 24, 15)]
    shown = form(text, 32, 17, "white" if is_known else "#ffe0a0")
    (box, *_) = unknown_parts(shown, screens, np.zeros(shown.shape, np.bool_))
    assert Passage(screens).shows(box, shown) is is_known


def test_passage_shows_recorded_toast_elsewhere() -> None:
    toast = page("alice", toast="updates")
    shown = page("alice")
    shown[120:151] = toast[80:111]  # it slides in
    (box,) = unknown_parts(shown, SCREENS[1:3], np.zeros(shown.shape, np.bool_))
    assert not Passage(SCREENS[1:3]).shows(box, shown)
    assert Passage(SCREENS[1:3], passing=[toast]).shows(box, shown)


CLOSED = accordion(4)
OPENED = accordion(60)


@pytest.mark.parametrize(
    ("shown", "is_known"),
    [
        (accordion(30), True),
        (accordion(30, message="ERROR 500"), False),
    ],
    ids=["slides", "message over it"],
)
def test_passage_shows_slide_but_no_message(shown: Pixels, *, is_known: bool) -> None:
    screens = [CLOSED, OPENED]
    unknown = unknown_parts(shown, screens, np.zeros(shown.shape, np.bool_))
    assert unknown
    assert all(Passage(screens).shows(box, shown) for box in unknown) is is_known


def signed(opened_px: float, *, turned: bool, message: str = "") -> Pixels:
    """An accordion with a sign in each heading, which is at a fraction of a pixel while
    the part is opened; a message over it.
    """
    shown = levels_of(accordion(int(opened_px), message=message)).astype("uint8")
    image = Image.fromarray(shown)
    for number in range(2):
        top = 28 + opened_px + 25 * number
        sign = Image.new("L", (8 * 12, 8 * 12))
        pen = ImageDraw.Draw(sign)
        bar = 40 + 8 * (top - int(top))
        pen.rectangle((0, bar, 96, bar + 12), fill=255)
        if not turned:
            pen.rectangle((40, 0, 52, 96), fill=255)
        ink = sign.resize((12, 12), Image.Resampling.BOX)
        image.paste("#606060", (270, int(top)), ink)
    return numbers(image)


@pytest.mark.parametrize(
    ("shown", "is_known"),
    [
        (signed(30.6, turned=True), True),
        (signed(30.6, turned=True, message="ERROR 500"), False),
    ],
    ids=["sign between two pixels", "message over it"],
)
def test_passage_shows_sign_on_slide(shown: Pixels, *, is_known: bool) -> None:
    screens = [signed(4, turned=False), signed(60, turned=True)]
    unknown = unknown_parts(shown, screens, np.zeros(shown.shape, np.bool_))
    assert unknown
    passage = Passage(screens)
    assert all(passage.shows(box, shown) for box in unknown) is is_known


def loading() -> Pixels:
    """A page of its own, in other colours."""
    image = Image.new("RGB", SIZE, "#303030")
    pen = ImageDraw.Draw(image)
    pen.text((20, 10), "Loading", "white")
    pen.text((220, 180), "Please wait", "white")
    return numbers(image)


def test_unknown_parts_masked_before_step_is_known_after_it() -> None:
    screens = [screen_of(shown) for shown in SCREENS]
    status = Region(20, 178, 120, 196)
    took = page("alice", status="it took 17 ms")
    screens[1] = Screen(pixels=held(took), masks=(status,))
    course = after_two_steps(screens, PAY, page("alice", status="it took 23 ms"))
    late = page("alice", status="it took 23 ms", button="#104070")
    assert course.unknown_parts(late) == []
    assert course.unknown_parts(page("alice", note="ERROR 500"))


def test_unknown_parts_page_that_loads_is_none() -> None:
    assert after_two_steps().unknown_parts(loading()) == []


def test_unknown_parts_where_a_line_is_cleared_is_none() -> None:
    course = after_two_steps([screen_of(page("alice", note="two of three"))] * 4)
    assert course.unknown_parts(page("alice", note="Loading"))
    cleared = page("", note="two of three", beside="Loading")
    assert course.unknown_parts(cleared)
    cleared[60:70, 80:150] = cleared[30:40, 210:280]  # close to the text that has gone
    cleared[30:40, 210:280] = 0xFFFFFF
    assert course.unknown_parts(cleared) == []


def test_unknown_parts_shorter_text_in_a_line_is_listed() -> None:
    ready = page("alice", status="ready for the next customer")
    course = after_two_steps([screen_of(ready)] * 4)
    assert course.unknown_parts(page("alice", status="ERROR 500"))


def form(focus: str, *, link: str = "#0088cc", message: str = "") -> Pixels:
    """A field and close to it a button, of which one has a soft ring; then a link."""
    image = Image.new("RGB", SIZE, "white")
    pen = ImageDraw.Draw(image)
    for name, box in (("field", FIELD), ("button", (20, 66, 120, 98))):
        for width, glow in ((4, "#e8f5f8"), (2, "#92cee1")):
            left, top, right, bottom = box
            ring = (left - width, top - width, right + width, bottom + width)
            pen.rectangle(ring, fill=glow if name == focus else "white")
        fill = "#777a93" if name == "field" else "#008cba"
        if name == focus == "button":
            fill = "#006f94"
        outline = "#3bceff" if name == focus else "#cccccc"
        pen.rectangle(box, fill=fill, outline=outline)
    pen.text((50, 76), "Sign in", "white")
    pen.text((20, 120), "cents", link)
    if link == "navy":
        pen.line((20, 131, 49, 131), link)
    pen.text((140, 70), message, "black")
    return numbers(image)


@pytest.mark.parametrize(
    ("shown", "is_known"),
    [
        (form("button"), True),
        (form("button", message="ERROR 500"), False),
        (form("field", link="navy"), True),
    ],
    ids=["focus moves", "message", "link"],
)
def test_passage_shows_focus_and_link_but_no_message(
    shown: Pixels, *, is_known: bool
) -> None:
    screens = [form("field"), page()]
    unknown = unknown_parts(shown, screens, np.zeros(shown.shape, np.bool_))
    assert unknown
    passage = Passage(screens)
    assert all(passage.shows(box, shown) for box in unknown) is is_known


def text_at(x: int, text: str, more: str = "", colour: str = "black") -> Pixels:
    """A line of text, and one far from it on the same row."""
    image = Image.new("RGB", SIZE, "white")
    pen = ImageDraw.Draw(image)
    pen.text((x, 90), text, colour, font_size=20)
    pen.text((x + 110, 90), more, colour, font_size=20)
    return numbers(image)


def between(one: Pixels, other: Pixels) -> Pixels:
    """What is drawn in the middle between two places."""
    return blend(one, other, 0.5)


@pytest.mark.parametrize(
    ("shown", "is_known"),
    [
        (text_at(80, "Slide 1"), True),
        (text_at(80, "Slide 1", colour="#777777"), True),
        (text_at(80, "Saved it", colour="#777777"), False),
        (between(text_at(79, "Slide 2"), text_at(80, "Slide 2")), True),
        (text_at(20, "Slide 1", "No"), False),
        (text_at(20, "Slide 1", colour="#c02020"), False),
        (text_at(80, "Slide 3"), False),
    ],
    ids=[
        "moved",
        "fainter",
        "other text",
        "half a pixel",
        "one more word",
        "other colour",
        "other digit",
    ],
)
def test_is_moved_text_other_line_is_message(shown: Pixels, *, is_known: bool) -> None:
    screens = [text_at(20, "Slide 1"), text_at(20, "Slide 2")]
    (box, *_) = unknown_parts(shown, screens, np.zeros(shown.shape, np.bool_))
    assert is_moved_text(box, screens, shown, []) is is_known


@pytest.mark.parametrize(
    ("shown", "is_cleared"),
    [
        (text_at(180, "Slide 1", colour="#777777"), False),
        (text_at(180, "Loading", colour="#777777"), True),
    ],
    ids=["moves", "loads"],
)
def test_cleared_place_is_where_a_line_has_gone(
    shown: Pixels, *, is_cleared: bool
) -> None:
    screens = [text_at(20, "Slide 1"), text_at(20, "Slide 2")]
    left_out = np.zeros(shown.shape, np.bool_)
    place = cleared_place(shown, screens, left_out)
    assert (place is not None) is is_cleared


def menu(chosen: str = "", *, covered_px: int = 0) -> Pixels:
    """A menu; the item that is chosen is lit and has a check mark, but for what a window
    covers already.
    """
    image = Image.new("RGB", SIZE, "white")
    pen = ImageDraw.Draw(image)
    pen.text((40, 24), "History", "black", font_size=14)
    pen.text((40, 54), "Status Bar", "black", font_size=14)
    if chosen:
        pen.rectangle((10, 20, 300, 44), "#308cc6", "#1a5276")
        pen.rectangle((20, 26, 31, 37), "white")
        pen.text((40, 24), chosen, "white", font_size=14)
    pen.rectangle((0, 0, covered_px, 200), "silver")
    if covered_px:
        pen.line((65, 0, 65, 200), "black")  # a border of the window
    return numbers(image)


@pytest.mark.parametrize("covered_px", [0, 52])
@pytest.mark.parametrize("chosen", ["History", "Removed"])
def test_passage_shows_item_that_is_chosen(chosen: str, covered_px: int) -> None:
    window = np.full_like(menu(), 0xC0C0C0)
    window[:, 65] = 0
    screens = [menu(), window]
    shown = menu(chosen, covered_px=covered_px)
    parts = unknown_parts(shown, screens, np.zeros(shown.shape, np.bool_))
    is_known = all(Passage(screens).shows(part, shown) for part in parts)
    assert parts
    assert is_known == (chosen == "History")


def button(text: str, border: str, darker: int = 0) -> Pixels:
    """A button whose rows are so many levels darker than the one above."""
    image = Image.new("RGB", SIZE, "#efefef")
    pen = ImageDraw.Draw(image)
    for row in range(24):
        shade = 250 - row * darker
        pen.line((60, 40 + row, 180, 40 + row), (shade, shade, 250))
    pen.rectangle((60, 40, 180, 63), outline=border)
    pen.ellipse((76, 46, 88, 58), "#b04a53")
    pen.text((96, 44), text, "black", font_size=13)
    return numbers(image)


@pytest.mark.parametrize("text", ["Cancel", "Failed"])
def test_has_text_at_button_under_pointer(text: str) -> None:
    shown = button(text, "#308cc6", darker=4)
    label = Region(74, 43, 144, 60)
    is_known = has_text_at(label, [button("Cancel", "grey")], shown)
    assert is_known == (text == "Cancel")


def window(title: str = "", colours: tuple[int, int] = (120, 200)) -> Pixels:
    """A window with a title on a background that is darker further down; no window
    without a title. The colours are those of the text and of the background's top.
    """
    image = Image.new("RGB", SIZE, "black")
    pen = ImageDraw.Draw(image)
    ink, top = colours
    if title:
        for y in range(20):
            pen.line((40, 40 + y, 280, 40 + y), (top - y, top - y, top))
        pen.text((120, 43), title, (ink, ink, ink), font_size=12)
    return numbers(image)


@pytest.mark.parametrize(
    ("shown", "is_known"),
    [
        (window("Preferences", (60, 240)), True),
        (window("Server error", (60, 240)), False),
    ],
    ids=["no focus yet", "other title"],
)
def test_passage_shows_title_without_focus(shown: Pixels, *, is_known: bool) -> None:
    screens = [window(), window("Preferences", (255, 200))]
    unknown = unknown_parts(shown, screens, np.zeros(shown.shape, np.bool_))
    assert unknown
    assert all(Passage(screens).shows(box, shown) for box in unknown) is is_known


def test_passage_shows_recorded_message_that_fades() -> None:
    toast = page("alice", toast="updates")
    shown = blend(SCREENS[1], toast, 0.5)
    (box,) = unknown_parts(shown, SCREENS[:2], np.zeros(shown.shape, np.bool_))
    assert not Passage(SCREENS[:2]).shows(box, shown)
    assert Passage(SCREENS[:2], passing=[toast]).shows(box, shown)


PAGE = """<!doctype html><meta charset="utf-8"><title>a page</title>
<style>
  body { font: 20px sans-serif }
  form, ul, #toast { position: absolute; left: 60px }
  form { top: 40px }
  input { width: 300px; font: inherit }
  ul { top: 160px }
  #toast { top: 500px; width: 220px; height: 40px; background: gold }
  #toast { visibility: hidden }
</style>
<form id="form"><input id="field" autofocus placeholder="What is missing?"></form>
<ul id="list"><li>eggs<li>flour</ul><div id="toast">It could not be saved</div>
<script>
  const slow = %(slow)d, toasts = %(toasts)d;
  const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

  form.onsubmit = async (event) => {
    event.preventDefault();
    if (slow) {
      const items = [...list.children];
      list.textContent = "Loading…";
      await pause(500);
      list.replaceChildren(...items);
    }
    const item = document.createElement("li");
    item.textContent = field.value;
    field.value = "";
    list.append(item);
    if (slow) {
      item.style.opacity = 0.4;
      await pause(400);
      item.style.opacity = 1;
    }
    if (toasts) {
      toast.style.visibility = "visible";
      await pause(400);
      toast.style.visibility = "hidden";
    }
  };
  addEventListener("load", () => { document.title = "The list"; });
</script>
"""
TITLE = (
    "sh",
    "-c",
    "until xwininfo -root -tree | grep -q 'The list'; do sleep 0.1; done",
)


def in_chromium(directory: Path, *, slow: bool = False, toasts: bool = False) -> str:
    """The command of a browser that shows a page, slow or with a toast."""
    page_file = directory / "page.html"
    page_file.write_text(PAGE % {"slow": slow, "toasts": toasts}, encoding="utf-8")
    return f"exec {browser_command()} {page_file.as_uri()}"


@pytest.mark.slow
@pytest.mark.browser
@desktop
def test_slow_page_shows_no_transient_but_toast(tmp_path: Path) -> None:
    require("chromium")
    desk = Desk(tmp_path)
    steps = TypeText("bread\n", 200, 60), TypeText("milk\n")
    command = in_chromium(tmp_path)
    with desk.driven("list", command, "auto", steps, first=TITLE) as driven:
        driven.run()
        assert driven.recorded.write()
    command = in_chromium(tmp_path, slow=True)
    with desk.driven("list", command, "replay", first=TITLE) as driven:
        driven.run()
        driven.agent.end_body()
        assert driven.recorded.transients.messages == []
    command = in_chromium(tmp_path, toasts=True)
    with desk.driven("list", command, "replay", first=TITLE) as driven:
        driven.run()
        driven.agent.end_body()
        assert driven.recorded.transients.messages
