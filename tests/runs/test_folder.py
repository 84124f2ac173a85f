"""The run folder: what is written is read again, also after a kill -9, a torn line, or a second writer."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_vnc_use.errors import RunFolderError, RunFolderUnwritable
from pytest_vnc_use.runs.folder import (
    RunFolder,
    from_json,
    new_run_id,
    read_exchanges,
    read_trace,
    to_json,
)
from pytest_vnc_use.runs.json_lines import LARGEST, JsonLines
from pytest_vnc_use.types import (
    Action,
    ApprovalAsked,
    CallFunction,
    Click,
    Confirmation,
    Decision,
    Drag,
    Frame,
    FrameRef,
    InvalidAction,
    Judged,
    KeyCombo,
    KeyDown,
    KeyUp,
    Limits,
    ModelExchange,
    MouseDown,
    MouseUp,
    Move,
    OpenAddress,
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
    TakeScreenshot,
    Times,
    TraverseHistory,
    Turn,
    TurnDecided,
    TypeText,
    Usage,
    Verdict,
    Wait,
)
from support.paths import TESTS

PNG = b"\x89PNG\r\n\x1a\n a picture, as far as a run folder can tell"
SCREEN = FrameRef(hashlib.sha256(PNG).hexdigest(), 1440, 900)
STARTED = RunStarted(
    "run", "Open the basket", "2026-11-21T10:00:00+00:00", "scripted", SCREEN, limits=Limits(5, 9.5, 2)
)
ALLOWED = Ruling("allow", "harmless")
ACTIONS: list[Action] = [
    Click(1, 2, "right", 2),
    MouseDown(1, 2),
    MouseUp(1, 2, "middle"),
    Move(1, 2),
    Drag(1, 2, 3, 4),
    Scroll(1, 2, "left", 5, "keys"),
    TypeText("Ωж日😀\u2028\n", 3, 4, True, True),
    KeyCombo(("ctrl", "+")),
    KeyDown("a"),
    KeyUp("a"),
    OpenAddress("https://example.org"),
    TraverseHistory("back"),
    Wait(2.5),
    TakeScreenshot(),
    CallFunction("count", {"of": ["apples", {"red": True, "size": None, "weight": 1.5}]}),
    InvalidAction("bash", "there is no shell"),
]


def decided(number: int, *actions: Action) -> TurnDecided:
    proposals = tuple(Proposal(action, "why", {"name": action.kind, "args": {"x": 1}}) for action in actions)
    return TurnDecided(number, Decision("act", "words", proposals, "model-1", Usage(10, 2, 3, 4), {"parts": []}), 1.5)


def begun(number: int, turn: int, action: Action) -> StepStarted:
    return StepStarted(number, turn, Proposal(action, "why"), ALLOWED)


def finished(number: int, turn: int, action: Action = ACTIONS[0]) -> StepFinished:
    proposal = Proposal(action, "why", {"name": action.kind, "args": {}}, Confirmation("really?", "DATA"))
    times = Times(1.0, 0.25, 0.5, 0.125)
    step = Step(number, turn, proposal, ALLOWED, SCREEN, SCREEN, settled="animated", times=times, usage=Usage(1))
    return StepFinished(step)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path / "runs", "run")


def written(folder: RunFolder, *events: RunEvent) -> Path:
    for event in events:
        folder.append(event)
    return folder.path


def lines_of(path: Path, name: str = "trace.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (path / name).read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.kind)
def test_every_action_survives_json(action: Action) -> None:
    proposal = Proposal(action, "why", {"name": "x"}, Confirmation("really?"))
    assert from_json(Action, json.loads(json.dumps(to_json(action)))) == action
    assert from_json(Proposal, json.loads(json.dumps(to_json(proposal)))) == proposal


@pytest.mark.parametrize(
    "value",
    [
        SCREEN,
        Ruling("deny", "rule 1", "no", "person", False),
        decided(1, *ACTIONS).decision,
        finished(1, 1).step,
        Turn(decided(1, Wait()).decision, (finished(1, 1).step,)),
        Verdict("2 apples", "fails", "there are 3", Region(1, 2, 3, 4), SCREEN, "judge", Usage(1, 2, 3, 4)),
        RunEnded(Outcome.STEP_LIMIT, "no more steps"),
        STARTED,
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_value_survives_json(value: object) -> None:
    assert from_json(type(value), json.loads(json.dumps(to_json(value)))) == value


def test_what_json_does_not_know_becomes_text() -> None:
    assert to_json(CallFunction("f", {"of": range(3)}))["arguments"] == {"of": "range(0, 3)"}


def test_data_that_is_no_such_value_is_refused() -> None:
    with pytest.raises(RunFolderError, match=r"x does not fit: .*integer.*, got 'left'"):
        from_json(Click, {"x": "left", "y": 2})


def test_what_was_written_is_read(folder: RunFolder) -> None:
    verdict = Verdict("2 apples", "holds", "I see 2")
    first, second, last = finished(1, 1), finished(2, 1, Wait()), finished(3, 2)
    path = written(
        folder,
        STARTED,
        decided(1, ACTIONS[0], Wait()),
        *(begun(1, 1, ACTIONS[0]), first, begun(2, 1, Wait()), second),
        *(decided(2, ACTIONS[0]), begun(3, 2, ACTIONS[0]), last),
        RunEnded(Outcome.DONE, "the basket is open"),
        Judged(verdict),
    )
    trace = read_trace(path)
    assert trace.path == path
    assert (trace.header.run_id, trace.header.version) == ("run", 1)
    assert trace.started == STARTED
    assert trace.steps == (first.step, second.step, last.step)
    assert trace.turns == (
        Turn(decided(1, ACTIONS[0], Wait()).decision, (first.step, second.step)),
        Turn(decided(2, ACTIONS[0]).decision, (last.step,)),
    )
    assert trace.verdicts == (verdict,)
    assert trace.ended == RunEnded(Outcome.DONE, "the basket is open")
    assert trace.open_step is None
    assert trace.asked is None


def test_a_line_is_one_event_complete_by_itself(folder: RunFolder) -> None:
    header, started, step = lines_of(written(folder, STARTED, finished(1, 1)))
    assert abs(time.time() - header.pop("began_at")) < 60
    assert header == {"run_id": "run", "format": "pytest-vnc-use trace", "version": 1}
    assert (started["kind"], step["kind"]) == ("run", "step")
    assert {"proposal", "ruling", "frame_before", "frame_after", "error", "times", "usage", "model"} <= set(
        step["step"]
    )


def test_a_step_that_was_begun_stays_open(folder: RunFolder) -> None:
    trace = read_trace(written(folder, STARTED, decided(1, Wait()), begun(1, 1, Wait())))
    assert trace.open_step == begun(1, 1, Wait())
    assert trace.ended is None


def test_a_run_waits_until_it_goes_on(folder: RunFolder) -> None:
    asked = ApprovalAsked(1, Proposal(Wait()), Ruling("ask", "no rule matches"))
    waiting = read_trace(written(folder, STARTED, decided(1, Wait()), asked, RunEnded(Outcome.WAITING, "")))
    assert waiting.asked == asked
    assert waiting.ended == RunEnded(Outcome.WAITING, "")
    goes_on = read_trace(written(RunFolder.open(folder.path), begun(1, 1, Wait())))
    assert goes_on.asked is None
    assert goes_on.ended is None
    assert goes_on.open_step == begun(1, 1, Wait())


def test_what_was_done_again_replaces_what_was_before(folder: RunFolder) -> None:
    again = replace(STARTED, started_at="2026-11-21T11:00:00+00:00")
    trace = read_trace(written(folder, STARTED, again, decided(1, Wait()), decided(1, TakeScreenshot())))
    assert trace.started == again
    assert trace.turns == (Turn(decided(1, TakeScreenshot()).decision),)


def test_text_that_utf8_cannot_hold_does_not_spoil_the_folder(folder: RunFolder) -> None:
    trace = read_trace(written(folder, STARTED, finished(1, 1, TypeText("half \ud83d a pair"))))
    assert trace.steps[0].proposal.action == TypeText("half ? a pair")


def test_run_ids_sort_by_time_and_never_meet() -> None:
    ids = [new_run_id() for _ in range(200)]
    assert len(set(ids)) == 200
    assert [run_id[:19] for run_id in ids] == sorted(run_id[:19] for run_id in ids)
    assert all(Path(run_id).name == run_id and run_id.replace("-", "").isalnum() for run_id in ids)


def test_a_folder_is_made_once(folder: RunFolder) -> None:
    with pytest.raises(RunFolderError, match="cannot make the run folder"):
        RunFolder.create(folder.path.parent, folder.path.name)


# --- what a killed writer leaves -------------------------------------------------------------------------------------

WRITER = """
import sys
from itertools import count
from pathlib import Path
sys.path += sys.argv[2:]
from test_folder import STARTED, begun, decided, finished
from pytest_vnc_use.runs.folder import RunFolder
from pytest_vnc_use.types import Wait

