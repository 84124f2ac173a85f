"""`cua-vnc mask` and `cua-vnc recordings log`: what of a test's screens is not compared, and who accepted changes."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

from pytest_vnc_use.errors import RecordingError, SettingsError
from pytest_vnc_use.recordings.gates import mask_of
from pytest_vnc_use.recordings.store import DIRECTORY, add_masks, load, parse, recordings_of
from pytest_vnc_use.triage import sanitize
from pytest_vnc_use.types import Region


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the two commands to the parser."""
    mask = commands.add_parser(
        "mask",
        help="Mask a region of the screen in a test's recordings",
        description="Write masks into the recordings of a test, or list them. Replays ignore changes in a mask.",
    )
    mask.add_argument(
        "test",
        metavar="TEST",
        help="Node ID of a test (without [...]: all its parameters), class or file; or a recording's path",
    )
    mask.add_argument(
        "regions",
        nargs="*",
        type=_region,
        metavar="LEFT,TOP,RIGHT,BOTTOM",
        help="Regions in pixels, right and bottom exclusive (default: list the masks)",
    )
    mask.set_defaults(command=_mask)
    recordings = commands.add_parser("recordings", help="Print who accepted which changes of recordings")
    kinds = recordings.add_subparsers(required=True, metavar="log")
    log = kinds.add_parser("log", help="Print accepted changes with user and time, newest first")
    log.add_argument("test", nargs="*", metavar="TEST", help="Node IDs, files or directories (default: .)")
    log.set_defaults(command=_log)


def _region(text: str) -> Region:
    if not re.fullmatch(r"\d+,\d+,\d+,\d+", text):
        raise argparse.ArgumentTypeError(f"a region must be LEFT,TOP,RIGHT,BOTTOM in pixels, got {text!r}")
    region = Region(*map(int, text.split(",")))
    if region.left >= region.right or region.top >= region.bottom:
        raise argparse.ArgumentTypeError(f"right and bottom must be beyond left and top, got {text!r}")
    return region


def _mask(arguments: argparse.Namespace) -> int:
    for path in recordings_of(arguments.test):
        try:
            is_new = bool(arguments.regions) and add_masks(path, arguments.regions)
        except OSError as exc:
            raise SettingsError(f"{str(path)!r} cannot be written: {exc}") from exc
        if (recording := load(path)) is None:
            raise RecordingError(f"there is no recording at {str(path)!r}")
        width, height = recording.screen_size
        share = float(mask_of(recording.masks, (height, width)).mean())
        what = ("masked; " if is_new else "was masked already; ") if arguments.regions else ""
        print(f"{path}: {what}{share:.1%} of the screen is not compared")
        for mask in () if arguments.regions else recording.masks:
            print(f"  {mask.left},{mask.top},{mask.right},{mask.bottom}")
        for claim in (claim for run in recording.runs for claim in run.claims_hidden_by(recording.masks)):
            print(f"  unsure until it is judged again: {claim!r}; run the test once with --vnc-record=auto and a judge")
    return 0


def _log(arguments: argparse.Namespace) -> int:
    lines = []
    for path in dict.fromkeys(path for test in arguments.test or ["."] for path in _paths(test)):
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as exc:
            raise RecordingError(f"{str(path)!r} cannot be read: {exc}") from exc
        recording = parse(text, repr(str(path)))
        test = path.parents[2] / recording.test
        for entry in recording.history:
            at = entry.region
            where = f" {entry.location}" if entry.location else ""
            where += f" {at.left},{at.top},{at.right},{at.bottom}" if at else ""
            claim = f" for the claim {entry.claim!r}" if entry.claim else ""
            steps = f": {entry.steps}" if entry.steps else ""
            lines.append((entry.at, f"{entry.at:%Y-%m-%d %H:%M} {entry.by} accepted {test}{where}{claim}{steps}"))
    for _, line in sorted(lines, reverse=True):
        print(sanitize(line, hide=str))
    if not lines:
        print("nothing was accepted")
    return 0


def _paths(test: str) -> Iterator[Path]:
    if Path(test).is_dir():
        yield from sorted(Path(test).rglob(f"{DIRECTORY}/*/*.json"))
    else:
        yield from recordings_of(test)
