"""The contract of the document about a LangGraph agent on VNC: signatures, defaults, shapes, and its flow."""

from __future__ import annotations

import inspect
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import pytest
from google.genai import types

from pytest_vnc_use import Outcome, VncUseAgent, safety
from pytest_vnc_use.backends.vnc import VNCController
from pytest_vnc_use.cli import main
from pytest_vnc_use.errors import AuthenticationFailed, SettingsError
from pytest_vnc_use.planners.gemini import GeminiComputerUse, denorm, denorm_x, denorm_y
from pytest_vnc_use.runs.directory import read_trace
from pytest_vnc_use.types import (
    Action,
    CallFunction,
    Click,
    Drag,
    Frame,
    InvalidAction,
    KeyCombo,
    KeyDown,
    KeyUp,
    MouseDown,
    MouseUp,
    Move,
    Observation,
    Scroll,
    TakeScreenshot,
    TypeText,
)
from support import vnc_servers
from support.conversations import QUICK, frame_of
from support.gemini_rules import COMPUTER_USE_ONLY
from support.gemini_server import GeminiServer, Reply, calls, stopped, text, wants_confirmation
from support.memory_desktop import PaintedController
from support.served_screen import Motion, ServedScreen, served_screen
from support.vnc_servers import wait_for

REQUIRED = inspect.Parameter.empty
AT = {"x": 500, "y": 500}
PLAIN = {"press_enter": False, "clear_before_typing": False}
CLICK = calls(("click_at", AT), signed=False)
RISKY = calls(("click_at", wants_confirmation(AT, "This pays.")), signed=False)
DONE = text("It is open.")


def open_app(name: str) -> str:
    """Open an application."""
    return name


@pytest.fixture
def replies() -> list[Reply]:
    """The answers of the service, which a test sets; after them it says that the task is done."""
    return []