folder = RunFolder.create(Path(sys.argv[1]), "run")
folder.append(STARTED)
for number in count(1):
    folder.append(decided(number, Wait()))
    folder.append(begun(number, number, Wait()))
    folder.append(finished(number, number, Wait()))
    print(number, flush=True)
"""


@pytest.mark.slow
def test_after_a_kill_the_folder_reads_up_to_the_last_step(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path), str(TESTS), str(Path(__file__).parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        told = [int(writer.stdout.readline()) for _ in range(50)]
        writer.kill()
        told += [int(number) for number in writer.stdout]
    trace = read_trace(tmp_path / "run")
    assert len(trace.steps) in (told[-1], told[-1] + 1)
    assert [step.number for step in trace.steps] == list(range(1, len(trace.steps) + 1))
    assert trace.ended is None

    again = RunFolder.open(tmp_path / "run")
    again.append(RunEnded(None, "", error="killed"))
    assert read_trace(tmp_path / "run").ended == RunEnded(None, "", error="killed")


@pytest.mark.parametrize(
    "torn", [b'{"kind":"step","st', b"{", b'{"kind":"end","outcome":"done","message":"","error":""}']
)
def test_a_torn_last_line_is_passed_over_and_then_removed(folder: RunFolder, torn: bytes) -> None:
    path = written(folder, STARTED, finished(1, 1))
    with (path / "trace.jsonl").open("ab") as file:
        file.write(torn)
    assert len(read_trace(path).steps) == 1
    again = RunFolder.open(path)
    assert (path / "trace.jsonl").read_bytes().endswith(torn)
    written(again, finished(2, 2), finished(3, 3))
    assert [step.number for step in read_trace(path).steps] == [1, 2, 3]
    assert [line.get("kind") for line in lines_of(path)] == [None, "run", "step", "step", "step"]


def test_a_newer_version_is_refused(folder: RunFolder) -> None:
    file = written(folder, STARTED) / "trace.jsonl"
    file.write_text(file.read_text().replace('"version":1', '"version":2'))
    for read in (read_trace, RunFolder.open):
        with pytest.raises(RunFolderError, match=r"newer pytest-vnc-use: its version is 2, this one reads up to 1"):
            read(folder.path)


def test_what_a_later_writer_added_is_ignored(folder: RunFolder) -> None:
    file = written(folder, STARTED, finished(1, 1)) / "trace.jsonl"
    lines = lines_of(folder.path)
    lines[2]["step"]["mood"] = "good"
    lines.insert(2, {"kind": "weather", "sky": "blue"})
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert read_trace(folder.path).steps == (finished(1, 1).step,)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, "is not a run folder: it has no trace.jsonl"),
        ("", "must begin with the header"),
        ('{"run_id":"run"}\n', "must begin with the header"),
        ('{"format":"pytest-vnc-use trace","version":"one","run_id":"run"}\n', "version does not fit"),
        ("no json\n", "line 1 is not JSON"),
        ("HEADER[1]\n", r"line 2 is \[1\], not a JSON object"),
        ("HEADER\x00\x00\n", "line 2 is not JSON"),
        ('HEADER{"kind":"step","step":{}}\n', "does not fit"),
        ("HEADER", "never started"),
    ],
)
def test_a_damaged_folder_is_an_error(folder: RunFolder, content: str | None, complaint: str) -> None:
    file = folder.path / "trace.jsonl"
    header = file.read_text()
    file.unlink()
    if content is not None:
        file.write_text(content.replace("HEADER", header))
    with pytest.raises(RunFolderError, match=complaint):
        read_trace(folder.path)


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="there is no run folder"):
        read_trace(tmp_path / "nowhere")


def test_a_screen_is_stored_once(folder: RunFolder) -> None:
    assert folder.store(Frame(SCREEN, PNG)) == SCREEN
    stored = folder.path / "screens" / f"{SCREEN.digest}.png"
    before = stored.stat()
    folder.store(Frame(SCREEN, PNG))
    after = stored.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert list(stored.parent.iterdir()) == [stored]
    assert RunFolder.open(folder.path).load_png(SCREEN) == PNG


def test_a_screen_that_is_missing_or_changed_is_an_error(folder: RunFolder) -> None:
    with pytest.raises(RunFolderError, match="cannot be read"):
        folder.load_png(SCREEN)
    folder.store(Frame(SCREEN, PNG))
    (folder.path / "screens" / f"{SCREEN.digest}.png").write_bytes(PNG[:-1])
    with pytest.raises(RunFolderError, match="its SHA-256 is not its name"):
        folder.load_png(SCREEN)


def test_a_folder_that_cannot_be_written_is_an_error(folder: RunFolder) -> None:
    (folder.path / "trace.jsonl").unlink()
    (folder.path / "screens").rmdir()
    folder.path.rmdir()
    with pytest.raises(RunFolderError, match="cannot write"):
        folder.append(STARTED)
    with pytest.raises(RunFolderError, match="cannot write") as raised:
        folder.store(Frame(SCREEN, PNG))
    assert ".tmp" not in str(raised.value)


def exchange(turns: int, purpose: str = "planner", **changes: Any) -> ModelExchange:
    """Return a planner's exchange of its nth turn: the whole history, pictures with the last 3 turns only."""
    contents = [f"turn {turn}: {'picture' if turn > turns - 3 else 'no picture'} {'x' * 500}" for turn in range(turns)]
    request = {"contents": contents, "tools": [{"computerUse": {}}], "model": "m"}
    return ModelExchange(
        purpose, **{"attempt": 1, "request": request, "response": {"n": turns}, "duration_s": 0.5} | changes
    )


