"""The format of a recording, versioned: a directory of screenshots, and
`recording.json`, with a readable line for each step and each claim.

    recording.json
    s1.webp                   the whole screen before step s1
    s1-part1-variant2.webp    another look of a region of it that changes on its own
    s1-transient1.webp        a screen that came and went after step s1
    end1.webp                 the whole screen at the end of task t1
    t1-claim1.webp            the screen of a claim, if it is none of those above

An image is named after its step or task, whose id is never given again. So an image that
changes keeps its name, and any viewer of differences shows it before and after.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import chain
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union

import numpy as np
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    field_serializer,
    field_validator,
    model_validator,
)

from pytest_vnc_use.recordings.images import Pixels
from pytest_vnc_use.types import (
    CARET_PX,
    SECRET_MARK,
    CallFunction,
    Click,
    Confirmation,
    Drag,
    JsonObject,
    KeyCombo,
    KeyDown,
    KeyUp,
    MouseDown,
    MouseUp,
    Move,
    OpenUrl,
    Proposal,
    Region,
    Scroll,
    TraverseHistory,
    TypeText,
)
from pytest_vnc_use.types.actions import Point, points
from pytest_vnc_use.types.elements import Elements
from pytest_vnc_use.types.verdicts import end_state_claim

MANUAL = "manual"
"""The planner of a run that was recorded by hand."""
_SERVER = re.compile(r" at [^\s()]+(?=\)$)")
FORMAT: Literal["pytest-vnc-use recording"] = "pytest-vnc-use recording"
VERSION = 6
"""Other versions are rejected."""

Repeatable = Union[
    Click,
    MouseDown,
    MouseUp,
    Move,
    Drag,
    Scroll,
    TypeText,
    KeyCombo,
    KeyDown,
    KeyUp,
    OpenUrl,
    TraverseHistory,
    CallFunction,
]
"""The actions that are recorded. Gates take the place of waits and screenshots."""
_IMAGE = r"^([\w-]+\.webp)?$"
_DIGEST = r"^([0-9a-f]{12})?$"
MAX_STABLE_S = 60.0
MAX_SHOWN = 0.25
"""The largest share of a screen that may show values."""
_Length = Annotated[int, Field(ge=1, le=65535)]
"""A number of pixels that VNC can express."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Drawn(_Part):
    """Something that is stored as an image; `pixels` loads them.

    `image` is the file, and `digest` the first 12 digits of its SHA-256. Without a
    digest, it is the image of another part of the recording.
    """

    image: str = Field(default="", pattern=_IMAGE)
    digest: str = Field(default="", pattern=_DIGEST)
    pixels: Callable[[], Pixels] = Field(
        default=lambda: np.zeros((0, 0), np.uint32), exclude=True, repr=False
    )


class _Identified(_Part):
    """A part of a recording with an id: a letter and a number that the recording gives
    once (see `numbered`). It is "" until then.
    """

    id: str = ""

    @property
    def number(self) -> int:
        """The number in the id; 0 if it has none yet."""
        return int(self.id[1:] or 0)


class Variant(Drawn):
    """One content of a dynamic region; without an image, the one on the screen."""


class DynamicRegion(_Part):
    """A region of a screen that always changes, in pixels.

    A `caret` may be there or not. A region that `blinks` shows its `variants` in turn,
    and must show all of them. An `unstable` region shows one of its `variants`. An
    `always_changing` region, such as a clock, has none, and is not compared.
    """

    left: int
    top: int
    right: int
    bottom: int
    kind: Literal["caret", "blinks", "unstable", "always_changing"] = "always_changing"
    variants: tuple[Variant, ...] = ()

    @property
    def region(self) -> Region:
        """The region alone."""
        return Region(self.left, self.top, self.right, self.bottom)


def dynamic_region(
    region: Region,
    kind: Literal["caret", "blinks", "unstable", "always_changing"],
    *variants: Pixels,
) -> DynamicRegion:
    """Return a dynamic region that has shown these variants."""
    return DynamicRegion(
        **vars(region),
        kind=kind,
        variants=tuple(Variant(pixels=held(pixels)) for pixels in variants),
    )


def share_of(regions: Iterable[Region], shape: tuple[int, int]) -> float:
    """Return the share of a screen of this height and width that regions cover."""
    covered = np.zeros(shape, np.bool_)
    for region in regions:
        region.part_of(covered)[:] = True
    return float(covered.mean())


