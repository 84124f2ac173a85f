"""`cua-vnc report`: the pages of run folders, for a reviewer who did not watch the runs."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.runs.transcript import plain

_DEFAULT = "vnc-report"


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    report = commands.add_parser(
        "report",
        help="write the pages of runs for a reviewer",
        description="Write index.html, a page for each run, and what they share. "
        "Nothing but the run folders, and vnc-results.json beside them, is read.",
    )
    report.add_argument("path", nargs="*", metavar="PATH", help="a run folder, or a folder with run folders below it")
    report.add_argument(
        "--merge",
        nargs="+",
        default=[],
        metavar="DIR",
        help="folders of a session's shards, each with its vnc-results.json; the page says which has none. Needs -o",
    )
    report.add_argument(
        "-o",
        dest="folder",
        metavar="FOLDER",
        help=f"where the pages go (default: beside the run folders, or {_DEFAULT} if they lie in several places)",
    )
    report.add_argument("--one-file", action="store_true", help="one HTML file with all pictures, which needs a script")
    report.set_defaults(command=_report)


def _report(arguments: argparse.Namespace) -> int:
    from pytest_vnc_use.report.page.finding import find_runs, results_beside, results_of_shards
    from pytest_vnc_use.report.page.writing import write_report

    if bool(arguments.path) == bool(arguments.merge):
        raise SettingsError("report needs either PATH or --merge DIR")
    if arguments.merge and not arguments.folder:
        raise SettingsError("--merge needs -o FOLDER: the pages go there")
    paths = [Path(path) for path in arguments.path or arguments.merge]
    told = results_of_shards(paths) if arguments.merge else results_beside(paths)
    runs = find_runs(paths, may_be_none=bool(told.results or arguments.merge))
    if not runs and not told.results:
        raise SettingsError(f"--merge needs a folder with results or runs, got {', '.join(map(repr, arguments.merge))}")
    folder = Path(arguments.folder) if arguments.folder else _beside(paths, runs, one_file=arguments.one_file)
    if folder.exists() and not folder.is_dir():
        raise SettingsError(f"-o must be a folder, got the file {str(folder)!r}")
    page = write_report(runs, folder, told, one_file=arguments.one_file)
    print(plain(f"{len(runs)} {'run' if len(runs) == 1 else 'runs'} in {page}"))
    return 0


def _beside(paths: list[Path], runs: list[Path], *, one_file: bool) -> Path:
    together = len(paths) == 1 and all(run.parent == paths[0] for run in runs)
    return paths[0] if together and not one_file else Path(_DEFAULT)
