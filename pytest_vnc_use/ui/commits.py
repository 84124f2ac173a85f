"""What a commit changes in recordings, for the page: in groups, without an answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pytest_vnc_use.recordings.revisions import RevisionReview
from pytest_vnc_use.types import ChangedScreens
from pytest_vnc_use.ui.link import corners_of


class CommitReview:
    """The recordings that differ between two revisions (see `RevisionReview`)."""

    def __init__(self, revisions: str) -> None:
        self._review = RevisionReview(revisions)

    def image(self, name: str) -> Path | None:
        """Return the file of an image that a group shows."""
        for group in self._review.groups:
            for path in group.images:
                if path.name == name:
                    return path
        return None

    def facts(self) -> dict[str, Any]:
        """Return what the page shows."""
        groups = [
            _facts_of(f"change {number}", group)
            for number, group in enumerate(self._review.groups)
        ]
        texts = [
            {
                "test": test.test,
                "diff": "\n".join(test.lines),
                "accepted": test.accepted,
            }
            for test in self._review.tests
        ]
        return {
            "type": "groups",
            "revisions": self._review.revisions,
            "groups": groups,
            "texts": texts,
            "left_out": self._review.left_out,
        }

    def close(self) -> None:
        """Remove the images."""
        self._review.close()


def _facts_of(name: str, group: ChangedScreens) -> dict[str, Any]:
    places = [
        {"test": f"{test}: {location}", "result": ""} for test, location in group.places
    ]
    return {
        "id": name,
        "about": "commit",
        "tests": places,
        "problem": "",
        "boxes": list(map(corners_of, group.boxes)),
        "urls": [f"image/{path.name}" for path in group.images],
        "acts": [],
        "moved": [],
        "claim": "",
        "diff": "",
        "masked_px": 0,
        "concerned": {},
        "refused": {},
    }
