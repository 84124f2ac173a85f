"""The screenshots of the documentation, made from real runs of an example.

Run it in a clone, after what a screenshot is made of has changed (tests/test_docs.py
says so):

    python docs/scripts/images.py

It needs the extra `test`, Chromium, TigerVNC, xterm and nano. docs/images/made-of.json
keeps, for each screenshot, a digest of the files that it was made of.
docs/images/architecture.svg and gates.svg are drawn by hand.
"""

from __future__ import annotations

import ast
import hashlib
import html
import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw, ImageFont

from pytest_vnc_use.report.annotate import mark_action
from pytest_vnc_use.runs.directory import RunDirectory, read_trace
from pytest_vnc_use.runs.transcript import format_caption

ROOT = Path(__file__).parents[2]
SCREENSHOTS = ROOT / "docs" / "images"
DIGESTS = SCREENSHOTS / "made-of.json"
TESTS = "examples/test_shop.py"
FONT = next((ROOT / "examples" / "shop" / "fonts").glob("*.ttf"))
SIZE = (720, 450)
CAPTION = 52
STEP_MS, END_MS = 900, 3000
MOST_BYTES = 200_000
PYTEST = [
    sys.executable,
    "-m",
    "pytest",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:pytest-vnc",
]
WITHOUT_MACHINE = (
    "<style>#environment, #environment-header, h2:has(+ #environment) { display: none"
    " }</style>"
)
"""The report's table of the machine that made it says nothing here."""
TERMINAL = (
    "margin:0;padding:14px;background:#263238;color:#eceff1;font:15px/1.4 'DejaVu Sans"
    " Mono',monospace"
)
BUG = ("money(self._store.total)", "money(self._store.total * 2)")
"""In examples/shop/basket.py: the basket shows a wrong total, and nothing else is
wrong.
"""
NOTES = """import pytest


@pytest.mark.vnc_task("Type hello and save the file", expect="the editor shows the text hello")
def test_hello(vnc_desktop):
    assert vnc_desktop.read_file("notes.txt") == "hello\\n"
"""

POLICY = """[[rule]]
name = "a user approves each order"
decision = "ask"
action = "click"
region = [560, 650, 740, 720]
"""

SHOP = ("examples/shop/**/*.py", "examples/shop/fonts/*", "docs/scripts/images.py")
ORDER = (*SHOP, "examples/__vnc_recordings__/test_shop/test_order_is_placed/*")
PAGES = (
    *SHOP,
    "examples/__vnc_recordings__/test_shop/test_basket/*",
    "pytest_vnc_use/report/report.css",
    "pytest_vnc_use/triage.py",
)
MADE_OF = {
    "run.gif": ORDER,
    "report.png": (
        *ORDER,
        "pytest_vnc_use/report/report.css",
        "pytest_vnc_use/report/templates/*.html.j2",
    ),
    "session.png": (*PAGES, "pytest_vnc_use/report/templates/*.html.j2"),
    "drift.png": (*PAGES, "pytest_vnc_use/report/templates/*.html.j2"),
    "recording.png": ("pytest_vnc_use/ui/page/*", "docs/scripts/images.py"),
    "desk.png": (*SHOP, "pytest_vnc_use/ui/page/*"),
    "accept.png": (
        *SHOP,
        "pytest_vnc_use/ui/page/*",
        "examples/__vnc_recordings__/test_shop/test_basket/*",
    ),
    "approve.png": (*ORDER, "pytest_vnc_use/ui/page/*"),
    "live.png": ("pytest_vnc_use/runs/progress.py", "docs/scripts/images.py"),
}
"""Patterns of the files that decide how each screenshot looks: not all of the code,
which changes every day.
"""


def digest(patterns: Sequence[str]) -> str:
    """Return a digest of the files; of the live line only the texts that it can
    print.
    """
    found = [path for pattern in patterns for path in ROOT.glob(pattern)]
    total = hashlib.sha256()
    for path in sorted({path for path in found if path.is_file()}):
        name = path.relative_to(ROOT).as_posix()
        of_texts = name == "pytest_vnc_use/runs/progress.py"
        content = (
            printed(path).encode()
            if of_texts
            else path.read_bytes().replace(b"\r\n", b"\n")
        )
        total.update(name.encode() + b"\0" + content + b"\0")
    return total.hexdigest()[:16]


def printed(path: Path) -> str:
    """Return the texts in the source of a module that are no docstrings."""
    tree = ast.parse(path.read_text("utf-8"))
    apart = [node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)]
    texts = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and node not in apart
    ]
    return "".join(node.value for node in texts if isinstance(node.value, str))


