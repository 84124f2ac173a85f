"""The screenshot after each action, made again from the recorded bytes of the server.

A record of `execution.json` has the number of the server's bytes that were drawn when
its action was over. The VNC client's decoder makes the screen from these bytes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from html import escape
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO

from pytest_vnc_use.backends.client import DesktopFactory, DesktopProtocol
from pytest_vnc_use.backends.pixels import Pixels, encode_png
from pytest_vnc_use.backends.screen import Framebuffer
from pytest_vnc_use.errors import DesktopError, RunDirectoryError
from pytest_vnc_use.files import read_regular
from pytest_vnc_use.harness.recording import RECORDING
from pytest_vnc_use.runs.directory import write_atomically
from pytest_vnc_use.runs.json_lines import load_json
from pytest_vnc_use.runs.uitask_trace import FINAL, PARTIAL

SCREENSHOTS = "action_screenshots"
_MAX_BYTES = 1 << 20
_STYLE = (
    "body{font:15px sans-serif;margin:2em}img{max-width:100%;border:1px solid"
    " #999}pre{white-space:pre-wrap}"
)


def write_screenshots(directory: Path) -> tuple[int, int]:
    """Write the screenshots of a run, from `recording/` and `execution.json`, with a
    list and a page of them.

    Return the numbers of screenshots and of actions. An action has no screenshot if the
    recording ends before it. Raises RunDirectoryError if there is no trace or no
    recording, RunDirectoryUnwritable.
    """
    records = _records(directory)
    recording = directory / RECORDING
    images = directory / SCREENSHOTS
    try:
        data = (recording / "server.rfb.bin").open("rb")
    except OSError as exc:
        raise RunDirectoryError(
            f"{str(recording)!r} is not a recording: {exc}. Record the run"
            " (run(record=True))."
        ) from exc
    images.mkdir(exist_ok=True)
    for old in images.glob("[0-9]*.png"):
        old.unlink()
    listed: list[dict[str, Any]] = []
    with data:
        player = _Player(data)
        for number, record in enumerate(records, start=1):
            pixels = player.screen(record.get("server_bytes"))
            listed.append({**record, "number": number, "image": None})
            if pixels is not None:
                listed[-1]["image"] = f"{SCREENSHOTS}/{number:04}.png"
                write_atomically(directory / listed[-1]["image"], encode_png(pixels))
    as_json = json.dumps(listed, ensure_ascii=False, indent=1)
    for name, text in ((".json", as_json), (".html", _page(listed))):
        path = directory / f"{SCREENSHOTS}{name}"
        write_atomically(path, text.encode("utf-8", "replace"))
    return sum(entry["image"] is not None for entry in listed), len(listed)


def _records(directory: Path) -> list[dict[str, Any]]:
    """Return the records of the actions, also of a run that has not ended."""
    names = [name for name in (FINAL, PARTIAL) if (directory / name).is_file()]
    if not names:
        raise RunDirectoryError(
            f"{str(directory)!r} has no {FINAL} or {PARTIAL}. Name the output_dir of an"
            " agent."
        )
    try:
        records = load_json(read_regular(directory / names[0]))
        return [
            {**record, "action": str(record["action"]), "params": record["params"]}
            for record in records
        ]
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as exc:
        raise RunDirectoryError(
            f"{names[0]} must be a list of actions with `params`: {exc!r}."
        ) from exc


class _Player:
    """A screen on which the server's bytes are drawn again, up to one action after
    another.
    """

    def __init__(self, data: BinaryIO) -> None:
        self._data = data
        self._screen = Framebuffer()
        factory = DesktopFactory(self._screen, "the recording", None)
        # what is asked for does not matter: the bytes are decoded in any encoding
        factory.encoding = "raw"
        self._protocol = DesktopProtocol()
        self._protocol.factory = factory
        self._protocol.makeConnection(_Nowhere())  # type: ignore[no-untyped-call]

    def screen(self, server_bytes: Any) -> Pixels | None:
        """Return the screen after this number of bytes; None if the recording is
        shorter, or cannot be decoded.
        """
        if not isinstance(server_bytes, int):
            return None
        size = os.fstat(self._data.fileno()).st_size
        if not self._data.tell() <= server_bytes <= size:
            return None
        while (left := server_bytes - self._data.tell()) > 0:
            self._protocol.dataReceived(self._data.read(min(left, _MAX_BYTES)))
        try:
            if not self._screen.wait_complete(0.0):
                return None
            return self._screen.pixels()
        except DesktopError:
            return None


class _Nowhere:
    """A transport that drops what the client sends."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: SimpleNamespace(host="127.0.0.1")


def _page(listed: Sequence[dict[str, Any]]) -> str:
    page = (
        '<!doctype html><html lang="en"><meta'
        f' charset="utf-8"><title>Actions</title><style>{_STYLE}</style>'
    )
    for entry in listed:
        params = escape(json.dumps(entry["params"], ensure_ascii=False))
        image = "<p>Not recorded.</p>"
        if entry["image"]:
            image = f'<img src="{entry["image"]}" alt="the screen after it">'
        title = f"{entry['number']}. {escape(entry['action'])}"
        page += f"<h2>{title}</h2><pre>{params}</pre>{image}\n"
    return page
