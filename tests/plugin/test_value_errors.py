"""What may be a value, and what of it is a settings error before anything is done."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from pytest_vnc_use import VncUseAgent
from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.plugin.toml import read_task_file
from pytest_vnc_use.recordings.format import (
    RecordedStep,
    Screen,
    Segment,
    ShownValue,
)
from pytest_vnc_use.recordings.values import check_vouched, filled, with_names
from pytest_vnc_use.runs.directory import read_trace
from pytest_vnc_use.runs.redactor import Redactor
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import KeyCombo, Proposal, Region, TypeText
from pytest_vnc_use.types.values import fill, value_mark, value_names, values_of
from support.memory_desktop import ListPlanner, PaintedController, act, finished

SECRET = "hunter2!"


class Order:
    """No value."""


@pytest.mark.parametrize(
    ("task", "values", "message"),
    [
        ("Open <value:titel>", {"title": "a"}, "'title'"),
        ("Open <value:title>", {}, "Its values can be: none"),
        ("Open <value:title>", {"title": True}, "got a bool. Pass str(…) of it"),
        ("Open <value:title>", {"title": Order()}, "got a Order"),
        ("Open <value:title>", {"title": None}, "got a NoneType"),
        ("Open <value:title>", {"title": " "}, "must not be empty, got ' '"),
        ("Open <value:title>", {"title": "<secret:CODE>"}, "have a placeholder"),
        ("Open <value:title>", {"title": "\ud800"}, "half of a surrogate pair"),
        ("Open <value:title>", {"title": f"x {SECRET}"}, "the value of a secret in it"),
        ("Open <value:CODE>", {"CODE": "a"}, "is the name of a secret"),
        ("Open it", {"title": "a"}, "'title' is never used"),
        ("Open <value:my title>", {}, "letters, digits and underscores"),
    ],
)
def test_run_with_wrong_value_raises_settings_error(
    tmp_path: Path, task: str, values: dict[str, object], message: str
) -> None:
    planner = ListPlanner([finished()])
    with agent(tmp_path, planner) as made:
        with pytest.raises(SettingsError) as error:
            made.run(task, values=values)  # type: ignore[arg-type]  # what is wrong
        assert not made.runs
    assert message in str(error.value)
    assert SECRET not in str(error.value)


def agent(directory: Path, planner: ListPlanner) -> VncUseAgent:
    return VncUseAgent(
        settings=Settings(runs_dir=str(directory)),
        planner=planner,
        controller=PaintedController(),
        secrets={"CODE": SECRET},
    )


def test_planner_sees_value_and_run_has_name(tmp_path: Path) -> None:
    planner = ListPlanner([finished()])
    with agent(tmp_path, planner) as made:
        result = made.run("Pay <value:sum> with <secret:CODE>", values={"sum": 7.5})
    assert planner.seen[0].task == "Pay 7.5 with <secret:CODE>"
    assert result.task == "Pay <value:sum> with <secret:CODE>"
    started = read_trace(result.run_dir).started
    assert (started.task, started.values) == (result.task, {"sum": "7.5"})


def test_run_with_value_is_performed_again(tmp_path: Path) -> None:
    planner = ListPlanner([act(Proposal(TypeText("7"))), finished()])
    with agent(tmp_path, planner) as made:
        result = made.run("Pay <value:sum>", values={"sum": 7})
        assert made.reenact(result.run_dir).task == "Pay 7"


MARKED = """
import pytest

@pytest.fixture
def number():
    return 7

@pytest.mark.parametrize("title", ["a"])
@pytest.mark.vnc_task({task!r}, {arguments})
def test_it(title, number, vnc_desktop): ...
"""


@pytest.mark.parametrize(
    ("task", "arguments", "message"),
    [
        ("Open <value:other>", "", "<value:other> is no parameter or fixture"),
        ("Open <value:other>", "", "'title'"),
        ("Open it", "values={'a': 1}", "the value 'a' is never used"),
        ("Open it", "values='a'", "must be a dictionary of names and values"),
        ("Open <value:HOME>", "secrets='HOME'", "'HOME' is the name of a secret"),
        ("Open <value:a b>", "", "letters, digits and underscores"),
    ],
)
def test_wrong_value_of_marker_is_usage_error(
    pytester: pytest.Pytester, task: str, arguments: str, message: str
) -> None:
    pytester.makepyfile(MARKED.format(task=task, arguments=arguments))
    result = pytester.runpytest_subprocess("-p", "no:pytest-vnc", "--collect-only")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert message in result.stderr.str()


NAMED = """
from pytest_vnc_use.plugin.renamed import key_of