def test_exchanges_are_read_whole(folder: RunFolder) -> None:
    said = [
        exchange(1, error="503", response=None, retry_in_s=2.0),
        exchange(1, attempt=2),
        exchange(2),
        exchange(4, purpose="judge"),
        exchange(5),
        exchange(3),
        exchange(3, request={"contents": "not a list"}),
        exchange(3, request={}),
        exchange(6),
    ]
    path = written(folder, STARTED, *said)
    assert list(read_exchanges(path)) == said


def test_the_trace_tells_of_exchanges_by_their_line(folder: RunFolder) -> None:
    written(folder, STARTED, exchange(1, error="503", response=None, retry_in_s=2.0), exchange(1, attempt=2))
    path = written(RunFolder.open(folder.path), exchange(2))
    notes = read_trace(path).exchanges
    assert [(note.request["line"], note.attempt, note.error, note.retry_in_s) for note in notes] == [
        (1, 1, "503", 2.0),
        (2, 2, "", None),
        (3, 1, "", None),
    ]
    assert list(read_exchanges(path))[2] == exchange(2)


def test_exchanges_grow_with_the_steps_and_not_with_their_square(folder: RunFolder) -> None:
    file = folder.path / "exchanges.jsonl"
    sizes = []
    for turns in range(1, 121):
        folder.append(exchange(turns))
        sizes.append(file.stat().st_size)
    assert sizes[119] - sizes[99] <= 1.05 * (sizes[39] - sizes[19])
    assert list(read_exchanges(folder.path))[-1] == exchange(120)


