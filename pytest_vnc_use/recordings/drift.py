"""A gate that stayed closed: what the machine has to do with it, and what the user can do about it.

A mask that is offered covers the whole line of text or cell that differs, not today's digit.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from pytest_vnc_use.backends.pixels import APART_PX
from pytest_vnc_use.errors import VncUseError
from pytest_vnc_use.recordings import AGAIN
from pytest_vnc_use.recordings.format import RecordedRun
from pytest_vnc_use.recordings.gates import Gate, Mismatch, mask_of
from pytest_vnc_use.recordings.images import Mask, Pixels
from pytest_vnc_use.recordings.rehearse import Rehearsal
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import Region
from pytest_vnc_use.types.protocols import Desktop

_REMEDIES = (
    "If the screen is right now, accept it: --vnc-record=accept --vnc-ui (without --vnc-ui, at a terminal).",
    "Or record the test again: --vnc-record=manual by hand, --vnc-record=rewrite with a planner;",
    "--vnc-record=auto lets a planner continue from here.",
)
_ON = "or do the steps from here by hand on the page: --vnc-record=accept --vnc-ui, Continue by hand."
_BUG = "If it is wrong, the product has a bug: the report shows both screens."
_NO_MASK = "If the screen is empty or another one, check that the program, or the server of its page, is running."
_LATE = "If the recorded screen comes later, as after a notification at the start, wait longer: -o vnc_gate_seconds=40."
_LEARN = "The difference is tiny: if the product is the same, record again with vnc_rehearse=2, which learns it."
MAX_OFFERED_MASKS = 4
MAX_OFFERED_SHARE = 0.25
"""The largest part of a screen for which a mask is proposed."""
_BORDER_PX, _ROWS_PX = 3, 2
"""How far a border reaches beyond the text in a cell; the largest gap between the rows of one line of text."""
_PLAIN = 0.5
"""The least share of one colour around a difference on a plain background, on which lines and cells are seen."""


FAMILIES = ("sans-serif", "serif", "monospace")
_DIFFERS = "This machine differs from the recording's"
_LOOK_S = 20.0
_STARTED = ("xvnc", "qt")
_TOOLS = "dash|bash|coreutils|findutils|grep|sed|dpkg|dbus.*|dconf.*|.*-common"
"""Packages that draw nothing: of the commands below, of wrappers and services, and doubles of a program's own."""
_LOOK = f"""
for family in {" ".join(FAMILIES)}; do fc-match -f "$family: %{{family[0]}}\\n" $family; done
fc-match -f 'text: antialias %{{antialias}}, hinting %{{hinting}} %{{hintstyle}}, subpixels %{{rgba}}\\n' sans-serif
echo "scale: GTK ${{GDK_SCALE:-1}}, Qt ${{QT_SCALE_FACTOR:-1}}"
xdpyinfo | sed -n 's/^ *depth of root window: *\\([0-9]*\\).*/depth: \\1/p'
[ -z "$1" ] || grep -lsz "^HOME=$HOME$" /proc/[0-9]*/environ | sed 's/environ$/exe/' | xargs readlink | sort -u \\
    | xargs dpkg-query -S | sed -n 's/^\\([^ :,]*\\)[:,] *.*/\\1/p' | grep -vxE '{_TOOLS}' \\
    | xargs -r dpkg-query -W -f '${{Package}}: ${{Version}}\\n'
"""
"""It prints each known fact on a line, and nothing for a program that is not installed.

The last command prints the versions of the packages of all programs that have the home of a desktop that we started.
"""


def machine_of(desktop: Desktop, settings: Settings) -> dict[str, str]:
    """Return what draws on a desktop, by its name: fonts, text, scale, depth, server, rendering, versions of packages.

    Unknown facts are left out. No fact names a host or a user.
    """
    kind = settings.server if settings.server in _STARTED else ""
    facts = {"rendering": settings.rendering, "server": kind} if kind else {}
    with suppress(VncUseError, AttributeError):  # only VNC reaches it, it is gone, or is a custom one without `run`
        for line in desktop.run(["sh", "-c", _LOOK, "sh", kind], timeout_s=_LOOK_S).stdout.splitlines():
            name, _, value = line.partition(": ")
            facts |= {name: value} if value.strip() else {}
    return facts


