"""What an agent says of the screen: now, within some time, since the last step, softly,
and by votes.
"""

from __future__ import annotations

import contextlib
import io
import operator
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from pytest_vnc_use import VncUseAgent
from pytest_vnc_use.agent.claims import MAX_FRAMES, check_asked, judge_claim
from pytest_vnc_use.backends.pixels import COLOUR_BITS
from pytest_vnc_use.backends.vnc import connect
from pytest_vnc_use.errors import (
    AgentFailed,
    Inconclusive,
    ModelUnavailable,
    ProductFailed,
    SettingsError,
)
from pytest_vnc_use.planners.local.scripted import NoJudge
from pytest_vnc_use.plugin.runtest import run_tasks, soft_checks
from pytest_vnc_use.plugin.tasks import TaskSpec
from pytest_vnc_use.recordings.images import pixels_in
from pytest_vnc_use.runs.directory import read_trace
from pytest_vnc_use.types import Click, Frame, FrameRef, Proposal, Report, Verdict
from pytest_vnc_use.types.protocols import Judge
from support.judges import (
    OUTAGE,
    USAGE,
    ListJudge,
    agent_before,
)
from support.memory_desktop import (
    ListPlanner,
    PaintedController,
    act,
    finished,
    painted,
)
from support.vnc_servers import VncServer, require, wait_for

CLAIM = "a toast says 'Saved'"
BLUE = 0x0000FF
RED = 0xFF0000


@dataclass
class SightJudge:
    """The port Judge, never wrong: a claim holds where the frame has one of the
    `shades`.
    """

    shades: Sequence[int]
    asked: list[FrameRef] = field(default_factory=list)

    def judge(
        self, claim: str, frame: Frame, *, timeout_s: float, report: Report
    ) -> Verdict:
        self.asked.append(frame.ref)
        holds = frame.ref in [painted(shade).ref for shade in self.shades]
        return Verdict(
            claim,
            "holds" if holds else "fails",
            "as it is painted",
            model="sight",
            usage=USAGE,
        )


class PassingController(PaintedController):
    """A painted desktop, of which each wait for a change shows the next shade; `passed`
    are transient frames.
    """

    def __init__(self, *shades: int, passed: Sequence[int] = ()) -> None:
        super().__init__()
        self._shades = list(shades) or [0]
        self._passed = passed

    @property
    def shade(self) -> int:
        return self._shades[0]

    def wait_changed(self, timestamp: float, timeout_s: float) -> bool:
        if len(self._shades) > 1:
            self._shades.pop(0)
            return True
        time.sleep(timeout_s)
        return False

    def transient_frames(self) -> tuple[Frame, ...]:
        return tuple(map(painted, self._passed))


def test_votes_are_settings_and_verdicts_are_kept(tmp_path: Path) -> None:
    agent = agent_before(
        ListJudge(["holds", "fails", "holds", "unsure"]), tmp_path, votes=3
    )
    result = agent.run("Save it")
    verdicts = [agent.assess(CLAIM), agent.assess("it is open", votes=1)]
    assert [verdict.votes for verdict in verdicts] == [
        ("holds", "fails", "holds"),
        ("unsure",),
    ]
    assert agent.verdicts == verdicts
    assert read_trace(result.run_dir).verdicts == tuple(verdicts)


@pytest.mark.parametrize("method", ["verify", "check", "saw"])
def test_invalid_claim_is_refused_before_any_call(tmp_path: Path, method: str) -> None:
    judge = ListJudge([])
    agent = agent_before(judge, tmp_path)
    with pytest.raises(SettingsError):
        getattr(agent, method)(CLAIM, votes=2)
    assert judge.asked == []


def test_late_claim_is_judged_again_where_screen_changed(tmp_path: Path) -> None:
    judge = SightJudge([3])
    agent = agent_before(judge, tmp_path, PassingController(1, 1, 2, 3, 4))
    verdict = agent.assess(CLAIM, within_s=60.0)
    assert verdict
    assert judge.asked == [painted(shade).ref for shade in (1, 2, 3)]
    assert (verdict.screens, verdict.frame) == (3, painted(3).ref)
    assert verdict.usage.input == 3 * USAGE.input
    assert "(asked on 3 screens)" in str(verdict)


