"""`--vnc-record` and `vnc_healed` as a user has them: pytest in a process of its own,
on the till.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from textwrap import indent

import pytest

from pytest_vnc_use.agent.credentials import GEMINI_KEY_VARIABLES
from pytest_vnc_use.cli import main
from pytest_vnc_use.recordings import mode_of
from pytest_vnc_use.recordings.store import FILE, Key, load
from pytest_vnc_use.report.results import ItemResult, read_results
from pytest_vnc_use.report.run_view import show_run
from pytest_vnc_use.ui.review import CiReview
from support.forked_python import run_python
from support.paths import EXAMPLES
from support.till_project import PLANS, TASK, TEST, Project
from support.tills import TILL

pytestmark = pytest.mark.desktop


def rest_of(total: str) -> str:
    return f'    assert vnc_desktop.read_file("total.txt") == "alice pays {total}"\n'


def results_of(project: Project) -> dict[str, ItemResult]:
    """Return the results of the newest session by each test's name without `test_`."""
    tests = read_results(project.path / "runs" / "vnc-results.json").tests
    return {test.test.rpartition("::test_")[2]: test for test in tests}


def test_replay_without_key_saves_what_recorded_run_cost(
    recorded: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in GEMINI_KEY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    # this planner reports no calls, so no dollars
    text = recorded.file.read_text(encoding="utf-8")
    live = '"live": {"seconds": 100.0, "dollars": 0.5}'
    text, count = re.subn(r'"live": \{"seconds": [0-9.]+\}', live, text)
    assert count == 1, text
    recorded.file.write_text(text, encoding="utf-8")
    (recorded.path / "conftest.py").unlink()
    replayed = recorded.run("--vnc-planner=gemini", "--junit-xml=junit.xml")
    assert replayed.code == 0, replayed.out
    assert "vnc-use: 1 run planned by recording" in replayed.out
    expected = re.search(
        r"vnc-use: 1 replayed test saved \d\d\.\d s compared with the recorded runs, and"
        r" (.*)",
        replayed.out,
    )
    assert expected, replayed.out
    assert expected[1] == "$0.5000 at the prices of the time of recording"
    assert 'name="vnc_saved_s" value="9' in (recorded.path / "junit.xml").read_text(
        encoding="utf-8"
    )


NOTES_IMPORTS = """
import sys, threading

importing = {}

def note(event, arguments):
    if event == "import":
        importing.setdefault(threading.current_thread().name, arguments[0])

sys.addaudithook(note)

def pytest_unconfigure():
    print("threads that import:", importing)
"""


@pytest.mark.slow
def test_replay_imports_in_one_thread(recorded: Project) -> None:
    """Two threads that parse modules at once can end CPython 3.11 in a SystemError."""
    recorded.write("conftest.py", NOTES_IMPORTS)
    # not forked: in those processes the engine is imported already
    pytest_line = [sys.executable, "-m", "pytest", "-s", "-p", "no:pytest-vnc"]
    desktop = [
        "--vnc-server=qt",
        f"--vnc-app={shlex.join([sys.executable, str(TILL)])}",
    ]
    replayed = subprocess.run(
        [*pytest_line, *desktop, "--vnc-screen-size=800x400", "--vnc-record=replay"],
        cwd=recorded.path,
        capture_output=True,
        text=True,
    )
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    (threads,) = re.findall("threads that import: {(.*)}", replayed.stdout)
    assert re.findall("'([^']*)':", threads) == ["MainThread"]


SHARED = f"""
import pytest

{TASK}def test_first(vnc_desktop): ...

{TASK.replace("Enter", "Again enter")}def test_then(vnc_desktop): ...
"""


@pytest.mark.slow
def test_recording_after_other_test_is_not_healed_alone(project: Project) -> None:
    project.write("test_till.py", SHARED)
    shared = "--vnc-scope=module"
    assert project.run("--vnc-record=rewrite", shared).code == 0
    then = project.file_of("test_then")
    text = then.read_text(encoding="utf-8")
    assert project.run("--vnc-record=replay", shared).code == 0
    alone = project.run(
        "--vnc-record=auto", shared, "-k", "then", "-ovnc_gate_seconds=5"
    )
    assert alone.code == 1, alone.out
    assert (
        "recorded after test_till.py::test_first, but this desktop is fresh. Run"
        " test_till.py::test_first" in alone.out
    )
    assert then.read_text(encoding="utf-8") == text


HEALED = f"""
import pathlib, pytest

{TASK}def test_till(vnc_desktop):
{rest_of("5.00")}
{TASK}@pytest.mark.flaky(reruns=1)
def test_passes_later(vnc_desktop):
{rest_of("5.00")}    once = pathlib.Path("once")
    assert once.exists() or once.touch()

@pytest.fixture
def breaks():
    yield
    raise ValueError('in the teardown')

{TASK}def test_teardown(breaks, vnc_desktop):
{rest_of("5.00")}
{TASK.replace(", expect=None", "")}def test_unjudged(vnc_desktop): ...

{TASK.replace("expect=None", "expect=None, app=APP")}def test_toast(vnc_desktop):
{rest_of("5.00")}"""
CAUSE = (
    "Fonts differ from the recording's machine: sans-serif is now {}, was Nimbus. drift"
    " before step 2 of 4"
)


MOVED_BUTTON = "--fault='moved button'"
HEALS = ("--vnc-record=auto", "-ovnc_gate_seconds=2")


@pytest.fixture
def healing(recorded: Project) -> Project:
    """Five recorded tests, of which one shows a toast and one was recorded with another
    font.
    """
    app = shlex.join([sys.executable, str(TILL), "--fault=toast"])
    recorded.write("test_till.py", HEALED.replace("APP", repr(app)))
    for name in ("passes_later", "teardown", "unjudged", "toast"):
        recorded.copy_recording(f"test_{name}")
    text = recorded.file.read_text(encoding="utf-8")
    confirmed = text.replace('"stays": ', '"confirmed_by": "user", "stays": ')
    font = font_of(text)
    other_font = confirmed.replace(f'"sans-serif": "{font}"', '"sans-serif": "Nimbus"')
    recorded.file_of("test_unjudged").write_text(other_font, "utf-8")
    return recorded


def font_of(text: str) -> str:
    """Return the font that a recording names."""
    (font,) = re.findall(r'"sans-serif": "(.*?)"', text)
    return str(font)


@pytest.mark.slow
def test_planner_without_judge_heals_only_if_asked(healing: Project) -> None:
    before = healing.file.read_bytes()
    ended = healing.run(
        "-ovnc_gate_seconds=2", "test_till.py::test_till", till=MOVED_BUTTON
    )
    assert ended.code == 1, ended.out
    assert results_of(healing)["till"].not_healed == ()
    assert healing.file.read_bytes() == before


@pytest.mark.slow
def test_healed_and_transient_fail_where_settings_say_so(healing: Project) -> None:
    before = healing.file.read_bytes()
    chosen = ("test_till.py::test_till", "test_till.py::test_toast")
    ended = healing.run(*HEALS, "-ovnc_healed=fail", *chosen, till=MOVED_BUTTON)
    results = {name: test.result for name, test in results_of(healing).items()}
    assert results == {"till": "failed", "toast": "failed"}
    passed = "the test passed, but its replay"
    assert f"{passed} was healed" in ended.out
    assert f"{passed} showed a transient that is not recorded" in ended.out
    assert healing.file.read_bytes() == before


@pytest.mark.slow
def test_repeated_transient_is_listed_once_and_masked_at_gates(
    healing: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    test = "test_till.py::test_toast"
    replay = ("--vnc-record=replay", test)
    ended = healing.run(*replay, "--vnc-repeat=2")
    assert ended.code == 1
    transient = (
        "after step 2 of 4, click at (140, 224), the screen showed a"
        " transient that is not recorded, from ("
    )
    listed = [text for text in ended.out.splitlines() if "TRANSIENT " in text]
    assert listed == [text for text in listed if text.endswith(", in 2 of 2 runs")]
    (of_step, *_) = listed
    assert of_step.startswith(f"TRANSIENT {test}: {transient}")
    assert len(listed) == len(set(listed))
    assert "1 with a transient that is not recorded" in ended.out
    assert "if it is wrong, the product has a bug: the report shows it" in ended.out
    assert "or mask it at the gate after its step:" in ended.out
    (frame, *_) = re.findall(r"^ +(/\S+\.png)$", ended.out, re.MULTILINE)
    assert Path(frame).exists()

    monkeypatch.chdir(healing.path)
    commands = [text.strip() for text in ended.out.splitlines() if " --at s" in text]
    for command in commands:
        assert command.startswith(f"cua-vnc mask {test} ")
        assert main(shlex.split(command)[1:]) == 0
    assert len(set(commands)) > 1  # the toast comes after two steps
    ended = healing.run(*replay)
    assert ended.code == 0, ended.out


@pytest.mark.slow
def test_accepted_transient_may_show_again(
    healing: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    test = "test_till.py::test_toast"
    replay = ("--vnc-record=replay", test)
    assert healing.run(*replay, "--vnc-repeat=2").code == 1
    monkeypatch.chdir(healing.path)
    with closing(CiReview(healing.path / "runs")) as review:
        # one question a step, though both runs show it
        assert 1 <= len(review.groups) <= 2
        for number, group in review.groups.items():
            (transient,) = group.findings
            assert transient.tests == [test]
            review.answer(number, "accept", "")
            assert list(group.results.values()) == ["accepted"]
    with closing(CiReview(healing.path / "runs")) as review:
        assert not review.groups
    recording = load(healing.file_of("test_toast"))
    assert recording
    places = set(recording.history.values())
    assert "after step 2, shown briefly at" in places
    again = healing.run(*replay)
    assert again.code == 0, again.out


BESIDE = f"""
import pytest

ONCE = {TASK.replace("expect=None)", "expect=None, recording='paid')")[1:].rstrip()}
AGAIN = pytest.mark.vnc_task("Again enter alice, add two and pay", expect=None)

@ONCE
def test_once(vnc_agent): ...
"""


@pytest.mark.slow
def test_transient_of_named_recording_fails_no_test_recorded_beside_it(
    project: Project,
) -> None:
    project.write("test_till.py", BESIDE)
    assert project.run("--vnc-record=rewrite").code == 0
    project.write(
        "test_till.py", f"{BESIDE}\n@ONCE\n@AGAIN\ndef test_beside(vnc_agent): ...\n"
    )
    toast = "--fault=toast"
    beside = ("-k", "beside")
    recorded = project.run("--vnc-record=auto", *beside, till=toast)
    assert recorded.code == 0, recorded.out
    assert "TRANSIENT test_till.py::test_beside: after step 2 of 4" in recorded.out
    assert project.file_of("test_beside").exists()
    replayed = project.run("--vnc-record=replay", *beside, till=toast)
    assert "1 failed" in replayed.out


def modes(test: ItemResult) -> list[str]:
    """Return how each step of the test's last run was found."""
    view = show_run(Path(test.runs[-1].directory)).view
    return [step.mode for step in view.steps]


@pytest.mark.slow
def test_healed_drift_and_transient_are_reported(healing: Project) -> None:
    files = {
        name: healing.file_of(f"test_{name}")
        for name in ("till", "passes_later", "teardown", "unjudged")
    }
    before = {name: file.read_bytes() for name, file in files.items()}
    reports = ("--junitxml=junit.xml", "--html=report.html", "--self-contained-html")
    lists = "--vnc-transients=report"
    ended = healing.run(*HEALS, lists, *reports, till=MOVED_BUTTON)
    tests = results_of(healing)
    assert {name: (test.result, test.triage) for name, test in tests.items()} == {
        "till": ("passed", None),
        "passes_later": ("passed", None),
        "teardown": ("error", "inconclusive"),
        "unjudged": ("failed", "inconclusive"),
        "toast": ("passed", None),
    }, ended.out
    written = [name for name in files if files[name].read_bytes() != before[name]]
    assert written == ["till", "passes_later"]
    drift = "drift before step 2 of 4, click at (140, 224)"
    of_healed = [*tests["till"].healed, *tests["passes_later"].healed]
    assert [line.partition(":")[0] for line in of_healed] == [drift, drift]
    (not_healed,) = tests["teardown"].not_healed
    assert not_healed.startswith(drift)
    assert f"HEALED test_till.py::test_till: {drift}" in ended.out
    assert f"HEALED test_till.py::test_passes_later: {drift}" in ended.out
    assert f"NOT HEALED test_till.py::test_teardown: {drift}" in ended.out
    assert modes(tests["till"]) == ["replayed", "healed", "healed", "healed"]
    assert modes(tests["passes_later"]) == ["replayed", "healed", "healed", "healed"]
    assert modes(tests["teardown"]) == ["replayed", *["not healed"] * 3]
    unjudged = tests["unjudged"]
    assert unjudged.healed == unjudged.not_healed == ()
    font = font_of(healing.file.read_text("utf-8"))
    assert unjudged.message.startswith(CAUSE.format(font))
    click = "after step 2 of 4, click at (140, 224)"
    transient = f"{click}, the screen showed a transient"
    assert f"TRANSIENT test_till.py::test_toast: {transient}" in ended.out
    assert " with a transient that is not recorded" in ended.out
    assert tests["toast"].runs[0].transients[0] in ended.out
    assert "1 transient" in (healing.path / "report.html").read_text(encoding="utf-8")
    junit = (healing.path / "junit.xml").read_text(encoding="utf-8")
    assert 'name="vnc_not_healed" value="drift before step' in junit
    assert 'name="vnc_transient" value="after step 2 of 4' in junit
    assert 'name="vnc_healed" value="drift before' in junit
    assert "the test passed, but" not in ended.out


UNWRITABLE = f"""
import pathlib, pytest
from pytest_vnc_use.errors import SettingsError

RECORDINGS = pathlib.Path("__vnc_recordings__")

@pytest.fixture
def writable():
    RECORDINGS.unlink(missing_ok=True)

{TASK}def test_rewrite(writable):
    RECORDINGS.touch()

@pytest.mark.xfail(raises=SettingsError)
{TASK}def test_blocked(): ...
"""


@pytest.mark.slow
def test_unwritable_recording_is_reported(project: Project) -> None:
    """One that cannot be written before it is made performs nothing; later it fails a
    session that is for it.
    """
    project.write("conftest.py", PLANS.replace("[NAME, ADD, ADD, PAY]", "[PAY]"))
    project.write("test_till.py", UNWRITABLE)
    done = project.run("--color=yes", "--vnc-scope=session", "--vnc-record=rewrite")
    assert done.code == 1, done.out
    assert project.asked == 2
    expected = (
        r"\x1b\[31mvnc-use: 1 recording not written, though --vnc-record=rewrite asks"
        r" for it: .*Not a directory"
    )
    assert re.search(expected, done.out), done.out
    problems = read_results(project.path / "runs" / "vnc-results.json").problems
    assert [*problems] == [
        "the recording of test_till.py::test_rewrite could not be written"
    ]
    blocked = results_of(project)["blocked"]
    assert blocked.result == "xfailed"
    assert blocked.triage == "settings"
    recording = r"the recording '.*/test_blocked/recording.json'"
    unwritable = f"{recording} cannot be written, so nothing is done"
    assert re.search(unwritable, blocked.message)
    remedy = "__vnc_recordings__' must be a directory in which you may make files"
    assert remedy in blocked.message


KEPT_BY = re.compile(r"keep its recording by: (.*)")
PAID = TEST.replace("def test_till(", "def test_paid(")
NEW = TEST.replace("def test_till(", "def test_new(")
TREE = {
    "renamed_function/test_till.py": PAID,
    "renamed_file/test_sale.py": TEST,
    "another_task/test_till.py": NEW.replace("add two", "add three"),
    "file_is_there/test_till.py": TEST,
    "file_is_there/test_new.py": NEW,
    "damaged/test_till.py": TEST,
}
"""Test files, each beside the recording of test_till.py::test_till."""


@pytest.mark.slow
def test_recording_is_found_or_offered_where_it_fits(recorded: Project) -> None:
    recordings = recorded.path / "__vnc_recordings__"
    for name, text in TREE.items():
        directory = (recorded.path / name).parent
        directory.mkdir(exist_ok=True)
        recorded.write(name, text)
        shutil.copytree(recordings, directory / recordings.name, dirs_exist_ok=True)
    damaged = recorded.path / "damaged" / recordings.name / "test_till/test_till"
    (damaged / FILE).write_text("<<<<<<< HEAD\n")
    linked = recorded.path / "linked"
    linked.mkdir()
    (linked / "test_link.py").symlink_to(Path("..", "test_till.py"))
    chosen = [name for name in TREE if name != "file_is_there/test_till.py"]
    options = ("--import-mode=importlib", "--vnc-record=replay", "--tb=line")
    ended = recorded.run(*options, "linked", *chosen)
    results = read_results(recorded.path / "runs" / "vnc-results.json").tests
    tests = {test.test: test for test in results}
    assert len(tests) == 6, ended.out
    assert tests.pop("linked/test_link.py::test_till").result == "passed"
    unmerged = tests.pop("damaged/test_till.py::test_till")
    assert "holds the conflict marks of a merge" in unmerged.message
    messages = [test.message for test in tests.values()]
    lost = "there is no recording of"
    assert [text for text in messages if not text.startswith(lost)] == []
    commands = {name: KEPT_BY.findall(test.message) for name, test in tests.items()}
    offered = [name for name, found in commands.items() if found]
    assert {name.partition("/")[0] for name in offered} == {
        "renamed_function",
        "renamed_file",
    }
    for name in offered:
        (command,) = commands[name]
        subprocess.run(["sh", "-c", command], cwd=recorded.path, check=True)
    replayed = recorded.run(*options, *offered)
    assert replayed.code == 0, replayed.out
    assert recorded.asked == 0


def with_sets(function: str, *users: str) -> str:
    mark = f'@pytest.mark.parametrize("user", {users!r})\n'
    text = TEST.replace(TASK, mark + TASK)
    return text.replace("def test_till(", f"def {function}(user, ")


IN_CLASS = "import pytest\n\nclass TestSale:\n" + indent(
    TEST.replace("import pytest\n", "").replace("(vnc", "(self, vnc"), "    "
)
MOVED = {
    "class/test_till.py": (IN_CLASS, ["TestTill::test_till"]),
    "capitals/test_till.py": (IN_CLASS, ["TestSale::test_till"]),
    "function/test_till.py": (
        with_sets("test_paid", "alice", "bob"),
        ["test_till[alice]", "test_till[bob]"],
    ),
    "set/test_till.py": (
        with_sets("test_till", "eve", "bob"),
        ["test_till[alice]", "test_till[bob]"],
    ),
    "split/test_sale.py": (TEST, ["test_till", "test_other"]),
    "moved/to a page/test_till.py": (TEST, ["test_till"]),
}
"""Test files whose tests have been renamed, with the tests that were recorded."""


def keep_recording(recorded: Project, base: Path, test: str) -> Path:
    """Store the project's recording as that of another test below `base`."""
    file = "test_shop.py" if base.name == "split" else "test_till.py"
    key = Key(base / file, f"{file}::{test}")
    path = key.path
    if base.name == "capitals":  # as its file was called before it had a digest
        path = path.parent.with_name(test.replace("::", ".")) / FILE
    parameters = '"parameters": ["user"], ' if "[" in test else ""
    text = recorded.file.read_text("utf-8")
    named = text.replace(
        '"test": "test_till.py::test_till",', f'"test": "{key.test}", {parameters}'
    )
    shutil.copytree(recorded.file.parent, path.parent)
    path.write_text(named, "utf-8")
    return path


@pytest.mark.slow
def test_renamed_test_gets_command_that_works(recorded: Project) -> None:
    for name, (text, tests) in MOVED.items():
        file = recorded.path / name
        file.parent.mkdir(parents=True)
        file.write_text(text, "utf-8")
        for test in tests:
            keep_recording(recorded, recorded.path / name.partition("/")[0], test)
    recorded.write("split/test_shop.py", "def test_other(): pass\n")
    options = ("--import-mode=importlib", "--vnc-record=replay", "--tb=line", *MOVED)
    ended = recorded.run(*options, "-k", "not bob or paid")
    lost = read_results(recorded.path / "runs" / "vnc-results.json").tests
    commands = {test.test: KEPT_BY.findall(test.message) for test in lost}
    assert len(commands) == 7, ended.out
    assert all(len(command) == 1 for command in commands.values()), ended.out
    assert str(recorded.path) not in str(commands), "it is short where pytest started"
    for (command,) in commands.values():
        subprocess.run(["sh", "-c", command], cwd=recorded.path, check=True)
    replayed = recorded.run(*options)
    assert replayed.code == 0, replayed.out
    assert recorded.asked == 0
    assert "8 passed" in replayed.out
    of_other = "split/__vnc_recordings__/test_shop/test_other/recording.json"
    assert (recorded.path / of_other).exists()


RECORDED_AS = "import pytest\n" + "".join(
    TASK.replace("expect=None", f"expect=None, record='{mode}'")
    + f"def test_{mode}(vnc_desktop): ...\n"
    for mode in ("auto", "off", "rewrite", "replay")
)
BY_HAND = "def test_by_hand(vnc_agent): vnc_agent.click(140, 224)\n"


@pytest.mark.slow
def test_replay_option_overrules_marker(project: Project) -> None:
    project.write("test_till.py", RECORDED_AS + BY_HAND)
    replayed = project.run("-ovnc_record=replay")
    assert replayed.code == 1, replayed.out
    assert project.asked == 0
    tests = results_of(project)
    expected = (
        "--vnc-record=replay overrules record='off' of its marker; or take that out,"
        " and run it once with"
    )
    assert expected in tests["off"].message
    assert tests.pop("by_hand").result == "passed", "it needs no recording"
    results = {(test.result, test.triage) for test in tests.values()}
    assert results == {("failed", "settings")}, replayed.out


@pytest.mark.slow
def test_marker_overrules_option_which_overrules_ini(project: Project) -> None:
    project.write("test_till.py", RECORDED_AS + BY_HAND)
    auto = ("-ovnc_record=replay", "--vnc-record=auto")
    ended = project.run(*auto, "-k", "off or replay")
    results = {name: test.result for name, test in results_of(project).items()}
    assert results == {"off": "passed", "replay": "failed"}
    assert "there is no recording of" in ended.out
    assert not project.file.parent.exists()


AT_ITS_END = f"""
import pytest

{TASK}def test_till(vnc_desktop):
{rest_of("5.00")}
{TASK}def test_asserts(vnc_desktop):
{rest_of("6.00")}
{TASK}def test_skips(vnc_agent):
    pytest.skip("not today")

{TASK}{TASK}def test_goes_on(vnc_desktop):
    open("body.txt", "w").close()
"""


@pytest.mark.slow
def test_drift_at_end_runs_body_first(recorded: Project) -> None:
    (recorded.path / "conftest.py").unlink()
    recorded.write("test_till.py", AT_ITS_END)
    for name in ("asserts", "skips", "goes_on"):
        recorded.copy_recording(f"test_{name}")
    ended = recorded.run("-ovnc_gate_seconds=1", till="--fault='another mark'")
    tests = results_of(recorded)
    assert {name: test.triage for name, test in tests.items()} == {
        "till": "inconclusive",
        "skips": "inconclusive",
        "goes_on": "inconclusive",
        "asserts": "product",
    }, ended.out
    assert tests["till"].message.startswith("drift at the end: ")
    assert tests["skips"].message.startswith("drift at the end: ")
    assert tests["goes_on"].message.startswith("drift ")
    assert "alice pays 6.00" in tests["asserts"].message
    assert ended.out.count("Captured drift call") == 1, "it stands beside the assertion"
    assert not (recorded.path / "body.txt").exists(), (
        "a task with steps left has no body to run"
    )


@pytest.mark.parametrize(
    ("asked", "exists", "ci", "has_planner", "mode"),
    [
        ("", True, False, True, "auto"),
        ("", True, False, False, "replay"),
        ("", True, True, True, "replay"),
        ("auto", False, True, True, "auto"),
        ("auto", False, False, False, "replay"),
        ("rewrite", True, True, True, "rewrite"),
    ],
)
def test_mode_of_option_and_circumstances(
    asked: str, exists: bool, ci: bool, has_planner: bool, mode: str
) -> None:
    assert mode_of(asked, exists=exists, ci=ci, has_planner=has_planner) == mode


OTHER_TASK = """
import pytest

@pytest.mark.vnc_task({task!r}, expect=None)
def test_sign_in(vnc_desktop):
    pass
"""
SIGN_IN = "Sign in as alice"


@pytest.mark.parametrize(
    ("task", "size", "problem"),
    [
        ("Sign in as bob", "1440x900", "has no recording of the task 'Sign in as bob'"),
        (SIGN_IN, "800x600", "was recorded on a screen of 1440x900 pixels"),
    ],
)
def test_recording_of_another_test_is_told_before_desktop_starts(
    tmp_path: Path, task: str, size: str, problem: str
) -> None:
    recorded = "__vnc_recordings__/test_shop/test_sign_in"
    shutil.copytree(EXAMPLES / recorded, tmp_path / recorded)
    recording = load(tmp_path / recorded / FILE)
    assert recording
    test = tmp_path / "test_shop.py"
    test.write_text(
        OTHER_TASK.format(task=task.replace(SIGN_IN, recording.segments[0].task))
    )
    options = (
        "--vnc-server=xvnc",
        f"--vnc-screen-size={size}",
        "--vnc-app=touch started",
    )
    done = run_python(
        "pytest", *options, "--vnc-record=replay", cwd=tmp_path, timeout=100
    )
    assert problem in done.stdout
    assert "1 error" in done.stdout
    started = [*tmp_path.rglob("*VNC-server*"), *tmp_path.rglob("started")]
    assert not started
