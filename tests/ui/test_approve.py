"""Actions that wait for approval on the page: of a run in this process, and of runs
that wait in their directories.
"""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pytest_vnc_use import Outcome, VncUseAgent
from pytest_vnc_use.safety.policy_file import load_policy
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import Click, Confirmation, Proposal, RunResult
from pytest_vnc_use.ui.approve import PageApprover, WaitingRuns
from support.desks import WITHIN_S, Served, received
from support.memory_desktop import ListPlanner, PaintedController, act, finished
from support.vnc_servers import wait_for

POLICY = '[[rule]]\ndecision = "ask"\naction = "click"\n'
BUYS = Confirmation("this buys two apples", "FINANCIAL_TRANSACTIONS")
CLICK = Proposal(Click(3, 4), "click the button", confirmation=BUYS)


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    (tmp_path / "policy.toml").write_text(POLICY, encoding="utf-8")
    return tmp_path / "policy.toml"


@pytest.fixture
def agent(tmp_path: Path, policy: Path) -> VncUseAgent:
    """An agent that clicks once, and is asked about it."""
    return VncUseAgent(
        settings=Settings(runs_dir=str(tmp_path / "runs"), policy=str(policy)),
        planner=ListPlanner([act(CLICK), finished()]),
        controller=PaintedController(),
    )


@contextmanager
def asking(
    agent: VncUseAgent,
    served: Served,
    allowed: set[str] | None = None,
    *,
    is_rehearsal: bool = False,
) -> Iterator[queue.Queue[RunResult]]:
    """Run a task in another thread, as a test does, whose action waits for the page."""
    results = queue.Queue[RunResult]()
    approver = PageApprover(
        served.link(),
        lambda: agent.runs[-1],
        set() if allowed is None else allowed,
        is_rehearsal=is_rehearsal,
    )

    def run() -> None:
        planner = ListPlanner([act(CLICK), finished()])
        results.put(agent.run("Buy apples", approver=approver, planner=planner))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield results
    thread.join(WITHIN_S)


def answer(page: Any, question: dict[str, Any], kind: str) -> None:
    page.send(json.dumps({"type": "answer", "id": question["id"], "kind": kind}))


@pytest.mark.parametrize(
    ("kind", "outcome"), [("allow", Outcome.DONE), ("deny", Outcome.DENIED)]
)
def test_page_shows_action_and_answers(
    agent: VncUseAgent, served: Served, kind: str, outcome: Outcome
) -> None:
    with served.page(served.cookie()) as page, asking(agent, served) as results:
        question = received(page, "question")
        assert question["action"] == "click at (3, 4)"
        assert question["points"] == [[3, 4]]
        assert question["explanation"] == "this buys two apples"
        assert question["rule"].startswith("rule 1 (in ")
        assert question["image"]
        answer(page, question, kind)
        assert results.get(timeout=WITHIN_S).outcome is outcome


def test_always_writes_rule_that_was_shown(
    agent: VncUseAgent, served: Served, policy: Path
) -> None:
    with served.page(served.cookie()) as page, asking(agent, served) as results:
        question = received(page, "question")
        policy.write_text(f"# changed\n{POLICY}", encoding="utf-8")
        answer(page, question, "always")
        again = received(page, "question")
        assert policy.read_text("utf-8") == f"# changed\n{POLICY}"
        answer(page, again, "always")
        assert results.get(timeout=WITHIN_S).outcome is Outcome.DONE
    assert '+decision = "allow"' in again["diff"]
    assert [rule.decision for rule in load_policy(policy).rules] == ["allow", "ask"]


def test_closed_desk_denies(agent: VncUseAgent, served: Served, policy: Path) -> None:
    with asking(agent, served) as results:
        wait_for(lambda: served.desk.questions, "the question")
        served.end()
        assert results.get(timeout=WITHIN_S).outcome is Outcome.DENIED
    assert policy.read_text("utf-8") == POLICY


def test_rehearsal_repeats_what_was_allowed(agent: VncUseAgent, served: Served) -> None:
    allowed: set[str] = set()
    with served.page(served.cookie()) as page:
        with asking(agent, served, allowed):
            answer(page, received(page, "question"), "allow")
        with asking(agent, served, allowed, is_rehearsal=True) as results:
            assert results.get(timeout=WITHIN_S).outcome is Outcome.DONE


@pytest.mark.parametrize(("kind", "command"), [("always", "approve"), ("deny", "deny")])
def test_waiting_run_is_answered_by_its_command(
    agent: VncUseAgent,
    served: Served,
    policy: Path,
    tmp_path: Path,
    kind: str,
    command: str,
) -> None:
    """And waits on, for the next page, where a page is closed without an answer, or the
    command fails.
    """
    waiting = agent.run("Buy apples")
    assert waiting.outcome is Outcome.WAITING
    (asked,) = WaitingRuns(tmp_path / "runs", [], "").questions().values()
    assert asked["reason"].startswith("no policy file is set")
    served.desk.waiting_runs = WaitingRuns(tmp_path / "runs", ["--vnc"], str(policy))
    cookie = served.cookie()
    with served.page(cookie) as page:
        assert received(page, "question")["task"] == "Buy apples"
    with served.page(cookie) as page:
        (question,) = received(page, "state")["questions"]
        answer(page, question, kind)
        result = received(page, "result")
    assert waiting.run_id in result["run"]
    # as it was started without a desktop
    assert f"cua-vnc {command}: error: argument --vnc" in result["text"]
    assert len(load_policy(policy).rules) == (2 if kind == "always" else 1)
    assert agent.approve(waiting.run_id).outcome is Outcome.DONE


@pytest.mark.slow
@pytest.mark.browser
def test_rule_is_shown_and_written_by_keyboard(
    agent: VncUseAgent,
    served: Served,
    policy: Path,
    tmp_path: Path,
    browser: Any,
    violations: Callable[[Any], int],
) -> None:
    agent.run("Buy apples")
    served.desk.waiting_runs = WaitingRuns(tmp_path / "runs", ["--vnc"], str(policy))
    page = browser.new_page(viewport={"width": 360, "height": 740})
    page.goto(served.server.url)
    page.get_by_role("dialog").wait_for(timeout=1000 * WITHIN_S)
    assert violations(page) == 0
    page.keyboard.press("Escape")  # later
    page.get_by_role("button", name="Approve (1)").click()
    page.get_by_role("button", name="Allow always…").focus()
    page.keyboard.press("Enter")
    assert '+decision = "allow"' in page.locator("#approval-diff").text_content()
    assert policy.read_text("utf-8") == POLICY
    page.keyboard.press("Enter")
    page.get_by_text("cua-vnc approve: error").wait_for(timeout=1000 * WITHIN_S)
    page.close()
    assert [rule.decision for rule in load_policy(policy).rules] == ["allow", "ask"]
