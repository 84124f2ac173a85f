"""Every planner does the same tasks alike, and takes the same nonsense alike, each in the words of its own provider."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from markupsafe import escape

from pytest_vnc_use import Outcome, RunResult, VncUseAgent
from pytest_vnc_use.agent.act import LONGEST_OUTPUT
from pytest_vnc_use.report.html import run_html
from pytest_vnc_use.report.screenshots import data_uri
from pytest_vnc_use.runs.directory import read_trace
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import Click, Usage
from support import chat_server, gemini_server, messages_server, responses_server
from support.memory_desktop import PaintedController
from support.qt_desktop import QtDesktop
from support.shop_runs import PLAYERS, TASKS, Played, Said, differences, play

COMMANDS, COMPUTER_USE = "openai-compatible, commands", "openai-compatible, computer_use"
VNC_COMMAND = "openai-compatible, vnc_command"

QUICK = (
    "Sign in as alice, add two apples to the basket and open the basket",
    "Write a note of two lines, 'No nuts, please.' and 'Merci, René & Zoë!', and save it",
    "Drag the apples and then the pears from the shelf into the gift box",
)
"""The tasks of the shop that every planner does here."""


@pytest.fixture(scope="module")
def desktops() -> Iterator[dict[str, QtDesktop]]:
    """A desktop for each planner."""
    try:
        import PySide6.QtWidgets  # noqa: F401
    except ImportError as exc:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(f"the shop needs Qt: {exc}")
    with ExitStack() as stack:
        started = {name: QtDesktop() for name in PLAYERS}
        for desktop in started.values():
            stack.callback(desktop.stop)
        yield started


@pytest.mark.slow
@pytest.mark.desktop
@pytest.mark.parametrize("task", QUICK)
def test_every_planner_leaves_same_trace_and_same_files(
    desktops: dict[str, QtDesktop], task: str, tmp_path: Path
) -> None:
    def played_by(name: str) -> Played:
        return play(PLAYERS[name], task, TASKS[task], desktops[name], tmp_path)

    with ThreadPoolExecutor() as pool:
        played = dict(zip(PLAYERS, pool.map(played_by, PLAYERS), strict=True))
    assert differences(played, TASKS[task]) == []


def test_there_are_ten_tasks() -> None:
    assert len(TASKS) == 10
    assert set(QUICK) < set(TASKS)


Run = Callable[..., RunResult]


@pytest.fixture
def controller() -> PaintedController:
    return PaintedController()


@pytest.fixture
def run(controller: PaintedController, tmp_path: Path) -> Run:
    """`run(planner)`: a task in memory."""
    settings = Settings(runs_dir=str(tmp_path / "runs"))

    def run(planner: Any, **options: Any) -> RunResult:
        agent = VncUseAgent(settings=settings, controller=controller, planner=planner, **options)
        return agent.run("Open the basket")

    return run


@pytest.mark.parametrize("name", [name for name, player in PLAYERS.items() if not player.one_by_one])
def test_batch_of_five_actions_costs_one_call_and_is_shown_as_one_turn(
    run: Run, controller: PaintedController, name: str
) -> None:
    five = Said(tuple(Click(10 * number, 20) for number in range(1, 6)), "All five.")
    with PLAYERS[name].asked([five]) as (server, planner):
        result = run(planner)
        assert (len(server.requests), server.refusals) == (2, [])
    assert len(controller.performed) == 5
    assert [step.turn for step in result.steps] == [1] * 5
    assert [step.usage == Usage() for step in result.steps] == [False, True, True, True, True]
    block = shown(result)
    assert block.count("<dt>answer</dt> <dd>action ") == 5
    assert "action 5 of 5</dd>" in block


def shown(result: RunResult) -> str:
    return run_html(result.run_dir, link=data_uri)


UNKNOWN: dict[str, Any] = {
    "gemini": gemini_server.calls(("bash", {})),
    COMMANDS: chat_server.call("bash"),
    COMPUTER_USE: chat_server.call("computer_use", action="bash"),
    VNC_COMMAND: chat_server.call("vnc_command", command="bash"),
    "anthropic": messages_server.uses(("bash", {}), toolset=None),
    "openai": responses_server.acts({"type": "bash"}),
}
"""A call that no tool format knows; each format's other mistakes are in test_actions.py."""


