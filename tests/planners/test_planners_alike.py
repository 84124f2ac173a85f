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
from support.memory_desktop import SIZE, PaintedController
from support.qt_desktop import QtDesktop
from support.shop_runs import PLAYERS, TASKS, Played, Said, differences, openais, play, sizes_of

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


NONSENSE: dict[str, dict[str, Any]] = {
    "gemini": {
        "arguments that are no object": gemini_server.malformed({"functionCall": {"name": "click", "args": [5, 5]}}),
        "an unknown tool": gemini_server.calls(("bash", {})),
        "no number": gemini_server.calls(("click", {"x": "left", "y": 5})),
    },
    COMMANDS: {
        "arguments that are no JSON": chat_server.calls(("click", '{"x": 5')),
        "an unknown tool": chat_server.call("bash"),
        "no number": chat_server.call("click", x="left", y=5),
        "text": chat_server.said("I would click."),
        "too many": chat_server.call("batch", actions=[{"command": "wait"}] * 21),
    },
    COMPUTER_USE: {
        "arguments that are no JSON": chat_server.calls(("computer_use", '{"action": "left_cl')),
        "an unknown tool": chat_server.call("computer_use", action="bash"),
        "no number": chat_server.call("computer_use", action="left_click", coordinate=["left", 5]),
        "text": chat_server.said("I would click."),
        "too many": chat_server.calls(*[("computer_use", {"action": "left_click", "coordinate": [5, 5]})] * 2),
    },
    VNC_COMMAND: {
        "arguments that are no JSON": chat_server.calls(("vnc_command", '{"command": "mou')),
        "an unknown tool": chat_server.call("bash"),
        "an unknown command": chat_server.call("vnc_command", command="bash"),
        "no number": chat_server.call("vnc_command", command="mouse_click", x="left", y=5),
        "too many": chat_server.call("action_queue", actions=[{"command": "wait"}] * 21),
    },
    "anthropic": {
        "arguments that are no object": messages_server.uses(("left_click", "5, 5")),  # type: ignore[arg-type]
        "an unknown tool": messages_server.uses(("bash", {}), toolset=None),
        "no number": messages_server.uses(("left_click", {"coordinate": ["left", 5]})),
        "a point outside": messages_server.uses(("left_click", {"coordinate": [5000, 5]})),
    },
    "openai": {
        "arguments that are no JSON": responses_server.calls("order_status", '{"number": 5'),
        "an action that is no object": responses_server.acts("click"),
        "an unknown tool": responses_server.acts({"type": "bash"}),
        "no number": responses_server.acts({"type": "click", "x": "left", "y": 5}),
        "a point outside": responses_server.acts({"type": "click", "x": 5000, "y": 5}),
        "too many": responses_server.acts(*[openais(Click(5, 5))] * 21),
    },
}
"""Text ends a run of Gemini's, Claude's and OpenAI's own tools; these may also make several calls in one turn."""
REFUSED = "nothing of the model's answer can be performed: "
MALFORMED = ("arguments that are no object",)
"""Not the model's but the service's fault: asked again, as if nothing had come."""


EVERY = [(name, nonsense) for name, every in NONSENSE.items() for nonsense in every]
TOLD = [(name, nonsense) for name, nonsense in EVERY if nonsense not in MALFORMED]


@pytest.mark.parametrize(("name", "nonsense"), EVERY)
def test_nonsense_is_told_in_one_line_counted_and_shown(
    run: Run, controller: PaintedController, name: str, nonsense: str
) -> None:
    player = PLAYERS[name]
    with player.replying([NONSENSE[name][nonsense], player.say(Said((Click(10, 20),))), player.done]) as (server, plan):
        result = run(plan)
        assert (result.outcome, server.refusals, len(server.requests)) == (Outcome.DONE, [], 3)
        answered = "\n".join(texts_of(server.requests[1]))
    assert len(controller.performed) == 1
    [problem] = problems_of(result)
    assert "\n" not in problem
    assert escape(problem[:300]) in shown(result)
    assert problem.removeprefix(REFUSED) in answered or nonsense in MALFORMED


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


@pytest.mark.parametrize(
    ("name", "far_off"),
    [
        ("gemini", gemini_server.calls(("click", {"x": 5000, "y": -5}))),
        (COMMANDS, chat_server.call("click", box=[5000, -9, 6000, -5])),
        (COMPUTER_USE, chat_server.call("computer_use", action="left_click", coordinate=[5000, -5])),
    ],
)
def test_on_grid_what_lies_outside_is_moved_to_edge(
    run: Run, controller: PaintedController, name: str, far_off: Any
) -> None:
    with PLAYERS[name].replying([far_off, PLAYERS[name].done]) as (server, planner):
        assert run(planner).outcome is Outcome.DONE
        assert server.refusals == []
    assert controller.performed == [Click(SIZE[0] - 1, 0)]


@pytest.mark.parametrize(("name", "nonsense"), TOLD)
def test_nonsense_without_end_has_end(run: Run, name: str, nonsense: str) -> None:
    with PLAYERS[name].replying(lambda request: NONSENSE[name][nonsense]) as (server, planner):
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
        assert max(sizes_of(server)) < 10 * LONGEST_OUTPUT
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
