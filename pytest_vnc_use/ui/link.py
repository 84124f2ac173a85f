"""The connection of a process of a test session to the desk, which sends what happens
and receives what a user wants.

A thread sends and another receives, so no test waits for the desk; if the desk dies,
tests continue as without it.
"""

from __future__ import annotations

import base64
import json
import queue
import struct
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from pytest_vnc_use import clock
from pytest_vnc_use.backends.pixels import encode_png
from pytest_vnc_use.deadline import uncounted
from pytest_vnc_use.errors import DesktopError, SettingsError
from pytest_vnc_use.recordings.format import MANUAL
from pytest_vnc_use.recordings.life import AnswerKind
from pytest_vnc_use.recordings.question import NO, Answer, Question
from pytest_vnc_use.runs.transcript import format_caption, is_named
from pytest_vnc_use.types import (
    ApprovalRequest,
    FrameRef,
    GateAwaited,
    Judged,
    ModelExchange,
    ModelRequest,
    Proposal,
    RecordingAwaited,
    Region,
    RunEnded,
    RunEvent,
    RunStarted,
    Step,
    StepFinished,
    StepStarted,
)
from pytest_vnc_use.types.actions import points
from pytest_vnc_use.types.values import fill

if TYPE_CHECKING:
    from pytest_vnc_use.backends.screen import Framebuffer

MIN_INTERVAL_S = 1 / 15
"""The shortest time between two frames of a test."""
PAUSE_FACTOR = 8
"""The pause after a frame, as a multiple of the time that its encoding took: watching
may not slow a test down.
"""
HURRY_S = 1.0
"""How long after a user's input frames come without a limit."""
FINISH_S = 15.0
"""The maximum time for the last messages to be received."""
GONE = {"type": "answer", "kind": "no", "text": "the page's server has ended"}
REOPEN = "Start `cua-vnc ui` again, and run the tests from its page"
MAX_PARTS = 8
"""The maximum rectangles of one frame; more become the box around them."""
_BY_VERDICT: Mapping[str, AnswerKind] = {"holds": "accept", "fails": "bug"}
"""A user's verdict on a claim without evidence, as the answer of a reviewer."""