@pytest.mark.parametrize("name", UNKNOWN)
def test_call_without_meaning_is_reported_counted_and_shown(run: Run, controller: PaintedController, name: str) -> None:
    player = PLAYERS[name]
    with player.replying([UNKNOWN[name], player.say(Said((Click(10, 20),))), player.done]) as (server, planner):
        result = run(planner)
        assert (result.outcome, server.refusals, len(server.requests)) == (Outcome.DONE, [], 3)
        answered = "\n".join(texts_of(server.requests[1]))
    assert len(controller.performed) == 1
    [problem] = problems_of(result)
    assert "\n" not in problem
    assert escape(problem[:300]) in shown(result)
    assert problem in answered


def problems_of(result: RunResult) -> list[str]:
    """Return why a step was not performed, or a model asked again."""
    trace = read_trace(result.run_dir)
    retried = [exchange.error for exchange in trace.exchanges if exchange.retry_in_s is not None]
    return [step.error for step in trace.steps if step.error] + retried


def texts_of(request: Any) -> Iterator[str]:
    """Every text of a request."""
    match getattr(request, "body", request):
        case str(text):
            yield text
        case Mapping() as items:
            yield from (text for item in items.values() for text in texts_of(item))
        case list(items):
            yield from (text for item in items for text in texts_of(item))


@pytest.mark.parametrize("name", UNKNOWN)
def test_calls_without_meaning_end_run(run: Run, name: str) -> None:
    with PLAYERS[name].replying(lambda request: UNKNOWN[name]) as (server, planner):
        result = run(planner)
        assert (result.outcome, server.refusals) == (Outcome.GAVE_UP, [])
        assert len(server.requests) <= 4
    assert escape(result.message[:100]) in shown(result)


def everything() -> str:
    """All that the warehouse knows."""
    return "a line of it\n" * 400_000


CUT = f"(the first {LONGEST_OUTPUT} of 5200000 characters)"
CALLS: dict[str, Any] = {
    "gemini": gemini_server.calls(("everything", {})),
    COMMANDS: chat_server.call("everything"),
    COMPUTER_USE: chat_server.call("everything"),
    VNC_COMMAND: chat_server.call("everything"),
    "anthropic": messages_server.uses(("everything", {}), toolset=None),
    "openai": responses_server.calls("everything", "{}"),
}


@pytest.mark.parametrize("name", PLAYERS)
def test_of_result_of_5_mb_as_much_is_kept_and_sent_as_anybody_can_use(run: Run, name: str) -> None:
    player = PLAYERS[name]
    with player.replying([CALLS[name], player.done], functions=[everything]) as (server, planner):
        result = run(planner, functions=[everything])
        assert (result.outcome, server.refusals) == (Outcome.DONE, [])
        assert max(server.sizes) < 10 * LONGEST_OUTPUT
        assert any(CUT in text for text in texts_of(server.requests[1]))
    assert result.steps[0].output == f"{CUT} {everything()[:LONGEST_OUTPUT]}"
    assert sum(file.stat().st_size for file in result.run_dir.rglob("*") if file.is_file()) < 100 * LONGEST_OUTPUT
    assert CUT in shown(result)


def test_secret_is_not_cut_in_two(run: Run) -> None:
    secret = "swordfish-swordfish"

    def lookup() -> str:
        """All that there is."""
        return "x" * (LONGEST_OUTPUT - len(secret) // 2) + secret + "y" * LONGEST_OUTPUT

    player = PLAYERS["gemini"]
    replies = [gemini_server.calls(("lookup", {})), player.done]
    with player.replying(replies, functions=[lookup]) as (_, planner):
        result = run(planner, functions=[lookup], secrets={"WORD": secret})
    assert result.steps[0].output.endswith("x<secret:W")
    assert "swordfish" not in (result.run_dir / "trace.jsonl").read_text("utf-8")