def difference(recorded: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Return in a sentence or two how this machine differs from the recording's; "" if nothing is known to."""
    differs = {name: was for name, was in recorded.items() if now.get(name, was) != was}
    fonts, others = ([name for name in differs if (name in FAMILIES) == is_font] for is_font in (True, False))
    sentences = []
    for start, names in (("Fonts differ from the recording's machine", fonts), (_DIFFERS, others)):
        values = ", ".join(f"{name} is now {now[name]}, was {differs[name]}" for name in names)
        sentences += [f"{start}: {values}."] if names else []
    return " ".join(sentences)


def mask_command(test: str, masks: Iterable[Region]) -> str:
    """Return the command that hides these regions from all comparisons of a test."""
    regions = (f"{mask.left},{mask.top},{mask.right},{mask.bottom}" for mask in masks)
    return shlex.join(["cua-vnc", "mask", test, *regions])


def is_maskable(masks: Iterable[Region], shape: tuple[int, ...]) -> bool:
    """Return whether masks leave enough of the screen to propose them."""
    return float(mask_of(masks, shape).mean()) <= MAX_OFFERED_SHARE


def cell_around(box: Region, recorded: Pixels, seen: Pixels) -> Region:
    """Return the whole line of text, or cell, that holds a difference: what changes there next may be wider.

    It ends at a border, or at a gap wider than the line is high. On no plain background it is the box and its edge.
    """
    height, width = seen.shape
    size = width, height
    ink = np.zeros(seen.shape, np.bool_)
    for screen in (recorded, seen):
        ring, around = box.grown(_BORDER_PX, *size), np.ones(screen.shape, np.bool_)
        box.part_of(around)[:] = False
        colours, counts = np.unique(ring.part_of(screen)[ring.part_of(around)], return_counts=True)
        if not counts.size or counts.max() < _PLAIN * counts.sum():
            return ring
        ink |= screen != colours[counts.argmax()]
    for gap_px in (_ROWS_PX, 0):
        top, bottom = _grown(_lines(ink, box, 0), box.top, box.bottom, gap_px)
        box = replace(box, top=top, bottom=bottom)
        left, right = _grown(_lines(ink, box, 1), box.left, box.right, max(APART_PX, bottom - top))
        box = replace(box, left=left, right=right)
    kinds, room = _lines(ink, box, 1), box.bottom - box.top
    left = _blank_until(kinds[: box.left][::-1], room)
    right = _blank_until(kinds[box.right :], room)
    box = replace(box, left=box.left - left, right=box.right + right)
    kinds = _lines(ink, box, 0)
    above, below = (_blank_until(part, _ROWS_PX) for part in (kinds[: box.top][::-1], kinds[box.bottom :]))
    return replace(box, top=box.top - above, bottom=box.bottom + below)


_BLANK, _INK, _BORDER = 0, 1, 2


def _lines(ink: Mask, box: Region, axis: int) -> np.ndarray:
    """Return for each row (axis 0) or column (axis 1) beside a box whether it is blank, has ink, or is a border."""
    wider = box.grown(_BORDER_PX, ink.shape[1], ink.shape[0])
    inside = ink[:, box.left : box.right] if axis == 0 else ink[box.top : box.bottom].T
    beyond = ink[:, wider.left : wider.right] if axis == 0 else ink[wider.top : wider.bottom].T
    return np.where(beyond.all(axis=1), _BORDER, np.where(inside.any(axis=1), _INK, _BLANK))


def _grown(kinds: np.ndarray, start: int, stop: int, gap_px: int) -> tuple[int, int]:
    """Return the ends of the ink around a stretch, across gaps of so many blank lines, up to a border."""
    ends = []
    for outward in (kinds[:start][::-1], kinds[stop:]):
        reached = blank = 0
        for number, kind in enumerate(outward, 1):
            blank = 0 if kind == _INK else blank + 1
            if kind == _BORDER or blank > gap_px:
                break
            reached = number if kind == _INK else reached
        ends.append(reached)
    return start - ends[0], stop + ends[1]


def _blank_until(outward: np.ndarray, maximum: int) -> int:
    """Return the number of blank lines next to a box, at most `maximum`."""
    used = np.flatnonzero(outward[:maximum] != _BLANK)
    return int(used[0]) if used.size else len(outward[:maximum])


def offered_masks(gate: Gate, boxes: Sequence[Region], seen: Pixels) -> tuple[Region, ...]:
    """Return the masks that would hide a difference with its lines or cells.

    There are none for a first screen, which may be another screen altogether, and where they would hide too much.
    """
    if gate.is_first:
        return ()
    masks: list[Region] = []
    for cell in (cell_around(box, gate.expected, seen) for box in boxes):
        met = [mask for mask in masks if mask.meets(cell)]
        masks = [mask for mask in masks if mask not in met]
        for mask in met:
            cell = cell.joined(mask)
        masks.append(cell)
    return tuple(masks) if masks and is_maskable(masks, seen.shape) else ()


def remedies(
    mismatch: Mismatch,
    gate: Gate,
    seen: Pixels,
    run: RecordedRun,
    test: str,
    *,
    acted_on: Pixels | None = None,
    moved: str = "",
    unasked: str = "",
) -> list[str]:
    """Return what can be done about a gate that stayed closed, a line each: accept, record again, mask, or repair.

    `moved` is the target that has moved, so that nothing can be accepted; `unasked` is why no reviewer was asked.
    """
    if moved:
        lines = [f"It cannot be accepted, because {moved}. If it is right, {AGAIN},", _ON, _BUG]
    else:
        lines = [f"No user was asked whether the screen is right: {unasked}."] if unasked else []
        lines += [*_REMEDIES, _BUG]
    if not mismatch.boxes:
        return lines
    if Rehearsal.opened(gate, seen, acted_on):
        lines.append(_LEARN)
    if gate.is_first:
        lines.append(_LATE)
    boxes = mismatch.boxes if len(mismatch.boxes) <= MAX_OFFERED_MASKS else (mismatch.region,)
    if not is_maskable(boxes, seen.shape):
        lines.append(_NO_MASK)
    elif masks := offered_masks(gate, boxes, seen):
        claims = run.claims_hidden_by(masks)
        lost = f"; {claims[0]!r} must then be judged again, with --vnc-record=auto and a judge" if claims else ""
        hidden = int(mask_of(masks, seen.shape).sum())
        lines.append(f"If that region changes on its own, mask it ({hidden:,} px{lost}):")
        lines.append(f"  {mask_command(test, masks)}")
    return lines
