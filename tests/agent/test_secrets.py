"""A secret of an agent: its value goes to the keyboard, its name to everybody else."""

from __future__ import annotations

import contextlib
import traceback
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from pytest_vnc_use import VncUseAgent
from pytest_vnc_use.backends.typed_secrets import RedactingController
from pytest_vnc_use.errors import ActionError, TaskFailed
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import (
    CallFunction,
    DesktopAction,
    Frame,
    JsonObject,
    Proposal,
    Reading,
    Report,
    TypeText,
    Verdict,
)
from support.memory_desktop import ListPlanner, PaintedController, act, finished

VALUE = "hunter2&correct-horse"
SECRETS = {"PW": VALUE}


class NotingJudge:
    """The ports Judge and Reader: it notes all that it is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def judge(
        self, claim: str, frame: Frame, *, timeout_s: float, report: Report
    ) -> Verdict:
        self.asked.append(claim)
        return Verdict(claim, "holds", f"it shows {VALUE}", model="notes")

    def read(
        self,
        question: str,
        schema: JsonObject,
        frame: Frame,
        *,
        timeout_s: float,
        report: Report,
    ) -> Reading:
        self.asked += [question, str(schema)]
        return Reading(question, {"kind": "x"}, "so", None, frame.ref, "notes")


class StuckController(PaintedController):
    """A desktop on which typing breaks, in a frame that holds the keystrokes."""

    def perform(self, action: DesktopAction) -> None:
        assert isinstance(action, TypeText)
        pressed = [ord(character) for character in action.text]
        try:
            raise OSError(len(pressed))
        except OSError as exc:
            raise ActionError("stuck") from exc


def agent(
    directory: Path,
    planner: Any = None,
    controller: PaintedController | None = None,
    judge: Any = None,
    **given: Any,
) -> VncUseAgent:
    settings = Settings(
        server="localhost::1", runs_dir=str(directory), show_secrets=True
    )
    planner = planner or ListPlanner([finished()])
    controller = controller or PaintedController()
    return VncUseAgent(
        settings=settings,
        planner=planner,
        controller=controller,
        judge=judge,
        secrets=SECRETS,
        **given,
    )


class Login(BaseModel):
    kind: Literal["x"] = Field(description=f"x, where {VALUE} is shown")


def test_judge_is_asked_for_name(tmp_path: Path) -> None:
    judge = NotingJudge()
    with agent(tmp_path, judge=judge) as asks:
        verdict = asks.assess(f"the field shows {VALUE}")
        with contextlib.suppress(TaskFailed):
            asks.saw(f"{VALUE} was shown")
        asks.check(f"{VALUE} is there")
        asks.verify_end_state(f"Type {VALUE}")
        asks.extract(Login, f"Is {VALUE} shown?")
    assert len(judge.asked) >= 6
    assert [asked for asked in judge.asked if VALUE in asked] == []
    assert [asked for asked in judge.asked if "<secret:PW>" not in asked] == []
    assert VALUE not in str(verdict)


def test_planner_gets_secret_name(tmp_path: Path) -> None:
    def password_of(user: str, passwords: dict[str, object]) -> str:
        """The password of a user."""
        assert passwords == {"all": [VALUE]}
        return f"it is {VALUE}, or\n{VALUE[:10]}\n{VALUE[10:]}"

    call = CallFunction(
        "password_of", {"user": "alice", "passwords": {"all": ["<secret:PW>"]}}
    )
    planner = ListPlanner([act(Proposal(call, "ask")), finished()])
    with agent(tmp_path, planner, functions=[password_of]) as runs:
        runs.run(f"Sign in with {VALUE}")
    seen = repr(planner.seen)
    assert [text in seen for text in ("<secret:PW>", "hunter2", "correct-horse")] == [
        True,
        False,
        False,
    ]


def test_keyboard_gets_value_and_its_repr_is_name(tmp_path: Path) -> None:
    controller = PaintedController()
    with agent(tmp_path, controller=controller) as types:
        types.type_text("alice <secret:PW>")
    assert controller.typed == f"alice {VALUE}"
    assert VALUE not in repr(controller.performed)


@pytest.mark.parametrize(
    ("secrets", "show_secrets", "redacts"),
    [({}, False, False), (SECRETS, False, True), (SECRETS, True, False)],
)
def test_only_agent_with_secrets_redacts(
    tmp_path: Path, secrets: dict[str, str], show_secrets: bool, redacts: bool
) -> None:
    plain = PaintedController()
    settings = Settings(
        server="localhost::1", runs_dir=str(tmp_path), show_secrets=show_secrets
    )
    with VncUseAgent(
        settings=settings, planner=ListPlanner([]), controller=plain, secrets=secrets
    ) as agent:
        assert isinstance(agent.controller, RedactingController) is redacts
        assert (agent.controller is plain) is not redacts


def test_error_has_no_frame_that_typed(tmp_path: Path) -> None:
    types = agent(tmp_path, controller=StuckController())
    with types, pytest.raises(ActionError) as raised:
        types.type_text("<secret:PW>")
    output = "".join(
        traceback.TracebackException.from_exception(
            raised.value, capture_locals=True
        ).format()
    )
    assert "pressed" not in output
    assert VALUE not in output.replace(f"VALUE = {VALUE!r}", "")
    assert str(ord(VALUE[0])) + ", " + str(ord(VALUE[1])) not in output