def stale() -> list[str]:
    """Return the names of the screenshots that were made of other files."""
    kept = json.loads(DIGESTS.read_text("utf-8"))
    return [
        name for name, patterns in MADE_OF.items() if kept.get(name) != digest(patterns)
    ]


def main() -> None:
    """Make all screenshots, each of a real run, and keep what they were made of."""
    for make in (an_order, a_wrong_total, a_recording, a_live_run, a_desk, an_approval):
        with tempfile.TemporaryDirectory(prefix="screenshots-") as directory:
            make(Path(directory))
    digests = {name: digest(patterns) for name, patterns in MADE_OF.items()}
    DIGESTS.write_text(json.dumps(digests, indent=2) + "\n", encoding="utf-8")


def an_order(directory: Path) -> None:
    """Replay a test of the shop: run.gif, and report.png, the report of pytest-html."""
    report, runs = directory / "report.html", directory / "runs"
    options = [
        f"--vnc-runs-dir={runs}",
        f"--html={report}",
        "--self-contained-html",
        "--vnc-record=replay",
    ]
    subprocess.run(
        [*PYTEST, "-q", f"{TESTS}::test_order_is_placed", *options],
        cwd=ROOT,
        check=True,
    )
    animate(
        sorted(trace.parent for trace in runs.glob("*/trace.jsonl")),
        SCREENSHOTS / "run.gif",
    )
    text = (
        report.read_text("utf-8")
        .replace(f"{directory}/", "")
        .replace("</head>", f"{WITHOUT_MACHINE}</head>")
    )
    report.write_text(text, encoding="utf-8")
    photograph(report, SCREENSHOTS / "report.png", (1280, 1000))


def a_wrong_total(directory: Path) -> None:
    """Replay tests of a shop with a bug: session.png, drift.png; and have one reviewed:
    accept.png.
    """
    copy_examples(directory)
    basket = directory / "examples/shop/basket.py"
    sound = basket.read_text("utf-8")
    assert BUG[0] in sound
    basket.write_text(sound.replace(*BUG), encoding="utf-8")
    command = [
        *PYTEST,
        "-q",
        TESTS,
        "-k",
        "basket or sign_in or accepted",
        "--vnc-record=replay",
    ]
    assert (
        subprocess.run(
            command, cwd=directory, check=False, stdout=subprocess.DEVNULL
        ).returncode
        == 1
    )
    runs = directory / "runs"
    for page in runs.rglob("*.html"):
        page.write_text(
            page.read_text("utf-8").replace(f"{directory}/", ""), encoding="utf-8"
        )
    photograph(runs / "index.html", SCREENSHOTS / "session.png", (1280, 1310))
    drifted = next(
        path.parent
        for path in sorted(runs.glob("*/trace.jsonl"))
        if '"drift"' in path.read_text("utf-8")
    )
    photograph(drifted / "index.html", SCREENSHOTS / "drift.png", (1280, 725))
    with on_page(
        [*PYTEST, f"{TESTS}::test_basket", "--vnc-record=accept", "--vnc-ui"], directory
    ) as page:
        photograph_dialog(page, "question", "No", "accept.png")


def a_recording(directory: Path) -> None:
    """Record a test by hand, as a user does who types on the page: recording.png."""
    directory.joinpath("test_notes.py").write_text(NOTES, encoding="utf-8")
    options = [
        "--vnc-server=xvnc",
        "--vnc-app=xterm -e nano notes.txt",
        "--vnc-record=manual",
        "-ovnc_rehearse=0",
    ]
    with on_page([*PYTEST, "test_notes.py", "-q", *options], directory) as page:
        page.locator("#record-screen canvas").click(timeout=60_000)
        page.keyboard.type("hello")
        page.keyboard.press("Control+s")
        page.locator("#record-steps li").nth(2).wait_for(timeout=60_000)
        page.keyboard.press("Shift+Escape")
        page.keyboard.press("Enter")
        for name in ("Yes", "It holds"):
            page.get_by_label(name, exact=True).check()
        page.screenshot(path=SCREENSHOTS / "recording.png")
        page.get_by_role("button", name="Record", exact=True).click()
    reduce_colours(SCREENSHOTS / "recording.png")


