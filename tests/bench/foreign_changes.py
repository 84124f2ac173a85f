"""The changes that no replay may take for what was recorded, a row each, for pages and for desktop programs.

A change `does` something with a part of the program (`label`, `button`, `extra`, `result`, `other`), or paints over it:
from the start, or late, once half of the input or all of it was made. In pages a script does that
(tests/support/programs/changed_page.js). What desktop programs show from the start is changed in what starts them
(`changed` in foreign_table); what comes late is a window over it (tests/support/programs/late_window.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pytest_vnc_use.types import JsonObject

Box = tuple[int, int, int, int]
Part = Literal["label", "button", "extra", "result", "other"]


@dataclass(frozen=True)
class Change:
    """`paints` what stands there, in `colour`, in a box of its own; `for_s` is how long, 0 for ever."""

    does: Literal["text", "character", "colour", "move", "hide", "size", "paint"]
    part: Part = "label"
    when: Literal["start", "half", "all"] = "start"
    after_s: float = 0.0
    for_s: float = 0.0
    paints: str = ""
    colour: str = ""

    def presses(self, of_all: int) -> int:
        """After how many presses of keys and buttons it begins; 0 where it is there from the start."""
        return {"start": 0, "half": max(1, of_all // 2), "all": of_all}[self.when]


ERROR = "ERROR 500: the server did not answer"
CHANGES: Mapping[str, Change] = {
    "text of a label": Change("text"),
    "one wrong character": Change("character"),
    "a colour": Change("colour", "button"),
    "a moved button": Change("move", "button"),
    "a missing element": Change("hide", "extra"),
    "another font size": Change("size"),
    "an error banner after 0.3 s": Change("paint", when="all", after_s=0.3, paints=ERROR, colour="tomato"),
    "an error banner after 0.6 s": Change("paint", when="all", after_s=0.6, paints=ERROR, colour="tomato"),
    "an error banner after 1 s": Change("paint", when="all", after_s=1.0, paints=ERROR, colour="tomato"),
    "a toast in between": Change("paint", when="half", for_s=0.4, paints="It could not be saved", colour="gold"),
    "a wrong total": Change("character", "result", when="all"),
    "a result that vanishes": Change("hide", "result", when="all", after_s=0.6),
    "a dialog at the end": Change(
        "paint", when="all", after_s=0.1, paints="Your session has ended", colour="light gray"
    ),
    "a side effect on another element": Change("character", "other", when="half"),
}


def box_of(change: Change, size: tuple[int, int]) -> Box:
    """Return the box of the change on a screen or a page of this size: a banner, a toast, or a dialog in the middle."""
    width, height = size
    match change.paints, change.for_s:
        case str(text), 0.0 if text == ERROR:
            return 0, 0, width, 48
        case _, 0.0:
            return width // 2 - 160, height // 2 - 60, width // 2 + 160, height // 2 + 60
    return width - 280, height - 70, width - 20, height - 22


def in_page(change: Change, selector: str, presses: int, size: tuple[int, int]) -> JsonObject:
    late = {"presses": change.presses(presses), "after_s": change.after_s, "for_s": change.for_s}
    painted = {"box": box_of(change, size), "colour": change.colour.replace(" ", ""), "text": change.paints}
    return {"does": change.does, "selector": selector, **late, **painted}


def over_window(change: Change, result: Box, other: Box, size: tuple[int, int]) -> JsonObject:
    times = {"after_s": change.after_s, "for_s": change.for_s}
    if change.does == "paint":
        return {"box": box_of(change, size), "colour": change.colour, "text": change.paints, **times}
    if change.does == "hide":
        return {"box": result, **times}
    left, top, *_ = result if change.part == "result" else other
    return {"box": (left, top, left + 14, top + 16), "colour": "white", "text": "7", **times}
