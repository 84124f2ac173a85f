"""The pictures of the documentation, made from a real run of an example.

Run it in a clone:

    python docs/scripts/pictures.py

It needs the extra `demo`, and Chromium for the picture of the report. Write anew what it makes after the report or the
shop was changed: docs/pictures/run.gif, the steps of a replayed test, and docs/pictures/report.png, its report.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from pytest_vnc_use.report.annotate import mark_action
from pytest_vnc_use.report.phrases import action_in_words
from pytest_vnc_use.runs.folder import RunFolder, read_trace

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures"
TEST = "examples/test_shop.py::test_an_order_is_placed"
FONT = next((ROOT / "examples" / "shop" / "fonts").glob("*.ttf"))
SIZE = (720, 450)
CAPTION = 52
STEP_MS, END_MS = 900, 3000
MOST_BYTES = 400_000
WITHOUT_MACHINE = "<style>#environment, #environment-header, h2:has(+ #environment) { display: none }</style>"
"""The report's table of the machine that made it says nothing here."""


def main() -> None:
    """Replay the test, and make both pictures of its run."""
    with tempfile.TemporaryDirectory(prefix="pictures-") as folder:
        report, runs = Path(folder, "report.html"), Path(folder, "runs")
        replayed = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", TEST, "--vnc-record=replay"]
        options = [f"--vnc-runs-dir={runs}", f"--html={report}", "--self-contained-html"]
        subprocess.run([*replayed, *options], cwd=ROOT, check=True)
        animate(sorted(trace.parent for trace in runs.glob("*/trace.jsonl")), PICTURES / "run.gif")
        text = report.read_text("utf-8").replace(f"{folder}/", "").replace("</head>", f"{WITHOUT_MACHINE}</head>")
        report.write_text(text, encoding="utf-8")
        photograph(report, PICTURES / "report.png")


def animate(runs: list[Path], path: Path) -> None:
    """Write the steps of the runs as one animated picture."""
    frames = [frame for run in runs for frame in pictures(run)]
    palette = stacked(frames[:: len(frames) // 5]).quantize(128)
    first, *others = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    durations = [STEP_MS] * (len(frames) - 1) + [END_MS]
    first.save(path, save_all=True, append_images=others, duration=durations, loop=0, optimize=True)
    report_size(path)


def stacked(frames: list[Image.Image]) -> Image.Image:
    """Return one picture with the colours of all frames."""
    stack = Image.new("RGB", (frames[0].width, frames[0].height * len(frames)))
    for number, frame in enumerate(frames):
        stack.paste(frame, (0, number * frame.height))
    return stack


def pictures(run: Path) -> Iterator[Image.Image]:
    """Yield the screen before each step, with its point marked, and the screen at the end."""
    trace, folder = read_trace(run), RunFolder(run)
    for step in trace.steps:
        marked = mark_action(folder.load_png(step.frame_before), step.proposal.action)
        yield captioned(
            marked, trace.started.task, f"{step.number} of {len(trace.steps)}: {action_in_words(step.proposal.action)}"
        )
    yield captioned(folder.load_png(trace.steps[-1].frame_after), trace.started.task, "the end is as recorded")


def captioned(png: bytes, task: str, line: str) -> Image.Image:
    """Return the screen, smaller, with two lines of text below it."""
    screen = Image.open(io.BytesIO(png)).convert("RGB").resize(SIZE, Image.Resampling.LANCZOS)
    picture = Image.new("RGB", (SIZE[0], SIZE[1] + CAPTION), "#263238")
    picture.paste(screen)
    draw = ImageDraw.Draw(picture)
    draw.text((12, SIZE[1] + 6), task, "#ffffff", ImageFont.truetype(FONT, 15))
    draw.text((12, SIZE[1] + 28), line, "#b0bec5", ImageFont.truetype(FONT, 14))
    return picture


def photograph(report: Path, path: Path) -> None:
    """Write a picture of the report as Chromium shows it."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    assert chromium, "the picture of the report needs Chromium: apt-get install chromium"
    options = ["--headless", "--no-sandbox", "--hide-scrollbars", "--window-size=1280,1100"]
    with tempfile.TemporaryDirectory(prefix="chromium-") as profile:
        shot = Path(profile, "report.png")
        command = [chromium, *options, f"--user-data-dir={profile}", f"--screenshot={shot}", report.as_uri()]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        Image.open(shot).convert("RGB").quantize(128).save(path, optimize=True)
    report_size(path)


def report_size(path: Path) -> None:
    """Print how large a picture became; fail where it is too large for a repository."""
    size = path.stat().st_size
    print(f"{path.relative_to(ROOT)}: {size / 1000:.0f} kB")
    assert size <= MOST_BYTES, f"{path.name} must have at most {MOST_BYTES:,} bytes, got {size:,}"


if __name__ == "__main__":
    main()
