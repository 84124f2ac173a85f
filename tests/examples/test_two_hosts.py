"""Two machines, each with desktops of its own, and one report: what examples/many_machines shows."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from base64 import b64decode
from contextlib import suppress
from html.parser import HTMLParser
from pathlib import Path

import pytest

from support.leftovers import is_running
from support.paths import ROOT
from support.vnc_servers import wait_for

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


@pytest.mark.slow
@needs_two_machines
@pytest.mark.parametrize(
    ("options", "code"), [((), 0), (("--self-contained-html", "--vnc-max-steps=1"), 1)], ids=["passed", "failed"]
)
def test_tests_of_both_machines_are_in_one_report(tmp_path: Path, options: tuple[str, ...], code: int) -> None:
    command = [SCRIPT, "-p", "no:cacheprovider", f"--html={tmp_path / 'report.html'}", *options, *TESTS]
    environment = os.environ | {"PYTHON": sys.executable}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LONGEST_S, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    report = Report(tmp_path / "report.html")
    assert report.machines == ["one", "two"]
    for block in report.blocks:
        screenshots = report.screenshots(block)
        assert len(screenshots) > 1 - code
        assert all(screenshot.startswith(b"\x89PNG") for screenshot in screenshots)
    if code:
        assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
        assert set(re.findall("on the machine (one|two)", done.stdout)) == {"one", "two"}


@pytest.mark.slow
@needs_two_machines
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_whatever_ends_it(ending: signal.Signals) -> None:
    command, environment = [SCRIPT, "-p", "no:cacheprovider"], os.environ | {"PYTHON": sys.executable}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as script:  # in a process group of its own, as from a terminal
        wait_for(lambda: "Xtigervnc" in descendants(script.pid).values(), "a desktop", LONGEST_S)
        family = descendants(script.pid)
        (os.killpg if ending == signal.SIGINT else os.kill)(script.pid, ending)
        wait_for(lambda: not any(map(is_running, family)), "the end of all processes", LONGEST_S)
    assert {"sshd", "python"} <= set(family.values())
    assert not Path("/run/hosts").exists()
    assert not (ROOT / "_pytest").exists()


def descendants(pid: int) -> dict[int, str]:
    """The names of a process and of all that it started, by their ids."""
    found: dict[int, str] = {}
    with suppress(OSError):  # it ended meanwhile
        found[pid] = Path(f"/proc/{pid}/comm").read_text().strip()
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            found |= descendants(int(child))
    return found


def test_page_is_of_options_that_exist(pytestconfig: pytest.Config) -> None:
    for option in set(re.findall(r"--(vnc-[a-z-]+)", PAGE)):
        assert pytestconfig.getoption(option.replace("-", "_"), default="no") != "no", option
