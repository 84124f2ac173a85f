"""The draft of a recording by hand: what a user has done so far in the tasks of a test,
or at the gates of its replay, kept in the run directory of its newest run.

Whatever stops the recording leaves `draft.json` there, with the screens that it names.
It is written whole each time, once a step is finished: a text at the end may still
grow, and become a secret. It goes once the recording is written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from pytest_vnc_use import clock
from pytest_vnc_use.backends.pixels import frame_of
from pytest_vnc_use.demonstrate.gestures import DemonstratedAction
from pytest_vnc_use.demonstrate.session import FramePixels, recorded_steps
from pytest_vnc_use.errors import RunDirectoryError, SettingsError
from pytest_vnc_use.recordings.format import (
    Repeatable,
    Screen,
    dynamic_region,
)
from pytest_vnc_use.recordings.values import filled, named
from pytest_vnc_use.runs.directory import DRAFT_FILE, RunDirectory, write_atomically
from pytest_vnc_use.runs.json_lines import from_json, read_json, to_json
from pytest_vnc_use.runs.redactor import Redactor
from pytest_vnc_use.types import (
    SECRET_MARK,
    Action,
    Frame,
    FrameRef,
    KeyDown,
    KeyUp,
    MouseDown,
    MouseUp,
    Region,
    TypeText,
)
from pytest_vnc_use.types.elements import Elements

_CHANGED = (
    "An earlier recording of this test is not continued: its task {} was {!r}. Start"
    " again"
)
_NOT_REPEATED = "Step {} is not repeated: {}. Continue from there"
_NO_SECRET = "it types the secret {!r}, which this test does not declare"


@dataclass(frozen=True)
class Marked:
    """A region that a user has marked: the evidence of a claim, or the place of a value
    on the screen that followed `after` steps; without these a mask.
    """

    region: Region
    claim: str = ""
    value: str = ""
    after: int = 0


@dataclass(frozen=True)
class DoneTask:
    """What a user did in a task, what they marked, the page's answer at its end (None
    before it), and the number of its run in the test.

    In a replay, `task` is the gate at which they acted.
    """

    number: int
    task: str
    steps: Sequence[DemonstratedAction] = ()
    answer: dict[str, Any] | None = None
    marked: tuple[Marked, ...] = ()


@dataclass(frozen=True)
class _Moving:
    """A region that changes on its own. What else it showed is not kept: the screens of
    repeated steps are captured again.
    """

    region: Region
    is_caret: bool = False


@dataclass(frozen=True)
class _KeptStep:
    action: Repeatable
    elements: Elements
    screen: FrameRef
    moving: tuple[_Moving, ...] = ()


@dataclass(frozen=True)
class _KeptTask:
    number: int
    task: str
    steps: tuple[_KeptStep, ...]
    answer: dict[str, Any] | None = None
    marked: tuple[Marked, ...] = ()


@dataclass(frozen=True)
class _File:
    test: str
    kept_at: float
    tasks: tuple[_KeptTask, ...]
    in_replay: bool = False
    format: Literal["pytest-vnc-use draft"] = "pytest-vnc-use draft"
    version: Literal[1] = 1


@dataclass(frozen=True)
class Found:
    """A draft that an earlier session has left: when it was written, its tasks, the
    screen before its last step, and why it cannot be repeated to its end.
    """

    kept_at: float
    tasks: tuple[DoneTask, ...]
    png: bytes = field(repr=False)
    problem: str = ""

    @property
    def steps(self) -> int:
        """The number of steps."""
        return sum(len(task.steps) for task in self.tasks)


class Draft:
    """The draft of a test, as one attempt at its recording writes it.

    What an earlier attempt has left stays as it is until the user has repeated it, and
    does more. `in_replay` is true for what they do at the gates of a replay.
    """

    def __init__(
        self,
        runs_dir: Path,
        test: str,
        declared: Redactor,
        ambient: Redactor,
        *,
        in_replay: bool = False,
    ) -> None:
        self.in_replay = in_replay
        self._runs_dir = runs_dir
        self._test = test
        self._declared = declared
        self._ambient = ambient
        self._repeats: dict[int, DoneTask] = {}
        self._done: dict[int, DoneTask] = {}
        self._directory: RunDirectory | None = None
        self._number = 0
        self._task = ""
        self._values: Mapping[str, str] = {}
        self._kept: list[Action] = []
        self._stored: list[Path] = []
        """The screens that were stored for the draft alone."""
        self._is_closed = False
        """Whether nothing more is written: it would hold a secret, or was discarded."""
        self.marked: tuple[Marked, ...] = ()
        """What the user has marked in the task that is done."""
        self.count = 0
        """The number of steps that are kept."""
        self.problem = ""
        """Why what was kept is not repeated, or not all of it; "" if it is."""

    def find(self) -> Found | None:
        """Return the newest draft of the test that an earlier session has left; None
        without one that can be read.
        """
        for path in _drafts_of(self._runs_dir, self._test):
            with suppress(RunDirectoryError):
                file: _File = from_json(_File, read_json(path, "a draft"))
                if file.in_replay != self.in_replay:
                    continue
                found = self._read(file, RunDirectory(path.parent))
                return found if found.steps else None
        return None

    def repeat(self, tasks: Sequence[DoneTask], problem: str = "") -> None:
        """Have these tasks repeated, each when it begins."""
        self._repeats = {task.number: task for task in tasks}
        self.problem = problem

    def begin(self, run_dir: Path, number: int) -> None:
        """Note the run of the task that begins, and its number in the test."""
        self._directory = RunDirectory(run_dir)
        self._number = number
        self._kept = []
        self.marked = ()

    def begin_at(self, run_dir: Path, gate: str) -> None:
        """Note the run of the replay that waits at a gate."""
        numbers = {task.task: number for number, task in self._known.items()}
        new = max(self._known, default=0) + 1
        self.begin(run_dir, numbers.get(gate, new))

    @property
    def _known(self) -> dict[int, DoneTask]:
        """What was done, and what is repeated, by its number."""
        return {**self._repeats, **self._done}

    def is_due(self, gate: str) -> bool:
        """Return whether steps at a gate of a replay are still to be repeated."""
        for number, task in self._repeats.items():
            if task.task == gate:
                return number not in self._done
        return False

    def due(self, task: str, values: Mapping[str, str] | None = None) -> DoneTask:
        """Return what is repeated of the task that begins, with its values now.

        Where the test has another task there now, it and all after it are not repeated.
        """
        self._task = task
        self._values = values or {}
        new = DoneTask(self._number, task)
        is_new = self.in_replay and self._number not in self._repeats
        if is_new or not self._repeats:
            return new
        due = self._repeats.get(self._number) or self._next()
        if (due.number, due.task) == (self._number, task):
            self.marked = due.marked
            steps = []
            for step in due.steps:
                action = filled(step.action, self._values)
                steps.append(replace(step, action=action))
            return replace(due, steps=tuple(steps))
        self.problem = _CHANGED.format(due.number, due.task)
        self._repeats = {
            number: earlier
            for number, earlier in self._repeats.items()
            if number < self._number
        }
        return new

    def _next(self) -> DoneTask:
        """Return the next task that was kept, or the last."""
        later = [number for number in self._repeats if number > self._number]
        return self._repeats[min(later, default=max(self._repeats))]

    def mark(self, marked: tuple[Marked, ...]) -> None:
        """Note what the user has marked. It is written with the next step, or the
        end.
        """
        self.marked = marked
        self._kept = []

    def note_repeated(self, steps: Sequence[DemonstratedAction]) -> None:
        """Note what was repeated: it is in a draft already."""
        self._kept = [step.action for step in steps]

    def keep(self, steps: Sequence[DemonstratedAction]) -> None:
        """Write the finished steps of the task that is done, if there are new ones.
        Raises RunDirectoryUnwritable.
        """
        finished = _finished(steps)
        actions = [step.action for step in finished]
        if actions and actions != self._kept:
            self._kept = actions
            self._write(finished, None)

    def end(self, steps: Sequence[DemonstratedAction], answer: dict[str, Any]) -> None:
        """Write the task, which has ended with the page's answer. Raises
        RunDirectoryUnwritable.
        """
        self._write(steps, answer)

    def undone(
        self, steps: Sequence[DemonstratedAction], keep: int
    ) -> Sequence[DoneTask]:
        """Keep only the first steps of the task that is done; return what the next
        attempt repeats. Raises RunDirectoryUnwritable.
        """
        self._write(_without_held(steps[:keep]), None)
        return tuple(self._tasks())

    def discard(self) -> None:
        """Remove all drafts of the test, and the screens that were stored for it."""
        remove(self._runs_dir, self._test)
        for screen in self._stored:
            screen.unlink(missing_ok=True)
        self.count = 0
        self._is_closed = True

    def _tasks(self) -> Iterator[DoneTask]:
        """Yield what was done, and what is to be repeated later, in order."""
        tasks = self._known
        for number in sorted(tasks):
            if number in self._done or number > self._number:
                yield tasks[number]

    def _write(
        self, steps: Sequence[DemonstratedAction], answer: dict[str, Any] | None
    ) -> None:
        # The next attempt, or session, may have other values.
        named_steps = tuple(
            replace(step, action=named(step.action, self._values)) for step in steps
        )
        self._done[self._number] = DoneTask(
            self._number, self._task, named_steps, answer, self.marked
        )
        if self._is_closed or self._directory is None:
            return
        try:
            tasks = tuple(map(self._kept_task, self._tasks()))
        except SettingsError:  # the end of the task reports it
            self._is_closed = True
            return
        content = _File(self._test, clock.epoch(), tasks, self.in_replay)
        target = self._directory.path / DRAFT_FILE
        is_first = not target.exists()
        text = json.dumps(to_json(content), ensure_ascii=False)
        write_atomically(target, text.encode("utf-8", "replace"))
        self.count = sum(len(task.steps) for task in tasks)
        if is_first:
            remove(self._runs_dir, self._test, but=target)

    def _kept_task(self, done: DoneTask) -> _KeptTask:
        """Store the screens of a task; return it without secrets. Raises SettingsError
        where one would be written.
        """
        finished = done.steps if done.answer else _finished(done.steps)
        actions = map(replace, finished)
        steps = []
        for step in recorded_steps(actions, self._declared, self._ambient):
            ref = self._store(_frame_of(step.screen))
            moving = []
            for part in step.screen.dynamic:
                moving.append(_Moving(part.region, part.kind == "caret"))
            steps.append(_KeptStep(step.action, step.elements, ref, tuple(moving)))
        answer = done.answer and self._hidden(done.answer)
        marked = tuple(
            replace(mark, claim=self._hide(mark.claim)) for mark in done.marked
        )
        return _KeptTask(done.number, done.task, tuple(steps), answer, marked)

    def _store(self, frame: Frame) -> FrameRef:
        assert self._directory, "a task has begun"
        screen = self._directory.path / "screens" / f"{frame.ref.digest}.png"
        if not screen.exists():
            self._stored.append(screen)
        return self._directory.store(frame)

    def _hidden(self, answer: Mapping[str, Any]) -> dict[str, Any]:
        """Return the page's answer without secrets in what the user can write."""
        hide = self._hide
        hidden: dict[str, Any] = {}
        for key in ("type", "kind", "is_done", "masks", "values", "until", "stop"):
            if key in answer:
                hidden[key] = answer[key]
        verdicts = answer.get("verdicts", {})
        hidden["verdicts"] = {
            hide(claim): hide(text) for claim, text in verdicts.items()
        }
        regions = answer.get("regions", {})
        hidden["regions"] = {hide(claim): box for claim, box in regions.items()}
        return hidden

    def _hide(self, text: object) -> str:
        """Return a text without secrets."""
        declared = self._declared.hide(str(text))
        return self._ambient.hide(declared)

    def _read(self, file: _File, directory: RunDirectory) -> Found:
        """Return a draft with its screens, which are in a directory."""
        tasks = []
        problem = ""
        png = b""
        for kept in file.tasks:
            if problem:
                break
            steps: list[DemonstratedAction] = []
            for step in kept.steps:
                try:
                    action = self._revealed(step.action)
                    png = directory.load_png(step.screen)
                except (SettingsError, RunDirectoryError) as exc:
                    problem = _NOT_REPEATED.format(len(steps) + 1, exc)
                    break
                screen = _screen_of(Frame(step.screen, png), step.moving)
                steps.append(DemonstratedAction(action, screen, step.elements))
            answer = kept.answer or {}
            # the user answers the last one again: its end may differ from today's
            is_final = kept is not file.tasks[-1]
            is_answered = bool(answer and is_final and not problem)
            task = DoneTask(
                kept.number,
                kept.task,
                _without_held(steps),
                answer if is_answered else None,
                kept.marked,
            )
            tasks.append(task)
        return Found(file.kept_at, tuple(tasks), png, problem)

    def _revealed(self, action: Action) -> Action:
        """Return an action with the values of its secrets. Raises SettingsError for one
        that the test does not declare.
        """
        if not isinstance(action, TypeText):
            return action
        text = self._declared.reveal(action.text)
        if missing := SECRET_MARK.search(text):
            raise SettingsError(_NO_SECRET.format(missing[1]))
        return replace(action, text=text)


