"""What the report takes: bytes, time to write, and time to open in Chromium, beside the bounds of each.

    python tests/bench/run.py report [--quick]

Runs are made like those of the examples, each with its own pixels, 1440x900: 200 runs of 10 steps, and one of 300.
Opened is the time until a page is loaded and has painted two frames, the median of five. `--quick` makes 20 runs.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright
from ratios import head, machine, row
from report_runs import Example, write_runs

from pytest_vnc_use.report.pages import write_report

MB = 1_000_000
ROUNDS = 5
FRAMES = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
CONFTEST = """
import os
from pathlib import Path

import pytest
from pytest_vnc_use.plugin import reporting


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if call.when == "call":
        run = Path(os.environ["RUNS"], f"run-{item.callspec.params['number']:04}")
        reporting.add_runs(item, report, [run], "")
    return report
"""
TESTS = """
import os

import pytest


@pytest.mark.parametrize("number", range(int(os.environ["COUNT"])))
def test_it(number, request):
    assert number >= int(os.environ["FAILING"])
"""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(allow_abbrev=False, prog="report")
    parser.add_argument("--quick", action="store_true", help="20 runs in the place of 200")
    count = 20 if parser.parse_args(arguments).quick else 200
    print(machine())
    with tempfile.TemporaryDirectory(prefix="report-") as name, browser() as opened:
        directory = Path(name)
        example = Example(directory / "example")
        many, long = directory / "many", directory / "long"
        write_runs(example, many, count, 10, failing=count // 20)
        write_runs(example, long, 1, 300, failing=0)
        print(
            f"\n{count} runs of 10 steps, their images {megabytes(many):.0f} MB; "
            f"one of 300 steps, its images {megabytes(long):.0f} MB\n"
        )
        print(head("", "seen", "bound"), flush=True)
        _many(many, directory, count, opened)
        _long(long, directory, opened)
    return 0


def _many(runs: Path, directory: Path, count: int, opened: Callable[[Path], float]) -> None:
    steps = count * 10
    show(f"{count} × 10, beside the runs: written, a step", written(runs, runs, steps), "10 ms")
    show("  opened", f"{opened(runs / 'index.html'):.2f} s", "1 s")
    took = written(runs, directory / "pages", steps)
    show(f"{count} × 10, directory of its own", f"{megabytes(directory / 'pages'):.1f} MB", f"{0.15 * count:.0f} MB")
    show("  written, a step", took, "")
    show("  opened", f"{opened(directory / 'pages' / 'index.html'):.2f} s", "1 s")
    shutil.rmtree(directory / "pages")
    took = written(runs, directory / "one", steps, one_file=True)
    show(f"{count} × 10, one file", f"{megabytes(directory / 'one'):.1f} MB", f"{0.2 * count:.0f} MB")
    show("  written, a step", took, "60 ms")
    show("  opened", f"{opened(directory / 'one' / 'index.html'):.2f} s", "2 s")
    shutil.rmtree(directory / "one")
    html = pytest_html(runs, directory, count)
    show(f"{count} × 10, pytest-html, self-contained", f"{html.stat().st_size / MB:.1f} MB", "")
    show("  opened", f"{opened(html):.2f} s", "2 s")


def _long(runs: Path, directory: Path, opened: Callable[[Path], float]) -> None:
    took = written(runs, directory / "long-pages", 300)
    packed = directory / "packed.tar.gz"
    with tarfile.open(packed, "w:gz", compresslevel=6) as file:
        file.add(directory / "long-pages", "report")
    show("300 steps, packed directory", f"{packed.stat().st_size / MB:.1f} MB", "8 MB")
    show("  written, a step", took, "")
    show("  opened", f"{opened(directory / 'long-pages' / 'run-0000' / 'index.html'):.2f} s", "1 s")
    took = written(runs, directory / "long-one", 300, one_file=True)
    show("300 steps, one file", f"{megabytes(directory / 'long-one'):.1f} MB", "")
    show("  written, a step", took, "60 ms")
    show("  opened at the run", f"{opened(directory / 'long-one' / 'index.html', '#run-1'):.2f} s", "")


def show(*cells: str) -> None:
    print(row(*cells), flush=True)


def written(runs: Path, target: Path, steps: int, *, one_file: bool = False) -> str:
    """Write the report as the command does; the time of a step, on the clock and of the processor."""
    began_s, busy_s = time.perf_counter(), time.process_time()
    write_report(sorted(path.parent for path in runs.glob("*/trace.jsonl")), target, one_file=one_file)
    took_s, busy_s = time.perf_counter() - began_s, time.process_time() - busy_s
    return f"{1000 * took_s / steps:.1f} ms ({1000 * busy_s / steps:.1f} of the processor)"


def megabytes(path: Path) -> float:
    return sum(each.stat().st_size for each in path.rglob("*") if each.is_file()) / MB


def pytest_html(runs: Path, directory: Path, count: int) -> Path:
    """The report of pytest-html in one file, of tests that made these runs."""
    tests = directory / "tests"
    tests.mkdir()
    (tests / "conftest.py").write_text(CONFTEST)
    (tests / "test_it.py").write_text(TESTS)
    (tests / "pytest.ini").write_text("[pytest]\n")
    given = {"RUNS": str(runs), "COUNT": str(count), "FAILING": str(count // 20)}
    options = ["-q", "-p", "no:cacheprovider", "--html=report.html", "--self-contained-html", f"--vnc-runs-dir={runs}"]
    began_s = time.perf_counter()
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *options],
        cwd=tests,
        env={**os.environ, **given},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 1, ended.stdout + ended.stderr
    show("pytest-html written, a step", f"{100 * (time.perf_counter() - began_s) / count:.1f} ms", "")
    return tests / "report.html"


@contextmanager
def browser() -> Iterator[Callable[..., float]]:
    """A function from a page to the seconds until it has painted two frames; each time in a window of its own."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    assert chromium, "needs Chromium: apt-get install chromium"
    with sync_playwright() as started:
        running = started.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-dev-shm-usage"])

        def opened(page: Path, where: str = "") -> float:
            return statistics.median(_opened(running, page.as_uri() + where) for _ in range(ROUNDS))

        yield opened
        running.close()


def _opened(running: Any, address: str) -> float:
    context = running.new_context(viewport={"width": 1280, "height": 720})
    page = context.new_page()
    page.set_default_timeout(120_000)
    began_s = time.perf_counter()
    page.goto(address)
    page.evaluate(FRAMES)
    took_s = time.perf_counter() - began_s
    context.close()
    return took_s


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