def test_claim_false_until_timeout_ends_with_last_verdict(tmp_path: Path) -> None:
    judge = SightJudge([9])
    started = time.monotonic()
    verdict = agent_before(judge, tmp_path, PassingController(1, 2)).assess(
        CLAIM, within_s=0.3
    )
    assert 0.3 <= time.monotonic() - started < 20.0
    assert verdict.kind == "fails"
    assert verdict.screens == 2
    assert verdict.frame == painted(2).ref


def test_toast_that_came_and_went_was_seen(tmp_path: Path) -> None:
    judge = SightJudge([7])
    verdict = agent_before(judge, tmp_path, PassingController(1, passed=[5, 7, 6])).saw(
        CLAIM
    )
    assert verdict
    assert (verdict.frame, verdict.screens) == (painted(7).ref, 3)
    assert judge.asked[:3] == [painted(shade).ref for shade in (1, 6, 7)]
    assert judge.asked[3:] == [painted(7).ref] * 3
    assert verdict.usage.input == 6 * USAGE.input


def test_single_judge_mistake_among_frames_is_no_toast(tmp_path: Path) -> None:
    judge = ListJudge(["fails", "holds", *["fails"] * 4, "fails", "unsure", "fails"])
    agent = agent_before(judge, tmp_path, PassingController(1, passed=[5, 7]))
    with pytest.raises(
        ProductFailed, match="it holds on none of 3 frames; I see it fails"
    ):
        agent.saw(CLAIM)
    with pytest.raises(Inconclusive, match="it holds on none of 3 frames"):
        agent.saw(CLAIM)
    assert agent.verdicts[-1].frame == painted(7).ref


def test_newest_frames_are_judged_once_up_to_limit(tmp_path: Path) -> None:
    judge = SightJudge([])
    controller = PassingController(1, passed=[*range(20, 40), 39, 1])
    with pytest.raises(ProductFailed):
        agent_before(judge, tmp_path, controller).saw(CLAIM)
    assert judge.asked == [
        painted(shade).ref for shade in (1, *range(39, 40 - MAX_FRAMES, -1))
    ]


class Toasting(PaintedController):
    """Each action shows a toast for a moment, in a shade of its own: 101 the first, 102
    the second …
    """

    def transient_frames(self) -> tuple[Frame, ...]:
        return (painted(100 + len(self.performed)),) if self.performed else ()


def test_run_steps_are_judged_until_agent_acts(tmp_path: Path) -> None:
    click = Proposal(Click(10, 10), "save")
    agent = agent_before(SightJudge([101]), tmp_path, Toasting())
    agent.run(
        "Save it twice", planner=ListPlanner([act(click), act(click), finished()])
    )
    with pytest.raises(ProductFailed):
        agent.saw(CLAIM)
    assert agent.saw(CLAIM, steps=2).frame == painted(101).ref
    agent.click(10, 10)
    with pytest.raises(ProductFailed):
        agent.saw(CLAIM, steps=2)


def test_soft_checks_fail_together_once(tmp_path: Path) -> None:
    agent = agent_before(ListJudge(["holds", "fails", "unsure"]), tmp_path)
    assert agent.check("the basket is open")
    assert not agent.check("2 apples are in it")
    assert not agent.check("it costs 3.00", "the price")
    assert agent.check(1 + 1 == 2, "arithmetic")
    assert not agent.check(1 + 1 == 3, "the total is 3")
    unmet = agent.unmet()
    assert isinstance(unmet, ProductFailed)
    assert str(unmet).splitlines() == [
        "3 of 5 checks not met",
        "  fails: '2 apples are in it': I see it fails",
        "  the price: unsure: 'it costs 3.00': I see it unsure",
        "  the total is 3",
    ]
    assert agent.unmet() is None


