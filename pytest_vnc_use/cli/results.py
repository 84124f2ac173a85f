"""`cua-vnc results`: the results of several jobs as one file, and whether all of them are there."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from pytest_vnc_use.cli.output_file import output_file
from pytest_vnc_use.errors import RunFolderError, SettingsError
from pytest_vnc_use.files import reason_of
from pytest_vnc_use.plain_text import line
from pytest_vnc_use.report.results import SessionResults

_FILE = "vnc-results.json"
EXIT_CODES = """\
exit code: 0 if every test is there once and none failed; 1 if a test failed or is in two jobs, if a job has no
results, if no job has a test, or if pytest could not collect a module, was interrupted or failed otherwise in a job;
2 for wrong usage
"""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    results = commands.add_parser(
        "results",
        help="put the results of several jobs together",
        description=f"Read {_FILE} of each job, write one for all, and say which job has none. "
        "`cua-vnc report` makes the pages.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    results.add_argument(
        "path", nargs="+", metavar="PATH", help=f"what a job left: its {_FILE}, or a folder with it somewhere below"
    )
    results.add_argument(
        "-o", dest="file", default=_FILE, metavar="FILE", help="the file for all results (default: %(default)s)"
    )
    results.add_argument("--jobs", metavar="N", help="how many jobs there were (default: as many as PATHs)")
    results.set_defaults(command=_results)


def _results(arguments: argparse.Namespace) -> int:
    from pytest_vnc_use.report.merging import merged
    from pytest_vnc_use.report.results import write_results
    from pytest_vnc_use.report.summaries import lines, tell_github

    file = output_file("-o", arguments.file)
    paths = [Path(path) for path in arguments.path]
    jobs = _count(arguments.jobs) if arguments.jobs else len(paths)
    parts, problems = _read(paths)
    if not parts:
        raise RunFolderError("; ".join(problems))
    if len(paths) < jobs:
        problems.append(f"{jobs - len(paths)} of {jobs} jobs are missing")
    elif len(paths) > jobs:
        problems.append(f"--jobs must be the number of all jobs, got {jobs} for {len(paths)} paths")
    results = merged(parts, problems)
    try:
        write_results(file, results)
    except OSError as exc:
        raise SettingsError(f"-o must be a file that can be written, got {arguments.file!r}: {reason_of(exc)}") from exc
    counts = ", ".join(f"{count} {result}" for result, count in results.totals.results.items())
    for text in (
        f"{counts or 'no tests'} in {len(parts)} of {max(jobs, len(paths))} jobs: {file}",
        *lines(results),
        *results.problems,
        *tell_github(results),
    ):
        print(line(text))
    return 1 if results.problems or any(test.is_bad for test in results.tests) else 0


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise SettingsError(f"--jobs must be a whole number from 1, got {text!r}")
    return int(text)


def _read(paths: Sequence[Path]) -> tuple[dict[str, SessionResults], list[str]]:
    """Return the results at each path, by the path, and the errors of the others."""
    from pytest_vnc_use.report.page.finding import results_files
    from pytest_vnc_use.report.results import read_results

    parts: dict[str, SessionResults] = {}
    problems: list[str] = []
    read: dict[Path, Path] = {}
    for path in paths:
        files = [path] if os.path.isfile(path) else list(results_files(path))  # noqa: PTH113  # raises nothing
        if len(files) != 1:
            found = f"it has {len(files)}" if files else "it has none: its job did not end"
            problems.append(f"{str(path)!r} must have one {_FILE} below it, {found}")
        elif (file := files[0].resolve()) in read:
            problems.append(f"{str(path)!r} must be another job's, it has the results of {str(read[file])!r}")
        else:
            read[file] = path
            try:
                parts[str(path)] = read_results(file)
            except RunFolderError as exc:
                problems.append(f"{str(path)!r} has results that cannot be read: {exc}")
    return parts, problems
