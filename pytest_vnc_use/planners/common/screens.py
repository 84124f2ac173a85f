"""Screenshots scaled down for a model, and its points scaled back."""

from __future__ import annotations

import functools
import hashlib
import io
import math
from dataclasses import dataclass, replace
from typing import Any

from PIL import Image

from pytest_vnc_use.planners.common.arguments import Unreadable, number_of
from pytest_vnc_use.planners.common.judge import ScreenJudge
from pytest_vnc_use.types import (
    Decision,
    Frame,
    FrameRef,
    JsonObject,
    Observation,
    Reading,
    Region,
    Report,
    Verdict,
    report_to_nobody,
)
from pytest_vnc_use.types.protocols import Planner

MOST_KILOBYTES = 200
"""The largest PNG that an agent in a browser sends in its full size."""


@dataclass(frozen=True)
class PictureLimit:
    """The largest picture that a service uses unscaled: its longest side, and how many square patches cover it."""

    longest_side: int
    patch: int
    patches: int

    def fitted(self, width: int, height: int) -> tuple[int, int]:
        """Return the largest size of the same shape within the limit, in pixels."""
        longest = max(width, height)
        sides = range(min(self.longest_side, longest), 0, -1)
        sizes = ((max(1, round(width * side / longest)), max(1, round(height * side / longest))) for side in sides)
        return next(
            (across, down)
            for across, down in sizes
            if math.ceil(across / self.patch) * math.ceil(down / self.patch) <= self.patches
        )

    def fit(self, png: bytes) -> bytes:
        """Return the PNG in the largest size within the limit; unchanged if it has that size."""
        return resized(png, self.fitted(*png_size(png)))


def png_size(png: bytes) -> tuple[int, int]:
    """Return width and height of a PNG in pixels."""
    with Image.open(io.BytesIO(png)) as picture:
        size: tuple[int, int] = picture.size
    return size


def resized(png: bytes, size: tuple[int, int]) -> bytes:
    """Return the PNG in another size; unchanged if it has that size."""
    with Image.open(io.BytesIO(png)) as picture:
        if picture.size == size:
            return png
        file = io.BytesIO()
        picture.resize(size, Image.Resampling.LANCZOS).save(file, "PNG")
    return file.getvalue()


@dataclass(frozen=True)
class SentScreen:
    """A screen, and the size of the picture of it that a model got."""

    screen: FrameRef
    width: int
    height: int

    @classmethod
    def within(cls, limit: PictureLimit, screen: FrameRef) -> SentScreen:
        """Return the screen with the largest size within the limit."""
        return cls(screen, *limit.fitted(screen.width, screen.height))

    @classmethod
    def of_picture(cls, png: bytes, limit: PictureLimit, screen: FrameRef) -> SentScreen:
        """Return the screen with the size of a picture that may be smaller than the screen, within the limit."""
        return cls(screen, *limit.fitted(*png_size(png)))

    def point(self, x: Any, y: Any) -> tuple[int, int]:
        """Return the screen's pixel under a pixel of the picture. Raises Unreadable if it is outside the picture."""
        return _scaled("x", x, self.width, self.screen.width), _scaled("y", y, self.height, self.screen.height)


def _scaled(name: str, value: Any, sent: int, real: int) -> int:
    number = number_of(name, value)
    if not 0 <= number <= sent:
        raise Unreadable(f"{name!r} must lie on the screenshot, 0 to {sent - 1}, got {value!r}")
    return min(int((number + 0.5) * real / sent), real - 1)


