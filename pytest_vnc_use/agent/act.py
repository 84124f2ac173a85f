"""Perform one action of a run within its remaining time, and find what it acts on, for reports."""

from __future__ import annotations

import dataclasses
import hashlib
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from PIL import Image
from typing_extensions import assert_never

from pytest_vnc_use import clock
from pytest_vnc_use.deadline import Deadline, DeadlineExceeded
from pytest_vnc_use.errors import ActionError, ActionInterrupted, AgentFailed, SettingsError
from pytest_vnc_use.errors.faults import chain, named
from pytest_vnc_use.plain_text import cut
from pytest_vnc_use.runs.folder import RunFolder
from pytest_vnc_use.same_screen import still_shows
from pytest_vnc_use.types import (
    SECRET_MARK,
    Action,
    CallFunction,
    Click,
    Decision,
    Drag,
    Frame,
    FrameRef,
    InvalidAction,
    KeyCombo,
    KeyDown,
    KeyUp,
    MouseDown,
    MouseUp,
    Move,
    OpenAddress,
    Proposal,
    Region,
    Scroll,
    SettledReason,
    Step,
    TakeScreenshot,
    Times,
    TraverseHistory,
    TypeText,
    Wait,
)
from pytest_vnc_use.types.action_points import Point, points
from pytest_vnc_use.types.elements import ASK_S, Elements
from pytest_vnc_use.types.json_depth import TOO_DEEP, is_shallow
from pytest_vnc_use.types.protocols import Controller, TellsElements, TellsUrl
from pytest_vnc_use.types.secret_text import SecretText

CROP_PX = (160, 60)
"""Width and height of the picture of the place."""
_SLOW_S, _MOST_SLOW = 0.5, 3
"""After three slow answers in a row, stop asking, so that a heavy page is not delayed."""
FIELDS = frozenset(
    {"textbox", "searchbox", "combobox", "spinbutton"}  # ARIA's roles
    | {"text", "entry", "password text", "terminal", "combo box", "spin button"}  # AT-SPI's
)
"""The roles of elements that take text."""
LONGEST_NAME = 200
"""The most characters of a name, or of a role, that a step keeps."""

ElementsOf = Callable[[Action], Elements]
"""A function that finds the elements of an action in a desktop's trees. It may be slow, and may raise any exception."""


def no_elements(action: Action) -> Elements:
    """Return no elements: there is no tree."""
    return ()


class Asker:
    """The search for the elements of actions.

    It never raises and never waits longer than `ASK_S`. After several slow answers it stops asking.
    """

    def __init__(self, ask: ElementsOf) -> None:
        self._ask = ask
        self._slow = 0

    def __call__(self, action: Action, limit_s: float = ASK_S) -> Elements:
        """Return the elements that an action will act on; none if they are unknown."""
        if self._slow >= _MOST_SLOW or not (points(action) or isinstance(action, TypeText)):
            return ()
        deadline = Deadline(min(ASK_S, limit_s))
        try:
            found = deadline.call(lambda: self._ask(action))
        except Exception:  # noqa: BLE001  # a name is only told: whatever a page or a program answers fails no step
            found = ()
        self._slow = self._slow + 1 if deadline.spent_s >= _SLOW_S else 0
        return found if any(found) else ()


def elements_of(acting: Controller, ask: ElementsOf) -> ElementsOf:
    """Return the function that finds the elements: the controller's, or else the desktop's."""

    def find(action: Action) -> Elements:
        elements = acting.elements_of(action) if isinstance(acting, TellsElements) else None
        return ask(action) if elements is None else elements

    return find


@dataclass(frozen=True)
class StepTarget:
    """The target of a step, and how long it took to find it. `crop` is None if the step has no place."""

    elements: Elements = ()
    crop: FrameRef | None = None
    asked_s: float = 0.0


