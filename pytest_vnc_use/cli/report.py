"""`cua-vnc report`: the pages of run directories for a reviewer; with `--merge` the
results of several jobs too.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from pytest_vnc_use.cli import Commands
from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.files import reason_of
from pytest_vnc_use.plain_text import count_of, line, plain
from pytest_vnc_use.report.results import RESULTS, SessionResults, write_results
from pytest_vnc_use.report.summaries import append_job_summary, lines
from pytest_vnc_use.runs.progress import can_show

_DEFAULT = "vnc-report"
EPILOG = f"""\
With --merge, {RESULTS} of all jobs is written too, and the exit code is 1 if a test failed or is in two jobs, a job
has no results, no job has a test, or pytest could not collect a module, was interrupted or failed otherwise in a job.

exit code: 0 if all is written or printed, 1 as above or if --markdown cannot show a run, 2 for wrong usage. Pages name
the runs that cannot be shown
"""
NOT_SHOWN = 1
BAD = 1
_STDERR = 2


def add(commands: Commands) -> None:
    """Register `cua-vnc report` and its options."""
    report = commands.add_parser(
        "report",
        help="Write the pages of runs, and merge the results of several jobs",
        description=(
            "Write index.html, a page for each run, and the files they share. "
            f"Only the run directories, and {RESULTS} beside them, are read."
        ),
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    report.add_argument(
        "path",
        nargs="*",
        metavar="PATH",
        help="Run directory, or a directory of them: those of its last session",
    )
    report.add_argument(
        "--merge",
        nargs="+",
        default=[],
        metavar="DIR",
        help=f"Directories of the jobs, with {RESULTS}; needs -o",
    )
    report.add_argument(
        "--jobs",
        metavar="N",
        help="Number of jobs, with --merge (default: number of DIRs)",
    )
    report.add_argument(
        "-o",
        dest="directory",
        metavar="DIR",
        help=(
            f"Directory of the pages (default: beside the runs, or {_DEFAULT} if they"
            " are apart)"
        ),
    )
    report.add_argument(
        "--one-file", action="store_true", help="Write one HTML file with all images"
    )
    report.add_argument(
        "--markdown",
        action="store_true",
        help=(
            "Print runs as Markdown, for a bug report or an agent; with -o, write"
            " RUN.md for each"
        ),
    )
    report.add_argument(
        "--links",
        metavar="URL",
        help=(
            "Print only Markdown links to the failed tests in the --one-file report at"
            " URL, and problems"
        ),
    )
    report.set_defaults(command=_report)


def _report(arguments: argparse.Namespace) -> int:
    from pytest_vnc_use.report import pages, sessions  # these bring Jinja2

    _check_options(arguments)
    paths = list(map(_with_name, arguments.path or arguments.merge))
    jobs = int(arguments.jobs or 0)
    merged = None
    read = 0
    if arguments.merge:
        session, merged, read = sessions.results_of_jobs(paths, jobs)
    else:
        session = sessions.results_beside(paths)
    may_be_none = not arguments.markdown and (session.is_read or bool(arguments.merge))
    every_run = sessions.find_runs(paths, may_be_none=may_be_none)
    runs = sessions.only_last_session(every_run, paths)
    if earlier := len(every_run) - len(runs):
        count = f"{earlier} runs of earlier sessions are"
        if earlier == 1:
            count = "1 run of earlier sessions is"
        print(f"{count} left out. To see one, name its directory", file=sys.stderr)
    if arguments.markdown:
        are_shown = _print_markdown(runs, arguments.directory)
        return 0 if are_shown else NOT_SHOWN
    if not runs and not session.is_read:
        problems = [": ".join(filter(None, problem)) for problem in session.problems]
        directories = ", ".join(map(repr, arguments.merge))
        raise SettingsError(
            f"--merge needs a directory with results or runs, got {directories}:"
            f" {'; '.join(problems)}"
        )
    problems = sessions.format_problems(runs, session)
    if arguments.links:
        print(sessions.links(runs, session.results, arguments.links, problems), end="")
        return 0
    beside = (
        len(paths) == 1
        and not arguments.one_file
        and all(run.parent == paths[0] for run in runs)
    )
    directory = Path(arguments.directory or (paths[0] if beside else _DEFAULT))
    page = pages.write_report(
        runs,
        directory,
        session,
        one_file=arguments.one_file,
        note_progress=_progress_line(len(runs)),
    )
    print(line(f"{count_of(len(runs), 'run')} in {page}"))
    if merged:
        _write_merged(merged, directory / RESULTS, f"{read} of {max(jobs, len(paths))}")
        is_bad = merged.problems or any(test.is_bad for test in merged.tests)
        return BAD if is_bad else 0
    for problem in problems:
        print(line(problem))
    return BAD if arguments.merge else 0


def _print_markdown(runs: Sequence[Path], directory: str | None) -> bool:
    """Print runs as Markdown, or write them into a directory; return whether all could
    be shown.
    """
    from pytest_vnc_use.report import markdown

    shown = []
    if directory is not None:
        for file, is_shown in markdown.write_markdown(runs, Path(directory)):
            print(plain(str(file)))
            shown.append(is_shown)
        return all(shown)
    texts = []
    for run in runs:
        text, is_shown = markdown.run_markdown(run, Path.cwd())  # links lead from here
        texts.append(text)
        shown.append(is_shown)
    print("\n---\n\n".join(texts), end="")
    return all(shown)


def _write_merged(results: SessionResults, file: Path, jobs: str) -> None:
    """Write the results of all jobs, and print them; `jobs` is such as `3 of 4`."""
    try:
        write_results(file, results)
    except OSError as exc:
        raise SettingsError(
            f"{str(file)!r} cannot be written: {reason_of(exc)}"
        ) from exc
    counts = [f"{number} {name}" for name, number in results.totals.results.items()]
    totals = ", ".join(counts) or "no tests"
    print(line(f"{totals} in {jobs} jobs: {file}"))
    for text in (*lines(results), *results.problems, *append_job_summary(results)):
        print(line(text))


def _with_name(text: str) -> Path:
    """Return the path, made absolute if it does not end with a name, such as `..`."""
    path = Path(text)
    return path.resolve() if path.name in ("", "..") else path


def _progress_line(total: int) -> Callable[[int], object] | None:
    """Return the function that shows on a terminal how many of the runs are done; None
    without a terminal.
    """
    if not can_show(_STDERR):
        return None

    def note_progress(done: int) -> None:
        text = f"runs: {done} of {total}" if done < total else ""
        # what is printed next replaces it
        print(f"\r{text}\x1b[K", end="\r", file=sys.stderr, flush=True)

    return note_progress


def _check_options(arguments: argparse.Namespace) -> None:
    if bool(arguments.path) == bool(arguments.merge):
        raise SettingsError("report needs either PATH or --merge DIR")
    if arguments.merge and not arguments.directory and not arguments.links:
        raise SettingsError("--merge needs -o DIR, the directory of pages and results")
    if arguments.jobs and not arguments.merge:
        raise SettingsError("--jobs needs --merge DIR")
    if arguments.jobs and not re.fullmatch("[1-9][0-9]*", arguments.jobs):
        raise SettingsError(
            f"--jobs must be a whole number from 1, got {arguments.jobs!r}"
        )
    if arguments.markdown and (arguments.merge or arguments.one_file):
        raise SettingsError("--markdown cannot be combined with --merge or --one-file")
    if arguments.links and (arguments.markdown or arguments.directory):
        raise SettingsError("--links cannot be combined with --markdown or -o")
    for path in arguments.path:
        if not os.path.lexists(path):  # raises nothing
            raise SettingsError(
                f"PATH must be a run directory, or one with some, got {path!r}: it does"
                " not exist"
            )
    directory = arguments.directory or "."
    if os.path.lexists(directory) and not os.path.isdir(directory):  # noqa: PTH112  # Path.is_dir may raise
        raise SettingsError(f"-o must be a directory, got the file {directory!r}")
