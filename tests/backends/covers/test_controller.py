"""A controller with covers: no picture of it shows a typed secret, and equal covers mean equal pixels beneath."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from pytest_vnc_use import deadline
from pytest_vnc_use.backends.covers import controller
from pytest_vnc_use.backends.covers.controller import CoveringController
from pytest_vnc_use.backends.covers.covers import Covers
from pytest_vnc_use.recordings.images import Mask, Pixels, pixels_in, pixels_of
from pytest_vnc_use.runs.redaction import Redactor
from pytest_vnc_use.types import (
    COVER_COLOURS,
    Click,
    DesktopAction,
    Frame,
    Glance,
    KeyCombo,
    OpenAddress,
    Region,
    TypeText,
)
from support import painted_form
from support.painted_form import FIELD, INK, PAPER, SIZE, PaintedForm, Pen, font, shows, word

SECRET = "hunter2swordfish"
TYPED = "<secret:PASSWORD>"
REDACTOR = Redactor({"PASSWORD": SECRET})
TEXT = (FIELD.left + 2, FIELD.top + 2, FIELD.right - 2, FIELD.bottom - 2)


class Clock:
    """A clock in place of the real one: time passes only where somebody waits, however slow the machine is."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Return the clock of the eyes and of the form."""
    made = Clock()
    for module, name in ((controller, "clock"), (deadline, "clock"), (painted_form, "time")):
        monkeypatch.setattr(module, name, made)
    return made


@pytest.fixture(autouse=True)
def _blink_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller, "_SHOWS_S", 0.05)
    monkeypatch.setattr(controller, "_BLINKS_S", 0.1)
    monkeypatch.setattr(controller, "_RESTLESS_S", 0.05)


def covering(form: PaintedForm, redactor: Redactor = REDACTOR) -> CoveringController:
    return CoveringController(form, Covers(), redactor.hide)


def type_secret(eyes: CoveringController, text: str = TYPED, redactor: Redactor = REDACTOR, **how: bool) -> Pixels:
    eyes.perform(TypeText(redactor.reveal(text), **how))
    return seen_by(eyes)


def seen_by(eyes: CoveringController) -> Pixels:
    """Return the picture that the eyes see: the same in a frame, its PNG, a glance and a transient frame."""
    frame = eyes.frame()
    pixels = pixels_in(frame)
    assert np.array_equal(pixels_of(frame.png), pixels)
    return pixels


def covered_in(pixels: Pixels) -> Mask:
    return np.isin(pixels, COVER_COLOURS)


def test_a_readable_secret_is_covered_in_every_picture() -> None:
    form = PaintedForm()
    eyes = covering(form)
    seen = type_secret(eyes)
    assert form.text == SECRET
    assert shows(form.pixels(), word(SECRET))
    assert not any(shows(seen, word(piece)) for piece in (SECRET, SECRET[:4], SECRET[-4:]))
    assert covered_in(seen)[TEXT[1] : TEXT[3], TEXT[0] : TEXT[2]].all()
    assert np.array_equal(pixels_in(eyes.glance()), seen)
    assert np.array_equal(pixels_of(eyes.transient_frames()[0].png), seen)


def test_the_rest_of_the_screen_is_as_it_is() -> None:
    form = PaintedForm()
    seen = type_secret(covering(form))
    others = ~covered_in(seen)
    assert np.array_equal(seen[others], form.pixels()[others])
    assert others.mean() > 0.9
    assert not covered_in(form.pixels()).any()
    assert shows(seen, word("Your code"))


def test_equal_covers_mean_equal_pixels_and_others_mean_others() -> None:
    form = PaintedForm()
    eyes = covering(form)
    first = type_secret(eyes)
    again = type_secret(covering(PaintedForm()))
    assert np.array_equal(first, again)
    form.text = SECRET[:-1] + "k"
    other = seen_by(eyes)
    assert not np.array_equal(first, other)
    assert np.array_equal(covered_in(first), covered_in(other))
    assert set(np.unique(other[other != first])) <= set(COVER_COLOURS)


