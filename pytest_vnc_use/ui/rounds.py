"""The rounds of a review: tests are replayed, and each stops at the next difference that
no reviewer has answered.

In a round no user is waited for. A question of a replay gets the answer that a reviewer
has given about each difference in it, else no: then it becomes a group, or joins the
group of equal differences. An answer about a group writes nothing. The next round
replays its tests, and pytest writes a recording once its test has passed.
"""

from __future__ import annotations

import hashlib
from base64 import b64decode
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pytest_vnc_use.recordings.images import pixels_of
from pytest_vnc_use.recordings.life import AnswerKind
from pytest_vnc_use.recordings.question import MASKING, Answer, Offer, Question
from pytest_vnc_use.types import Region
from pytest_vnc_use.ui.differences import Differences
from pytest_vnc_use.ui.link import facts_of

UNANSWERED = Answer(
    "no", "no reviewer has accepted it yet; answer it, then start the next round"
)
NOTE = (
    "Accept and Mask write nothing yet: the next round replays the tests, and each"
    " recording is written once its test passes."
)
_ACCEPTING: tuple[AnswerKind, ...] = ("accept", "mask", "mask_gate", "value")
_RESULTS: Mapping[AnswerKind, str] = {
    "accept": "accepted",
    "mask": "masked",
    "mask_gate": "masked at this gate",
    "bug": "a bug: {}",
    "value": "accepted as the value {}",
    "no": "left as it is",
}


def format_result(answer: Answer) -> str:
    """Return what became of differences with this answer."""
    return _RESULTS[answer.kind].format(answer.text)


@dataclass(frozen=True)
class Asked:
    """A question of a replay: the facts that its session sent, and each difference with
    its box.
    """

    facts: Mapping[str, Any]
    boxes: Mapping[str, Region]

    @classmethod
    def of(cls, facts: Mapping[str, Any], known: Differences) -> Asked:
        """Return the question with its differences, by their names in the review: the
        whole screen if it is unknown where it differs.
        """
        recorded, seen = (pixels_of(b64decode(png)) for png in facts["images"][:2])
        boxes = [Region(*box) for box in facts["boxes"]]
        if not boxes:
            height, width = seen.shape
            boxes = [Region(0, 0, width, height)]
        differences = {known.name(box, recorded, seen): box for box in boxes}
        return cls(facts, differences)

    @property
    def differences(self) -> frozenset[str]:
        """All differences."""
        return frozenset(self.boxes)

    @property
    def screen(self) -> tuple[str, str]:
        """The test, and the recorded screen as its image."""
        return self.facts["test"], self.facts["images"][0]


@dataclass(eq=False)
class RoundGroup:
    """Equal differences, the tests that stopped there, each with its problem, and the
    answer about them. `round` is the newest round in which a test did; 0 is CI.
    """

    round: int
    question: Question
    differences: frozenset[str]
    problems: dict[str, str]
    answer: Answer | None = None
    masks: dict[tuple[str, str], list[Region]] = field(default_factory=dict)
    """What a mask would hide, by the test and the recorded screen."""

    @property
    def kind(self) -> AnswerKind:
        """The kind of the answer, "no" while there is none."""
        return self.answer.kind if self.answer else "no"

    @property
    def result(self) -> str:
        """What became of it, as the page shows it; "" while there is no answer."""
        if self.answer is None:
            return ""
        return format_result(self.answer)

    def settles(self, asked: Asked, difference: str) -> bool:
        """Return whether the answer is about a difference: an equal one, or one within
        a mask of the same test, or of the same screen of it.
        """
        if asked.facts["claim"]:
            return self.differences == asked.differences
        if difference in self.differences:
            return True
        if self.kind not in MASKING:
            return False
        box = asked.boxes[difference]
        test, recorded = asked.screen
        for (masked_test, masked_screen), masks in self.masks.items():
            is_there = self.kind == "mask" or masked_screen == recorded
            if masked_test == test and is_there and box.is_part_of_any(masks):
                return True
        return False

    def is_part_of(self, asked: Asked) -> bool:
        """Return whether a question has all differences of this group. No question has
        those of what a model did in CI; one about a claim must have exactly the same.
        """
        if asked.facts["claim"] or not self.differences:
            return self.differences == asked.differences
        return self.differences <= asked.differences

    def join(self, asked: Asked, number: int) -> None:
        """Add a test that stopped at the same difference, and what it would act on."""
        facts = asked.facts
        question = self.question
        acts = dict.fromkeys([*question.acts, *facts["acts"]])
        moved = dict.fromkeys([*question.offer.moved, *facts["moved"]])
        concerned = {
            kind: gates
            for kind, gates in question.offer.concerned.items()
            if kind in facts["concerned"]
        }
        offer = replace(question.offer, moved=tuple(moved), concerned=concerned)
        self.question = replace(question, acts=tuple(acts), offer=offer)
        self.round = number
        self.problems[facts["test"]] = facts["problem"]
        self.masks[asked.screen] = [Region(*mask) for mask in facts["masks"]]