def held(pixels: Pixels) -> Callable[[], Pixels]:
    """Return a function that returns these pixels."""
    return lambda: pixels


def merged(parts: Iterable[DynamicRegion]) -> tuple[DynamicRegion, ...]:
    """Return the dynamic regions, each region once, without those that lie within
    another.
    """
    distinct = tuple({part.region: part for part in parts}.values())
    regions = [part.region for part in distinct]
    return tuple(
        part for part in distinct if sum(map(part.region.is_part_of, regions)) == 1
    )


class Accepted(_Part):
    """A change of the product that a reviewer accepted: who, when (ISO 8601), and where
    on the screen.

    With a `claim`, the reviewer confirmed that it still holds with this change. `steps`
    says which steps replaced recorded ones, and who performed them. With a `value`, the
    reviewer stated that the region shows it.
    """

    by: str
    at: datetime
    region: Region | None = None
    claim: str = ""
    steps: str = ""
    value: str = ""


class ShownValue(_Part):
    """A region that shows a value, as the user `by` has stated. No gate compares it."""

    name: str
    region: Region
    by: str = ""
    at: datetime | None = None

    @property
    def statement(self) -> Accepted | None:
        """Who stated it and when; None if that is not known."""
        if self.at is None:
            return None
        return Accepted(by=self.by, at=self.at, region=self.region, value=self.name)


class Screen(Drawn):
    """A stable screen, whole.

    `appeared_s` is when it was there, in whole seconds after the action before it; 0 if
    that is not known. `dynamic` are the regions that always change, `redacted` those
    over which a typed secret is redacted, `masks` those that no comparison with this
    screen looks at, `values` those that show a value. Nothing else changed in the
    `stable_s` seconds before. `history` are its accepted changes, the oldest first.
    """

    dynamic: tuple[DynamicRegion, ...] = ()
    redacted: tuple[Region, ...] = ()
    masks: tuple[Region, ...] = ()
    values: tuple[ShownValue, ...] = ()
    stable_s: float = Field(default=0.0, ge=0, le=MAX_STABLE_S)
    appeared_s: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    history: tuple[Accepted, ...] = ()

    @property
    def not_compared(self) -> tuple[Region, ...]:
        """The regions of this screen alone that no comparison looks at."""
        shown = [value.region for value in self.values]
        return (*self.masks, *self.redacted, *shown)

    @property
    def accepted(self) -> tuple[Accepted, ...]:
        """Its accepted changes, and the statements of where it shows values."""
        statements = [value.statement for value in self.values]
        return (*self.history, *filter(None, statements))

    def accepted_after(self, other: Screen) -> tuple[Region, ...]:
        """Return where changes were accepted since any were for another screen."""
        times = [change.at.timestamp() for change in other.history if not change.claim]
        latest = max(times, default=0.0)
        return tuple(
            change.region
            for change in self.history
            if change.region and change.at.timestamp() > latest
        )

    @property
    def gate(self) -> str:
        """The name of its image, such as `s7` or `end1`, which names the gates that
        compare with it; "" before it is written.
        """
        return self.image.removesuffix(".webp")


class RecordedStep(_Identified):
    """An action, the planner's reason (`intent`) and name (`call`) for it, and the
    screen before it.

    `answer` is the return value of a user's function; None where no function
    was called. `transients` are the transient frames after the action. They were gone
    when the screen was stable for the next step, `duration_s` later. `elements` are
    what it acted on, if known. They are for readers; no replay uses them.
    """

    id: str = Field(default="", pattern=r"^(s[1-9]\d*)?$")
    action: Annotated[Repeatable, Field(discriminator="kind")]
    intent: str = ""
    call: str = ""
    confirmation: Confirmation | None = None
    screen: Screen
    answer: str | None = None
    transients: tuple[Screen, ...] = ()
    duration_s: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    elements: Elements = ()

    @field_serializer("action")
    def _as_given(self, action: Any) -> JsonObject:
        defaults = {
            name: field.default
            for name, field in type(action).__dataclass_fields__.items()
        }
        return {"kind": action.kind} | {
            k: v for k, v in vars(action).items() if k != "kind" and v != defaults[k]
        }

    @property
    def proposal(self) -> Proposal:
        """Return the planner's proposal, with the fields that a policy looks at."""
        called = {"name": self.call or self.action.kind, "args": {}}
        return Proposal(self.action, self.intent, called, self.confirmation)