def test_the_pattern_depends_on_the_secret_and_its_name() -> None:
    looks = [
        type_secret(covering(PaintedForm(), redactor), f"<secret:{name}>", redactor)
        for name, value in (("A", SECRET), ("B", SECRET), ("A", "hunter2swordfist"))
        for redactor in [Redactor({name: value})]
    ]
    blank = (slice(FIELD.top + 4, FIELD.bottom - 4), slice(FIELD.right - 40, FIELD.right - 8))
    tiles = [look[blank] for look in looks]
    assert not np.array_equal(tiles[0], tiles[1])
    assert not np.array_equal(tiles[0], tiles[2])
    assert np.array_equal(covered_in(looks[0]), covered_in(looks[2]))


@pytest.mark.parametrize(
    "echo",
    [(SECRET, (300, 250)), (f"hello {SECRET}!", (13, 201)), (SECRET[5:12], (200, 300)), (SECRET[:5], (470, 150))],
    ids=["elsewhere", "in a sentence", "a piece", "cut at the edge"],
)
def test_the_same_glyphs_are_covered_wherever_they_come_again(echo: tuple[str, tuple[int, int]]) -> None:
    form = PaintedForm(text="")
    eyes = covering(form)
    type_secret(eyes)
    text, (x, y) = echo
    form.page = "other"
    form.also = lambda pen, _: pen.text((x - (30 if x == 470 else 0), y), text, INK, font())
    seen = seen_by(eyes)
    assert not any(shows(seen, word(SECRET[start : start + 5])) for start in range(len(SECRET) - 4))
    assert covered_in(seen).any()


def frame_turns_green(pen: Pen, form: PaintedForm) -> None:
    if form.text:
        pen.rounded_rectangle((FIELD.left, FIELD.top, FIELD.right, FIELD.bottom), 4, outline="#008000")


def count_below(pen: Pen, form: PaintedForm) -> None:
    pen.text((FIELD.left + 6, FIELD.top + 18), f"{len(form.text)} letters", INK, font(10))


@pytest.mark.parametrize("beside", [frame_turns_green, count_below])
def test_glyphs_are_known_by_themselves(beside: Callable[[Pen, PaintedForm], None]) -> None:
    form = PaintedForm(also=beside)
    eyes = covering(form)
    type_secret(eyes)
    form.page = "other"
    form.also = lambda pen, _: pen.text((300, 250), SECRET, INK, font())
    assert shows(form.pixels(), word(SECRET))
    assert not any(shows(seen_by(eyes), word(SECRET[start : start + 5])) for start in range(len(SECRET) - 4))


@pytest.mark.parametrize("has_rule", [True, False], ids=["a rule below it", "the end of its paper"])
def test_glyphs_are_known_right_above_another_colour(*, has_rule: bool) -> None:
    secret = word(SECRET)
    form = PaintedForm()
    eyes = covering(form)
    type_secret(eyes)
    form.page = "other"
    height, width = secret.shape

    def paint(pen: Pen, _: PaintedForm) -> None:
        if not has_rule:
            pen.rectangle((0, 0, *SIZE), fill="#a0a0c0")
            pen.rectangle((195, 195, 205 + width, 199 + height), fill=PAPER)
        else:
            pen.line((195, 200 + height, 205 + width, 200 + height), INK)
        for y, x in np.argwhere(secret != 0xFFFFFF):
            pen.point((200 + int(x), 200 + int(y)), f"#{int(secret[y, x]) & 0xFFFFFF:06x}")

    form.also = paint
    assert shows(form.pixels(), secret)
    assert not shows(seen_by(eyes), secret)


@pytest.mark.parametrize("pin", ["47", "471", "4711"])
def test_a_short_secret_beside_a_block_caret_is_known_again(pin: str) -> None:
    def block_caret(pen: Pen, form: PaintedForm) -> None:
        end = FIELD.left + 6 + pen.textlength(form.text, font())
        pen.rectangle((end + 1, FIELD.top + 5, end + 9, FIELD.bottom - 4), fill=INK)

    redactor = Redactor({"PIN": pin})
    form = PaintedForm(also=block_caret)
    eyes = covering(form, redactor)
    type_secret(eyes, "<secret:PIN>", redactor)
    form.page = "other"
    form.also = lambda pen, _: pen.text((300, 250), pin, INK, font())
    assert not shows(seen_by(eyes), word(pin))


