"""The findings of a CI job, read from its run directories: drifts, transients and heals
in groups, each group with one answer.

Of each test the newest attempt counts. Its run drifted at one gate, and only that gate
is accepted, with the frame from CI: what comes after it is unknown until the test is
replayed. Drifts are a group if at the same place the recorded pixels are equal, and
those now are too. A heal is a proposal, accepted or rejected as a whole recording.

Run directories may come from an untrusted source. So a recording is changed only within
this directory, only where it exists, and only if it still has the screen that CI
compared with.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import unified_diff
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Union

import numpy as np

from pytest_vnc_use import clock
from pytest_vnc_use.backends.pixels import boxes_of
from pytest_vnc_use.errors import (
    RecordingError,
    RunDirectoryError,
    SettingsError,
    VncUseError,
)
from pytest_vnc_use.files import explain_unreadable, read_regular
from pytest_vnc_use.interactive import user_name
from pytest_vnc_use.plain_text import count_of
from pytest_vnc_use.recordings.accept import Review
from pytest_vnc_use.recordings.course import gate_to
from pytest_vnc_use.recordings.drift import explained
from pytest_vnc_use.recordings.format import (
    Accepted,
    Recording,
    Screen,
    Segment,
    screens,
    with_screens,
)
from pytest_vnc_use.recordings.gates import Gate
from pytest_vnc_use.recordings.images import Pixels, differing, frame_of, pixels_of
from pytest_vnc_use.recordings.life import AnswerKind
from pytest_vnc_use.recordings.question import NO, Answer, Question, images_of
from pytest_vnc_use.recordings.reviewer import ReviewedTest, Reviewer
from pytest_vnc_use.recordings.store import (
    AFTER,
    BEFORE,
    Key,
    add_masks,
    add_values,
    load,
    recordings_of,
    save,
)
from pytest_vnc_use.recordings.values import other_values
from pytest_vnc_use.runs.directory import FinishedTest, RunDirectory, read_finished_test
from pytest_vnc_use.runs.json_lines import COPY_AGAIN
from pytest_vnc_use.runs.trace import Trace, read_trace
from pytest_vnc_use.runs.transcript import format_caption
from pytest_vnc_use.types import Drift, RunStarted, StepFinished
from pytest_vnc_use.types.actions import Point
from pytest_vnc_use.ui.job_transients import (
    JobTransient,
    replayed_test,
    transients_of,
)
from pytest_vnc_use.ui.link import facts_of
from pytest_vnc_use.ui.rounds import Rounds, format_result

_VERDICT = "a model's verdict"
_HEAD_BYTES = 1_000
MAX_UNPACKED = 4_000_000_000
"""The maximum bytes that a zip of run directories may unpack to."""


@dataclass(eq=False)
class JobDrift:
    """One gate that stayed closed in CI, in one test, or in several with a named
    recording.

    `path` is the recording, with the text that it had then. `segment` and `step` are
    the place of the gate in it, and `seen` is the screen in CI.
    """

    tests: list[str]
    problem: str
    path: Path
    text: bytes
    segment: int
    step: int
    seen: Pixels
    name: str = ""
    """The name of the recording, if several tests share it."""
    is_shared: bool = False
    """Whether several tests may reach the gate: the recording has a name, or values."""
    values: Mapping[str, str] = field(default_factory=dict)
    """The values that differed from the recorded ones, each with both as text."""
    diff: ClassVar[str] = ""
    note: ClassVar[str] = (
        "Accept changes the one gate that CI reached in each test. Replay these then runs"
        " the tests, up to the next difference."
    )

    def is_at(self, other: JobDrift) -> bool:
        """Return whether another drift is at the same gate of the same recording."""
        here = (self.path, self.segment, self.step)
        return here == (other.path, other.segment, other.step)

    @property
    def test(self) -> str:
        """The test; for several, their number and the recording's name or one test."""
        count = len(self.tests)
        if self.name:
            return f"{self.name}, in {count_of(count, 'test')}"
        if count > 1:
            return f"{self.tests[0]}, and {count - 1} with other values"
        return self.tests[0]

    def read_gate(self) -> tuple[Recording, Screen, Gate, tuple[Point, ...]]:
        """Return the recording as it is now, the gate's screen in it, the gate, and
        where the step acts.

        Raises RecordingError.
        """
        recording = load(self.path)
        assert recording
        segment = recording.segments[self.segment]
        last_screen = None
        if self.segment:
            before = recording.segments[self.segment - 1]
            if before.steps:
                last_screen = before.steps[-1].screen
        gate = gate_to(segment, self.step, recording.masks, last_screen)
        return recording, segment.screens[self.step], gate, segment.points_at(self.step)

    def ask(self, reviewer: Reviewer, directory: RunDirectory) -> Answer:
        """Have the reviewer answer as in a replay; return the answer. Raises
        RecordingError.
        """
        recording, screen, gate, due = self.read_gate()
        test = ReviewedTest(reviewer, self.test, directory=directory)
        review = Review(test, recording)
        answer = Answer("accept")
        mismatch = review.with_accepted(gate, self.seen, due).mismatch(self.seen)
        if mismatch:
            mismatch = explained(mismatch, gate, self.seen)
            answer = review.ask(
                gate,
                frame_of(self.seen),
                replace(mismatch, problem=self.problem),
                recording.segments[self.segment],
                self.step,
                values=self.values,
            )
        match answer.kind:
            case "accept":
                left = review.with_accepted(gate, self.seen, due).mismatch(self.seen)
                # with other values one difference is asked about after the other
                if left and (answer.moved or not self.values):
                    problem = answer.moved or left.problem
                    return Answer("no", f"it cannot be accepted: {problem}")
                review.note(screen, gate, self.seen, due)
                save(self.path, review.accepted(recording))
            case "mask":
                add_masks(self.path, review.masks)
            case "mask_gate":
                for gate_name, masks in review.masks_at.items():
                    add_masks(self.path, masks, gate_name)
            case "value":
                for gate_name, shown in review.values_at.items():
                    regions = [value.region for value in shown]
                    add_values(self.path, answer.text, regions, gate_name)
            case _:
                pass  # nothing is written
        return answer