@dataclass(frozen=True)
class SmallerPictures:
    """A Planner that limits each picture that `planner` loads to `most_bytes` (0: any), as long as it has pixels left.

    A wrapped planner that counts in pixels reads the sent size from the picture itself. `limit` is the size limit of
    the wrapped planner. It is applied first, because a picture may take more bytes in a smaller size. `box` is the
    width and the height that a picture must fit into; with `exactly` it gets that size, whatever its own shape.
    """

    planner: Planner
    most_bytes: int
    limit: PictureLimit | None = None
    box: tuple[int, int] | None = None
    exactly: bool = False

    @property
    def name(self) -> str:
        """The name of the wrapped planner."""
        return self.planner.name

    def decide(self, observation: Observation, *, timeout_s: float) -> Decision:
        """Return the planner's next turn. Raises PlannerError."""

        @functools.cache
        def load(screen: FrameRef) -> bytes:
            png = observation.load_png(screen)
            if self.exactly and self.box:
                return reduced(resized(png, self.box), self.most_bytes)
            return reduced(png, self.most_bytes, self.limit, self.box)

        return self.planner.decide(replace(observation, load_png=load), timeout_s=timeout_s)


@dataclass(frozen=True)
class SmallerFrames:
    """A Judge and Reader that gives `whole` smaller screens, and scales its regions back.

    `most_bytes`, `limit` and `box` are as for SmallerPictures.
    """

    whole: ScreenJudge
    most_bytes: int
    limit: PictureLimit | None = None
    box: tuple[int, int] | None = None

    def judge(self, claim: str, frame: Frame, *, timeout_s: float, report: Report = report_to_nobody) -> Verdict:
        """Return the verdict on the frame. Raises PlannerError."""
        smaller = self._smaller(frame)
        verdict = self.whole.judge(claim, smaller, timeout_s=timeout_s, report=report)
        return replace(verdict, region=_scale(verdict.region, smaller.ref, frame.ref), frame=frame.ref)

    def read(
        self, question: str, schema: JsonObject, frame: Frame, *, timeout_s: float, report: Report = report_to_nobody
    ) -> Reading:
        """Return the value that was read off the frame. Raises PlannerError, Inconclusive."""
        smaller = self._smaller(frame)
        reading = self.whole.read(question, schema, smaller, timeout_s=timeout_s, report=report)
        return replace(reading, region=_scale(reading.region, smaller.ref, frame.ref), frame=frame.ref)

    def _smaller(self, frame: Frame) -> Frame:
        png = reduced(frame.png, self.most_bytes, self.limit, self.box)
        if png is frame.png:
            return frame
        return replace(frame, ref=FrameRef(hashlib.sha256(png).hexdigest(), *png_size(png)), png=png)


def _scale(region: Region | None, seen: FrameRef, real: FrameRef) -> Region | None:
    """Return the region of the screen for a region of a smaller picture of it."""
    if region is None:
        return None
    right, down = real.width / seen.width, real.height / seen.height
    return Region(
        int(region.left * right), int(region.top * down), round(region.right * right), round(region.bottom * down)
    )


def halved(png: bytes) -> bytes:
    """Return the PNG; in half its width and height if it has more than 200 KB."""
    if len(png) <= MOST_KILOBYTES * 1000:
        return png
    width, height = png_size(png)
    return resized(png, (max(1, width // 2), max(1, height // 2)))


def reduced(
    png: bytes, most_bytes: int, limit: PictureLimit | None = None, box: tuple[int, int] | None = None
) -> bytes:
    """Return the PNG, scaled down in its own shape until it is within limit and box, and has at most `most_bytes`.

    A single pixel stays as it is, whatever its bytes.
    """
    sent = limit.fit(png) if limit else png
    width, height = png_size(sent)
    if box and (width > box[0] or height > box[1]):
        factor = min(box[0] / width, box[1] / height)
        width, height = max(1, round(width * factor)), max(1, round(height * factor))
        sent = resized(png, (width, height))
    while 0 < most_bytes < len(sent) and (width, height) != (1, 1):
        factor = min(0.9, math.sqrt(most_bytes / len(sent)))
        width, height = max(1, int(width * factor)), max(1, int(height * factor))
        sent = resized(png, (width, height))
    return sent
