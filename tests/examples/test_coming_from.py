"""The examples of docs/models.md, each written as the users of another system write,
run as they stand.
"""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from PIL import Image

from pytest_vnc_use.cli.target import browser_command
from pytest_vnc_use.harness.screenshots import write_screenshots
from support import chat_server, vnc_servers
from support.chat_server import ChatServer
from support.gemini_server import GeminiServer, Reply, calls, text
from support.paths import PAD_LINE, ROOT
from support.players import frame_of
from support.witness_programs import site

SECTIONS = (
    (ROOT / "docs" / "models.md")
    .read_text(encoding="utf-8")
    .partition("\n## Coming from another system\n")[2]
)
CLICK = ("click_at", {"x": 500, "y": 500})


def assert_reported(pytester: pytest.Pytester, *words: str) -> None:
    """Check that pytest's report has these words, and the screenshot of a step."""
    report = (pytester.path / "report.html").read_text(encoding="utf-8")
    assert [word for word in (*words, "data:image/") if word not in report] == []


def section(heading: str) -> str:
    """Return the page's section with this heading."""
    return SECTIONS.partition(f"### {heading}\n")[2].partition("\n### ")[0]


def examples(heading: str, language: str = "python") -> list[str]:
    """Return the snippets of one section of the page."""
    return re.findall(
        rf"^```{language}\n(.*?)^```$", section(heading), re.MULTILINE | re.DOTALL
    )


def assert_passes(pytester: pytest.Pytester, *options: str) -> None:
    """Run the example, on the pad if no options name a desktop, and check that it
    passes.
    """
    desktop = options or ("--vnc-server=qt", f"--vnc-app={PAD_LINE}")
    arguments = (
        *desktop,
        "-p",
        "no:cacheprovider",
        "--html=report.html",
        "--self-contained-html",
    )
    pytester.runpytest_subprocess(*arguments, timeout=400).assert_outcomes(passed=1)


@pytest.mark.desktop
def test_langgraph_agent(
    pytester: pytest.Pytester,
    model: Callable[..., GeminiServer],
    run: Callable[..., pytest.RunResult],
) -> None:
    whole, _ = examples("A LangGraph agent on VNC")
    pytester.makepyfile(test_example=whole)
    typed = (
        "type_text_at",
        {"x": 500, "y": 500, "text": "hello", "press_enter": False},
    )
    server = model(calls(CLICK, typed), text("It is typed."))
    run(server).assert_outcomes(passed=2)
    assert server.refusals == []
    assert {request.model for request in server.requests} == {
        "gemini-2.5-computer-use-preview-10-2025"
    }
    assert [*(pytester.path / "runs").glob("*/trace.jsonl")]