@dataclass(eq=False)
class Heal:
    """What a model did at a drift in CI: `healed` is the recording that it proposes for
    the one at `path`, which had the text then.
    """

    test: str
    problem: str
    path: Path
    text: bytes
    healed: Recording
    diff: str
    note: ClassVar[str] = ""

    @property
    def tests(self) -> list[str]:
        """The one test."""
        return [self.test]

    def ask(self, reviewer: Reviewer, directory: RunDirectory) -> Answer:
        """Have the reviewer accept or reject the proposal; return the answer. Raises
        RecordingError.
        """
        recording = load(self.path)
        assert recording
        steps, was, now = _first_difference(recording, self.healed)
        boxes = tuple(boxes_of(differing(was.pixels(), now.pixels())))
        frame = frame_of(now.pixels())
        images = images_of(directory, was.pixels(), frame, boxes, ())
        answer = reviewer.ask(Question(self.test, self.problem, boxes, images), ())
        if answer.kind == "accept":
            at = clock.utc_now().replace(microsecond=0)
            accepted = Accepted(by=user_name(), at=at, steps=steps)

            def with_history(screen: Screen) -> Screen:
                if screen is not now:
                    return screen
                history = (*screen.history, accepted)
                return screen.model_copy(update={"history": history})

            healed = with_screens(self.healed, with_history)
            save(self.path, healed.model_copy(update={"masks": recording.masks}))
        return answer


JobFinding = Union[JobDrift, JobTransient, Heal]
"""What a reviewer answers about a run in CI."""


@dataclass(eq=False)
class Group:
    """Drifts or transients that look the same, or one heal, and what became of each, by
    test.
    """

    findings: list[JobFinding]
    question: Question
    """What is asked about the first of them, whose images are shown."""
    differences: frozenset[str] = frozenset()
    """The name of each difference; none of a heal."""
    results: dict[str, str] = field(default_factory=dict)
    written: set[JobFinding] = field(default_factory=set)
    """Those whose recording has the answer."""


