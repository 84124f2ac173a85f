"""The addresses of a page's pictures: inside the page, or as files beside it."""

from __future__ import annotations

import hashlib
import os
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

from pytest_vnc_use.files import replace_file
from pytest_vnc_use.report.page.png_pixels import open_png
from pytest_vnc_use.runs.json_lines import read_whole

_THUMB = (320, 200)

Link = Callable[[bytes], str]
"""A function from a PNG to the address that shows it."""


def data_uri(png: bytes) -> str:
    """Return the picture itself as an address, for a report in one file."""
    return f"data:image/png;base64,{b64encode(png).decode('ascii')}"


def thumbnail(png: bytes) -> str:
    """Return a small picture of the picture as an address. Raises RunFolderError if it is damaged."""
    content = BytesIO()
    image = open_png(png)
    small = image.convert("RGB").reduce(max(image.width // (2 * _THUMB[0]), 1))
    small.thumbnail(_THUMB)
    small.save(content, "WEBP", quality=75, method=0)
    return f"data:image/webp;base64,{b64encode(content.getvalue()).decode('ascii')}"


@dataclass(frozen=True)
class AssetLink:
    """A link to files in the folder `prefix`, such as `assets/`, that lies beside a report.

    Pictures are only noted here, by file name, because another process or machine may write the report.
    """

    prefix: str
    pictures: dict[str, bytes] = field(default_factory=dict)

    def __call__(self, png: bytes) -> str:
        """Note a picture, and return its address."""
        name = f"{hashlib.sha256(png).hexdigest()}.png"
        self.pictures[name] = png
        return self.prefix + name


def keep_asset(file: Path, png: bytes, original: Path | None = None) -> None:
    """Keep a picture at `file`, unless it is there: as a hard link to `original` if that has it, else as a copy.

    Processes may write at the same time. Raises OSError.
    """
    if file.exists():
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    if original is None or not _is_linked(file, original, png):
        replace_file(file, png)


def _is_linked(file: Path, original: Path, png: bytes) -> bool:
    try:
        if read_whole(original, len(png)) != png:
            return False
        os.link(original, file)
    except FileExistsError:
        return True
    except OSError:  # it is on another machine or another disk, or there are no hard links
        return False
    return True
