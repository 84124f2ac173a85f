"""The rounds of `cua-vnc ui --review`: after another version of a program, two tests are
replayed until each difference was accepted, or called a bug.
"""

from __future__ import annotations

import os
import shlex
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_vnc_use.backends.pixels import encode_png
from pytest_vnc_use.recordings.format import (
    Recording,
    Screen,
    Segment,
    dynamic_region,
)
from pytest_vnc_use.recordings.images import Pixels
from pytest_vnc_use.recordings.life import AnswerKind
from pytest_vnc_use.recordings.question import Answer, Offer, Question
from pytest_vnc_use.types import Region
from pytest_vnc_use.ui.link import facts_of
from pytest_vnc_use.ui.review import CiReview
from pytest_vnc_use.ui.rounds import UNANSWERED, Rounds
from pytest_vnc_use.ui.runner import PytestRunner
from support.desks import Served
from support.pad_sessions import judged_conftest, run_job
from support.paths import PROGRAMS, TESTS
from support.vnc_servers import require_package

require_package("starlette")
LONG_MS = 120_000
PRESSES = """
import pytest

@pytest.mark.vnc_task("Press one, then two", expect=None)
def test_press(vnc_agent): pass

@pytest.mark.vnc_task("Press one, then two", expect=None)
def test_again(vnc_agent): pass
"""
CLAIMS = """
import pytest

@pytest.mark.vnc_task("Press one, then two", expect=None)
@pytest.mark.parametrize("name", ["press", "again"])
def test_it(vnc_agent, name):
    vnc_agent.verify("the title is right")
"""
CONFTEST = judged_conftest("Click(80, 100), Click(80, 180)", "Says(region=None)")


def options(*texts: str) -> list[str]:
    clicks = Path("clicks.txt").absolute()
    program = [sys.executable, str(PROGRAMS / "counter.py"), f"--clicks={clicks}"]
    return [
        "-p",
        "no:pytest-vnc",
        "-p",
        "no:cacheprovider",
        "--vnc-server=qt",
        f"--vnc-app={shlex.join([*program, *texts])}",
        "--vnc-screen-size=400x300",
        "-ovnc_gate_seconds=1",
    ]


def run(mode: str, *texts: str, ci: str = "") -> str:
    """Return the last line of a session with the program that has these texts."""
    record = f"--vnc-record={mode}"
    return run_job(record, *options(*texts), ci=ci, VNC_USE_REHEARSE="0")


def clicks() -> list[str]:
    return Path("clicks.txt").read_text("utf-8").split()


NEW_TITLE = "--title=Counter 2"
NEW_TEXTS = (NEW_TITLE, "--one=the first")