class CiReview:
    """The drifts in a directory of runs, or in a zip of one. Raises SettingsError if
    there are no runs in it.
    """

    def __init__(self, source: Path) -> None:
        self._temporary = TemporaryDirectory(prefix="vnc-use-review-")  # 0700
        self.groups: dict[str, Group] = {}
        self.left_out: list[str] = []
        """Why a drift cannot be shown, a line each."""
        self.rounds = Rounds(Path(self._temporary.name, "rounds"))
        questions = Path(self._temporary.name, "questions")
        self._directory = RunDirectory.create(questions, "review")
        self._healed = set[Path]()
        """The recordings of which a heal is shown."""
        self._gates = set[tuple[Path, int, int]]()
        """The gates of which a drift is shown: each by the recording, the segment and
        the step.
        """
        try:
            directories = self._directories(source)
        except SettingsError:
            self.close()
            raise
        self._add_runs(directories)
        for name, group in self.groups.items():
            tests = chain.from_iterable(finding.tests for finding in group.findings)
            self.rounds.add(name, group.question, group.differences, tests)

    def _directories(self, source: Path) -> list[Path]:
        """Return the run directories, the newest first. Raises SettingsError."""
        runs = self._unpack(source) if source.is_file() else source
        directories = {trace.parent for trace in runs.rglob("trace.jsonl")}
        if not directories:
            raise SettingsError(
                f"there is no run directory in {str(source)!r}: it must hold the runs"
                " of a CI job"
            )
        return sorted(directories, reverse=True)

    def _add_runs(self, directories: Iterable[Path]) -> None:
        """Add the runs of the newest attempt at each test, and those of no test."""
        newest: dict[tuple[Path, str], FinishedTest] = {}
        unrepeated = set[tuple[Path, str]]()
        for path in directories:
            try:
                result = read_finished_test(path)
                if result is None:
                    self._add_run(path, is_unrepeated=False)
                    continue
                test = (path.parent, result.test)
                if result.is_rehearsal:
                    if result.is_bad and test not in newest:
                        unrepeated.add(test)
                    continue
                # all runs of one attempt have the same result
                if newest.setdefault(test, result) == result:
                    self._add_run(path, is_unrepeated=test in unrepeated)
            except (VncUseError, OSError) as exc:
                self.left_out.append(f"{path.name}: {exc}")

    def _add_run(self, path: Path, *, is_unrepeated: bool) -> None:
        """Add what one run shows, but no second heal of a recording, and no second drift
        at a gate, unless several tests may meet it.
        """
        trace = read_trace(path)
        heal = _heal_of(trace)
        if heal and heal.path not in self._healed:
            if is_unrepeated:
                heal.problem += "; what the model did did not repeat in its rehearsal"
            self._healed.add(heal.path)
            group = Group([heal], self._question(heal))
            self.groups[f"heal {len(self._healed)}"] = group
        drift = _drift_of(trace)
        if drift:
            gate = (drift.path, drift.segment, drift.step)
            if drift.is_shared or gate not in self._gates:
                self._gates.add(gate)
                self._add_drift(drift)
        # after a drift, each may be a part of that
        if trace.started.test_id and trace.transients and not trace.drifts:
            for transient in transients_of(trace, _file_of(trace.started)):
                self._add_transient(transient)

    def _unpack(self, source: Path) -> Path:
        """Unpack a zip of run directories; return where. Raises SettingsError."""
        target = Path(self._temporary.name, "runs")
        try:
            with zipfile.ZipFile(source) as packed:
                size = sum(member.file_size for member in packed.infolist())
                if size > MAX_UNPACKED:
                    raise SettingsError(
                        f"{str(source)!r} unpacks to more than {MAX_UNPACKED:,} bytes"
                    )
                packed.extractall(target)
        except (OSError, zipfile.BadZipFile) as exc:
            with source.open("rb") as file:
                head = file.read(_HEAD_BYTES)
            problem = explain_unreadable(head, "a zip of runs", COPY_AGAIN)
            problem = problem or f"must be a directory of runs, or a zip of one: {exc}"
            raise SettingsError(f"{str(source)!r} {problem}") from exc
        return target

    def _add_drift(self, drift: JobDrift) -> None:
        """Add a drift to its group: those with the same pixels at the same place."""
        recording, _, gate, _ = drift.read_gate()
        mismatch = gate.mismatch(drift.seen)
        boxes = mismatch.boxes if mismatch else ()
        if not boxes:
            self.left_out.append(f"{drift.test}: {drift.problem}")
            return
        differences = self.rounds.differences
        differences.learn_carets(recording)
        names = [differences.name(box, gate.expected, drift.seen) for box in boxes]
        name = hashlib.sha256("".join(names).encode()).hexdigest()[:16]
        group = self.groups.get(name)
        if group is None:
            question = self._question(drift)
            self.groups[name] = Group([drift], question, frozenset(names))
            return
        for other in group.findings:
            if isinstance(other, JobDrift) and other.is_at(drift):
                other.tests += drift.tests
                return
        group.findings.append(drift)

    def _add_transient(self, transient: JobTransient) -> None:
        """Add a transient to its group: those with the same text."""
        for group in self.groups.values():
            for other in group.findings:
                if isinstance(other, JobTransient) and other.join(transient):
                    return
        differences = self.rounds.differences
        name = differences.name_transient(transient.region, transient.frames[0])
        if name in self.groups:
            self.groups[name].findings.append(transient)
        else:
            question = self._question(transient)
            self.groups[name] = Group([transient], question, frozenset([name]))

    def _question(self, finding: JobFinding) -> Question:
        """Return what is asked about a finding, without an answer."""
        questions: list[Question] = []

        def ask(question: Question) -> Answer:
            questions.append(question)
            return NO

        finding.ask(Reviewer(ask), self._directory)
        return questions[0]

    def image(self, name: str) -> Path | None:
        """Return the file of an image that a group shows."""
        for group in self.rounds.groups.values():
            for path in group.question.images:
                if path.name == name:
                    return path
        return None

    def facts(self) -> dict[str, Any]:
        """Return what the page shows."""
        groups = self.rounds.group_facts()
        for name, group in self.groups.items():
            tests = [
                {
                    "test": finding.test,
                    "replayed": finding.tests,
                    "problem": finding.problem,
                    "result": group.results.get(finding.test, ""),
                }
                for finding in group.findings
            ]
            first = group.findings[0]
            facts = {
                **facts_of(group.question),
                "id": name,
                "about": "ci",
                "diff": first.diff,
                "note": first.note,
                "urls": [f"image/{path.name}" for path in group.question.images],
                "tests": tests,
            }
            groups.append(facts)
        return {
            "type": "groups",
            "groups": groups,
            "rounds": self.rounds.facts(),
            "left_out": [*self.rounds.left_out(), *self.left_out],
        }

    def answer(
        self,
        name: str,
        kind: AnswerKind,
        text: str,
        shown: Collection[str] | None = None,
    ) -> None:
        """Write one answer into the recordings of a group; what was refused is noted
        beside its test. About a group of a round, note it, with the actions that were
        `shown`.
        """
        if name not in self.groups:
            self.rounds.answer(name, kind, text, shown)
            return
        group = self.groups[name]
        answer = Answer(kind, text)
        reviewer = Reviewer(lambda question: answer)
        for finding in group.findings:
            if finding in group.written:
                continue
            if kind in ("bug", "no"):
                group.results[finding.test] = format_result(answer)
                self.rounds.answer(name, kind, text)
                continue
            try:
                result = self._write(finding, reviewer, kind)
            except (VncUseError, OSError) as exc:
                group.results[finding.test] = f"refused: {exc}"
                continue
            self._note_written(finding)
            group.written.add(finding)
            group.results[finding.test] = result
            self.rounds.answer(name, kind, text)

    def _note_written(self, finding: JobFinding) -> None:
        """Note that this review has changed a recording, so that its other findings are
        not refused for that. A heal still is: it would replace the whole recording.
        """
        new = read_regular(finding.path)
        for group in self.groups.values():
            for other in group.findings:
                is_same = other.path == finding.path and other.text == finding.text
                if not isinstance(other, Heal) and is_same and other is not finding:
                    other.text = new

    def _write(
        self,
        finding: JobFinding,
        reviewer: Reviewer,
        kind: AnswerKind,
    ) -> str:
        """Write the reviewer's answer into a recording; return what became of the
        finding. Raises RecordingError, OSError where it is refused.
        """
        if read_regular(finding.path) != finding.text:
            raise RecordingError("the recording has changed since; replay the test")
        answer = finding.ask(reviewer, self._directory)
        # "accept" also where an earlier answer has settled it
        if answer.kind not in (kind, "accept"):
            why = answer.text or "its target has moved, so record the test again"
            raise RecordingError(why)
        return format_result(answer)

    def close(self) -> None:
        """Remove what was unpacked."""
        self._temporary.cleanup()


