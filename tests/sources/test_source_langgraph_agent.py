"""The contract of the document about a LangGraph agent on VNC: signatures, defaults,
shapes, and its flow.
"""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pytest_vnc_use import Outcome, Policy, VncUseAgent, safety
from pytest_vnc_use.backends.vnc import VNCController
from pytest_vnc_use.cli import main
from pytest_vnc_use.errors import AuthenticationFailed, SettingsError
from pytest_vnc_use.planners.gemini import GeminiComputerUse, denorm, denorm_x, denorm_y
from pytest_vnc_use.runs.directory import read_trace
from pytest_vnc_use.safety.policy_file import load_policy
from pytest_vnc_use.types import (
    Click,
    Frame,
    InvalidAction,
    KeyDown,
    KeyUp,
    MouseDown,
    MouseUp,
    Move,
    Observation,
    Scroll,
)
from support import vnc_servers
from support.gemini_server import (
    COMPUTER_USE_ONLY,
    GeminiServer,
    Reply,
    calls,
    text,
    wants_confirmation,
)
from support.memory_desktop import PaintedController
from support.players import QUICK, frame_of
from support.served_screen import BUTTONS, Motion, served_screen
from support.vnc_servers import wait_for

REQUIRED = inspect.Parameter.empty
AT = {"x": 500, "y": 500}
CLICK = calls(("click_at", AT), signed=False)
RISKY = calls(("click_at", wants_confirmation(AT, "This pays.")), signed=False)
DONE = text("It is open.")


def open_app(name: str) -> str:
    """Open an application."""
    return name


@pytest.fixture
def replies() -> list[Reply]:
    """The answers of the service, which a test sets; after them it says that the task
    is done.
    """
    return []