def _frame_of(screen: Screen) -> Frame:
    """Return the frame of a screen, without encoding it if this session has seen it."""
    pixels = screen.pixels
    if isinstance(pixels, FramePixels):
        return pixels.frame
    return frame_of(pixels())


def _screen_of(frame: Frame, moving: Sequence[_Moving]) -> Screen:
    parts = []
    for part in moving:
        if part.is_caret:
            parts.append(dynamic_region(part.region, "caret"))
        else:
            parts.append(dynamic_region(part.region, "always_changing"))
    return Screen(dynamic=tuple(parts), pixels=FramePixels(frame))


def _finished(steps: Sequence[DemonstratedAction]) -> Sequence[DemonstratedAction]:
    """Return the steps but for texts at the end: they may grow, and become a secret."""
    count = len(steps)
    while count and isinstance(steps[count - 1].action, TypeText):
        count -= 1
    return steps[:count]


def _without_held(
    steps: Sequence[DemonstratedAction],
) -> Sequence[DemonstratedAction]:
    """Return the steps up to where a key or a button went down that none of them
    releases: it would stay down.
    """
    held: dict[str, int] = {}
    for number, step in enumerate(steps):
        match step.action:
            case KeyDown(key):
                held[key] = number
            case KeyUp(key):
                held.pop(key, None)
            case MouseDown(button=button):
                held[f"button {button}"] = number
            case MouseUp(button=button):
                held.pop(f"button {button}", None)
    return steps[: min(held.values(), default=len(steps))]


