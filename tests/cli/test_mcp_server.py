"""`cua-vnc mcp` in a process of its own, spoken to by the official client on a real
desktop.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

from pytest_vnc_use.desktops.xvnc import XvncDesktop
from pytest_vnc_use.runs.directory import read_trace
from support.forked_python import ForkedPython
from support.gemini_server import (
    API_KEY,
    GeminiServer,
    Reply,
    calls,
    hang,
    text,
    wants_confirmation,
)
from support.paths import PAD
from support.vnc_servers import require, wait_for

# it imports for a second, which each worker would take to collect this file
if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import CallToolResult, ElicitRequestParams, ElicitResult

CLICK = calls(("click", {"x": 500, "y": 500, "intent": "open the basket"}))
RISKY = calls(
    ("click", wants_confirmation({"x": 500, "y": 500}, "this buys two apples"))
)
HOLDS = text(json.dumps({"reason": "it is there", "verdict": "holds", "box_2d": None}))
FAILS = text(
    json.dumps({"reason": "the basket is empty", "verdict": "fails", "box_2d": None})
)
Answer = dict[str, Any]
YES: Answer = {"action": "accept", "content": {"approve": True}}
NOES: list[Answer] = [
    {"action": "decline"},
    {"action": "cancel"},
    {"action": "accept", "content": {"approve": False}},
    {"action": "accept"},
]
pytestmark = pytest.mark.desktop
ERAS = ["legacy", "2026-07-28"]
"""The protocol in which the server asks within the call, and the one in which it asks
by a result.
"""


@pytest.fixture(scope="module")
def desktop() -> Iterator[XvncDesktop]:
    require("Xtigervnc")
    desktop = XvncDesktop()
    try:
        desktop.launch(PAD)
        yield desktop
    finally:
        desktop.stop()


def command(desktop: XvncDesktop, *options: str) -> list[str]:
    return [
        "pytest_vnc_use.cli",
        "mcp",
        "--vnc",
        desktop.server,
        "--runs-dir",
        "runs",
        *options,
    ]


def environment(model: GeminiServer, desktop: XvncDesktop) -> dict[str, str]:
    places = {"GOOGLE_API_KEY": model.api_key, "GOOGLE_GEMINI_BASE_URL": model.url}
    return {**os.environ, **places, "VNC_USE_PASSWORD": desktop.password}


@dataclass
class User:
    """The user who is asked for confirmations: the next answers, and the questions so
    far.
    """

    answers: list[Answer] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)

    late_s: float = 0.0

    async def elicit(self, _: object, params: ElicitRequestParams) -> ElicitResult:
        from mcp.types import ElicitResult

        self.questions.append(params.message)
        await anyio.sleep(self.late_s)
        return ElicitResult(**self.answers.pop(0))


@dataclass
class Conversation:
    """A client of a running server, which works in `directory`; `replies` are what its
    model says next.
    """

    client: Client
    portal: BlockingPortal
    directory: Path
    replies: list[Reply]

    def call(self, tool: str, **arguments: Any) -> CallToolResult:
        return self.portal.call(partial(self.client.call_tool, tool, arguments))

    def result_of(self, tool: str, **arguments: Any) -> Any:
        """Return the result of a tool."""
        result = self.call(tool, **arguments)
        assert not result.is_error, result.content
        return result.structured_content

    def error_of(self, tool: str, **arguments: Any) -> str:
        """The one line with which a tool fails."""
        result = self.call(tool, **arguments)
        assert result.is_error
        (content,) = result.content
        assert content.type == "text"
        assert "\n" not in content.text
        return content.text

    def screenshot(self, **arguments: Any) -> bytes:
        (content,) = self.call("step_screenshot", **arguments).content
        assert content.type == "image", content
        assert content.mime_type == "image/png"
        return base64.b64decode(content.data)


@contextmanager
def conversation_with(
    directory: Path,
    desktop: XvncDesktop,
    *options: str,
    mode: str = "auto",
    user: User | None = None,
) -> Iterator[Conversation]:
    """A server in a directory, and its client; without a user, one that cannot ask."""
    from mcp import Client, StdioServerParameters

    replies: list[Reply] = []
    arguments = ["-m", *command(desktop, *options)]
    with (
        GeminiServer(lambda _: replies.pop(0)) as model,
        start_blocking_portal() as portal,
    ):
        env = environment(model, desktop)
        server = StdioServerParameters(
            command=sys.executable, args=arguments, env=env, cwd=directory
        )
        client = Client(
            server, mode=mode, elicitation_callback=user.elicit if user else None
        )
        with portal.wrap_async_context_manager(client):
            yield Conversation(client, portal, directory, replies)


@pytest.fixture(scope="module")
def conversation(
    tmp_path_factory: pytest.TempPathFactory, desktop: XvncDesktop
) -> Iterator[Conversation]:
    """One that cannot ask."""
    with conversation_with(tmp_path_factory.mktemp("server"), desktop) as conversation:
        yield conversation


@pytest.mark.slow
@pytest.mark.parametrize("era", ERAS)
def test_only_yes_is_yes(tmp_path: Path, desktop: XvncDesktop, era: str) -> None:
    desktop.write_file("events.txt", "")
    user = User([YES, *NOES, YES])
    with conversation_with(
        tmp_path, desktop, "--answer-seconds=2", mode=era, user=user
    ) as conversation:
        conversation.replies += [RISKY, text("bought"), HOLDS]
        run = conversation.result_of("run_task", task="Buy", expect=["it is bought"])
        assert (run["outcome"], run["message"]) == ("done", "bought")
        assert run["verdicts"] == ["holds: 'it is bought': it is there"]
        assert [line.split("(")[0] for line in run["steps"]] == ["1 click"]
        assert desktop.read_file("events.txt").count("press") == 1

        denied = []
        for _ in NOES:
            conversation.replies.append(RISKY)
            run = conversation.result_of("run_task", task="Buy")
            denied.append((run["outcome"], "denied by a user" in run["message"]))
        assert denied == [("denied", True)] * len(NOES)

        user.late_s = 2.5
        conversation.replies.append(RISKY)
        assert conversation.result_of("run_task", task="Buy")["outcome"] == "denied"
    assert desktop.read_file("events.txt").count("press") == 1
    assert len(user.questions) == 2 + len(NOES)
    question = user.questions[0]
    assert "Step 1 needs approval: click at (" in question
    assert "this buys two apples" in question
    assert "no rule matches" in question


@pytest.mark.slow
def test_tools_run_one_at_time_and_end_cancelled(conversation: Conversation) -> None:
    earlier = set(conversation.directory.glob("runs/*"))
    conversation.replies.append(hang(1.0))
    running = conversation.portal.start_task_soon(
        conversation.client.call_tool, "run_task", {"task": "Look"}
    )
    wait_for(
        lambda: (
            len(list(conversation.directory.glob("runs/*/screens/*.png")))
            and not conversation.replies
        ),
        "the model's turn",
    )
    assert "another task or test run is in progress" in conversation.error_of(
        "run_tests"
    )
    running.cancel()
    wait_for(
        lambda: (
            "in progress" not in conversation.error_of("run_tests", paths=["none.py"])
        ),
        "the end of the run",
    )
    (run,) = set(conversation.directory.glob("runs/*")) - earlier
    story = conversation.result_of("read_run", run_id=run.name)
    assert story["outcome"] == "error"
    assert "the client cancelled it" in story["message"]


@pytest.mark.slow
def test_run_is_read_and_looked_at(conversation: Conversation) -> None:
    messages: list[str | None] = []

    async def hear(done: float, total: float | None, message: str | None) -> None:
        messages.append(message)

    conversation.replies += [CLICK, text("opened"), HOLDS]
    arguments = {"task": "Open", "expect": ["it is open"]}
    call = partial(
        conversation.client.call_tool, "run_task", arguments, progress_callback=hear
    )
    run = conversation.portal.call(call).structured_content
    assert run is not None
    assert messages == run["steps"]
    run_id = run["run_id"]
    assert conversation.result_of("read_run", run_id=run_id) == run
    newest, *_ = conversation.result_of("list_runs", limit=1)["result"]
    assert newest == {"run_id": run_id, "outcome": "done", "task": "Open", "test": ""}
    screens = [
        file.read_bytes()
        for file in (conversation.directory / "runs" / run_id / "screens").iterdir()
    ]
    assert conversation.screenshot(run_id=run_id, step=1) not in screens
    assert conversation.screenshot(run_id=run_id, step=1, when="after") in screens
    assert "step must be one of the 1 of run" in conversation.error_of(
        "step_screenshot", run_id=run_id, step=2
    )
    source = conversation.result_of("propose_test", run_id=run_id, name="opening")[
        "result"
    ]
    compile(source, "test_opening.py", "exec")
    assert [
        part
        for part in ("def test_opening(", "'Open'", "it is open")
        if part not in source
    ] == []


@pytest.fixture(scope="module")
def with_link(conversation: Conversation) -> Conversation:
    """Its directory of runs has a link that leads out of it."""
    outside = conversation.directory / "outside"
    outside.mkdir()
    runs = conversation.directory / "runs"
    runs.mkdir(exist_ok=True)
    (runs / "linked").symlink_to(outside)
    return conversation


@pytest.mark.parametrize(
    ("tool", "more"),
    [
        ("read_run", {}),
        ("step_screenshot", {"step": 1}),
        ("propose_test", {"name": "it"}),
    ],
)
def test_no_run_id_leads_out_of_runs(
    with_link: Conversation, tool: str, more: dict[str, object]
) -> None:
    ids = ["", "..", str(with_link.directory / "outside"), "linked", "a/b", "a\0b"]
    errors = {run_id: with_link.error_of(tool, run_id=run_id, **more) for run_id in ids}
    problem = "must be the name of a run directory"
    assert [run_id for run_id in ids if problem not in errors[run_id]] == []


def test_unknown_run_is_rejected(conversation: Conversation) -> None:
    error = conversation.error_of("read_run", run_id="nosuchrun")
    assert "there is no run directory" in error


SUITE = """\
import os
import time
import pytest

