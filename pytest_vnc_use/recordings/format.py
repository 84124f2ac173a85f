"""The file format of a recording, versioned: a readable line for each step and each claim.

A directory of the same name, beside the file, holds its images: of each screen the part that differs from the screen
before it, of each step the surroundings of its target, of each run the end. The names of images end in a digest of
their content.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, Union

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, field_serializer, field_validator, model_validator

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
from pytest_vnc_use.types.actions import points
from pytest_vnc_use.types.elements import Elements
from pytest_vnc_use.types.verdicts import end_state_claim

MANUAL = "manual"
"""The planner of a run that was recorded by hand."""
_SERVER = re.compile(r" at [^\s()]+(?=\)$)")
FORMAT: Literal["pytest-vnc-use recording"] = "pytest-vnc-use recording"
VERSION = 5
"""Older versions are rejected: what they lack, such as how long a toast was shown, is unknown."""

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
MAX_STABLE_S = 60.0
_Position = Annotated[int, Field(ge=0, le=65535)]
_Length = Annotated[int, Field(ge=1, le=65535)]
"""A number of pixels that VNC can express."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Drawn(_Part):
    """Something that is stored as an image; `pixels` loads them. None are stored of what has not been seen."""

    image: str = Field(default="", pattern=_IMAGE)
    pixels: Callable[[], Pixels] = Field(default=lambda: np.zeros((0, 0), np.uint32), exclude=True, repr=False)


class Variant(_Drawn):
    """One content of a dynamic region."""


class DynamicRegion(_Part):
    """A region of a screen that always changes, in pixels.

    A `caret` may be there or not. A region that `blinks` shows its `variants` in turn, and must show all of them.
    An `unstable` region shows one of its `variants`. An `always_changing` region, such as a clock, has none, and is not
    compared.
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
    region: Region, kind: Literal["caret", "blinks", "unstable", "always_changing"], *variants: Pixels
) -> DynamicRegion:
    """Return a dynamic region that has shown these variants."""
    return DynamicRegion(**vars(region), kind=kind, variants=tuple(Variant(pixels=held(pixels)) for pixels in variants))


def held(pixels: Pixels) -> Callable[[], Pixels]:
    """Return a function that returns these pixels."""
    return lambda: pixels


def merged(parts: Iterable[DynamicRegion]) -> tuple[DynamicRegion, ...]:
    """Return the dynamic regions, each region once, without those that lie within another."""
    distinct = tuple({part.region: part for part in parts}.values())
    regions = [part.region for part in distinct]
    return tuple(part for part in distinct if sum(map(part.region.is_part_of, regions)) == 1)


class Screen(_Drawn):
    """A stable screen, as an image of the part that differs from the screen before it.

    `at` is the top left corner of that image. `dynamic` are the regions that always change, `redacted`
    those over which a typed secret is redacted. Nothing else changed in the `stable_s` seconds before.
    """

    at: tuple[_Position, _Position] = (0, 0)
    dynamic: tuple[DynamicRegion, ...] = ()
    redacted: tuple[Region, ...] = ()
    stable_s: float = Field(default=0.0, ge=0, le=MAX_STABLE_S)


class RecordedStep(_Part):
    """An action, the planner's reason (`intent`) and name (`call`) for it, and the screen before it.

    `target` is an image of the target's surroundings, for a user who reads the recording. `answer` is the return value
    of a user's function; None where no function was called. `transients` are the transient frames after the action.
    They were gone when the screen was stable for the next step, `duration_s` later. `elements` are what it
    acted on, if known. They are for readers; no replay uses them.
    """

    action: Annotated[Repeatable, Field(discriminator="kind")]
    intent: str = ""
    call: str = ""
    confirmation: Confirmation | None = None
    target: str = Field(default="", pattern=_IMAGE)
    screen: Screen
    answer: str | None = None
    transients: tuple[Screen, ...] = ()
    duration_s: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    elements: Elements = ()

    @field_serializer("action")
    def _as_given(self, action: Any) -> JsonObject:
        defaults = {name: field.default for name, field in type(action).__dataclass_fields__.items()}
        return {"kind": action.kind} | {k: v for k, v in vars(action).items() if k != "kind" and v != defaults[k]}

    @property
    def proposal(self) -> Proposal:
        """Return the planner's proposal, with the fields that a policy looks at."""
        called = {"name": self.call or self.action.kind, "args": {}}
        return Proposal(self.action, self.intent, called, self.confirmation)