class Link:
    """The connection. `on_stop` is called when a user stops the tests.

    Raises:
        SettingsError: The desk is gone, or does not know the token.
    """

    def __init__(self, url: str, token: str, on_stop: Callable[[], None]) -> None:
        try:
            websocket = connect(
                url,
                additional_headers={"Authorization": f"Bearer {token}"},
                compression=None,
                proxy=None,
                max_size=None,
            )
        except (OSError, WebSocketException) as exc:
            raise SettingsError(
                f"the page's server cannot be reached at {url}: {exc}. {REOPEN}"
            ) from exc
        # websockets deprecates a connection that is no context manager
        self._closing = ExitStack()
        self._websocket = self._closing.enter_context(websocket)
        self._on_stop = on_stop
        self._outgoing: queue.SimpleQueue[str | bytes | None] = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._answers: dict[str, Mapping[str, Any]] = {}
        self._questions = 0
        self._listeners: dict[str, Callable[[dict[str, Any]], None]] = {}
        self._may_step: set[str] = set()
        """The paused tests that may perform their next step."""
        self._stops: set[tuple[str, str]] = set()
        """Each test with the name of a gate at which its replay is to stop."""
        self.is_open = True
        self.is_paused = False
        self.watched = 0
        """0 while no page is open, else a number that changes each time that pages need
        whole screens.
        """
        self._watch_count = 0
        self.on_unseen: Callable[[], object] = lambda: None
        """Called when a question is put that no page shows."""
        self.send(type="hello")
        self._sender = threading.Thread(
            target=self._send_all, daemon=True, name="vnc-use desk, sends"
        )
        self._sender.start()
        threading.Thread(
            target=self._receive_all, daemon=True, name="vnc-use desk, receives"
        ).start()

    def send(self, **message: Any) -> None:
        """Send a message soon; never waits."""
        if self.is_open:
            self._outgoing.put(json.dumps(message))

    def send_frame(self, png: bytes, *, waits: bool, **header: Any) -> None:
        """Send a part of a screen: the length of the header, the header, the image;
        soon, or at once and wait until it is sent.
        """
        head = json.dumps(header).encode()
        message = struct.pack(">I", len(head)) + head + png
        if waits:
            # the desk is gone, and `_receive_all` notes it
            with suppress(OSError, WebSocketException):
                self._websocket.send(message)
        elif self.is_open:
            self._outgoing.put(message)

    def close(self) -> None:
        """Send what is left, and end the connection, within `FINISH_S`: else the end of
        the process could lose the last result.
        """
        self._outgoing.put(None)
        self._sender.join(FINISH_S)

    def finish(self, text: str) -> None:
        """Leave a last text on the pages, and wait up to `FINISH_S` until their server
        has sent it and ended the connection.
        """
        self.send(type="finished", text=text)
        with self._changed:
            self._changed.wait_for(lambda: not self.is_open, FINISH_S)

    def wait_while_paused(self, test: str) -> None:
        """Wait while a user has paused the tests, for the next step or the end of the
        pause; no limit counts it.
        """
        if not self.is_paused:
            return
        self.send(type="test", test=test, is_waiting=True)

        def may_continue() -> bool:
            return not self.is_paused or not self.is_open or test in self._may_step

        try:
            with uncounted(), self._changed:
                self._may_step.discard(test)
                self._changed.wait_for(may_continue)
        finally:  # Stop interrupts it
            self.send(type="test", test=test, is_waiting=False)

    def stop_before(self, test: str, gate: str, *, on: bool = True) -> None:
        """Have a test's replay stop at a gate; with `on=False`, no longer."""
        with self._changed:
            if on:
                self._stops.add((test, gate))
            else:
                self._stops.discard((test, gate))
            gates = [gate for name, gate in sorted(self._stops) if name == test]
        self.send(type="stops", test=test, stops=gates)

    def take_stop(self, test: str, gate: str) -> bool:
        """Return whether a test's replay is to stop at a gate; it does so once."""
        is_due = (test, gate) in self._stops
        if is_due:
            self.stop_before(test, gate, on=False)
        return is_due

    def ask(self, question: Question, hide: Callable[[str], str]) -> Answer:
        """Return a reviewer's answer; no if the desk is gone."""
        images = [base64_of(Path(image).read_bytes()) for image in question.images]
        facts = facts_of(question, hide)
        if question.is_new_claim:
            answer = self.put_question(**facts, about="claim", image=images[0])
            kind = _BY_VERDICT.get(answer["kind"], "no")
            return Answer(kind, region=region_of(answer.get("region")))
        answer = self.put_question(**facts, images=images)
        if answer["kind"] not in get_args(AnswerKind):
            return NO
        return Answer(answer["kind"], answer["text"])

    def put_question(self, **question: Any) -> Mapping[str, Any]:
        """Put a question to the pages; return the answer, with its `kind` and its
        `text`: "no" if the desk is gone.
        """
        question_id = self._new_id()
        self.send(type="question", id=question_id, **question)
        if not self.watched:
            self.on_unseen()

        def is_over() -> bool:
            return question_id in self._answers or not self.is_open

        with self._changed:
            self._changed.wait_for(is_over)
            return self._answers.pop(question_id, GONE)

    @contextmanager
    def asking(
        self, listener: Callable[[dict[str, Any]], None], **question: Any
    ) -> Iterator[str]:
        """Put a question to the pages, and yield its ID. A thread calls `listener` with
        each message of a page about it, the last of which is an answer: no once the
        desk is gone.
        """
        question_id = self._new_id()
        self._listeners[question_id] = listener
        self.send(type="question", id=question_id, **question)
        if not self.is_open:
            listener(GONE)
        try:
            yield question_id
        finally:
            del self._listeners[question_id]
            self.send(type="answered", id=question_id)  # also without a page

    def _new_id(self) -> str:
        """Return the ID of a new question."""
        self._questions += 1
        return f"{id(self)}-{self._questions}"

    def _send_all(self) -> None:
        try:
            while (message := self._outgoing.get()) is not None:
                self._websocket.send(message)
        except (OSError, WebSocketException):
            pass  # the desk is gone, and `_receive_all` notes it
        self._closing.close()

    def _receive_all(self) -> None:
        try:
            for text in self._websocket:
                message = json.loads(text)
                # to the listener of a question, else to this process
                receive = self._listeners.get(message.get("id", ""), self._obey)
                receive(message)
        except (OSError, WebSocketException):
            pass  # as at the end
        finally:
            # also after the error of a listener: no thread may wait for ever
            with self._changed:
                self.is_open = False
                self.watched = 0
                self._changed.notify_all()
            for listener in list(self._listeners.values()):
                listener(GONE)

    def _obey(self, message: dict[str, Any]) -> None:
        """Do what a user wants of this process."""
        if message["type"] == "stop_before":
            self.stop_before(message["test"], message["gate"], on=message["on"])
            return
        with self._changed:
            match message["type"]:
                case "watch":
                    self._watch_count += 1
                    self.watched = self._watch_count if message["on"] else 0
                case "pause":
                    self.is_paused = message["on"]
                case "next":
                    self._may_step.add(message["test"])
                case "answer":
                    self._answers[message["id"]] = message
                case "stop":
                    self._on_stop()
            self._changed.notify_all()

    def wait_watched(self, timeout_s: float) -> int:
        """Return `watched` once a page is open, or as it is after `timeout_s`."""
        with self._changed:
            self._changed.wait_for(lambda: self.watched, timeout_s)
            return self.watched


