"""What follows when a gate stays closed: a reviewer is asked, or an error says what can
be done, and what explains the drift beside the screen.

A reviewer may accept the screen or mask what differs, call it a bug, continue by hand,
or have a model continue. Without a reviewer, the live planner continues in the modes
`auto` and `rewrite`, and no one else does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from typing_extensions import assert_never

from pytest_vnc_use.errors import ProductFailed, RecordingDrifted, TaskFailed
from pytest_vnc_use.plain_text import line
from pytest_vnc_use.recordings import RECORD_IT
from pytest_vnc_use.recordings.course import Course
from pytest_vnc_use.recordings.drift import (
    RECORDED_TOO_EARLY,
    WAIT_LONGER,
    machine_of,
    offered_masks,
    other_machine,
    places_of_value,
    remedies,
)
from pytest_vnc_use.recordings.format import Recording
from pytest_vnc_use.recordings.gates import Mismatch
from pytest_vnc_use.recordings.images import Pixels, pixels_in
from pytest_vnc_use.recordings.life import (
    CLOSED,
    GateClosed,
    ReviewerAnswered,
    State,
)
from pytest_vnc_use.recordings.manual import ReplayUser
from pytest_vnc_use.recordings.masks import format_offer, mask_command
from pytest_vnc_use.recordings.names import name_in
from pytest_vnc_use.recordings.values import values_typed
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.triage import format_program_state
from pytest_vnc_use.types import Frame, FrameRef
from pytest_vnc_use.types.protocols import Controller, Desktop, Planner


@dataclass(eq=False)
class Circumstances:
    """What explains a drift, beside the screen.

    Args:
        desktop: Where the test runs, and what draws its screens.
        settings: How that desktop was started.
        follows: The test that had the shared desktop before; "" for none.
        test: The node id of the test.
        recording: The test's recording; None if there is none.
        remedy: What can be done if there is none.
    """

    desktop: Desktop | None = None
    settings: Settings | None = None
    follows: str = ""
    test: str = ""
    recording: Recording | None = None
    remedy: str = RECORD_IT

    @cached_property
    def machine(self) -> dict[str, str]:
        """What draws the screens here, by its name; empty where that is unknown."""
        if self.desktop is None or self.settings is None:
            return {}
        return machine_of(self.desktop, self.settings)

    @property
    def name(self) -> str:
        """The name of the recording, if several tests share it; else ""."""
        return name_in(self.recording.test) if self.recording else ""

    @property
    def unlike(self) -> str:
        """Why the desktop begins in another state than the recording; "" if nothing is
        known to. Then nothing is healed on the first screen.
        """
        after = self.recording.after if self.recording else ""
        if after in ("", self.follows):
            return ""
        now = "this desktop is fresh"
        if self.follows:
            now = f"this desktop had {self.follows} before"
        order = (
            f"Run {after} before it (--vnc-scope), or record it as it begins here"
            " (--vnc-record=rewrite)."
        )
        return f"The test was recorded after {after}, but {now}. {order} "

    def explain(self, problem: str, mismatch: Mismatch) -> str:
        """Return the message of a drift; first how this machine differs from the
        recording's, where it does.

        If nothing changed after a step, or there is no window, it says at its end
        whether the program still runs.
        """
        if mismatch.kind in ("unchanged", "no_window"):
            state = format_program_state(self.desktop)
            problem = f"{problem}; {state}" if state else problem
        differs = ""
        if self.recording:
            differs = other_machine(self.recording.machine, self.machine)
        return f"{differs} {problem}" if differs else problem


class ClosedGates:
    """What follows when a gate of a course stays closed.

    Args:
        course: Where the replay is.
        circumstances: What explains a drift.
        planner: May continue, where there is no reviewer or the reviewer asks for it;
            None for none.
    """

    def __init__(
        self, course: Course, circumstances: Circumstances, planner: Planner | None
    ) -> None:
        self._course = course
        self._circumstances = circumstances
        self._planner = planner
        # What a model did with other values would take the place of regions that a user
        # has stated. A reviewer may have a model continue from any screen.
        continues_alone = not course.allowances.review and not course.other_values
        self.live = planner if continues_alone else None
        """The planner that continues at the next closed gate; None for none."""
        self._bug = ""
        """The reviewer's text about a bug."""
        self._moved = ""
        """Which target of the newest screen has moved, so that it cannot be accepted; ""
        if none has.
        """
        self._unasked = ""
        """Why no user could be asked about the newest screen; "" if that was
        possible.
        """

    @property
    def _was_recorded_too_early(self) -> bool:
        """Whether a rehearsal saw the first screen as recorded, and then another one."""
        position = self._course.position
        is_rehearsed = self._course.allowances.rehearsal is not None
        return is_rehearsed and position.gate.is_first and position.opened_at > 0

    def close(self, mismatch: Mismatch, seen: FrameRef) -> str:
        """Announce a drift, let the live planner take over, and return the message.

        The segment is then drifted, a bug, or with the planner.
        """
        course = self._course
        gate = course.position.gate
        message = self.message(mismatch)
        is_unlike = gate.is_first and bool(self._circumstances.unlike)
        is_allowed = not is_unlike or course.allowances.review is not None
        is_healed = self.live is not None and is_allowed
        if course.life.state not in CLOSED:
            course.life.move(State.DRIFTED)
        course.life.announce(GateClosed(gate, mismatch, message, seen, is_healed))
        if is_healed:
            course.life.move(State.BY_MODEL)
        return message

    def close_end(self, mismatch: Mismatch, seen: FrameRef) -> str:
        """Announce a drift after the task was done, and return the message."""
        course = self._course
        message = f"{self.message(mismatch)}; the screen did not stay as recorded"
        if course.life.state not in CLOSED:
            course.life.move(State.DRIFTED)
        gate = course.position.gate
        course.life.announce(GateClosed(gate, mismatch, message, seen))
        return message

    def message(self, mismatch: Mismatch) -> str:
        """Return the message of a drift, in one line."""
        location = self._course.location
        problem = mismatch.problem
        drift = "drift"
        if name := self._circumstances.name:
            drift = f"drift in {name!r}"
        # pytest's summary shows the start of the line only
        match mismatch.kind:
            case "difference" | "variants" | "no_window":
                text = f"{drift} {location}: {problem}"
            case "recoloured":
                text = f"{drift}: {problem}, {location}"
            case "unchanged":
                text = f"{drift}: {problem}"
        if self._course.position.gate.is_first:
            text = f"{self._circumstances.unlike}{text}"
            if self._was_recorded_too_early:
                text = f"{text}, after it was as recorded"
        if waited_s := self._course.position.longer_wait_s:
            took_s = self._course.appeared_s
            text = f"{text} (waited {waited_s:.0f} s: recorded after {took_s:.0f} s)"
        return self._circumstances.explain(text, mismatch)

    def error(
        self, message: str, mismatch: Mismatch, seen: Pixels, *, performed: bool = True
    ) -> TaskFailed:
        """Return the error for a drift: the reviewer's text where it is a bug, else a
        line for each remedy.
        """
        course = self._course
        message += f"\n  task: {line(course.segment.task)}"
        if course.life.has_been(State.BUG):
            bug = self._bug or "it is a bug"
            return ProductFailed(f"{bug} (according to the reviewer)\n{message}")
        gate = course.position.gate
        masks = offered_masks(mismatch, gate, seen, course.due_at)
        lines = []
        if self._was_recorded_too_early:
            lines.append(RECORDED_TOO_EARLY)
        was_at_once = course.number == 1 and not course.first_stays_s
        lines += remedies(
            mismatch,
            gate,
            seen,
            course.segment,
            acted_on=course.acted_on,
            masks=masks,
            moved=self._moved,
            unasked=self._unasked,
            may_heal=not course.other_values,
            was_at_once=was_at_once,
        )
        if others := course.other_values:
            are = "; ".join(f"{name} is {what}" for name, what in others.items())
            lines.append(
                f"{are}: if the screen shows a value there, say so with"
                " --vnc-record=accept. No model continues with other values."
            )
        recording = self._circumstances.recording
        test = self._circumstances.test
        places = places_of_value(mismatch, gate, seen, course.due_at)
        if others and masks and places and recording:
            lines.append("Or, for the value that it shows:")
            done = course.segment.steps[: course.number]
            for name in values_typed(others, done):
                command = mask_command(test, places, course.screen.gate, name)
                lines.append(f"  {command}")
        if name := self._circumstances.name:
            lines.append(f"Record {name!r} again: --vnc-rerecord={name} beside that.")
        if masks and recording:
            lines += format_offer(recording, masks, course.screen.gate, test)
        if course.position.longer_wait_s and WAIT_LONGER not in lines:
            lines.append(WAIT_LONGER)
        rehearsal = course.allowances.rehearsal
        if rehearsal:
            rehearsal.remedies = lines
        if rehearsal and was_at_once:
            rehearsal.note_unready(course.segment.screens[0])
        drift = RecordingDrifted("\n".join([message, *lines]))
        drift.at_end = course.due is None and performed
        return drift

    def ask_reviewer(self, mismatch: Mismatch | None, desktop: Controller) -> bool:
        """Have a user act who wants the replay to stop here, or have a difference from
        the gate reviewed, where that can be asked; return whether to look again. Raises
        DesktopError, SettingsError.
        """
        course = self._course
        review = course.allowances.review
        life = course.life
        if review is None:
            return False
        user = review.test.user
        if user and self._stop(user, desktop):
            return True
        if mismatch is None or not mismatch.boxes:
            return False
        if life.state is State.BUG:
            return False
        if life.state is not State.DRIFTED:
            life.move(State.DRIFTED)
        position = course.position
        position.mismatch = mismatch
        answer = review.ask(
            position.gate,
            position.frame or desktop.frame(),
            replace(mismatch, problem=self.message(mismatch)),
            course.segment,
            course.number,
            values=course.other_values,
            is_over=life.has_been(State.FINISHED),
        )
        self._moved = answer.moved
        answered = ReviewerAnswered(answer.kind, answer.text)
        if answer.kind == "hand" and user:
            answered = self._continue_by_hand(user, desktop)
        elif answer.kind == "model" and self._planner:
            self.live = self._planner
            steps = f"{self.live.name} continued {course.location}"
            answered = ReviewerAnswered("model", steps=steps)
        life.announce(answered)
        match answered.kind:
            case "accept" | "mask" | "mask_gate" | "value":
                life.move(State.ACCEPTED)
                course.remake()
                course.position.look_again()
                return True
            case "hand":
                life.move(State.BY_USER)
                return True
            case "bug":
                self._bug = answered.text
                life.move(State.BUG)
            case "no":
                self._unasked = answered.text
            case "model":
                pass
            case _:
                assert_never(answered.kind)
        return False

    def _stop(self, user: ReplayUser, desktop: Controller) -> bool:
        """Have the user act at a gate, if they want the replay to stop there; return
        whether they were asked.
        """
        course = self._course
        if course.life.state is not State.WAITING:
            return False
        if not user.stops_before(course.screen):
            return False
        answered = self._continue_by_hand(user, desktop)
        if answered.kind == "hand":
            course.life.announce(answered)
        course.life.move(State.BY_USER)
        course.position.look_again()
        return True

    def _continue_by_hand(
        self, user: ReplayUser, desktop: Controller
    ) -> ReviewerAnswered:
        """Have the user perform steps, which replace recorded ones up to the location
        that they want, or else to the one whose screen is then shown.

        Where none or several are shown, they choose. Return what came of it. Raises
        DesktopError, SettingsError.
        """
        course = self._course
        due = course.locations()
        by_hand = user.take_over(course.segment.task, due, desktop)
        desktop.transient_frames()  # what passed meanwhile, the user saw
        course.position.frame = None
        course.position.opening = None
        if isinstance(by_hand, str):
            return ReviewerAnswered("no", by_hand)
        until = by_hand.until
        if until is None:
            until = self._continues_at(user, desktop.frame())
        if until not in due:
            return ReviewerAnswered(
                "no", "it was not chosen where the recording continues"
            )
        number = course.number
        count = len(by_hand.done.steps)
        course.replace_steps(until, by_hand.done.steps)
        steps = ""
        if count or until > number:
            replaced = f"{until - number} recorded from step {number + 1}"
            steps = f"{count} by hand for {replaced}"
        return ReviewerAnswered("hand", steps=steps)

    def _continues_at(self, user: ReplayUser, now: Frame) -> int | None:
        """Return the number of steps after which the recording continues; None if that
        was not chosen.
        """
        due = self._course.locations()
        seen = pixels_in(now)
        choices = {
            number: location
            for number, location in due.items()
            if self._course.is_open(number, seen)
        }
        if len(choices) == 1:
            return next(iter(choices))
        title = "The screen is not as recorded anywhere"
        if choices:
            title = "Several recorded screens are shown"
        return user.choose(title, now, choices or due)
