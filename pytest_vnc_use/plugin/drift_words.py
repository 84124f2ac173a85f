"""A drift in words: the old and the new text, for the message of a failed test. Pixels
remain the evidence.

Names come from the browser or from accessibility where the recording has them. Other
lines are read off both screens, where the extra `[ocr]` is installed.

    recorded  │ Total: 12.25 │      the line of text around the difference, in both
    now       │ Total: 12.26 │      ─▶  "12.25" is now "12.26" (read by OCR)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from pytest_vnc_use import ocr
from pytest_vnc_use.agent.build import elements_asker
from pytest_vnc_use.backends.pixels import Pixels, box_of, most_common, pixels_of
from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.plain_text import cut, plain
from pytest_vnc_use.plugin.redaction import secrets_of
from pytest_vnc_use.plugin.state import desktop_of, state_of
from pytest_vnc_use.recordings.drift import cell_around
from pytest_vnc_use.runs.directory import RunDirectory, read_trace
from pytest_vnc_use.types import Region

READ_S = 0.5
"""The maximum time that a failed test waits for the words."""
_MIN_CONFIDENCE = 0.95
"""The minimum confidence in each reported character, from 0 to 1."""
_MAX_TEXTS = 4
"""The maximum differences of a drift that are read."""
_MAX_LENGTH = 80
_MARGIN_PX = 4
"""The plain margin around a line that is read."""
_BULLETS = "。•●○■□▪◦·"
"""The characters that a bullet at the beginning of an item may be read as."""


def drift_in_words(item: pytest.Item) -> str:
    """Return the texts that differ in the drift that failed a test, such as `"12.25" is
    now "12.26" (read by OCR)`; "" if none is certain within `READ_S`.
    """
    state = state_of(item)
    if not state.runs or not ocr.is_installed():
        return ""
    sentences: list[str] = []
    deadline = Deadline(READ_S)
    collect = partial(_collect, item, state.runs[-1], deadline, sentences)
    # Words are only reported: whatever happens, the test fails as it did, and what was
    # read before the time is up is kept.
    with suppress(Exception):
        ocr.import_reader()
        deadline.call(collect)
    return secrets_of(item.config).hide("; ".join(map(plain, sentences)))


def _collect(
    item: pytest.Item, run_dir: Path, deadline: Deadline, sentences: list[str]
) -> None:
    """Add a sentence for each text that differs, until the time is up."""
    drifts = [drift for drift in read_trace(run_dir).drifts if not drift.healed]
    if not drifts:
        return
    drift = drifts[-1]
    boxes = [*drift.boxes]
    for sentence, named_box in _renamed(item, drift.boxes):
        sentences.append(sentence)
        # what differs in it needs no reading
        boxes = [box for box in boxes if not box.is_part_of(named_box)]
    directory = RunDirectory.open(run_dir)
    recorded = pixels_of(directory.load_png(drift.recorded))
    seen = pixels_of(directory.load_png(drift.seen))
    for sentence in texts_between(recorded, seen, boxes[:_MAX_TEXTS]):
        if not deadline.remaining_s:
            return
        if sentence not in sentences:
            sentences.append(sentence)


def _renamed(
    item: pytest.Item, boxes: Sequence[Region]
) -> Iterator[tuple[str, Region]]:
    """Yield a sentence and the box for each target of the next step whose name has
    changed.
    """
    state = state_of(item)
    step = state.recorded_test.due if state.recorded_test else None
    if step is None or state.settings is None or not any(step.elements):
        return
    now = elements_asker(state.settings, desktop_of(item))(step.action)
    if callable(now):
        return
    for was, element in zip(step.elements, now, strict=False):
        if was is None or element is None or not (was.name and element.name):
            continue
        if was.name != element.name and element.box.meets_any(boxes):
            sentence = _sentence(was.name, element.name, f"name of the {element.role}")
            yield sentence, element.box


def texts_between(
    recorded: Pixels, seen: Pixels, boxes: Iterable[Region]
) -> Iterator[str]:
    """Yield a sentence for each line of text that differs and is read with certainty on
    both screens.
    """
    for box in boxes:
        cell = cell_around(box, recorded, seen)
        recorded_line = _line_in(cell.part_of(recorded))
        seen_line = _line_in(cell.part_of(seen))
        if recorded_line is None or seen_line is None:
            continue
        before, now = _different_words(
            ocr.line_of(recorded_line), ocr.line_of(seen_line)
        )
        if before and now:
            yield _sentence(before, now, "read by OCR")


def _line_in(cell: Pixels) -> Pixels | None:
    """Return the pixels of the line in a cell, with a plain margin; None if the cell is
    empty, or its edge cuts the line off.
    """
    background = most_common(cell)
    ink = cell != background
    edges = ink[0], ink[-1], ink[:, 0], ink[:, -1]
    if not ink.any() or any(edge.any() for edge in edges):
        return None
    drawn = box_of(ink).part_of(cell)
    return np.pad(drawn, _MARGIN_PX, constant_values=background)


def _different_words(before: ocr.Line, now: ocr.Line) -> tuple[str, str]:
    """Return the words of two lines from the first to the last that differ; none if one
    of their characters is uncertain.
    """
    old_words = [*_words(before)]
    new_words = [*_words(now)]
    for end in (0, -1):
        while old_words and new_words and old_words[end].text == new_words[end].text:
            del old_words[end]
            del new_words[end]
    if any(min(word.sure) < _MIN_CONFIDENCE for word in (*old_words, *new_words)):
        return "", ""
    old = " ".join(word.text for word in old_words)
    new = " ".join(word.text for word in new_words)
    # Icons are read as punctuation.
    if not any(map(str.isalnum, old)) or not any(map(str.isalnum, new)):
        return "", ""
    return old.lstrip(_BULLETS), new.lstrip(_BULLETS)


def _words(line: ocr.Line) -> Iterator[ocr.Line]:
    """Yield the words of a line, each with the confidence in its characters."""
    start = 0
    for word in line.text.split():
        start = line.text.index(word, start)
        end = start + len(word)
        yield ocr.Line(word, line.sure[start:end])
        start = end


def _sentence(before: str, now: str, source: str) -> str:
    texts = cut(before, _MAX_LENGTH), cut(now, _MAX_LENGTH)
    return f'"{texts[0]}" is now "{texts[1]}" ({source})'