@pytest.fixture
def service(
    replies: list[Reply], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[GeminiServer]:
    """A service to which the environment leads."""
    monkeypatch.chdir(tmp_path)
    with GeminiServer(
        lambda request: replies.pop(0) if replies else DONE, with_ids=False
    ) as server:
        monkeypatch.setenv("GOOGLE_API_KEY", server.api_key)
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
        yield server


@pytest.fixture
def types() -> Any:
    """The types of Google's SDK, which are imported for a second: only by the worker
    that needs them.
    """
    from google.genai import types

    return types


@pytest.fixture
def gemini(service: GeminiServer) -> GeminiComputerUse:
    return GeminiComputerUse(None, model=COMPUTER_USE_ONLY, backoff=QUICK)


@pytest.mark.parametrize(
    ("function", "parameters"),
    [
        (
            VncUseAgent,
            {
                "vnc_server": "localhost::5901",
                "vnc_password": None,
                "screen_size": (1440, 900),
            },
        ),
        (
            VncUseAgent,
            {
                "excluded_actions": None,
                "step_limit": 40,
                "seconds_timeout": 300,
                "hitl_mode": True,
            },
        ),
        (VncUseAgent.approve, {"run_id": ""}),
        (VncUseAgent.resume, {"run_id": REQUIRED}),
        (safety.deny, {"agent": REQUIRED, "run_id": ""}),
        (
            GeminiComputerUse.start_contents,
            {"task": REQUIRED, "maybe_initial_png": None},
        ),
        (GeminiComputerUse.generate, {"contents": REQUIRED, "config": None}),
        (denorm, {"x": REQUIRED, "y": REQUIRED, "width": REQUIRED, "height": REQUIRED}),
        (VNCController.connect, {"server": REQUIRED, "password": None}),
    ],
)
def test_function_has_parameters(function: Any, parameters: dict[str, object]) -> None:
    found = {
        name: each.default
        for name, each in inspect.signature(function).parameters.items()
    }
    assert {name: found.get(name, "none") for name in parameters} == parameters


def test_command_line_starts_as_script() -> None:
    command = [str(Path(sys.executable).with_name("cua-vnc")), "run", "--help"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "--vnc" in printed
    assert "--task" in printed


def struck(*keys: str) -> list[Motion]:
    return [*map(KeyDown, keys), *map(KeyUp, reversed(keys))]


def test_controller_sends_events() -> None:
    pressed = [MouseDown(10, 20), MouseUp(10, 20)]
    each_pressed: list[Motion] = []
    for button in BUTTONS:
        each_pressed += [MouseDown(10, 20, button), MouseUp(10, 20, button)]
    middle = (200, 150)
    with served_screen() as screen, closing(VNCController()) as controller:
        assert controller.connect(screen.address, None) is controller
        controller.move(10, 20)
        controller.click(10, 20)
        for number in (1, 2, 3):
            controller.click(x=10, y=20, button=number)
        controller.double_click(x=10, y=20)
        controller.drag_and_drop(x0=10, y0=20, x1=60, y1=70)
        controller.type_text(text="a", press_enter=True, clear_first=True)
        controller.key_combo(keys="control+a")
        controller.scroll(direction="up")
        controller.scroll(direction="left")
        controller.scroll(direction="down", magnitude=400)
        controller.move(2, 2)
        wait_for(
            lambda: screen.motions[-1:] == [Move(2, 2)],
            "the pointer's move after all events",
        )
        assert controller.screenshot_png().startswith(b"\x89PNG")
    assert [each for each in screen.motions if not isinstance(each, Move)] == [
        *pressed,
        *each_pressed,
        *pressed * 2,
        MouseDown(10, 20),
        MouseUp(60, 70),
        *struck("control", "a"),
        *struck("a"),
        *struck("return"),
        *struck("control", "a"),
        *[Scroll(*middle, "up", 1)] * 8,
        *[Scroll(*middle, "left", 1)] * 8,
        *[Scroll(*middle, "down", 1)] * 4,
    ]


@pytest.mark.parametrize(
    ("grid", "pixel"), [(0, (0, 0)), (500, (720, 450)), (999, (1439, 899))]
)
def test_denorm(grid: int, pixel: tuple[int, int]) -> None:
    assert (
        denorm(grid, grid, 1440, 900)
        == (denorm_x(grid, 1440), denorm_y(grid, 900))
        == pixel
    )


def observation() -> Observation:
    frame = frame_of(1)
    return Observation("Open the basket", frame.ref, frame.ref, (), lambda _: frame.png)


def test_excluded_name_is_predefined_or_own(
    replies: list[Reply], service: GeminiServer
) -> None:
    excluded = ["click_at", "open_app"]
    replies += [calls(*((name, {}) for name in excluded), signed=False)]
    planner = GeminiComputerUse(excluded, model=COMPUTER_USE_ONLY, functions=[open_app])
    proposals = planner.decide(observation(), timeout_s=20.0).proposals
    problems = [
        f"{name!r} is excluded in this run; use another action" for name in excluded
    ]
    assert [proposal.action for proposal in proposals] == list(
        map(InvalidAction, excluded, problems)
    )
    [request] = service.requests
    assert "open_app" not in [
        each["name"] for each in request.body["tools"][1]["functionDeclarations"]
    ]
    assert (request.computer_use or {})["excludedPredefinedFunctions"] == ["click_at"]


def test_custom_loop_starts_with_task_and_sdk_answer(
    service: GeminiServer, gemini: GeminiComputerUse, types: Any
) -> None:
    contents = gemini.start_contents("Open the basket", frame_of(1).png)
    assert [(content.role, len(content.parts or ())) for content in contents] == [
        ("user", 2)
    ]
    assert len(gemini.start_contents("Open the basket")[0].parts or ()) == 1
    response = gemini.generate(contents)
    assert isinstance(response, types.GenerateContentResponse)
    assert response.text == "It is open."
    assert "thinkingConfig" not in service.requests[0].body["generationConfig"]


def test_config_of_sdk_is_sent(
    service: GeminiServer, gemini: GeminiComputerUse, types: Any
) -> None:
    browser = types.Environment.ENVIRONMENT_BROWSER
    computer_use = types.ComputerUse(
        environment=browser, excluded_predefined_functions=["search"]
    )
    config = types.GenerateContentConfig(
        system_instruction="Be careful.",
        tools=[types.Tool(computer_use=computer_use)],
        thinking_config=types.ThinkingConfig(include_thoughts=False),
    )
    gemini.generate(gemini.start_contents("Open the basket"), config)
    body = service.requests[0].body
    assert body["systemInstruction"]["parts"] == [{"text": "Be careful."}]
    sent = {
        "environment": "ENVIRONMENT_BROWSER",
        "excludedPredefinedFunctions": ["search"],
    }
    assert service.requests[0].computer_use == sent
    assert body["generationConfig"] == {"thinkingConfig": {"includeThoughts": False}}


@pytest.mark.parametrize("with_ids", [False, True])
def test_loop_of_own_goes_on_until_no_calls(
    replies: list[Reply],
    service: GeminiServer,
    gemini: GeminiComputerUse,
    types: Any,
    with_ids: bool,
) -> None:
    service.with_ids = with_ids
    replies += [calls(("click_at", AT), ("hover_at", AT), signed=False), DONE]
    contents: list[Any] = gemini.start_contents("Open the basket", frame_of(1).png)
    response = gemini.generate(contents)
    found = gemini.extract_function_calls(response)
    assert [(call["name"], call["args"]) for call in found] == [
        ("click_at", AT),
        ("hover_at", AT),
    ]
    assert response.candidates
    contents.append(response.candidates[0].content)
    answers = [
        gemini.build_function_response(call["name"], frame_of(2).png, {"url": ""})
        for call in found
    ]
    parts = [types.Part(function_response=answer) for answer in answers]
    contents.append(types.Content(role="user", parts=parts))
    assert gemini.extract_function_calls(gemini.generate(contents)) == []
    assert service.refusals == []


@pytest.mark.parametrize(
    ("extra", "response"),
    [
        (None, {"url": ""}),
        ({"url": "https://shop"}, {"url": "https://shop"}),
        ({"error": "no such place"}, {"url": "", "error": "no such place"}),
    ],
)
def test_function_response_shape(
    gemini: GeminiComputerUse, extra: Any, response: dict[str, str]
) -> None:
    answer = gemini.build_function_response(
        name="click_at", screenshot_png=frame_of(1).png, extra=extra
    )
    assert (answer.name, answer.response) == ("click_at", response)
    assert answer.parts
    assert answer.parts[0].inline_data
    assert answer.parts[0].inline_data.mime_type == "image/png"
    assert answer.parts[0].inline_data.data == frame_of(1).png


def agent_of(controller: PaintedController, **given: Any) -> VncUseAgent:
    return VncUseAgent(model=COMPUTER_USE_ONLY, controller=controller, **given)


def test_sequential_function_calls(replies: list[Reply], service: GeminiServer) -> None:
    replies += [
        calls(("click_at", AT), ("hover_at", AT), ("click_at", AT), signed=False),
        CLICK,
        DONE,
    ]
    with agent_of(PaintedController(), screen_size=(320, 200)) as agent:
        result = agent.run(task="Open the basket")
    assert result.outcome == Outcome.DONE
    assert result.message == "It is open."
    assert len(result.steps) == 4
    responses = service.requests[-1].function_responses
    assert [bool(each.get("parts")) for each in responses] == [True] * 4
    assert [each["response"]["url"] for each in responses] == [""] * 4
    assert result.run_dir.parent.name == "runs"
    files = {file.name for file in result.run_dir.iterdir()}
    assert {"trace.jsonl", "exchanges.jsonl", "execution.json", "screens"} <= files
    assert service.api_key not in (result.run_dir / "exchanges.jsonl").read_text(
        encoding="utf-8"
    )
    step = read_trace(result.run_dir).steps[0]
    assert step.proposal.as_proposed["args"] == AT
    assert step.proposal.action == Click(160, 100)


class GrowingController(PaintedController):
    """A desktop that is larger after each action."""

    def frame(self) -> Frame:
        return frame_of(
            len(self.performed),
            400 * (len(self.performed) + 1),
            300 * (len(self.performed) + 1),
        )


def test_screen_size_is_read_at_each_step(
    replies: list[Reply], service: GeminiServer
) -> None:
    replies += [
        CLICK,
        CLICK,
        calls(("click_at", AT), ("hover_at", AT), signed=False),
        DONE,
    ]
    controller = GrowingController()
    with agent_of(controller) as agent:
        assert agent.run(task="Open the basket").outcome is Outcome.DONE
    assert controller.performed == [
        Click(200, 150),
        Click(400, 300),
        Click(600, 450),
        Move(600, 450),
    ]


def test_error_goes_back_with_screenshot(
    replies: list[Reply], service: GeminiServer
) -> None:
    wrong = [
        ("fly_to", AT),
        ("click_at", {"x": 5}),
        ("key_combination", {"keys": "nosuchkey"}),
    ]
    replies += [calls(*wrong, signed=False), DONE]
    with agent_of(PaintedController()) as agent:
        assert agent.run(task="Open the basket").outcome is Outcome.DONE
    responses = service.requests[-1].function_responses
    assert [set(each["response"]) for each in responses] == [{"error", "url"}] * 3
    assert [bool(each.get("parts")) for each in responses] == [True] * 3


@pytest.mark.desktop
def test_desktop_of_one_colour_is_driven_with_password(
    replies: list[Reply],
    service: GeminiServer,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("VNC_USE_START_SECONDS", "0.2")
    replies += [CLICK, DONE]
    with vnc_servers.tigervnc(
        (400, 300), vnc_servers.password_file(tmp_path, "geheim12")
    ) as server:
        with VncUseAgent(
            server.address, vnc_password="geheim12", model=COMPUTER_USE_ONLY
        ) as agent:
            assert agent.run(task="Open the basket").outcome is Outcome.DONE
        with (
            VncUseAgent(
                server.address, vnc_password="wrong", model=COMPUTER_USE_ONLY
            ) as agent,
            pytest.raises(AuthenticationFailed),
        ):
            agent.run(task="Open the basket")


ALLOWING = """
[[rule]]
name = "whatever the model wants confirmed"
decision = "allow"
action = "*"
"""


@pytest.mark.parametrize("policy", ["file", "unmatched"])
def test_policy_allows_all_without_user(
    policy: str, replies: list[Reply], service: GeminiServer, tmp_path: Path
) -> None:
    replies += [RISKY, DONE]
    (tmp_path / "policy.toml").write_text(ALLOWING, encoding="utf-8")
    policies = {
        "file": load_policy(tmp_path / "policy.toml"),
        "unmatched": Policy(unmatched="allow"),
    }
    controller = PaintedController()
    with agent_of(controller, hitl_mode=False, policy=policies[policy]) as agent:
        assert agent.run(task="Buy").outcome is Outcome.DONE
    assert controller.performed == [Click(160, 100)]


@pytest.mark.parametrize(
    ("answer", "outcome"), [("approve", Outcome.DONE), ("deny", Outcome.DENIED)]
)
def test_hitl_block(
    replies: list[Reply], service: GeminiServer, answer: str, outcome: Outcome
) -> None:
    replies += [RISKY, RISKY, DONE]
    with agent_of(PaintedController(), hitl_mode=False) as agent:
        assert agent.run(task="Buy").outcome is Outcome.DENIED
    controller = PaintedController()
    with agent_of(controller) as agent:
        waiting = agent.run(task="Buy")
        assert (waiting.outcome, controller.performed) == (Outcome.WAITING, [])
        ended = getattr(safety, answer)(agent)
        assert ended.outcome == outcome
        assert ended.transcript.startswith("1 click(")
        with pytest.raises(
            SettingsError, match=r"no run waits for approval\. Name the run"
        ):
            agent.approve()
    acknowledged = [
        each["response"].get("safety_acknowledgement")
        for each in service.requests[-1].function_responses
    ]
    assert acknowledged == (["true"] if answer == "approve" else [])


def test_approve_takes_run_id_and_lists_waiting_runs(
    replies: list[Reply], service: GeminiServer, capsys: Any
) -> None:
    """Those of this agent; the command line, those of this directory."""
    assert main(["approve", "--vnc", "localhost::1"]) == 2
    assert "no run waits for approval. Name the run" in capsys.readouterr().err
    replies += [RISKY, RISKY, DONE]
    with agent_of(PaintedController()) as agent:
        several = [agent.run(task="Buy").run_id for _ in range(2)]
        with pytest.raises(
            SettingsError, match=f"2 runs wait for approval: {several[0]}, {several[1]}"
        ):
            agent.deny()
    assert main(["deny", "--vnc", "localhost::1"]) == 2
    printed = capsys.readouterr().err
    assert [run_id for run_id in several if run_id not in printed] == []
    with agent_of(PaintedController()) as another:
        with pytest.raises(SettingsError, match="no run waits for approval"):
            another.approve()
        assert another.approve(several[0]).outcome is Outcome.DONE


@pytest.mark.parametrize(("shown", "images"), [(None, 1), (False, 0)])
def test_initial_screenshot_is_switch(
    service: GeminiServer, shown: bool | None, images: int
) -> None:
    with agent_of(
        PaintedController(), include_initial_screenshot=shown, include_thoughts=True
    ) as agent:
        agent.run(task="Open the basket")
    [request] = service.requests
    assert len(request.images) == images
    assert request.body["generationConfig"]["thinkingConfig"] == {
        "includeThoughts": True
    }


@pytest.mark.parametrize(
    "argv",
    [
        ["--task", "Open"],
        [
            "--excluded-actions",
            "search",
            "--password-env",
            "PASSWORD",
            "Open the basket",
        ],
    ],
)
def test_command_line_takes_arguments(
    argv: list[str], service: GeminiServer, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setenv("PASSWORD", "hunter22")
    assert main(["run", "--vnc", "localhost::1", *argv]) == 9
    output = "".join(capsys.readouterr())
    assert "localhost::1" in output
    assert "hunter22" not in output