def _drafts_of(runs_dir: Path, test: str) -> Iterator[Path]:
    """Yield the drafts of a test, the newest first."""
    for path in sorted(runs_dir.glob(f"*/{DRAFT_FILE}"), reverse=True):
        with suppress(RunDirectoryError, OSError):
            content = read_json(path, "a draft")
            if isinstance(content, dict) and content.get("test") == test:
                yield path


def format_kept(runs_dir: Path, test: str) -> str:
    """Return what is kept of a test, and how to continue; "" without a draft."""
    for path in _drafts_of(runs_dir, test):
        with suppress(RunDirectoryError):
            file: _File = from_json(_File, read_json(path, "a draft"))
            count = sum(len(task.steps) for task in file.tasks)
            return text_of_kept(count, in_replay=file.in_replay)
    return ""


def text_of_kept(count: int, *, in_replay: bool) -> str:
    """Return how to continue a draft of `count` steps; "" for none."""
    if not count:
        return ""
    kept, them = ("step is", "it") if count == 1 else ("steps are", "them")
    how = "run this test with --vnc-record=manual again"
    if in_replay:
        how = "edit the recording again"
    return f"{count} {kept} kept: {how} to continue {them}"


def remove(runs_dir: Path, test: str, but: Path | None = None) -> None:
    """Remove all drafts of a test, or all but one."""
    for path in _drafts_of(runs_dir, test):
        if path != but:
            path.unlink(missing_ok=True)
