"""`cua-vnc mask` and `cua-vnc recordings`: regions of a test's screens that are not
compared, the changes in a commit, and who accepted changes.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import chain
from pathlib import Path

from pytest_vnc_use.cli import Commands
from pytest_vnc_use.errors import RecordingError, SettingsError
from pytest_vnc_use.files import reason_of
from pytest_vnc_use.plain_text import count_of
from pytest_vnc_use.recordings.changes import format_accepted
from pytest_vnc_use.recordings.format import Recording, named_screens
from pytest_vnc_use.recordings.masks import format_concerned, gates_with
from pytest_vnc_use.recordings.names import name_in
from pytest_vnc_use.recordings.store import (
    DIRECTORY,
    FILE,
    Key,
    add_masks,
    add_values,
    gates_of,
    load,
    read_recording,
    recordings_in,
    recordings_of,
    remove_regions,
)
from pytest_vnc_use.triage import sanitize
from pytest_vnc_use.types import Region

_DONE = {
    (False, False): ("masked", "was masked already"),
    (False, True): ("no longer masked", "was not masked with these regions"),
    (True, False): ("shows the value {!r}", "showed already the value {!r}"),
    (True, True): (
        "no longer shows the value {!r}",
        "did not show the value {!r} in these regions",
    ),
}
"""What `cua-vnc mask` did, and what was so already, by whether it is about a value, and
whether it removes.
"""


def add(commands: Commands) -> None:
    """Add the two commands to the parser."""
    mask = commands.add_parser(
        "mask",
        help="Mask a region of the screen in a test's recordings",
        description=(
            "Write masks into the recordings of a test, or list them. Replays ignore"
            " changes in a mask. Print which gates and claims that concerns."
        ),
    )
    mask.add_argument(
        "test",
        metavar="TEST",
        help=(
            "Node ID of a test (without [...]: all its parameters), class or file; or a"
            " recording's directory"
        ),
    )
    mask.add_argument(
        "regions",
        nargs="*",
        type=_region,
        metavar="LEFT,TOP,RIGHT,BOTTOM",
        help="Regions in pixels, right and bottom exclusive (default: list the masks)",
    )
    mask.add_argument(
        "--at",
        default="",
        metavar="GATE",
        help=(
            "Mask only the screen before this step, such as s7, or at the end, such as"
            " end1 (default: each screen of the test)"
        ),
    )
    mask.add_argument(
        "--value",
        default="",
        metavar="NAME",
        help="With --at: the regions show this value of the task, in place of masks",
    )
    mask.add_argument(
        "--remove",
        action="store_true",
        help="Remove these regions, as they are listed",
    )
    mask.set_defaults(command=_mask)
    recordings = commands.add_parser(
        "recordings",
        help="List named recordings, or print what a commit changes, or who accepted",
    )
    kinds = recordings.add_subparsers(required=True, metavar="list|edit|diff|log")
    named = kinds.add_parser(
        "list",
        help="List the recordings that have a name, with the tests that use them",
    )
    named.add_argument(
        "directory",
        nargs="?",
        type=Path,
        default=Path(),
        metavar="DIRECTORY",
        help="Directory with the tests (default: .)",
    )
    named.set_defaults(command=_list)
    edit = kinds.add_parser(
        "edit",
        help="Replay a test, and insert, replace or skip steps by hand on the page",
        description=(
            "Serve the page of `cua-vnc ui`, and replay a test up to a step. There you"
            " act, and say with which recorded step it continues. The recording is"
            " written if the test passes."
        ),
    )
    edit.add_argument("test", metavar="TEST", help="Node ID of a test")
    edit.add_argument(
        "--at",
        default="",
        metavar="GATE",
        help=(
            "Stop before this step, such as s7 (of a named recording sign_in/s7), or at"
            " the end, such as end1 (default: before the first)"
        ),
    )
    edit.add_argument(
        "--options", default="", metavar="TEXT", help="More options for pytest"
    )
    edit.set_defaults(command=_edit)
    diff = kinds.add_parser(
        "diff",
        help="Print what a commit changes in recordings, as Markdown",
        description=(
            "Compare the recordings of two revisions: differences on the screen, in"
            " groups that changed alike, steps, claims, masks, and who accepted what."
            " The exit code is 1 if a recording cannot be compared."
        ),
    )
    diff.add_argument(
        "revisions",
        nargs="?",
        default="",
        metavar="REVISIONS",
        help=(
            "As for git diff: main..HEAD, main...HEAD, or one to compare with the"
            " working tree (default: HEAD)"
        ),
    )
    diff.add_argument(
        "--html",
        type=Path,
        metavar="FILE",
        help="Also write a page with the screens before and after, in one file",
    )
    diff.set_defaults(command=_diff)
    log = kinds.add_parser(
        "log", help="Print accepted changes with user and time, newest first"
    )
    log.add_argument(
        "test",
        nargs="*",
        metavar="TEST",
        help="Node IDs, files or directories (default: .)",
    )
    log.set_defaults(command=_log)


def _edit(arguments: argparse.Namespace) -> int:
    from pytest_vnc_use.cli.ui import serve_edit

    test = arguments.test
    gate = arguments.at
    # one of a named recording is known once the test replays that
    if "/" not in gate:
        gates = gates_of(test)
        gate = gate or gates[0]
        if gate not in gates:
            raise SettingsError(
                f"the recording of {test!r} has no gate {gate!r}; it has"
                f" {', '.join(gates)}"
            )
    return serve_edit(test, gate, shlex.split(arguments.options))


def _region(text: str) -> Region:
    if not re.fullmatch(r"\d+,\d+,\d+,\d+", text):
        raise argparse.ArgumentTypeError(
            f"a region must be LEFT,TOP,RIGHT,BOTTOM in pixels, got {text!r}"
        )
    region = Region(*map(int, text.split(",")))
    if region.left >= region.right or region.top >= region.bottom:
        raise argparse.ArgumentTypeError(
            f"right and bottom must be beyond left and top, got {text!r}"
        )
    return region


def _mask(arguments: argparse.Namespace) -> int:
    regions = arguments.regions
    name = arguments.value
    if name and not (regions and arguments.at):
        raise SettingsError(
            f"--value={name} needs regions, and the gate that shows the value: --at=s7"
        )
    gate = arguments.at
    removes = arguments.remove
    if removes and not regions:
        raise SettingsError(
            "--remove needs regions. List them with"
            f" {shlex.join(['cua-vnc', 'mask', arguments.test])}"
        )
    paths = recordings_of(arguments.test)
    not_removed = []
    for path in paths:
        is_new = False
        try:
            if removes:
                is_new = remove_regions(path, regions, gate, name)
            elif name:
                is_new = add_values(path, name, regions, gate)
            elif regions:
                is_new = add_masks(path, regions, gate)
        except OSError as exc:
            raise SettingsError(
                f"{str(path)!r} cannot be written: {reason_of(exc)}"
            ) from exc
        if (recording := load(path)) is None:
            raise RecordingError(f"there is no recording at {str(path)!r}")
        if not regions:
            _print_masks(path, recording)
            continue
        done = _DONE[bool(name), removes][not is_new].format(name)
        concerned = gate or "all gates"
        if not (name or removes):
            concerned = format_concerned(recording, regions, gate)
        text = f"{path}: {done} at {concerned}"
        if removes and not is_new:
            not_removed.append(f"{text}{_elsewhere(recording, regions, name)}")
        else:
            print(text)
    if not_removed and len(not_removed) == len(paths):
        raise RecordingError("\n".join(not_removed))
    for text in not_removed:
        print(text)
    return 0


def _elsewhere(recording: Recording, regions: Sequence[Region], value: str) -> str:
    """Return at which other gates these regions can be removed; "" if at none."""
    if not value and any(mask in regions for mask in recording.masks):
        return "; they are at all gates: leave out --at"
    gates = gates_with(recording, regions, value)
    if not gates:
        return ""
    return f"; they are at {' and '.join(gates)}: --at {gates[0]}"


def _print_masks(path: Path, recording: Recording) -> None:
    """Print the masks of a recording, each as it is given to the command."""
    print(path)
    for mask in recording.masks:
        concerned = format_concerned(recording, [mask])
        print(f"  {_format_region(mask)}  {concerned}")
    for named in named_screens(recording):
        for mask in named.screen.masks:
            print(f"  {_format_region(mask)} --at {named.name}")
        for shown in named.screen.values:
            place = f"{_format_region(shown.region)} --at {named.name}"
            print(f"  {place} --value {shown.name}")


def _format_region(region: Region) -> str:
    return f"{region.left},{region.top},{region.right},{region.bottom}"


def _list(arguments: argparse.Namespace) -> int:
    directory = arguments.directory.resolve()
    users: dict[Path, list[str]] = {}
    for path in _paths(str(directory)):
        recording = read_recording(path)
        if name_in(recording.test):
            users.setdefault(path, [])
        module = path.parents[3] / recording.test.partition("::")[0]
        for name in dict.fromkeys(recording.uses):
            used = Key.of_name(name, module, directory).path
            test = os.path.relpath(path.parents[3] / recording.test)
            users.setdefault(used, []).append(test)
    for path, tests in users.items():
        count = count_of(len(tests), "test")
        recorded = read_recording(path) if path.exists() else None
        task = repr(recorded.segments[0].task) if recorded else "not recorded"
        print(f"{os.path.relpath(path.parent)}: {task}, {count}")
        for test in tests:
            print(f"  {test}")
    if not users:
        print("no recording has a name")
    return 0


def _diff(arguments: argparse.Namespace) -> int:
    # Jinja and numpy take a third of a second, which other commands need not wait for.
    from pytest_vnc_use.recordings.revisions import RevisionReview
    from pytest_vnc_use.report.changes import changes_markdown, changes_page

    with closing(RevisionReview(arguments.revisions)) as review:
        changes = review.tests, review.groups, review.left_out
        if arguments.html:
            page = changes_page(f"Recordings: {review.revisions}", *changes)
            try:
                arguments.html.write_text(page, "utf-8")
            except OSError as exc:
                raise SettingsError(
                    f"{str(arguments.html)!r} cannot be written: {reason_of(exc)}"
                ) from exc
        print(changes_markdown(*changes), end="")
        return 1 if review.left_out else 0


def _log(arguments: argparse.Namespace) -> int:
    lines = []
    paths = chain.from_iterable(map(_paths, arguments.test or ["."]))
    for path in dict.fromkeys(paths):
        try:
            recording = read_recording(path)
        except FileNotFoundError as exc:
            raise RecordingError(f"there is no recording at {str(path)!r}") from exc
        test = path.parents[3] / recording.test
        for entry, location in recording.history.items():
            line = format_accepted(entry, location, str(test))
            lines.append((entry.at, line))
    for _, line in sorted(lines, reverse=True):
        print(sanitize(line, hide=str))
    if not lines:
        print("nothing was accepted")
    return 0


def _paths(test: str) -> Iterator[Path]:
    directory = Path(test)
    if not directory.is_dir() or (directory / FILE).exists():
        yield from recordings_of(test)
        return
    for below in sorted(directory.rglob(DIRECTORY)):
        yield from recordings_in(below)
