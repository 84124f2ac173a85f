"""The run directory: what is written is read again, also after a torn line, or by a
second writer.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pytest_vnc_use import VncUseAgent
from pytest_vnc_use.errors import RunDirectoryError, RunDirectoryUnwritable
from pytest_vnc_use.report.results import session_results, write_results
from pytest_vnc_use.runs.directory import (
    FinishedTest,
    RunDirectory,
    drop_screenshots,
    from_json,
    keep_logs,
    make_room,
    new_run_id,
    path_of,
    read_exchanges,
    read_finished_test,
    read_trace,
    to_json,
    write_finished_test,
)
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import (
    Action,
    ApprovalRequest,
    CallFunction,
    Click,
    Confirmation,
    Decision,
    Frame,
    FrameRef,
    InvalidAction,
    Judged,
    KeyCombo,
    Limits,
    ModelExchange,
    MouseUp,
    OpenUrl,
    Outcome,
    Proposal,
    Region,
    Ruling,
    RunEnded,
    RunEvent,
    RunStarted,
    Scroll,
    Step,
    StepFinished,
    StepStarted,
    Times,
    Turn,
    TurnDecided,
    TypeText,
    Usage,
    Verdict,
    Wait,
)
from support.memory_desktop import (
    ListPlanner,
    PaintedController,
    act,
    finished as is_finished,
)

PNG = b"\x89PNG\r\n\x1a\n a screenshot, as far as a run directory can tell"
SCREEN = FrameRef(hashlib.sha256(PNG).hexdigest(), 1440, 900)
STARTED = RunStarted(
    "run",
    "Open the basket",
    "2026-11-21T10:00:00+00:00",
    "scripted",
    SCREEN,
    limits=Limits(5, 9.5, 2),
)
ALLOWED = Ruling("allow", "harmless", "no", "user", False)
ACTIONS: list[Action] = [
    Click(1, 2, "right", 2),
    MouseUp(1, 2, "middle"),
    Scroll(1, 2, "left", 5, "keys"),
    TypeText("Ωж日😀\u2028\n", 3, 4, True, True),
    KeyCombo(("ctrl", "+")),
    OpenUrl("https://example.org"),
    Wait(2.5),
    CallFunction(
        "count", {"of": ["apples", {"red": True, "size": None, "weight": 1.5}]}
    ),
    InvalidAction("bash", "there is no shell"),
]


def decided(number: int, *actions: Action) -> TurnDecided:
    proposals = tuple(
        Proposal(action, "why", {"name": action.kind, "args": {"x": 1}})
        for action in actions
    )
    return TurnDecided(
        number,
        Decision(
            "act", "words", proposals, "model-1", Usage(10, 2, 3, 4), {"parts": []}
        ),
        1.5,
    )


def begun(number: int, turn: int, action: Action) -> StepStarted:
    return StepStarted(number, turn, Proposal(action, "why"), ALLOWED)


def finished(number: int, turn: int, action: Action = ACTIONS[0]) -> StepFinished:
    proposal = Proposal(
        action,
        "why",
        {"name": action.kind, "args": {}},
        Confirmation("really?", "DATA"),
    )
    more: dict[str, Any] = {
        "settled": "animated",
        "times": Times(1.0, 0.25, 0.5, 0.125),
        "usage": Usage(1),
    }
    return StepFinished(Step(number, turn, proposal, ALLOWED, SCREEN, SCREEN, **more))


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    return RunDirectory.create(tmp_path / "runs", "run")


def written(directory: RunDirectory, *events: RunEvent) -> Path:
    for event in events:
        directory.append(event)
    return directory.path


def lines_of(path: Path, name: str = "trace.jsonl") -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for line in (path / name).read_text(encoding="utf-8").splitlines()
    ]


def test_non_json_value_is_text_or_type_error() -> None:
    assert to_json(CallFunction("f", {"of": range(3)}))["arguments"] == {
        "of": "range(0, 3)"
    }
    with pytest.raises(
        RunDirectoryError, match=r"x does not fit: .*integer.*, got 'left'"
    ):
        from_json(Click, {"x": "left", "y": 2})


def test_run_directory_is_read_as_written(directory: RunDirectory) -> None:
    verdict = Verdict(
        "2 apples",
        "fails",
        "there are 3",
        Region(1, 2, 3, 4),
        SCREEN,
        "judge",
        Usage(1, 2, 3, 4),
    )
    first = finished(1, 1)
    second = finished(2, 1, Wait())
    last = finished(3, 2)
    turns = decided(1, *ACTIONS), decided(2, ACTIONS[0])
    path = written(
        directory,
        STARTED,
        turns[0],
        begun(1, 1, ACTIONS[0]),
        first,
        begun(2, 1, Wait()),
        second,
        turns[1],
        begun(3, 2, ACTIONS[0]),
        last,
        RunEnded(Outcome.DONE, "the basket is open"),
        Judged(verdict),
    )
    trace = read_trace(path)
    assert (trace.path, trace.header.run_id, trace.header.version) == (path, "run", 1)
    assert trace.started == STARTED
    assert trace.steps == (first.step, second.step, last.step)
    assert trace.turns == (
        Turn(turns[0].decision, trace.steps[:2]),
        Turn(turns[1].decision, trace.steps[2:]),
    )
    assert trace.verdicts == (verdict,)
    assert trace.ended == RunEnded(Outcome.DONE, "the basket is open")
    assert (trace.open_step, trace.open_approval) == (None, None)


def test_run_waits_until_it_continues(directory: RunDirectory) -> None:
    asked = ApprovalRequest(1, Proposal(Wait()), Ruling("ask", "no rule matches"))
    waiting = read_trace(
        written(
            directory, STARTED, decided(1, Wait()), asked, RunEnded(Outcome.WAITING, "")
        )
    )
    assert waiting.open_approval == asked
    assert waiting.ended == RunEnded(Outcome.WAITING, "")
    continued = read_trace(
        written(RunDirectory.open(directory.path), begun(1, 1, Wait()))
    )
    assert continued.open_approval is None
    assert continued.ended is None
    assert continued.open_step == begun(1, 1, Wait())


@pytest.mark.parametrize(
    "torn",
    [b'{"kind":"step","st', b'{"kind":"end","outcome":"done","message":"","error":""}'],
)
def test_torn_last_line_is_skipped_then_removed(
    directory: RunDirectory, torn: bytes
) -> None:
    path = written(directory, STARTED, finished(1, 1))
    with (path / "trace.jsonl").open("ab") as file:
        file.write(torn)
    assert len(read_trace(path).steps) == 1
    again = RunDirectory.open(path)
    assert (path / "trace.jsonl").read_bytes().endswith(torn)
    written(again, finished(2, 2), finished(3, 3))
    assert [step.number for step in read_trace(path).steps] == [1, 2, 3]
    assert [line.get("kind") for line in lines_of(path)] == [
        None,
        "run",
        "step",
        "step",
        "step",
    ]


def test_unknown_fields_are_ignored(directory: RunDirectory) -> None:
    file = written(directory, STARTED, finished(1, 1)) / "trace.jsonl"
    lines = lines_of(directory.path)
    lines[2]["step"]["mood"] = "good"
    lines.insert(2, {"kind": "weather", "sky": "blue"})
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert read_trace(directory.path).steps == (finished(1, 1).step,)


@pytest.mark.parametrize("read", [read_trace, RunDirectory.open])
def test_newer_version_is_refused(
    directory: RunDirectory, read: Callable[[Path], object]
) -> None:
    file = written(directory, STARTED, finished(1, 1)) / "trace.jsonl"
    file.write_text(file.read_text().replace('"version":1', '"version":2'))
    with pytest.raises(
        RunDirectoryError,
        match=r"newer pytest-vnc-use: its version is 2, this one reads up to 1",
    ):
        read(directory.path)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, "is not a run directory: it has no trace.jsonl"),
        ('{"run_id":"run"}\n', "must begin with the header"),
        ("HEADER\x00\x00\n", "line 2 is not JSON"),
        ("HEADER", "never started"),
    ],
)
def test_damaged_directory_is_error(
    directory: RunDirectory, content: str | None, complaint: str
) -> None:
    file = directory.path / "trace.jsonl"
    header = file.read_text()
    file.unlink()
    if content is not None:
        file.write_text(content.replace("HEADER", header))
    with pytest.raises(RunDirectoryError, match=complaint):
        read_trace(directory.path)


def test_run_ids_sort_by_time() -> None:
    ids = [new_run_id() for _ in range(200)]
    assert len(set(ids)) == 200
    times = [run_id[:19] for run_id in ids]
    assert times == sorted(times)


def test_run_id_names_directory() -> None:
    assert path_of(Path("runs"), "my run") == Path("runs", "my run")


@pytest.mark.parametrize("run_id", ["", "..", "../x", "/etc", "a\\b", "C:x", "a\nb"])
def test_run_id_no_name_is_rejected(run_id: str) -> None:
    with pytest.raises(
        RunDirectoryError, match="a run id must be the name of a directory in 'runs'"
    ):
        path_of(Path("runs"), run_id)


def test_screen_not_stored_is_error(directory: RunDirectory) -> None:
    with pytest.raises(RunDirectoryError, match="cannot be read"):
        directory.load_png(SCREEN)


@pytest.fixture
def stored(directory: RunDirectory) -> Path:
    """The file of a stored screen."""
    assert directory.store(Frame(SCREEN, PNG)) == SCREEN
    return directory.path / "screens" / f"{SCREEN.digest}.png"


def test_screen_is_stored_once(directory: RunDirectory, stored: Path) -> None:
    before = stored.stat()
    directory.store(Frame(SCREEN, PNG))
    assert stored.stat().st_ino == before.st_ino
    assert stored.stat().st_mtime_ns == before.st_mtime_ns
    assert list(stored.parent.iterdir()) == [stored]
    assert RunDirectory.open(directory.path).load_png(SCREEN) == PNG


def test_stored_screen_is_checked(directory: RunDirectory, stored: Path) -> None:
    stored.write_bytes(PNG[:-1])
    with pytest.raises(RunDirectoryError, match="its SHA-256 is not its name"):
        directory.load_png(SCREEN)


def test_stored_screen_is_dropped(directory: RunDirectory, stored: Path) -> None:
    drop_screenshots(directory.path)
    assert not stored.exists()
    assert names_in(directory.path) == ["trace.jsonl"]


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(lambda directory: directory.append(STARTED), id="event"),
        pytest.param(lambda directory: directory.store(Frame(SCREEN, PNG)), id="frame"),
    ],
)
def test_directory_that_cannot_be_written_is_error(
    directory: RunDirectory, write: Callable[[RunDirectory], object]
) -> None:
    shutil.rmtree(directory.path)
    with pytest.raises(RunDirectoryError, match=r"cannot write (?!.*\.tmp)"):
        write(directory)


def test_create_in_file_names_path_once_and_remedy(tmp_path: Path) -> None:
    runs_dir = tmp_path / "runs"
    runs_dir.touch()
    with pytest.raises(RunDirectoryUnwritable) as caught:
        RunDirectory.create(runs_dir, "run")
    message = str(caught.value)
    assert message.count(str(runs_dir)) == 1
    assert message.endswith(
        "File exists. Set vnc_runs_dir (or --vnc-runs-dir) to a directory that this"
        " user can write"
    )


def test_create_with_too_long_path_is_error(tmp_path: Path) -> None:
    with pytest.raises(RunDirectoryUnwritable, match="too long"):
        RunDirectory.create(tmp_path / ("x" * 300), "run")


def exchange(turns: int, purpose: str = "planner", **changes: Any) -> ModelExchange:
    """Return a planner's exchange of its nth turn: the whole history, screenshots with
    the last 3 turns only.
    """
    contents = [
        f"turn {turn}: {'no ' * (turn < turns - 2)}screenshot {'x' * 500}"
        for turn in range(turns)
    ]
    request = {"contents": contents, "tools": [{"computerUse": {}}], "model": "m"}
    fields = {
        "attempt": 1,
        "request": request,
        "response": {"n": turns},
        "duration_s": 0.5,
    }
    return ModelExchange(purpose, **{**fields, **changes})


def test_exchanges_are_read_whole(directory: RunDirectory) -> None:
    failed = exchange(1, error="503", response=None, retry_in_s=2.0)
    exchanges = [
        failed,
        exchange(1, attempt=2),
        exchange(2),
        exchange(4, "judge"),
        exchange(5),
        exchange(3),
    ]
    exchanges.append(exchange(3, request={}))
    path = written(directory, STARTED, *exchanges)
    assert list(read_exchanges(path)) == exchanges


def run_of_megabyte(
    runs_dir: Path, name: str, result: str = "", *, age_s: int = 0
) -> Path:
    path = RunDirectory.create(runs_dir, name).path
    (path / "screens" / "a.png").write_bytes(bytes(1_000_000))
    if result:
        write_finished_test(path, FinishedTest("test_it", result))
        at = (path / "result.json").stat().st_mtime - age_s
        os.utime(path / "result.json", (at, at))
    return path


def names_in(runs_dir: Path) -> list[str]:
    return sorted(path.name for path in runs_dir.iterdir())


def test_oldest_passing_runs_are_removed_first(tmp_path: Path) -> None:
    run_of_megabyte(tmp_path, "old-failure", "failed", age_s=300)
    run_of_megabyte(tmp_path, "old", "passed", age_s=200)
    run_of_megabyte(tmp_path, "new", "passed", age_s=100)
    removed = make_room(tmp_path, 2, keep=[])
    assert names_in(tmp_path) == ["old-failure"]
    assert (
        removed
        == "2 runs were removed, the oldest first: all runs had 3 MB of at most 2"
        " (vnc_max_megabytes)"
    )
    kept = run_of_megabyte(tmp_path, "kept", "failed")
    (tmp_path / "photos").mkdir()
    assert (
        "1 run was removed, the oldest first, 1 of them of tests that failed"
        in make_room(tmp_path, 1, keep=[kept])
    )
    assert names_in(tmp_path) == ["kept", "photos"]


def test_result_is_read_as_written(tmp_path: Path) -> None:
    ended = FinishedTest(
        "test_ä",
        "failed",
        triage="product",
        failure="<b>\ud800",
        seconds=1.5,
        dollars=0.25,
    )
    write_finished_test(tmp_path, ended)
    assert read_finished_test(tmp_path) == replace(ended, failure="<b>?")


def test_missing_result_is_none(tmp_path: Path) -> None:
    assert read_finished_test(tmp_path) is None


@pytest.mark.parametrize("content", ["", '{"format": "other", "version": 1}'])
def test_invalid_result_is_error(tmp_path: Path, content: str) -> None:
    (tmp_path / "result.json").write_text(content)
    with pytest.raises(RunDirectoryError, match=r"result\.json"):
        read_finished_test(tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other rights")
def test_only_owner_may_read_run_also_without_umask(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    request.addfinalizer(partial(os.umask, os.umask(0)))
    planner = ListPlanner([act(Proposal(Click(1, 1), "open it")), is_finished()])
    settings = Settings(server="localhost::1", runs_dir=str(tmp_path / "runs"))
    with VncUseAgent(
        settings=settings, planner=planner, controller=PaintedController()
    ) as agent:
        directory = agent.run("Open it").run_dir
        assert directory is not None
        keep_logs(directory, {"program": "started"})
        write_results(directory / "results.json", session_results("", "", ()))
        rights = {
            path.name: path.stat().st_mode & 0o777
            for path in [directory, *directory.rglob("*")]
        }
    assert len(rights) >= 7
    assert {
        name: oct(mode) for name, mode in rights.items() if mode not in (0o600, 0o700)
    } == {}