class Evidence(_Part):
    """A judge's answer about a screen: a claim `holds` or `fails`, or a `value` was
    read. `values` are those that the claim names, as they were then.
    """

    claim: str
    verdict: Literal["holds", "fails", "read"]
    value: Any = None
    reason: str = ""
    region: Region | None = None
    model: str = ""
    values: dict[str, str] = {}
    screen: Screen
    is_end: bool = Field(default=False, exclude=True, repr=False)
    """True for a task's recorded end, which is compared as its gate is: without what is
    masked or always changing.
    """

    def is_about(self, region: Region) -> bool:
        """Return whether it rests on what a region shows: without a region in the
        claim, on all but a caret.

        What was redacted when it was judged, it does not rest on.
        """
        is_met = (
            self.region.meets(region) if self.region else not region.is_within(CARET_PX)
        )
        return is_met and region not in self.screen.redacted

    @field_validator("region")
    @classmethod
    def _one_with_pixels(cls, region: Region | None) -> Region | None:
        """Return None for a region without a pixel on the screen, which a custom judge
        may give.
        """
        has_pixels = (
            region
            and max(0, region.left) < region.right
            and max(0, region.top) < region.bottom
        )
        return region if has_pixels else None


class Live(_Part):
    """The seconds that a planner's run took when it was recorded, and the dollars of
    its models at that day's prices.

    `dollars` include the judges of its claims. They are None if a price was unknown, if
    a service did not count a call, or if the planner reported no calls. `seconds` are
    of the run alone.
    """

    seconds: float = Field(ge=0, allow_inf_nan=False)
    dollars: float | None = Field(default=None, ge=0, allow_inf_nan=False)


class Segment(_Identified):
    """One task: its steps, the screen at its end, and the answers of judges from there
    until the next task.

    `stays` is true where the screen still showed the end once the test's body was over.
    `live` is None for a manual recording, and for one that a model only healed.
    `values` are those of the task when it was recorded; the task and its steps have their
    names. `confirmed_by` says who judged that the task was done at this end: `body` if
    `expect=None` left it to the test. `first_screen_s` is when the first screen was
    there, in seconds after the run started; None if that is not known.
    `first_stays_s` is how long it must stay before the first step, in seconds: a
    rehearsal has learned that the program takes no input at once.
    """

    id: str = Field(default="", pattern=r"^(t[1-9]\d*)?$")
    task: str
    values: dict[str, str] = {}
    planner: str = ""
    steps: tuple[RecordedStep, ...] = ()
    end: Screen
    stays: bool = False
    live: Live | None = None
    claims: tuple[Evidence, ...] = ()
    confirmed_by: Literal["judge", "user", "body"] = "body"
    first_screen_s: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    first_stays_s: float = Field(default=0.0, ge=0, allow_inf_nan=False)

    @property
    def screens(self) -> tuple[Screen, ...]:
        """The screen before each step, and the one at the end."""
        return (*(step.screen for step in self.steps), self.end)

    def points_at(self, number: int) -> tuple[Point, ...]:
        """Return where the step after `number` others acts; nowhere at the end."""
        if number == len(self.steps):
            return ()
        return points(self.steps[number].action)

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """The answers of judges, and last, if the end was judged, that the task is done
        there.
        """
        claim = end_state_claim(self.task)
        done = Evidence(
            claim=claim,
            verdict="holds",
            reason="its recorded end",
            screen=self.end,
            is_end=True,
        )
        return self.claims if self.confirmed_by == "body" else (*self.claims, done)

    def reworded(self, task: str) -> Segment:
        """Return the segment as it is replayed for a task with another text: its end
        was not judged for that.
        """
        former = end_state_claim(self.task)
        others = tuple(answer for answer in self.claims if answer.claim != former)
        return self.model_copy(
            update={"task": task, "confirmed_by": "body", "claims": others}
        )

    def why_unjudged(self, claims: Sequence[str]) -> str:
        """Return why the recording judges not all these claims, or without any, not the
        end; "" if it does.
        """
        if not claims and self.confirmed_by == "body":
            return "no user or judge confirmed its recording's end"
        judged = {
            evidence.claim for evidence in self.claims if evidence.verdict != "read"
        }
        missing = [claim for claim in claims if claim not in judged]
        return f"its recording has no verdict on {missing[0]!r}" if missing else ""

    @field_validator("planner")
    @classmethod
    def _without_its_server(cls, name: str) -> str:
        """Return the planner's name without the address of its server: a recording goes
        under version control.
        """
        return _SERVER.sub("", name)


