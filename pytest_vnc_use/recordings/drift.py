"""A gate that stayed closed: what the machine has to do with it, and what the user can
do about it.

A mask that is offered covers the whole line of text or cell that differs, not today's
digit. Of a control's border it covers the border only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from pytest_vnc_use.backends.pixels import APART_PX, boxes_of
from pytest_vnc_use.errors import VncUseError
from pytest_vnc_use.interactive import is_ci
from pytest_vnc_use.recordings import AGAIN
from pytest_vnc_use.recordings.format import Segment, share_of
from pytest_vnc_use.recordings.gates import Gate, Mismatch, StepBefore, mask_of
from pytest_vnc_use.recordings.images import Mask, Pixels, differing, most_common
from pytest_vnc_use.recordings.rehearse import Rehearsal
from pytest_vnc_use.recordings.same_text import (
    BLANK,
    grown_ends,
    grown_sideways,
    grown_vertically,
    kinds_beside,
    really_differing,
)
from pytest_vnc_use.settings.settings import LOCAL_SERVERS, Settings
from pytest_vnc_use.types import CARET_PX, Region
from pytest_vnc_use.types.actions import Point
from pytest_vnc_use.types.protocols import Desktop

_REMEDIES = (
    (
        "If the screen is right now, accept it: --vnc-record=accept --vnc-ui (without"
        " --vnc-ui, at a terminal)."
    ),
    (
        "Or record the test again: --vnc-record=manual by hand, --vnc-record=rewrite"
        " with a planner."
    ),
)
_HEAL = "Or let a planner continue from here: --vnc-record=auto."
_REVIEW = (
    "After a CI job, review its run directories on your machine:"
    " cua-vnc ui --review RUNS."
)
_BY_HAND = (
    "or do the steps from here by hand on the page: --vnc-record=accept --vnc-ui,"
    " Continue by hand."
)
_BUG = "If it is wrong, the product has a bug: the report shows both screens."
WAIT_LONGER = "If it only takes longer, wait longer: -o vnc_gate_seconds=40."
_HANGS = (
    (
        "If the program hangs, or ignores the step, the product has a bug: the report"
        " shows both screens."
    ),
    WAIT_LONGER,
)
_THEME = (
    "If the program has another theme, such as a dark one, start it with the recorded"
    " theme."
)
_NO_MASK = (
    "If the screen is empty or another one, check that the program, or the server of"
    " its page, is running."
)
_NO_WINDOW = (
    "Check that the program starts: vnc_desktop.logs()['program'] is what it printed."
)
_CLOCK = (
    "If a clock differs, stop it: put faketime -f '2026-01-15 10:00:00' before the"
    " program's command."
)
_LATE = (
    "If the recorded screen comes later, as after a notification at the start, wait"
    " longer: -o vnc_gate_seconds=40."
)
RECORDED_TOO_EARLY = (
    "The program may not have been ready when the recording began. Record the test"
    " again, and act once the screen is complete."
)
"""What to do about a first screen that has changed on its own."""
_NOT_READY = (
    "If the program was not ready for input yet, record the test again: a rehearsal"
    " learns to wait."
)
"""What to do about a first step that had no effect, if it was not waited for."""
_LEARN = (
    "The difference is tiny: if the product is the same, record again with"
    " vnc_rehearse=5, which learns it."
)
_MAX_OFFERED_MASKS = 4
_MAX_OFFERED_SHARE = 0.25
"""The largest part of a screen for which a mask is proposed."""
_BORDER_PX = 3
"""How far a border reaches beyond the text in a cell."""
_THIN_PX = 4
"""The largest width of a border or a line, on a screen on which all is twice as large."""
_LONG_PX = 20
"""The smallest length of a border's side. Letters are shorter; an O is a ring too."""
_COVERED = 0.75
"""The smallest share of a border's side that differs: its corners may be round."""
_BLOCK_PX = 18
"""The smallest height of a button."""
_ROWS_PX = 2
"""The largest gap between the rows of one line of text, as below the dot of an i."""
_LETTERS_PX = 3
"""The largest gap between the letters of one word."""
_RECOLOURED_SHARE = 0.75
"""The smallest share of a difference's region that another theme colours otherwise."""
_SAME_EDGES = 0.8
"""The smallest share of the edges of either screen that the other one has too: 1.0 for
GTK's themes.
"""
_RECOLOURED_REGION = 0.1
"""The smallest share of the screen that such a region covers: a button covers less."""
_NEARLY_ALL = 0.95
"""The smallest share of a difference's pixels that lies within a window in another
theme: beside it a clock may differ.
"""
_FIRST_SCREEN_SHARE = 0.02
"""The largest share of a first screen that masks may hide: a clock. With more it may be
another screen.
"""
_CLOCK_WIDER = 0.3
"""The largest share by which a clock's text is wider than it was: 9:59 and 10:00."""
_PLAIN = 0.5
"""The smallest share of one colour around a difference on a plain background, on which
lines and cells are seen.
"""

