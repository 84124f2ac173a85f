"""`cua-vnc` in a process of its own: prompts, refusals, exit codes, the last line."""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_vnc_use import cli
from pytest_vnc_use.runs.directory import read_trace
from support.forked_python import run_python
from support.gemini_server import (
    GeminiServer,
    Reply,
    calls,
    daily_quota,
    hang,
    text,
    wants_confirmation,
)
from support.qt_desktop import QtDesktop

CLICK = calls(("click", {"x": 500, "y": 500, "intent": "open the basket"}))
RISKY = calls(
    ("click", wants_confirmation({"x": 500, "y": 500}, "this buys two apples"))
)
HOLDS = text(json.dumps({"reason": "it is there", "verdict": "holds", "box_2d": None}))
FAILS = text(json.dumps({"reason": "it is not", "verdict": "fails", "box_2d": None}))


def cua_vnc(
    directory: Path, replies: list[Reply], *arguments: str, **options: Any
) -> subprocess.CompletedProcess[str]:
    with GeminiServer(replies) as server:
        return at_server(server, directory, *arguments, **options)


def service_variables(server: GeminiServer) -> dict[str, str]:
    return {
        "GOOGLE_API_KEY": server.api_key,
        "GOOGLE_GEMINI_BASE_URL": server.url,
    }


def at_server(
    server: GeminiServer, directory: Path, *arguments: str, **options: Any
) -> subprocess.CompletedProcess[str]:
    env = os.environ | service_variables(server) | {"CI": ""}
    return run_python(
        "pytest_vnc_use.cli", *arguments, cwd=directory, env=env, timeout=400, **options
    )


def last_line(done: subprocess.CompletedProcess[str]) -> list[str]:
    return done.stdout.strip().splitlines()[-1].split()


def assert_rejected(done: subprocess.CompletedProcess[str], problem: str) -> None:
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert problem in done.stderr, done.stderr


def open_command(pad: QtDesktop) -> list[str]:
    claim = "the basket is open"
    return ["run", "--vnc", pad.server, "--task", "Open", "--expect", claim]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("verdict", "code"), [(HOLDS, 0), (FAILS, 1)], ids=["holds", "fails"]
)
def test_verdict_decides_exit_code(
    tmp_path: Path, pad: QtDesktop, verdict: Reply, code: int
) -> None:
    done = cua_vnc(tmp_path, [CLICK, text("opened"), verdict], *open_command(pad))
    assert done.returncode == code, done.stderr
    outcome, directory = last_line(done)
    assert outcome == "done"
    assert (tmp_path / directory / "trace.jsonl").exists()
    assert "1 click(" in done.stdout
    assert "open the basket" in done.stdout
    assert "'the basket is open'" in done.stdout


@pytest.mark.slow
def test_refused_desktop_exits_as_infra(tmp_path: Path) -> None:
    done = cua_vnc(tmp_path, [], "run", "--vnc", "127.0.0.1::1", "--task", "Look")
    assert done.returncode == 9
    assert "infra: DesktopRefused" in done.stderr


@pytest.mark.slow
def test_exhausted_quota_exits_as_infra(tmp_path: Path, pad: QtDesktop) -> None:
    done = cua_vnc(tmp_path, [daily_quota()], *open_command(pad))
    assert done.returncode == 9
    assert "infra: QuotaExhausted" in done.stderr
    assert last_line(done)[0] == "infra"


def test_confirmation_without_terminal_is_denied(
    tmp_path: Path, pad: QtDesktop
) -> None:
    done = cua_vnc(tmp_path, [RISKY], "run", "--vnc", pad.server, "--task", "Buy")
    assert (done.returncode, last_line(done)[0]) == (5, "denied")
    assert "this buys two apples" in done.stdout


def printed_command(done: subprocess.CompletedProcess[str], name: str) -> str:
    lines = map(str.strip, (done.stdout + done.stderr).splitlines())
    [command] = [line for line in lines if line.startswith(f"cua-vnc {name} ")]
    return command


