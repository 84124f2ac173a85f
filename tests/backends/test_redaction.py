"""A controller with redaction: no frame shows a field in which a secret was typed,
until the field is gone.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from pytest_vnc_use.backends.typed_secrets import RedactingController
from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.recordings.images import (
    Mask,
    Pixels,
    frame_of,
    pixels_in,
    pixels_of,
)
from pytest_vnc_use.runs.redactor import Redactor
from pytest_vnc_use.types import (
    REDACTED_COLOUR,
    Click,
    DesktopAction,
    Frame,
    KeyCombo,
    OpenUrl,
    RawFrame,
    Region,
    TypeText,
    Wait,
)
from support.images import numbers
from support.memory_desktop import PaintedController

SIZE = (480, 320)
FIELD = Region(40, 60, 280, 86)
INK = "#101010"
PAPER = "#ffffff"
Pen = ImageDraw.ImageDraw


@cache
def font(size: int = 16) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)


def word(text: str, *, size: int = 16) -> Pixels:
    """The pixels of a text on paper, as the form draws it, without the paper
    around it.
    """
    image = Image.new("RGB", SIZE, PAPER)
    ImageDraw.Draw(image).text((20, 20), text, INK, font(size))
    pixels = numbers(image)
    drawn = pixels != pixels[0, 0]
    rows = np.flatnonzero(drawn.any(axis=1))
    columns = np.flatnonzero(drawn.any(axis=0))
    return pixels[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]


def shows(screen: Pixels, what: Pixels) -> bool:
    windows = np.lib.stride_tricks.sliding_window_view(screen, what.shape)
    # Three of its pixels are compared first: few places are left to compare as a whole.
    others = np.argwhere(what != what[0, 0])
    places = np.argwhere(windows[:, :, 0, 0] == what[0, 0])
    for down, across in (others[0], others[-1]):
        tops, lefts = places.T
        is_same = windows[tops, lefts, down, across] == what[down, across]
        places = places[is_same]
    return any(np.array_equal(windows[top, left], what) for top, left in places)


@dataclass
class PaintedForm(PaintedController):
    """The port Controller for a form. `hides` the text behind dots; `also` draws more;
    `enters` is what Enter does.
    """

    text: str = ""
    hides: bool = False
    caret: bool = False
    also: Callable[[Pen, PaintedForm], None] | None = None
    enters: Callable[[PaintedForm], None] | None = None
    page: str = "form"
    moving: tuple[Region, ...] = ()

    def __post_init__(self) -> None:
        super().__init__()

    def pixels(self) -> Pixels:
        image = Image.new("RGB", SIZE, PAPER)
        pen = ImageDraw.Draw(image)
        if self.page == "form":
            self._paint_form(pen)
        if self.also:
            self.also(pen, self)
        return numbers(image)

    def _paint_form(self, pen: Pen) -> None:
        left = FIELD.left
        top = FIELD.top
        right = FIELD.right
        bottom = FIELD.bottom
        pen.text((left, top - 24), "Your code", INK, font())
        pen.rectangle((left, top, right, bottom), outline="#8080a0")
        pen.rectangle((left, bottom + 20, left + 80, bottom + 44), fill="#d0d0d0")
        pen.text((left + 10, bottom + 22), "Sign in", INK, font())
        end: float = left + 6
        if self.hides:
            for _ in self.text:
                pen.ellipse((end + 1, top + 10, end + 7, top + 16), fill=INK)
                end += 10
        else:
            pen.text((end, top + 3), self.text, INK, font())
            end += pen.textlength(self.text, font())
        if self.caret:
            pen.rectangle((end + 2, top + 4, end + 2, top + 22), fill=INK)

    def frame(self) -> Frame:
        frame = frame_of(self.pixels())
        return Frame(frame.ref, frame.png, moving=self.moving)

    def raw_frame(self) -> RawFrame:
        return RawFrame(self.pixels())

    def perform(self, action: DesktopAction) -> None:
        self.performed.append(action)
        if isinstance(action, TypeText):
            self.text = ("" if action.clear_first else self.text) + action.text
            if action.press_enter and self.enters:
                self.enters(self)
        elif isinstance(action, OpenUrl):
            self.text = action.url
        elif isinstance(action, KeyCombo) and action.keys == ("ctrl+l",):
            self.text = ""

    def transient_frames(self) -> tuple[Frame, ...]:
        return (self.frame(),)


SECRET = "hunter2swordfish"
TYPED = "<secret:PASSWORD>"
REDACTOR = Redactor({"PASSWORD": SECRET})
INSIDE = np.s_[FIELD.top + 3 : FIELD.bottom - 3, FIELD.left + 3 : FIELD.right - 3]


def redacting(
    form: PaintedForm, redactor: Redactor = REDACTOR, masks: tuple[Region, ...] = ()
) -> RedactingController:
    return RedactingController(form, redactor.hide, masks=masks)


def type_secret(
    controller: RedactingController,
    text: str = TYPED,
    redactor: Redactor = REDACTOR,
    **options: bool,
) -> Pixels:
    controller.perform(TypeText(redactor.reveal(text), **options))  # type: ignore[arg-type]
    return seen_by(controller)


def seen_by(controller: RedactingController) -> Pixels:
    """Return the screen that the controller shows: the same in a frame, its PNG, a
    raw_frame and a transient frame.
    """
    frame = controller.frame()
    pixels = pixels_in(frame)
    assert np.array_equal(pixels_of(frame.png), pixels)
    assert np.array_equal(pixels_in(controller.raw_frame()), pixels)
    assert np.array_equal(pixels_in(controller.transient_frames()[-1]), pixels)
    return pixels


def redacted_in(pixels: Pixels) -> Mask:
    mask: Mask = pixels == REDACTED_COLOUR
    return mask


PIECES = [word(SECRET[start : start + 3]) for start in range(len(SECRET) - 2)]


def shows_piece(pixels: Pixels) -> bool:
    """Return whether three characters of the secret are shown."""
    return any(shows(pixels, piece) for piece in PIECES)


@pytest.mark.parametrize("caret", [False, True], ids=["no caret", "caret"])
@pytest.mark.parametrize("hides", [False, True], ids=["shown", "hidden"])
def test_typed_secret_is_redacted_in_every_frame(hides: bool, caret: bool) -> None:
    form = PaintedForm(hides=hides, caret=caret)
    seen = type_secret(redacting(form))
    assert form.text == SECRET
    assert redacted_in(seen)[INSIDE].all()
    if not hides:
        assert shows(form.pixels(), word(SECRET))
        assert not shows_piece(seen)


def test_rest_of_screen_stays_visible() -> None:
    form = PaintedForm()
    seen = type_secret(redacting(form), f"user {TYPED}, please", clear_first=True)
    visible = ~redacted_in(seen)
    outside = np.ones_like(visible)
    FIELD.part_of(outside)[:] = False
    assert visible[outside].all()
    assert np.array_equal(seen[visible], form.pixels()[visible])
    assert form.text == f"user {SECRET}, please"
    assert form.performed[-1] == TypeText(", please"), "typed after the field is known"
    assert shows(seen, word("Your code"))
    assert shows(seen, word("user"))
    assert not shows_piece(seen)


def test_redaction_does_not_show_length() -> None:
    def look_of(pin: str) -> Pixels:
        redactor = Redactor({"PIN": pin})
        controller = redacting(PaintedForm(), redactor)
        return type_secret(controller, "<secret:PIN>", redactor)

    usual = look_of("4711")
    assert np.array_equal(look_of("a much longer one"), usual)
    assert np.array_equal(look_of("x"), usual)


@pytest.mark.parametrize(
    "later", [{"hides": False}, {"text": "something else"}, {"caret": False}]
)
def test_field_drawn_otherwise_stays_redacted(later: dict[str, object]) -> None:
    form = PaintedForm(hides=True, caret=True)
    controller = redacting(form)
    seen = type_secret(controller)
    vars(form).update(later)
    assert np.array_equal(seen_by(controller), seen)


def test_dimmed_field_stays_redacted(monkeypatch: pytest.MonkeyPatch) -> None:
    form = PaintedForm(hides=True)
    controller = redacting(form)
    type_secret(controller)
    bright = form.pixels()
    monkeypatch.setattr(form, "pixels", lambda: bright >> 1 & np.uint32(0x7F7F7F))
    assert redacted_in(seen_by(controller))[INSIDE].all()


def welcome(pen: Pen, _: PaintedForm) -> None:
    pen.text((FIELD.left + 6, FIELD.top + 3), "Welcome, alice", INK, font())


def test_other_page_is_not_redacted() -> None:
    def leave(form: PaintedForm) -> None:
        form.page = "other"
        form.text = ""
        form.also = welcome

    form = PaintedForm(enters=leave)
    controller = redacting(form)
    type_secret(controller, press_enter=True)
    assert form.performed[-1] == TypeText("", press_enter=True)
    assert np.array_equal(seen_by(controller), form.pixels())
    form.page = "form"
    form.text = SECRET
    form.also = None
    assert not shows_piece(seen_by(controller))


def test_field_before_moving_background_raises_settings_error() -> None:
    frames = itertools.count()

    def stripes(pen: Pen, form: PaintedForm) -> None:
        for x in range(next(frames) % 7, SIZE[0], 7):
            pen.line((x, 0, x, SIZE[1]), "#c0c0e0")

    form = PaintedForm(also=stripes, moving=(Region(0, 0, *SIZE),))
    controller = redacting(form)
    controller.perform(Click(100, 70))
    with pytest.raises(SettingsError):
        controller.perform(TypeText(REDACTOR.reveal(TYPED)))
    assert redacted_in(pixels_in(controller.frame()))[INSIDE].all()


def preview(pen: Pen, form: PaintedForm) -> None:
    if form.text:
        pen.text((40, 180), form.text, INK, font(48))


def test_large_change_raises_settings_error_naming_masks() -> None:
    controller = redacting(PaintedForm(also=preview))
    with pytest.raises(SettingsError) as raised:
        controller.perform(TypeText(REDACTOR.reveal(TYPED)))
    message = str(raised.value)
    assert TYPED in message
    assert "a field takes 5% at most" in message
    assert "cua-vnc mask" in message
    assert "vnc_show_secrets=true" in message
    assert SECRET not in message
    seen = seen_by(controller)
    assert redacted_in(seen)[INSIDE].all()
    assert not shows(seen, word(SECRET[:3], size=48))


def test_masked_region_is_redacted_without_field_parts() -> None:
    mask = Region(30, 170, 470, 250)
    form = PaintedForm(also=preview)
    controller = redacting(form, masks=(mask,))
    assert not redacted_in(seen_by(controller)).any()
    seen = type_secret(controller)
    assert redacted_in(seen)[INSIDE].all()
    form.page = "other"
    redacted = redacted_in(seen_by(controller))
    assert mask.part_of(redacted).all()
    assert redacted.sum() == mask.part_of(redacted).size


def test_secret_typed_letter_by_letter_is_redacted() -> None:
    form = PaintedForm()
    controller = redacting(form)
    controller.perform(Click(100, 70))
    assert controller.frame() == form.frame()
    for letter in f"{SECRET[:4]}q":
        controller.perform(TypeText(letter))
    form.text = form.text[:-1]
    controller.perform(KeyCombo(("backspace",)))
    for letter in SECRET[4:]:
        controller.perform(TypeText(letter))
    assert form.text == SECRET
    assert np.array_equal(seen_by(controller), type_secret(redacting(PaintedForm())))


class LateForm(PaintedForm):
    """A form that shows what was typed only from its fourth raw_frame on."""

    raw_frames = 0

    def raw_frame(self) -> RawFrame:
        self.raw_frames += 1
        return super().raw_frame()

    def pixels(self) -> Pixels:
        is_shown = self.raw_frames > 3
        return super().pixels() if is_shown else PaintedForm().pixels()


def test_text_that_shows_late_is_redacted() -> None:
    controller = redacting(LateForm())
    type_secret(controller)
    controller.perform(Wait(0.1))
    for _ in range(4):
        controller.raw_frame()
    assert redacted_in(seen_by(controller))[INSIDE].all()


class RemembersTransients(PaintedForm):
    """A form whose transient frames are the screens after each action."""

    transients: tuple[Frame, ...] = ()

    def perform(self, action: DesktopAction) -> None:
        super().perform(action)
        self.transients = (*self.transients, self.frame())

    def transient_frames(self) -> tuple[Frame, ...]:
        return self.transients


def test_transients_while_typing_are_redacted() -> None:
    def hint(pen: Pen, form: PaintedForm) -> None:
        if 0 < len(form.text) < len(SECRET):
            pen.text((300, 200), form.text, INK, font())

    form = RemembersTransients(also=hint)
    controller = redacting(form)
    controller.perform(TypeText(REDACTOR.reveal(TYPED)))
    assert any(shows(pixels_in(frame), word(SECRET[:4])) for frame in form.transients)
    assert not any(
        shows_piece(pixels_in(frame)) for frame in controller.transient_frames()
    )


def test_address_with_secret_is_typed_by_keys() -> None:
    form = PaintedForm()
    controller = redacting(form)
    controller.perform(OpenUrl(REDACTOR.reveal(f"shop/?token={TYPED}")))
    assert form.performed[0] == KeyCombo(("ctrl+l",))
    assert form.performed[-1] == TypeText("", press_enter=True)
    assert not shows_piece(seen_by(controller))


def test_controller_over_other_connection_shares_redactions() -> None:
    form = PaintedForm()
    other = PaintedForm()
    controller = redacting(form)
    over = controller.over(other)
    over.perform(TypeText(SECRET))  # as a test itself writes it
    form.text = other.text
    assert not shows_piece(seen_by(over))
    assert np.array_equal(seen_by(controller), seen_by(over))
