"""The answers of a judge (verdicts on claims, and values read off the screen), the tokens
that they cost, and the triages of a failure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, get_args

from pytest_vnc_use.errors import Inconclusive, ProductFailed, SettingsError, TaskFailed
from pytest_vnc_use.plain_text import line
from pytest_vnc_use.types.frames import FrameRef, Region

T = TypeVar("T")

VerdictKind = Literal["holds", "fails", "unsure"]
Triage = Literal["product", "agent", "infra", "budget", "policy", "inconclusive"]
TRIAGES: tuple[Triage, ...] = get_args(Triage)
USER_VERDICT = "according to the user who recorded it: "
"""The prefix of the reason of a verdict by the user who recorded the test."""


@dataclass(frozen=True)
class Usage:
    """The tokens of one model call, or a sum of them. `input` includes the cached
    ones.
    """

    input: int = 0
    cached: int = 0
    output: int = 0
    thinking: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input + other.input,
            self.cached + other.cached,
            self.output + other.output,
            self.thinking + other.thinking,
        )


@dataclass(frozen=True, repr=False)
class Verdict:
    """A judge's verdict on a claim about a frame, with the reason first.

    It is true if the claim holds and false if it fails. An unsure verdict is neither:
    its `bool()` raises Inconclusive, so that neither `assert` nor `assert not` passes.
    To continue, ask whether it `holds`, or ask for its `kind`.

    `votes` are the single votes, in order. `screens` is the number of screens that were
    judged, one after another; the last one decides. `usage` is the sum over all of
    them.
    """

    claim: str
    kind: VerdictKind
    reason: str
    region: Region | None = None
    frame: FrameRef | None = None
    model: str = ""
    usage: Usage = Usage()
    votes: tuple[VerdictKind, ...] = ()
    screens: int = 1

    @property
    def holds(self) -> bool:
        """Whether the claim holds; false also if the verdict is unsure."""
        return self.kind == "holds"

    def __bool__(self) -> bool:
        if self.kind == "unsure":
            raise Inconclusive(str(self))
        return self.holds

    def __str__(self) -> str:
        return f"{self.kind}{asked_of(self)}: {self.claim!r}: {line(self.reason)}"

    def __repr__(self) -> str:
        return f"<Verdict {self}>"


def asked_of(verdict: Verdict) -> str:
    """Return the votes and the number of screens, if more than one; else ""."""
    text = ""
    if len(verdict.votes) > 1:
        text += f" (votes: {', '.join(verdict.votes)})"
    if verdict.screens > 1:
        text += f" (asked on {verdict.screens} screens)"
    return text


@dataclass(frozen=True)
class Reading:
    """A value that was read off a frame to answer a question: the reason, the value as
    JSON, and its region.

    `value` is None if it is not on the screen.
    """

    question: str
    value: Any
    reason: str
    region: Region | None = None
    frame: FrameRef | None = None
    model: str = ""
    usage: Usage = Usage()


def error_for_verdicts(kinds: Sequence[VerdictKind]) -> type[TaskFailed]:
    """Return the error class for claims that do not all hold: ProductFailed if one
    fails, else Inconclusive.
    """
    return ProductFailed if "fails" in kinds else Inconclusive


def check_answer(judge: object, answer: T, kind: type[T]) -> T:
    """Return the answer of a judge, which may be custom. Raises SettingsError if it is
    not of that class.
    """
    is_valid = isinstance(answer, kind)
    if isinstance(answer, Verdict):
        is_valid = is_valid and answer.kind in get_args(VerdictKind)
    if is_valid:
        return answer
    wanted = kind.__name__
    if kind is Verdict:
        wanted = 'Verdict(claim, "holds", reason), or "fails", or "unsure"'
    raise SettingsError(
        f"the judge {type(judge).__module__}:{type(judge).__qualname__} must return a"
        f" {wanted}, got {answer!r}"
    )


def end_state_claim(task: str) -> str:
    """Return the claim that a task is done, as far as the screen shows it."""
    return f"The screen shows that this task has been completed: {task}"
