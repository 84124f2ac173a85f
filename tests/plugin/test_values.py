"""Values in whole sessions: a window with bills, of which one recording serves each
parameter set.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pytest_vnc_use.cli import main
from pytest_vnc_use.ui.review import CiReview
from support.forked_python import made_once, run_python
from support.paths import PROGRAMS
from support.till_project import Reviewed, review
from support.vnc_servers import require

pytestmark = pytest.mark.desktop

SETS = [
    ("Train", "12.25"),
    ("Boat trip", "7.00"),
    ("Zürich-Ötztal", "1234567.89"),
    ("x", "1"),
    ("<b>&amp;", "0.5"),
    ("W" * 12, "7.10"),
    ("naïve café", "15"),
    ("A.B", "99.99"),
    ("12.2", "Train"),
    ("Ünï", "3"),
]
TEST = """
import pytest

@pytest.mark.parametrize("title, amount", {sets!r})
@pytest.mark.vnc_task("Add a bill called <value:title> over <value:amount>", expect=None)
def test_bill(title, amount, vnc_desktop):
    assert f"{{title}};{{amount}}" in vnc_desktop.read_file("bills.csv")
"""
PLANS = """
import re, pytest
from pytest_vnc_use.planners.local.scripted import AT_ITS_END, ScriptedPlanner
from pytest_vnc_use.types import Click, TypeText

TASK = re.compile("Add a bill called (.*) over (.*)")

def next_turn(observation):
    title, amount = TASK.fullmatch(observation.task.splitlines()[0]).groups()
    steps = [TypeText(title, 300, 60), TypeText(amount, 300, 120), Click(240, 180)]
    number = len(observation.turns)
    return [steps[number]] if number < len(steps) else AT_ITS_END

@pytest.fixture
def vnc_planner():
    return ScriptedPlanner(next_turn)
"""
PLACES = (
    ("s2", "title", "160,40,460,80"),
    ("s3", "title", "160,40,460,80"),
    ("s3", "amount", "160,100,460,140"),
    ("end1", "title", "160,240,460,280"),
    ("end1", "amount", "160,300,460,340"),
)
ON_PAGE = (
    ("s2", "title", "160,40,468,78"),
    ("s3", "title", "160,40,468,78"),
    ("s3", "amount", "160,100,468,138"),
    ("end1", "title", "160,240,460,270"),
    ("end1", "amount", "160,300,460,330"),
)
SCRIPTS = [("列車の旅", "7"), ("Поезд", "1.5"), ("Τρένο", "3"), ("Ünï", "12.250")]
RECORDING = Path("__vnc_recordings__/test_bills/test_bill/recording.json")


def session(*options: str, fault: str = "", page: bool = False) -> tuple[int, str]:
    """Return the exit code and the output of a session in the working directory."""
    program = [sys.executable, str(PROGRAMS / "bills.py"), f"--fault={fault}"]
    server = "qt"
    if page:
        html = str(PROGRAMS / "bills.html")
        program = [sys.executable, str(PROGRAMS / "page.py"), html]
        server = "xvnc"
    done = run_python(
        "pytest",
        "-p",
        "no:cacheprovider",
        f"--vnc-server={server}",
        f"--vnc-app={shlex.join(program)}",
        "--vnc-screen-size=800x400",
        "-ovnc_gate_seconds=5",
        *options,
        cwd=Path.cwd(),
        env={"VNC_USE_REHEARSE": "0", **os.environ, "CI": ""},
        timeout=400,
    )
    return done.returncode, done.stdout + done.stderr


def write(test: str = TEST, sets: object = SETS) -> None:
    Path("test_bills.py").write_text(test.format(sets=sets), encoding="utf-8")


def stored() -> dict[str, Any]:
    read: dict[str, Any] = json.loads(RECORDING.read_text(encoding="utf-8"))
    return read


JUDGE = """
from pytest_vnc_use.types import Verdict

class Notes:
    name = "notes"

    def judge(self, claim, frame, *, timeout_s, report):
        with open("claims.txt", "a", encoding="utf-8") as file:
            file.write(claim + "\\n")
        return Verdict(claim, "holds", "it is there")

