"""The addresses of a page's pictures: inside the page, or as files beside it."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

from PIL import Image

from pytest_vnc_use.atomic_file import write_atomically
from pytest_vnc_use.errors import RunFolderError

_THUMB = (320, 200)

Link = Callable[[bytes], str]
"""A function from a PNG to the address that shows it."""


def data_uri(png: bytes) -> str:
    """Return the picture itself as an address, for a report in one file."""
    return f"data:image/png;base64,{b64encode(png).decode('ascii')}"


def thumbnail(png: bytes) -> str:
    """Return a small picture of the picture as an address. Raises RunFolderError if it is damaged."""
    content = BytesIO()
    try:
        with Image.open(BytesIO(png), formats=["PNG"]) as image:
            small = image.convert("RGB").reduce(max(image.width // (2 * _THUMB[0]), 1))
            small.thumbnail(_THUMB)
            small.save(content, "WEBP", quality=75, method=0)
    except (OSError, SyntaxError, ValueError) as exc:
        raise RunFolderError(f"the picture is damaged: {exc}") from exc
    return f"data:image/webp;base64,{b64encode(content.getvalue()).decode('ascii')}"


def asset_writer(assets_dir: Path, prefix: str) -> Link:
    """Return a link that keeps pictures in `assets_dir`, each once; an address is `prefix` and the file's name.

    `prefix` leads from the report to the folder, such as `assets/`. Processes may write at the same time. The folder is
    made with the first picture. The link raises OSError if it cannot write.
    """

    def link(png: bytes) -> str:
        name = _name(png)
        if not (assets_dir / name).exists():
            assets_dir.mkdir(parents=True, exist_ok=True)
            write_atomically(assets_dir / name, png)
        return prefix + name

    return link


def collecting(pictures: set[bytes], prefix: str) -> Link:
    """Return a link that gives the addresses of `asset_writer` in advance: another machine may write the report.

    The pictures are put into `pictures`, to be written there.
    """

    def link(png: bytes) -> str:
        pictures.add(png)
        return prefix + _name(png)

    return link


def _name(png: bytes) -> str:
    return f"{hashlib.sha256(png).hexdigest()}.png"
