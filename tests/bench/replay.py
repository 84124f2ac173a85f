"""A replayed test, beside Playwright with a browser a test: a table in Markdown.

    python tests/bench/run.py replay [ROUNDS]

The gallery's page is recorded here, once. Then one session of pytest has both tests in
turn, ROUNDS (10 by default) times: the recording, replayed in a Chromium with a window
on a new TigerVNC desktop, and the same three steps by Playwright in the same Chromium
without a window. Measured is all that pytest does for a test, from its setup to its
report. A round before warms up, with all imports; Playwright's own process is started
once for all tests. The floor is to start that Chromium and show the page.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from ratios import beside, head, machine, row, session

from support.paths import EXAMPLES

FILES = ("conftest.py", "order.html", "pytest.ini", "scripts.py", "test_page.py")
WAYS = {
    "test_start": "floor",
    "test_playwright": "Playwright",
    "test_order_is_taken": "ours",
}
TIMES = "times.txt"
IN_TURN = """
import time

RECORDED_ON = platform.freedesktop_os_release().get("VERSION_CODENAME", "?")


def pytest_generate_tests(metafunc):
    metafunc.fixturenames.append("__round")
    metafunc.parametrize("__round", range({rounds}), scope="module")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    started_s = time.perf_counter()
    result = yield
    with open({times!r}, "a") as file:
        print(item.originalname, time.perf_counter() - started_s, file=file)
    return result
"""
BY_PLAYWRIGHT = """

from playwright.sync_api import expect, sync_playwright


@pytest.fixture(scope="module")
def engine():
    with sync_playwright() as playwright:
        yield playwright.chromium


@pytest.fixture
def page(engine):
    program = {program!r}
    browser = engine.launch(executable_path=program, args=["--no-sandbox"])
    page = browser.new_page(viewport={{"width": 1440, "height": 900}})
    page.goto(PAGE.as_uri())
    yield page
    browser.close()


def test_start(page):
    pass


def test_playwright(page):
    page.locator("#what").fill("pears")
    page.locator("#many").fill("3")
    page.locator("#many").press("Enter")
    expect(page.locator("#told")).to_have_text("3 × pears will be sent")
"""


def write_project(directory: Path, rounds: int) -> None:
    for name in FILES:
        shutil.copy(EXAMPLES / "gallery" / name, directory)
    run_tests(directory, "--vnc-record=rewrite")
    program = shutil.which("chromium")
    with (directory / "test_page.py").open("a", encoding="utf-8") as tests:
        tests.write(BY_PLAYWRIGHT.format(program=program))
    with (directory / "conftest.py").open("a", encoding="utf-8") as conftest:
        conftest.write(IN_TURN.format(rounds=rounds + 1, times=TIMES))


def run_tests(directory: Path, record: str) -> None:
    """Run the tests, all of which must pass."""
    results, output = session(directory, record, "test_page.py")
    if any(result.result != "passed" for result in results):
        raise SystemExit(output)


def measure(rounds: int) -> dict[str, list[float]]:
    times_s: dict[str, list[float]] = {way: [] for way in WAYS.values()}
    with tempfile.TemporaryDirectory(prefix="replay-") as made:
        directory = Path(made)
        write_project(directory, rounds)
        run_tests(directory, "--vnc-record=replay")
        for line in (directory / TIMES).read_text("utf-8").splitlines():
            test, took_s = line.split()
            times_s[WAYS[test]].append(float(took_s))
    return {way: way_s[1:] for way, way_s in times_s.items()}


def main(rounds: int = 10) -> None:
    times_s = measure(rounds)
    print(f"{machine()}, {rounds} rounds: median, times Playwright (middle half)\n")
    print(head("one test at a time", *times_s))
    print(row("three steps in Chromium", *beside("Playwright", times_s)))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
