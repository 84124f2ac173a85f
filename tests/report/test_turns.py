"""Which steps one answer of the planner led to, and why a model was asked again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_vnc_use.report.assets import data_uri
from pytest_vnc_use.report.html import run_html
from pytest_vnc_use.types import (
    Click,
    Decision,
    ModelExchange,
    Outcome,
    Proposal,
    RunEnded,
    Step,
    StepFinished,
    TurnDecided,
    Usage,
)

DONE = RunEnded(Outcome.DONE, "The basket is open.")
WORDS = "Add <two> & look."
FIGURE = "<figure"


@pytest.fixture
def block(write_run: Callable[..., Path], make_step: Callable[..., Step]) -> str:
    """A run of three turns, of one step, of three and of one."""
    usage = Usage(1500, 300, 40, 60)
    batch = [
        replace(make_step(number, Click(number, 5), intent, words=WORDS, usage=tokens), turn=2)
        for number, intent, tokens in [(2, "The first.", usage), (3, "", Usage()), (4, "", Usage())]
    ]
    decision = Decision("act", WORDS, tuple(Proposal(step.proposal.action) for step in batch), "model", usage)
    last = make_step(5, Click(5, 5), words="One more.")
    events = [
        TurnDecided(2, decision, 1.0),
        *map(StepFinished, batch),
        TurnDecided(3, Decision("act"), 1.0),
        StepFinished(replace(last, turn=3)),
    ]
    return run_html(write_run([make_step(1, Click(1, 5), words="Begin.")], DONE, events=events), link=data_uri)


def test_the_steps_of_one_answer_stand_together(block: str) -> None:
    before, section = block.split('<section class="vnc-turn">')
    section, after = section.split("</section>")
    assert [part.count(FIGURE) for part in (before, section, after)] == [1, 3, 2]
    assert [f"{number}. click at ({number}, 5)" in section for number in range(1, 6)] == [
        False,
        True,
        True,
        True,
        False,
    ]
    assert "Turn 2: one answer, 3 steps; tokens: 1,500 in (300 cached), 40 out + 60 thinking" in section


def test_what_the_answer_said_stands_once(block: str) -> None:
    assert block.count("Add &lt;two&gt; &amp; look.") == 1
    assert "The first." in block
    assert "One more." in block


def test_why_a_model_was_asked_again_is_told_once(write_run: Callable[..., Path]) -> None:
    again = [ModelExchange("planner", number, {}, None, 0.5, "no <tool> call", retry_in_s=0.0) for number in (1, 2)]
    answered = ModelExchange("planner", 3, {}, {}, 0.5, error="told elsewhere")
    block = run_html(write_run(end=DONE, events=[*again, answered]), link=data_uri)
    assert "<dd>2 among 3 requests to a model</dd>" in block
    assert "<dt>asked again because</dt><dd>no &lt;tool&gt; call</dd>" in block
