"""Recording on the page: a user's input from there becomes the steps of a manual run,
their answers its verdicts.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from pytest_vnc_use import clock
from pytest_vnc_use.agent import leasing
from pytest_vnc_use.agent.act import around, no_elements
from pytest_vnc_use.backends.pixels import Pixels, boxes_of, encode_png, pixels_in
from pytest_vnc_use.backends.screen import Framebuffer
from pytest_vnc_use.backends.typed_secrets import RedactingController
from pytest_vnc_use.deadline import uncounted
from pytest_vnc_use.demonstrate.draft import DoneTask, Draft, Marked, text_of_kept
from pytest_vnc_use.demonstrate.gestures import DemonstratedAction, Motion
from pytest_vnc_use.demonstrate.session import INEXACT, ManualSession, recorded_steps
from pytest_vnc_use.errors import (
    ActionError,
    Inconclusive,
    ProductFailed,
    RunDirectoryUnwritable,
    SettingsError,
)
from pytest_vnc_use.plain_text import count_of
from pytest_vnc_use.recordings.format import MANUAL, Screen, Segment
from pytest_vnc_use.recordings.manual import ByHand, Locations
from pytest_vnc_use.recordings.masks import with_value
from pytest_vnc_use.recordings.moving import stable_screen
from pytest_vnc_use.recordings.store import Key
from pytest_vnc_use.recordings.values import named
from pytest_vnc_use.runs.redactor import Redactor
from pytest_vnc_use.runs.transcript import format_caption
from pytest_vnc_use.types import (
    Frame,
    KeyDown,
    KeyUp,
    MouseDown,
    MouseUp,
    Move,
    Region,
    Report,
    Scroll,
    TypeText,
    Verdict,
)
from pytest_vnc_use.types.actions import points
from pytest_vnc_use.types.elements import ElementsOf
from pytest_vnc_use.types.keys import key_of, parse_key
from pytest_vnc_use.types.protocols import Controller
from pytest_vnc_use.types.values import fill, value_names
from pytest_vnc_use.types.verdicts import USER_VERDICT, end_state_claim
from pytest_vnc_use.ui.corrections import Corrections
from pytest_vnc_use.ui.link import (
    Link,
    Watcher,
    base64_of,
    corners_of,
    region_of,
)

NOT_RECORDED = "{}, so nothing is recorded"
NOT_DONE = NOT_RECORDED.format("the user answered that the task is not done")
NOT_HOLDING = NOT_RECORDED.format("the user answered that the claim does not hold")
_LEFT = (
    "{} by hand came to nothing, and their effect is still on the screen, so the replay"
    " ends here and nothing is written: {}. Replay the test again"
)
_CORRECTED = (
    "the text of a claim was corrected, so nothing is recorded yet: {}. Then run this"
    " test with --vnc-record=manual again, and continue the draft"
)


class PageUser:
    """The user at the page, who does the tasks of a test by hand, and is its Judge.

    `secrets` are those that the test declares and that may be typed; `ambient` hides
    all others. With `asks_claims` the user may write claims, which `claims` has then.
    """

    def __init__(
        self,
        link: Link,
        test: str,
        *,
        secrets: Mapping[str, str],
        ambient: Redactor,
        elements_of: ElementsOf = no_elements,
        asks_claims: bool = False,
        notice: str = "",
    ) -> None:
        self._link = link
        self._test = test
        self._secrets = secrets
        self._declared = Redactor(secrets)
        self._ambient = ambient
        self._elements_of = elements_of
        self._asks_claims = asks_claims
        self._notice = notice
        self._verdicts: dict[str, tuple[str, Region | None]] = {}
        """The user's verdicts that the judge has not returned yet, by the claim: each
        with where they see it.
        """
        self.claims: tuple[str, ...] = ()
        self.masks: tuple[Region, ...] = ()
        """What the user drew in the newest task, to be masked."""
        self.no_undo = "no test is run again here"
        """Why the user cannot undo a step; "" if they can."""
        self.undone: Sequence[DoneTask] | None = None
        """What the next attempt repeats, once the user has undone a step."""
        self.draft: Draft | None = None
        """The draft of the test, if one is kept."""
        self.corrections: Corrections | None = None
        """The claims in the test's file, if they may be corrected."""
        self._values: Mapping[str, str] = {}
        """The values of the newest task that is recorded by hand."""
        self._recording = ""
        """The name of the recording that is replayed; "" for the test's own."""
        self._shown = _ShownSteps()

    def record(
        self,
        task: str,
        claims: Sequence[str],
        controller: Controller,
        watcher: Watcher,
        values: Mapping[str, str] | None = None,
    ) -> Segment | str:
        """Let the user do the task; return what they did, or why nothing is recorded (a
        `PerformByHand`, recordings/manual.py).

        `watcher` shows the screen. Raises DesktopError, and SettingsError where what
        was done cannot be recorded.
        """
        values = values or {}
        self._values = {name: values[name] for name in value_names(task)}
        filled_task = fill(task, values)
        shown = [self._hide(fill(claim, values)) for claim in claims]
        draft = self.draft
        due = DoneTask(1, task)
        notices = [self._notice]
        if draft:
            due = draft.due(self._hide(task), self._values)
            notices.append(draft.problem)
        if not _is_answered(due, shown):
            due = replace(due, answer=None)
        places = {}
        if self.corrections:
            for claim, text in zip(claims, shown, strict=True):
                places[text] = self.corrections.place_of(self._hide(claim))
        facts = {
            "notice": ". ".join(filter(None, notices)),
            "claims": shown,
            "asks_claims": self._asks_claims,
            "no_undo": self.no_undo,
            "has_draft": draft is not None,
            "places": places,
        }
        answer, steps, end = self._session(filled_task, controller, watcher, due, facts)
        kind = answer["kind"]
        if draft and kind == "undo":
            keep = int(answer.get("keep", len(steps) - 1))
            self.undone = draft.undone(steps, keep)
            return "a step was undone"
        if draft and kind == "discard":
            draft.discard()
            self._send_draft()
        elif draft and kind == "done":
            draft.end(steps, answer)
            self._send_draft()
        if kind != "done" or answer.get("is_done") == "fails":
            why = answer.get("text")
            return NOT_RECORDED.format(why) if why else NOT_DONE
        self._check_corrected(answer)
        self._keep(filled_task, answer)
        recorded = self._recorded(task, steps, end)
        for sent in answer.get("values", ()):
            mark = _marked(sent)
            # it was marked on the screen before the step that followed
            later = [step.screen for step in steps[mark.after :] if step.screen]
            screen = later[0] if later else end
            recorded = with_value(recorded, mark.value, mark.region, screen)
        return recorded

    def _check_corrected(self, answer: Mapping[str, Any]) -> None:
        """Raise SettingsError, which states how the test must read, if the user has
        corrected the text of a claim.
        """
        if not self.corrections:
            return
        texts = []
        for claim, new in answer.get("corrected", {}).items():
            texts.append(self.corrections.format(claim, new))
        if texts:
            raise SettingsError(_CORRECTED.format("; ".join(texts)))

    def keep_draft(self, runs_dir: Path, *, in_replay: bool = False) -> Draft:
        """Keep what the user does as a draft of the test's recording; return it."""
        self.draft = Draft(
            runs_dir,
            self._test,
            self._declared,
            self._ambient,
            in_replay=in_replay,
        )
        return self.draft

    def _keep_draft(self, actions: Sequence[DemonstratedAction]) -> None:
        """Keep what was done so far as a draft, and show on the page whether it is."""
        if self.draft is None:
            return
        before = self.draft.count
        try:
            self.draft.keep(actions)
        except RunDirectoryUnwritable as exc:
            self._notify(f"what you do is not kept as a draft: {exc}")
        if self.draft.count != before:
            self._send_draft()

    def _send_draft(self) -> None:
        text = ""
        if draft := self.draft:
            text = text_of_kept(draft.count, in_replay=draft.in_replay)
        self._link.send(type="test", test=self._test, draft=text)

    def take_over(
        self, task: str, due: Locations, controller: Controller, watcher: Watcher
    ) -> ByHand | str:
        """Let the user act in a replay that waits at a gate; return what they did and
        where it continues, or why they did nothing.

        `due` are the locations that are left. Raises as `record` does.
        """
        facts = {
            "notice": "",
            "claims": [],
            "asks_claims": False,
            "no_undo": self.no_undo,
            "by_hand": self._facts_of(due),
        }
        draft = self.draft
        assert draft, "a replay has one"
        _, screen = next(iter(due.values()))
        former = draft.due(self.gate_name(screen))
        answer, steps, end = self._session(task, controller, watcher, former, facts)
        if answer["kind"] == "undo":
            self.undone = draft.undone(steps, int(answer["keep"]))
            return "a step was undone"
        if answer["kind"] != "done":
            why = str(answer.get("text", "")) or "it was not continued by hand"
            if steps:
                raise Inconclusive(_LEFT.format(count_of(len(steps), "step"), why))
            return why
        draft.end(steps, answer)
        self._send_draft()
        stop = answer.get("stop")
        if stop:
            self._link.stop_before(self._test, str(stop))
        until = answer.get("until")
        if until is not None:
            until = int(until)
        return ByHand(self._recorded(task, steps, end), until)

    def choose(self, title: str, now: Frame, choices: Locations) -> int | None:
        """Have the user choose where a recording continues from the screen now; return
        the number of the choice, None for none.
        """
        with uncounted():
            answer = self._link.put_question(
                about="choice",
                test=self._test,
                title=title,
                now=base64_of(now.png),
                choices=self._facts_of(choices),
            )
        kind = str(answer["kind"])
        return int(kind) if kind.isdecimal() else None

    def _facts_of(self, locations: Locations) -> list[dict[str, Any]]:
        """Return what the page shows of locations in a replay."""
        facts = []
        for number, (name, screen) in locations.items():
            fact = {
                "number": number,
                "text": self._hide(name),
                "gate": self.gate_name(screen),
                "image": base64_of(encode_png(screen.pixels())),
            }
            facts.append(fact)
        return facts

    def gate_name(self, screen: Screen) -> str:
        """Return the name of a gate of what is replayed: `s7`, or `sign_in/s7` in a
        named recording.
        """
        return f"{self._recording}/{screen.gate}" if self._recording else screen.gate

    def show(self, key: Key, segment: Segment) -> None:
        """Show the recorded steps of a replay that begins."""
        self._recording = key.name
        captions = [
            format_caption(step.action, step.elements) for step in segment.steps
        ]
        names = [*captions, "the end"]
        plan = []
        for name, screen in zip(names, segment.screens, strict=True):
            step = {
                "gate": self.gate_name(screen),
                "text": self._hide(name),
                "image": base64_of(key.path.with_name(screen.image).read_bytes()),
            }
            plan.append(step)
        self._link.send(type="test", test=self._test, plan=plan)

    def stops_before(self, screen: Screen) -> bool:
        """Return whether the user wants to act once a recorded screen is shown."""
        gate = self.gate_name(screen)
        is_wanted = self._link.take_stop(self._test, gate)
        return is_wanted or bool(self.draft and self.draft.is_due(gate))

    def _recorded(
        self, task: str, steps: Sequence[DemonstratedAction], end: Screen
    ) -> Segment:
        recorded = recorded_steps(steps, self._declared, self._ambient)
        return Segment(task=task, planner=MANUAL, steps=recorded, end=end)

    def _session(
        self,
        task: str,
        controller: Controller,
        watcher: Watcher,
        due: DoneTask,
        facts: Mapping[str, Any],
    ) -> tuple[dict[str, Any], list[DemonstratedAction], Screen]:
        """Have the page show the desktop, with these facts, and take its input; return
        its answer, the steps and the screen then.

        First repeat what is `due`; if that was all of a task, it has an answer.
        """
        desktop = leasing.vnc_behind(controller)
        redacting: RedactingController | None = None
        if isinstance(controller, RedactingController):
            redacting = controller.over(desktop)
        session = ManualSession(
            desktop,
            self._notify,
            self._elements_of,
            redacting,
            self._show_steps,
            self._keep_draft,
        )
        screen: Framebuffer | _RedactedScreen = desktop.screen
        if isinstance(controller, RedactingController):
            shown = controller.over(desktop)
            screen = _RedactedScreen(shown, session.lock, desktop.screen)
        steps = session.demonstration.steps
        self._shown = _ShownSteps(steps, facts["notice"])
        size = desktop.size
        inbox = _Inbox(session, size, self._secrets, self._notify, watcher.hurry)
        if self.draft:
            inbox.on_marked = self.draft.mark
        stable_screen(desktop)  # so that moving parts are known from the start
        question = {
            "about": "record",
            "test": self._test,
            "task": self._hide(task),
            "secrets": sorted(self._secrets),
            "values": dict(self._values),
            "steps": [],
            "crops": {},
            "marked": [_facts_of_mark(mark) for mark in due.marked],
            **facts,
        }
        with (
            _watching(watcher, screen),
            self._link.asking(inbox.receive, **question) as question_id,
        ):
            self._shown.question = question_id
            if due.steps:
                self._repeat(due, session, inbox, facts["notice"])
            try:
                end = session.run()
            finally:  # after Ctrl-C too
                self._keep_draft(steps)
        return inbox.answer, steps, end

    def _repeat(
        self, due: DoneTask, session: ManualSession, inbox: _Inbox, notice: str
    ) -> None:
        """Repeat the steps of a task, and answer as the user did at its end. The page
        shows the notice once all were repeated.
        """
        inbox.is_closed = True
        count = count_of(len(due.steps), "step")
        self._update_page(f"repeating {count} on a fresh desktop")
        masks = [mark.region for mark in due.marked if not mark.claim]
        is_repeated = session.repeat(due.steps, tuple(masks))
        inbox.is_closed = False
        if self.draft:
            self.draft.note_repeated(session.demonstration.steps)
        if not is_repeated:
            return
        self._update_page(notice)
        if due.answer:
            inbox.receive(due.answer)

    def _show_steps(self, steps: Sequence[DemonstratedAction]) -> None:
        captions = [self._caption(step) for step in steps]
        if captions != self._shown.captions:
            self._shown.captions = captions
            self._update_page(self._shown.notice)

    def _notify(self, problem: str) -> None:
        count = len(self._shown.captions)
        self._update_page(f"after step {count}: {problem}" if count else problem)

    def _update_page(self, notice: str) -> None:
        self._shown.notice = notice
        self._link.send(
            type="recorded",
            id=self._shown.question,
            steps=self._shown.captions,
            notice=self._hide(notice),
            crops=self._shown.new_crops(),
        )

    def judge(
        self, claim: str, frame: Frame, *, timeout_s: float, report: Report
    ) -> Verdict:
        """Return the verdict that the user gave when the task was done, else ask.
        Raises ProductFailed for a denial.
        """
        verdict = self._verdicts.pop(self._hide(claim), None)
        kind, region = verdict or self._ask(claim, frame)
        if kind == "fails":
            raise ProductFailed(f"{NOT_HOLDING}\n  claim: {claim}")
        if kind == "holds":
            return Verdict(claim, "holds", f"{USER_VERDICT}it holds", region, frame.ref)
        reason = f"{USER_VERDICT}the question was not answered"
        return Verdict(claim, "unsure", reason, region, frame.ref)

    def _ask(self, claim: str, frame: Frame) -> tuple[str, Region | None]:
        with uncounted():
            answer = self._link.put_question(
                about="claim",
                test=self._test,
                claim=self._hide(claim),
                image=base64_of(frame.png),
            )
        return str(answer["kind"]), region_of(answer.get("region"))

    def _keep(self, task: str, answer: Mapping[str, Any]) -> None:
        """Keep the answers of the page's form: verdicts, masks, and the user's
        claims.
        """
        regions = answer.get("regions", {})
        for claim, kind in answer.get("verdicts", {}).items():
            region = region_of(regions.get(claim))
            self._verdicts[str(claim)] = (str(kind), region)
        end_state = self._hide(end_state_claim(task))
        self._verdicts[end_state] = (str(answer.get("is_done")), None)
        self.masks = tuple(Region(*map(int, box)) for box in answer.get("masks", ()))
        claims = [str(claim).strip() for claim in answer.get("claims", ())]
        self.claims = tuple(filter(None, claims))

    def _caption(self, step: DemonstratedAction) -> str:
        action = step.action
        if isinstance(action, TypeText):
            action = named(TypeText(self._hide(action.text)), self._values)
        caption = self._hide(format_caption(action, step.elements))
        return caption if step.is_exact else caption + INEXACT

    def _hide(self, text: str) -> str:
        """Return a text without secrets."""
        declared = self._declared.hide(text)
        return self._ambient.hide(declared)