def _drift_of(trace: Trace) -> JobDrift | None:
    """Return the drift that ended a run of a test; None if a model continued there, or
    nothing drifted.
    """
    started = trace.started
    drifts = [drift for drift in trace.drifts if not drift.healed and not drift.claim]
    if not started.test_id or not drifts:
        return None
    drift = drifts[-1]
    file = _file_of(started)
    text = read_regular(file)
    recording = load(file)
    assert recording
    directory = RunDirectory.open(trace.path)
    recorded = pixels_of(directory.load_png(drift.recorded))
    seen = pixels_of(directory.load_png(drift.seen))
    done = _done_before(trace, drift)
    for number, segment in enumerate(recording.segments):
        if segment.task != started.task or done > len(segment.steps):
            continue
        if np.array_equal(segment.screens[done].pixels(), recorded):
            return JobDrift(
                tests=[replayed_test(started, recording)],
                problem=drift.problem,
                path=file,
                text=text,
                segment=number,
                step=done,
                seen=seen,
                name=started.recording,
                is_shared=bool(started.recording or segment.values),
                values=other_values(segment.values, started.values),
            )
    raise RunDirectoryError(
        f"{started.test_id}: the recording is not the one that CI compared with"
    )


def _heal_of(trace: Trace) -> Heal | None:
    """Return what a model proposed in a run of a test; None if it proposed nothing."""
    if not (trace.path / AFTER).exists():
        return None
    text = read_regular(trace.path / BEFORE)
    test = trace.started.test_id
    file = _file_of(trace.started)
    healed = load(trace.path / AFTER)
    recording = load(file)
    assert healed
    assert recording
    if read_regular(file) != text:
        raise RunDirectoryError(
            f"{test}: the recording is not the one that a model healed in CI"
        )
    for name in ("test", "parameters", "secrets", "screen_size"):
        if getattr(healed, name) != getattr(recording, name):
            raise RunDirectoryError(f"{test}: what a model proposes is of another test")
    problems = [drift.problem for drift in trace.drifts if drift.healed]
    problem = problems[0] if problems else "a claim was judged again"
    name = replayed_test(trace.started, recording)
    return Heal(name, problem, file, text, healed, _diff_of(recording, healed))