class Evidence(_Part):
    """A judge's answer about a screen: a claim `holds` or `fails`, or a `value` was read."""

    claim: str
    verdict: Literal["holds", "fails", "read"]
    value: Any = None
    reason: str = ""
    region: Region | None = None
    model: str = ""
    screen: Screen
    is_end: bool = Field(default=False, exclude=True, repr=False)
    """True for a task's recorded end, which is compared as its gate is: without what is masked or always changing."""

    def is_about(self, region: Region) -> bool:
        """Return whether it rests on what a region shows: without a region in the claim, on all but a caret.

        What was redacted when it was judged, it does not rest on.
        """
        is_met = self.region.meets(region) if self.region else not region.is_within(CARET_PX)
        return is_met and region not in self.screen.redacted

    @field_validator("region")
    @classmethod
    def _one_with_pixels(cls, region: Region | None) -> Region | None:
        """Return None for a region without a pixel on the screen, which a custom judge may give."""
        has_pixels = region and max(0, region.left) < region.right and max(0, region.top) < region.bottom
        return region if has_pixels else None


class Live(_Part):
    """The seconds that a planner's run took when it was recorded, and the dollars of its models at that day's prices.

    `dollars` include the judges of its claims. They are None if a price was unknown, if a service did not count a call,
    or if the planner reported no calls. `seconds` are of the run alone.
    """

    seconds: float = Field(ge=0, allow_inf_nan=False)
    dollars: float | None = Field(default=None, ge=0, allow_inf_nan=False)


class RecordedRun(_Part):
    """One task: its steps, the screen at its end, and the answers of judges from there until the next task.

    `image` shows the whole end, for a user who reads the recording. `stays` is true where the screen still showed the
    end once the test's body was over. `live` is None for a manual recording, and for one that a model only healed.
    `confirmed_by` says who judged that the task was done at this end: `body` if `expect=None` left it to the test.
    `first_screen_s` is when the first screen was there, in seconds after the run started; None if that is not known.
    """

    task: str
    planner: str = ""
    steps: tuple[RecordedStep, ...] = ()
    end: Screen
    image: str = Field(default="", pattern=_IMAGE)
    stays: bool = False
    live: Live | None = None
    claims: tuple[Evidence, ...] = ()
    confirmed_by: Literal["judge", "user", "body"] = "body"
    first_screen_s: float | None = Field(default=None, ge=0, allow_inf_nan=False)

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """The answers of judges, and last, if the end was judged, that the task is done there."""
        claim = end_state_claim(self.task)
        done = Evidence(claim=claim, verdict="holds", reason="its recorded end", screen=self.end, is_end=True)
        return self.claims if self.confirmed_by == "body" else (*self.claims, done)

    def why_unjudged(self, claims: Sequence[str]) -> str:
        """Return why the recording judges not all these claims, or without any, not the end; "" if it does."""
        if not claims:
            return "" if self.confirmed_by != "body" else "no user or judge confirmed its recording's end"
        judged = {evidence.claim for evidence in self.claims if evidence.verdict != "read"}
        missing = [claim for claim in claims if claim not in judged]
        return f"its recording has no verdict on {missing[0]!r}" if missing else ""

    @field_validator("planner")
    @classmethod
    def _without_its_server(cls, name: str) -> str:
        """Return the planner's name without the address of its server: a recording goes under version control."""
        return _SERVER.sub("", name)

    def claims_hidden_by(self, masks: Sequence[Region]) -> list[str]:
        """Return the claims that masks leave without evidence: these must be judged again, the end not."""
        return [
            evidence.claim
            for evidence in self.claims
            if evidence.claim != end_state_claim(self.task) and any(map(evidence.is_about, masks))
        ]


