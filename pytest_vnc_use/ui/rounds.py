"""The rounds of a review: tests are replayed, and each stops at the next difference that
no reviewer has answered.

A round waits for no user. Where reviewers have answered about each difference in a
question of a replay, it gets their answer. Else the answer is no, and the question
becomes a group, or joins the group of equal differences. An answer about a group writes
nothing. The next round replays its tests, and pytest writes a recording once its test
has passed.
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
from pytest_vnc_use.recordings.question import Answer, Offer, Question
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
class ReplayQuestion:
    """A question of a replay: the facts that its session sent, and each difference with
    its box.
    """

    facts: Mapping[str, Any]
    boxes: Mapping[str, Region]

    @classmethod
    def of(cls, facts: Mapping[str, Any], known: Differences) -> ReplayQuestion:
        """Return the question with its differences, by their names in the review: the
        whole screen if it is unknown where it differs.
        """
        recorded_png, seen_png, _ = facts["images"]
        recorded = pixels_of(b64decode(recorded_png))
        seen = pixels_of(b64decode(seen_png))
        boxes = [Region(*box) for box in facts["boxes"]]
        if not boxes:
            height, width = seen.shape
            boxes = [Region(0, 0, width, height)]
        if facts["transient"]:
            [box] = boxes
            return cls(facts, {known.name_transient(box, seen): box})
        return cls(facts, {known.name(box, recorded, seen): box for box in boxes})

    @property
    def differences(self) -> frozenset[str]:
        """All differences."""
        return frozenset(self.boxes)

    @property
    def screen(self) -> tuple[str, str]:
        """What identifies the recorded screen: the test and the image."""
        return self.facts["test"], self.facts["images"][0]


@dataclass(eq=False)
class RoundGroup:
    """Equal differences, the tests that stopped there, each with its problem, and the
    answer about them. `round` is the newest round in which a test stopped there; 0 is
    CI.
    """

    round: int
    question: Question
    differences: frozenset[str]
    problems: dict[str, str]
    answer: Answer = UNANSWERED
    masks: dict[tuple[str, str], list[Region]] = field(default_factory=dict)
    """What a mask would hide, by the recorded screen."""

    @property
    def kind(self) -> AnswerKind:
        """The kind of the answer, "no" while there is none."""
        return self.answer.kind

    @property
    def result(self) -> str:
        """What became of it, as the page shows it; "" while there is no answer."""
        return "" if self.answer is UNANSWERED else format_result(self.answer)

    def covers(self, question: ReplayQuestion, difference: str) -> bool:
        """Return whether the answer holds for a difference: an equal one, or one within
        a mask of the same test, or of the same screen of it.
        """
        if question.facts["claim"]:
            return self.differences == question.differences
        if difference in self.differences:
            return True
        box = question.boxes[difference]
        if self.kind == "mask_gate":
            return box.is_part_of_any(self.masks.get(question.screen, ()))
        if self.kind == "mask":
            for (test, _), masks in self.masks.items():
                if test == question.facts["test"] and box.is_part_of_any(masks):
                    return True
        return False

    def is_part_of(self, question: ReplayQuestion) -> bool:
        """Return whether a question has all differences of this group; if it is about a
        claim, these alone.
        """
        # the group of a heal has no differences, and is part of no question
        if question.facts["claim"] or not self.differences:
            return self.differences == question.differences
        return self.differences <= question.differences

    def join(self, question: ReplayQuestion, number: int) -> None:
        """Add a test that stopped at the same difference, and what it would act on."""
        facts = question.facts
        offer = self.question.offer
        acts = dict.fromkeys([*self.question.acts, *facts["acts"]])
        moved = dict.fromkeys([*offer.moved, *facts["moved"]])
        concerned = {
            kind: gates
            for kind, gates in offer.concerned.items()
            if kind in facts["concerned"]
        }
        offer = replace(offer, moved=tuple(moved), concerned=concerned)
        self.question = replace(self.question, acts=tuple(acts), offer=offer)
        self.round = number
        self.problems[facts["test"]] = facts["problem"]
        self.masks[question.screen] = [Region(*mask) for mask in facts["masks"]]


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
        if self.triage == "product":
            return True
        return any(stop.kind == "bug" for stop in self.stops)

    @property
    def is_due(self) -> bool:
        """Whether a replay may come further than the last one."""
        if self.state == "passed" or self.is_bug:
            return False
        return any(stop.kind in _ACCEPTING for stop in self.stops)


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
        problems = dict.fromkeys(tests, "")
        group = RoundGroup(0, question, frozenset(differences), problems)
        self.groups[name] = group
        for test in problems:
            earlier = self.tests.get(test, LastReplay(()))
            self.tests[test] = LastReplay((*earlier.stops, group))

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
            state = facts.get("state", "")
            if state in ("", "running"):
                continue
            triage = facts.get("triage", "")
            message = facts.get("message", "")
            self.tests[test] = LastReplay(stops, state, triage, message)
        self.replayed = {}

    def ask(self, facts: Mapping[str, Any]) -> Answer:
        """Return the answer to a session's question; keep the question where there is
        none yet.
        """
        question = ReplayQuestion.of(facts, self.differences)
        for group in self._answered(question, "bug"):
            if group.is_part_of(question):
                self._stop(group, question)
                return group.answer
        for kind in _ACCEPTING:
            answer = self._earlier_answer(kind, question)
            if answer:
                return answer
        self._stop(self._open_group(question), question)
        return UNANSWERED

    def _answered(self, question: ReplayQuestion, kind: AnswerKind) -> list[RoundGroup]:
        """Return the groups with an answer of a kind: those about the claim of a
        question, or about screens if it has none.
        """
        claim = question.facts["claim"]
        return [
            group
            for group in self.groups.values()
            if group.kind == kind and group.question.claim == claim
        ]

    def _earlier_answer(
        self, kind: AnswerKind, question: ReplayQuestion
    ) -> Answer | None:
        """Return the answer of a kind that was given about all differences in a
        question, with each of its actions shown; None for none.
        """
        facts = question.facts
        is_offered = kind == "accept" or kind in facts["concerned"]
        if kind == "value":
            is_offered = bool(facts["values"])
        if facts["moved"] or not is_offered:
            return None
        answered = self._answered(question, kind)
        acts: set[str] = set()
        texts: set[str] = set()
        for difference in question.boxes:
            about = [group for group in answered if group.covers(question, difference)]
            if not about:
                return None
            for group in about:
                acts.update(group.question.acts)
                texts.add(group.answer.text)
        if not acts.issuperset(facts["acts"]):
            return None
        if kind != "value":
            return Answer(kind)
        # a question has one answer, so all its differences must be the same value
        return Answer(kind, texts.pop()) if len(texts) == 1 else None

    def _open_group(self, question: ReplayQuestion) -> RoundGroup:
        """Return the group, new or not, of what was not accepted in a question."""
        facts = question.facts
        new = question.differences
        if not facts["claim"]:
            for group in self._answered(question, "accept"):
                new -= group.differences
        # if all are accepted, the question is about an action, which is not
        new = new or question.differences
        for group in self.groups.values():
            has_moved = bool(group.question.offer.moved)
            if (
                group.round
                and group.kind not in _ACCEPTING
                and group.question.claim == facts["claim"]
                and has_moved == bool(facts["moved"])
                and group.differences == new
            ):
                return group
        boxes = [box for name, box in question.boxes.items() if name in new]
        offer = Offer(tuple(facts["moved"]), masked_px=facts["masked_px"])
        # else a mask, or a value, would hide what was accepted too
        if new == question.differences:
            concerned = facts["concerned"]
            offer = replace(offer, concerned=concerned, values=facts["values"])
        shown = Question(
            facts["test"],
            facts["problem"],
            tuple(boxes),
            tuple(map(self._store, facts["images"])),
            facts["claim"],
            offer=offer,
            is_transient=facts["transient"],
        )
        group = RoundGroup(self.number, shown, new, {})
        self.groups[f"round {self.number}.{len(self.groups)}"] = group
        return group

    def _stop(self, group: RoundGroup, question: ReplayQuestion) -> None:
        """Note that a test stops at a group."""
        group.join(question, self.number)
        stops = self.replayed.setdefault(question.facts["test"], [])
        if group not in stops:
            stops.append(group)

    def _store(self, image: str) -> Path:
        """Store an image of a question; return its file."""
        png = b64decode(image)
        file = self._directory / f"{hashlib.sha256(png).hexdigest()}.png"
        file.write_bytes(png)
        return file

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
        if not question.offers(kind):
            return
        if kind == "value" and text not in question.offer.values:
            return
        is_unseen = shown is not None and not set(question.acts).issubset(shown)
        if is_unseen and kind in _ACCEPTING:
            return
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
