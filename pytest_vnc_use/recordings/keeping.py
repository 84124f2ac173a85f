"""What is stored of a test: which recorded segment is replayed, and what takes the
recording's place once the test has passed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from filelock import BaseFileLock

from pytest_vnc_use.errors import RecordingError
from pytest_vnc_use.recordings import AGAIN
from pytest_vnc_use.recordings.accept import Review
from pytest_vnc_use.recordings.build import Meter
from pytest_vnc_use.recordings.closed import Circumstances
from pytest_vnc_use.recordings.course import Allowances
from pytest_vnc_use.recordings.evidence import KnownAnswer
from pytest_vnc_use.recordings.format import Evidence, Live, Recording, Segment
from pytest_vnc_use.recordings.named import rename_hint
from pytest_vnc_use.recordings.rehearse import Rehearsal
from pytest_vnc_use.recordings.reviewer import ReviewedTest
from pytest_vnc_use.recordings.segment_run import SegmentRun
from pytest_vnc_use.recordings.store import AFTER, BEFORE, Key, load, save


class KeptRecording:
    """A recording that a test replays or makes: as it was when the test began, with the
    runs of its segments, and as it is written.

    Args:
        key: The test, and its file.
        recording: What is replayed; None where the test is recorded as a new one.
        circumstances: On what the test runs.
        rehearsal: Learns from the replay.
        reviewed: Has a reviewer accept what differs.
        lock: Held until the recording is written; None where no other process waits.
    """

    def __init__(
        self,
        key: Key,
        recording: Recording | None,
        circumstances: Circumstances | None = None,
        *,
        rehearsal: Rehearsal | None = None,
        reviewed: ReviewedTest | None = None,
        lock: BaseFileLock | None = None,
    ) -> None:
        former = recording
        if former is None:
            with suppress(RecordingError):  # what cannot be read is replaced
                former = load(key.path)
        self.key = key
        self.recording = recording
        self.runs: list[SegmentRun] = []
        """The runs of its segments, in order."""
        # A new recording keeps the masks of the file that it replaces.
        masks = former.masks if former else ()
        review = Review(reviewed, recording) if reviewed else None
        self.allowances = Allowances(masks, rehearsal, review)
        self.circumstances = replace(
            circumstances or Circumstances(), test=key.node_id, recording=recording
        )
        self._lock = lock
        self._text = b""
        if review and key.path.exists():
            self._text = key.path.read_bytes()

    @property
    def segments(self) -> Sequence[Segment]:
        """The recorded segments; none where the test is recorded as a new one."""
        return self.recording.segments if self.recording else ()

    def segment_of(self, task: str) -> Segment | None:
        """Return the recorded segment of the next run, if it is of this task."""
        segments = self.segments[len(self.runs) :]
        is_there = bool(segments) and segments[0].task == task
        return segments[0] if is_there else None

    def reworded(self, task: str, number: int) -> Segment | None:
        """Return the segment for the run with this number, counted from 0, if its task
        may be another text of the recorded one: no other segment has that text.
        """
        segments = self.segments[number:]
        tasks = [segment.task for segment in self.segments]
        is_other = bool(segments) and task not in tasks
        return segments[0].reworded(task) if is_other else None

    def answers(self, *, with_ends: bool) -> list[KnownAnswer]:
        """Return what was judged, each with the recorded end of its segment if those
        may still be shown.
        """
        if self.recording is None:
            return []
        answers = [
            KnownAnswer(evidence, self.allowances) for evidence in self.recording.claims
        ]
        for segment in self.segments:
            end = segment.end if with_ends else None
            for evidence in segment.evidence:
                answers.append(KnownAnswer(evidence, self.allowances, end))
        return answers

    def check_size(self, width: int, height: int) -> None:
        """Raise RecordingError if a screen of this width and height, in pixels, has
        another size than the recorded ones.
        """
        recorded = self.recording.screen_size if self.recording else None
        if recorded not in (None, (width, height)):
            raise RecordingError(
                f"{str(self.key.path)!r} was recorded on a screen of"
                f" {'x'.join(map(str, recorded))} pixels, but this one has"
                f" {width}x{height}: give the desktop that size (--vnc-screen-size), or"
                f" {AGAIN}"
            )

    def check_redaction(self, *, is_redacted: bool) -> None:
        """Raise RecordingError if its secrets are redacted, and this test's are not, or
        the other way round.
        """
        recording = self.recording
        if recording and recording.types_secrets and recording.redacts != is_redacted:
            setting = "false" if recording.redacts else "true"
            raise RecordingError(
                f"{str(self.key.path)!r} was recorded with vnc_show_secrets={setting}:"
                f" set that, or {AGAIN}"
            )

    def format_missing(self, task: str, number: int) -> str:
        """Return what is wrong where the run with this number, counted from 0, has no
        segment.
        """
        path = repr(str(self.key.path))
        if self.recording is None:
            remedy = rename_hint(self.key, task) or self.circumstances.remedy
            return f"there is no recording of {self.key.test!r} at {path}: {remedy}"
        segments = self.segments[number:]
        there = repr(segments[0].task) if segments else "nothing"
        own = ""
        if self.reworded(task, number):
            own = " if it is the same in other words, say so with --vnc-record=accept;"
        return (
            f"{path} has no recording of the task {task!r}; at this place it has"
            f" {there};{own} record the test again with --vnc-record=auto or rewrite,"
            " and a planner, or with --vnc-record=manual"
        )

    def forget(self) -> None:
        """Release the screens, and let another process make the recording."""
        if self._lock:
            self._lock.release()
        self.runs.clear()
        self.recording = None
        self.circumstances.recording = None

    def accept(self, claims: Sequence[Evidence] = ()) -> Path | None:
        """Write what a reviewer has accepted, and what they answered before the first
        run among `claims`; return the file if it changed. Raises as `store.save` does,
        and RecordingError if the file was changed meanwhile.
        """
        recording = self.recording
        review = self.allowances.review
        if recording is None or review is None:
            return None
        reviewed = [run.reviewed() for run in self.runs]
        replayed = [segment for segment in reviewed if segment]
        fields: dict[str, object] = {
            "segments": (*replayed, *recording.segments[len(replayed) :])
        }
        if any(not answer.screen.image for answer in claims):
            fields["claims"] = tuple(claims)
        accepted = review.accepted(recording.model_copy(update=fields))
        if accepted == recording:
            return None
        path = self.key.path
        if path.read_bytes() != self._text:
            raise RecordingError(
                f"{str(path)!r} has changed since this test began, so what was accepted"
                " is not written: run the test again"
            )
        return path if save(path, accepted) else None

    def write(
        self,
        claims: Sequence[Evidence] = (),
        uses: Sequence[KeptRecording] = (),
        *,
        redacts: bool,
        proposed_in: Path | None = None,
    ) -> Path | None:
        """Write the runs, the claims before them, and which named recordings the test
        uses, as `RecordedTest.write` says. Raises as `store.save` does.
        """
        runs = self.runs
        allowances = self.allowances
        results = [run.result() for run in runs]
        segments = tuple(segment for segment in results if segment)
        screens = [answer.screen for answer in claims]
        screens += [segment.end for segment in segments]
        for other in uses:
            done = [run.ended for run in other.runs]
            screens += [segment.end for segment in done if segment]
        if not screens or len(segments) < len(runs):
            return None
        height, width = screens[0].pixels().shape
        previous = self.recording
        if previous and not any(run.is_live for run in runs):
            follows = previous.after
            machine = previous.machine
        else:
            follows = self.circumstances.follows
            machine = self.circumstances.machine
        made = Recording(
            test=self.key.test,
            after=follows,
            parameters=self.key.parameters,
            secrets=self.key.secrets,
            screen_size=(width, height),
            machine=machine,
            uses=tuple(other.key.name for other in uses),
            masks=allowances.masks,
            claims=tuple(claims),
            last_segment=previous.last_segment if previous else 0,
            last_step=previous.last_step if previous else 0,
            segments=segments,
        )
        is_redacted = redacts and made.types_secrets
        made = made.model_copy(update={"redacts": is_redacted})
        if allowances.review:
            made = allowances.review.accepted(made)
        path = self.key.path
        if proposed_in:
            path = proposed_in / AFTER
        if made == previous or not save(path, made):
            return None
        if proposed_in:
            (proposed_in / BEFORE).write_bytes(self.key.path.read_bytes())
        return path


def saved_by(
    runs: Iterable[tuple[Live | None, Meter]],
) -> tuple[float, float | None] | None:
    """Return the seconds and dollars that replayed runs saved, from each run's figures
    when recorded and now.

    None for no run, or if a recording has no figures. Dollars are None if they are not
    known for each of the runs.
    """
    seconds = 0.0
    dollars: float | None = 0.0
    count = 0
    for then, now in runs:
        if then is None:
            return None
        count += 1
        seconds += then.seconds - now.seconds
        if dollars is None or then.dollars is None or now.dollars is None:
            dollars = None
        else:
            dollars += then.dollars - now.dollars
    return (seconds, dollars) if count else None
