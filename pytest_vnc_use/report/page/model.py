"""The content of the pages as plain data: exactly what the templates show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pytest_vnc_use.report.phrases import Tone
from pytest_vnc_use.runs.transcript import Caption


@dataclass(frozen=True)
class Badge:
    """A word with a colour."""

    text: str
    tone: Tone = "plain"


@dataclass(frozen=True)
class Box:
    """A rectangle of a screen in pixels."""

    x: int
    y: int
    width: int
    height: int

    def __str__(self) -> str:
        return f"{self.x} {self.y} {self.width} {self.height}"


@dataclass(frozen=True)
class Shot:
    """A picture: its address and its size in pixels, or why there is none. `about` is its text for a screen reader.

    `patch` is the address of a picture over the one at `address`; it is transparent where that one is right.
    """

    about: str
    address: str = ""
    width: int = 0
    height: int = 0
    problem: str = ""
    patch: str = ""


@dataclass(frozen=True)
class Pair:
    """Two pictures to compare.

    `shade` is the address of a picture that covers the changed pixels, `boxes` are around them. `note` says why there
    is no comparison, or that nothing changed. `zoom` is the part with the difference. `mark` is the action's
    point or path, as the data of an SVG path; `regions` are parts that a judge named.
    """

    left: Shot
    right: Shot
    left_name: str
    right_name: str
    shade: str = ""
    boxes: Sequence[Box] = ()
    note: str = ""
    zoom: Box | None = None
    mark: str = ""
    regions: Sequence[Box] = ()
    name: str = ""

    @property
    def size(self) -> tuple[int, int]:
        """Return the width and the height of the larger picture."""
        return max(self.left.width, self.right.width, 1), max(self.left.height, self.right.height, 1)


@dataclass(frozen=True)
class Bar:
    """A part of the waterfall: an activity, its start and its length in thousandths of the whole, its seconds."""

    name: str
    start: int
    length: int
    duration_s: float


@dataclass(frozen=True)
class Exchange:
    """A request to a model and its answer, as text."""

    title: str
    request: str
    answer: str
    error: str = ""


@dataclass(frozen=True)
class StepView:
    """A step. `way` is live, replayed, healed, not healed, scripted or by a person, and `way_why` its reason.

    `title` is its caption as plain text. `crop` is a picture of the place of a step without a name.
    """

    number: int
    title: str
    caption: Caption
    words: str
    words_are_guessed: bool
    badges: Sequence[Badge]
    way: str
    way_why: str
    lines: Sequence[tuple[str, str]]
    pair: Pair
    thumb: Shot
    bars: Sequence[Bar] = ()
    facts: Sequence[tuple[str, str]] = ()
    transients: Sequence[Shot] = ()
    exchanges: Sequence[Exchange] = ()
    is_deciding: bool = False
    crop: Shot | None = None


@dataclass(frozen=True)
class ClaimView:
    """A verdict on a claim, or a value that was read off the screen."""

    claim: str
    badge: Badge
    reason: str
    judging: str
    pair: Pair | None


@dataclass(frozen=True)
class RunView:
    """A run. `sentence` is its result in words, and `rule` the rule that decided it."""

    run_id: str
    test: str
    task: str
    badges: Sequence[Badge]
    sentence: str
    rule: str = ""
    deciding: Pair | None = None
    deciding_text: str = ""
    deciding_step: int = 0
    deciding_where: str = ""
    facts: Sequence[tuple[str, str]] = ()
    steps: Sequence[StepView] = ()
    claims: Sequence[ClaimView] = ()
    damage: Sequence[str] = ()
    printed: Sequence[tuple[str, str]] = ()
    failure: str = ""
    problem: str = ""
    never_started: bool = False
    """Whether the problem is why the run ended before its first screen; else it is why the run cannot be shown."""
    messages: str = ""
    """The address of the messages that the run sent; "" where they are not beside the page."""

    @property
    def problem_title(self) -> str:
        """Return what the problem means for the run."""
        return "The run never started" if self.never_started else "The run cannot be shown"


@dataclass(frozen=True)
class RunLine:
    """A run in the list of a session: its page, and figures of it. `difference` is equal for equal differences.

    `page` is empty if the page could not be written.
    """

    run_id: str
    page: str
    task: str
    deciding: Pair | None
    deciding_text: str
    difference: str
    ways: dict[str, int] = field(default_factory=dict)
    claims: dict[str, int] = field(default_factory=dict)
    duration_s: float = 0.0
    dollars: float | None = None


@dataclass(frozen=True)
class TestLine:
    """A test with the runs of its last attempt; none if it failed before any.

    `result` is pytest's word; for a run that no test made, how the run ended. `aside` are the runs of earlier attempts
    and of rehearsals, each with its name. `is_counted` is false for a rehearsal whose test is not here, and for all but
    one result of the same test.
    """

    test: str
    result: str
    badge: Badge
    triage: str
    rule: str
    message: str
    runs: Sequence[RunLine] = ()
    aside: Sequence[tuple[str, RunLine]] = ()
    duration_s: float = 0.0
    dollars: float | None = None
    started: str = ""
    more: str = ""
    is_bad: bool = False
    is_counted: bool = True
    difference: str = ""

    @property
    def deciding(self) -> RunLine | None:
        """Return the run that decided: the last one with a difference, or else the last one."""
        decided = [run for run in self.runs if run.difference] or list(self.runs)
        return decided[-1] if decided else None


@dataclass(frozen=True)
class Group:
    """Tests that failed for the same difference, or with the same message."""

    tests: Sequence[TestLine]

    @property
    def first(self) -> TestLine:
        """Return the test that stands for all."""
        return self.tests[0]


@dataclass(frozen=True)
class SessionView:
    """All tests: the groups of those that failed, and a line each."""

    title: str
    counts: Sequence[Badge]
    facts: Sequence[tuple[str, str]]
    groups: Sequence[Group]
    tests: Sequence[TestLine]
    results: Sequence[str]
    triages: Sequence[str]
    problems: Sequence[tuple[str, str]] = ()
