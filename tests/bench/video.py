"""What a video costs a replay: a table in Markdown.

    python tests/bench/run.py video [ROUNDS [AT_ONCE]]

The gallery's page is recorded here, once, and then shows a toast of 0.3 s that the
recording does not have. One session of pytest replays it ROUNDS (10 by default) times
in each mode of `vnc_video` in turn, on a new TigerVNC desktop; AT_ONCE sessions do so
side by side. Measured are the time of a test from its setup to its report, the
processor time of pytest meanwhile, the size of the run directory, and in how many
replays the toast was listed. A round before warms up, with all imports.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ratios import beside, head, machine, milliseconds, row, session

from support.paths import EXAMPLES

FILES = ("conftest.py", "order.html", "pytest.ini", "scripts.py", "test_page.py")
MODES = ("off", "retain-on-failure", "on")
TIMES = "times.txt"
SETTINGS = "(vnc_settings: Settings)", "(vnc_settings: Settings, __mode: str)"
CHANGED = "replace(vnc_settings, ", "replace(vnc_settings, video=__mode, "
IN_TURN = """
import time

RECORDED_ON = platform.freedesktop_os_release().get("VERSION_CODENAME", "?")


def pytest_generate_tests(metafunc):
    metafunc.fixturenames.append("__round")
    metafunc.parametrize("__round", range({rounds}))
    metafunc.parametrize("__mode", {modes!r})


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    started_s, used_s = time.perf_counter(), time.process_time()
    result = yield
    times = time.perf_counter() - started_s, time.process_time() - used_s
    with open({times!r}, "a") as file:
        print(item.callspec.params["__mode"], *times, file=file)
    return result
"""
TOAST = """
<div id="toast" hidden style="position: fixed; left: 600px; top: 400px; padding: 20px; background: gold">Sent</div>
<script>
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    const toast = document.getElementById("toast");
    toast.hidden = false;
    setTimeout(() => { toast.hidden = true; }, 300);
  });
</script>
"""


def write_project(directory: Path) -> None:
    for name in FILES:
        shutil.copy(EXAMPLES / "gallery" / name, directory)
    replay(directory, "--vnc-record=rewrite")


def change_project(directory: Path, rounds: int) -> None:
    tests = directory / "test_page.py"
    source = tests.read_text("utf-8")
    for before, after in (SETTINGS, CHANGED):
        assert source.count(before) == 1
        source = source.replace(before, after)
    tests.write_text(source, "utf-8")
    with (directory / "order.html").open("a", encoding="utf-8") as page:
        page.write(TOAST)
    text = IN_TURN.format(modes=MODES, rounds=rounds + 1, times=TIMES)
    with (directory / "conftest.py").open("a", encoding="utf-8") as conftest:
        conftest.write(text)


def replay(directory: Path, *options: str) -> Sequence[tuple[str, Path, int]]:
    """Run the test, which must pass; return the test, its run directory, and the number
    of transients of each replay.
    """
    quiet = "--vnc-transients=report"
    results, output = session(directory, quiet, *options, "test_page.py")
    if any(result.result != "passed" for result in results):
        raise SystemExit(output)
    replays = []
    for result in results:
        run = result.runs[0]
        path = Path(directory, run.directory)
        replays.append((result.test, path, len(run.transients)))
    return replays


def size_of(directory: Path) -> int:
    return sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())


def main(rounds: int = 10, at_once: int = 1) -> None:
    wall_s: dict[str, list[float]] = {mode: [] for mode in MODES}
    used_s: dict[str, list[float]] = {mode: [] for mode in MODES}
    sizes: dict[str, list[int]] = defaultdict(list)
    seen: dict[str, int] = defaultdict(int)
    with tempfile.TemporaryDirectory(prefix="video-") as made:
        first = Path(made, "first")
        first.mkdir()
        write_project(first)
        change_project(first, rounds)
        projects = [first]
        for number in range(1, at_once):
            projects.append(Path(shutil.copytree(first, Path(made, str(number)))))
        with ThreadPoolExecutor(at_once) as executor:
            sessions = [*executor.map(replay_recording, projects)]
        for project, replays in zip(projects, sessions, strict=True):
            for test, run, transients in replays:
                mode = next(mode for mode in MODES if test.endswith(f"-{mode}]"))
                sizes[mode].append(size_of(run))
                seen[mode] += transients
            read_times(project / TIMES, wall_s, used_s)
    print(f"{machine()}, {rounds} rounds, {at_once} at once\n")
    print(head("`vnc_video`", "a replay", "pytest's processor", "kB", "toasts seen"))
    cells = zip(MODES, beside("off", wall_s), beside("off", used_s), strict=True)
    for mode, wall, used in cells:
        size = f"{statistics.median(sizes[mode]) / 1000:.0f}"
        print(row(mode, wall, used, size, f"{seen[mode]} of {len(sizes[mode])}"))
    more_s = statistics.median(used_s["on"]) - statistics.median(used_s["off"])
    print(f"\nmore processor time with `on`: {milliseconds(more_s)}")


def replay_recording(project: Path) -> Sequence[tuple[str, Path, int]]:
    return replay(project, "--vnc-record=replay")


def read_times(
    file: Path, wall_s: dict[str, list[float]], used_s: dict[str, list[float]]
) -> None:
    """Add the times of a session, without its first round."""
    warm: set[str] = set()
    for line in file.read_text("utf-8").splitlines():
        mode, wall, used = line.split()
        if mode in warm:
            wall_s[mode].append(float(wall))
            used_s[mode].append(float(used))
        warm.add(mode)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