def pytest_collection_finish(session):
    for item in session.items:
        print("KEY", key_of(item).test, key_of(item).parameters)
"""
SETS = """
import pytest

@pytest.mark.parametrize("language", ["de"])
@pytest.mark.parametrize("title, line", [("a-b", "x"), ("c", "y")])
@pytest.mark.parametrize(("size",), [(1,)], ids=["one"])
@pytest.mark.vnc_task("Open <value:title>", expect=None)
def test_it(title, line, language, size, vnc_desktop): ...

@pytest.mark.parametrize("title", ["a", "b"])
@pytest.mark.vnc_task("Open it", expect=None)
def test_other(title, vnc_desktop): ...

@pytest.mark.parametrize("title", ["a", "b"])
@pytest.mark.vnc_task("Open <value:title>", expect=None)
def test_alone(title, vnc_desktop): ...
"""


def test_sets_with_value_share_recording(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(NAMED)
    pytester.makepyfile(test_sets=SETS)
    options = ("-p", "no:pytest-vnc", "-o", "vnc_repeat=2", "--collect-only", "-q")
    result = pytester.runpytest_subprocess(*options)
    keys = [line for line in result.outlines if line.startswith("KEY")]
    assert [*dict.fromkeys(keys)] == [
        "KEY test_sets.py::test_it[one-de] ('language', 'size')",
        "KEY test_sets.py::test_other[a] ('title',)",
        "KEY test_sets.py::test_other[b] ('title',)",
        "KEY test_sets.py::test_alone ()",
    ]


TABLE = """
[[test]]
name = "bill"
task = "Add <value:title> over <value:amount> for {who}"
expect = "the list shows <value:title>"
parameters = { title = ["Train", "Boat"], who = ["ann"] }
values = { amount = 12.5 }
"""


def test_file_of_tasks_has_values(tmp_path: Path) -> None:
    path = tmp_path / "test_bills.vnc.toml"
    path.write_text(TABLE, encoding="utf-8")
    train, boat = read_task_file(path)
    assert (train.name, boat.name) == ("bill[Train-ann]", "bill[Boat-ann]")
    assert {train.shared_name, boat.shared_name} == {"bill[ann]"}
    (spec,) = boat.specs
    assert spec.task == "Add <value:title> over <value:amount> for ann"
    assert spec.values == {"title": "Boat", "amount": 12.5}


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("over", "<value:sum> over", "<value:sum> is no parameter"),
        ("<value:amount>", "12", "the value 'amount' is never used"),
        ("{ amount = 12.5 }", "12", "must be a table of names and values"),
    ],
)
def test_wrong_value_of_file_names_line(
    tmp_path: Path, before: str, after: str, message: str
) -> None:
    path = tmp_path / "test_bills.vnc.toml"
    path.write_text(TABLE.replace(before, after), encoding="utf-8")
    with pytest.raises(SettingsError, match=r"test_bills\.vnc\.toml:\d+") as error:
        read_task_file(path)
    assert message in str(error.value)


NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
TEXTS = st.text(min_size=1, max_size=12)
FIXED = settings(derandomize=True, database=None, deadline=None, max_examples=300)


@FIXED
@given(
    st.dictionaries(NAMES, TEXTS | st.integers() | st.floats(), min_size=1, max_size=3),
    st.dictionaries(NAMES, TEXTS, max_size=2),
    TEXTS,
)
def test_any_value_is_filled_in_or_rejected(
    given_values: dict[str, str | float], secrets: dict[str, str], text: str
) -> None:
    """Beside secrets with such names and values."""
    redactor = Redactor(secrets)
    words = [f"{value_mark(name)} {text.replace('<', '')}" for name in given_values]
    task = " ".join(words)
    try:
        values = values_of(
            [task], given_values, {}, secrets=secrets, hide=redactor.hide
        )
    except SettingsError:
        return
    assert value_names(task) == tuple(given_values)
    assert not set(values) & set(secrets)
    shown = [f"{values[name]} {text.replace('<', '')}" for name in given_values]
    assert fill(task, values) == " ".join(shown)
    assert all(redactor.hide(value) == value for value in values.values())


VALUES = st.dictionaries(
    NAMES, st.text("ab1. äß列車", min_size=1, max_size=9), min_size=1, max_size=3
)


@FIXED
@given(
    VALUES, VALUES, st.lists(st.text("ab1. ä列", min_size=1, max_size=5), max_size=2)
)
def test_recorded_steps_type_values_of_each_run(
    recorded: dict[str, str], others: dict[str, str], texts: list[str]
) -> None:
    """What has no value in it is typed as it was, and nothing has an earlier value."""
    now = {name: others.get(name, "other") for name in recorded}
    typed = [*recorded.values(), *texts]
    screen = Screen()
    done = [RecordedStep(action=TypeText(text, 1, 1), screen=screen) for text in typed]
    try:
        steps = with_names(done, recorded)
    except SettingsError:
        return
    replayed = [filled(step.action, now) for step in steps]
    count = len(recorded)
    assert replayed[:count] == [TypeText(text, 1, 1) for text in now.values()]
    names = {value: now[name] for name, value in recorded.items()}
    rest = [TypeText(names.get(text, text), 1, 1) for text in texts]
    assert replayed[count:] == rest


def test_value_in_pieces_becomes_one_step() -> None:
    screen = Screen()
    actions = (TypeText("Tra", 1, 1), TypeText("Tr"), TypeText("ain"), KeyCombo(("a",)))
    done = [RecordedStep(action=action, screen=screen) for action in actions[1:]]
    steps = with_names(done, {"title": "Train"})
    assert [step.action for step in steps] == [
        TypeText("<value:title>"),
        KeyCombo(("a",)),
    ]


@pytest.mark.parametrize(
    ("texts", "values", "message"),
    [
        (["a"], {"one": "a", "two": "a"}, "are both 'a', so nothing is written"),
        (["a train", "train"], {"one": "train"}, "with other text"),
        (["no 7 is", "7"], {"one": "7"}, "with other text"),
        (["17"], {"one": "7"}, "was not typed as the whole text"),
    ],
)
def test_value_that_a_replay_cannot_type_is_error(
    texts: list[str], values: dict[str, str], message: str
) -> None:
    screen = Screen()
    steps = []
    for text in texts:
        steps.append(RecordedStep(action=TypeText(text), screen=screen))
        steps.append(RecordedStep(action=KeyCombo(("tab",)), screen=screen))
    with pytest.raises(SettingsError) as error:
        with_names(steps, values)
    assert message in str(error.value)


SHOWN = ShownValue(name="title", region=Region(0, 0, 9, 9))


@pytest.mark.parametrize(
    ("expect", "by_body", "has_body", "remedy"),
    [
        ([], False, True, "assert title in vnc_desktop.read_file"),
        (["it shows <value:amount>"], False, True, "expect='the screen shows"),
        ([], True, False, "expect='the screen shows <value:title>'"),
    ],
)
def test_end_that_shows_value_needs_check(
    expect: list[str], *, by_body: bool, has_body: bool, remedy: str
) -> None:
    segment = Segment(task="Open it", end=Screen(values=(SHOWN,)))
    with pytest.raises(SettingsError) as error:
        check_vouched(segment, expect, body_checks=by_body, has_body=has_body)
    assert remedy in str(error.value)
    assert ("vnc_desktop" in str(error.value)) == has_body


@pytest.mark.parametrize(
    ("expect", "by_body"), [(["it shows <value:title>"], False), ([], True)]
)
def test_end_that_is_checked_may_show_value(
    expect: list[str], *, by_body: bool
) -> None:
    segment = Segment(task="Open it", end=Screen(values=(SHOWN,)))
    check_vouched(segment, expect, body_checks=by_body)