def test_a_gap_in_what_appeared_covers_no_blank_paper() -> None:
    form = PaintedForm(
        also=lambda pen, form: pen.text(
            (FIELD.left + 6, FIELD.top + 18), "l" + " " * 5 * len(form.text) + "l", INK, font(10)
        )
    )
    eyes = covering(form)
    type_secret(eyes)
    form.page = "other"
    form.also = lambda pen, _: pen.rectangle((100, 200, 300, 260), fill="#4070a0")
    assert np.array_equal(seen_by(eyes), form.pixels())


def test_other_text_stays_readable() -> None:
    form = PaintedForm()
    eyes = covering(form)
    type_secret(eyes)
    form.page = "other"
    form.also = lambda pen, _: pen.text((30, 200), "the huts for fins are over", INK, font())
    assert np.array_equal(seen_by(eyes), form.pixels())


def test_a_window_that_moves_and_comes_back() -> None:
    form = PaintedForm()
    eyes = covering(form)
    first = type_secret(eyes)
    form.at = (57, 101)
    moved = seen_by(eyes)
    assert not any(shows(moved, word(SECRET[start : start + 5])) for start in range(len(SECRET) - 4))
    form.at, form.page = (0, 0), "other"
    assert not covered_in(seen_by(eyes)).any()
    form.page = "form"
    assert np.array_equal(seen_by(eyes), first)


def test_dots_stay_as_they_are_until_the_text_is_shown() -> None:
    form = PaintedForm(hides=True, caret=True)
    eyes = covering(form)
    assert np.array_equal(type_secret(eyes), form.pixels())
    form.hides = False
    seen = seen_by(eyes)
    assert not any(shows(seen, word(SECRET[start : start + 4])) for start in range(len(SECRET) - 3))
    form.hides = True
    assert np.array_equal(seen_by(eyes), form.pixels())
    form.page = "other"
    form.also = lambda pen, _: pen.text((FIELD.left + 6, FIELD.top + 3), "Welcome, alice", INK, font())
    assert np.array_equal(seen_by(eyes), form.pixels())


@pytest.mark.parametrize("text", ["aaaa", "x", "..'.", "aaal", "lll|"])
def test_text_that_looks_like_dots_is_covered(text: str) -> None:
    form, redactor = PaintedForm(), Redactor({"PIN": text})
    seen = type_secret(covering(form, redactor), "<secret:PIN>", redactor)
    assert covered_in(seen)[TEXT[1] : TEXT[3], TEXT[0] : TEXT[2]].all()


def test_a_blinking_caret_beneath_a_cover_does_not_change_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller, "_BLINKS_S", 0.5)
    form = PaintedForm(caret=True, blinks=True)
    eyes = covering(form)
    covers = [type_secret(eyes)]
    for _ in range(12):
        eyes.desktop.wait_changed(0.0, 0.05)
        covers.append(seen_by(eyes))
    assert all(np.array_equal(covers[0], each) for each in covers)
    assert np.array_equal(covered_in(covers[0]), covered_in(type_secret(covering(PaintedForm()))))