@dataclass(eq=False)
class _ShownSteps:
    """The steps that a user has done by hand, as the page shows them."""

    steps: Sequence[DemonstratedAction] = ()
    notice: str = ""
    captions: list[str] = field(default_factory=list)
    question: str = ""
    """The ID of the question about them."""
    _screens: dict[int, Screen] = field(default_factory=dict)
    """The screens of which the page has a crop, by the index of the step."""

    def new_crops(self) -> dict[str, str]:
        """Return the image of each target that the page does not have yet, by the index
        of its step.
        """
        crops = {}
        for index, step in enumerate(self.steps):
            if step.screen and self._screens.get(index) is not step.screen:
                self._screens[index] = step.screen
                crops[str(index)] = _crop(step)
        return crops


def _is_answered(due: DoneTask, claims: Sequence[str]) -> bool:
    """Return whether the user has answered at the end of a task that it is done, and
    that each of these claims holds.
    """
    answer = due.answer
    if not answer or answer.get("is_done") != "holds":
        return False
    return answer.get("verdicts") == dict.fromkeys(claims, "holds")


def _crop(step: DemonstratedAction) -> str:
    """Return an image around the point that a step acts at; "" where it acts at none,
    or its target has a name.
    """
    targets = points(step.action)
    if any(step.elements) or not step.screen or not targets:
        return ""
    pixels = step.screen.pixels()
    height, width = pixels.shape
    crop = around(targets[0], (width, height)).part_of(pixels)
    return base64_of(encode_png(np.ascontiguousarray(crop)))