class TestSums:
    @pytest.mark.parametrize("sum", [2, 3])
    def test_one_and_one(self, sum):
        assert 1 + 1 == sum

@pytest.mark.vnc_task("Open", expect="it is open")
def test_pad(vnc_agent): ...

def test_key():
    assert os.environ["GOOGLE_API_KEY"] == "mine"

def test_skipped():
    pytest.skip()

def test_endless():
    time.sleep(60)
"""


@pytest.fixture(scope="module")
def suites(conversation: Conversation) -> Conversation:
    """Its directory has a test suite, and a file that cannot be imported."""
    directory = conversation.directory
    (directory / "pytest.ini").write_text("[pytest]\nvnc_planner = gemini\n")
    (directory / "test_it.py").write_text(SUITE, encoding="utf-8")
    (directory / "test_broken.py").write_text("import nothing_of_that_name\n")
    return conversation


@pytest.mark.slow
def test_run_tests_uses_same_settings(suites: Conversation) -> None:
    suites.replies += [CLICK, text("opened"), FAILS]
    suite = suites.result_of("run_tests", paths=["test_it.py"], keyword="not endless")
    counts = {"passed": 1, "failed": 3, "errors": 0, "skipped": 1}
    assert {name: suite[name] for name in counts} == counts
    sums, pad, key = suite["failures"]
    assert "<secret:GOOGLE_API_KEY>" in key["message"]
    assert API_KEY not in str(suite)
    assert sums == {
        "test": "test_it.py::TestSums::test_one_and_one[3]",
        "message": "assert (1 + 1) == 3",
        "runs": [],
    }
    assert pad["test"] == "test_it.py::test_pad"
    assert pad["message"] == "product: claim 'it is open' fails: the basket is empty"
    run = suites.result_of("read_run", run_id=pad["runs"][0])
    assert (run["test"], run["outcome"]) == ("test_it.py::test_pad", "done")
    assert run["verdicts"] == ["fails: 'it is open': the basket is empty"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"paths": ["none.py"]}, "file or directory not found: none.py"),
        (
            {"paths": ["test_it.py"], "keyword": "and and"},
            "Wrong expression passed to '-k'",
        ),
        ({"paths": ["../test_it.py"]}, "a test path must be in the directory"),
    ],
    ids=["missing", "keyword", "outside"],
)
def test_run_tests_invalid_selection_is_refused(
    suites: Conversation, arguments: dict[str, Any], problem: str
) -> None:
    error = suites.error_of("run_tests", **arguments)
    assert problem in error
    assert "infra" not in error


@pytest.mark.slow
def test_run_tests_over_time_is_infra(suites: Conversation) -> None:
    error = suites.error_of("run_tests", paths=["test_it.py::test_endless"], seconds=1)
    assert "infra: " in error
    assert "took longer than 1 s and were stopped" in error


@pytest.mark.slow
def test_run_tests_reports_broken_module(suites: Conversation) -> None:
    broken = suites.result_of("run_tests", paths=["test_broken.py"])
    assert broken["errors"] == 1
    [failure] = broken["failures"]
    assert (failure["test"], failure["runs"]) == ("test_broken.py", [])
    assert "No module named 'nothing_of_that_name'" in failure["message"]


def test_tools_are_marked_as_read_only(conversation: Conversation) -> None:
    tools = {
        tool.name: tool
        for tool in conversation.portal.call(conversation.client.list_tools).tools
    }
    reads = {
        name
        for name, tool in tools.items()
        if tool.annotations and tool.annotations.read_only_hint
    }
    assert reads == {
        "get_timing",
        "list_runs",
        "read_run",
        "step_screenshot",
        "propose_test",
    }
    assert set(tools) - reads == {"run_task", "run_tests", "set_timing"}
    descriptions = {name: tool.description or "" for name, tool in tools.items()}
    assert [name for name, text in descriptions.items() if not text] == []
    assert [name for name, text in descriptions.items() if "  " in text] == []
    assert set(tools["run_task"].input_schema["properties"]) == {
        "task",
        "expect",
        "steps",
        "seconds",
    }


def test_timing_is_read_and_changed_between_tasks(conversation: Conversation) -> None:
    before = conversation.result_of("get_timing")
    assert (before["step_delay"], before["max_seconds"]) == (0.0, 300.0)
    assert conversation.result_of("set_timing", name="max_seconds", seconds=77) == {
        **before,
        "max_seconds": 77.0,
    }
    conversation.replies += [text("looked")]
    run_id = conversation.result_of("run_task", task="Look")["run_id"]
    assert (
        read_trace(conversation.directory / "runs" / run_id).started.limits.seconds
        == 77.0
    )
    conversation.result_of(
        "set_timing", name="max_seconds", seconds=before["max_seconds"]
    )
    assert "one of start_seconds, " in conversation.error_of(
        "set_timing", name="model", seconds=1
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "code"),
    [
        (lambda process: process.stdin.close(), 0),
        (lambda process: process.send_signal(signal.SIGTERM), 143),
    ],
    ids=["stdin closed", "SIGTERM"],
)
def test_it_ends_in_middle_of_run(
    tmp_path: Path, desktop: XvncDesktop, end: Callable[[ForkedPython], None], code: int
) -> None:
    """The client has asked for a task, which waits for the model."""
    about = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    messages: Sequence[dict[str, object]] = [
        {"id": 1, "method": "initialize", "params": about},
        {"method": "notifications/initialized"},
        {
            "id": 2,
            "method": "tools/call",
            "params": {"name": "run_task", "arguments": {"task": "Look"}},
        },
    ]
    with GeminiServer([hang()]) as model:
        env = environment(model, desktop)
        process = ForkedPython(
            *command(desktop), cwd=tmp_path, env=env, stdin=subprocess.PIPE, stderr=2
        )
        assert process.stdin
        assert process.stdout
        try:
            process.stdin.writelines(
                json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages
            )
            process.stdin.flush()
            model.wait_for_requests(1)
            end(process)
            assert process.wait(timeout=20) == code
            assert {json.loads(line)["jsonrpc"] for line in process.stdout} == {"2.0"}
        finally:
            process.kill()
            process.stdout.close()
            process.stdin.close()