def an_approval(directory: Path) -> None:
    """Replay a test whose policy asks before an order: approve.png."""
    copy_examples(directory)
    directory.joinpath("policy.toml").write_text(POLICY, encoding="utf-8")
    options = ["--vnc-record=replay", "--vnc-ui", "--vnc-policy=policy.toml"]
    with on_page(
        [*PYTEST, f"{TESTS}::test_order_is_placed", *options], directory
    ) as page:
        rule = page.locator("#approval-facts dd").last
        rule.evaluate(
            "(rule, path) => rule.textContent = rule.textContent.replace(path, '')",
            f"{directory}/",
        )
        photograph_dialog(page, "approval", "Deny", "approve.png")


def copy_examples(directory: Path) -> None:
    """Copy the shop and its tests, with their recordings and settings."""
    shutil.copytree(
        ROOT / "examples",
        directory / "examples",
        ignore=shutil.ignore_patterns("gallery", "__pycache__"),
    )
    shutil.copy(ROOT / "pyproject.toml", directory)


def photograph_dialog(page: Any, name: str, answer: str, image: str) -> None:
    """Write a screenshot of a question of the page, and answer it."""
    dialog = page.locator(f"#{name}[open]")
    dialog.wait_for(timeout=60_000)
    page.wait_for_function(
        "name => [...document.querySelectorAll(`#${name} img`)].every(it =>"
        " it.complete)",
        arg=name,
    )
    dialog.screenshot(path=SCREENSHOTS / image)
    dialog.get_by_role("button", name=answer, exact=True).click()
    reduce_colours(SCREENSHOTS / image)


@contextmanager
def on_page(command: Sequence[str], directory: Path) -> Iterator[Any]:
    """Yield the page whose URL a command prints; end the command with the page."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    server = subprocess.Popen(
        command,
        cwd=directory,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "CI": "", "PYTHONUNBUFFERED": "1"},
    )
    with server, sync_playwright() as playwright:
        assert server.stdout
        url = next(
            filter(None, (re.search(r"http://\S+#\S+", line) for line in server.stdout))
        )
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 720})
        page.goto(url[0])
        yield page
        browser.close()
        server.send_signal(signal.SIGINT)


def a_live_run(directory: Path) -> None:
    """Run a test of the shop by a script, and look at the terminal within: live.png."""
    shown = [f"{TESTS}::test_two_apples", "--vnc-record=off"]
    with Typist([*PYTEST, *shown, f"--vnc-runs-dir={directory}"], ROOT) as typist:
        typist.wait_for("step 4 ")
        rows = [row for row in typist.rows if row.startswith(TESTS) or "step " in row]
        draw_terminal(
            [f"$ pytest {shlex.join(shown)}", *rows], SCREENSHOTS / "live.png"
        )


class Typist:
    """A user's terminal, where a command runs."""

    def __init__(self, command: Sequence[str], directory: Path) -> None:
        sys.path.insert(0, str(ROOT / "tests"))
        from support.terminal import Terminal

        self._terminal = Terminal(100, 40)
        ends = dict.fromkeys(("stdin", "stdout", "stderr"), self._terminal.slave)
        environment = {
            name: value for name, value in os.environ.items() if name != "CI"
        }
        self._process = subprocess.Popen(
            command, cwd=directory, env=environment, **ends
        )  # type: ignore[call-overload]

    def __enter__(self) -> Typist:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.terminate()
        self._terminal.read_until(lambda: self._process.poll() is not None)
        self._terminal.close()

    @property
    def rows(self) -> list[str]:
        """What the terminal shows."""
        return self._terminal.rows

    def wait_for(self, text: str) -> None:
        """Read until the terminal shows the text."""
        ready: Callable[[], bool] = lambda: any(text in row for row in self.rows)  # noqa: E731
        assert self._terminal.read_until(ready), (
            f"{text!r} did not come:\n" + "\n".join(self.rows)
        )
        time.sleep(0.1)


def a_desk(directory: Path) -> None:
    """Pause a test in the middle, on the page of `cua-vnc ui`: desk.png."""
    options = shlex.join(
        ["-p", "no:cacheprovider", f"--vnc-runs-dir={directory / 'runs'}"]
    )
    command = [
        sys.executable,
        "-m",
        "pytest_vnc_use.cli",
        "ui",
        TESTS,
        "--options",
        options,
    ]
    with on_page(command, ROOT) as page:
        page.locator("#run-all:enabled").wait_for(timeout=60_000)
        page.keyboard.press("p")
        page.get_by_role("button", name="Run test_basket", exact=True).click()
        for step in range(8):
            page.locator("#steps li").nth(step).wait_for(timeout=60_000)
            page.locator("#next:enabled").wait_for(timeout=60_000)
            if step < 7:
                page.keyboard.press("n")
        page.screenshot(path=SCREENSHOTS / "desk.png")
        page.keyboard.press("p")
        page.locator("#result").get_by_text("passed").wait_for(timeout=60_000)
    reduce_colours(SCREENSHOTS / "desk.png")