FAMILIES = ("sans-serif", "serif", "monospace")
_OTHER_FONTS = "Fonts differ from the recording's machine"
_DIFFERS = "This machine differs from the recording's"
_FACTS_S = 20.0
_TOOLS = "dash|bash|coreutils|findutils|grep|sed|dpkg|dbus.*|dconf.*|.*-common"
"""Packages that draw nothing: of the commands below, of wrappers and services, and
doubles of a program's own.
"""
_PRINT_FACTS = f"""
for family in {" ".join(FAMILIES)}; do fc-match -f "$family: %{{family[0]}}\\n" $family; done
fc-match -f 'text: antialias %{{antialias}}, hinting %{{hinting}} %{{hintstyle}}, subpixels %{{rgba}}\\n' sans-serif
echo "scale: GTK ${{GDK_SCALE:-1}}, Qt ${{QT_SCALE_FACTOR:-1}}"
xdpyinfo | sed -n 's/^ *depth of root window: *\\([0-9]*\\).*/depth: \\1/p'
[ -z "$1" ] || grep -lsz "^HOME=$HOME$" /proc/[0-9]*/environ | sed 's/environ$/exe/' | xargs readlink | sort -u \\
    | xargs dpkg-query -S | sed -n 's/^\\([^ :,]*\\)[:,] *.*/\\1/p' | grep -vxE '{_TOOLS}' \\
    | xargs -r dpkg-query -W -f '${{Package}}: ${{Version}}\\n'
"""
"""It prints each known fact on a line, and nothing for a program that is not installed.

The last command prints the versions of the packages of all programs that have the home
of a desktop that we started.
"""


def machine_of(desktop: Desktop, settings: Settings) -> dict[str, str]:
    """Return what draws on a desktop, by its name: fonts, text, scale, depth, server,
    rendering, versions of packages.

    Unknown facts are left out. No fact names a host or a user.
    """
    facts: dict[str, str] = {}
    kind = ""
    if settings.server in LOCAL_SERVERS:
        kind = settings.server
        facts["rendering"] = settings.rendering
        facts["server"] = kind
    argv = ["sh", "-c", _PRINT_FACTS, "sh", kind]
    # No command runs where only VNC reaches the desktop, where it is gone, or on a
    # custom one without `run`.
    with suppress(VncUseError, AttributeError):
        result = desktop.run(argv, timeout_s=_FACTS_S)
        for line in result.stdout.splitlines():
            name, _, value = line.partition(": ")
            if value.strip():
                facts[name] = value
    return facts