@pytest.fixture
def vnc_judge():
    return Notes()
"""
OTHER = "the bill is shown"
CLAIM = "the last bill is <value:title> over <value:amount>"


def say_places(places: Sequence[tuple[str, str, str]] = PLACES) -> None:
    codes = set()
    for gate, name, region in places:
        command = ["mask", "test_bills.py::test_bill", region]
        codes.add(main([*command, f"--at={gate}", f"--value={name}"]))
    assert codes == {0}


def record(directory: Path) -> Path:
    """Record the first parameter set, without places."""
    directory.mkdir(parents=True, exist_ok=True)
    os.chdir(directory)
    Path("pytest.ini").write_text("[pytest]\n")
    Path("conftest.py").write_text(PLANS)
    write()
    code, output = session("--vnc-record=auto", "-k", "Train-12.25")
    assert code == 0, output
    assert "NOT REPEATED" in output
    assert "no user has stated yet where the screen shows the values" in output
    return directory


@pytest.fixture(scope="session")
def recorded_bills(tmp_path_factory: pytest.TempPathFactory) -> Path:
    before = Path.cwd()
    try:
        return made_once(tmp_path_factory, "recorded_bills", record)
    finally:
        os.chdir(before)


@pytest.fixture
def claimed(bills: Path) -> Path:
    """The same with a claim that a judge answered, and without a judge."""
    shutil.rmtree("__vnc_recordings__")
    Path("conftest.py").write_text(PLANS + JUDGE)
    write(TEST.replace("expect=None", f"expect={[CLAIM, OTHER]!r}"))
    code, output = session("--vnc-record=auto", "-k", "Train-12.25")
    assert code == 0, output
    say_places()
    Path("claims.txt").unlink()
    Path("conftest.py").unlink()
    return bills


@pytest.mark.slow
def test_claim_with_value_is_judged_for_each(claimed: Path) -> None:
    code, output = session("--vnc-record=replay", "-k", "Train-12.25")
    assert code == 0, output
    evidence, other = stored()["segments"][0]["claims"]
    assert (other["claim"], "values" in other) == (OTHER, False)
    assert evidence["claim"] == CLAIM
    assert evidence["values"] == {"title": "Train", "amount": "12.25"}

    _, output = session("--vnc-record=replay", "-k", "Boat")
    assert "2 of 2 claims do not certainly hold" in output
    assert "claim 'the last bill is Boat trip over 7.00' is unsure" in output
    assert "which shows another value of 'title'" in output
    assert "it was judged with <value:title> = 'Train', not 'Boat trip'" in output

    before = RECORDING.read_bytes()
    Path("conftest.py").write_text(PLANS + JUDGE)
    code, output = session("--vnc-record=auto", "-k", "Boat or Train-12.25")
    assert code == 0, output
    asked = Path("claims.txt").read_text(encoding="utf-8").splitlines()
    assert asked == ["the last bill is Boat trip over 7.00", OTHER]
    assert RECORDING.read_bytes() == before


@pytest.fixture
def bills(
    recorded_bills: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    project = tmp_path / "bills"
    shutil.copytree(recorded_bills, project, ignore=shutil.ignore_patterns("runs"))
    monkeypatch.chdir(project)
    (project / "conftest.py").unlink()
    return project


def test_recording_has_names_and_recorded_values(bills: Path) -> None:
    (segment,) = stored()["segments"]
    assert segment["task"] == "Add a bill called <value:title> over <value:amount>"
    assert segment["values"] == {"title": "Train", "amount": "12.25"}
    texts = [step["action"].get("text") for step in segment["steps"]]
    assert texts == ["<value:title>", "<value:amount>", None]
    assert stored()["test"] == "test_bills.py::test_bill"
    assert "parameters" not in stored()


@pytest.mark.slow
def test_one_recording_serves_ten_sets(bills: Path) -> None:
    say_places()
    before = RECORDING.read_bytes()
    code, output = session("--vnc-record=replay")
    assert code == 0, output
    assert "10 passed" in output
    assert RECORDING.read_bytes() == before


@pytest.mark.slow
@pytest.mark.browser
def test_values_of_page_have_any_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require("Xtigervnc")
    monkeypatch.chdir(tmp_path)
    Path("pytest.ini").write_text("[pytest]\n")
    Path("conftest.py").write_text(PLANS)
    write(sets=[("Train", "12.25"), *SCRIPTS])
    code, output = session("--vnc-record=auto", "-k", "Train", page=True)
    assert code == 0, output
    say_places(ON_PAGE)
    before = RECORDING.read_bytes()
    _, output = session("--vnc-record=replay", page=True)
    assert "5 passed" in output
    assert RECORDING.read_bytes() == before


def test_other_value_without_place_drifts(bills: Path) -> None:
    write(sets=[("Boat trip", "7.00")])
    _, output = session("--vnc-record=replay", "-ovnc_gate_seconds=1")
    assert "inconclusive: drift before step 2 of 3" in output
    assert "title is 'Boat trip', recorded as 'Train'" in output
    assert "say so with --vnc-record=accept" in output
    offered = re.findall(r"cua-vnc (mask .* --value title)$", output, re.MULTILINE)
    assert "--value amount" not in output, "no step has typed it yet"
    assert main(shlex.split(offered[0])) == 0
    _, output = session("--vnc-record=replay", "-ovnc_gate_seconds=1")
    assert "inconclusive: drift before step 3 of 3" in output


def reviewed(directory: Path, *answers: str) -> Reviewed:
    """Answer at a terminal about the set that has a boat trip."""
    program = [sys.executable, str(PROGRAMS / "bills.py")]
    return review(
        directory,
        answers,
        "--vnc-server=qt",
        f"--vnc-app={shlex.join(program)}",
        "--vnc-screen-size=800x400",
        "-ovnc_gate_seconds=2",
        "-p",
        "no:pytest-vnc",
        "-k",
        "Boat",
    )


@pytest.mark.slow
def test_reviewer_says_where_value_shows(bills: Path) -> None:
    """With one other set; then the rest of them pass, also longer ones."""
    shutil.rmtree("__vnc_recordings__")
    Path("conftest.py").write_text(PLANS)
    write(TEST.replace("<value:amount>", "12.25").replace("{{amount}}", "12.25"))
    code, output = session("--vnc-record=auto", "-k", "Train-12.25")
    assert code == 0, output
    Path("conftest.py").unlink()
    ended = reviewed(bills, *["v\n"] * 5)
    assert ended.code == 0, ended.out
    assert "v  it shows a value: title ('Boat trip', recorded as 'Train')" in ended.out
    _, output = session("--vnc-record=replay")
    assert "10 passed" in output


def test_reviewer_is_asked_which_value_shows(bills: Path) -> None:
    before = RECORDING.read_bytes()
    ended = reviewed(bills, "v\n", "v\ntitel\n\n")
    assert ended.code == 1
    assert "title ('Boat trip', recorded as 'Train')\n" in ended.out.replace("\r", "")
    assert ended.out.count("Which one (title, amount)? >") == 2
    assert "No value 'titel' is offered." in ended.out
    assert "drift before step 3 of 3" in ended.out
    assert "\n  b  it is a bug" in ended.out, "each key has a line"
    assert RECORDING.read_bytes() == before


@pytest.mark.parametrize(
    ("fault", "triage"), [("amount", "product"), ("label", "inconclusive")]
)
def test_fault_beside_value_is_seen(bills: Path, fault: str, triage: str) -> None:
    say_places()
    write(sets=[("Boat trip", "7.00")])
    _, output = session("--vnc-record=replay", "-ovnc_gate_seconds=1", fault=fault)
    assert f"1 failed: 1 {triage}" in output


def test_no_model_heals_with_other_values(bills: Path) -> None:
    (bills / "conftest.py").write_text(PLANS)
    write(sets=[("Boat trip", "7.00")])
    before = RECORDING.read_bytes()
    _, output = session("--vnc-record=auto", "-ovnc_gate_seconds=1")
    assert "1 failed: 1 inconclusive" in output
    assert "1 run planned by recording\n" in output
    assert "a planner continue" not in output
    assert RECORDING.read_bytes() == before


def test_review_of_job_has_each_set_and_its_values(bills: Path) -> None:
    write(sets=[("Boat trip", "7.00"), ("x", "1")])
    _, output = session("--vnc-record=replay", "-ovnc_gate_seconds=1")
    assert "2 failed: 2 inconclusive" in output
    with closing(CiReview(Path("runs"))) as review:
        facts = review.facts()["groups"]
        tests = [group["tests"][0]["test"] for group in facts]
        names = [
            "test_bills.py::test_bill[x-1]",
            "test_bills.py::test_bill[Boat trip-7.00]",
        ]
        assert tests == names
        assert [[*group["values"]] for group in facts] == [["title"]] * 2
        for number in review.groups:
            review.answer(number, "value", "title")
        results = [group["tests"][0]["result"] for group in review.facts()["groups"]]
        assert results == ["accepted as the value title", "accepted"]
        assert sorted(review.rounds.due) == sorted(names)
    steps = stored()["segments"][0]["steps"]
    shown = [step["screen"].get("values") for step in steps]
    assert [bool(values) for values in shown] == [False, True, False]


def test_equal_drift_of_sets_is_reviewed_once(bills: Path) -> None:
    say_places()
    write(sets=[("Boat trip", "7.00"), ("x", "1")])
    session("--vnc-record=replay", "-ovnc_gate_seconds=1", fault="label")
    with closing(CiReview(Path("runs"))) as review:
        (group,) = review.facts()["groups"]
        (drift,) = group["tests"]
        assert len(drift["replayed"]) == 2
        assert drift["test"].endswith(", and 1 with other values")


WORKERS = """
import threading
from pathlib import Path

