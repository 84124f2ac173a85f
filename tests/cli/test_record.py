"""`cua-vnc record` in a process of its own: a user of its page, a real program, and
pytest on what was written.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from pytest_vnc_use import cli
from pytest_vnc_use.recordings.format import Recording
from pytest_vnc_use.recordings.store import FILE, load
from pytest_vnc_use.types import Click, Region, TypeText
from support import vnc_servers
from support.forked_python import run_python
from support.page_user import Recorder, User
from support.till_project import Ended
from support.tills import TILL
from support.vnc_servers import VncServer, require_package

require_package("starlette")

pytestmark = pytest.mark.desktop

TIMEOUT_S = 100
TASK = "Enter alice, add two apples and pay"
APP = f"{shlex.quote(sys.executable)} {shlex.quote(str(TILL))}"


@pytest.fixture
def record(tmp_path: Path) -> Iterator[Callable[..., Recorder]]:
    """Start it in an empty directory."""
    with ExitStack() as stack:

        def start(*arguments: str, **environment: str) -> Recorder:
            command = [
                "pytest_vnc_use.cli",
                "record",
                "--out",
                "test_shown.py",
                *arguments,
            ]
            environment = {"VNC_USE_SCREEN_SIZE": "800x400", **environment}
            return stack.enter_context(Recorder(*command, cwd=tmp_path, **environment))

        yield start


@pytest.fixture
def record_till(record: Callable[..., Recorder]) -> Callable[..., Recorder]:
    """Start it on the till."""
    vnc_servers.require_pyside()
    return lambda *arguments, **options: record(
        "--vnc=qt", f"--app={APP}", f"--task={TASK}", *arguments, **options
    )


def replayed(directory: Path, *options: str, **environment: str) -> Ended:
    command = [
        "pytest",
        "-p",
        "no:pytest-vnc",
        "-p",
        "no:cacheprovider",
        "--vnc-record=replay",
        *options,
    ]
    env = {**os.environ, "VNC_USE_SCREEN_SIZE": "800x400", **environment}
    done = run_python(*command, cwd=directory, env=env, timeout=TIMEOUT_S)
    return Ended(done.returncode, done.stdout + done.stderr)


def recording(directory: Path) -> Recording:
    found = load(directory / "__vnc_recordings__" / "test_shown" / "test_shown" / FILE)
    assert found
    return found


def pay(user: User) -> None:
    """Two apples, and whatever name was typed."""
    for x, y in ((130, 224), (150, 224), (380, 224)):
        user.click(x, y)


@pytest.mark.slow
def test_actions_and_claims_by_hand_replay(
    record_till: Callable[..., Recorder], tmp_path: Path
) -> None:
    recorder = record_till("--out=tests/shop/test_shown.py")
    assert not (tmp_path / "tests").exists()  # not before something was done
    with recorder.user() as user:
        user.press("MediaPlayPause")
        user.until(lambda shown: "MediaPlayPause" in shown["notice"])
        user.point(700, 300)
        user.click(200, 60)
        user.type("alicex")
        user.press("Backspace")
        user.event("scroll", 10, 10, "down")
        user.until(lambda shown: "no wheel" in shown["notice"])
        pay(user)
        assert user.question["asks_claims"]
        user.done(
            claims=['the till says "paid"', "and nothing else", ""],
            masks=[[700, 300, 720, 320]],
        )
    done = recorder.ended()
    assert done.code == 0, done.out
    assert "pytest tests/shop/test_shown.py --vnc-server=qt" in done.out
    message = (
        "The recording is written: tests/shop/test_shown.py and"
        " tests/shop/__vnc_recordings__"
    )
    while not recorder.page.finished:
        recorder.page.read()
    assert recorder.page.finished.startswith(message)
    shop = tmp_path / "tests" / "shop"
    assert recording(shop).masks == (Region(700, 300, 720, 320),)
    (run,) = recording(shop).segments
    clicks = [Click(130, 224), Click(150, 224), Click(380, 224)]
    assert [step.action for step in run.steps] == [
        Click(200, 60),
        TypeText("alice"),
        *clicks,
    ]
    assert [claim.claim for claim in run.claims] == [
        'the till says "paid"',
        "and nothing else",
    ]

    test = shop / "test_shown.py"
    body = "    assert vnc_desktop.read_file('total.txt') == 'alice pays 5.00'\n"
    source = test.read_text(encoding="utf-8").replace(
        "test_shown()", "test_shown(vnc_desktop)"
    )
    test.write_text(source + body, encoding="utf-8")
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    (mark,) = namespace["test_shown"].pytestmark
    assert mark.kwargs["expect"] == [claim.claim for claim in run.claims]
    done = replayed(tmp_path, "--vnc-server=qt")
    assert done.code == 0, done.out
    assert "1 run planned by recording" in done.out


@pytest.mark.slow
def test_record_takes_desktop_and_program_of_project(
    record: Callable[..., Recorder], tmp_path: Path
) -> None:
    """And another program fails the test that was written."""
    vnc_servers.require_pyside()
    ini = tmp_path / "pytest.ini"
    ini.write_text(f"[pytest]\nvnc_server = qt\nvnc_app = {APP}\n")
    recorder = record(f"--task={TASK}")
    with recorder.user() as user:
        pay(user)
    done = recorder.ended()
    assert done.code == 0, done.out
    assert "replay it: pytest test_shown.py --vnc-screen-size=800x400\n" in done.out
    source = (tmp_path / "test_shown.py").read_text(encoding="utf-8")
    assert "app=" not in source
    (run,) = recording(tmp_path).segments
    (claim,) = run.claims
    assert TASK in claim.claim
    assert claim.claim in source
    assert "only proposed" in source
    x = 200
    y = 290
    changed = claim.region
    assert changed
    assert changed.left < x < changed.right, "it says paid there"
    assert changed.top < y < changed.bottom, "it says paid there"
    done = replayed(tmp_path)
    assert done.code == 0, done.out
    ini.write_text(
        f"[pytest]\nvnc_server = qt\nvnc_app = {APP} --fault='wrong total'\n"
    )
    done = replayed(tmp_path, "-ovnc_gate_seconds=3")
    assert done.code == 1, done.out
    assert "inconclusive" in done.out, done.out


SECRET = "w0nder-land"


@pytest.mark.slow
def test_secret_is_never_written(
    record_till: Callable[..., Recorder], tmp_path: Path
) -> None:
    recorder = record_till(
        "--secret=TILL_NAME", f"--expect=it is paid by {SECRET}", TILL_NAME=SECRET
    )
    with recorder.user() as user:
        user.click(200, 60)
        user.type(f"x{SECRET}")
        pay(user)
    done = recorder.ended()
    assert done.code == 0, done.out
    assert recording(tmp_path).segments[0].steps[1].action == TypeText(
        "x<secret:TILL_NAME>"
    )
    assert 'secrets=["TILL_NAME"]' in (tmp_path / "test_shown.py").read_text(
        encoding="utf-8"
    )
    assert SECRET not in done.out
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [
        path
        for path in files
        if SECRET in path.name or SECRET.encode() in path.read_bytes()
    ]
    done = replayed(tmp_path, "--vnc-server=qt", TILL_NAME=SECRET)
    assert done.code == 0, done.out


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--task", " ", "--out", "test_a.py"], "--task"),
        (["--task", "Go", "--out", "test_there.py"], "'test_there.py' already exists"),
        (
            ["--task", "Go", "--out", "test_recorded.py"],
            "recording.json' already exists",
        ),
        (
            ["--task", "Go", "--out", "test_a.py", "--secret", "NOT_SET_ANYWHERE"],
            "'NOT_SET_ANYWHERE'",
        ),
        (
            [
                "--task",
                "Go",
                "--out",
                "test_a.py",
                "--secret",
                "TILL_NAME",
                "--app",
                f"till {SECRET}",
            ],
            "--app",
        ),
        (
            ["--task", "Go", "--out", "test_a.py", "--vnc", ""],
            "Give --vnc, or set vnc_server in pytest's config",
        ),
    ],
)
def test_wrong_usage_is_named_before_anything_is_done(
    arguments: list[str],
    problem: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TILL_NAME", SECRET)
    monkeypatch.delenv("CI", raising=False)
    Path("test_there.py").touch()
    recording = Path("__vnc_recordings__/test_recorded/test_recorded", FILE)
    recording.parent.mkdir(parents=True)
    recording.touch()
    assert cli.main(["record", "--vnc", "127.0.0.1::1", *arguments]) == 2
    assert problem in capsys.readouterr().err


@pytest.mark.parametrize(
    ("end", "code", "printed"),
    [
        ("Ctrl-C", 130, "interrupted"),
        ("gone", 9, "infra: Connection"),
        ("discard", 1, "the recording was discarded"),
    ],
)
def test_end_of_user_or_desktop_writes_nothing(
    record: Callable[..., Recorder],
    tigervnc: VncServer,
    tmp_path: Path,
    end: str,
    code: int,
    printed: str,
) -> None:
    recorder = record(f"--vnc={tigervnc.address}", "--task=Wait")
    user = recorder.user()
    user.click(10, 10)
    match end:
        case "Ctrl-C":
            recorder.process.send_signal(signal.SIGINT)
        case "gone":
            tigervnc.kill()
        case _:
            user.discard()
    done = recorder.ended()
    assert done.code == code, done.out
    assert [*tmp_path.iterdir()] == [], done.out
    assert printed in done.out, done.out