def other_machine(recorded: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Return in a sentence or two how this machine differs from the recording's; "" if
    no difference is known.
    """
    fonts: list[str] = []
    others: list[str] = []
    for name, was in recorded.items():
        is_now = now.get(name, was)
        if is_now == was:
            continue
        facts = fonts if name in FAMILIES else others
        facts.append(f"{name} is now {is_now}, was {was}")
    sentences = []
    if fonts:
        sentences.append(f"{_OTHER_FONTS}: {', '.join(fonts)}.")
    if others:
        sentences.append(f"{_DIFFERS}: {', '.join(others)}.")
    return " ".join(sentences)


def explained(
    mismatch: Mismatch, gate: Gate, seen: Pixels, acted_on: Pixels | None = None
) -> Mismatch:
    """Return the mismatch with its cause, if that is known: nothing changed after the
    step, the program has no window, or the same drawing has other colours.

    `acted_on` is the screen before the step; without it, the recorded one counts.
    """
    step = gate.step
    if step and _is_ineffective(gate, step, mismatch, seen, acted_on):
        problem = f"nothing changed on the screen after {step.name}"
        return replace(mismatch, problem=problem, kind="unchanged")
    if not mismatch.boxes:
        return mismatch
    if gate.is_first and _lacks_window(mismatch.region, gate.expected, seen):
        problem = f"the program's window is not there, {mismatch.region}"
        return replace(mismatch, problem=problem, kind="no_window")
    if recoloured := _recoloured_region(mismatch, gate, seen):
        problem = f"other colours nearly everywhere {recoloured}, as in another theme"
        return replace(mismatch, problem=problem, kind="recoloured")
    unchanged = _unchanged_boxes(mismatch, gate, seen, acted_on)
    if step and unchanged:
        is_all = len(unchanged) == len(mismatch.boxes)
        where = "there" if is_all else ", ".join(map(str, unchanged))
        problem = f"{mismatch.problem}; nothing changed {where} after {step.name}"
        return replace(mismatch, problem=problem)
    return mismatch


def _lacks_window(region: Region, recorded: Pixels, seen: Pixels) -> bool:
    """Return whether a large region is blank where the recording shows a drawing."""
    was = region.part_of(recorded)
    now = region.part_of(seen)
    is_large = now.size >= _RECOLOURED_REGION * seen.size
    is_blank = bool((now == now[0, 0]).all())
    return is_large and is_blank and bool(_edges(was).any())


def _recoloured_region(mismatch: Mismatch, gate: Gate, seen: Pixels) -> Region | None:
    """Return the region of a difference that shows the same drawing in other colours:
    all of it, or a window beside which little differs; None if there is none.
    """
    differs = differing(gate.expected, seen) & ~gate.ignored
    nearly_all = _NEARLY_ALL * np.count_nonzero(differs)
    for region in (mismatch.region, *mismatch.boxes):
        inside = np.count_nonzero(region.part_of(differs))
        if inside >= nearly_all and _is_recoloured(region, gate.expected, seen):
            return region
    return None


def _unchanged_boxes(
    mismatch: Mismatch, gate: Gate, seen: Pixels, acted_on: Pixels | None
) -> list[Region]:
    """Return the boxes of a difference that show what was there before the step, as in
    a window that is only half drawn.
    """
    step = gate.step
    if step is None or not mismatch.boxes:
        return []
    before = step.screen if acted_on is None else acted_on
    if _shows_new_value(gate, before, seen):
        return []
    differs = differing(gate.expected, seen) & ~gate.ignored
    differs &= differing(step.screen, gate.expected)
    differs &= ~mask_of(step.accepted, seen.shape)
    has_changed = differing(before, seen)
    unchanged = []
    for box in mismatch.boxes:
        had_effect = box.part_of(differs).any()
        if had_effect and not box.part_of(has_changed).any():
            unchanged.append(box)
    return unchanged


def _is_ineffective(
    gate: Gate,
    step: StepBefore,
    mismatch: Mismatch,
    seen: Pixels,
    acted_on: Pixels | None,
) -> bool:
    """Return whether a step that had an effect in the recording has none now, and only
    that effect is missing: in another theme, all differs before the step too.
    """
    had_effect = step.has_effect or step.caret is not None
    is_of_effect = bool(mismatch.boxes) or mismatch.region == step.caret
    if not had_effect or not is_of_effect:
        return False
    before = step.screen if acted_on is None else acted_on
    if _shows_new_value(gate, before, seen):
        return False
    if (differing(before, seen) & ~step.left_out).any():
        return False
    effect = step.changed & ~mask_of(step.accepted, seen.shape)
    beside = really_differing(gate.expected, seen, gate.ignored) & ~effect
    return not mask_of(mismatch.boxes, seen.shape)[beside].any()


def _shows_new_value(gate: Gate, before: Pixels, seen: Pixels) -> bool:
    """Return whether more than a caret has changed, since the screen before the step,
    where a value shows: the program has reacted, though no gate compares that.
    """
    if before.shape != seen.shape:
        return False
    changed = differing(before, seen) & mask_of(gate.values, seen.shape)
    return any(not box.is_within(CARET_PX) for box in boxes_of(changed))


def _is_recoloured(region: Region, recorded: Pixels, seen: Pixels) -> bool:
    """Return whether a large region shows the same drawing in other colours."""
    was = region.part_of(recorded)
    now = region.part_of(seen)
    if was.size < _RECOLOURED_REGION * seen.size:
        return False
    if differing(was, now).mean() < _RECOLOURED_SHARE:
        return False
    edges = _edges(was)
    edges_now = _edges(now)
    shared = int((edges & edges_now).sum())
    larger = max(1, int(edges.sum()), int(edges_now.sum()))
    return shared >= _SAME_EDGES * larger


def _edges(screen: Pixels) -> Mask:
    """Mark each pixel that differs from the one above it or to its left: the outlines
    of a drawing, whatever its colours.
    """
    marked = np.zeros(screen.shape, np.bool_)
    marked[1:] = differing(screen[1:], screen[:-1])
    marked[:, 1:] |= differing(screen[:, 1:], screen[:, :-1])
    return marked


def is_maskable(masks: Iterable[Region], shape: tuple[int, int]) -> bool:
    """Return whether masks leave enough of the screen to propose them."""
    return share_of(masks, shape) <= _MAX_OFFERED_SHARE


def cell_around(box: Region, recorded: Pixels, seen: Pixels) -> Region:
    """Return the whole line of text, or cell, that holds a difference: what changes
    there next may be wider.

    It ends at a border, or at a gap wider than the line is high. On no plain background
    it is the box and its edge. A button whose edges changed is a cell of its own.

        │ Total: 3.0[0]  │      [ ] is the box of the difference, the digit that changed
        │(Total: 3.00   )│      ( ) is the cell: the line, and the blank beside it
    """
    ink = _ink_around(box, recorded, seen)
    if ink is None:
        return box.grown(_BORDER_PX, seen.shape)
    if block := _block_around(ink, box):
        return block.grown(1, seen.shape)

    # Over the gaps between the rows of one line, and then again: it may be wider now,
    # and have higher letters.
    for gap_px in (_ROWS_PX, 0):
        box = grown_vertically(box, ink, gap_px)
        space_px = max(APART_PX, box.height)
        box = grown_sideways(box, ink, space_px)

    # and the blank beside it: as wide as the line is high, and as high as between rows
    columns = kinds_beside(box, ink, axis=1)
    left, right = _blank_ends(columns, box.left, box.right, box.height)
    box = replace(box, left=left, right=right)
    rows = kinds_beside(box, ink, axis=0)
    top, bottom = _blank_ends(rows, box.top, box.bottom, _ROWS_PX)
    return replace(box, top=top, bottom=bottom)


def value_cell(box: Region, recorded: Pixels, seen: Pixels) -> Region:
    """Return the region of the value that differs: its word, and the blank around it,
    where a longer or taller one may show. A word beside it, such as a label, is outside.
    """
    ink = _ink_around(box, recorded, seen)
    if ink is None:
        return box.grown(_BORDER_PX, seen.shape)
    rows = kinds_beside(box, ink, axis=0)
    top, bottom = grown_ends(rows, box.top, box.bottom, _ROWS_PX)
    box = replace(box, top=top, bottom=bottom)
    columns = kinds_beside(box, ink, axis=1)
    left, right = grown_ends(columns, box.left, box.right, _LETTERS_PX)
    left, right = _blank_ends(columns, left, right, len(columns))
    top, bottom = _blank_ends(rows, top, bottom, box.height // 2)
    return Region(left, top, right, bottom)


def _ink_around(box: Region, recorded: Pixels, seen: Pixels) -> Mask | None:
    """Return what has another colour than the plain background around a box, on either
    screen; None if there is none.
    """
    ring = box.grown(_BORDER_PX, seen.shape)
    ink = np.zeros(seen.shape, np.bool_)
    for screen in (recorded, seen):
        background = _background_around(box, ring, screen)
        if background is None:
            return None
        ink |= screen != background
    return ink


def places_of_value(
    mismatch: Mismatch, gate: Gate, seen: Pixels, due_at: Sequence[Point]
) -> tuple[Region, ...]:
    """Return where a difference may show a value; nowhere where it may not, or where the
    next step acts there.
    """
    if mismatch.kind != "difference":
        return ()
    places: list[Region] = []
    for box in mismatch.boxes:
        cell = value_cell(box, gate.expected, seen)
        if cell not in places:
            places.append(cell)
    hides_target = any(place.holds_any(due_at) for place in places)
    return () if hides_target else tuple(places)


def _block_around(ink: Mask, box: Region) -> Region | None:
    """Return the block that a box is part of, such as a button: it has ink all along
    its four sides, as no word has. None if there is none.
    """
    higher = grown_vertically(box, ink, 0)
    block = grown_sideways(higher, ink, 0)
    if block.height < _BLOCK_PX or block.width < block.height:
        return None
    inside = block.part_of(ink)
    sides = (inside[0], inside[-1], inside[:, 0], inside[:, -1])
    is_closed = all(side.mean() >= _COVERED for side in sides)
    return block if is_closed else None


def _background_around(box: Region, ring: Region, screen: Pixels) -> int | None:
    """Return the colour of the plain background between a box and the larger region
    `ring`; None if there is none.
    """
    is_around = np.ones((ring.height, ring.width), np.bool_)
    box.moved(-ring.left, -ring.top).part_of(is_around)[:] = False
    around = ring.part_of(screen)[is_around]
    if not around.size:
        return None
    background = most_common(around)
    is_plain = np.count_nonzero(around == background) >= _PLAIN * around.size
    return background if is_plain else None


def _blank_ends(
    kinds: np.ndarray, start: int, stop: int, maximum_px: int
) -> tuple[int, int]:
    """Return the ends of a stretch with the blank lines beside it, at most `maximum_px`
    at each end.

    >>> _blank_ends(np.array([1, 0, 0, 1, 0, 0]), 3, 4, maximum_px=1)
    (2, 5)
    """
    before = kinds[:start][::-1]
    after = kinds[stop:]
    return start - _blank(before[:maximum_px]), stop + _blank(after[:maximum_px])


def _blank(outward: np.ndarray) -> int:
    """Return the number of blank lines before the first other one."""
    used = np.flatnonzero(outward != BLANK)
    return int(used[0]) if used.size else len(outward)


def offered_masks(
    mismatch: Mismatch, gate: Gate, seen: Pixels, due_at: Sequence[Point] = ()
) -> tuple[Region, ...]:
    """Return the masks that would hide a difference with its lines or cells, or a
    region that changes on its own.

    There are none where nothing or everything changed, where they would hide too much,
    and for a first screen of which more than a clock differs: that may be another
    screen altogether. Nor are there where they would hide a point at which the next
    step acts: it would act on what no user has looked at.
    """
    masks = _masks_of(mismatch, gate, seen)
    hides_target = any(mask.holds_any(due_at) for mask in masks)
    return () if hides_target else masks


def _masks_of(mismatch: Mismatch, gate: Gate, seen: Pixels) -> tuple[Region, ...]:
    """Return the masks that would hide a difference, wherever the next step acts."""
    masks: list[Region] = []
    maximum = _MAX_OFFERED_SHARE
    if mismatch.kind == "variants":
        masks = [mismatch.region]
    elif mismatch.kind == "difference" and mismatch.boxes:
        for box in _boxes_or_region(mismatch):
            for part in parts_around(box, gate, seen):
                masks = _joined_with(part, masks)
        if gate.is_first:
            maximum = _FIRST_SCREEN_SHARE
    is_small = share_of(masks, seen.shape) <= maximum
    return tuple(masks) if is_small else ()


def _joined_with(part: Region, masks: Iterable[Region]) -> list[Region]:
    """Return the masks with one more; those that it meets and itself become one."""
    apart = []
    joined = part
    for mask in masks:
        if mask.meets(part):
            joined = joined.joined(mask)
        else:
            apart.append(mask)
    return [*apart, joined]


def parts_around(box: Region, gate: Gate, seen: Pixels) -> tuple[Region, ...]:
    """Return what a mask of a difference hides: the sides of a border, or the line of
    text or cell that holds the difference.
    """
    border = _border_sides(box, gate, seen)
    return border or (cell_around(box, gate.expected, seen),)


def _border_sides(box: Region, gate: Gate, seen: Pixels) -> tuple[Region, ...]:
    """Return the four sides of a border if nothing else differs within a box; none if
    something does.

        ┌── top ───────┐      The sides are as thin as all that differs. Left and right
        │left     right│      lack the corners, which top and bottom have.
        └── bottom ────┘
    """
    if min(box.width, box.height) < _LONG_PX:
        return ()
    differs = really_differing(gate.expected, seen, gate.ignored)
    inside = box.part_of(differs)
    widths = range(1, _THIN_PX + 1)
    fitting = [px for px in widths if not inside[px:-px, px:-px].any()]
    if not fitting:
        return ()
    thick_px = fitting[0]
    top = replace(box, bottom=box.top + thick_px)
    bottom = replace(box, top=box.bottom - thick_px)
    between = replace(box, top=top.bottom, bottom=bottom.top)
    left = replace(between, right=box.left + thick_px)
    right = replace(between, left=box.right - thick_px)
    # along each side, whether anything differs across it
    along = [side.part_of(differs).any(axis=0) for side in (top, bottom)]
    along += [side.part_of(differs).any(axis=1) for side in (left, right)]
    if any(line.mean() < _COVERED for line in along):
        return ()
    return top, bottom, left, right


def _boxes_or_region(mismatch: Mismatch) -> tuple[Region, ...]:
    """Return the boxes of a difference; if there are many, the one around them all."""
    is_few = len(mismatch.boxes) <= _MAX_OFFERED_MASKS
    return mismatch.boxes if is_few else (mismatch.region,)


def remedies(
    mismatch: Mismatch,
    gate: Gate,
    seen: Pixels,
    segment: Segment,
    *,
    acted_on: Pixels | None = None,
    masks: Sequence[Region] = (),
    moved: str = "",
    unasked: str = "",
    may_heal: bool = True,
    was_at_once: bool = False,
) -> list[str]:
    """Return what can be done about a gate that stayed closed, a line each: accept,
    record again, or repair.

    `masks` are those that are offered too. `moved` is the target that has moved, so
    that nothing can be accepted; `unasked` is why no reviewer was asked; `may_heal` says
    whether a model may continue, and `was_at_once` whether only the first step was
    performed, as soon as its screen was there.
    """
    lines: list[str] = []
    if unasked and not moved:
        lines.append(f"No user was asked whether the screen is right: {unasked}.")
    is_unchanged = mismatch.kind == "unchanged"
    if mismatch.kind == "recoloured":
        lines.append(_THEME)
    elif is_unchanged or _unchanged_boxes(mismatch, gate, seen, acted_on):
        lines += _HANGS
        if was_at_once:
            lines.append(_NOT_READY)
    if mismatch.kind == "no_window":
        lines.append(_NO_WINDOW)
    if moved:
        lines += [
            f"It cannot be accepted, because {moved}. If it is right, {AGAIN},",
            _BY_HAND,
        ]
    else:
        lines += _REMEDIES
        if may_heal:
            lines.append(_HEAL)
    if is_ci():
        lines.append(_REVIEW)
    if not is_unchanged:
        lines.append(_BUG)
    if mismatch.kind == "difference" and mismatch.boxes:
        if Rehearsal.with_learned(gate, seen, acted_on):
            lines.append(_LEARN)
        if gate.is_first and not _is_of_targets(mismatch, gate, seen, segment):
            lines.append(_LATE)
        if not is_maskable(_boxes_or_region(mismatch), seen.shape):
            lines.append(_NO_MASK)
    if masks and gate.is_first and _may_be_clock(masks, gate.expected, seen):
        lines.append(_CLOCK)
    return lines


def _is_of_targets(
    mismatch: Mismatch, gate: Gate, seen: Pixels, segment: Segment
) -> bool:
    """Return whether each box of a difference belongs to a control that a step acts on:
    it was renamed, and no other screen is still to come.
    """
    targets: list[Point] = []
    for number in range(len(segment.steps)):
        targets += segment.points_at(number)
    for box in mismatch.boxes:
        cell = cell_around(box, gate.expected, seen)
        if not cell.holds_any(targets):
            return False
    return True


def _may_be_clock(masks: Iterable[Region], recorded: Pixels, seen: Pixels) -> bool:
    """Return whether texts in these regions are about as wide as they were: a time has
    as many digits as another, or one more.
    """
    for mask in masks:
        was = _ink_width(mask.part_of(recorded))
        now = _ink_width(mask.part_of(seen))
        if abs(now - was) > _CLOCK_WIDER * max(now, was):
            return False
    return True


def _ink_width(part: Pixels) -> int:
    """Return the number of columns from the first to the last that is not of the most
    frequent colour.
    """
    ink = part != most_common(part)
    columns = np.flatnonzero(ink.any(axis=0))
    return int(np.ptp(columns)) + 1 if columns.size else 0