def test_pieces_of_turn(
    model: Callable[[Reply, Reply], GeminiServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, pieces = examples("A LangGraph agent on VNC")
    server = model(calls(CLICK, ("click_at", {"x": 999, "y": 0})), text("It is open."))
    monkeypatch.setenv("GOOGLE_API_KEY", server.api_key)
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
    names: dict[str, Any] = {}
    exec(pieces, names)
    clicked: list[tuple[int, ...]] = []
    controller = SimpleNamespace(
        screenshot_png=lambda: frame_of(0).png,
        click=lambda x, y, button: clicked.append((x, y, button)),
    )
    assert names["perform_task"](controller, "Open the basket") == "It is open."
    assert clicked == [(720, 450, 1), (1439, 0, 1)]
    assert server.refusals == []
    assert [len(request.images) for request in server.requests] == [1, 3]


@pytest.mark.slow
@pytest.mark.desktop
def test_harness_under_pytest(pytester: pytest.Pytester) -> None:
    agent, test = examples("A computer-use harness")
    pytester.makepyfile(my_agent=agent, test_example=test)
    pytester.syspathinsert()
    assert_passes(
        pytester,
        "--vnc-server=qt",
        f"--vnc-app={PAD_LINE}",
        "--vnc-planner=my_agent:MyAgent",
    )
    assert_reported(pytester, "harness (my_agent:MyAgent)")
    [trace] = (pytester.path / "runs").glob("*/execution.json")
    assert json.loads(trace.read_text(encoding="utf-8"))[-1]["params"] == {
        "params": {"typed": "hello"}
    }


@pytest.mark.desktop
def test_harness_as_script(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(my_agent=examples("A computer-use harness")[0])
    with (
        vnc_servers.tigervnc((1440, 900)) as server,
        vnc_servers.websockify(server.address) as port,
    ):
        assert (
            pytester.run(sys.executable, "my_agent.py", str(port), timeout=60).ret == 0
        )
    run = pytester.path / "runs" / "my_agent"
    records = json.loads((run / "execution.json").read_text(encoding="utf-8"))
    assert [record["action"] for record in records] == [
        "mouse_click",
        "type_text",
        "press_keys",
        "finish",
    ]
    assert write_screenshots(run) == (4, 4)


@pytest.mark.desktop
def test_agent_driven_by_tool_prompt(pytester: pytest.Pytester) -> None:
    [ini], [whole], [prompted] = (
        examples("An agent driven by a tool prompt", language)
        for language in ("ini", "python", "json")
    )
    decoder = json.JSONDecoder()
    turns = []
    remaining = prompted.strip()
    while remaining:
        turn, end = decoder.raw_decode(remaining)
        turns.append(chat_server.call(turn["name"], **turn["arguments"]))
        remaining = remaining[end:].strip()
    pytester.makepyfile(test_example=whole)
    with ChatServer(
        [*turns, chat_server.call("task_complete", summary="It is typed.")]
    ) as server:
        pytester.makefile(
            ".ini",
            pytest=ini.replace("http://localhost:1234", server.url.removesuffix("/v1")),
        )
        assert_passes(pytester)
        assert_reported(
            pytester,
            "Click into the middle and type hello",
            "openai-compatible (qwen3-vl-8b",
        )
        assert server.refusals == []
        assert len(server.requests) == 4


@pytest.mark.browser
@pytest.mark.desktop
def test_agent_inside_browser(
    pytester: pytest.Pytester,
    model: Callable[..., GeminiServer],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    vnc_servers.require("Xtigervnc")
    vnc_servers.require("chromium")
    [ini] = examples("An agent inside a browser", "ini")
    pytester.makepyfile(test_example=examples("An agent inside a browser")[0])
    chromium = f"{browser_command()} data:text/html,Begin"
    with site() as pages:
        endpoints = {
            "127.0.0.1:9222": "profile/DevToolsActivePort",
            "https://search.example": pages.address,
        }
        for written, real in endpoints.items():
            ini = ini.replace(written, real)
        named_calls: list[tuple[str, dict[str, Any]]] = [
            ("open_web_browser", {}),
            ("search", {}),
            ("navigate", {"url": f"{pages.address}/second"}),
            ("get_browser_state", {}),
        ]
        done = calls(("done", {"message": "It is open."}), signed=False)
        server = model(
            *(calls(call, signed=False) for call in named_calls),
            text("I think that is all."),
            done,
        )
        monkeypatch.setenv("GOOGLE_API_KEY", server.api_key)
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
        pytester.makefile(
            ".ini", pytest=f"{ini}vnc_model = gemini-2.5-computer-use-preview-10-2025\n"
        )
        assert_passes(pytester, "--vnc-server=xvnc", f"--vnc-app={chromium}")
    assert_reported(pytester, "Search for the shop and open its second page")
    assert server.refusals == []
    assert "call done(message=" in server.requests[-1].contents[-1]["parts"][0]["text"]
    urls = [
        result["response"]["url"] for result in server.requests[-1].function_responses
    ]
    assert urls == [
        "about:blank",
        f"{pages.address}/",
        *[f"{pages.address}/second"] * 2,
    ]


@pytest.mark.desktop
def test_local_vision_model(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    [ini] = examples("A local vision model", "ini")
    [exported] = re.findall(
        r"^export (.*)$", section("A local vision model"), re.MULTILINE
    )
    pytester.makepyfile(test_example=examples("A local vision model")[0])
    pytester.makefile(".ini", pytest=ini)
    click = ("click_element", {"label": "the field", "box": [400, 400, 600, 600]})
    two = chat_server.calls(
        click, ("press_key", {"key": "tab"}), words="<think>The middle.</think>I click."
    )
    end = chat_server.said("<think>So it is.</think>It is typed.")
    with ChatServer(
        [two, chat_server.call("observe_screen"), end], takes_thoughts=True
    ) as server:
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        for name, value in (pair.split("=", 1) for pair in exported.split()):
            monkeypatch.setenv(
                name, value.replace("http://localhost:1234/v1", server.url)
            )
        assert_passes(pytester)
        assert_reported(
            pytester,
            "Click into the middle and type hello",
            "openai-compatible (qwen3-vl-8b",
        )
        assert server.refusals == []
        _, second, third = server.requests
    assert second.body["model"] == "qwen3-vl-8b-instruct"
    assert "<think>\nThe middle.\n</think>" in second.of("assistant")[0]["content"]
    done, rejected = (json.loads(tool["content"]) for tool in second.of("tool"))
    assert (done, rejected["error"]["type"]) == ({"ok": True}, "too_many_tool_calls")
    assert [Image.open(io.BytesIO(image)).size for image in third.images[1:]] == [
        (1536, 864)
    ]
