"""`cua-vnc recordings log`: who accepted which change of a screen, and when."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from pytest_vnc_use.errors import RecordingError
from pytest_vnc_use.triage import sanitize


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("recordings", help="print who accepted which changes of recordings")
    kinds = parser.add_subparsers(required=True, metavar="log")
    log = kinds.add_parser("log", help="print who accepted which change, and when; the newest first")
    log.add_argument("test", nargs="*", metavar="TEST", help="node IDs, files or directories (default: .)")
    log.set_defaults(command=_log)


def _log(arguments: argparse.Namespace) -> int:
    from pytest_vnc_use.recordings.store import parse

    lines = []
    for path in dict.fromkeys(path for test in arguments.test or ["."] for path in _paths(test)):
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as exc:
            raise RecordingError(f"{str(path)!r} cannot be read: {exc}") from exc
        recording = parse(text, repr(str(path)))
        test = path.parents[2] / recording.test
        for each in recording.history:
            at = each.region
            where = f" {at.left},{at.top},{at.right},{at.bottom}" if at else ""
            claim = f" for the claim {each.claim!r}" if each.claim else ""
            steps = f": {each.steps}" if each.steps else ""
            lines.append((each.at, f"{each.at:%Y-%m-%d %H:%M} {each.by} accepted {test}{where}{claim}{steps}"))
    for _, line in sorted(lines, reverse=True):
        print(sanitize(line, hide=str))
    if not lines:
        print("nothing was accepted")
    return 0


def _paths(test: str) -> Iterator[Path]:
    from pytest_vnc_use.recordings.store import DIRECTORY, recordings_of

    if Path(test).is_dir():
        yield from sorted(Path(test).rglob(f"{DIRECTORY}/*/*.json"))
    else:
        yield from recordings_of(test)
