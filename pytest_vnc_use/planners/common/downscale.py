"""A planner and a judge that wrap others and first scale pictures down to a number of bytes."""

from __future__ import annotations

import functools
import hashlib
import math
from dataclasses import dataclass, replace

from pytest_vnc_use.planners.common.judge import ScreenJudge
from pytest_vnc_use.planners.common.pixels import PictureLimit, png_size, resized
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


@dataclass(frozen=True)
class SmallerPictures:
    """A Planner that limits each picture that `planner` loads to `most_bytes` (0: any), as long as it has pixels left.

    A wrapped planner that counts in pixels reads the sent size from the picture itself. `limit` is the size limit of
    the wrapped planner. It is applied first, because a picture may take more bytes in a smaller size. `box` is the
    width and the height that a picture must fit into.
    """

    planner: Planner
    most_bytes: int
    limit: PictureLimit | None = None
    box: tuple[int, int] | None = None

    @property
    def name(self) -> str:
        """The name of the wrapped planner."""
        return self.planner.name

    def decide(self, observation: Observation, *, timeout_s: float) -> Decision:
        """Return the planner's next turn. Raises PlannerError."""

        @functools.cache
        def load(screen: FrameRef) -> bytes:
            return reduced(observation.load_png(screen), self.most_bytes, self.limit, self.box)

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
