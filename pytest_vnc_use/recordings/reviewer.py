"""The reviewer of a session, with all their answers.

Each difference is asked about once a session: where the same pixels were recorded and
the same ones are there now, at the same place, the same answer holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from pytest_vnc_use import clock
from pytest_vnc_use.deadline import uncounted
from pytest_vnc_use.recordings.drift import cell_around
from pytest_vnc_use.recordings.gates import Gate, mask_of
from pytest_vnc_use.recordings.images import Mask, Pixels, differing
from pytest_vnc_use.recordings.manual import ReplayUser
from pytest_vnc_use.recordings.painting import shows_text_of
from pytest_vnc_use.recordings.question import (
    NO,
    NO_MODEL,
    NO_PAGE,
    Answer,
    Ask,
    Question,
)
from pytest_vnc_use.runs.directory import RunDirectory
from pytest_vnc_use.types import REDACTED_COLOUR, Region
from pytest_vnc_use.types.actions import Point

_SAME_TARGET_PX = 20
"""The distance within which two recorded points of one changed cell are one target."""
_REFUSED = {"model": NO_MODEL, "hand": NO_PAGE}


@dataclass(frozen=True, eq=False)
class Change:
    """A difference in a `box`, with the recorded pixels and the ones now of the whole
    `cell` around it.
    """

    box: Region
    cell: Region
    size: tuple[int, ...]
    old: Pixels
    new: Pixels
    compared: Mask

    def is_in(
        self, recorded: Pixels, seen: Pixels | None = None, ignored: Mask | None = None
    ) -> bool:
        """Return whether a recorded screen has the old pixels here, and the screen now
        the new ones.
        """
        if recorded.shape != self.size:
            return False
        compared = self.compared
        if ignored is not None:
            compared = compared & ~self.cell.part_of(ignored)
        differs = differing(self.old, self.cell.part_of(recorded))
        if (differs & compared).any():
            return False
        if seen is None:
            return True
        differs = differing(self.new, self.cell.part_of(seen))
        return not (differs & compared).any()


def changes_of(gate: Gate, seen: Pixels, boxes: Iterable[Region]) -> list[Change]:
    """Return the differences of a screen from a gate, one for each box."""
    changes = []
    for box in boxes:
        cell = cell_around(box, gate.expected, seen)
        old = cell.part_of(gate.expected).copy()
        new = cell.part_of(seen).copy()
        compared = ~cell.part_of(gate.ignored)
        changes.append(Change(box, cell, seen.shape, old, new, compared))
    return changes


def painted(screen: Pixels, changes: Iterable[Change]) -> Pixels:
    """Return a copy of a screen with these changes. What is redacted now stays as it
    was.
    """
    painted_screen: Pixels = screen.copy()
    for change in changes:
        cell = change.cell
        # a pixel around it too, as its box may be that much larger at another gate
        near = change.box.grown(1, screen.shape)
        shown = cell.part_of(mask_of([near], screen.shape)) & change.compared
        shown &= change.new != REDACTED_COLOUR
        cell.part_of(painted_screen)[shown] = change.new[shown]
    return painted_screen


@dataclass(frozen=True)
class AnsweredChange:
    """An answer about one change, when it came, the points that it was given for, and
    the claim that it is about.
    """

    change: Change
    answer: Answer
    at: datetime
    points: tuple[Point, ...] = ()
    claim: str = ""

    def covers(self, due: Iterable[Point]) -> bool:
        """Return whether the answer holds for actions at these points: none is in the
        changed cell, or it was asked.
        """
        concerned = [point for point in due if self.change.cell.holds(point)]
        return all(map(self._was_asked, concerned))

    def _was_asked(self, point: Point) -> bool:
        x, y = point
        for asked_x, asked_y in self.points:
            across = abs(x - asked_x)
            down = abs(y - asked_y)
            if across <= _SAME_TARGET_PX and down <= _SAME_TARGET_PX:
                return True
        return False


class Reviewer:
    """The reviewer of a session. `ask` is how the question is put; waiting for the
    answer counts in no time limit.
    """

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self.answered: list[AnsweredChange] = []
        self.judged: dict[tuple[str, str], Answer] = {}
        """The answers about claims that had no evidence, by the claim and the digest of
        the screen.
        """
        self._transients: list[tuple[Pixels, Answer]] = []
        """The frames that show a transient, each with the answer about it."""

    @property
    def accepted(self) -> list[AnsweredChange]:
        """The changes of screens that were accepted."""
        return [
            answered
            for answered in self.answered
            if answered.answer.kind == "accept" and not answered.claim
        ]

    def answer_to(self, change: Change, gate: Gate, seen: Pixels) -> Answer | None:
        """Return the answer to an earlier question about a screen, other than one that
        accepts, that holds for a change too; None for none.
        """
        for earlier in self.answered:
            is_accepted = earlier.answer.kind == "accept"
            if is_accepted or earlier.claim:
                continue
            is_part = change.box.is_part_of(earlier.change.cell)
            if is_part and earlier.change.is_in(gate.expected, seen, gate.ignored):
                return earlier.answer
        return None

    def about(self, claim: str, gate: Gate, seen: Pixels) -> list[AnsweredChange]:
        """Return the answers about a claim whose change a screen shows again."""
        about = []
        for earlier in self.answered:
            if earlier.claim != claim:
                continue
            if earlier.change.is_in(gate.expected, seen, gate.ignored):
                about.append(earlier)
        return about

    def ask(
        self,
        question: Question,
        changes: Iterable[Change],
        covered: tuple[Point, ...] = (),
    ) -> Answer:
        """Return the answer to a question about changes, no where it is not offered.
        Keep it for all tests of the session, if it may hold for them too.
        """
        with uncounted():
            answer = self._ask(question)
        is_of_test = answer.kind in ("model", "hand")
        is_value = answer.kind == "value"
        is_unknown = is_value and answer.text not in question.offer.values
        if is_unknown or not question.offers(answer.kind):
            answer = NO
        if is_of_test or answer.is_unasked:
            return answer
        at = clock.utc_now().replace(microsecond=0)
        for change in changes:
            answered = AnsweredChange(change, answer, at, covered, question.claim)
            self.answered.append(answered)
        return answer

    def ask_transient(self, question: Question, seen: Pixels) -> Answer:
        """Return the answer to a question about a transient in a frame: that of an
        earlier one with the same text, else the user's.
        """
        for earlier, answer in self._transients:
            if shows_text_of(earlier, question.boxes[0], seen):
                return answer
        answer = self.ask(question, ())
        if not answer.is_unasked:
            self._transients.append((seen, answer))
        return answer


class ReviewedTest:
    """A test whose differences a reviewer is asked about.

    Args:
        reviewer: The reviewer of the session.
        name: The test, as a question names it.
        refused: Why an answer is not possible in this test, by its kind.
        user: The user at the page, who may act by hand; None for a reviewer elsewhere.
        directory: The run directory of the newest run, for the images of a question;
            None before the first.
    """

    def __init__(
        self,
        reviewer: Reviewer,
        name: str,
        *,
        refused: Mapping[str, str] = _REFUSED,
        user: ReplayUser | None = None,
        directory: RunDirectory | None = None,
    ) -> None:
        self.reviewer = reviewer
        self.name = name
        self.refused = refused
        self.user = user
        self.directory = directory
        self._temporary: TemporaryDirectory[str] | None = None
        """The directory for images of claims that are judged before the first run."""

    def directory_of_images(self) -> RunDirectory:
        """Return the run directory; before the first run, a temporary one."""
        if self.directory is None:
            self._temporary = TemporaryDirectory(prefix="vnc-use-accept-")
            path = Path(self._temporary.name)
            self.directory = RunDirectory.create(path, "claims")
        return self.directory
