"""`cua-vnc screenshots`: the screenshot after each action of a harness's run, from its
recording.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_vnc_use.cli import Commands

INCOMPLETE = 1


def add(commands: Commands) -> None:
    """Register `cua-vnc screenshots` and its options."""
    parser = commands.add_parser(
        "screenshots",
        help="Write the screenshot after each action of an agent's recorded run",
        description=(
            "Write action_screenshots.json, action_screenshots.html and the images in"
            " action_screenshots/ beside the recording/ of an agent's run"
            " (pytest_vnc_use.harness). Each image is what the screen showed, pixel for"
            " pixel; an action after the end of the recording has none."
        ),
        epilog=(
            "exit code: 0 if each action has its screenshot, 1 if one has none, 2 for"
            " wrong usage"
        ),
    )
    parser.add_argument("output_dir", type=Path, help="The agent's output_dir")
    parser.set_defaults(command=_screenshots)


def _screenshots(arguments: argparse.Namespace) -> int:
    from pytest_vnc_use.harness.screenshots import write_screenshots

    written, actions = write_screenshots(arguments.output_dir)
    print(
        f"{written} screenshots of {actions} actions:"
        f" {arguments.output_dir / 'action_screenshots.html'}"
    )
    return INCOMPLETE if written < actions else 0