def draw_terminal(rows: Sequence[str], path: Path) -> None:
    """Write a screenshot of rows of a terminal."""
    with tempfile.TemporaryDirectory(prefix="terminal-") as directory:
        page = Path(directory, "terminal.html")
        text = html.escape("\n".join(rows))
        page.write_text(
            f'<meta charset=utf-8><body style="{TERMINAL}"><pre'
            f' style="margin:0">{text}</pre>',
            encoding="utf-8",
        )
        photograph(page, path, (max(map(len, rows)) * 9 + 60, len(rows) * 21 + 40))


def animate(runs: list[Path], path: Path) -> None:
    """Write the steps of the runs as one animated screenshot."""
    frames = [frame for run in runs for frame in screenshots(run)]
    palette = stacked(frames[:: len(frames) // 5]).quantize(128)
    first, *others = [
        frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames
    ]
    durations = [STEP_MS] * (len(frames) - 1) + [END_MS]
    first.save(
        path,
        save_all=True,
        append_images=others,
        duration=durations,
        loop=0,
        optimize=True,
    )
    report_size(path)


def stacked(frames: list[Image.Image]) -> Image.Image:
    """Return one screenshot with the colours of all frames."""
    stack = Image.new("RGB", (frames[0].width, frames[0].height * len(frames)))
    for number, frame in enumerate(frames):
        stack.paste(frame, (0, number * frame.height))
    return stack


def screenshots(run: Path) -> Iterator[Image.Image]:
    """Yield the screen before each step, with its point marked, and the screen at the
    end.
    """
    trace, directory = read_trace(run), RunDirectory(run)
    for step in trace.steps:
        marked = mark_action(
            directory.load_png(step.frame_before), step.proposal.action
        )
        yield captioned(
            marked,
            trace.started.task,
            f"{step.number} of {len(trace.steps)}:"
            f" {format_caption(step.proposal.action)}",
        )
    yield captioned(
        directory.load_png(trace.steps[-1].frame_after),
        trace.started.task,
        "the end is as recorded",
    )


def captioned(png: bytes, task: str, line: str) -> Image.Image:
    """Return the screen, smaller, with two lines of text below it."""
    screen = (
        Image.open(io.BytesIO(png))
        .convert("RGB")
        .resize(SIZE, Image.Resampling.LANCZOS)
    )
    screenshot = Image.new("RGB", (SIZE[0], SIZE[1] + CAPTION), "#263238")
    screenshot.paste(screen)
    draw = ImageDraw.Draw(screenshot)
    draw.text((12, SIZE[1] + 6), task, "#ffffff", ImageFont.truetype(FONT, 15))
    draw.text((12, SIZE[1] + 28), line, "#b0bec5", ImageFont.truetype(FONT, 14))
    return screenshot


def photograph(page: Path, path: Path, size: tuple[int, int]) -> None:
    """Write a screenshot of a page as Chromium shows it."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    assert chromium, "screenshots of pages need Chromium: apt-get install chromium"
    options = [
        "--headless",
        "--no-sandbox",
        "--hide-scrollbars",
        f"--window-size={size[0]},{max(size[1], 700)}",
    ]
    with tempfile.TemporaryDirectory(prefix="chromium-") as profile:
        shot = Path(profile, "page.png")
        command = [
            chromium,
            *options,
            f"--user-data-dir={profile}",
            f"--screenshot={shot}",
            page.as_uri(),
        ]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        # a very low window is not drawn whole
        whole = Image.open(shot).convert("RGB").crop((0, 0, *size))
        whole.quantize(128).save(path, optimize=True)
    report_size(path)


def reduce_colours(path: Path) -> None:
    """Make a screenshot smaller."""
    Image.open(path).convert("RGB").quantize(128).save(path, optimize=True)
    report_size(path)


def report_size(path: Path) -> None:
    """Print how large a screenshot became; fail where it is too large for a
    repository.
    """
    size = path.stat().st_size
    print(f"{path.relative_to(ROOT)}: {size / 1000:.0f} kB")
    assert size <= MOST_BYTES, (
        f"{path.name} must have at most {MOST_BYTES:,} bytes, got {size:,}"
    )


if __name__ == "__main__":
    main()
