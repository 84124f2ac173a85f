"""`--vnc-record` and `vnc_healed` as a user has them: pytest in a process of its own, on the till."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from pytest_vnc_use.agent.build import GEMINI_KEY_VARIABLES
from pytest_vnc_use.recordings import mode_of
from pytest_vnc_use.recordings.format import screens
from pytest_vnc_use.recordings.store import load
from pytest_vnc_use.report.results import read_results
from pytest_vnc_use.report.run_view import show_run
from support.till_project import PLANS, TEST, Project

pytestmark = pytest.mark.desktop

KEPT = """
import gc, pathlib, pytest, time
from pytest_vnc_use.backends.screen import Framebuffer
from pytest_vnc_use.recordings.record import RecordedTest

def kept_now():
    gc.collect()
    return [type(each).__name__ for each in gc.get_objects() if isinstance(each, (Framebuffer, RecordedTest))]

@pytest.hookimpl(trylast=True)
def pytest_runtest_logfinish():
    until_s = time.monotonic() + 10  # the reactor's thread ends the connection
    while (kept := kept_now()) and time.monotonic() < until_s:
        time.sleep(0.02)
    with pathlib.Path("kept.txt").open("a") as file:
        print(kept, file=file)
"""


MODES = ("auto", "rewrite", "off")
MOVED = "--fault='moved button'"
SOON = "-ovnc_gate_seconds=5"


@pytest.mark.slow
def test_savings_are_printed_where_recorded(recorded: Project) -> None:
    text = recorded.file.read_text(encoding="utf-8")
    live = re.search(r'"live": \{"seconds": [0-9.]+\}', text)  # this planner reports no calls, so no dollars
    assert live, text
    recorded.file.write_text(text.replace(live[0], '"live": {"seconds": 100.0, "dollars": 0.5}'), encoding="utf-8")
    known = recorded.run("--junit-xml=junit.xml")
    told = re.search(r"vnc-use: 1 replayed test saved 9\d\.\d s compared with the recorded runs, and (.*)", known.out)
    assert told, known.out
    assert told[1] == "$0.5000 at the prices of the time of recording"
    assert 'name="vnc_saved_s" value="9' in (recorded.path / "junit.xml").read_text(encoding="utf-8")


def test_finished_test_keeps_no_screen_in_memory(recorded: Project) -> None:
    recorded.write("conftest.py", KEPT)
    replayed = recorded.run("--vnc-repeat=2")
    assert replayed.code == 0, replayed.out
    assert (recorded.path / "kept.txt").read_text(encoding="utf-8").splitlines() == ["[]", "[]"]


def test_planner_without_key_is_not_needed_for_replay(recorded: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in GEMINI_KEY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    (recorded.path / "conftest.py").unlink()
    replayed = recorded.run("--vnc-planner=gemini")
    assert replayed.code == 0, replayed.out
    assert "vnc-use: 1 run planned by recording" in replayed.out
    recorded.file.unlink()
    assert "no API key is set" in recorded.run("--vnc-planner=gemini", "--vnc-record=auto").out


@pytest.mark.slow
def test_drift_with_other_fonts_names_them_first(recorded: Project) -> None:
    text = recorded.file.read_text(encoding="utf-8")
    (known,) = re.findall(r'"sans-serif": "(.*?)"', text)
    recorded.file.write_text(text.replace(f'"sans-serif": "{known}"', '"sans-serif": "Nimbus"'), encoding="utf-8")
    assert recorded.run().code == 0
    drifted = recorded.run(SOON, till=MOVED, ci="true")
    assert (drifted.code, recorded.asked) == (1, 0), drifted.out
    cause = f"Fonts differ from the recording's machine: sans-serif is {known} here, Nimbus there."
    assert f"inconclusive: {cause} drift before step 2 of 4" in drifted.out


@pytest.mark.slow
def test_healed_test_is_listed_and_written(recorded: Project) -> None:
    before = recorded.file.read_text(encoding="utf-8")
    healed = recorded.run(SOON, "--junitxml=junit.xml", till=MOVED)
    assert healed.code == 0, healed.out
    assert "HEALED test_till.py::test_till: drift before step 2 of 4" in healed.out
    assert "WENT ON" not in healed.out
    assert 'name="vnc_healed" value="drift before' in (recorded.path / "junit.xml").read_text(encoding="utf-8")
    (test,) = read_results(recorded.path / "runs" / "vnc-results.json").tests
    assert (len(test.healed), test.went_on) == (1, ())
    assert [step.way for step in show_run(Path(test.runs[0].directory)).view.steps] == ["replayed", *["healed"] * 3]
    assert recorded.file.read_text(encoding="utf-8") != before


BREAKS = "@pytest.fixture\ndef breaks():\n    yield\n    raise ValueError('in the teardown')\n"
TORN = TEST.replace("\n@", f"\n{BREAKS}\n@").replace("(vnc_desktop", "(breaks, vnc_desktop")
FAILS = TEST.replace("5.00", "6.00")


@pytest.mark.slow
@pytest.mark.parametrize("at", ["teardown", "first attempt", "vnc_healed=fail"])
def test_failed_test_after_drift_is_not_healed(recorded: Project, at: str) -> None:
    before, options = recorded.file.read_text(encoding="utf-8"), [SOON, "--junitxml=junit.xml"]
    if at == "teardown":
        recorded.write("test_till.py", TORN)
    elif at == "vnc_healed=fail":
        options += [f"-o{at}"]
    else:
        recorded.write("test_till.py", FAILS)
        options += ["--reruns=1"]
    failed = recorded.run(*options, till=MOVED)
    assert (failed.code, recorded.file.read_text(encoding="utf-8")) == (1, before), failed.out
    assert "1 not healed: a model continued after a drift, and the test did not pass" in failed.out
    assert "WENT ON test_till.py::test_till: drift before step 2 of 4" in failed.out
    assert "HEALED" not in failed.out
    assert ("the test passed, but its replay was healed" in failed.out) == (at == "vnc_healed=fail")
    junit = (recorded.path / "junit.xml").read_text(encoding="utf-8")
    assert ('name="vnc_went_on" value="drift before step' in junit, 'name="vnc_healed"' in junit) == (True, False)
    (test,) = read_results(recorded.path / "runs" / "vnc-results.json").tests
    assert (test.healed, len(test.went_on)) == ((), 1)
    assert [step.way for step in show_run(Path(test.runs[0].directory)).view.steps] == ["replayed", *["not healed"] * 3]


@pytest.mark.slow
def test_drift_without_judge_is_not_healed(recorded: Project) -> None:
    recorded.write("test_till.py", TEST.replace(", expect=None", ""))
    text = recorded.file.read_text(encoding="utf-8")
    recorded.file.write_text(text.replace('"stays": ', '"vouched_by": "user", "stays": '), encoding="utf-8")
    assert recorded.run().code == 0
    drifted = recorded.run(SOON, till=MOVED)
    assert (drifted.code, recorded.asked) == (1, 0), drifted.out
    assert "inconclusive: drift before step 2 of 4" in drifted.out


def test_transient_is_in_all_reports(recorded: Project) -> None:
    told = "TRANSIENT test_till.py::test_till: after step 2 of 4 the screen showed an unrecorded transient frame"
    replayed = recorded.run("--junitxml=junit.xml", "--html=report.html", "--self-contained-html", till="--fault=toast")
    assert replayed.code == 0, replayed.out
    assert "1 with an unrecorded transient frame" in replayed.out
    assert told in replayed.out
    (run,) = read_results(recorded.path / "runs" / "vnc-results.json").tests[0].runs
    assert run.transients[0] in replayed.out
    assert 'name="vnc_transient" value="after step 2 of 4' in (recorded.path / "junit.xml").read_text(encoding="utf-8")
    assert "1 transient" in (recorded.path / "report.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_transients_fail_fails_test(recorded: Project) -> None:
    failed = recorded.run("--vnc-transients=fail", till="--fault=toast")
    assert failed.code == 1, failed.out
    assert "inconclusive: the test passed, but its replay showed an unrecorded transient frame" in failed.out
    passed = recorded.run("--vnc-transients=fail")
    assert passed.code == 0, passed.out


@pytest.mark.slow
def test_agent_requested_by_body_records_and_replays(recorded: Project) -> None:
    """Its recording is known only after the report of its setup."""
    run = 'request.getfixturevalue("vnc_agent").run("Enter alice, add two apples and pay", expect=None)'
    fetched = TEST.replace("@pytest.mark.vnc_task", "#").replace("(vnc_desktop", "(request, vnc_desktop")
    recorded.write("test_till.py", fetched.replace("    assert", f"    {run}\n    assert"))
    recorded.file.unlink()
    for option in ("--vnc-record=auto", "--vnc-record=replay"):
        ended = recorded.run(option)
        assert (ended.code, recorded.file.exists()) == (0, True), ended.out


@pytest.mark.slow
@pytest.mark.parametrize("at", ["body", "teardown"])
def test_failed_test_writes_no_recording(project: Project, at: str) -> None:
    project.write("test_till.py", FAILS if at == "body" else TORN)
    failed = project.run("--vnc-record=auto")
    assert (failed.code, project.file.exists()) == (1, False), failed.out


def test_missing_or_damaged_recording_performs_nothing(project: Project) -> None:
    missing = project.run("--vnc-record=replay")
    assert missing.code == 1
    assert "settings: there is no recording of 'test_till.py::test_till'" in missing.out
    project.file.parent.mkdir(parents=True)
    project.file.write_text("<<<<<<< HEAD\n", encoding="utf-8")
    damaged = project.run()
    assert damaged.code == 1
    assert "holds the conflict marks of a merge" in damaged.out
    assert project.asked == 0


def test_unwritable_recording_performs_nothing(project: Project) -> None:
    project.write("__vnc_recordings__", "a file in the place of the directory")
    refused = project.run("--vnc-record=rewrite")
    assert (refused.code, project.asked) == (1, 0), refused.out
    assert re.search(r"settings: the recording '.*/test_till.json' cannot be written, so nothing is done", refused.out)
    assert "__vnc_recordings__' must be a directory in which you may make files" in refused.out


@pytest.mark.parametrize(("mode", "code"), [("rewrite", 1), pytest.param("auto", 0, marks=pytest.mark.slow)])
def test_rewrite_fails_session_if_not_written(project: Project, mode: str, code: int) -> None:
    spoils = '    __import__("pathlib").Path("__vnc_recordings__").touch()\n'
    project.write("test_till.py", TEST.replace("    assert", f"{spoils}    assert"))
    done = project.run(f"--vnc-record={mode}", "--color=yes")
    assert done.code == code, done.out
    told = f"though --vnc-record={mode} asks for it: " if code else ": "
    assert re.search(rf"\x1b\[31mvnc-use: 1 recording not written(, )?{told}.*Errno", done.out), done.out
    problems = read_results(project.path / "runs" / "vnc-results.json").problems
    assert [*problems] == ["the recording of test_till.py::test_till could not be written"] * code


@pytest.mark.slow
def test_repetitions_on_workers_write_one_recording(project: Project) -> None:
    project.write("conftest.py", PLANS.replace("[NAME, ADD, ADD, PAY]", "[PAY]"))
    project.write("test_till.py", TEST.replace("alice pays 5.00", " pays 0.00"))
    done = project.run("--vnc-record=rewrite", "--vnc-repeat=2", "-n2")
    assert done.code == 0, done.out
    assert [path.name for path in project.file.parent.glob("*.json")] == ["test_till.json"]
    recording = load(project.file)
    assert recording is not None
    assert [screen.pixels().shape for screen in screens(recording)] == [(400, 800)] * 2


@pytest.mark.slow
def test_symlinked_test_file_uses_recording_of_its_target(recorded: Project) -> None:
    (recorded.path / "shared").mkdir()
    (recorded.path / "test_till.py").rename(recorded.path / "shared" / "test_till.py")
    (recorded.path / "__vnc_recordings__").rename(recorded.path / "shared" / "__vnc_recordings__")
    (recorded.path / "test_link.py").symlink_to(Path("shared", "test_till.py"))
    replayed = recorded.run("test_link.py")
    assert (replayed.code, recorded.asked) == (0, 0), replayed.out


KEPT_BY = re.compile(r"test_till\.py::test_till', which is not there any more: .* keep its recording by: (mv .*)")


@pytest.mark.parametrize(
    "renamed", ["function", pytest.param("file", marks=pytest.mark.slow), pytest.param("both", marks=pytest.mark.slow)]
)
def test_renamed_test_names_command_that_keeps_recording(recorded: Project, renamed: str) -> None:
    test = TEST if renamed == "file" else TEST.replace("def test_till(", "def test_paid(")
    (recorded.path / "test_till.py").unlink()
    recorded.write("test_till.py" if renamed == "function" else "test_sale.py", test)
    missing = recorded.run("-Werror::UserWarning")  # it is told before the planner is asked
    command = KEPT_BY.search(missing.out)
    assert (missing.code, recorded.asked, bool(command)) == (1, 0, True), missing.out
    assert command
    (recorded.path / "conftest.py").unlink()
    assert KEPT_BY.search(recorded.run("--vnc-record=replay").out)
    subprocess.run(["sh", "-c", command[1]], check=True)
    replayed = recorded.run("--vnc-record=replay")
    assert replayed.code == 0, replayed.out


def test_new_test_is_offered_no_recording_in_use(recorded: Project) -> None:
    new = TEST.replace("def test_till(", "def test_new(")
    recorded.write("test_till.py", TEST + new)
    recorded.write("test_new.py", new)
    used = recorded.run("--vnc-record=replay", "-k", "test_new")
    (recorded.path / "test_new.py").unlink()
    recorded.write("test_till.py", new.replace("add two", "add three"))
    other_task = recorded.run("--vnc-record=replay")
    assert (used.out + other_task.out).count("settings: there is no recording of") >= 3
    assert not KEPT_BY.search(used.out + other_task.out)


def test_record_of_marker_is_checked_and_used(project: Project) -> None:
    project.write("test_till.py", TEST.replace("None)", "None, record='sometimes')"))
    wrong = project.run("--collect-only")
    modes = "auto, replay, accept, rewrite, manual, off"
    assert f"vnc_task(record=…) must be one of {modes}, got 'sometimes'" in wrong.out
    project.write("test_till.py", TEST.replace("None)", "None, record='replay')"))
    assert "there is no recording of" in project.run().out


def test_replay_option_overrules_marker(project: Project) -> None:
    tests = [TEST.replace("None)", f"None, record='{mode}')").replace("_till(", f"_{mode}(") for mode in MODES]
    project.write("test_till.py", "".join(tests))
    replayed = project.run("--vnc-record=replay")
    assert (replayed.code, project.asked) == (1, 0), replayed.out
    assert "3 failed" in replayed.out
    told = "--vnc-record=replay overrules record='off' of its marker; or take that out, and run it once with"
    assert told in replayed.out
    assert "record='auto' of its marker" not in replayed.out


def test_auto_option_leaves_off_to_marker(project: Project) -> None:
    project.write("test_till.py", TEST.replace("None)", "None, record='off')"))
    ended = project.run("-ovnc_record=replay", "--vnc-record=auto")
    assert (ended.code, project.asked > 0, project.file.exists()) == (0, True, False), ended.out


@pytest.mark.parametrize(
    ("asked", "exists", "ci", "has_planner", "mode"),
    [
        ("", False, False, True, "off"),
        ("", False, True, True, "off"),
        ("", False, True, False, "off"),
        ("", True, False, True, "auto"),
        ("", True, False, False, "replay"),
        ("", True, True, True, "replay"),
        ("auto", False, True, True, "auto"),
        ("auto", False, False, False, "replay"),
        ("replay", False, False, True, "replay"),
        ("rewrite", True, True, True, "rewrite"),
        ("off", True, True, True, "off"),
    ],
)
def test_mode_of_option_and_circumstances(asked: str, exists: bool, ci: bool, has_planner: bool, mode: str) -> None:
    assert mode_of(asked, exists=exists, ci=ci, has_planner=has_planner) == mode
