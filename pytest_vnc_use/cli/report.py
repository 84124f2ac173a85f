"""`cua-vnc report`: the pages of run folders, for a reviewer who did not watch the runs."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vnc_use.cli.output_file import output_file
from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.files import reason_of
from pytest_vnc_use.runs.transcript import line, plain

if TYPE_CHECKING:
    from pytest_vnc_use.report.failures import Failed

_DEFAULT = "vnc-report"
EXIT_CODES = """\
exit code: 0 if all is written or printed, 1 if --markdown has a run that cannot be shown, 2 for wrong usage. Pages say
themselves which run cannot be shown
"""
NOT_SHOWN = 1


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    report = commands.add_parser(
        "report",
        help="write the pages of runs for a reviewer",
        description="Write index.html, a page for each run, and what they share. "
        "Nothing but the run folders, and vnc-results.json beside them, is read.",
        epilog=EXIT_CODES,
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
    report.add_argument(
        "--markdown",
        action="store_true",
        help="print the runs as Markdown, for a bug report or a coding agent; with -o, a file RUN.md for each",
    )
    report.add_argument(
        "--failures",
        metavar="FILE",
        help="also write one PNG with what decided the first tests that failed; none if none did",
    )
    report.add_argument(
        "--links",
        metavar="ADDRESS",
        help="write nothing; print rows of Markdown that lead to each failed test in a report of --one-file at ADDRESS"
        ", and what else is wrong, such as a missing shard",
    )
    report.set_defaults(command=_report)


def _report(arguments: argparse.Namespace) -> int:
    from pytest_vnc_use.report.page.finding import find_runs, results_beside, results_of_shards
    from pytest_vnc_use.report.page.writing import write_report

    _check_options(arguments)
    sheet = _sheet_file(arguments.failures) if arguments.failures else None
    given = map(Path, arguments.path or arguments.merge)
    paths = [path if path.name not in ("", "..") else path.resolve() for path in given]
    if arguments.markdown:
        return _markdown(find_runs(paths), arguments.folder)
    session = results_of_shards(paths) if arguments.merge else results_beside(paths)
    runs = find_runs(paths, may_be_none=session.is_read or bool(arguments.merge))
    if not runs and not session.is_read:
        told = "; ".join(": ".join(filter(None, problem)) for problem in session.problems)
        given_folders = ", ".join(map(repr, arguments.merge))
        raise SettingsError(f"--merge needs a folder with results or runs, got {given_folders}: {told}")
    from pytest_vnc_use.report.failures import failed_tests, links, told_problems

    problems = told_problems(runs, session)
    failed = failed_tests(runs, session.results) if arguments.links or sheet else []
    if arguments.links:
        print(links(failed, arguments.links, problems), end="")
        return 0
    if sheet:
        _write_sheet(sheet, failed)
    beside = len(paths) == 1 and not arguments.one_file and all(run.parent == paths[0] for run in runs)
    folder = Path(arguments.folder or (paths[0] if beside else _DEFAULT))
    _check_folder(folder)
    page = write_report(runs, folder, session, one_file=arguments.one_file)
    for text in (f"{len(runs)} {'run' if len(runs) == 1 else 'runs'} in {page}", *problems):
        print(line(text))
    return 0


def _check_options(arguments: argparse.Namespace) -> None:
    if bool(arguments.path) == bool(arguments.merge):
        raise SettingsError("report needs either PATH or --merge DIR")
    if arguments.merge and not arguments.folder and not arguments.links:
        raise SettingsError("--merge needs -o FOLDER: the pages go there")
    if arguments.markdown and (arguments.merge or arguments.one_file):
        raise SettingsError("--markdown cannot be combined with --merge or --one-file")
    if arguments.links and (arguments.markdown or arguments.failures or arguments.folder):
        raise SettingsError("--links cannot be combined with --markdown, --failures or -o")
    for path in arguments.path:
        if not os.path.lexists(path):  # raises nothing
            raise SettingsError(f"PATH must be a run folder, or a folder with some, got {path!r}: it does not exist")


def _sheet_file(text: str) -> Path:
    file = output_file("--failures", text)
    if not os.path.isdir(file.parent):  # noqa: PTH112  # raises nothing
        raise SettingsError(
            f"--failures must be a file in a folder that exists, got {text!r}: make {str(file.parent)!r}"
        )
    return file


def _write_sheet(file: Path, failed: Sequence[Failed]) -> None:
    from pytest_vnc_use.report.failures import write_sheet

    try:
        write_sheet(file, failed)
    except OSError as exc:
        raise SettingsError(
            f"--failures must be a file that can be written, got {str(file)!r}: {reason_of(exc)}"
        ) from exc


def _check_folder(folder: Path) -> None:
    try:
        is_other = folder.exists() and not folder.is_dir()
    except OSError as exc:
        raise SettingsError(f"-o must be a folder, got {str(folder)!r}: {exc.strerror}") from exc
    if is_other:
        raise SettingsError(f"-o must be a folder, got the file {str(folder)!r}")


def _markdown(runs: list[Path], folder: str | None) -> int:
    """Print the runs as Markdown, or write a file for each into the folder; links lead from there."""
    from pytest_vnc_use.report.markdown import run_text, write_markdown

    if folder is None:
        texts = [run_text(run, Path.cwd()) for run in runs]
        print("\n---\n\n".join(each.text for each in texts), end="")
        return 0 if all(each.is_shown for each in texts) else NOT_SHOWN
    _check_folder(Path(folder))
    code = 0
    for file, is_shown in write_markdown(runs, Path(folder)):
        print(plain(str(file)))
        code = code if is_shown else NOT_SHOWN
    return code