@contextmanager
def _watching(
    watcher: Watcher, screen: Framebuffer | _RedactedScreen
) -> Iterator[None]:
    """Have the page show a screen."""
    before = watcher.screen
    watcher.screen = lambda: cast("Framebuffer", screen)
    try:
        yield
    finally:
        watcher.screen = before


class _Inbox:
    """What a page sends while a task is recorded: events for the session, and the
    answer that ends it.
    """

    def __init__(
        self,
        session: ManualSession,
        size: tuple[int, int],
        secrets: Mapping[str, str],
        notify: Callable[[str], None],
        on_input: Callable[[], None],
    ) -> None:
        self._session = session
        self._size = size
        self._secrets = secrets
        self._notify = notify
        self._on_input = on_input
        self.answer: dict[str, Any] = {"kind": "no"}
        self._delay_s = math.inf
        """The shortest time so far between an event, by the page's clock, and its
        arrival, by this clock. It is the difference of the clocks, and a little more.
        """
        self.is_closed = False
        """Whether input is dropped, while steps are repeated."""
        self.on_marked: Callable[[tuple[Marked, ...]], object] = lambda marked: None
        """Called with the regions that the user has marked, when these change."""

    def receive(self, message: dict[str, Any]) -> None:
        """Take in a message of a page."""
        at_s = clock.monotonic()
        if message["type"] == "answer":
            self.answer = message
            self._session.receive(None, at_s)
            return
        kind, *values = message["event"]
        if kind == "marked":
            self.on_marked(tuple(map(_marked, values)))
            return
        if self.is_closed:
            return
        # a delay in the network must not turn a click into a button that is held down
        if "at" in message:
            self._delay_s = min(self._delay_s, at_s - message["at"] / 1000)
            at_s = message["at"] / 1000 + self._delay_s
        self._on_input()
        try:
            for motion in self._motions(kind, *values):
                self._session.receive(motion, at_s)
        except (ActionError, KeyError) as exc:  # KeyError: no secret of this test
            self._notify(f"not done: {exc}")

    def _motions(self, kind: str, *values: Any) -> Iterator[Motion]:
        """Yield the motions of a page's event. Raises ActionError for an unknown
        key.
        """
        match kind, values:
            case "move", [x, y]:
                yield Move(*self._at(x, y))
            case "down", [x, y, button]:
                yield MouseDown(*self._at(x, y), button)
            case "up", [x, y, button]:
                yield MouseUp(*self._at(x, y), button)
            case "scroll", [x, y, direction]:
                yield Scroll(*self._at(x, y), direction, 1)
            case "key", [key, code, is_chord, phase]:
                name = key_name(key, code, is_chord=is_chord)
                if phase == "up":
                    yield KeyUp(name)
                elif phase == "down" or not self._session.is_behind:
                    yield KeyDown(name)
            case "unknown", [key]:
                raise ActionError(
                    f"the browser does not report the character of the key {key!r}."
                    " Use Type text…"
                )
            case "chord", [keys]:
                names = [key_of(parse_key(key)) for key in keys]
                yield from map(KeyDown, names)
                yield from map(KeyUp, reversed(names))
            case "text", [text]:
                yield from _typed(text)
            case "secret", [name]:
                yield TypeText(self._secrets[name])
            case _:
                pass  # no event of this version's page

    def _at(self, x: float, y: float) -> tuple[int, int]:
        width, height = self._size
        column = min(max(int(x), 0), width - 1)
        row = min(max(int(y), 0), height - 1)
        return column, row