class Recording(_Part):
    """All tasks of one test, a segment each.

    `after` is the test that had the desktop before, where tests share one. `masks` come
    from the user: no comparison looks at these parts of any screen. `claims` were
    judged before the first run. Where `redacts` is true, typed secrets are redacted in
    the images. `machine` is what drew the screens, such as the font of a generic family.
    `uses` are the named recordings that the test replays beside it, in their order.
    `last_segment` and `last_step` are the highest numbers that ids ever had (see
    `numbered`).
    """

    format: Literal["pytest-vnc-use recording"] = FORMAT
    version: int = VERSION
    test: str
    after: str = ""
    parameters: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    redacts: bool = False
    screen_size: tuple[_Length, _Length]
    machine: dict[str, str] = {}
    uses: tuple[str, ...] = ()
    masks: tuple[Region, ...] = ()
    claims: tuple[Evidence, ...] = ()
    last_segment: int = Field(default=0, ge=0)
    last_step: int = Field(default=0, ge=0)
    segments: tuple[Segment, ...] = ()

    @property
    def types_secrets(self) -> bool:
        """Return whether the test declares secrets, or a step types one."""
        texts = (getattr(step.action, "text", "") for step in self.steps)
        return bool(self.secrets) or any(map(SECRET_MARK.search, texts))

    def redacts_secrets(self, by_settings: bool) -> bool:
        """Return whether a replay redacts secrets: as its recording if one is typed,
        else as the settings say.
        """
        return self.redacts if self.types_secrets else by_settings

    @property
    def steps(self) -> tuple[RecordedStep, ...]:
        """The steps of all tasks."""
        return tuple(chain.from_iterable(segment.steps for segment in self.segments))

    @model_validator(mode="after")
    def _has_each_id_once(self) -> Recording:
        parts: list[_Identified] = [*self.segments, *self.steps]
        ids = [part.id for part in parts if part.id]
        for name in ids:
            if ids.count(name) > 1:
                raise ValueError(f"the id {name!r} must be given once")
        return self

    @property
    def history(self) -> dict[Accepted, str]:
        """The accepted changes, and where values show, each with the first screen that
        has it, such as "before step 2".
        """
        places: dict[Accepted, str] = {}
        for number, segment in enumerate(self.segments, 1):
            task = f" of task {number}" if len(self.segments) > 1 else ""
            names = [f"before step {at}" for at in range(1, len(segment.steps) + 1)]
            for name, screen in zip(
                [*names, "at the end"], segment.screens, strict=True
            ):
                for change in screen.accepted:
                    places.setdefault(change, name + task)
            for at, step in enumerate(segment.steps, 1):
                for screen in step.transients:
                    for change in screen.accepted:
                        place = f"after step {at}{task}, shown briefly"
                        # the sentence continues with the region
                        place += " at" if change.region else ""
                        places.setdefault(change, place)
        for screen in screens(self):
            for change in screen.accepted:
                places.setdefault(change, "")
        return places

    @model_validator(mode="after")
    def _has_each_image(self) -> Recording:
        parts = [*drawn(self)]
        digested = {part.image for part in parts if part.digest}
        if "" in digested:
            raise ValueError("a digest needs the name of its image")
        for part in parts:
            if part.image and part.image not in digested:
                raise ValueError(f"the image {part.image!r} needs a digest")
        return self

    @model_validator(mode="after")
    def _is_on_the_screen(self) -> Recording:
        width, height = self.screen_size
        for step in self.steps:
            for x, y in points(step.action):
                if not (0 <= x < width and 0 <= y < height):
                    raise ValueError(
                        f"({x}, {y}) is not on a screen of {width} x {height} pixels"
                    )
        regions = []
        masks = [*self.masks]
        for screen in screens(self):
            regions += [part.region for part in screen.dynamic]
            regions += screen.redacted
            masks += screen.masks
            shown = [value.region for value in screen.values]
            regions += shown
            if share_of(shown, (height, width)) > MAX_SHOWN:
                raise ValueError(
                    f"the regions of values must be at most {MAX_SHOWN:.0%} of a"
                    " screen together"
                )
        whole = Region(0, 0, width, height)
        for region in (*masks, *regions):
            if (
                region.left >= region.right
                or region.top >= region.bottom
                or not region.is_part_of(whole)
            ):
                raise ValueError(
                    "a region must be on the screen, its right and bottom beyond left"
                    f" and top, got {region}"
                )
        if whole in masks:
            raise ValueError(
                f"a mask must leave something to compare, {whole} is the whole screen"
            )
        return self