def test_an_event_whose_kind_is_no_word_is_left_out(folder: RunFolder) -> None:
    path = written(folder, STARTED)
    with (path / "trace.jsonl").open("a") as trace:
        trace.write('{"kind": ["run"]}\n')
    assert read_trace(path).started == STARTED


@pytest.mark.parametrize("repeats", ['"x"', '{"messages": "x"}', '{"messages": -1}', '{"messages": [1]}'])
def test_exchanges_that_repeat_nonsense_are_damaged(folder: RunFolder, repeats: str) -> None:
    exchange = json.dumps(to_json(ModelExchange("planner", 1, {"messages": []}, None, 0.1)))
    (folder.path / "exchanges.jsonl").write_text(exchange[:-1] + f', "repeats": {repeats}}}\n')
    with pytest.raises(RunFolderError, match="damaged"):
        list(read_exchanges(folder.path))


def test_json_of_too_many_values_is_not_read(folder: RunFolder) -> None:
    """Each empty list takes 64 bytes of memory, and two of text."""
    (folder.path / "trace.jsonl").write_text("[" + "[]," * 1_000_001 + "0]\n")
    with pytest.raises(RunFolderError, match="at most 1000000 values"):
        read_trace(folder.path)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limits of a process")
def test_a_disk_that_fills_up_at_once_leaves_no_empty_run_folder(tmp_path: Path) -> None:
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        with pytest.raises(RunFolderUnwritable, match="cannot write"):
            RunFolder.create(tmp_path, "run")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("name", ["trace.jsonl", "exchanges.jsonl"])
