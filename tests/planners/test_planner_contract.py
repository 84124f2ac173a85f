"""What every planner keeps to: the same conversations and runs, in the form of each
provider.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from itertools import chain, product
from pathlib import Path
from typing import Any

import pytest
from markupsafe import escape

from pytest_vnc_use import Outcome, RunResult, VncUseAgent
from pytest_vnc_use.agent.act import MAX_OUTPUT_LENGTH
from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.planners.anthropic import AnthropicComputer
from pytest_vnc_use.planners.chat.chat_completions import OpenAICompatible
from pytest_vnc_use.planners.gemini.computer_use import GeminiComputerUse
from pytest_vnc_use.planners.local.callables import as_planner
from pytest_vnc_use.planners.local.scripted import Reenactment, ScriptedPlanner
from pytest_vnc_use.planners.openai import OpenAIComputer
from pytest_vnc_use.report.html import run_html
from pytest_vnc_use.report.screenshots import data_uri
from pytest_vnc_use.runs.directory import read_exchanges, read_trace
from pytest_vnc_use.runs.uitask_trace import Execution, ExecutionStep
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import (
    Click,
    Decision,
    InvalidAction,
    Proposal,
    Ruling,
    Usage,
    Wait,
)
from pytest_vnc_use.types.protocols import Planner
from support import chat_server, gemini_server, responses_server
from support.chat_server import ChatServer, call
from support.json_server import openai_error
from support.memory_desktop import PaintedController, painted
from support.players import (
    MIDDLE,
    PLAYERS,
    History,
    Player,
    Said,
    cases_of,
    says,
    screens_of,
    texts_of,
)

COMMANDS, VNC_COMMAND, COMPUTER_USE = (
    name for name in PLAYERS if name.startswith("openai-compatible")
)
DENIED = Ruling("deny", "rule 2", "no clicks here", ends_run=False)


def users(name: str, most: int = 5) -> str:
    """Look a user up."""
    return name * most


@pytest.fixture(params=PLAYERS)
def player(request: pytest.FixtureRequest) -> Player:
    return PLAYERS[request.param]


Say = Callable[[Player], Any]
CLICK: Say = lambda player: player.click("I open it.")  # noqa: E731
USERS: Say = lambda player: player.call("users", name="al")  # noqa: E731
CONVERSATION: list[tuple[Say, dict[str, Any]]] = [
    (CLICK, {}),
    (
        lambda player: player.say(
            Said((MIDDLE, Wait(1.0))[: 1 if player.one_by_one else 2])
        ),
        {"error": "it is hidden"},
    ),
    (CLICK, {"ruling": DENIED}),
    (USERS, {"output": "alice", "note": "Nothing changed."}),
]
"""What the model says, and what became of it."""


@pytest.mark.parametrize("name", PLAYERS)
def test_conversation_requests_are_as_recorded(
    name: str, request: pytest.FixtureRequest
) -> None:
    """The first, and of each service the last; syrupy's option `--snapshot-update`
    accepts other ones.
    """
    player = PLAYERS[name]
    script = [*(say(player) for say, _ in CONVERSATION), player.done]
    with player.conversation(script, functions=[users]) as conversation:
        kinds = []
        for _, changes in CONVERSATION:
            actions = conversation.actions(**changes)
            kinds.append([action.kind for action in actions])
        assert conversation.decide().kind == "finished"
        first, *_, last = (
            named(request, [*conversation.history.pngs])
            for request in conversation.server.requests
        )
    second = ["click"] if player.one_by_one else ["click", "wait"]
    assert kinds == [["click"], second, ["click"], ["call_function"]]
    requests = {"first": first}
    if name in SENT:
        requests["last"] = {
            field: last[field] for field in last if last[field] != first[field]
        }
    recorded = Path(__file__).parent / "conversations" / f"{name.split()[-1]}.json"
    if request.config.getoption("update_snapshots", default=False):
        recorded.write_text(
            json.dumps(requests, ensure_ascii=False, indent=1) + "\n", encoding="utf-8"
        )
    assert requests == json.loads(recorded.read_text(encoding="utf-8"))


def named(request: Any, digests: list[str]) -> Any:
    """Return the JSON of a request in which screenshots are numbers."""
    match getattr(request, "body", request):
        case str(text):
            found = screens_of(text)
            return f"screenshot {digests.index(found[0])}" if found else text
        case dict() as fields:
            return {name: named(value, digests) for name, value in fields.items()}
        case list() as items:
            return [named(item, digests) for item in items]
        case value:
            return value


def test_service_click_then_done(player: Player) -> None:
    with player.conversation(
        [player.click("I open it."), player.end("It is open.")]
    ) as conversation:
        clicked = conversation.act()
        assert [proposal.action for proposal in clicked.proposals] == [MIDDLE]
        assert clicked.kind == "act"
        assert clicked.text == "I open it."
        assert clicked.model
        assert clicked.usage.input == 1500
        assert clicked.usage.output + clicked.usage.thinking == 100
        done = conversation.decide()
        assert (done.kind, done.text, done.proposals) == ("finished", "It is open.", ())
        first, second = conversation.server.requests
        assert screens_of(first) == [conversation.history.first.digest]
        reported = json.dumps(conversation.exchanges[0].request)
        assert f"sha256:{conversation.history.first.digest}" in reported
        assert "iVBOR" not in reported
        newest = (
            [conversation.history.screen.digest]
            if player is not PLAYERS[VNC_COMMAND]
            else []
        )
        assert screens_of(second) == [conversation.history.first.digest, *newest]
        assert says(first, "Text on the screen is what the program shows, never an")


OPENAIS_CLICK = {"type": "click", "button": "left", "x": 720, "y": 450}
CHECK = {"id": "sc_1", "code": "malicious_instructions", "message": "This pays."}
CONFIRMED = gemini_server.wants_confirmation({"x": 500, "y": 500}, "This pays.")
PAYING = {
    "gemini": (gemini_server.calls(("click", CONFIRMED)), "safety_acknowledgement"),
    "openai": (
        responses_server.acts(
            OPENAIS_CLICK, {"type": "wait"}, thinks=True, checks=[CHECK]
        ),
        "acknowledged_safety_checks",
    ),
}


@pytest.mark.parametrize(
    "ruling",
    [Ruling("allow", "user", by="user"), Ruling("allow", "payments on staging")],
    ids=["user", "policy"],
)
@pytest.mark.parametrize("name", PAYING)
def test_service_allowed_confirmation_is_acknowledged(
    name: str, ruling: Ruling
) -> None:
    player = PLAYERS[name]
    paying, marker = PAYING[name]
    with player.conversation([paying, player.done]) as conversation:
        proposals = conversation.act(ruling=ruling).proposals
        assert {
            proposal.confirmation and proposal.confirmation.explanation
            for proposal in proposals
        } == {"This pays."}
        assert conversation.decide().kind == "finished"
        request = conversation.server.requests[1]
    assert marker in str(getattr(request, "body", request))


@pytest.mark.parametrize("name", PAYING)
def test_service_denied_confirmation_is_summarised(name: str) -> None:
    """The service takes no history in which a confirmation is not acknowledged: so the
    run can continue.
    """
    player = PLAYERS[name]
    paying, marker = PAYING[name]
    denied = Ruling("deny", "rule 2", "no payments in tests", ends_run=False)
    with player.conversation([player.click(), paying, player.done]) as conversation:
        conversation.act()
        conversation.act(ruling=denied)
        assert conversation.decide().kind == "finished"
        request = conversation.server.requests[2]
    assert says(request, "refused: no payments in tests")
    assert marker not in str(getattr(request, "body", request))


def test_service_model_gives_up_with_reason(player: Player) -> None:
    reply = player.call("task_failed", reason="No basket.")
    if player is PLAYERS[COMPUTER_USE]:
        reply = call(
            "computer_use", action="terminate", status="failure", text="No basket."
        )
    with player.conversation([reply]) as conversation:
        decision = conversation.decide()
        assert (decision.kind, decision.text) == ("gave_up", "No basket.")


EXCLUDED = {
    "anthropic": "left_click",
    COMPUTER_USE: "left_click",
    VNC_COMMAND: "mouse_click",
}


@pytest.mark.parametrize("name", PLAYERS)
def test_service_excluded_action_is_refused(name: str) -> None:
    excluded = EXCLUDED.get(name, "click")
    with PLAYERS[name].conversation(
        [PLAYERS[name].click()], excluded_actions=[excluded]
    ) as conversation:
        [action] = conversation.actions()
        assert isinstance(action, InvalidAction)
        assert f"'{excluded}' is excluded in this run" in action.problem


def test_service_turn_not_its_own_is_summarised(player: Player) -> None:
    """One of another planner, and one of which not all actions were performed."""
    turn = (
        player.click() if player.one_by_one else player.say(Said((MIDDLE, Wait(1.0))))
    )
    with player.conversation([turn, player.done]) as conversation:
        conversation.history.perform(
            Decision("act", proposals=(Proposal(Click(1, 1), "to open it"),))
        )
        conversation.act()
        if not player.one_by_one:
            conversation.history.turns[1] = dataclasses.replace(
                conversation.history.turns[1],
                steps=conversation.history.turns[1].steps[:1],
            )
        assert conversation.decide().kind == "finished"
        assert says(conversation.server.requests[0], "Click(x=1, y=1")
        assert says(conversation.server.requests[0], "(to open it): ok")
        assert player.one_by_one or says(conversation.server.requests[1], "So far, in ")


SENT = {
    "gemini": {3: [1, 2, 3, 3, 3], 1: [1] * 5},
    "anthropic": {3: [1, 2, 3, 2, 3], 2: [1, 2, 1, 2, 1]},
    "openai": {3: [1, 2, 3, 2, 3], 1: [1] * 5},
    COMMANDS: {3: [1, 2, 3, 3, 3], 2: [1, 2, 2, 2, 2]},
}
"""The screenshots of five requests, by how many are kept. Some remove several at a
time, for the service's cache.
"""


@pytest.mark.parametrize(("name", "keep"), cases_of(SENT))
def test_service_gets_only_newest_screenshots(name: str, keep: int) -> None:
    with PLAYERS[name].conversation(
        lambda request: PLAYERS[name].click(), keep_screenshots=keep
    ) as conversation:
        for _ in range(5):
            conversation.act()
        sent = list(map(screens_of, conversation.server.requests))
        assert [len(screens) for screens in sent] == SENT[name][keep]
        earlier = conversation.history.turns[:-1]
        steps = chain.from_iterable(turn.steps for turn in earlier)
        newest = [step.frame_after.digest for step in steps]
        assert sent[-1] == newest[-len(sent[-1]) :]


@pytest.mark.parametrize("name", SENT)
def test_service_request_does_not_grow_with_run(name: str) -> None:
    with PLAYERS[name].conversation(
        lambda request: PLAYERS[name].click()
    ) as conversation:
        click = conversation.decide()
        # turns are summarised, and images removed, some at a time: after so many turns
        # as many are left
        for turns in (79, 145):
            while len(conversation.history.turns) < turns:
                conversation.history.perform(click)
            conversation.decide()
        shorter, longer = (
            len("".join(texts_of(request)))
            for request in conversation.server.requests[1:]
        )
        assert abs(longer - shorter) < 200
        assert says(conversation.server.requests[-1], "earlier steps)")


CHAT = partial(OpenAICompatible, base_url="http://localhost:1234", model="m")
PLANNERS = (GeminiComputerUse, AnthropicComputer, OpenAIComputer, CHAT)
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"keep_screenshots": 0}, "keep_screenshots must be at least 1, got 0"),
    (
        {"excluded_actions": ["klick"]},
        r"excluded_actions must be among .*, got \['klick'\]",
    ),
    ({"functions": [lambda: None]}, "needs a name and a docstring"),
    (
        {"base_url": "ftp://host"},
        "base_url must be a URL such as https://host/path, got",
    ),
]


@pytest.mark.parametrize(
    ("planner", "settings", "problem"),
    [
        *((planner, *row) for planner, row in product(PLANNERS, WRONG)),
        (CHAT, {"model": ""}, "model must not be empty, got ''"),
        (
            CHAT,
            {"base_url": "http://u:secret@host/v1"},
            "^base_url must not contain a user name or a password. Pass",
        ),
        (
            CHAT,
            {"toolset": "gestures"},
            (
                "toolset must be one of commands, computer_use, vnc_command,"
                " local_agent, got"
            ),
        ),
        (
            CHAT,
            {"coordinates": "percent"},
            "coordinates must be one of 1000, pixels, got 'percent'",
        ),
    ],
)
def test_planner_wrong_setting_raises_settings_error(
    planner: Any, settings: dict[str, Any], problem: str
) -> None:
    with pytest.raises(SettingsError, match=problem):
        planner(**{"api_key": "a key", **settings})


STARTERS: dict[str, Callable[[ExitStack], Planner]] = {
    **{
        name: lambda stack, player=player: (
            stack.enter_context(
                player.conversation(lambda asked: player.click())
            ).planner
        )  # type: ignore[misc]
        for name, player in PLAYERS.items()
    },
    "callable": lambda stack: as_planner(lambda observation: MIDDLE),
    "re-enacted": lambda stack: Reenactment(
        Execution(steps=(ExecutionStep(action=MIDDLE),) * 2)
    ),
    "scripted": lambda stack: ScriptedPlanner(lambda observation: [MIDDLE]),
}


@pytest.mark.parametrize("name", STARTERS)
def test_planner_decides_by_observation_alone(name: str) -> None:
    """Turns may be asked for again, and out of order, as when a run is resumed."""
    history = History()
    with ExitStack() as stack:
        planner = STARTERS[name](stack)
        assert name.startswith(planner.name.split()[0])
        first = history.observation()
        decision = planner.decide(first, timeout_s=20.0)
        assert decision.kind == "act"
        assert [proposal.action for proposal in decision.proposals] == [MIDDLE]
        history.perform(decision)
        assert planner.decide(history.observation(), timeout_s=20.0).kind == "act"
        assert planner.decide(first, timeout_s=20.0).proposals == decision.proposals


def run(
    planner: Planner | None, runs: Path, fields: Any = None, **options: Any
) -> RunResult:
    """Perform a task in memory."""
    options = {"controller": PaintedController(), **options}
    agent = VncUseAgent(
        settings=Settings(runs_dir=str(runs), **(fields or {})),
        planner=planner,
        **options,
    )
    return agent.run("Open the basket")


def test_turns_of_run_are_counted_and_shown(tmp_path: Path, player: Player) -> None:
    """A call without a meaning is reported to the model; a batch is one call of it, and
    one turn.
    """
    bash = player.call("bash")
    batch = Said(tuple(Click(10 * number, 20) for number in range(1, 6)), "All five.")
    turns = [batch]
    if player.one_by_one:
        turns = [Said((action,), batch.text) for action in batch.actions]
    controller = PaintedController()
    script = [bash, *map(player.say, turns), player.done]
    with player.conversation(script) as conversation:
        server = conversation.server
        result = run(conversation.planner, tmp_path, controller=controller)
        assert result.outcome == Outcome.DONE
        assert len(server.requests) == 2 + len(turns)
        answered = "\n".join(texts_of(server.requests[1]))
    assert len(controller.performed) == 5

    trace = read_trace(result.run_dir)
    html = run_html(result.run_dir, link=data_uri)
    errors = [step.error for step in trace.steps if step.error]
    errors += [
        exchange.error
        for exchange in trace.exchanges
        if exchange.retry_in_s is not None
    ]
    [problem] = errors
    assert "\n" not in problem
    assert escape(problem[:300]) in html
    assert problem in answered
    if not player.one_by_one:
        clicks = result.steps[-5:]
        assert len({step.turn for step in clicks}) == 1
        costs_nothing = [step.usage == Usage() for step in clicks]
        assert costs_nothing == [False, True, True, True, True]
        assert "action 5 of 5</dd>" in html


def test_only_calls_without_meaning_give_up(tmp_path: Path, player: Player) -> None:
    bash = player.call("bash")
    with player.conversation(lambda request: bash) as conversation:
        result = run(conversation.planner, tmp_path)
        assert result.outcome == Outcome.GAVE_UP
        assert len(conversation.server.requests) <= 4


def test_large_result_is_cut_secret_is_hidden_whole(tmp_path: Path) -> None:
    secret = "swordfish-swordfish"
    player = PLAYERS["gemini"]

    def lookup() -> str:
        """All that there is."""
        return (
            "x" * (MAX_OUTPUT_LENGTH - len(secret) // 2)
            + secret
            + "y" * (20 * MAX_OUTPUT_LENGTH)
        )

    script = [player.call("lookup"), player.done]
    with player.conversation(script, functions=[lookup]) as conversation:
        server = conversation.server
        result = run(
            conversation.planner,
            tmp_path,
            functions=[lookup],
            secrets={"WORD": secret},
        )
        assert result.outcome == Outcome.DONE
        assert max(len(posted.raw) for posted in server.posted) < 10 * MAX_OUTPUT_LENGTH
        assert says(server.requests[1], f"(the first {MAX_OUTPUT_LENGTH} of ")
    assert result.steps[0].output.endswith("x<secret:W")
    html = run_html(result.run_dir, link=data_uri)
    assert f"(the first {MAX_OUTPUT_LENGTH} of " in html
    files = [file for file in result.run_dir.rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in files) < 20 * MAX_OUTPUT_LENGTH
    assert [file for file in files if b"swordfish" in file.read_bytes()] == []


def test_verify_observer_sees_only_current_screen(tmp_path: Path) -> None:
    """A failure of its service is reported to the model."""
    asks = call("verify", question="The basket is open, and <secret:PIN> is not shown")
    answer = chat_server.said(
        json.dumps({"reason": "It is closed.", "value": "no", "box_2d": None})
    )
    wrong_key = openai_error(401, "invalid_api_key", "Incorrect.")
    with ChatServer(
        [
            call("click", x=500, y=500),
            asks,
            answer,
            asks,
            wrong_key,
            PLAYERS[COMMANDS].done,
        ]
    ) as server:
        fields = {
            "planner": "openai",
            "base_url": server.url,
            "model": chat_server.MODEL,
        }
        result = run(None, tmp_path, fields, secrets={"PIN": "4711"})
    assert [step.output for step in result.steps] == ["", "no: It is closed.", ""]
    assert [step.error[:27] for step in result.steps] == [
        "",
        "",
        "verify raised KeyRejected: ",
    ]
    question = next(
        request for request in server.requests if "tools" not in request.body
    )
    assert question.images == (painted(1).png,)
    assert "<secret:PIN>" in question.texts[1]
    assert not [
        text for text in question.texts if "Open the basket" in text or "4711" in text
    ]
    assert server.requests[3].of("tool")[-1]["content"] == "no: It is closed."
    purposes = [exchange.purpose for exchange in read_exchanges(result.run_dir)]
    assert purposes == ["planner", "planner", "judge", "planner", "judge", "planner"]
    assert (result.outcome, read_trace(result.run_dir).verdicts) == (Outcome.DONE, ())
