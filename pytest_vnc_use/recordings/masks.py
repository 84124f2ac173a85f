"""Masks: regions that no comparison looks at, on each screen of a test, or on one
screenshot alone, which its gate and the claims that were judged on it are compared
with. What shows a value is a region of one screenshot too.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence

from pytest_vnc_use import clock
from pytest_vnc_use.backends.pixels import box_of
from pytest_vnc_use.errors import RecordingError
from pytest_vnc_use.interactive import user_name
from pytest_vnc_use.recordings.format import (
    MAX_SHOWN,
    NamedScreen,
    Recording,
    Screen,
    Segment,
    ShownValue,
    named_screens,
    share_of,
    with_screens,
)
from pytest_vnc_use.recordings.gates import mask_of
from pytest_vnc_use.recordings.images import differing
from pytest_vnc_use.recordings.names import name_in
from pytest_vnc_use.types import CARET_PX, Region
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
    _check_on_screen(recording, masks)
    if gate:

        def masked(screen: Screen) -> Screen:
            return screen.model_copy(update={"masks": joined(screen.masks, masks)})

        changed = _changed_at(recording, gate, masked)
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


def with_values(
    recording: Recording, name: str, regions: Sequence[Region], gate: str
) -> Recording:
    """Return the recording with regions of one screenshot that show a value, in place of
    what showed there. Raises RecordingError as `with_masks` does, and where its tasks
    have no such value.
    """
    names: dict[str, None] = {}
    for segment in recording.segments:
        names |= dict.fromkeys(segment.values)
    if name not in names:
        there = ", ".join(map(repr, names)) or "none"
        raise RecordingError(
            f"{recording.test!r} has no value {name!r} in a task. Its values are: {there}"
        )
    _check_on_screen(recording, regions)
    added = stated(name, regions)

    def shown(screen: Screen) -> Screen:
        values = with_places(screen.values, added)
        check_share(values, recording.screen_size)
        return screen.model_copy(update={"values": values})

    return _changed_at(recording, gate, shown)


def with_value(segment: Segment, name: str, region: Region, on: Screen) -> Segment:
    """Return a new segment whose screens show a value in a region, if they show the same
    there as the one `on` which a user has marked it, but for a caret. Raises
    RecordingError where that is too much of a screen.
    """
    marked = on.pixels()
    height, width = marked.shape
    _check_within(region, width, height)
    added = stated(name, [region])

    def shown(screen: Screen) -> Screen:
        differs = region.part_of(differing(marked, screen.pixels()))
        if differs.any() and not box_of(differs).is_within(CARET_PX):
            return screen
        values = with_places(screen.values, added)
        check_share(values, (width, height))
        return screen.model_copy(update={"values": values})

    steps = []
    for step in segment.steps:
        steps.append(step.model_copy(update={"screen": shown(step.screen)}))
    fields = {"steps": tuple(steps), "end": shown(segment.end)}
    return segment.model_copy(update=fields)


def without(
    recording: Recording, regions: Sequence[Region], gate: str = "", value: str = ""
) -> Recording:
    """Return the recording without these masks, or with a `value`, without these places
    of it. Raises RecordingError where it has no such gate.
    """
    if not gate:
        masks = [mask for mask in recording.masks if mask not in regions]
        return recording.model_copy(update={"masks": tuple(masks)})

    def changed(screen: Screen) -> Screen:
        if not value:
            masks = [mask for mask in screen.masks if mask not in regions]
            return screen.model_copy(update={"masks": tuple(masks)})
        values = []
        for shown in screen.values:
            if shown.name != value or shown.region not in regions:
                values.append(shown)
        return screen.model_copy(update={"values": tuple(values)})

    return _changed_at(recording, gate, changed)


def gates_with(
    recording: Recording, regions: Sequence[Region], value: str = ""
) -> list[str]:
    """Return the gates at which one of these regions alone is masked, or with a `value`,
    shows it. Each screenshot is named once.
    """
    gates: dict[str, str] = {}
    for named in named_screens(recording):
        screen = named.screen
        masked = [*screen.masks]
        if value:
            masked = [shown.region for shown in screen.values if shown.name == value]
        if any(mask in regions for mask in masked):
            gates.setdefault(screen.image, named.name)
    return [*gates.values()]


def stated(name: str, regions: Iterable[Region]) -> list[ShownValue]:
    """Return the statement of this process's user that regions show a value."""
    by = user_name()
    at = clock.utc_now().replace(microsecond=0)
    return [ShownValue(name=name, region=region, by=by, at=at) for region in regions]


def with_places(
    values: Iterable[ShownValue], added: Iterable[ShownValue]
) -> tuple[ShownValue, ...]:
    """Return what shows on a screen once more places are stated: a place has one value,
    the newest.
    """
    shown = [*values]
    for new in added:
        if any((new.name, new.region) == (old.name, old.region) for old in shown):
            continue
        others = []
        for old in shown:
            is_same = old.region.is_part_of(new.region)
            is_same |= new.region.is_part_of(old.region)
            if not is_same:
                others.append(old)
        shown = [*others, new]
    return tuple(shown)


def check_share(values: Iterable[ShownValue], size: tuple[int, int]) -> None:
    """Raise RecordingError where values would show on too much of a screen of a width
    and a height.
    """
    share = share_of((value.region for value in values), size[::-1])
    if share > MAX_SHOWN:
        raise RecordingError(
            f"the regions of values would be {share:.0%} of a screen, the maximum is"
            f" {MAX_SHOWN:.0%}: choose only the cell or line that shows the value"
        )


def _check_on_screen(recording: Recording, regions: Iterable[Region]) -> None:
    for region in regions:
        _check_within(region, *recording.screen_size, f" of {recording.test!r}")


def _check_within(region: Region, width: int, height: int, of: str = "") -> None:
    if not region.is_part_of(Region(0, 0, width, height)):
        raise RecordingError(
            f"the region {region} is not on the screen{of}, which is {width}x{height}"
        )


def _changed_at(
    recording: Recording, gate: str, change: Callable[[Screen], Screen]
) -> Recording:
    """Return the recording with a change of one screenshot. Raises RecordingError."""
    concerned = [named.screen for named in _at(recording, gate)]

    def changed(screen: Screen) -> Screen:
        is_concerned = any(screen is other for other in concerned)
        return change(screen) if is_concerned else screen

    return with_screens(recording, changed)


def joined(masks: Sequence[Region], others: Iterable[Region]) -> tuple[Region, ...]:
    """Return these masks, and those of the others that are not among them."""
    return (*masks, *(mask for mask in others if mask not in masks))


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


def mask_command(
    test: str, masks: Iterable[Region], gate: str = "", value: str = ""
) -> str:
    """Return the command that writes masks into a test's recordings, or where the gate's
    screen shows a value.
    """
    command = ["cua-vnc", "mask", test]
    for mask in masks:
        command.append(f"{mask.left},{mask.top},{mask.right},{mask.bottom}")
    if gate:
        command += ["--at", gate]
    if value:
        command += ["--value", value]
    return shlex.join(command)
