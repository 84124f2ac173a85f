"""Names and arguments of anything: test ids, run ids, paths from a client of MCP, settings, the command line."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from mcp.server.mcpserver.exceptions import ToolError

from pytest_vnc_use.agent.build import settings_of
from pytest_vnc_use.cli import main
from pytest_vnc_use.cli.mcp_server import Tools
from pytest_vnc_use.cli.pytest_process import Suite
from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.recordings.store import Key
from pytest_vnc_use.runs.directory import path_of
from pytest_vnc_use.settings.layers import read_value
from pytest_vnc_use.settings.settings import FIELDS
from pytest_vnc_use.settings.variables import read_secret
from support.fuzzing.directories import write_run
from support.fuzzing.mutations import any_text
from support.fuzzing.trial import Target, Try

_COMMANDS = ("approve", "deny", "resume", "reenact", "report", "results", "policy", "init", "--help", "-V", "")
_WORDS = (
    *("--runs-dir", "--step", "--vnc", "-o", "check", "test", "--merge", "--jobs", "--markdown", "--one-file"),
    *("--secret", "strict", "run", "1", "/dev/zero", "/dev/null", ".", "runs"),
)


def _ids(directory: Path) -> Iterator[Try]:
    """A test's id and a run's id lead to a file in their directory, and nowhere else."""

    def attempt(random: Random) -> None:
        name = any_text(random)
        path = Key(directory / "test_a.py", f"test_a.py::{name}").path
        assert path.parent == directory / "__vnc_recordings__" / "test_a", path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        assert path.resolve().is_relative_to(directory.resolve())
        assert path_of(directory, name).parent == directory
        assert path_of(directory, name).resolve().is_relative_to(directory.resolve())

    yield attempt


def _settings(directory: Path) -> Iterator[Try]:
    def attempt(random: Random) -> None:
        field, text = random.choice([*FIELDS]), any_text(random)
        read_value(field, text, "here")
        settings_of({field: text})

    yield attempt


def _secrets(directory: Path) -> Iterator[Try]:
    def attempt(random: Random) -> None:
        kind = random.choice(("file:", "env:", "", "file:/dev/zero"))
        read_secret(f"NAME={kind}{any_text(random)}", "--secret", directory)

    yield attempt


def _mcp(directory: Path) -> Iterator[Try]:
    write_run(directory / "runs")
    (directory / "outside.txt").write_text("")
    (directory / "tests").mkdir()
    tools = Tools(settings_of({"runs_dir": str(directory / "runs")}), {}, 1.0, {})

    def attempt(random: Random) -> None:
        text = any_text(random)
        match random.randrange(5):
            case 0:
                Suite(directory / "tests", directory / "runs", [text], any_text(random), {})
                inside = (directory / "tests" / text.split("::")[0]).resolve()
                assert inside.is_relative_to((directory / "tests").resolve())
                assert not text.startswith(("@", "-"))
            case 1:
                tools.read_run(text)
            case 2:
                tools.step_screenshot(random.choice(("run", text)), random.choice((1, 0, -1, 10**30)))
            case 3:
                compile(tools.propose_test(random.choice(("run", text)), text), "test", "exec")
            case _:
                tools.set_timing(random.choice(("max_seconds", text)), random.choice((1.0, -1, 1e308, float("nan"))))

    yield attempt
    tools.desk.close()


def _command_line(directory: Path) -> Iterator[Try]:
    write_run(directory / "runs")
    os.mkfifo(directory / "pipe")
    before = Path.cwd()
    os.chdir(directory)

    def attempt(random: Random) -> None:
        words = [
            random.choice(_WORDS) if random.random() < 0.5 else any_text(random) for _ in range(random.randrange(5))
        ]
        words = [word.replace("\0", "").replace("\ud800", "\udc80") for word in words]  # no shell passes the others
        command = random.choice(_COMMANDS) if random.random() < 0.9 else any_text(random)
        words = (
            [word for word in words if not word.startswith(("/", "..", "~"))]
            if command in ("report", "results", "init")
            else words
        )
        told = io.StringIO()
        with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
            main([command, *words])

    yield attempt
    os.chdir(before)


TARGETS = (
    Target("test ids and run ids", contextmanager(_ids), 300),
    Target("settings", contextmanager(_settings), 300),
    Target("secrets", contextmanager(_secrets), 100),
    Target("MCP", contextmanager(_mcp), 200, (ToolError,)),
    Target("the command line", contextmanager(_command_line), 100, (SystemExit, SettingsError)),
)