class Targets:
    """The targets of one run's steps."""

    def __init__(self, ask: ElementsOf, folder: RunFolder) -> None:
        self._ask = Asker(ask)
        self._folder = folder
        self._seen: Frame | None = None
        self._clicked: tuple[Point, ...] = ()
        self._field: Elements = ()

    def see(self, frame: Frame) -> None:
        """Keep the newest frame, so that its pixels need not be read again."""
        self._seen = frame

    def of(self, action: Action, frame: FrameRef, limit_s: float) -> StepTarget:
        """Return the target of an action, on the screen that `frame` shows.

        Text without a place goes to the focus, or else to the field that the action before clicked.
        """
        started = clock.monotonic()
        elements, places = self._ask(action, limit_s), points(action)[:1]
        if isinstance(action, TypeText) and not places:
            elements, places = elements or self._field, self._clicked
        elif not isinstance(action, (Wait, TakeScreenshot)):
            last = elements[-1:]
            self._field = last if last and last[0] and last[0].role in FIELDS else ()
            self._clicked = points(action)[-1:]
        crop = self._crop(frame, places[0]) if places else None
        return StepTarget(elements, crop, clock.monotonic() - started)

    def _crop(self, frame: FrameRef, at: Point) -> FrameRef | None:
        region = around(at, (frame.width, frame.height))
        seen = self._seen if self._seen and self._seen.ref == frame else None
        try:
            png = _cut_out(seen.png if seen else self._folder.load_png(frame), seen.pixels if seen else None, region)
        except (OSError, ValueError):  # a user's own controller may return an invalid picture
            return None
        size = region.right - region.left, region.bottom - region.top
        return self._folder.store(Frame(FrameRef(hashlib.sha256(png).hexdigest(), *size), png))


