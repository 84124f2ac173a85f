"""From settings to desktops: who gets which, and what a wrong setting says."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from pytest_vnc_use.agent import build
from pytest_vnc_use.agent.build import counted_in
from pytest_vnc_use.errors import DesktopRefused, SettingsError
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import Move
from support import vnc_servers


@pytest.mark.desktop
@pytest.mark.filterwarnings("ignore:skipped this desktop")
def test_given_addresses_are_shared_one_user_at_time() -> None:
    with vnc_servers.tigervnc() as one, vnc_servers.tigervnc() as two:
        dead = f"127.0.0.1::{vnc_servers.free_port()}"
        settings = Settings(server=f"{dead},{one.address}, {two.address}", lease_seconds=0.5)
        with pytest.warns(UserWarning, match=f"skipped this desktop: .*{re.escape(dead)}"):
            first = build.lease_desktop(settings, "one")
        second = build.lease_desktop(settings, "two")
        assert {first.server, second.server} == {one.address, two.address}
        with pytest.raises(DesktopRefused, match=f"'{re.escape(first.server)}' by one"):
            build.lease_desktop(settings, "three")
        first.stop()
        third = build.lease_desktop(settings, "three")
        assert third.server == first.server
        second.stop()
        third.stop()


def test_judge_of_model_that_only_acts_is_another_model() -> None:
    settings = Settings(planner="gemini", model="gemini-2.5-computer-use-preview-10-2025")
    assert build.model_that_judges(settings) == "gemini-3.8-flash"
    assert build.model_that_judges(replace(settings, model="gemini-3.5-flash-lite")) == "gemini-3.5-flash-lite"
    assert build.model_that_judges(replace(settings, judge="gemini:other")) == "other"


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GOOGLE_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "a-key")


LOCAL = "http://localhost:1234/v1"


@pytest.mark.parametrize(
    ("settings", "planner", "judge"),
    [
        (Settings(planner="gemini"), "gemini (gemini-3.8-flash)", "gemini-3.8-flash"),
        (Settings(planner="anthropic", judge="gemini"), "anthropic (claude-sonnet-5)", "gemini-3.8-flash"),
        (Settings(planner="openai"), "openai (gpt-5.5)", "gpt-5.5"),
        (
            Settings(planner="openai", base_url=LOCAL, model="qwen3-vl-8b"),
            "openai-compatible (qwen3-vl-8b at localhost:1234)",
            "qwen3-vl-8b",
        ),
    ],
)
def test_planner_and_judge_named(keys: None, settings: Settings, planner: str, judge: str) -> None:
    assert build.build_planner(settings).name == planner
    assert build.model_that_judges(settings) == judge
    assert type(build.build_judge(settings)).__name__ != "NoJudge"


@pytest.mark.parametrize(
    ("settings", "build_it", "problem"),
    [
        (Settings(), build.lease_desktop, "--vnc-server must name a desktop, got ''"),
        (Settings(server="qt"), build.lease_desktop, "needs --vnc-app, the command of the program under test, got ''"),
        (Settings(server="localhost::1", app="xterm"), build.lease_desktop, "--vnc-app='xterm' cannot be started"),
        (Settings(server="xvncc"), build.lease_desktop, "--vnc-server must be host::port.*got 'xvncc'"),
        (
            Settings(server="a::1,b::1", exec="docker exec -i desktop"),
            build.lease_desktop,
            "runs the same command for several servers, got .*'a::1', 'b::1'",
        ),
        (Settings(server="xvnc", screen_size=(99999, 1)), build.lease_desktop, r"1 to 16384 each, got \(99999, 1\)"),
        (Settings(planner="no_such_module:plan"), build.build_planner, "'no_such_module:plan' must be importable"),
        (Settings(), build.build_planner, "no planner is configured. Do the task once yourself"),
        (Settings(planner="gemini", base_url=LOCAL), build.build_planner, "--vnc-base-url needs .*, got .*'gemini'"),
        (Settings(planner="openai", base_url=LOCAL), build.build_planner, "--vnc-model must name the model"),
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
        (Settings(planner="openai", base_url=LOCAL, model="m", planner_options=("coordinates=pixels",)), (1920, 1080)),
        (Settings(planner="anthropic", planner_options=("tool=computer_20250124",)), (1456, 819)),
        (Settings(planner="openai"), (1920, 1080)),
        (Settings(), (1920, 1080)),
    ],
)
def test_elements_are_listed_in_what_planner_counts_in(settings: Settings, size: tuple[int, int]) -> None:
    assert counted_in(settings)(1920, 1080) == size


@pytest.mark.desktop
def test_local_agent_frames_show_pointer() -> None:
    with vnc_servers.tigervnc() as server:
        server.output_of("xsetroot", "-mod", "16", "16", "-cursor_name", "crosshair")
        frames = []
        for toolset in ("local_agent", "commands"):
            controller = build.connect(Settings(server=server.address, toolset=toolset))
            controller.perform(Move(300, 300))
            frames.append(controller.frame())
            controller.close()
        assert frames[0] != frames[1]


def test_container_args_are_those_of_docker_run() -> None:
    assert build._container_options("") == {"environment": [], "volumes": [], "network": ""}
    options = {"environment": ["A=two words", "B"], "volumes": ["x:/y:ro"], "network": "none"}
    assert build._container_options("-e 'A=two words' --env B -v x:/y:ro --network=none") == options
    for text, problem in (
        ("--privileged x", r"supports only -e, -v and --network, got '--privileged x'"),
        ("-e 'A", "must be arguments of docker run, got .*No closing quotation"),
    ):
        with pytest.raises(SettingsError, match=problem):
            build._container_options(text)