def in_shell(
    server: GeminiServer, directory: Path, command: str
) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["sh", "-c", command],
        cwd=directory,
        env=os.environ | service_variables(server) | {"PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )


@pytest.mark.parametrize(
    ("name", "options", "code"),
    [("approve", "", 0), ("deny", "", 5), ("approve", "--step-limit 1 --model m", 2)],
)
def test_printed_command_answers_waiting_run(
    tmp_path: Path,
    pad: QtDesktop,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    options: str,
    code: int,
) -> None:
    monkeypatch.setenv("SHOP", "qzj")
    (tmp_path / "policy.toml").write_text(
        '[[rule]]\nname = "typing"\ndecision = "allow"\naction = "type_text"\n'
    )
    confirmed = ("click", wants_confirmation({"x": 500, "y": 500}, "this signs in"))
    first = calls(confirmed, ("type", {"text": "<secret:PW>"}))
    pad.write_file("events.txt", "")
    with GeminiServer([first, text("signed in")]) as server:
        waiting = at_server(
            server,
            tmp_path,
            "run",
            "Buy",
            "--wait-for-approval",
            f"--vnc={pad.server}",
            "--model=gemini-3.7-flash",
            "--policy=policy.toml",
            "--runs-dir=my runs",
            "--secret=PW=env:SHOP",
        )
        assert waiting.returncode == 7, waiting.stdout + waiting.stderr
        command = printed_command(waiting, name)
        assert "--step=1" in command
        assert "my runs" in command
        done = in_shell(server, tmp_path, f"{command} {options}")
        assert done.returncode == code, done.stdout + done.stderr
        events = pad.read_file("events.txt").splitlines()
        assert ("text q" in events) == (code == 0)
        assert "its planner was" in done.stderr or code != 2


@pytest.mark.slow
def test_printed_command_resumes_interrupted_run(
    tmp_path: Path, pad: QtDesktop
) -> None:
    with GeminiServer([CLICK, hang(), text("opened")]) as server:
        arguments = ["run", "--vnc", pad.server, "Open", "--model=gemini-3.7-flash"]
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest_vnc_use.cli", *arguments],
            cwd=tmp_path,
            env=os.environ | service_variables(server),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        server.wait_for_requests(2)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
        interrupted = subprocess.CompletedProcess([], 130, output, errors)
        done = in_shell(server, tmp_path, printed_command(interrupted, "resume"))
    assert (process.returncode, done.returncode) == (130, 0), done.stdout + done.stderr


def test_copied_waiting_run_gets_settings_from_command(
    tmp_path: Path, pad: QtDesktop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not from its directory, which names a program, a command, a planner that imports
    its module, and servers.
    """
    monkeypatch.setenv("PW", "qzj")
    (tmp_path / "evil.py").write_text(
        "open('owned', 'w')\ndef plan(seen): return None\n"
    )
    rule = '[[rule]]\nname = "no rm"\ndecision = "deny"\ntext = "rm -rf"\n'
    (tmp_path / "policy.toml").write_text(rule)
    confirmed = ("click", wants_confirmation({"x": 500, "y": 500}, "this signs in"))
    first = calls(confirmed, ("type", {"text": "<secret:PW>"}))
    desktop = ["--vnc", pad.server, "--elements=on"]
    secret = ["--secret=PW"]
    policy = ["--policy=policy.toml"]
    with GeminiServer(
        [first, calls(("list_elements", {})), calls(("type", {"text": "rm -rf /"}))]
    ) as server:
        waiting = at_server(
            server,
            tmp_path,
            "run",
            "Buy",
            "--wait-for-approval",
            *desktop,
            *secret,
            *policy,
        )
        assert waiting.returncode == 7, waiting.stdout + waiting.stderr
        run = tmp_path / last_line(waiting)[1]
        trace = tmp_path / "copies" / run.name / "trace.jsonl"
        shutil.copytree(run, trace.parent)
        header, started, *rest = trace.read_text(encoding="utf-8").splitlines()
        changed = json.loads(started) | {"server": "127.0.0.1::1"}
        changed["settings"] |= {
            "planner": "evil:plan",
            "exec": "sh -c 'touch owned'",
            "app": "touch owned",
            "base_url": "http://127.0.0.1:1",
            "model": "m",
            "cdp": "evil:1",
            "prices": "evil.toml",
        }
        trace.write_text(
            "\n".join([header, json.dumps(changed), *rest, ""]), encoding="utf-8"
        )
        pad.write_file("events.txt", "")
        copy = ["approve", "--runs-dir=copies", trace.parent.name]
        assert_rejected(
            at_server(server, tmp_path, *copy), "Give its desktop with --vnc"
        )
        approve = [*copy, *desktop]
        assert_rejected(at_server(server, tmp_path, *approve, *policy), "--secret PW")
        assert_rejected(
            at_server(server, tmp_path, *approve, *secret),
            "policy.toml'. Pass it again with --policy FILE",
        )
        assert pad.read_file("events.txt") == ""
        approved = at_server(server, tmp_path, *approve, *secret, *policy)
        assert approved.returncode == 5, approved.stderr
        assert server.refusals == [], approved.stderr
        assert "no rm" in approved.stdout, approved.stderr
    events = pad.read_file("events.txt").splitlines()
    assert [line for line in events if line.startswith("text")] == [
        "text q",
        "text z",
        "text j",
    ]
    assert "qzj" not in approved.stdout
    listed = read_trace(trace.parent).steps[2]
    assert listed.output.startswith("the elements cannot be listed: ")
    assert not (tmp_path / "owned").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "code"),
    [("y\n", 0), ("n\n", 5), ("\x04", 5)],
    ids=["yes", "no", "Ctrl-D"],
)
def test_confirmation_is_asked_at_terminal(
    tmp_path: Path, pad: QtDesktop, answer: str, code: int
) -> None:
    user_end, program_end = pty.openpty()
    os.write(user_end, answer.encode())
    done = cua_vnc(
        tmp_path,
        [RISKY, text("bought")],
        "run",
        "--vnc",
        pad.server,
        "--task",
        "Buy",
        stdin=program_end,
    )
    os.close(user_end)
    os.close(program_end)
    assert done.returncode == code, done.stderr
    assert "this buys two apples" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["run", "--vnc=h::1"], "required: TASK"),
        (["run", "--vnc", "h::1", "--task", "x", "--step-limit", "0"], "got '0'"),
        (
            ["run", "--vnc=h::1", "--task=x", "--password", "s3cret"],
            "--password-env NAME",
        ),
        (
            ["policy", "check", "file.toml", "s3cret"],
            "unrecognized arguments: 1 more than",
        ),
        (["policy", "check", "--hel"], "usage: cua-vnc"),
        (
            ["run", "x", "--vnc=xvnc"],
            (
                "--vnc must be the address of a running desktop, host::port,"
                " host:display, "
            ),
        ),
    ],
)
def test_wrong_usage_exits_with_2_without_values(
    arguments: list[str],
    problem: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "key")
    try:
        code: object = cli.main(arguments)
    except SystemExit as exc:
        code = exc.code
    error = capsys.readouterr().err
    assert code == 2, error
    assert problem in error, error
    assert "s3cret" not in error, error


@pytest.mark.slow
def test_policy_is_checked_and_tried_on_run(tmp_path: Path, pad: QtDesktop) -> None:
    """On a terminal that has ASCII letters only, too."""
    (tmp_path / "policy.toml").write_text(
        '[[rule]]\nname = "äpples"\ndecision = "allow"\nexplanation = "apples"\n',
        encoding="utf-8",
    )
    check = [
        sys.executable,
        "-m",
        "pytest_vnc_use.cli",
        "policy",
        "check",
        "policy.toml",
    ]
    ascii_env = os.environ | {"PYTHONIOENCODING": "ascii"}
    checked = subprocess.run(
        check,
        cwd=tmp_path,
        env=ascii_env,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert checked.returncode == 0, checked.stderr
    assert "?pples" in checked.stdout, checked.stderr
    denied = cua_vnc(tmp_path, [RISKY], "run", "--vnc", pad.server, "--task", "Buy")
    tried = cua_vnc(
        tmp_path,
        [],
        "policy",
        "test",
        "policy.toml",
        str(Path(last_line(denied)[1]).parent),
    )
    assert tried.returncode == 0, tried.stderr
    assert "allow" in tried.stdout, tried.stderr