def test_a_file_that_is_too_large_is_not_read(folder: RunFolder, name: str) -> None:
    """A line without an end must not fill the memory; the file takes no room on the disk."""
    (folder.path / name).touch()
    os.truncate(folder.path / name, 2 * LARGEST)
    tracemalloc.start()
    try:
        with pytest.raises(RunFolderError, match=f"{name}.*must have at most {LARGEST} bytes, it has {2 * LARGEST}"):
            read_trace(folder.path) if name == "trace.jsonl" else list(read_exchanges(folder.path))
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_a_file_of_lines_grows_no_larger_than_what_is_read(tmp_path: Path) -> None:
    lines = JsonLines(tmp_path / "trace.jsonl")
    lines.append({"a": 1})
    os.truncate(lines.path, LARGEST - 8)
    lines.append({"a": 2})
    assert lines.path.stat().st_size == LARGEST
    with pytest.raises(RunFolderUnwritable, match=rf"trace.jsonl.*at most {LARGEST} bytes, .* it has {LARGEST + 8}"):
        lines.append({"a": 3})
    assert lines.path.stat().st_size == LARGEST
    os.truncate(lines.path, 2 * LARGEST)
    with pytest.raises(RunFolderUnwritable, match=f"must have at most {LARGEST} bytes, it has {2 * LARGEST}"):
        JsonLines(lines.path).append({"a": 4})


def test_to_json_surrogate_in_key_becomes_question_mark() -> None:
    call = Proposal(CallFunction("f", {"a\ud800": {"\udfff": ["b\ud800"]}}))
    assert to_json(call)["action"]["arguments"] == {"a?": {"?": ["b\ud800"]}}
