"""`--vnc-record=accept` at a terminal: pytest on the till, whose product has
changed.
"""

from __future__ import annotations

import re
import shlex
import shutil
import signal
import sys
from collections.abc import Callable

import pytest

from pytest_vnc_use.recordings.store import Key, add_masks, load, save
from pytest_vnc_use.types import Region
from pytest_vnc_use.types.verdicts import end_state_claim
from support.forked_python import ForkedPython
from support.till_project import PLANS, TASK, TEST, Project, Reviewed, review
from support.tills import TILL

pytestmark = pytest.mark.desktop

YES = "y\n"
BUG = "b\nthe word is misspelt\n"
ONE = "test_till.py::test_till"
JUDGE = """
import pytest
from support.judges import Says

@pytest.fixture
def vnc_judge():
    return Says(region=None)
"""
CLAIM = """
@pytest.mark.vnc_task("Enter alice, add two apples and pay", expect="the status is shown")
def test_claim(): ...
"""


@pytest.fixture
def project(recorded: Project) -> Project:
    """Two recorded tests without a planner."""
    recorded.write(
        "test_till.py", TEST + TEST.replace("def test_till", "def test_other")
    )
    recorded.copy_recording("test_other")
    (recorded.path / "conftest.py").unlink()
    return recorded


def files_of(project: Project) -> dict[str, bytes]:
    root = project.path / "__vnc_recordings__"
    return {
        str(file.relative_to(root)): file.read_bytes()
        for file in root.rglob("*")
        if file.is_file()
    }


def app_of(fault: str) -> str:
    fault_option = [f"--fault={fault}"] if fault else []
    return shlex.join([sys.executable, str(TILL), *fault_option])


def reviewed(
    project: Project,
    fault: str,
    *answers: str | Callable[[ForkedPython], object],
    options: str = ONE,
) -> Reviewed:
    desktop = [
        "--vnc-server=qt",
        f"--vnc-app={app_of(fault)}",
        "--vnc-screen-size=800x400",
        "-ovnc_gate_seconds=2",
    ]
    return review(
        project.path, answers, "-p", "no:pytest-vnc", *desktop, *shlex.split(options)
    )


@pytest.mark.slow
def test_answers_hold_for_all_tests_bug_is_product(project: Project) -> None:
    before = files_of(project)
    ended = reviewed(project, "wrong total", YES, BUG, options="")
    assert ended.code == 1, ended.out
    first, second = ended.questions
    images = re.findall(r"^  (recorded|now|difference) +/\S+$", first, re.MULTILINE)
    assert images == ["recorded", "now", "difference"]
    assert re.search(r"m  mask its [\d,]+ px", second)
    assert "let the model continue" not in ended.out
    bug = "product: the word is misspelt (according to the reviewer)"
    assert ended.out.count(bug) >= 2
    assert "2 failed: 2 product" in ended.out
    assert files_of(project) == before


@pytest.mark.slow
def test_named_recording_is_accepted_though_test_fails(project: Project) -> None:
    key = Key.of_name("pay", project.path / "test_till.py", project.path)
    own = load(project.path / "__vnc_recordings__/test_till/test_till/recording.json")
    assert own
    save(key.path, own.model_copy(update={"test": key.test}))
    marker = TASK.replace("expect=None", 'expect=None, recording="pay"').strip()
    project.write(
        "test_till.py",
        f"import pytest\n\n{marker}\ndef test_till(): assert 0, 'later'\n\n"
        f"{marker}\ndef test_other(): pass\n",
    )
    ended = reviewed(project, "spelling", YES, options="")
    assert ended.code == 1, ended.out
    (question,) = ended.questions
    assert "drift in 'pay' before step" in question
    assert " 1 failed, 1 passed" in ended.out
    accepted = load(key.path)
    assert accepted
    assert len(accepted.history) == 1


def test_change_without_terminal_is_not_asked(project: Project) -> None:
    ended = project.run(
        "--vnc-record=accept", ONE, "-ovnc_gate_seconds=1", till="--fault=spelling"
    )
    assert ended.code == 1, ended.out
    assert "anything else: no" not in ended.out
    unasked = "No user was asked whether the screen is right: stdin is no terminal"
    assert unasked in ended.out


def test_reviewer_with_pytest_timeout_is_refused(project: Project) -> None:
    refused = project.run("--vnc-record=accept", ONE, "--timeout=60")
    assert "Add --timeout=0" in refused.out
    assert refused.code == pytest.ExitCode.USAGE_ERROR


