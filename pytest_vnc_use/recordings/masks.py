"""Masks: regions that no comparison looks at, on each screen of a test, or on one
screenshot alone, which its gate and the claims that were judged on it are compared
with.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

from pytest_vnc_use.errors import RecordingError
from pytest_vnc_use.recordings.format import (
    NamedScreen,
    Recording,
    Screen,
    named_screens,
    with_screens,
)
from pytest_vnc_use.recordings.gates import mask_of
from pytest_vnc_use.recordings.names import name_in
from pytest_vnc_use.types import Region
from pytest_vnc_use.types.verdicts import end_state_claim

MAX_MASKED = 0.5
"""The largest share of a screen that masks may hide."""


def with_masks(
    recording: Recording, masks: Sequence[Region], gate: str = ""
) -> Recording:
    """Return the recording with more masks: of all its screens, or of one screenshot.
    Raises RecordingError where they are not on the screen, or hide too much of it, or
    where the recording has no such gate.
    """
    width, height = recording.screen_size
    for mask in masks:
        if not mask.is_part_of(Region(0, 0, width, height)):
            raise RecordingError(
                f"the region {mask} is not on the screen of {recording.test!r}, which is"
                f" {width}x{height}"
            )
    if gate:
        changed = _masked_at(recording, masks, gate)
    else:
        all_masks = joined(recording.masks, masks)
        changed = recording.model_copy(update={"masks": all_masks})
    for named in named_screens(changed):
        hidden = (*changed.masks, *named.screen.masks)
        share = float(mask_of(hidden, (height, width)).mean())
        if share > MAX_MASKED:
            raise RecordingError(
                f"the masks of {recording.test!r} would hide {share:.0%} of the screen"
                f" {named.name}, the maximum is {MAX_MASKED:.0%}: mask only what changes"
                " on its own"
            )
    return changed


def _masked_at(recording: Recording, masks: Sequence[Region], gate: str) -> Recording:
    """Return the recording with more masks of the screenshot of a gate. Raises
    RecordingError.
    """
    concerned = [named.screen for named in _at(recording, gate)]

    def masked(screen: Screen) -> Screen:
        if not any(screen is other for other in concerned):
            return screen
        return screen.model_copy(update={"masks": joined(screen.masks, masks)})

    return with_screens(recording, masked)


def joined(masks: Sequence[Region], others: Iterable[Region]) -> tuple[Region, ...]:
    """Return these masks, and those of the others that are not among them."""
    new = [mask for mask in others if mask not in masks]
    return (*masks, *new)


def _at(recording: Recording, gate: str) -> list[NamedScreen]:
    """Return the screens with the screenshot of a gate. Raises RecordingError."""
    screens = [*named_screens(recording)]
    images = {named.screen.image for named in screens if named.name == gate}
    if not images:
        gates = [named.name for named in screens if named.kind == "gate"]
        raise RecordingError(
            f"{recording.test!r} has no gate {gate!r}: it has {', '.join(gates)}"
        )
    return [named for named in screens if named.screen.image in images]


def format_concerned(
    recording: Recording, masks: Sequence[Region], gate: str = ""
) -> str:
    """Return which gates and claims these masks concern, such as `s7`, or
    `all 9 gates; the claim 'the total is 3.00' is unsure where it differs`.
    """
    concerned = _at(recording, gate) if gate else [*named_screens(recording)]
    gates = [named.name for named in concerned if named.kind == "gate"]
    text = f"all {len(gates)} gates"
    if gate:
        text = " and ".join(gates)
    screens = [named.screen for named in concerned]
    for claim in _claims(recording, screens, masks):
        text += f"; the claim {claim!r} is unsure where it differs"
    return text


def format_offer(
    recording: Recording, masks: Sequence[Region], gate: str, test: str
) -> list[str]:
    """Return the commands that mask these regions, a line each: in the whole test, and
    at this gate alone.
    """
    width, height = recording.screen_size
    hidden_px = int(mask_of(masks, (height, width)).sum())
    in_test = format_concerned(recording, masks)
    at_gate = format_concerned(recording, masks, gate)
    where = "all its tests" if name_in(recording.test) else "the test"
    return [
        f"If that region changes on its own, mask it ({hidden_px:,} px) in {where}"
        f" ({in_test}):",
        f"  {mask_command(test, masks)}",
        f"or at this gate only ({at_gate}):",
        f"  {mask_command(test, masks, gate)}",
    ]


def _claims(
    recording: Recording, screens: Sequence[Screen], masks: Sequence[Region]
) -> list[str]:
    """Return the claims that were judged on one of these screens, by what masks hide.
    The end of a task is not among them: it is compared without what is masked.
    """
    ends = [end_state_claim(segment.task) for segment in recording.segments]
    evidence = [*recording.claims]
    for segment in recording.segments:
        evidence += segment.claims
    claims = []
    for answer in evidence:
        is_on_one = any(answer.screen is screen for screen in screens)
        is_masked = any(map(answer.is_about, masks))
        if is_on_one and is_masked and answer.claim not in ends:
            claims.append(answer.claim)
    return claims


def mask_command(test: str, masks: Iterable[Region], gate: str = "") -> str:
    """Return the command that writes masks into a test's recordings."""
    command = ["cua-vnc", "mask", test]
    for mask in masks:
        command.append(f"{mask.left},{mask.top},{mask.right},{mask.bottom}")
    if gate:
        command += ["--at", gate]
    return shlex.join(command)
