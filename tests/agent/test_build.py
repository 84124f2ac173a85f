"""From settings to desktops, planners, judges and keys: who gets which, and what a
wrong setting says.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_vnc_use import VncUseAgent
from pytest_vnc_use.agent import leasing, providers
from pytest_vnc_use.agent.credentials import ambient_secrets
from pytest_vnc_use.agent.providers import (
    build_judge,
    build_planner,
    check_supported,
    counted_in,
)
from pytest_vnc_use.errors import DesktopRefused, KeyMissing, SettingsError
from pytest_vnc_use.planners.anthropic import AnthropicComputer
from pytest_vnc_use.planners.chat.chat_completions import OpenAICompatible
from pytest_vnc_use.planners.common.toolset import DONE
from pytest_vnc_use.planners.gemini import GeminiComputerUse
from pytest_vnc_use.planners.openai import OpenAIComputer
from pytest_vnc_use.settings.layers import merge
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import Move
from support import gemini_server, vnc_servers
from support.chat_server import ChatServer, call, said
from support.memory_desktop import PaintedController
from support.players import Conversation, frame_of
from support.vnc_servers import require


@pytest.mark.desktop
@pytest.mark.filterwarnings("ignore:skipped this desktop")
def test_given_addresses_are_shared_one_user_at_time() -> None:
    with vnc_servers.tigervnc() as one, vnc_servers.tigervnc() as two:
        dead = f"127.0.0.1::{vnc_servers.free_port()}"
        settings = Settings(
            server=f"{dead},{one.address}, {two.address}", lease_seconds=0.5
        )
        with pytest.warns(
            UserWarning, match=f"skipped this desktop: .*{re.escape(dead)}"
        ):
            first = leasing.lease_desktop(settings, "one")
        second = leasing.lease_desktop(settings, "two")
        assert {first.server, second.server} == {one.address, two.address}
        with pytest.raises(DesktopRefused, match=f"'{re.escape(first.server)}' by one"):
            leasing.lease_desktop(settings, "three")
        first.stop()
        third = leasing.lease_desktop(settings, "three")
        assert third.server == first.server
        second.stop()
        third.stop()


def test_judge_for_acting_model_is_another_model() -> None:
    settings = Settings(
        planner="gemini", model="gemini-2.5-computer-use-preview-10-2025"
    )
    assert providers.model_that_judges(settings) == "gemini-3.8-flash"
    assert (
        providers.model_that_judges(replace(settings, model="gemini-3.5-flash-lite"))
        == "gemini-3.5-flash-lite"
    )
    assert (
        providers.model_that_judges(replace(settings, judge="gemini:other")) == "other"
    )


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GOOGLE_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "a-key")


LOCAL = "http://localhost:1234/v1"


@pytest.mark.parametrize(
    ("settings", "planner", "judge"),
    [
        (Settings(planner="gemini"), "gemini (gemini-3.8-flash)", "gemini-3.8-flash"),
        (
            Settings(planner="anthropic", judge="gemini"),
            "anthropic (claude-sonnet-5)",
            "gemini-3.8-flash",
        ),
        (Settings(planner="openai"), "openai (gpt-5.5)", "gpt-5.5"),
        (
            Settings(planner="openai", base_url=LOCAL, model="qwen3-vl-8b"),
            "openai-compatible (qwen3-vl-8b at localhost:1234)",
            "qwen3-vl-8b",
        ),
    ],
)
def test_planner_and_judge_named(
    keys: None, settings: Settings, planner: str, judge: str
) -> None:
    assert providers.build_planner(settings).name == planner
    assert providers.model_that_judges(settings) == judge
    assert type(providers.build_judge(settings)).__name__ != "NoJudge"


@pytest.mark.parametrize(
    ("settings", "build_it", "problem"),
    [
        (Settings(), leasing.lease_desktop, "--vnc-server must name a desktop, got ''"),
        (
            Settings(server="qt"),
            leasing.lease_desktop,
            "needs --vnc-app, the command of the program under test, got ''",
        ),
        (
            Settings(server="localhost::1", app="xterm"),
            leasing.lease_desktop,
            "--vnc-app='xterm' cannot be started",
        ),
        (
            Settings(server="xvncc"),
            leasing.lease_desktop,
            "--vnc-server must be host::port.*got 'xvncc'",
        ),
        (
            Settings(server="a::1,b::1", exec="docker exec -i desktop"),
            leasing.lease_desktop,
            "runs the same command for several servers, got .*'a::1', 'b::1'",
        ),
        (
            Settings(server="xvnc", screen_size=(99999, 1)),
            leasing.lease_desktop,
            r"1 to 16384 each, got \(99999, 1\)",
        ),
        (
            Settings(planner="no_such_module:plan"),
            providers.build_planner,
            "'no_such_module:plan' must be importable",
        ),
        (
            Settings(),
            providers.build_planner,
            "no planner is configured. Do the task once yourself",
        ),
        (
            Settings(planner="gemini", base_url=LOCAL),
            providers.build_planner,
            "--vnc-base-url needs .*, got .*'gemini'",
        ),
        (
            Settings(planner="openai", base_url=LOCAL),
            providers.build_planner,
            "--vnc-model must name the model",
        ),
    ],
)
def test_settings_incomplete_raise_settings_error(
    keys: None, settings: Settings, build_it: Callable[[Settings], object], problem: str
) -> None:
    with pytest.raises(SettingsError, match=problem):
        build_it(settings)


@pytest.mark.parametrize(
    ("settings", "size"),
    [
        (Settings(planner="gemini"), (1000, 1000)),
        (
            Settings(
                planner="openai",
                base_url=LOCAL,
                model="m",
                planner_options=("coordinates=pixels",),
            ),
            (1920, 1080),
        ),
        (
            Settings(planner="anthropic", planner_options=("tool=computer_20250124",)),
            (1456, 819),
        ),
        (Settings(planner="openai"), (1920, 1080)),
        (Settings(), (1920, 1080)),
    ],
)
def test_listed_elements_count_as_planner_does(
    settings: Settings, size: tuple[int, int]
) -> None:
    assert counted_in(settings)(1920, 1080) == size


@pytest.mark.desktop
def test_local_agent_frames_show_pointer() -> None:
    with vnc_servers.tigervnc() as server:
        server.output_of("xsetroot", "-mod", "16", "16", "-cursor_name", "crosshair")
        frames = []
        for toolset in ("local_agent", "commands"):
            controller = leasing.connect(
                Settings(server=server.address, toolset=toolset)
            )
            controller.perform(Move(300, 300))
            frames.append(controller.frame())
            controller.close()
        assert frames[0] != frames[1]


@pytest.mark.parametrize(
    ("text", "environment", "volumes", "network"),
    [
        ("", [], [], ""),
        (
            "-e 'A=two words' --env B -v x:/y:ro --network=none",
            ["A=two words", "B"],
            ["x:/y:ro"],
            "none",
        ),
    ],
)
def test_container_args_are_those_of_docker_run(
    text: str, environment: list[str], volumes: list[str], network: str
) -> None:
    assert leasing._container_options(text) == {
        "environment": environment,
        "volumes": volumes,
        "network": network,
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "--privileged x",
            "supports only -e, -v and --network, got '--privileged x'",
        ),
        ("-e 'A", "must be arguments of docker run, got .*No closing quotation"),
    ],
)
def test_invalid_container_args_are_rejected(text: str, problem: str) -> None:
    with pytest.raises(SettingsError, match=problem):
        leasing._container_options(text)


PRINTS = [sys.executable, "-c", "import json, os; print(json.dumps(dict(os.environ)))"]


@pytest.mark.desktop
@pytest.mark.parametrize("server", ["xvnc", "localhost::1"])
def test_key_variables_stay_out_of_commands(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SHOP_VNC", "VNC_USE_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.setenv(name, "not for the program")
    monkeypatch.setenv("SHOP_MODE", "test")
    settings = Settings(server=server, password_env="SHOP_VNC")
    if server == "xvnc":
        require("Xtigervnc")
    external = replace(settings, exec="env")
    desktop = (
        leasing.external_desktop(external)
        if leasing.is_external(settings)
        else leasing.lease_desktop(settings)
    )
    try:
        environment = json.loads(desktop.run(PRINTS).stdout)
    finally:
        desktop.stop()
    assert environment["SHOP_MODE"] == "test"
    assert "not for the program" not in environment.values()


SERVER = "openai with --vnc-base-url"
PLANNERS: dict[str, dict[str, Any]] = {
    "gemini": {"planner": "gemini"},
    "anthropic": {"planner": "anthropic"},
    "openai": {"planner": "openai"},
    SERVER: {"planner": "openai", "base_url": "http://localhost:1/v1"},
    "shop:plan": {"planner": "shop:plan"},
}
CLASSES = {
    "gemini": GeminiComputerUse,
    "anthropic": AnthropicComputer,
    "openai": OpenAIComputer,
    SERVER: OpenAICompatible,
}


@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model", "a-model"),
        ("api_key_command", "echo a-key"),
        ("toolset", "computer_use"),
    ],
)
def test_setting_is_supported_or_rejected_by_name(
    planner: str, name: str, value: object
) -> None:
    check_supported(Settings(**PLANNERS[planner]))
    settings = Settings(**PLANNERS[planner], **{name: value})
    if planner == SERVER or (name != "toolset" and planner in CLASSES):
        check_supported(settings)
        return
    with pytest.raises(
        SettingsError,
        match=(
            rf" does not support (--vnc-|vnc_){name}, got .* Remove"
            rf" (--vnc-|vnc_){name}, or use "
        ),
    ):
        check_supported(settings)


OPTIONS = (
    "disabled_safety_policies=ACCOUNT_CREATION,DATA_MODIFICATION",
    "detect_prompt_injection=false",
    "environment=browser",
    "keep_screenshots=2",
)
ARGUMENTS = {
    "disabled_safety_policies": ["ACCOUNT_CREATION", "DATA_MODIFICATION"],
    "detect_prompt_injection": False,
    "environment": "browser",
    "keep_screenshots": 2,
}


def test_planner_options_become_arguments() -> None:
    """As text of a setting, as a list of it, and as keyword arguments of an agent."""
    replies = 3 * [gemini_server.calls((DONE.name, {"message": "It is done."}))]
    with gemini_server.GeminiServer(replies) as server:
        key = {"GOOGLE_API_KEY": server.api_key, "GOOGLE_GEMINI_BASE_URL": server.url}
        with pytest.MonkeyPatch.context() as patch:
            for name, value in key.items():
                patch.setenv(name, value)
            texts = ({"planner": "gemini", "planner_options": " ".join(OPTIONS)}, str)
            for agent in (
                VncUseAgent(settings=merge(texts), controller=PaintedController()),
                VncUseAgent(
                    settings=Settings(planner="gemini", planner_options=OPTIONS),
                    controller=PaintedController(),
                ),
                VncUseAgent(controller=PaintedController(), **ARGUMENTS),
            ):
                agent.run("Look")
        assert [request.computer_use for request in server.requests] == 3 * [
            {
                "environment": "ENVIRONMENT_BROWSER",
                "disabledSafetyPolicies": ["ACCOUNT_CREATION", "DATA_MODIFICATION"],
            }
        ]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (
            "temperature=hot",
            "temperature of vnc_planner_options: Input should be a valid number, unable"
            " to parse string as a number, got 'hot'",
        ),
        (
            "coordinates=inches",
            "coordinates of vnc_planner_options: Input should be '1000' or 'pixels',"
            " got 'inches'",
        ),
        (
            "colour=red",
            "has no option 'colour'. vnc_planner_options supports coordinates, ",
        ),
        ("api_key=a-key", "has no option 'api_key'"),
        ("functions=open", "has no option 'functions'"),
        ("model=other", "has no option 'model'"),
    ],
)
def test_planner_option_invalid_raises_settings_error(
    option: str, message: str
) -> None:
    settings = Settings(
        planner="openai", base_url=LOCAL, model="m", planner_options=(option,)
    )
    with pytest.raises(SettingsError, match=message):
        build_planner(settings)


def python(code: str) -> str:
    """Return a command that runs Python code."""
    return shlex.join([sys.executable, "-S", "-c", code])


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (python("print('secret-1'); raise SystemExit(3)"), "its exit code was 3"),
        (python("print('secret-1 and words')"), "its output must be one word"),
        (python("pass"), "it printed nothing"),
        ("'unclosed", "No closing quotation"),
        ("/no/such/program", "No such file"),
        (
            python("import time; print('secret-1', flush=True); time.sleep(60)"),
            "it did not end within 2 s",
        ),
    ],
)
def test_failure_is_one_error_without_output(
    command: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_vnc_use.agent.credentials.KEY_COMMAND_S", 2.0)
    with pytest.raises(SettingsError, match=problem) as failed:
        build_planner(Settings(planner="gemini", api_key_command=command))
    assert "secret-1" not in str(failed.value).replace(repr(command), "")


def test_judge_of_another_service_does_not_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(KeyMissing):
        build_judge(
            Settings(
                planner="gemini",
                judge="anthropic",
                api_key_command=python("print('fetched-key')"),
            )
        )


def test_refused_key_is_refetched_for_planner_and_judge(tmp_path: Path) -> None:
    counted = tmp_path / "runs"
    command = python(
        f"file = open({str(counted)!r}, 'a'); file.write('x'); print(['old-key',"
        " 'new-key'][min(file.tell(), 2) - 1])"
    )
    with ChatServer(
        [call("wait"), said('{"reason": "So.", "verdict": "holds", "box_2d": null}')],
        api_key="new-key",
    ) as server:
        settings = Settings(
            planner="openai",
            base_url=server.url,
            model="some-model",
            api_key_command=command,
        )
        planner = build_planner(settings)
        judge = build_judge(settings)
        assert Conversation(server, planner).decide().kind == "act"
        assert judge.judge("It is so.", frame_of(1), timeout_s=20.0)
        assert counted.read_text() == "xx"
        assert build_planner(settings)
    assert counted.read_text() == "xx", "once fetched, it is kept"
    assert "new-key" not in os.environ.values()
    assert "new-key" in ambient_secrets(settings).values()