def around(at: Point, screen: tuple[int, int]) -> Region:
    """Return the region of `CROP_PX` around a point, moved onto a screen of that size."""
    width, height = (min(crop, most) for crop, most in zip(CROP_PX, screen, strict=True))
    left = min(max(at[0] - width // 2, 0), screen[0] - width)
    top = min(max(at[1] - height // 2, 0), screen[1] - height)
    return Region(left, top, left + width, top + height)


def _cut_out(png: bytes, pixels: object, region: Region) -> bytes:
    if isinstance(pixels, np.ndarray):
        size = region.right - region.left, region.bottom - region.top
        image = Image.frombytes("RGB", size, region.part_of(pixels).astype("<u4").tobytes(), "raw", "BGRX")
    else:
        whole = Image.open(io.BytesIO(png))
        image = whole.crop((region.left, region.top, region.right, region.bottom)).convert("RGB")
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def cut_names(elements: Elements) -> Elements:
    """Return the elements with names and roles of limited length, which say how long they were."""
    most = LONGEST_NAME
    return tuple(each and replace(each, role=cut(each.role, most), name=cut(each.name, most)) for each in elements)


LONGEST_TEXT = 10_000
"""The most characters of a function's output, or of an error, that are kept and sent to the planner."""


@dataclass(frozen=True)
class Effect:
    """The result of an action: the screen after it, the output of a user's function, or why it was not done.

    `passed` are the transient frames since the end of the step before. `url` is the browser's address. `elements` and
    `crop` are what the action acted on, as in Step.
    """

    frame_after: FrameRef
    output: str = ""
    error: str = ""
    settled: SettledReason | None = None
    times: Times = Times()
    passed: tuple[FrameRef, ...] = ()
    url: str = ""
    elements: Elements = ()
    crop: FrameRef | None = None


@dataclass(frozen=True)
class Actor:
    """The actor: a controller and the user's functions. `reveal` puts the values of declared secrets into typed text.

    After each step, once the screen has settled, it waits `step_delay_s()`. `url` returns the browser's address, "" if
    it is unknown. `targets` finds what a step acts on.
    """

    controller: Controller
    folder: RunFolder
    functions: Mapping[str, Callable[..., object]]
    reveal: Callable[[str], str]
    step_delay_s: Callable[[], float] = float
    url: Callable[[], str] = str
    targets: Targets | None = None

    def first_look(self) -> FrameRef:
        """Store and return the screen as a run begins; forget earlier transient frames. Raises DesktopError."""
        frame = self.capture()
        self.controller.transient_frames()
        return frame

    def capture(self) -> FrameRef:
        """Store and return the screen now. Raises DesktopError."""
        frame = self.controller.frame()
        if self.targets:
            self.targets.see(frame)
        return self.folder.store(frame)

    def watch(self) -> None:
        """Raise DesktopError if the desktop is gone."""
        self.controller.changed_since(clock.monotonic())

    def other_than(self, seen: FrameRef) -> FrameRef | None:
        """Store and return the quiet screen if it differs from that frame. Raises DesktopError."""
        if self._other_frame(seen) is None:
            return None
        self.controller.settle(briefly=True)
        other = self._other_frame(seen)
        return None if other is None else self.folder.store(other)

    def _other_frame(self, seen: FrameRef) -> Frame | None:
        now = self.controller.frame()
        is_same = now.ref == seen or still_shows(self.folder.load_png(seen), now)
        return None if is_same else now

    def carry_out(self, action: Action, frame_before: FrameRef, deadline: Deadline, *, watched: bool = False) -> Effect:
        """Act, wait for the screen to answer, look. When the time is up, the controller is closed.

        So nothing happens late. `watched`: the screen is watched after the look. Raises DesktopError.
        """
        target = self.targets.of(action, frame_before, deadline.remaining_s) if self.targets else StepTarget()
        started = clock.monotonic()
        try:
            output, error = deadline.call(lambda: self._do(action, deadline)), ""
        except ActionError as exc:
            output, error = "", str(exc)
        except DeadlineExceeded:
            if not isinstance(action, CallFunction):
                self.controller.close()
            error, acted_on = "the run's time was up before the action was done", (target.elements, target.crop)
            return Effect(frame_before, "", error, None, Times(), (), "", *acted_on)
        acted = clock.monotonic()
        try:
            settled = None if error else self._settle(action, deadline, briefly=watched)
            quiet, frame = clock.monotonic(), self.capture()
        except ActionInterrupted as exc:
            error = str(exc)
            settled, quiet, frame = None, clock.monotonic(), self.capture()
        kept = dict.fromkeys(map(self.folder.store, self.controller.transient_frames()))  # each once
        transients = tuple(ref for ref in kept if ref not in (frame_before, frame))
        times = Times(0.0, acted - started, quiet - acted, clock.monotonic() - quiet + target.asked_s)
        url = self._url_after(action, error, deadline)
        return Effect(frame, output, error, settled, times, transients, url, target.elements, target.crop)

    def _url_after(self, action: Action, error: str, deadline: Deadline) -> str:
        """Return the browser's address. If the controller does not know it, an opened address counts."""
        opened = action.address if isinstance(action, OpenAddress) and not error else ""
        try:
            return deadline.call(self.url) or opened
        except DeadlineExceeded:
            return opened

    def _settle(self, action: Action, deadline: Deadline, *, briefly: bool) -> SettledReason | None:
        if isinstance(action, (CallFunction, TakeScreenshot)) or not deadline.remaining_s:
            return None
        reason = self.controller.settle(briefly=briefly).reason
        if delay_s := self.step_delay_s():
            self.controller.perform(Wait(min(delay_s, deadline.remaining_s)))
        return reason

    def _do(self, action: Action, deadline: Deadline) -> str:
        match action:
            case InvalidAction(problem=problem):
                raise ActionError(problem)
            case CallFunction(name=name, arguments=arguments):
                return self._call_function(name, arguments)
            case TypeText(text=text):
                perform_text(self.controller, dataclasses.replace(action, text=self._reveal_secrets(text)))
            case OpenAddress(address=address):
                perform_text(self.controller, dataclasses.replace(action, address=self._reveal_secrets(address)))
            case Wait(duration_s=duration_s):
                self.controller.perform(Wait(min(duration_s, deadline.remaining_s)))
            case Click() | MouseDown() | MouseUp() | Move() | Drag() | Scroll():
                self.controller.perform(action)
            case KeyCombo() | KeyDown() | KeyUp() | TraverseHistory() | TakeScreenshot():
                self.controller.perform(action)
            case _:
                assert_never(action)
        return ""

    def _reveal_secrets(self, text: str) -> str:
        check_declared(text, self.reveal)
        return self.reveal(text)

    def _arguments(self, value: Any) -> Any:
        """Return the arguments of a user's function. It gets the values of secrets as plain text."""
        match value:
            case str():
                return str(self._reveal_secrets(value))
            case list() | tuple():
                return [self._arguments(item) for item in value]
            case Mapping():
                return {key: self._arguments(item) for key, item in value.items()}
            case _:
                return value

    def _call_function(self, name: str, arguments: Mapping[str, Any]) -> str:
        if name not in self.functions:
            raise ActionError(f"there is no function {name!r}; there are {sorted(self.functions)}")
        try:
            return str(self.functions[name](**self._arguments(arguments)))
        except (Exception, SystemExit) as exc:  # a user's function may raise anything; the planner gets the error
            raise ActionError(f"{name} raised {named(exc)}") from exc


def check_declared(text: str, reveal: Callable[[str], str]) -> None:
    """Raise ActionError if the text names an undeclared secret, so that the placeholder itself is not typed."""
    for mark in SECRET_MARK.finditer(text):
        if reveal(mark.group()) == mark.group():
            raise ActionError(
                f"the secret {mark[1]!r} is not declared. Declare it: secrets=[{mark[1]!r}] in the marker, "
                f"secrets={{{mark[1]!r}: …}} in Python, or --secret {mark[1]}"
            )


def page_url_of(controller: Controller) -> Callable[[], str]:
    """Return the function that returns the browser's address, if this controller has one."""
    return controller.page_url if isinstance(controller, TellsUrl) else str


def perform_text(controller: Controller, action: TypeText | OpenAddress) -> None:
    """Type a text. Errors contain no characters of a secret, neither in the message nor in frames."""
    try:
        controller.perform(action)
    except BaseException as exc:  # a time limit of pytest may also end the typing at any point
        if not isinstance(action.text if isinstance(action, TypeText) else action.address, SecretText):
            raise
        for each in chain(exc):
            each.__traceback__ = None  # its frames hold the keystrokes
        if isinstance(exc, ActionError) and not isinstance(exc, ActionInterrupted):
            raise ActionError(
                "the desktop cannot type one character of this text. The text contains a secret, so the "
                "character is not shown"
            ) from None
        raise exc  # a bare `raise` would bring the frames back


def truncated(step: Step) -> Step:
    """Return the step with its texts cut to a length that suits a model and a report."""
    return dataclasses.replace(
        step,
        proposal=dataclasses.replace(step.proposal, intent=cut(step.proposal.intent, LONGEST_TEXT)),
        ruling=dataclasses.replace(step.ruling, explanation=cut(step.ruling.explanation, LONGEST_TEXT)),
        words=cut(step.words, LONGEST_TEXT),
        output=cut(step.output, LONGEST_TEXT),
        error=cut(step.error, LONGEST_TEXT),
        elements=cut_names(step.elements),
    )


def readable(decision: Decision) -> Decision:
    """Return the decision with values that JSON readers accept. Raises AgentFailed for its `params`."""
    if not is_shallow(decision.params):
        raise AgentFailed(f"`params` of the finished planner {TOO_DEEP}")
    return dataclasses.replace(decision, proposals=tuple(map(_readable, decision.proposals)))


def _readable(proposal: Proposal) -> Proposal:
    action = proposal.action
    given = action.arguments if isinstance(action, CallFunction) else {}
    if is_shallow(given) and is_shallow(proposal.as_proposed):
        return proposal
    name = str(proposal.as_proposed.get("name") or getattr(action, "name", action.kind))
    problem = f"the arguments of {cut(name, 100)!r} {TOO_DEEP}"
    return dataclasses.replace(proposal, action=InvalidAction(name, problem), as_proposed={"name": name, "args": {}})


def functions_by_name(functions: Sequence[Callable[..., object]]) -> dict[str, Callable[..., object]]:
    """Return the user's functions by name. Raises SettingsError if one has no name, or that of another."""
    names = [getattr(function, "__name__", "") for function in functions]
    if not all(names) or len(set(names)) != len(names):
        raise SettingsError(f"each function must have a name of its own, got {names!r}")
    return dict(zip(names, functions, strict=True))