@pytest.mark.slow
def test_model_is_offered_if_judge_is_available(project: Project) -> None:
    project.write("conftest.py", PLANS)
    project.write(
        "test_till.py", f"{JUDGE}\n{TASK}def test_till(vnc_desktop): ...\n{CLAIM}"
    )
    assert project.run("--vnc-record=rewrite").code == 0
    project.write(
        "test_till.py", f"import pytest\n{TASK}def test_till(vnc_desktop): ...\n{CLAIM}"
    )
    ended = reviewed(
        project,
        "moved button",
        "c\n",
        lambda process: process.send_signal(signal.SIGINT),
        options="",
    )
    till, claim = ended.questions
    assert "let the model continue" in till
    assert "let the model continue" not in claim
    assert ended.code == 1, ended.out
    assert "1 failed, 1 passed" in ended.out
    assert (
        "inconclusive: drift before step 2 of 4, click at (140, 224): " in ended.out
    ), "Ctrl-C is no answer"


PAID = '@pytest.mark.vnc_task("{}", expect={})\ndef test_till(): ...\n'
WORDS = "Enter alice, add two apples and pay"


def written(project: Project, task: str, expect: object) -> None:
    project.write("test_till.py", f"import pytest\n\n{PAID.format(task, repr(expect))}")


def replayed(project: Project, *options: str) -> tuple[int, str]:
    ended = project.run("--vnc-record=replay", ONE, "-ovnc_gate_seconds=2", *options)
    return ended.code, ended.out


def accepted_question(project: Project, fault: str = "") -> str:
    """Accept the only question of a session, which passes; return the question."""
    ended = reviewed(project, fault, YES)
    assert ended.code == 0, ended.out
    (question,) = ended.questions
    return question


@pytest.mark.slow
def test_new_claim_and_reworded_task_are_answered_by_reviewer(project: Project) -> None:
    written(project, WORDS, "alice has paid")
    code, out = replayed(project)
    assert "answer it yourself with --vnc-record=accept" in out
    assert code == 1
    assert "no user or judge" in out or "no verdict on 'alice has paid'" in out, out
    before = files_of(project)

    refused = reviewed(project, "", "n\n")
    assert refused.code == 1, refused.out
    assert len(refused.questions) == 1
    assert "Does this hold on the screen now: 'alice has paid'?" in refused.out
    assert "1 failed: 1 inconclusive" in refused.out
    wrong = reviewed(project, "", BUG)
    assert "1 failed: 1 product" in wrong.out, wrong.out
    assert "the word is misspelt" in wrong.out
    assert files_of(project) == before

    assert reviewed(project, "", YES).code == 0
    assert replayed(project)[0] == 0

    written(project, WORDS, "alice has paid 5.00")  # reworded
    assert reviewed(project, "", YES).code == 0
    assert replayed(project)[0] == 0
    made = load(project.file)
    assert made
    (answer,) = made.segments[0].claims
    assert answer.claim == "alice has paid 5.00"
    assert [change.claim for change in made.history] == [answer.claim]

    written(project, "Alice buys two apples", "alice has paid 5.00")
    code, out = replayed(project)
    assert "say so with --vnc-record=accept" in out
    assert code == 1
    question = accepted_question(project)
    assert f"the recording is of the task {WORDS!r}" in question
    assert replayed(project)[0] == 0
    changed = load(project.file)
    assert changed
    assert changed.segments[0].task == "Alice buys two apples"
    done = end_state_claim("Alice buys two apples")
    assert [change.claim for change in changed.history] == [done, answer.claim]
    assert [step.id for step in changed.steps] == [step.id for step in made.steps]
    assert files_of(project).keys() == before.keys()


KEPT = "what was accepted is kept in the recording"
DROPPED = "vnc-use: 1 recording not updated with what was accepted, as the test failed"


@pytest.mark.slow
def test_accepted_is_kept_if_transient_fails(project: Project) -> None:
    written(project, WORDS, "alice has paid")
    ended = reviewed(project, "toast", YES, "n\n")
    assert ended.code == 1, ended.out
    assert "showed a transient that is not recorded" in ended.out
    assert f"\n  {KEPT}\n" in ended.out
    assert "1 recording updated with what was accepted in" in ended.out
    assert DROPPED not in ended.out
    assert replayed(project)[0] == 0


