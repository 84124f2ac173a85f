"""The names of what a person acted on, in a demonstration: without secrets, told step by step."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_vnc_use.demonstrate.gestures import DemonstratedAction
from pytest_vnc_use.demonstrate.session import recorded_steps
from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.recordings.format import RecordedRun, Screen
from pytest_vnc_use.recordings.manual import ManualRun
from pytest_vnc_use.runs.redaction import Redactor
from pytest_vnc_use.types import NO_FRAME, Click, KeyCombo, Observation, Region, TypeText
from pytest_vnc_use.types.elements import Element
from support.memory_desktop import PaintedController


def element(name: str) -> Element:
    return Element("button", name, Region(0, 0, 9, 9))


@pytest.fixture
def shown() -> RecordedRun:
    screen = Screen(pixels=lambda: np.zeros((4, 4), np.uint32))
    actions = [
        DemonstratedAction(Click(1, 1), screen, (element("pay with 4111-1111"),)),
        DemonstratedAction(KeyCombo(("enter",)), screen),
        DemonstratedAction(Click(2, 2), screen, (element("apikey-123 " + "x" * 100_000),)),
    ]
    steps = recorded_steps(actions, Redactor({"CARD": "4111-1111"}), Redactor({"KEY": "apikey-123"}))
    return RecordedRun(task="", steps=steps, end=screen)


def test_no_secret_is_in_name_and_no_name_is_always_changing(shown: RecordedRun) -> None:
    names = [each.name for step in shown.steps for each in step.elements if each]
    assert names[0] == "pay with <secret:CARD>"
    assert "<secret:KEY> xxx" in names[1]
    assert len(names[1]) < 300


def test_run_has_each_name_at_its_step(shown: RecordedRun) -> None:
    run = ManualRun(lambda: shown, PaintedController())
    run.decide(Observation("pay", NO_FRAME, NO_FRAME, (), lambda _: b""), timeout_s=60)
    for step in shown.steps:
        assert run.elements_of(step.action) == step.elements
        run.perform(step.action)  # type: ignore[arg-type]


@pytest.mark.parametrize("between", [[], [KeyCombo(("backspace",))]], ids=["a pause", "a character deleted later"])
def test_secret_typed_in_pieces_is_never_written(between: list[KeyCombo]) -> None:
    screen = Screen(pixels=lambda: np.zeros((4, 4), np.uint32))
    typed = [TypeText("4111-x" if between else "4111-"), *between, TypeText("1111")]
    actions, card = [DemonstratedAction(action, screen) for action in typed], Redactor({"CARD": "4111-1111"})
    if between:
        with pytest.raises(SettingsError, match="typed in several pieces"):
            recorded_steps(actions, card, Redactor({}))
    else:
        assert [step.action for step in recorded_steps(actions, card, Redactor({}))] == [TypeText("<secret:CARD>")]