def _facts_of_mark(mark: Marked) -> dict[str, Any]:
    """Return what the page shows of a region that the user has marked."""
    return {
        "box": corners_of(mark.region),
        "claim": mark.claim,
        "value": mark.value,
        "after": mark.after,
    }


def _marked(sent: Mapping[str, Any]) -> Marked:
    """Return a region that the user has marked, as the page has sent it."""
    return Marked(
        Region(*map(int, sent["box"])),
        str(sent.get("claim", "")),
        str(sent.get("value", "")),
        int(sent.get("after", 0)),
    )


def key_name(key: str, code: str, *, is_chord: bool) -> str:
    """Return the name of a browser's key: of the character it makes (`key`), or of its
    position (`code`) where only that identifies the key.

    The position distinguishes left from right, the number pad's Enter, and letters and
    digits of a chord on a keyboard that makes others. Raises ActionError if no key has
    such a name.
    """
    is_foreign = len(key) == 1 and not key.isascii()
    if key in ("Shift", "Control", "Alt", "Meta", "OS") or code == "NumpadEnter":
        key = code or key
    elif is_chord and is_foreign and code[:-1] in ("Key", "Digit"):
        key = code[-1].lower()
    return key if len(key) == 1 else key_of(parse_key(key))


def _typed(text: str) -> Iterator[Motion]:
    """Yield what types a text: an Enter and a tab are separate keys."""
    for piece in re.split("([\n\t])", text.replace("\r\n", "\n")):
        if piece == "\n":
            yield KeyDown("return")
        elif piece == "\t":
            yield KeyDown("tab")
        elif piece:
            yield TypeText(piece)


class _RedactedScreen:
    """A desktop's live pixels without typed secrets, as a Framebuffer gives them; none
    while `lock` is held.
    """

    def __init__(
        self, controller: Controller, lock: threading.Lock, screen: Framebuffer
    ) -> None:
        self._controller = controller
        self._lock = lock
        self._screen = screen
        self._last: Pixels | None = None

    @property
    def size(self) -> tuple[int, int]:
        return self._screen.size

    def wait_drawn(self, timestamp: float, timeout_s: float) -> bool:
        return self._screen.wait_drawn(timestamp, timeout_s)

    def regions_since(
        self, timestamp: float
    ) -> tuple[float, list[tuple[Region, Pixels]]]:
        taken_s = clock.monotonic()
        with self._lock:
            pixels = pixels_in(self._controller.raw_frame())
        last = self._last
        self._last = pixels
        height, width = pixels.shape
        changed = [Region(0, 0, width, height)]
        if last is not None and last.shape == pixels.shape and timestamp >= 0:
            changed = boxes_of(last != pixels)
        return taken_s, [(box, box.part_of(pixels)) for box in changed]

    def part(self, part: Region) -> Pixels:
        assert self._last is not None
        seen: Pixels = part.part_of(self._last)
        return seen