@pytest.mark.slow
def test_transient_is_asked_about_once_for_all_tests(project: Project) -> None:
    ended = reviewed(project, "toast", YES, options="")
    assert ended.code == 0, ended.out
    (question,) = ended.questions
    assert "the screen showed a transient that is not recorded" in question
    assert "  y  it may show\n" in question
    assert "2 recordings updated with what was accepted in" in ended.out
    replay = project.run("--vnc-record=replay", till="--fault=toast")
    assert replay.code == 0, replay.out
    made = load(project.file)
    assert made
    (place,) = made.history.values()
    assert place == "after step 2, shown briefly at"


@pytest.mark.slow
def test_transient_may_be_bug(project: Project) -> None:
    before = files_of(project)
    ended = reviewed(project, "toast", BUG)
    assert ended.code == 1, ended.out
    assert "the word is misspelt (according to the reviewer)" in ended.out
    assert "1 failed: 1 product" in ended.out
    assert files_of(project) == before


@pytest.mark.slow
@pytest.mark.parametrize("answer", [YES, "n\n"])
def test_accepted_is_dropped_in_one_line_if_body_fails(
    project: Project, answer: str
) -> None:
    before = files_of(project)
    project.write("test_till.py", f"import pytest\n{TASK}def test_till(): assert 0\n")
    ended = reviewed(project, "spelling", answer)
    assert ended.code == 1, ended.out
    assert (DROPPED in ended.out) == (answer == YES)
    assert KEPT not in ended.out
    assert files_of(project) == before


@pytest.mark.slow
def test_end_without_judge_is_answered_by_reviewer(project: Project) -> None:
    written(project, WORDS, ())
    code, out = replayed(project)
    assert "no user or judge confirmed its recording's end" in out
    assert code == 1
    refused = reviewed(project, "", BUG)
    assert "1 failed: 1 agent" in refused.out, refused.out
    accepted_question(project)
    assert replayed(project)[0] == 0
    made = load(project.file)
    assert made
    assert made.segments[0].confirmed_by == "user"


@pytest.mark.slow
def test_claim_that_mask_covers_is_answered_by_reviewer(project: Project) -> None:
    written(project, WORDS, "alice has paid")
    assert reviewed(project, "", YES).code == 0
    whole = Region(0, 110, 800, 170)  # with the total
    assert add_masks(project.file, [whole])
    other_app = "--vnc-app=" + app_of("wrong total")
    code, out = replayed(project, other_app)
    assert "the claim's region is masked, and differs there" in out
    assert code == 1
    assert "is masked" in accepted_question(project, "wrong total")
    assert replayed(project, other_app)[0] == 0
    assert replayed(project)[0] == 0


@pytest.mark.slow
def test_named_recording_is_reworded_for_all_its_tests(project: Project) -> None:
    own = load(project.file)
    assert own
    key = Key.of_name("pay", project.path / "test_till.py", project.path)
    save(key.path, own.model_copy(update={"test": key.test}))

    def write(task: str, expect: object) -> None:
        marker = f"@pytest.mark.vnc_task({task!r}, expect={expect!r}, recording='pay')"
        tests = [f"{marker}\ndef test_{name}(): pass\n" for name in ("till", "other")]
        project.write("test_till.py", "import pytest\n\n" + "\n".join(tests))

    write("Alice pays for two apples", ["alice has paid"])
    code, out = replayed(project)
    assert "One name is one task" in out
    assert code == 1
    assert "answer it yourself with --vnc-record=accept" in out
    ended = reviewed(project, "", YES, YES, options="")
    assert ended.code == 0, ended.out
    of_claim, of_task = ended.questions
    assert "'alice has paid'" in of_claim.splitlines()[-2]
    assert "Alice pays for two apples" in of_task.splitlines()[-2]
    made = load(key.path)
    assert made
    assert made.segments[0].task == "Alice pays for two apples"
    again = project.run("--vnc-record=replay", "-ovnc_gate_seconds=2")
    assert " 2 passed" in again.out, again.out


@pytest.mark.slow
def test_claim_without_task_is_answered_by_reviewer(project: Project) -> None:
    shutil.rmtree(project.path / "__vnc_recordings__")
    project.write("conftest.py", PLANS + JUDGE)
    body = "def test_till(vnc_agent):\n    vnc_agent.verify({!r})\n"
    project.write("test_till.py", body.format("the till is open"))
    assert project.run("--vnc-record=auto", ONE).code == 0
    (project.path / "conftest.py").unlink()
    project.write("test_till.py", body.format("no apple is sold"))
    assert "1 inconclusive" in replayed(project)[1]
    accepted_question(project)
    assert replayed(project)[0] == 0
    made = load(project.file)
    assert made
    assert [answer.claim for answer in made.claims] == ["no apple is sold"]