def test_soft_check_condition_needs_message(tmp_path: Path) -> None:
    agent = agent_before(ListJudge([]), tmp_path)
    with pytest.raises(
        SettingsError, match="`check` needs a `message` for the condition False"
    ):
        agent.check(False)


def test_failed_task_claims_are_product_line_by_line(tmp_path: Path) -> None:
    agent = agent_before(
        ListJudge(["holds", "unsure", "fails"]), tmp_path, test_id="test_it"
    )
    with pytest.raises(ProductFailed) as raised:
        run_tasks(
            agent, [TaskSpec("Save it", ("it is open", "it is saved", "it is closed"))]
        )
    assert str(raised.value).splitlines()[:4] == [
        (
            "2 of 3 claims do not certainly hold: claim 'it is closed' fails: I see it"
            " fails"
        ),
        "  holds: 'it is open': I see it holds",
        "  unsure: 'it is saved': I see it unsure",
        "  fails: 'it is closed': I see it fails",
    ]


def test_error_with_one_failed_claim_is_one_line(tmp_path: Path) -> None:
    agent = agent_before(ListJudge(["fails", "fails"]), tmp_path, test_id="test_it")
    with pytest.raises(ProductFailed) as failed:
        agent.verify("it is open", votes=3)
    assert str(failed.value) == (
        "claim 'it is open' fails (votes: fails, fails): I see it fails"
    )


@pytest.mark.parametrize(
    ("task", "line"),
    [
        (
            TaskSpec("Save it", ("it is saved",)),
            "claim 'it is saved' is unsure: I see it unsure",
        ),
        (
            TaskSpec("Close it"),
            "it is unsure whether the task 'Close it' is done: I see it unsure",
        ),
    ],
    ids=["claim", "end"],
)
def test_error_with_one_unsure_claim_is_one_line(
    tmp_path: Path, task: TaskSpec, line: str
) -> None:
    agent = agent_before(ListJudge(["unsure"]), tmp_path, test_id="test_it")
    with pytest.raises(Inconclusive) as unsure:
        run_tasks(agent, [task])
    first, screen, *_ = str(unsure.value).splitlines()
    assert first == line
    assert "I see it" not in screen


WAYS: dict[str, Callable[[VncUseAgent], object]] = {
    "assert": lambda agent: agent.verify(CLAIM),
    "saw": lambda agent: agent.saw(CLAIM),
    "check": lambda agent: agent.check(CLAIM),
    "expect": lambda agent: run_tasks(agent, [TaskSpec("Save it", (CLAIM,))]),
    "end state": lambda agent: run_tasks(agent, [TaskSpec("Save it")]),
}


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ("holds", None),
        ("fails", ProductFailed),
        ("unsure", Inconclusive),
        (OUTAGE, ModelUnavailable),
    ],
)
@pytest.mark.parametrize("way", WAYS)
def test_test_with_unmet_claim_never_passes(
    way: str, answer: str, error: type[Exception] | None, tmp_path: Path
) -> None:
    agent = agent_before(ListJudge([answer] * 4), tmp_path, test_id="test_it")
    if (way, answer) == ("end state", "fails"):
        error = AgentFailed
    with (
        pytest.raises(error) if error else contextlib.nullcontext(),
        soft_checks(agent, lambda text: None),
    ):
        WAYS[way](agent)
    assert [verdict.kind for verdict in agent.verdicts] == (
        [] if answer == OUTAGE else [answer]
    )
    if way == "end state" and agent.verdicts:
        assert "completed: Save it" in agent.verdicts[0].claim