@dataclass(frozen=True)
class LastReplay:
    """How a test ended last, and the groups at which it stopped."""

    stops: Collection[RoundGroup]
    state: str = ""
    triage: str = ""
    message: str = ""

    @property
    def is_bug(self) -> bool:
        """Whether the product has a bug, as the test or a reviewer says."""
        if self.state == "passed":
            return False
        return self.triage == "product" or any(
            stop.kind == "bug" for stop in self.stops
        )

    @property
    def is_due(self) -> bool:
        """Whether a replay may come further than the last one."""
        is_over = self.state == "passed" or self.is_bug
        return not is_over and any(stop.kind in _ACCEPTING for stop in self.stops)


class Rounds:
    """The rounds of one review. `directory` is for images."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._directory.mkdir()
        self.differences = Differences()
        self.groups: dict[str, RoundGroup] = {}
        self.tests: dict[str, LastReplay] = {}
        self.number = 0
        """The newest round, 0 before the first."""
        self.replayed: dict[str, list[RoundGroup]] = {}
        """The tests of the round that runs, each with the groups at which it stopped;
        none between two rounds.
        """

    def add(
        self,
        name: str,
        question: Question,
        differences: Iterable[str],
        tests: Iterable[str],
    ) -> None:
        """Add a group of CI's drifts."""
        group = RoundGroup(
            0, question, frozenset(differences), dict.fromkeys(tests, "")
        )
        self.groups[name] = group
        for test in group.problems:
            before = self.tests.get(test, LastReplay(()))
            self.tests[test] = LastReplay((*before.stops, group))

    @property
    def due(self) -> list[str]:
        """The tests that stopped at what is accepted or masked now."""
        return [test for test, last in self.tests.items() if last.is_due]

    def start(self) -> list[str]:
        """Start a round; return its tests."""
        tests = self.due
        self.number += 1
        self.replayed = {test: [] for test in tests}
        return tests

    def end(self, tests: Mapping[str, Mapping[str, Any]]) -> None:
        """End the round, with what is known of each test. One that was interrupted is
        due again.
        """
        for test, stops in self.replayed.items():
            facts = tests.get(test, {})
            if facts.get("state", "") not in ("", "running"):
                self.tests[test] = LastReplay(
                    stops,
                    facts["state"],
                    facts.get("triage", ""),
                    facts.get("message", ""),
                )
        self.replayed = {}

    def ask(self, facts: Mapping[str, Any]) -> Answer:
        """Return the answer to a session's question; keep the question where there is
        none yet.
        """
        asked = Asked.of(facts, self.differences)
        for group in self._answered(asked, "bug"):
            if group.is_part_of(asked):
                self._stop(group, asked)
                return group.answer or UNANSWERED
        for kind in _ACCEPTING:
            if answer := self._held(kind, asked):
                return answer
        self._stop(self._open_group(asked), asked)
        return UNANSWERED

    def _answered(self, asked: Asked, kind: AnswerKind) -> list[RoundGroup]:
        """Return the groups with an answer, of screens or of the same claim."""
        claim = asked.facts["claim"]
        return [
            group
            for group in self.groups.values()
            if group.kind == kind and group.question.claim == claim
        ]

    def _held(self, kind: AnswerKind, asked: Asked) -> Answer | None:
        """Return the answer of a kind that was given about all differences in a
        question, with each action in it shown there; None for none.
        """
        facts = asked.facts
        is_offered = kind == "accept" or kind in facts["concerned"]
        if kind == "value":
            is_offered = bool(facts["values"])
        if facts["moved"] or not is_offered:
            return None
        answered = self._answered(asked, kind)
        acts: set[str] = set()
        names: set[str] = set()
        for difference in asked.boxes:
            about = [group for group in answered if group.settles(asked, difference)]
            if not about:
                return None
            for group in about:
                acts.update(group.question.acts)
                if group.answer and kind == "value":
                    names.add(group.answer.text)
        if len(names) > 1 or not acts.issuperset(facts["acts"]):
            return None
        return Answer(kind, "".join(names))

    def _open_group(self, asked: Asked) -> RoundGroup:
        """Return the group, new or not, of what was not accepted in a question."""
        facts = asked.facts
        new = asked.differences
        if not facts["claim"]:
            for group in self._answered(asked, "accept"):
                new -= group.differences
        # if all are accepted, the question is about an action, which is not
        new = new or asked.differences
        for group in self.groups.values():
            is_open = group.round and group.kind not in _ACCEPTING
            is_same = group.question.claim == facts["claim"]
            is_same &= bool(group.question.offer.moved) == bool(facts["moved"])
            if is_open and is_same and group.differences == new:
                return group
        boxes = [box for difference, box in asked.boxes.items() if difference in new]
        is_all = new == asked.differences
        offer = Offer(
            tuple(facts["moved"]),
            masked_px=facts["masked_px"],
            # a mask would hide what was accepted too
            concerned=facts["concerned"] if is_all else {},
            values=facts["values"] if is_all else {},
        )
        question = Question(
            facts["test"],
            facts["problem"],
            tuple(boxes),
            self._images(facts["images"]),
            facts["claim"],
            offer=offer,
        )
        group = RoundGroup(self.number, question, new, {})
        self.groups[f"round {self.number}.{len(self.groups)}"] = group
        return group

    def _stop(self, group: RoundGroup, asked: Asked) -> None:
        """Note that a test stops at a group."""
        group.join(asked, self.number)
        stops = self.replayed.setdefault(asked.facts["test"], [])
        if group not in stops:
            stops.append(group)

    def _images(self, images: Iterable[str]) -> tuple[Path, Path, Path]:
        """Store the images of a question: recorded, now, and the difference."""
        files = []
        for image in images:
            png = b64decode(image)
            file = self._directory / f"{hashlib.sha256(png).hexdigest()}.png"
            file.write_bytes(png)
            files.append(file)
        recorded, now, difference = files
        return recorded, now, difference

    def answer(
        self,
        name: str,
        kind: AnswerKind,
        text: str,
        shown: Collection[str] | None = None,
    ) -> None:
        """Note a reviewer's answer about a group; nothing is written. Where the page has
        not `shown` an action that another test would perform there, it is not answered.
        """
        group = self.groups[name]
        question = group.question
        is_possible = question.offers(kind)
        if kind in _ACCEPTING and shown is not None:
            is_possible &= set(question.acts).issubset(shown)
        if kind == "value":
            is_possible &= text in question.offer.values
        if is_possible:
            group.answer = Answer(kind, text)

    def facts(self) -> dict[str, Any]:
        """Return what the page shows of how far the tests are."""
        passed = [last for last in self.tests.values() if last.state == "passed"]
        bugs = [last for last in self.tests.values() if last.is_bug]
        return {
            "number": self.number,
            "is_running": bool(self.replayed),
            "due": len(self.due),
            "passed": len(passed),
            "bugs": len(bugs),
            "left": len(self.tests) - len(passed) - len(bugs),
        }

    def left_out(self) -> list[str]:
        """Return why a test failed other than at a question, a line each."""
        lines = []
        for test, last in self.tests.items():
            if last.state not in ("", "passed") and not last.stops:
                lines.append(f"{test}: {last.message or last.state}")
        return lines

    def group_facts(self) -> list[dict[str, Any]]:
        """Return what the page shows of the groups of rounds, the newest first."""
        shown = [(name, group) for name, group in self.groups.items() if group.round]
        shown.sort(key=lambda item: item[1].round, reverse=True)
        groups = []
        for name, group in shown:
            tests = [
                {"test": test, "problem": problem, "result": group.result}
                for test, problem in group.problems.items()
            ]
            facts = {
                **facts_of(group.question),
                "id": name,
                "about": "round",
                "round": group.round,
                "note": "" if group.question.claim else NOTE,
                "diff": "",
                "urls": [f"image/{path.name}" for path in group.question.images],
                "tests": tests,
            }
            groups.append(facts)
        return groups