@pytest.fixture
def recorded(
    request: pytest.FixtureRequest,
    record_once: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Recordings of two tests in the working directory."""
    tests = request.param
    path = os.pathsep.join([str(TESTS), *sys.path])
    monkeypatch.setenv("PYTHONPATH", path)
    files = {
        "test_counter.py": tests,
        "conftest.py": CONFTEST,
        "pytest.ini": "[pytest]\n",
    }
    name = "counter_claims" if tests == CLAIMS else "counter"
    record_once(name, files, partial(run, "auto"))
    Path("clicks.txt").unlink(missing_ok=True)


@pytest.fixture
def reviewed(
    recorded: None, served: Served, browser: Any
) -> Iterator[Callable[..., Any]]:
    """`reviewed(*texts)`: the page that reviews a CI job with the program that has
    these texts.
    """
    open_pages: list[Any] = []

    def review(*texts: str) -> Any:
        assert " 2 failed" in run("replay", *texts, ci="true")
        Path("clicks.txt").unlink(missing_ok=True)
        runner = PytestRunner([], options(*texts))
        runner.connect(served.server.session_url, served.desk.session_token)
        served.desk.runner = runner
        served.desk.review = CiReview(Path("runs"))
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        open_pages.append(page)
        page.goto(served.server.url)
        return page

    yield review
    for page in open_pages:
        page.close()
    assert served.desk.runner
    served.desk.runner.close()
    assert served.desk.review
    served.desk.review.close()


def replay(page: Any, number: int, result: str) -> None:
    """Replay on the page what is due, and wait for the result of that round."""
    page.get_by_role("button", name="Replay these (2 tests)").click()
    page.get_by_text(f"After round {number}: {result}").wait_for(timeout=LONG_MS)


@pytest.mark.desktop
@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.parametrize("recorded", [PRESSES], indirect=True)
def test_rounds_accepted_by_key_make_tests_pass(
    reviewed: Callable[..., Any], violations: Callable[[Any], int]
) -> None:
    page = reviewed(*NEW_TEXTS)
    page.get_by_text("0 tests pass now, 2 left, 0 with a bug.").wait_for()
    cards = page.locator("#groups > li")
    assert cards.count() == 1
    assert page.get_by_role("button", name="Replay these").is_disabled()
    page.keyboard.press("a")  # no difference is selected yet
    assert cards.first.evaluate("card => card === document.activeElement")
    page.keyboard.press("a")
    replay(page, 1, "0 tests pass now, 2 left")
    assert clicks() == ["one", "one"], "what nobody accepted is not acted on"
    assert cards.count() == 2
    assert "2 tests, round 1" in cards.first.inner_text()
    assert violations(page) == 0
    cards.first.get_by_role("button", name="Review…").click()
    page.get_by_text("Accept and Mask write nothing yet").wait_for()
    page.keyboard.press("a")
    page.get_by_role("dialog").wait_for(state="hidden")
    page.get_by_role("spinbutton", name="at once").fill("2")
    replay(page, 2, "2 tests pass now, 0 left, 0 with a bug.")
    assert clicks().count("two") == 2
    assert " 2 passed" in run("replay", *NEW_TEXTS)


@pytest.mark.desktop
@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.parametrize("recorded", [PRESSES], indirect=True)
def test_bug_ends_rounds_of_its_tests(
    reviewed: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "xdist", None)  # as where it is not installed
    page = reviewed(*NEW_TEXTS)
    page.get_by_text("More than one at once needs pytest-xdist").wait_for()
    assert page.get_by_role("spinbutton", name="at once").is_disabled()
    page.get_by_role("button", name="Review…").click()
    page.get_by_text("Accept changes the one gate that CI reached").wait_for()
    page.get_by_role("button", name="Accept: the screen now is right").click()
    replay(page, 1, "0 tests pass now, 2 left")
    page.locator("#groups > li").first.focus()
    page.keyboard.press("b")
    page.keyboard.type("a bad status")
    page.keyboard.press("Enter")
    page.get_by_text("0 tests pass now, 0 left, 2 with a bug.").wait_for()
    page.get_by_text("test_again: a bug: a bad status").wait_for()
    assert page.get_by_role("button", name="Replay these").is_disabled()


@pytest.mark.desktop
@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.parametrize("recorded", [CLAIMS], indirect=True)
def test_claim_is_shown_once_for_equal_screens(reviewed: Callable[..., Any]) -> None:
    page = reviewed(NEW_TITLE)
    page.locator("#groups > li").first.focus()
    page.keyboard.press("a")
    replay(page, 1, "0 tests pass now, 2 left")
    cards = page.locator("#groups > li")
    assert cards.count() == 2
    title = "Does this hold now: the title is right (2 tests, round 1)"
    assert cards.first.get_by_role("heading").inner_text() == title
    cards.first.focus()
    page.keyboard.press("a")
    page.get_by_role("button", name="Yes, it holds").click()
    replay(page, 2, "2 tests pass now")
    assert " 2 passed" in run("replay", NEW_TITLE)


@pytest.mark.desktop
@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.parametrize("recorded", [PRESSES], indirect=True)
def test_transient_is_accepted_in_round(reviewed: Callable[..., Any]) -> None:
    version = (NEW_TITLE, "--toast=One was pressed")
    page = reviewed(*version)
    cards = page.locator("#groups > li")
    cards.first.focus()
    page.keyboard.press("a")
    replay(page, 1, "0 tests pass now, 2 left")
    assert cards.count() == 2
    cards.first.get_by_role("button", name="Review…").click()
    page.get_by_role("heading", name="The screen showed this briefly").wait_for()
    page.get_by_role("button", name="Accept: it may show").click()
    replay(page, 2, "2 tests pass now, 0 left, 0 with a bug.")
    assert " 2 passed" in run("replay", *version)


SCREEN = np.full((100, 200), 0xFFFFFF, np.uint32)
TITLE = Region(10, 10, 30, 20)
STATUS = Region(10, 70, 40, 80)
OFFERED = {"mask": "all 3 gates", "mask_gate": "s2"}


def painted(*regions: Region, colour: int = 0x2070B0) -> Pixels:
    screen = SCREEN.copy()
    for region in regions:
        region.part_of(screen)[:] = colour
    return screen


def asked(
    now: Pixels,
    *boxes: Region,
    test: str = "test_it",
    claim: str = "",
    acts: tuple[str, ...] = (),
    **offer: Any,
) -> Any:
    """Return a question as a session sends it."""
    files = (Path("image.png"),) * 3
    question = Question(test, "it differs", boxes, files, claim, acts, Offer(**offer))
    pngs = map(encode_png, (SCREEN, now, painted()))
    images = [b64encode(png).decode() for png in pngs]
    return {"images": images, **facts_of(question)}


def title_differs(**more: Any) -> Any:
    return asked(painted(TITLE), TITLE, **more)


@pytest.fixture
def rounds(tmp_path: Path) -> Rounds:
    return Rounds(tmp_path / "rounds")


def answer(
    rounds: Rounds,
    number: int,
    kind: AnswerKind,
    text: str = "",
    acts: Sequence[str] | None = None,
) -> None:
    """Answer a group by its number; `acts` are the actions that the page has shown."""
    names = [*rounds.groups]
    rounds.answer(names[number], kind, text, acts)


def shown(rounds: Rounds) -> Any:
    """Return what the page shows of the group that was added last."""
    *_, last = rounds.groups
    return next(facts for facts in rounds.group_facts() if facts["id"] == last)


def test_action_that_was_not_shown_is_asked_about(rounds: Rounds) -> None:
    rounds.start()
    question = title_differs(acts=("step 1, click at (20, 15)",))
    assert rounds.ask(question) == UNANSWERED
    answer(rounds, 0, "accept")
    assert rounds.ask(question) == Answer("accept")
    assert rounds.ask(title_differs()) == Answer("accept")

    other = title_differs(acts=("step 2, click at (25, 15)",))
    assert rounds.ask(other) == UNANSWERED
    assert shown(rounds)["acts"] == ["step 2, click at (25, 15)"]
    late = title_differs(acts=("step 3, click at (12, 12)",))
    assert rounds.ask(late) == UNANSWERED, "it joins the group that a page shows"
    answer(rounds, 1, "accept", acts=other["acts"])
    assert rounds.ask(other) == UNANSWERED

    answer(rounds, 1, "accept", acts=shown(rounds)["acts"])
    assert rounds.ask(other) == Answer("accept")
    assert rounds.ask(late) == Answer("accept")


def test_only_new_difference_of_question_is_grouped(rounds: Rounds) -> None:
    rounds.start()
    rounds.ask(title_differs(concerned=OFFERED))
    answer(rounds, 0, "accept")

    both = asked(painted(TITLE, STATUS), TITLE, STATUS, concerned=OFFERED)
    assert rounds.ask(both) == UNANSWERED
    rounds.ask(asked(painted(STATUS), STATUS, test="test_other", concerned=OFFERED))
    group = shown(rounds)
    assert len(rounds.groups) == 2
    assert [test["test"] for test in group["tests"]] == ["test_it", "test_other"]
    assert group["boxes"] == [[10, 70, 40, 80]]
    assert group["concerned"] == {}, "a mask would hide what was accepted too"

    answer(rounds, 1, "bug", "a bad status")
    assert rounds.ask(both) == Answer("bug", "a bad status")
    assert rounds.ask(title_differs()) == Answer("accept")


WORD = Region(12, 12, 16, 18)
CARET = Region(20, 12, 21, 18)


def has_carets() -> Recording:
    """Return a recording with a caret somewhere."""
    caret = dynamic_region(CARET.moved(0, 50), "caret")
    end = Screen(dynamic=(caret,), pixels=lambda: SCREEN)
    segment = Segment(task="Type", end=end)
    return Recording(test="test_it", screen_size=(200, 100), segments=(segment,))


@pytest.mark.parametrize(
    ("knows_carets", "drawn", "is_same"),
    [
        (True, [CARET], True),
        (False, [CARET], False),
        (True, [WORD], False),
        (True, [CARET.grown(1, SCREEN.shape)], False),
        (True, [Region(20, 12, 21, 13), Region(20, 14, 21, 18)], False),
        (True, [CARET, WORD], False),
    ],
    ids=["caret", "no carets recorded", "word", "wider", "an i", "word and caret"],
)
def test_difference_holds_though_caret_blinks(
    rounds: Rounds, knows_carets: bool, drawn: list[Region], is_same: bool
) -> None:
    if knows_carets:
        rounds.differences.learn_carets(has_carets())
    rounds.start()
    off = painted(TITLE)
    on = off.copy()
    for region in drawn:
        region.part_of(on)[:] = 0
    rounds.ask(asked(off, TITLE))
    rounds.ask(asked(on, TITLE, test="test_other"))
    assert (len(rounds.groups) == 1) == is_same
    answer(rounds, 0, "accept")
    third = rounds.ask(asked(on, TITLE, test="test_third"))
    assert third == (Answer("accept") if is_same else UNANSWERED)


def test_moved_target_is_never_accepted(rounds: Rounds) -> None:
    rounds.start()
    question = title_differs(moved=("the target of step 1",))
    rounds.ask(question)
    answer(rounds, 0, "accept")
    rounds.ask(title_differs())
    answer(rounds, 1, "accept")
    assert rounds.ask(question) == UNANSWERED


@pytest.mark.parametrize("kind", ["mask", "mask_gate"])
def test_mask_holds_for_what_it_shows_next(rounds: Rounds, kind: Any) -> None:
    rounds.start()
    clock = replace(TITLE, right=60)
    more = {"masks": (clock,), "concerned": OFFERED}
    rounds.ask(title_differs(**more))
    answer(rounds, 0, kind)

    later = painted(clock, colour=0xC02020)
    assert rounds.ask(asked(later, clock, **more)) == Answer(kind)
    assert rounds.ask(asked(later, clock)) == UNANSWERED, "no mask is offered"
    other = asked(later, clock, test="test_other", **more)
    assert rounds.ask(other) == UNANSWERED
    outside = asked(painted(STATUS), STATUS, **more)
    assert rounds.ask(outside) == UNANSWERED


def test_value_is_said_where_it_is_offered(rounds: Rounds) -> None:
    rounds.start()
    question = title_differs(values={"title": "'a', recorded as 'b'"})
    assert rounds.ask(question) == UNANSWERED
    answer(rounds, 0, "value", "amount")
    assert rounds.ask(question) == UNANSWERED, "the task has no such value"
    assert shown(rounds)["values"] == {"title": "'a', recorded as 'b'"}

    answer(rounds, 0, "value", "title")
    assert rounds.ask(question) == Answer("value", "title")
    rounds.end({"test_it": {"state": "failed", "triage": "inconclusive"}})
    assert rounds.due == ["test_it"]
    assert shown(rounds)["tests"][0]["result"] == "accepted as the value title"
    assert rounds.ask(title_differs()) == UNANSWERED


def test_claims_and_screens_are_answered_apart(rounds: Rounds) -> None:
    rounds.start()
    rounds.ask(title_differs())
    answer(rounds, 0, "accept")

    claim = title_differs(claim="it is a title")
    assert rounds.ask(claim) == UNANSWERED
    assert rounds.ask({**claim, "test": "test_other"}) == UNANSWERED
    assert shown(rounds)["claim"] == "it is a title"
    assert len(shown(rounds)["tests"]) == 2

    answer(rounds, 1, "accept")
    assert rounds.ask(claim) == Answer("accept")
    other_claim = title_differs(claim="it is blue")
    assert rounds.ask(other_claim) == UNANSWERED
    other_screen = asked(painted(TITLE, STATUS), TITLE, STATUS, claim="it is a title")
    assert rounds.ask(other_screen) == UNANSWERED
    assert len(rounds.groups) == 4


def test_test_that_failed_otherwise_is_left_out(rounds: Rounds) -> None:
    rounds.start()
    rounds.ask(title_differs(test="test_it"))
    rounds.ask(title_differs(test="test_stopped"))
    drifted = {"state": "failed", "triage": "inconclusive", "message": "drift"}
    rounds.end({"test_it": drifted, "test_stopped": {"state": ""}})
    answer(rounds, 0, "accept")
    assert rounds.start() == ["test_it"]
    rounds.end({"test_it": {**drifted, "state": "error", "message": "no desktop"}})
    assert rounds.left_out() == ["test_it: no desktop"]
    assert rounds.due == []


def test_bug_of_model_in_ci_is_of_no_screen(rounds: Rounds, tmp_path: Path) -> None:
    image = tmp_path / "image.png"
    heal = Question("test_it", "it was healed", (), (image, image, image))
    rounds.add("heal 1", heal, (), ["test_it"])
    rounds.answer("heal 1", "bug", "it moved")
    assert rounds.facts()["bugs"] == 1
    rounds.answer("heal 1", "accept", "")
    assert rounds.start() == ["test_it"]
    rounds.answer("heal 1", "bug", "it moved")
    assert rounds.ask(title_differs()) == UNANSWERED