def test_an_animation_and_a_button_that_is_enabled_are_not_covered(clock: Clock) -> None:
    spinner = Region(320, 20, 360, 60)

    def also(pen: Pen, form: PaintedForm) -> None:
        turns = round(1000 * clock.monotonic()) % 40
        pen.ellipse((320 + turns // 2, 20, 330 + turns // 2, 50), fill="#20a020")
        pen.text((320, 120), "Send", "#808080" if not form.text else INK, font())

    form = PaintedForm(also=also, moving=(spinner,))
    eyes = covering(form)
    eyes.frame()
    seen = type_secret(eyes)
    assert not covered_in(seen)[15:70, 310:370].any()
    assert not covered_in(seen)[110:150, 310:380].any()
    assert covered_in(seen)[TEXT[1] : TEXT[3], TEXT[0] : TEXT[2]].all()


def test_the_last_digit_that_opens_another_page_covers_nothing_of_that_page() -> None:
    def also(pen: Pen, form: PaintedForm) -> None:
        if len(form.text) == len(SECRET):
            form.page = "other"
            pen.rectangle((0, 100, 480, 320), fill="#305080")
            pen.text((300, 30), f"signed in with {SECRET[:8]}", INK, font())

    seen = type_secret(covering(PaintedForm(also=also)))
    assert not covered_in(seen)[100:].any()
    assert covered_in(seen).any()
    assert not shows(seen, word(SECRET[:8]))


def test_a_preview_elsewhere_in_another_font_is_covered_too() -> None:
    def also(pen: Pen, form: PaintedForm) -> None:
        pen.text((300, 200), form.text, "#c02020", font(24))

    seen = type_secret(covering(PaintedForm(also=also)))
    assert not shows(seen, word(SECRET[:4], size=24, colour="#c02020"))


class RemembersMoments(PaintedForm):
    """A form whose transient frames are the screens after each action, at the moments that `now_s` tells."""

    now_s: Callable[[], float]

    def perform(self, action: DesktopAction) -> None:
        super().perform(action)
        self.moments = [*getattr(self, "moments", []), replace(self.frame(), taken_at=self.now_s())]

    def transient_frames(self) -> tuple[Frame, ...]:
        return tuple(self.moments)


def test_a_hint_that_goes_with_the_last_character_is_covered_in_the_moments_before(clock: Clock) -> None:
    def hint(pen: Pen, form: PaintedForm) -> None:
        if 0 < len(form.text) < len(SECRET):
            pen.text((300, 200), form.text, "#c02020", font(24))

    form = RemembersMoments(also=hint)
    form.now_s = clock.monotonic
    eyes = covering(form)
    piece = word(SECRET[:4], size=24, colour="#c02020")
    assert not shows(type_secret(eyes), piece)
    assert any(shows(pixels_in(each), piece) for each in form.transient_frames())
    assert not any(shows(pixels_in(each), piece) for each in eyes.transient_frames())


def test_the_secret_is_seen_before_enter_leads_away() -> None:
    def enters(form: PaintedForm) -> None:
        form.page, form.text = "other", ""
        form.also = lambda pen, _: pen.text((100, 200), f"It is {SECRET}.", INK, font())

    form = PaintedForm(enters=enters)
    seen = type_secret(covering(form), press_enter=True)
    assert form.page == "other"
    assert not shows(seen, word(SECRET))
    assert covered_in(seen).any()
    assert form.typed[-1] == TypeText("", press_enter=True)


def test_only_the_secret_of_a_longer_text_is_covered() -> None:
    form = PaintedForm()
    seen = type_secret(covering(form), f"user {TYPED}", clear_first=True)
    assert form.text == f"user {SECRET}"
    assert shows(seen, word("user"))
    assert not shows(seen, word(SECRET[:4]))
    assert [action.clear_first for action in form.typed if isinstance(action, TypeText)] == [True, False, False, False]


def test_a_secret_that_comes_letter_by_letter_is_covered_as_if_typed_at_once() -> None:
    form = PaintedForm()
    eyes = covering(form)
    form.moving = (Region(0, 0, *SIZE),)
    eyes.frame()
    for action in (*map(TypeText, f"z{SECRET[:4]}q"), KeyCombo(("backspace",)), *map(TypeText, SECRET[4:])):
        if action == KeyCombo(("backspace",)):
            form.text = form.text[:-1]
        eyes.perform(action)
    seen = seen_by(eyes)
    assert form.text == f"z{SECRET}"
    assert np.array_equal(seen, type_secret(covering(PaintedForm()), f"z{TYPED}"))
    assert not shows(seen, word(SECRET[:4]))


@dataclass
class SlowForm(PaintedForm):
    """A form that draws each character `late` looks after it was typed. Its screen is never quiet for long."""

    late: int = 0
    is_quiet: bool = False
    waiting: list[tuple[int, str]] = field(default_factory=list)
    looks: int = 0

    def perform(self, action: DesktopAction) -> None:
        assert isinstance(action, TypeText)
        self.waiting += [(self.looks + self.late, character) for character in action.text]

    def glance(self) -> Glance:
        self.looks += 1
        while self.waiting and self.waiting[0][0] < self.looks:
            self.text += self.waiting.pop(0)[1]
        return super().glance()

    def changed_since(self, moment: float) -> bool:
        return not self.is_quiet


@pytest.fixture
def _patiently(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the eyes wait long enough for each letter of a slow form."""
    monkeypatch.setattr(controller, "_SHOWS_S", 1.0)


@pytest.mark.usefixtures("_patiently")
@pytest.mark.parametrize("caret", [False, True], ids=["no caret", "a caret"])
@pytest.mark.parametrize("late", [1, 2, 3, 7])
def test_letters_that_are_drawn_late_are_covered_as_if_typed_at_once(late: int, *, caret: bool) -> None:
    form = SlowForm(late=late, caret=caret)
    eyes = covering(form)
    for letter in f"z{SECRET}":
        eyes.perform(TypeText(letter))
    seen = seen_by(eyes)
    assert form.text == f"z{SECRET}"
    assert not any(shows(seen, word(SECRET[start:])) for start in range(len(SECRET)))
    assert np.array_equal(seen, type_secret(covering(PaintedForm(caret=caret)), f"z{TYPED}"))


@pytest.mark.usefixtures("_patiently")
def test_a_text_before_the_secret_that_is_drawn_late_is_not_covered() -> None:
    form = SlowForm(late=3, is_quiet=True)
    seen = type_secret(covering(form), f"user {TYPED}")
    assert form.text == f"user {SECRET}"
    assert shows(seen, word("user"))
    assert np.array_equal(seen, type_secret(covering(PaintedForm()), f"user {TYPED}"))


def test_letters_that_do_not_appear_are_waited_for_once(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller, "_SHOWS_S", 1.0)
    monkeypatch.setattr(controller, "_BLINKS_S", 0.0)
    eyes = covering(SlowForm(late=10_000, is_quiet=True))
    began_s = clock.monotonic()
    for letter in SECRET[:-1]:
        eyes.perform(TypeText(letter))
    assert 1.0 <= clock.monotonic() - began_s < 1.1


def test_a_value_that_a_test_wrote_itself_is_covered_as_well() -> None:
    eyes = covering(PaintedForm())
    eyes.perform(TypeText(SECRET))
    assert not shows(seen_by(eyes), word(SECRET))


def test_an_address_with_a_secret_is_typed_by_keys() -> None:
    form = PaintedForm()
    eyes = covering(form)
    eyes.perform(OpenAddress(REDACTOR.reveal(f"shop/?token={TYPED}")))
    assert form.typed[0] == KeyCombo(("ctrl+l",))
    assert form.typed[-1] == TypeText("", press_enter=True)
    assert not shows(seen_by(eyes), word(SECRET))


def test_a_one_time_code_has_a_cover_that_is_always_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    redactor, looks = Redactor({"KEY": "JBSWY3DPEHPK3PXP"}), []
    for code in ("123456", "907315"):
        monkeypatch.setattr("pytest_vnc_use.runs.redaction.totp", lambda _, code=code: code)
        looks.append(type_secret(covering(PaintedForm(), redactor), "<totp:KEY>", redactor))
    assert covered_in(looks[0]).any()
    assert np.array_equal(*looks)


def test_nothing_changes_before_a_secret_is_typed() -> None:
    form = PaintedForm()
    eyes = covering(form)
    eyes.perform(Click(100, 70))
    eyes.perform(TypeText("alice"))
    assert form.typed == [Click(100, 70), TypeText("alice")]
    assert eyes.frame() == form.frame()


def test_text_that_comes_late_is_covered(monkeypatch: pytest.MonkeyPatch) -> None:
    form, empty = PaintedForm(), PaintedForm().pixels()
    eyes = covering(form)
    with monkeypatch.context() as context:
        context.setattr(form, "pixels", lambda: empty)
        type_secret(eyes)
    assert not shows(seen_by(eyes), word(SECRET[:4]))


def test_the_place_of_a_one_time_code_is_compared_once_its_glyphs_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    form, redactor = PaintedForm(), Redactor({"KEY": "JBSWY3DPEHPK3PXP"})
    monkeypatch.setattr("pytest_vnc_use.runs.redaction.totp", lambda _: "123456")
    eyes = covering(form, redactor)
    type_secret(eyes, "<totp:KEY>", redactor)
    looks = []
    for form.text in ("", "accepted", "rejected"):
        looks.append(seen_by(eyes))
    assert all(not np.array_equal(one, other) for one, other in itertools.combinations(looks, 2))


def test_a_wrong_last_character_that_comes_late_is_compared(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    right, wrong = (late_form(monkeypatch, clock, last) for last in (SECRET[-1], "k"))
    assert not np.array_equal(right, wrong)


def late_form(monkeypatch: pytest.MonkeyPatch, clock: Clock, last: str) -> Pixels:
    """Type the secret into a form that shows another last character after a moment; return the picture then."""
    monkeypatch.setattr(controller, "_BLINKS_S", 0.3)
    form, shown_s = PaintedForm(caret=True), 0.0

    def perform(action: DesktopAction) -> None:
        nonlocal shown_s
        PaintedForm.perform(form, action)
        shown_s = clock.monotonic()

    def wait_changed(moment: float, timeout_s: float) -> bool:
        clock.sleep(0.01)
        if form.text == SECRET and clock.monotonic() - shown_s > 0.1:
            form.text = SECRET[:-1] + last
        return False

    monkeypatch.setattr(form, "perform", perform)
    monkeypatch.setattr(form, "wait_changed", wait_changed)
    seen = type_secret(covering(form))
    assert form.text == SECRET[:-1] + last
    return seen


def test_text_that_comes_letter_by_letter_is_covered_wherever_it_comes_again(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    monkeypatch.setattr(controller, "_BLINKS_S", 0.2)
    form = PaintedForm()
    waiting: list[str] = []

    def perform(action: DesktopAction) -> None:
        assert isinstance(action, TypeText)
        waiting.extend(action.text)

    def wait_changed(moment: float, timeout_s: float) -> bool:
        clock.sleep(0.01)
        if waiting:
            form.text += waiting.pop(0)
        return False

    monkeypatch.setattr(form, "perform", perform)
    monkeypatch.setattr(form, "wait_changed", wait_changed)
    eyes = covering(form)
    type_secret(eyes)
    assert form.text == SECRET
    form.page, form.text = "other", ""
    form.also = lambda pen, _: pen.text((100, 250), SECRET, INK, font())
    seen = seen_by(eyes)
    assert not any(shows(seen, word(SECRET[start : start + 4])) for start in range(len(SECRET) - 3))


def test_what_blinks_beside_the_field_is_not_covered(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    monkeypatch.setattr(controller, "_RESTLESS_S", 0.3)

    def also(pen: Pen, _: PaintedForm) -> None:
        if clock.monotonic() % 0.1 < 0.05:
            pen.text((330, 64), "READY", INK, font())

    form = PaintedForm(also=also, moving=(Region(320, 60, 400, 90),))
    eyes = covering(form)
    eyes.frame()
    seen = type_secret(eyes)
    assert not covered_in(seen)[:, 300:].any()
    assert covered_in(seen)[TEXT[1] : TEXT[3], TEXT[0] : TEXT[2]].all()


def test_the_form_shows_what_is_typed() -> None:
    assert shows(PaintedForm(text=SECRET).pixels(), word(SECRET))
    assert not shows(PaintedForm(text=SECRET.replace("s", "z")).pixels(), word(SECRET))