@pytest.fixture
def service(replies: list[Reply], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[GeminiServer]:
    """A service to which the environment leads."""
    monkeypatch.chdir(tmp_path)
    with GeminiServer(lambda request: replies.pop(0) if replies else DONE, with_ids=False) as server:
        monkeypatch.setenv("GOOGLE_API_KEY", server.api_key)
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
        yield server


@pytest.fixture
def gemini(service: GeminiServer) -> GeminiComputerUse:
    return GeminiComputerUse(None, model=COMPUTER_USE_ONLY, backoff=QUICK)


@pytest.mark.parametrize(
    ("function", "parameters"),
    [
        (VncUseAgent, {"vnc_server": "localhost::5901", "vnc_password": None, "screen_size": (1440, 900)}),
        (VncUseAgent, {"excluded_actions": None, "step_limit": 40, "seconds_timeout": 300, "hitl_mode": True}),
        (VncUseAgent, {"include_initial_screenshot": None, "include_thoughts": None}),
        (VncUseAgent.run, {"task": REQUIRED}),
        (VncUseAgent.approve, {"run_id": ""}),
        (VncUseAgent.deny, {"run_id": ""}),
        (VncUseAgent.resume, {"run_id": REQUIRED}),
        (safety.approve, {"agent": REQUIRED, "run_id": ""}),
        (safety.deny, {"agent": REQUIRED, "run_id": ""}),
        (GeminiComputerUse, {"excluded_actions": None}),
        (GeminiComputerUse.start_contents, {"task": REQUIRED, "maybe_initial_png": None}),
        (GeminiComputerUse.generate, {"contents": REQUIRED, "config": None}),
        (GeminiComputerUse.extract_function_calls, {"response": REQUIRED}),
        (GeminiComputerUse.build_function_response, {"name": REQUIRED, "screenshot_png": None, "extra": None}),
        (denorm, {"x": REQUIRED, "y": REQUIRED, "width": REQUIRED, "height": REQUIRED}),
        (VNCController.connect, {"server": REQUIRED, "password": None}),
        (VNCController.click, {"x": REQUIRED, "y": REQUIRED, "button": "left"}),
        (VNCController.scroll, {"direction": None, "magnitude": None}),
        (VNCController.drag_and_drop, dict.fromkeys(("x0", "y0", "x1", "y1"), REQUIRED)),
        (VNCController.key_combo, {"keys": REQUIRED}),
        (VNCController.screenshot_png, {}),
        (VNCController.move, {"x": REQUIRED, "y": REQUIRED}),
        (VNCController.double_click, {"x": REQUIRED, "y": REQUIRED}),
        (VNCController.type_text, {"text": REQUIRED, "press_enter": False, "clear_first": False}),
    ],
)
def test_function_has_parameters(function: Any, parameters: dict[str, object]) -> None:
    found = {name: each.default for name, each in inspect.signature(function).parameters.items()}
    assert {name: found.get(name, "none") for name in parameters} == parameters


EXPORTED = (
    "agent:VncUseAgent backends.vnc:VNCController planners.gemini:GeminiComputerUse types:Click types:CUAState "
    "safety:approve safety:deny cli:main"
)


@pytest.mark.parametrize("name", EXPORTED.split())
def test_module_has_name(name: str) -> None:
    assert pkgutil.resolve_name(f"pytest_vnc_use.{name}")


@pytest.mark.parametrize("command", [["-m", "pytest_vnc_use.cli"], [str(Path(sys.executable).with_name("cua-vnc"))]])
def test_command_line_starts_as_module_and_script(command: list[str]) -> None:
    argv = command if len(command) == 1 else [sys.executable, *command]
    printed = subprocess.run([*argv, "run", "--help"], capture_output=True, text=True, check=True).stdout
    assert "--vnc" in printed
    assert "--task" in printed


LIBRARIES = "langgraph langgraph-checkpoint-sqlite google-genai vncdotool pillow typing-extensions pydantic"


def test_package_requires_libraries() -> None:
    requirements = {re.split(r"[^\w.-]", each)[0].lower() for each in requires("pytest-vnc-use") or []}
    assert set(LIBRARIES.split()) <= requirements


@pytest.fixture(scope="module")
def vnc() -> Iterator[tuple[VNCController, ServedScreen]]:
    """A controller on a server in this process."""
    with served_screen() as screen, closing(VNCController()) as controller:
        assert controller.connect(screen.address, None) is controller
        yield controller, screen


PRESSED = [MouseDown(10, 20), MouseUp(10, 20)]
MIDDLE = (200, 150)


def struck(*keys: str) -> list[Motion]:
    return [*map(KeyDown, keys), *map(KeyUp, reversed(keys))]


CLEARED_A_RETURN = [*struck("control", "a"), *struck("a"), *struck("return")]


@pytest.mark.parametrize(
    ("method", "args", "first", "motions"),
    [
        ("move", {"x": 10, "y": 20}, (10, 20), []),
        ("click", {"x": 10, "y": 20}, (10, 20), PRESSED),
        *[
            ("click", {"x": 10, "y": 20, "button": number}, (10, 20), [MouseDown(10, 20, name), MouseUp(10, 20, name)])
            for number, name in enumerate(("left", "middle", "right"), start=1)
        ],
        ("double_click", {"x": 10, "y": 20}, (10, 20), PRESSED * 2),
        ("drag_and_drop", {"x0": 10, "y0": 20, "x1": 60, "y1": 70}, (10, 20), [MouseDown(10, 20), MouseUp(60, 70)]),
        ("type_text", {"text": "ab"}, None, [*struck("a"), *struck("b")]),
        ("type_text", {"text": "a", "press_enter": True, "clear_first": True}, None, CLEARED_A_RETURN),
        ("key_combo", {"keys": "control+a"}, None, struck("control", "a")),
        *[
            ("scroll", {"direction": direction}, MIDDLE, [Scroll(*MIDDLE, direction, 1)] * 8)
            for direction in ("up", "down", "left", "right")
        ],
        ("scroll", {"direction": "down", "magnitude": 400}, MIDDLE, [Scroll(*MIDDLE, "down", 1)] * 4),
    ],
)
def test_controller_sends_events(
    vnc: tuple[VNCController, ServedScreen],
    method: str,
    args: dict[str, Any],
    first: tuple[int, int] | None,
    motions: list[Motion],
) -> None:
    controller, screen = vnc
    controller.move(1, 1)
    wait_for(lambda: screen.motions[-1:] == [Move(1, 1)], "the pointer's move")
    screen.motions.clear()
    getattr(controller, method)(**args)
    controller.move(2, 2)
    wait_for(lambda: screen.motions[-1:] == [Move(2, 2)], "the pointer's move after all events")
    assert [each for each in screen.motions if not isinstance(each, Move)] == motions
    assert first is None or screen.motions[0] == Move(*first)
    assert controller.screenshot_png().startswith(b"\x89PNG")


@pytest.mark.parametrize(("grid", "pixel"), [(0, (0, 0)), (500, (720, 450)), (999, (1439, 899))])
def test_denorm(grid: int, pixel: tuple[int, int]) -> None:
    assert denorm(grid, grid, 1440, 900) == (denorm_x(grid, 1440), denorm_y(grid, 900)) == pixel


@pytest.mark.parametrize(
    ("name", "args", "action"),
    [
        ("open_web_browser", {}, TakeScreenshot()),
        ("click_at", AT, Click(720, 450)),
        ("hover_at", AT, Move(720, 450)),
        ("type_text_at", {**AT, "text": "a"}, TypeText("a", 720, 450, press_enter=True, clear_first=True)),
        ("type_text_at", {**AT, "text": "a", **PLAIN}, TypeText("a", 720, 450)),
        ("key_combination", {"keys": "Control+A"}, KeyCombo(("Control", "A"))),
        ("scroll_document", {"direction": "down"}, Scroll(720, 450, "down", 7)),
        ("scroll_at", {**AT, "direction": "left"}, Scroll(720, 450, "left", 12)),
        ("scroll_at", {**AT, "direction": "up", "magnitude": 400}, Scroll(720, 450, "up", 4)),
        ("drag_and_drop", {"x": 0, "y": 0, "destination_x": 500, "destination_y": 500}, Drag(0, 0, 720, 450)),
        ("open_app", {"name": "shop"}, CallFunction("open_app", {"name": "shop"})),
    ],
)
def test_function_means_action(
    replies: list[Reply], service: GeminiServer, name: str, args: dict[str, Any], action: Action
) -> None:
    replies += [calls((name, args), signed=False), DONE]
    planner = GeminiComputerUse(model=COMPUTER_USE_ONLY, functions=[open_app])
    assert planner.decide(observation(), timeout_s=20.0).proposals[0].action == action


def observation() -> Observation:
    frame = frame_of(1)
    return Observation("Open the basket", frame.ref, frame.ref, (), lambda _: frame.png)


@pytest.mark.parametrize("excluded", [["click_at"], ["open_app"]])
def test_excluded_name_is_predefined_or_own(replies: list[Reply], service: GeminiServer, excluded: list[str]) -> None:
    replies += [calls((excluded[0], {}), signed=False)]
    planner = GeminiComputerUse(excluded, model=COMPUTER_USE_ONLY, functions=[open_app])
    [proposal] = planner.decide(observation(), timeout_s=20.0).proposals
    assert isinstance(proposal.action, InvalidAction)
    assert f"{excluded[0]!r} is excluded" in proposal.action.problem
    [request] = service.requests
    declared = [each["name"] for each in request.body["tools"][1]["functionDeclarations"]]
    assert ("open_app" in declared) == (excluded != ["open_app"])
    assert (request.computer_use or {}).get("excludedPredefinedFunctions", []) == [
        name for name in excluded if name != "open_app"
    ]
    with pytest.raises(SettingsError, match=r"got \['klick'\]"):
        GeminiComputerUse(["klick"])


def test_first_request_has_model_and_environment(service: GeminiServer, gemini: GeminiComputerUse) -> None:
    contents = gemini.start_contents("Open the basket", frame_of(1).png)
    assert [(content.role, len(content.parts or ())) for content in contents] == [("user", 2)]
    assert len(gemini.start_contents("Open the basket")[0].parts or ()) == 1
    response = gemini.generate(contents)
    assert isinstance(response, types.GenerateContentResponse)
    assert response.text == "It is open."
    [request] = service.requests
    assert request.model == "gemini-2.5-computer-use-preview-10-2025"
    assert request.computer_use == {"environment": "ENVIRONMENT_BROWSER"}
    assert "thinkingConfig" not in request.body["generationConfig"]


def test_config_of_sdk_is_sent(service: GeminiServer, gemini: GeminiComputerUse) -> None:
    browser = types.Environment.ENVIRONMENT_BROWSER
    computer_use = types.ComputerUse(environment=browser, excluded_predefined_functions=["search"])
    config = types.GenerateContentConfig(
        system_instruction="Be careful.",
        tools=[types.Tool(computer_use=computer_use)],
        thinking_config=types.ThinkingConfig(include_thoughts=False),
    )
    gemini.generate(gemini.start_contents("Open the basket"), config)
    body = service.requests[0].body
    assert body["systemInstruction"]["parts"] == [{"text": "Be careful."}]
    sent = {"environment": "ENVIRONMENT_BROWSER", "excludedPredefinedFunctions": ["search"]}
    assert service.requests[0].computer_use == sent
    assert body["generationConfig"] == {"thinkingConfig": {"includeThoughts": False}}


@pytest.mark.parametrize("with_ids", [False, True])
def test_loop_of_own_goes_on_until_no_calls(
    replies: list[Reply], service: GeminiServer, gemini: GeminiComputerUse, with_ids: bool
) -> None:
    service.with_ids = with_ids
    replies += [calls(("click_at", AT), ("hover_at", AT), signed=False), DONE]
    contents: list[Any] = gemini.start_contents("Open the basket", frame_of(1).png)
    response = gemini.generate(contents)
    found = gemini.extract_function_calls(response)
    assert [(call["name"], call["args"]) for call in found] == [("click_at", AT), ("hover_at", AT)]
    assert response.candidates
    contents.append(response.candidates[0].content)
    answers = [gemini.build_function_response(call["name"], frame_of(2).png, {"url": ""}) for call in found]
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
def test_function_response_shape(gemini: GeminiComputerUse, extra: Any, response: dict[str, str]) -> None:
    answer = gemini.build_function_response(name="click_at", screenshot_png=frame_of(1).png, extra=extra)
    assert (answer.name, answer.response) == ("click_at", response)
    assert answer.parts
    assert answer.parts[0].inline_data
    assert (answer.parts[0].inline_data.mime_type, answer.parts[0].inline_data.data) == ("image/png", frame_of(1).png)


def agent_of(controller: PaintedController, **given: Any) -> VncUseAgent:
    return VncUseAgent(model=COMPUTER_USE_ONLY, controller=controller, **given)


def test_sequential_function_calls(replies: list[Reply], service: GeminiServer) -> None:
    replies += [calls(("click_at", AT), ("hover_at", AT), ("click_at", AT), signed=False), CLICK, DONE]
    with agent_of(PaintedController(), screen_size=(320, 200)) as agent:
        result = agent.run(task="Open the basket")
    assert (result.outcome, result.message, len(result.steps)) == (Outcome.DONE, "It is open.", 4)
    responses = service.requests[-1].function_responses
    assert [bool(each.get("parts")) for each in responses] == [True] * 4
    assert [each["response"]["url"] for each in responses] == [""] * 4
    assert result.run_dir.parent.name == "runs"
    files = {file.name for file in result.run_dir.iterdir()}
    assert {"trace.jsonl", "exchanges.jsonl", "execution.json", "screens"} <= files
    assert service.api_key not in (result.run_dir / "exchanges.jsonl").read_text(encoding="utf-8")
    step = read_trace(result.run_dir).steps[0]
    assert (step.proposal.as_proposed["args"], step.proposal.action) == (AT, Click(160, 100))


class GrowingController(PaintedController):
    """A desktop that is larger after each action."""

    def frame(self) -> Frame:
        return frame_of(len(self.performed), 400 * (len(self.performed) + 1), 300 * (len(self.performed) + 1))


def test_screen_size_is_read_at_each_step(replies: list[Reply], service: GeminiServer) -> None:
    replies += [CLICK, CLICK, calls(("click_at", AT), ("hover_at", AT), signed=False), DONE]
    controller = GrowingController()
    with agent_of(controller) as agent:
        assert agent.run(task="Open the basket").outcome is Outcome.DONE
    assert controller.performed == [Click(200, 150), Click(400, 300), Click(600, 450), Move(600, 450)]


def test_error_goes_back_with_screenshot(replies: list[Reply], service: GeminiServer) -> None:
    wrong = [("fly_to", AT), ("click_at", {"x": 5}), ("key_combination", {"keys": "nosuchkey"})]
    replies += [calls(*wrong, signed=False), DONE]
    with agent_of(PaintedController()) as agent:
        assert agent.run(task="Open the basket").outcome is Outcome.DONE
    responses = service.requests[-1].function_responses
    assert [set(each["response"]) for each in responses] == [{"error", "url"}] * 3
    assert [bool(each.get("parts")) for each in responses] == [True] * 3


def test_safety_block_ends_run(replies: list[Reply], service: GeminiServer) -> None:
    replies += [CLICK, stopped("SAFETY")]
    with agent_of(PaintedController()) as agent:
        result = agent.run(task="Open the basket")
    assert (result.outcome, len(result.steps)) == (Outcome.BLOCKED, 1)
    assert "SAFETY" in result.message


@pytest.mark.desktop
def test_desktop_of_one_colour_is_driven_with_password(
    replies: list[Reply], service: GeminiServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("VNC_USE_START_SECONDS", "0.2")
    replies += [CLICK, DONE]
    with vnc_servers.tigervnc((400, 300), vnc_servers.password_file(tmp_path, "geheim12")) as server:
        with VncUseAgent(server.address, vnc_password="geheim12", model=COMPUTER_USE_ONLY) as agent:
            assert agent.run(task="Open the basket").outcome is Outcome.DONE
        with (
            VncUseAgent(server.address, vnc_password="wrong", model=COMPUTER_USE_ONLY) as agent,
            pytest.raises(AuthenticationFailed),
        ):
            agent.run(task="Open the basket")


@pytest.mark.parametrize(("answer", "outcome"), [("approve", Outcome.DONE), ("deny", Outcome.DENIED)])
def test_hitl_block(replies: list[Reply], service: GeminiServer, answer: str, outcome: Outcome) -> None:
    replies += [RISKY, DONE]
    controller = PaintedController()
    with agent_of(controller) as agent:
        assert agent.run(task="Buy").outcome is Outcome.WAITING
        assert controller.performed == []
        ended = getattr(safety, answer)(agent)
        assert (ended.outcome, ended.transcript.startswith("1 click(")) == (outcome, True)
        with pytest.raises(SettingsError, match=r"no run waits for approval\. Name the run"):
            agent.approve()
    acknowledged = [each["response"].get("safety_acknowledgement") for each in service.requests[-1].function_responses]
    assert acknowledged == (["true"] if answer == "approve" else [])


def test_waiting_run_is_approved_by_thread_id(replies: list[Reply], service: GeminiServer) -> None:
    """By an agent of another process, which has no run of its own."""
    replies += [RISKY, DONE]
    with agent_of(PaintedController()) as agent:
        run_id = agent.run(task="Buy").run_id
    with agent_of(PaintedController()) as agent:
        with pytest.raises(SettingsError, match="no run waits for approval"):
            agent.approve()
        assert agent.approve(run_id).outcome is Outcome.DONE


def test_hitl_mode_off_denies_what_needs_confirmation(replies: list[Reply], service: GeminiServer) -> None:
    replies += [RISKY, DONE]
    controller = PaintedController()
    with agent_of(controller, hitl_mode=False) as agent:
        assert agent.run(task="Buy").outcome is Outcome.DENIED
    assert controller.performed == []


def test_approve_lists_several_waiting_runs(replies: list[Reply], service: GeminiServer, capsys: Any) -> None:
    """Those of this agent; the command line, those of this directory."""
    assert main(["approve", "--vnc", "localhost::1"]) == 2
    assert "no run waits for approval. Name the run" in capsys.readouterr().err
    replies += [RISKY, RISKY]
    with agent_of(PaintedController()) as agent:
        several = [agent.run(task="Buy").run_id for _ in range(2)]
        with pytest.raises(SettingsError, match=f"2 runs wait for approval: {several[0]}, {several[1]}"):
            agent.deny()
    assert main(["deny", "--vnc", "localhost::1"]) == 2
    printed = capsys.readouterr().err
    assert "2 runs wait for approval" in printed
    assert all(run_id in printed for run_id in several)


@pytest.mark.parametrize(("shown", "images"), [(None, 1), (True, 1), (False, 0)])
def test_initial_screenshot_is_switch(service: GeminiServer, shown: bool | None, images: int) -> None:
    with agent_of(PaintedController(), include_initial_screenshot=shown, include_thoughts=True) as agent:
        agent.run(task="Open the basket")
    [request] = service.requests
    assert len(request.images) == images
    assert request.body["generationConfig"]["thinkingConfig"] == {"includeThoughts": True}


@pytest.mark.parametrize("guard", [{"step_limit": 1}, {"seconds_timeout": 0.3}])
def test_guard_ends_run(replies: list[Reply], service: GeminiServer, guard: dict[str, float]) -> None:
    replies += [CLICK] * 50
    controller = PaintedController()
    with agent_of(controller, **guard) as agent:
        outcome = agent.run(task="Open the basket").outcome
    assert outcome is (Outcome.STEP_LIMIT if "step_limit" in guard else Outcome.TIME_LIMIT)


TASK = "Open the basket"
UNSAID = "unrecognized arguments: --password; a password is given by its variable: --password-env NAME"


@pytest.mark.parametrize(
    ("argv", "code", "printed"),
    [
        ([TASK], 9, "localhost::1"),
        (["--task", TASK], 9, "localhost::1"),
        (["--excluded-actions", "search", TASK], 9, "localhost::1"),
        (["--password-env", "PASSWORD", TASK], 9, "localhost::1"),
        (["--password", "hunter22", TASK], 2, UNSAID),
    ],
)
def test_command_line_takes_arguments(
    argv: list[str], code: int, printed: str, service: GeminiServer, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setenv("PASSWORD", "hunter22")
    try:
        ended: Any = main(["run", "--vnc", "localhost::1", *argv])
    except SystemExit as exc:
        ended = exc.code
    output = "".join(capsys.readouterr())
    assert (ended, printed in output, "hunter22" in output) == (code, True, False)
