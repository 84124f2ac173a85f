"""What a commit changes in recordings, as Markdown for a pull request, and as a page in
one file.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence

from PIL import Image

from pytest_vnc_use.plain_text import count_of
from pytest_vnc_use.report.markdown import block, code
from pytest_vnc_use.report.pages import Assets, shared_text
from pytest_vnc_use.report.screenshots import data_uri
from pytest_vnc_use.report.templates import render
from pytest_vnc_use.types import ChangedRecording, ChangedScreens, Region

_MARGIN_PX = 60
"""How much of a screen is shown around what differs."""
_MAX_LINES = 8_000
"""The longest text of one recording, in characters."""


def count_changes(tests: Sequence[object], groups: Sequence[object]) -> str:
    """Return how much changed, such as `3 recordings changed, 1 difference on the
    screen`.
    """
    recordings = count_of(len(tests), "recording")
    differences = count_of(len(groups), "difference")
    return f"{recordings} changed, {differences} on the screen"


def changes_markdown(
    tests: Sequence[ChangedRecording],
    groups: Sequence[ChangedScreens],
    problems: Sequence[str],
) -> str:
    """Return the changes as Markdown. All text of the recordings is in code spans and
    blocks, which it cannot end.
    """
    title = count_changes(tests, groups)
    if problems:
        title += f", {len(problems)} not compared"
    parts = [f"## {title}"]
    parts += [f"- Not compared: {code(problem)}" for problem in problems]
    for number, group in enumerate(groups, 1):
        parts.append(f"### Difference {number}: {_extent(group)}")
        lines = [f"- {code(test)} {code(where)}" for test, where in group.places]
        parts.append("\n".join(lines))
    for test in tests:
        parts.append(f"### {code(test.test)}")
        if test.lines:
            parts.append(block("\n".join(test.lines), _MAX_LINES, "diff"))
        else:
            parts.append("Only screens changed.")
        parts += [f"- {code(sentence)}" for sentence in test.accepted]
    return "\n\n".join(parts) + "\n"


def _extent(group: ChangedScreens) -> str:
    """Return where a group differs, such as `62 x 20 pixels at (300, 410)`."""
    extents = [
        f"{box.width} x {box.height} pixels at ({box.left}, {box.top})"
        for box in group.boxes
    ]
    return ", ".join(extents) or "a whole screen"


def changes_page(
    title: str,
    tests: Sequence[ChangedRecording],
    groups: Sequence[ChangedScreens],
    problems: Sequence[str],
) -> str:
    """Return the changes as an HTML page with its images. Raises OSError where an image
    cannot be read.
    """
    shown = [
        {
            "extent": _extent(group),
            "places": group.places,
            "images": list(_pair(group)),
            "is_part": bool(group.boxes),
        }
        for group in groups
    ]
    return render(
        "changes",
        title=title,
        heading=count_changes(tests, groups),
        assets=Assets(style=shared_text("report.css")),
        tests=tests,
        groups=shown,
        problems=problems,
    )


def _pair(group: ChangedScreens) -> Iterator[dict[str, str]]:
    """Yield the screen before and after: the URL of what differs, and of all of it."""
    for name, path in zip(("before", "after"), group.images, strict=False):
        image = Image.open(path)
        around = image.crop(_around(group.boxes, image.size))
        yield {"name": name, "part": _url(around), "whole": _url(image)}


def _around(
    boxes: Sequence[Region], size: tuple[int, int]
) -> tuple[int, int, int, int]:
    """Return left, top, right and bottom of the part that holds the boxes; of a whole
    screen without any.
    """
    width, height = size
    if not boxes:
        return 0, 0, width, height
    left = min(box.left for box in boxes) - _MARGIN_PX
    top = min(box.top for box in boxes) - _MARGIN_PX
    right = max(box.right for box in boxes) + _MARGIN_PX
    bottom = max(box.bottom for box in boxes) + _MARGIN_PX
    return max(0, left), max(0, top), min(width, right), min(height, bottom)


def _url(image: Image.Image) -> str:
    file = io.BytesIO()
    image.save(file, "WEBP", lossless=True)
    return data_uri(file.getvalue(), "image/webp")