def _diff_of(recording: Recording, healed: Recording) -> str:
    """Return the lines that a model changed, without the headers of a diff."""
    before = list(_lines_of(recording))
    after = list(_lines_of(healed))
    changes = list(unified_diff(before, after, n=2, lineterm=""))[2:]
    return "\n".join(line for line in changes if not line.startswith("@@"))


def _lines_of(recording: Recording) -> Iterator[str]:
    """Yield the steps and claims of a recording, as a user reads them."""
    for claim in recording.claims:
        yield f"{claim.verdict}: {claim.claim}"
    for segment in recording.segments:
        yield segment.task
        for step in segment.steps:
            yield f"  {format_caption(step.action, step.elements)}"
        for claim in segment.claims:
            yield f"  {claim.verdict}: {claim.claim}"


def _first_difference(
    recording: Recording, healed: Recording
) -> tuple[str, Screen, Screen]:
    """Return what a model did where a healed recording begins to differ, and both
    screens there.
    """
    for old, new in zip(recording.segments, healed.segments, strict=False):
        # at the end there is a screen and no action
        old_actions = [step.action for step in old.steps] + [None]
        new_actions = [step.action for step in new.steps] + [None]
        pairs = zip(old.screens, new.screens, strict=False)
        for step, (was, now) in enumerate(pairs):
            has_same_action = old_actions[step] == new_actions[step]
            if not has_same_action or differing(was.pixels(), now.pixels()).any():
                return _steps_from(step, new), was, now
    pairs = zip(_evidence_screens(recording), _evidence_screens(healed), strict=False)
    for was, now in pairs:
        if differing(was.pixels(), now.pixels()).any():
            return _VERDICT, was, now
    *_, was = screens(recording)
    *_, now = screens(healed)
    return _VERDICT, was, now


def _steps_from(step: int, segment: Segment) -> str:
    count = len(segment.steps) - step
    if not count:
        return _VERDICT
    return f"{count_of(count, 'step')} from step {step + 1} by {segment.planner}"


def _evidence_screens(recording: Recording) -> Iterator[Screen]:
    for evidence in recording.claims:
        yield evidence.screen
    for segment in recording.segments:
        for evidence in segment.claims:
            yield evidence.screen


def _done_before(trace: Trace, drift: Drift) -> int:
    """Return how many steps were performed before a drift."""
    done = 0
    for timed in trace.events:
        if timed.event is drift:
            break
        if isinstance(timed.event, StepFinished):
            done += 1
    return done


def _file_of(started: RunStarted) -> Path:
    """Return the recording of a run in CI. Raises RecordingError, RunDirectoryError."""
    test = started.test_id
    file, _, name = test.partition("::")
    module = Path(file).resolve()
    if started.recording:
        path = Key.of_name(started.recording, module, Path.cwd()).path
    else:
        path = Key(module, f"{Path(file).name}::{name}").path
        if not path.exists():
            path = recordings_of(test)[0]
    if not path.resolve().is_relative_to(Path.cwd()):
        raise RunDirectoryError(
            f"{test!r} is not a test of this directory. Start `cua-vnc ui` where pytest"
            " is started"
        )
    return path.resolve()