class ColourJudge:
    """The port Judge: a claim holds where its last word is the colour in the middle of
    the screen.
    """

    def judge(
        self, claim: str, frame: Frame, *, timeout_s: float, report: Report
    ) -> Verdict:
        image = Image.open(io.BytesIO(frame.png))
        colour = (
            "#" + bytes(image.getpixel((image.width // 2, image.height // 2))).hex()
        )
        return Verdict(
            claim, "holds" if claim.endswith(colour) else "fails", f"it is {colour}"
        )


def test_saw_finds_toast_of_half_second(tigervnc: VncServer, tmp_path: Path) -> None:
    require("xsetroot")
    controller = connect(tigervnc.address)

    def show(colour: int) -> None:
        """Return once the client has got it: a busy machine may be late."""
        tigervnc.output_of("xsetroot", "-solid", f"#{colour:06x}")
        wait_for(
            lambda: pixels_in(controller.raw_frame())[0, 0] & COLOUR_BITS == colour,
            f"#{colour:06x}",
        )

    with agent_before(ColourJudge(), tmp_path, controller) as agent:
        agent.key("a")
        show(BLUE)
        show(RED)
        time.sleep(0.5)  # so long the toast is shown
        show(BLUE)
        assert not agent.assess("the toast is #ff0000")
        assert agent.saw("the toast is #ff0000")
        with pytest.raises(ProductFailed):
            agent.saw("the toast is #00ff00")
        agent.key("a")
        with pytest.raises(ProductFailed):
            agent.saw("the toast is #ff0000")


FRAME = painted(1)


def test_claim_without_model_is_unsure_with_remedy() -> None:
    judge: Judge = NoJudge()
    assert judge_claim(judge, "  ", FRAME).reason == "the claim is empty"
    verdict = judge_claim(judge, "2 apples", FRAME)
    assert verdict.kind == "unsure"
    assert "no model is configured" in verdict.reason


H = "holds"
F = "fails"
U = "unsure"


@pytest.mark.parametrize(
    ("votes", "said", "kind"),
    [
        (3, [H, H], H),
        (3, [U, U], U),
        (3, [H, F, H], H),
        (3, [H, F, U], U),
        (5, [H, F, U, U, U], U),
    ],
)
def test_certain_majority_ends_asking_judges(
    votes: int, said: list[str], kind: str
) -> None:
    judge = ListJudge([*said, "asked too often"])
    verdict = judge_claim(judge, "2 apples", FRAME, votes=votes)
    assert verdict.kind == kind
    assert verdict.votes == tuple(said)
    assert verdict.frame == FRAME.ref
    assert len(judge.asked) == len(said)
    assert verdict.usage.input == len(said) * USAGE.input


@pytest.mark.parametrize("ask", [bool, operator.not_])
def test_unsure_is_neither_true_nor_false(ask: Callable[[Verdict], bool]) -> None:
    verdict = Verdict("an error is shown", "unsure", "a dialog hides it")
    with pytest.raises(
        Inconclusive, match=r"^unsure: 'an error is shown': a dialog hides it$"
    ):
        ask(verdict)


def test_verdict_is_true_if_it_holds() -> None:
    verdict = Verdict("an error is shown", "holds", "a dialog shows it")
    assert verdict
    assert not bool(replace(verdict, kind="fails"))


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (("  \n", 1), "a claim must be text about the screen, got "),
        (("open", 0), "votes must be an odd number, at least 1, got "),
        (("open", 2), "votes must be an odd number, at least 1, got "),
        (
            ("open", 1, float("nan")),
            "within_s must be a number of seconds, 0 for now, got ",
        ),
    ],
)
def test_check_asked_invalid_raises_settings_error(asked: Any, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        check_asked(*asked)


def test_judge_that_hangs_raises_model_unavailable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pytest_vnc_use.agent.claims._LATE_S", 0.05)
    answered = threading.Event()

    class Hanging(ListJudge):
        def judge(
            self, claim: str, frame: Frame, *, timeout_s: float, report: Report
        ) -> Verdict:
            assert 0 < timeout_s <= 0.05
            answered.wait(60)
            return super().judge(claim, frame, timeout_s=timeout_s, report=report)

    with pytest.raises(ModelUnavailable, match="did not answer within"):
        judge_claim(Hanging([H]), "2 apples", FRAME, timeout_s=0.05)
    answered.set()
