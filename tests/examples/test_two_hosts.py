"""Two machines, each with desktops of its own, and one report: what examples/many_machines shows."""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from base64 import b64decode
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from html.parser import HTMLParser
from pathlib import Path

import pytest

from support.paths import ROOT

SCRIPT = ROOT / "examples" / "many_machines" / "two_hosts.sh"
PACKAGES = {
    "ip": "iproute2",
    "ssh": "openssh-client",
    "sshd": "openssh-server",
    "unshare": "util-linux",
    "Xtigervnc": "tigervnc-standalone-server",
}
LONGEST_S = 100
PAGE = (SCRIPT.parent / "README.md").read_text(encoding="utf-8")
TESTS = ["-k", "stranger or capitals"]


@pytest.fixture(scope="module")
def machine_can_be_two() -> None:
    """Skip where it cannot, fail in CI."""
    if why := _why_not():
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(why)


def _why_not() -> str:
    for program, package in PACKAGES.items():
        if shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin") is None:
            return f"{program} is not installed: apt-get install {package}"
    probe = subprocess.run(["unshare", "--mount", "--net", "--pid", "--fork", "true"], capture_output=True, text=True)
    return f"needs root, or what may make namespaces: {probe.stderr.strip()}" if probe.returncode else ""


@pytest.fixture(autouse=True)
def _runs_elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Leave the runs of the project's own directory alone."""
    monkeypatch.setenv("VNC_USE_RUNS_DIR", str(tmp_path_factory.mktemp("runs")))


needs_two_machines = pytest.mark.usefixtures("machine_can_be_two")


class Report(HTMLParser):
    """The report of pytest-html: a block for each of our runs, and the log of each test."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.blocks: list[str] = []
        self.logs: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if blob := dict(attrs).get("data-jsonblob"):
            for (test,) in json.loads(blob)["tests"].values():
                self.blocks += [extra["content"] for extra in test["extras"]]
                self.logs.append(test["log"])

    @property
    def machines(self) -> list[str]:
        return sorted(re.findall("<dt>machine</dt> <dd>(.*?)</dd>", "".join(self.blocks)))

    def screenshots(self, block: str) -> list[bytes]:
        return [self._screenshot(address) for address in re.findall(r"background-image:url\((.*?)\)", block)]

    def _screenshot(self, address: str) -> bytes:
        head, _, data = address.partition(",")
        return b64decode(data) if head == "data:image/png;base64" else (self.path.parent / address).read_bytes()


def show(*options: str) -> subprocess.CompletedProcess[str]:
    command = [SCRIPT, "-p", "no:cacheprovider", *options]
    environment = os.environ | {"PYTHON": sys.executable}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LONGEST_S, check=False)


@pytest.mark.slow
@needs_two_machines
def test_both_machines_run_tests_and_their_screenshots_are_in_one_report(tmp_path: Path) -> None:
    done = show(f"--html={tmp_path / 'report.html'}", *TESTS)
    assert done.returncode == 0, done.stdout + done.stderr
    report = Report(tmp_path / "report.html")
    assert report.machines == ["one", "two"]
    for block in report.blocks:
        screenshots = report.screenshots(block)
        assert len(screenshots) > 1
        assert all(screenshot.startswith(b"\x89PNG") for screenshot in screenshots)


@pytest.mark.slow
@needs_two_machines
def test_failures_of_both_machines_are_in_report_of_one_file(tmp_path: Path) -> None:
    done = show(f"--html={tmp_path / 'report.html'}", "--self-contained-html", "--vnc-max-steps=1", *TESTS)
    assert done.returncode == 1, done.stdout + done.stderr
    report = Report(tmp_path / "report.html")
    assert report.machines == ["one", "two"]
    assert all(report.screenshots(block) for block in report.blocks)
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    assert set(re.findall("on the machine (one|two)", done.stdout)) == {"one", "two"}


@pytest.mark.slow
@needs_two_machines
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_whatever_ends_it(ending: signal.Signals) -> None:
    with started() as script, ExitStack() as stack:
        family = descendants(script.pid)
        while "Xtigervnc" not in family.values():
            time.sleep(0.05)  # a desktop that starts elsewhere tells nobody here
            family = descendants(script.pid)
        watched = {stack.enter_context(ending_of(pid)) for pid in family}
        (os.killpg if ending == signal.SIGINT else os.kill)(script.pid, ending)
        await_ended(watched)
    assert {"sshd", "python"} <= set(family.values())
    assert not Path("/run/hosts").exists()
    assert not (ROOT / "_pytest").exists()


@contextmanager
def started() -> Iterator[subprocess.Popen[bytes]]:
    """The show in a process group of its own, as from a terminal."""
    command = [SCRIPT, "-p", "no:cacheprovider"]
    with subprocess.Popen(
        command,
        env=os.environ | {"PYTHON": sys.executable},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as script:
        yield script


def descendants(pid: int) -> dict[int, str]:
    """The names of a process and of all that it started, by their ids."""
    found: dict[int, str] = {}
    with suppress(OSError):  # it ended meanwhile
        found[pid] = Path(f"/proc/{pid}/comm").read_text().strip()
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            found |= descendants(int(child))
    return found


@contextmanager
def ending_of(pid: int) -> Iterator[int]:
    """Yield a file that is readable once the process has ended; the null device for one that has."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        descriptor = os.open(os.devnull, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


def await_ended(watched: set[int]) -> None:
    while watched:
        ended, _, _ = select.select(watched, [], [], LONGEST_S)
        assert ended
        watched.difference_update(ended)


def test_page_is_of_options_that_exist(pytestconfig: pytest.Config) -> None:
    for option in set(re.findall(r"--(vnc-[a-z-]+)", PAGE)):
        assert pytestconfig.getoption(option.replace("-", "_"), default="no") != "no", option
