"""`cua-vnc mask`: leave a part of the screen out of all comparisons of a test."""

from __future__ import annotations

import argparse
import re

from pytest_vnc_use.errors import RecordingError, SettingsError
from pytest_vnc_use.types import Region


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "mask",
        help="leave a part of the screen out of all comparisons of a test",
        description="Write masks into the recordings of a test, or list them. Replays do not see what changes there.",
    )
    parser.add_argument(
        "test",
        metavar="TEST",
        help="a node ID, as pytest prints it: a test (without [...] all its parameters), a class or a file; or the "
        "path of one recording",
    )
    parser.add_argument(
        "regions",
        nargs="*",
        type=_region,
        metavar="LEFT,TOP,RIGHT,BOTTOM",
        help="pixels; right and bottom are outside. Without any, the masks are listed",
    )
    parser.set_defaults(command=_mask)


def _region(text: str) -> Region:
    if not re.fullmatch(r"\d+,\d+,\d+,\d+", text):
        raise argparse.ArgumentTypeError(f"a region is LEFT,TOP,RIGHT,BOTTOM in pixels, got {text!r}")
    region = Region(*map(int, text.split(",")))
    if region.left >= region.right or region.top >= region.bottom:
        raise argparse.ArgumentTypeError(f"right and bottom must be beyond left and top, got {text!r}")
    return region


def _mask(arguments: argparse.Namespace) -> int:
    from pytest_vnc_use.recordings.gates import mask_of
    from pytest_vnc_use.recordings.store import add_masks, load, recordings_of

    for path in recordings_of(arguments.test):
        try:
            is_new = bool(arguments.regions) and add_masks(path, arguments.regions)
        except OSError as exc:
            raise SettingsError(f"{str(path)!r} cannot be written: {exc}") from exc
        if (recording := load(path)) is None:
            raise RecordingError(f"there is no recording at {str(path)!r}")
        width, height = recording.screen_size
        share = float(mask_of(recording.masks, (height, width)).mean())
        if arguments.regions:
            print(f"{path}: {'masked' if is_new else 'was masked already'}; {share:.1%} of the screen is not compared")
        else:
            print(f"{path}: {share:.1%} of the screen is not compared")
            for mask in recording.masks:
                print(f"  {mask.left},{mask.top},{mask.right},{mask.bottom}")
        for claim in (claim for run in recording.runs for claim in run.claims_hidden_by(recording.masks)):
            print(f"  unsure without a judge from now on: {claim!r}; drop the claim, or record it with a judge")
    return 0