class Accepted(_Drawn):
    """A change of the product that a reviewer accepted: who, when (ISO 8601), where, and how it looks there now.

    `location` is the first recorded screen with it, such as "before step 2". With a `claim`, the reviewer confirmed
    that it still holds with this change. `steps` says which steps replaced recorded ones, and who performed
    them.
    """

    by: str
    at: datetime
    location: str = ""
    region: Region | None = None
    claim: str = ""
    steps: str = ""


class Recording(_Part):
    """All runs of one test.

    `after` is the test that had the desktop before, where tests share one. `masks` come from the user: no comparison
    looks at these parts of the screen. `claims` were judged before the first run. Where `redacts` is true, typed
    secrets are redacted in the images. `history` are the accepted changes, the oldest first; their images are kept.
    `machine` is what drew the screens, such as the font of a generic family.
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
    masks: tuple[Region, ...] = ()
    claims: tuple[Evidence, ...] = ()
    runs: tuple[RecordedRun, ...] = ()
    history: tuple[Accepted, ...] = ()

    @property
    def types_secrets(self) -> bool:
        """Return whether the test declares secrets, or a step types one."""
        texts = (getattr(step.action, "text", "") for run in self.runs for step in run.steps)
        return bool(self.secrets) or any(map(SECRET_MARK.search, texts))

    def redacts_secrets(self, by_settings: bool) -> bool:
        """Return whether a replay redacts secrets: as its recording if one is typed, else as the settings say."""
        return self.redacts if self.types_secrets else by_settings

    @model_validator(mode="after")
    def _is_on_the_screen(self) -> Recording:
        width, height = self.screen_size
        for step in (step for run in self.runs for step in run.steps):
            for x, y in points(step.action):
                if not (0 <= x < width and 0 <= y < height):
                    raise ValueError(f"({x}, {y}) is not on a screen of {width} x {height} pixels")
        regions = [part.region for screen in screens(self) for part in screen.dynamic]
        regions += [region for screen in screens(self) for region in screen.redacted]
        whole = Region(0, 0, width, height)
        for region in (*self.masks, *regions):
            if region.left >= region.right or region.top >= region.bottom or not region.is_part_of(whole):
                raise ValueError(
                    f"a region must be on the screen, its right and bottom beyond left and top, got {region}"
                )
        if whole in self.masks:
            raise ValueError(f"a mask must leave something to compare, {whole} is the whole screen")
        return self


def named_screens(recording: Recording) -> Iterator[tuple[str, Screen]]:
    """Yield all screens of a recording in file order, with the beginning of the name of the image.

    Each image shows the difference from the screen before.
    """
    yield from ((f"0-claim{number}", evidence.screen) for number, evidence in enumerate(recording.claims, 1))
    for run_number, run in enumerate(recording.runs, 1):
        for step_number, step in enumerate(run.steps, 1):
            name = f"{run_number}-{step_number:02}"
            yield f"{name}-screen", step.screen
            yield from ((f"{name}-transient{number}", screen) for number, screen in enumerate(step.transients, 1))
        yield f"{run_number}-last", run.end
        yield from ((f"{run_number}-claim{number}", evidence.screen) for number, evidence in enumerate(run.claims, 1))


def screens(recording: Recording) -> Iterator[Screen]:
    """Yield all screens of a recording in file order."""
    return (screen for _, screen in named_screens(recording))


def with_screens(recording: Recording, replaced: Callable[[Screen], Screen]) -> Recording:
    """Return the recording with each screen replaced by `replaced(screen)`, called once for each, in file order."""
    new = map(replaced, screens(recording))

    def judged(claims: tuple[Evidence, ...]) -> tuple[Evidence, ...]:
        return tuple(evidence.model_copy(update={"screen": next(new)}) for evidence in claims)

    def stepped(step: RecordedStep) -> RecordedStep:
        transients = step.transients
        return step.model_copy(update={"screen": next(new), "transients": tuple(next(new) for _ in transients)})

    def carried_out(run: RecordedRun) -> RecordedRun:
        steps = tuple(map(stepped, run.steps))
        return run.model_copy(update={"steps": steps, "end": next(new), "claims": judged(run.claims)})

    claims = judged(recording.claims)
    return recording.model_copy(update={"claims": claims, "runs": tuple(map(carried_out, recording.runs))})