_Identifiable = TypeVar("_Identifiable", bound=_Identified)


class _Ids:
    """The ids of parts of one kind: a letter, and a number above all before."""

    def __init__(self, letter: str, last: int, parts: Iterable[_Identified]) -> None:
        self._letter = letter
        self.last = max([last, *(part.number for part in parts)])

    def given(self, part: _Identifiable) -> _Identifiable:
        """Return the part, with a new id if it has none."""
        if part.id:
            return part
        self.last += 1
        return part.model_copy(update={"id": f"{self._letter}{self.last}"})


def numbered(recording: Recording) -> Recording:
    """Return the recording with ids: a segment or step without one gets a number above
    all that this recording ever gave.

    So an id stays with its step where others are inserted or dropped. A file without
    ids gets them by position.
    """
    segment_ids = _Ids("t", recording.last_segment, recording.segments)
    step_ids = _Ids("s", recording.last_step, recording.steps)
    segments = [
        segment.model_copy(update={"steps": tuple(map(step_ids.given, segment.steps))})
        for segment in map(segment_ids.given, recording.segments)
    ]
    return recording.model_copy(
        update={
            "segments": tuple(segments),
            "last_segment": segment_ids.last,
            "last_step": step_ids.last,
        }
    )


class NamedScreen(NamedTuple):
    """A screen of a recording, with the name of its image without `.webp`."""

    name: str
    screen: Screen
    kind: Literal["gate", "transient", "claim"] = "gate"


def named_screens(recording: Recording) -> Iterator[NamedScreen]:
    """Yield all screens of a recording in file order, with the names that their ids
    give.
    """
    for number, evidence in enumerate(recording.claims, 1):
        yield NamedScreen(f"claim{number}", evidence.screen, kind="claim")
    for segment in recording.segments:
        for step in segment.steps:
            yield NamedScreen(step.id, step.screen)
            for number, screen in enumerate(step.transients, 1):
                yield NamedScreen(
                    f"{step.id}-transient{number}", screen, kind="transient"
                )
        yield NamedScreen(f"end{segment.number}", segment.end)
        for number, evidence in enumerate(segment.claims, 1):
            name = f"{segment.id}-claim{number}"
            yield NamedScreen(name, evidence.screen, kind="claim")


def screens(recording: Recording) -> Iterator[Screen]:
    """Yield all screens of a recording in file order."""
    return (named.screen for named in named_screens(recording))


def drawn(recording: Recording) -> Iterator[Drawn]:
    """Yield all that has an image: the screens, and the variants of their regions."""
    for screen in screens(recording):
        yield screen
        for part in screen.dynamic:
            yield from part.variants


def with_screens(
    recording: Recording, replaced: Callable[[Screen], Screen]
) -> Recording:
    """Return the recording with each screen replaced by `replaced(screen)`, called once
    for each, in file order.
    """
    new = map(replaced, screens(recording))

    def judged(claims: tuple[Evidence, ...]) -> tuple[Evidence, ...]:
        return tuple(
            evidence.model_copy(update={"screen": next(new)}) for evidence in claims
        )

    def stepped(step: RecordedStep) -> RecordedStep:
        transients = step.transients
        return step.model_copy(
            update={
                "screen": next(new),
                "transients": tuple(next(new) for _ in transients),
            }
        )

    def carried_out(run: Segment) -> Segment:
        steps = tuple(map(stepped, run.steps))
        return run.model_copy(
            update={"steps": steps, "end": next(new), "claims": judged(run.claims)}
        )

    claims = judged(recording.claims)
    return recording.model_copy(
        update={
            "claims": claims,
            "segments": tuple(map(carried_out, recording.segments)),
        }
    )