def next_turn_at_once(observation):
    with open("asked.txt", "a") as file:
        file.write(observation.task + "\\n")
    while len([*Path().glob("ready-*")]) < 2:
        threading.Event().wait(0.05)
    return next_turn(observation)

@pytest.fixture
def vnc_planner(vnc_desktop, worker_id):
    Path(f"ready-{worker_id}").touch()
    return ScriptedPlanner(next_turn_at_once)
"""


def test_workers_record_values_once(bills: Path) -> None:
    shutil.rmtree("__vnc_recordings__")
    Path("conftest.py").write_text(PLANS + WORKERS)
    write(sets=[("Train", "12.25"), ("Boat trip", "7.00")])
    _, output = session("--vnc-record=auto", "-n2", "-ovnc_gate_seconds=1")
    assert "1 failed, 1 passed" in output
    assert len({*Path("asked.txt").read_text().splitlines()}) == 1


def test_end_that_shows_value_needs_claim(bills: Path) -> None:
    say_places()
    write(TEST.replace(", expect=None", ""), sets=[("Boat trip", "7.00")])
    _, output = session("--vnc-record=replay")
    assert "shows the value 'title', which no replay compares" in output
    assert "expect='the screen shows <value:title>'" in output
    assert "assert title in vnc_desktop.read_file(…)" in output


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (
            '[TypeText("The " + title, 300, 60), TypeText(amount, 300, 120)]',
            "has the value 'title', 'Train', with other text, so nothing is written",
        ),
        (
            "[TypeText(title, 300, 60), Click(240, 180)]",
            "the value 'amount', '12.25', was not typed as the whole text of an action",
        ),
    ],
)
def test_value_that_is_not_typed_alone_is_error(
    bills: Path, steps: str, message: str
) -> None:
    shutil.rmtree("__vnc_recordings__")
    plans = re.sub(r"steps = .*", f"steps = {steps}", PLANS)
    (bills / "conftest.py").write_text(plans)
    write(sets=[("Train", "12.25")])
    code, output = session("--vnc-record=auto")
    assert code == 1, output
    assert message in output
    assert not RECORDING.exists()
