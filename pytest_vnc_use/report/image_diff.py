"""A drift as one document for Allure: the recorded screen, the current one, and the difference."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path

from PIL import Image

from pytest_vnc_use.report.assets import data_uri
from pytest_vnc_use.report.page.pictures import Screens
from pytest_vnc_use.runs.folder import RunFolder
from pytest_vnc_use.types import Drifted

MIME = "application/vnd.allure.image.diff"


def image_diff(run_folder: Path, drift: Drifted) -> str:
    """Return the document, in JSON. Raises RunFolderError if a picture is missing or damaged."""
    screens = Screens(RunFolder(run_folder))
    expected, actual = screens.png(drift.recorded), screens.png(drift.seen)
    compared = screens.compare(drift.recorded, drift.seen, drift.region)
    pictures = {"expected": expected, "actual": actual}
    if compared and compared.shade:
        pictures["diff"] = _shaded(actual, compared.shade)
    return json.dumps({name: data_uri(png) for name, png in pictures.items()})


def _shaded(png: bytes, shade: bytes) -> bytes:
    with Image.open(BytesIO(png)) as screen, Image.open(BytesIO(shade)) as over:
        content = BytesIO()
        Image.alpha_composite(screen.convert("RGBA"), over.convert("RGBA")).convert("RGB").save(content, "PNG")
    return content.getvalue()
