"""Make the screenshot after each action again, from the recorded bytes of the server.

The bytes go through the decoder of the VNC client. A record of `execution.json` has the time of its action's
screenshot and a digest of its pixels. Only a screen with that digest is written, so an image is what the screen showed.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from html import escape
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO

from pytest_vnc_use.backends.rfb.protocol import DesktopFactory, DesktopProtocol
from pytest_vnc_use.backends.screen.framebuffer import Framebuffer
from pytest_vnc_use.backends.screen.png import encode_png
from pytest_vnc_use.backends.screen.rectangles import Pixels
from pytest_vnc_use.errors import RunFolderError
from pytest_vnc_use.files import read_regular
from pytest_vnc_use.harness.desk import digest_of
from pytest_vnc_use.harness.recording import PIECE, RECORDING
from pytest_vnc_use.runs.folder import write_atomically
from pytest_vnc_use.runs.json_lines import load_json
from pytest_vnc_use.runs.uitask_trace import FINAL, PARTIAL

SCREENSHOTS = "action_screenshots"
_LAG_S = 3.0
"""The longest time from the arrival of an update to its drawing, on a machine with much else to do."""
_STYLE = "body{font:15px sans-serif;margin:2em}img{max-width:100%;border:1px solid #999}pre{white-space:pre-wrap}"


def write_screenshots(directory: Path) -> tuple[int, int]:
    """Write the screenshots of a run, from `recording/` and `execution.json`, with a list and a page of them.

    Return the number of screenshots and of actions: an action has none if the recording ends before it. Raises
    RunFolderError if there is no trace or no recording, RunFolderUnwritable.
    """
    records, recording, images = _records(directory), directory / RECORDING, directory / SCREENSHOTS
    try:
        times = (recording / "server.time.bin").read_bytes()
        data = (recording / "server.rfb.bin").open("rb")
    except OSError as exc:
        raise RunFolderError(f"{str(recording)!r} is no recording: {exc}. Record the run (run(record=True)).") from exc
    images.mkdir(exist_ok=True)
    for old in images.glob("[0-9]*.png"):
        old.unlink()
    listed: list[dict[str, Any]] = []
    with data:
        player = _Player(data, times)
        for number, record in enumerate(records, start=1):
            pixels = player.screen(record.get("at_s"), record.get("screen"))
            listed.append({**record, "number": number, "image": None})
            if pixels is not None:
                listed[-1]["image"] = f"{SCREENSHOTS}/{number:04}.png"
                write_atomically(directory / listed[-1]["image"], encode_png(pixels))
    as_json = json.dumps(listed, ensure_ascii=False, indent=1)
    write_atomically(directory / f"{SCREENSHOTS}.json", as_json.encode("utf-8", "replace"))
    write_atomically(directory / f"{SCREENSHOTS}.html", _page(listed).encode("utf-8", "replace"))
    return sum(entry["image"] is not None for entry in listed), len(listed)


def _records(directory: Path) -> list[dict[str, Any]]:
    """Return the records of the actions, also of a run that has not ended."""
    names = [name for name in (FINAL, PARTIAL) if (directory / name).is_file()]
    if not names:
        raise RunFolderError(f"{str(directory)!r} has no {FINAL} or {PARTIAL}. Name the output_dir of an agent.")
    try:
        records = load_json(read_regular(directory / names[0]))
        return [{**record, "action": str(record["action"]), "params": record["params"]} for record in records]
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as exc:
        raise RunFolderError(f"{names[0]} must be a list of actions with `params`: {exc!r}.") from exc


class _Player(Framebuffer):
    """A screen onto which the pieces are drawn again, up to the time of each screenshot in turn."""

    def __init__(self, data: BinaryIO, times: bytes) -> None:
        super().__init__()
        self._data, whole = data, len(times) - len(times) % PIECE.size
        self._pieces: list[tuple[float, int]] = [*PIECE.iter_unpack(times[:whole])]
        self._next = 0
        self._whole_until_s = self._whole_until(whole == len(times))
        self._wanted, self._is_near = "", False
        self._match: Pixels | None = None
        self._factory = DesktopFactory(self, "the recording", None)
        self._factory.encoding = "raw"  # asks for nothing else in between; all encodings are decoded
        self._protocol = DesktopProtocol()
        self._protocol.factory = self._factory
        self._protocol.makeConnection(_Nowhere())  # type: ignore[no-untyped-call]

    def _whole_until(self, has_all_times: bool) -> float:
        """Return the time of the first bytes that are missing, or whose time is missing; infinity if none is."""
        size, start, last_s = os.fstat(self._data.fileno()).st_size, 0, 0.0
        for last_s, length in self._pieces:
            start += length
            if start > size:
                return last_s
        return math.inf if start == size and has_all_times else last_s

    def screen(self, at_s: Any, digest: Any) -> Pixels | None:
        """Return the screen at that time with those pixels; None if there is none."""
        self._wanted, self._match = digest, None
        if not isinstance(at_s, float) or at_s >= self._whole_until_s:
            return None
        while self._next < len(self._pieces) and self._pieces[self._next][0] <= at_s:
            piece_s, length = self._pieces[self._next]
            if not self._is_near and piece_s > at_s - _LAG_S:
                self._is_near = True
                self._compare()
            self._protocol.dataReceived(self._data.read(length))
            self._next += 1
        self._is_near = False
        self._compare()
        return self._match

    def apply(self, rectangles: Any) -> None:
        """Draw one update, and look whether the screen is the wanted one."""
        super().apply(rectangles)
        if self._is_near:
            self._compare()

    def _compare(self) -> None:
        pixels: Any = self.glance().pixels
        if pixels.size and digest_of(pixels) == self._wanted:
            self._match = pixels


class _Nowhere:
    """A transport that leads nowhere: what the client would send is in its own stream."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: SimpleNamespace(host="127.0.0.1")


def _page(listed: Sequence[dict[str, Any]]) -> str:
    page = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Actions</title><style>{_STYLE}</style>'
    for entry in listed:
        params = escape(json.dumps(entry["params"], ensure_ascii=False))
        image = f'<img src="{entry["image"]}" alt="the screen after it">' if entry["image"] else "<p>Not recorded.</p>"
        page += f"<h2>{entry['number']}. {escape(entry['action'])}</h2><pre>{params}</pre>{image}\n"
    return page