def region_of(box: Sequence[float] | None) -> Region | None:
    """Return a region that a page has sent; None for none."""
    return Region(*map(int, box)) if box else None


def base64_of(image: bytes) -> str:
    """Return an image as a page receives it."""
    return base64.b64encode(image).decode()


def facts_of(question: Question, hide: Callable[[str], str] = str) -> dict[str, Any]:
    """Return what a page shows of a question about a screen, but for its images."""
    offer = question.offer
    return {
        "test": question.test,
        "problem": hide(question.problem),
        "boxes": list(map(corners_of, question.boxes)),
        "masks": list(map(corners_of, offer.masks)),
        "masked_px": offer.masked_px,
        "concerned": {kind: hide(text) for kind, text in offer.concerned.items()},
        "acts": [hide(act) for act in question.acts],
        "values": {name: hide(text) for name, text in offer.values.items()},
        "moved": [hide(target) for target in offer.moved],
        "claim": hide(question.claim),
        "transient": question.is_transient,
        "refused": {kind: hide(why) for kind, why in offer.refused.items()},
    }


def corners_of(region: Region) -> list[int]:
    """Return a region as a page receives it."""
    return [region.left, region.top, region.right, region.bottom]


class Watcher:
    """An observer that shows the runs of one test on the desk. `hide` takes secrets out
    of texts.

    `screen` returns the live pixels; None if there are none, or if a secret might be
    seen on them. Then the frame after each step is shown: `stored` returns its PNG from
    the run directory.
    """

    def __init__(self, link: Link, test: str, hide: Callable[[str], str]) -> None:
        self._link = link
        self._test = test
        self._hide = hide
        self._is_ended = False
        self._woken = threading.Event()
        self._hurry_ends_at = 0.0
        self.screen: Callable[[], Framebuffer | None] = lambda: None
        self.stored: Callable[[FrameRef], bytes | None] = lambda ref: None
        self._dollars = 0.0

    def start(self) -> None:
        """Send frames until `close`."""
        name = "vnc-use frames"
        threading.Thread(target=self._send_frames, daemon=True, name=name).start()

    def close(self) -> None:
        """Send no more frames."""
        self._is_ended = True
        self._woken.set()

    def hurry(self) -> None:
        """Send frames without a limit for a while: a user's input is on its way."""
        self._hurry_ends_at = clock.monotonic() + HURRY_S
        self._woken.set()

    def observe(self, event: RunEvent) -> None:
        """Send the desk what happened; wait before a step while a user has paused the
        tests.
        """
        match event:
            case RunStarted():
                doing = f"waits for {event.planner}"
                if event.planner == MANUAL:
                    doing = "looks at the screen, please wait"
                self._send_facts(
                    task=self._hide(fill(event.task, event.values)),
                    planner=event.planner,
                    doing=doing,
                    steps=[],
                )
            case StepStarted():
                self._send_step(event.number, event.proposal, event.ruling.kind)
                self._link.wait_while_paused(self._test)
            case StepFinished():
                step = event.step
                self._send_step(step.number, step.proposal, step.ruling.kind, step)
                self._send_facts(doing="")
                self._send_stored(step.frame_after)
            case GateAwaited():
                doing = f"waits for the recorded screen, {event.remaining_s:.0f} s left"
                if event.recorded_s:
                    doing += f", it took {event.recorded_s:.0f} s when recorded"
                self._send_facts(doing=doing)
            case RecordingAwaited():
                self._send_facts(doing=f"waits for the recording of {event.name!r}")
            case ModelRequest():
                model = "the judge" if event.purpose == "judge" else event.model
                self._send_facts(doing=f"asks {model}")
            case ModelExchange():
                self._dollars += event.dollars or 0.0
                self._send_facts(dollars=round(self._dollars, 6))
            case Judged():
                verdict = event.verdict
                self._send_facts(
                    claim=self._hide(verdict.claim),
                    verdict=verdict.kind,
                    reason=self._hide(verdict.reason),
                )
            case ApprovalRequest():
                self._send_facts(doing="waits for approval")
            case RunEnded():
                self._send_facts(
                    doing="",
                    outcome=str(event.outcome or ""),
                    problem=self._hide(event.message or event.error),
                )
            case _:
                pass  # the run directory has the rest

    def _send_facts(self, **facts: Any) -> None:
        self._link.send(type="test", test=self._test, **facts)

    def _send_step(
        self, number: int, proposal: Proposal, ruling: str, done: Step | None = None
    ) -> None:
        """Send a step. Once it is done, add what it acted on: its name, else an image of
        the place.
        """
        elements = done.elements if done else ()
        caption = proposal.intent or format_caption(proposal.action, elements)
        facts: dict[str, object] = {
            "caption": self._hide(caption),
            "points": [list(point) for point in points(proposal.action)],
            "ruling": ruling,
            "is_done": bool(done),
            "error": self._hide(done.error) if done else "",
        }
        crop = None
        if done and done.crop and not is_named(done):
            crop = self.stored(done.crop)
        if crop:
            facts["crop"] = base64_of(crop)
        self._link.send(type="step", test=self._test, number=number, **facts)

    def _send_stored(self, ref: FrameRef) -> None:
        """Send a frame of the run directory, where no live pixels are shown."""
        if not self._link.watched or self.screen() is not None:
            return
        png = self.stored(ref)
        if png:
            self._link.send_frame(
                png,
                waits=False,
                test=self._test,
                x=0,
                y=0,
                width=ref.width,
                height=ref.height,
            )

    def _send_frames(self) -> None:
        sent = 0  # the value of `watched` for which the whole screen was sent
        since = float("-inf")
        due_at = 0.0
        with suppress(DesktopError):  # the test reports that its desktop is gone
            while not self._is_ended:
                self._woken.clear()
                watched = self._link.wait_watched(MIN_INTERVAL_S)
                screen = self.screen() if watched else None
                if screen is None or not all(screen.size):
                    self._woken.wait(MIN_INTERVAL_S)
                    continue
                if clock.monotonic() >= self._hurry_ends_at:
                    self._woken.wait(max(0.0, due_at - clock.monotonic()))
                if watched != sent:
                    sent = watched
                    since = float("-inf")
                elif not screen.wait_drawn(since, MIN_INTERVAL_S):
                    continue
                started_at = clock.monotonic()
                since = self._send_changes(screen, since)
                finished_at = clock.monotonic()
                pause_s = PAUSE_FACTOR * (finished_at - started_at)
                due_at = finished_at + max(MIN_INTERVAL_S, pause_s)

    def _send_changes(self, screen: Framebuffer, since: float) -> float:
        """Send what has changed on a screen since a time; return the time of that."""
        taken_at, parts = screen.regions_since(since)
        if len(parts) > MAX_PARTS:
            box = reduce(Region.joined, [region for region, _ in parts])
            parts = [(box, screen.part(box))]
        width, height = screen.size
        for region, pixels in parts:
            self._link.send_frame(
                encode_png(pixels),
                waits=True,
                test=self._test,
                x=region.left,
                y=region.top,
                width=width,
                height=height,
            )
        return taken_at
