"""`cua-vnc` in a process of its own: prompts, refusals, exit codes, the last line."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from threading import Event

import pytest

from pytest_vnc_use import cli
from pytest_vnc_use.runs.directory import read_trace
from support.forked_python import ForkedPython, run_python
from support.gemini_rules import Request
from support.gemini_server import GeminiServer, Reply, calls, daily_quota, text, wants_confirmation
from support.qt_desktop import QtDesktop
from support.terminal import Terminal

CLICK = calls(("click", {"x": 500, "y": 500, "intent": "open the basket"}))
RISKY = calls(("click", wants_confirmation({"x": 500, "y": 500}, "this buys two apples")))
HOLDS = text(json.dumps({"reason": "it is there", "verdict": "holds", "box_2d": None}))
FAILS = text(json.dumps({"reason": "it is not", "verdict": "fails", "box_2d": None}))
UNSURE = text(json.dumps({"reason": "a dialog hides it", "verdict": "unsure", "box_2d": None}))


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "pytest_vnc_use.cli", *arguments]


def environment(server: GeminiServer) -> Mapping[str, str]:
    return os.environ | {"GOOGLE_API_KEY": server.api_key, "GOOGLE_GEMINI_BASE_URL": server.url}


def cua_vnc(tmp_path: Path, replies: list[Reply], *arguments: str) -> subprocess.CompletedProcess[str]:
    with GeminiServer(replies) as server:
        return at_server(server, tmp_path, *arguments)


def at_server(server: GeminiServer, directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_python("pytest_vnc_use.cli", *arguments, cwd=directory, env=environment(server), timeout=400)


def last_line(done: subprocess.CompletedProcess[str]) -> list[str]:
    return done.stdout.strip().splitlines()[-1].split()


@pytest.mark.slow
@pytest.mark.desktop
def test_run_names_outcome_and_run_directory_last(tmp_path: Path, pad: QtDesktop) -> None:
    done = cua_vnc(tmp_path, [CLICK, text("opened")], "run", "--vnc", pad.server, "--task", "Open the basket")
    assert done.returncode == 0, done.stderr
    outcome, directory = last_line(done)
    assert outcome == "done"
    assert (tmp_path / directory / "trace.jsonl").exists()
    assert "1 click(" in done.stdout
    assert "open the basket" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(("verdict", "code"), [(HOLDS, 0), (FAILS, 1), (UNSURE, 1)], ids=["holds", "fails", "unsure"])
def test_claim_decides_exit_code(tmp_path: Path, pad: QtDesktop, verdict: Reply, code: int) -> None:
    arguments = ["run", "--vnc", pad.server, "--task", "Open", "--expect", "the basket is open"]
    done = cua_vnc(tmp_path, [text("opened"), verdict], *arguments)
    assert done.returncode == code
    assert "'the basket is open'" in done.stdout


def test_without_terminal_confirmation_is_refused(tmp_path: Path, pad: QtDesktop) -> None:
    done = cua_vnc(tmp_path, [RISKY], "run", "--vnc", pad.server, "--task", "Buy")
    assert done.returncode == 5
    assert last_line(done)[0] == "denied"
    assert "this buys two apples" in done.stdout


@pytest.mark.slow
def test_approved_run_is_ruled_by_policy_given_again(tmp_path: Path, pad: QtDesktop) -> None:
    (tmp_path / "policy.toml").write_text('[[rule]]\nname = "no rm"\ndecision = "deny"\ntext = "rm -rf"\n')
    replies = [RISKY, calls(("type", {"text": "rm -rf /"})), text("bought"), FAILS]
    with GeminiServer(replies) as server:
        address = ("--vnc", pad.server)
        options = ["--wait-for-approval", "--policy", "policy.toml", "--expect", "the basket is empty"]
        waiting = at_server(server, tmp_path, "run", *options, *address, "--task", "Buy")
        run_id = Path(last_line(waiting)[1]).name
        denied = at_server(server, tmp_path, "approve", "--policy", "policy.toml", *address, run_id)
    assert denied.returncode == 5, denied.stdout
    assert "no rm" in denied.stdout


@pytest.mark.slow
def test_claims_of_run_are_judged_after_its_approval(tmp_path: Path, pad: QtDesktop) -> None:
    with GeminiServer([RISKY, text("bought"), FAILS]) as server:
        address = ("--vnc", pad.server)
        waiting = at_server(
            server, tmp_path, "run", "--wait-for-approval", "--expect", "it is open", *address, "--task", "Buy"
        )
        approved = at_server(server, tmp_path, "approve", *address, Path(last_line(waiting)[1]).name)
    assert approved.returncode == 1, approved.stderr
    assert "'it is open'" in approved.stdout


@pytest.mark.slow
def test_approved_run_has_functions_that_it_was_started_with(tmp_path: Path, pad: QtDesktop) -> None:
    with GeminiServer([RISKY, calls(("list_elements", {})), text("bought")]) as server:
        options = ["--wait-for-approval", "--elements=on", "--vnc", pad.server, "--task", "Buy"]
        waiting = at_server(server, tmp_path, "run", *options)
        approved = at_server(server, tmp_path, "approve", *options[1:4], Path(last_line(waiting)[1]).name)
        assert (approved.returncode, server.refusals) == (0, []), approved.stderr
    _, listed = read_trace(tmp_path / last_line(approved)[1]).steps
    assert listed.output.startswith("no list of elements is available here: ")


@pytest.mark.slow
def test_secret_is_given_again_or_run_does_not_go_on(
    tmp_path: Path, pad: QtDesktop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PW", "qzj")
    typed = calls(
        ("click", wants_confirmation({"x": 500, "y": 500}, "this signs in")), ("type", {"text": "<secret:PW>"})
    )
    with GeminiServer([typed, text("signed in")]) as server:
        task = ("--vnc", pad.server, "--task", "Sign in with <secret:PW>")
        waiting = at_server(server, tmp_path, "run", "--wait-for-approval", "--secret", "PW", *task)
        assert waiting.returncode == 7, waiting.stderr
        run_id = Path(last_line(waiting)[1]).name
        pad.write_file("events.txt", "")
        for word in ("approve", "resume"):
            refused = at_server(server, tmp_path, word, "--vnc", pad.server, run_id)
            assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
            assert "--secret PW" in refused.stderr
        assert pad.read_file("events.txt") == ""
        approved = at_server(server, tmp_path, "approve", "--vnc", pad.server, "--secret", "PW", run_id)
        assert approved.returncode == 0, approved.stderr
    events = pad.read_file("events.txt").splitlines()
    assert [line for line in events if line.startswith("text")] == ["text q", "text z", "text j"]
    assert "qzj" not in approved.stdout


@pytest.mark.slow
def test_planner_that_was_callable_goes_on_as_that_or_is_given_again(tmp_path: Path, pad: QtDesktop) -> None:
    (tmp_path / "plans.py").write_text(
        "from pytest_vnc_use.planners import finish\n"
        "from pytest_vnc_use.types import Click, Confirmation, Proposal\n"
        "def plan(seen):\n"
        "    return finish() if seen.turns else Proposal(Click(9, 9), confirmation=Confirmation('buys'))\n"
    )
    start = "import sys; from plans import plan; from pytest_vnc_use import VncUseAgent; "
    run = start + "print(VncUseAgent(sys.argv[1], planner=plan).run('Buy', run_id='r1').outcome)"
    with GeminiServer([]) as server:
        first = [sys.executable, "-c", run, pad.server]
        subprocess.run(first, cwd=tmp_path, env=environment(server), check=True, timeout=400)
        refused = at_server(server, tmp_path, "approve", "--vnc", pad.server, "r1")
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
        assert "its planner was 'callable (plans:plan)'" in refused.stderr
        assert "--planner" in refused.stderr
        approved = at_server(server, tmp_path, "approve", "--vnc", pad.server, "--planner", "plans:plan", "r1")
        assert (approved.returncode, server.requests) == (0, []), approved.stderr


def test_run_directory_gives_no_settings(tmp_path: Path, pad: QtDesktop) -> None:
    """It names a program, a command, a planner that imports its own module, and servers."""
    (tmp_path / "evil.py").write_text("open('owned', 'w')\ndef plan(seen): return None\n")
    with GeminiServer([RISKY, text("bought")]) as server:
        waiting = at_server(server, tmp_path, "run", "--wait-for-approval", "--vnc", pad.server, "--task", "Buy")
        trace = tmp_path / last_line(waiting)[1] / "trace.jsonl"
        header, started, *rest = trace.read_text(encoding="utf-8").splitlines()
        told = json.loads(started) | {"server": "127.0.0.1::1"}
        told["settings"] |= {"planner": "evil:plan", "exec": "sh -c 'touch owned'", "app": "touch owned"}
        told["settings"] |= {"base_url": "http://127.0.0.1:1", "model": "m", "cdp": "evil:1", "prices": "evil.toml"}
        trace.write_text("\n".join([header, json.dumps(told), *rest, ""]), encoding="utf-8")
        approved = at_server(server, tmp_path, "approve", "--vnc", pad.server, trace.parent.name)
    assert approved.returncode == 0, approved.stderr
    assert not (tmp_path / "owned").exists()


def test_run_directory_with_policy_asks_for_it(tmp_path: Path, pad: QtDesktop) -> None:
    (tmp_path / "policy.toml").write_text("[[rule]]\ndecision = 'ask'\naction = 'click'\n")
    with GeminiServer([RISKY]) as server:
        options = ["--wait-for-approval", "--vnc", pad.server, "--policy", "policy.toml", "--task", "Buy"]
        waiting = at_server(server, tmp_path, "run", *options)
        refused = at_server(server, tmp_path, "approve", "--vnc", pad.server, Path(last_line(waiting)[1]).name)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "policy.toml': give it again with --policy FILE" in refused.stderr


def test_run_not_there_is_told(tmp_path: Path, pad: QtDesktop) -> None:
    done = cua_vnc(tmp_path, [], "approve", "--vnc", pad.server, "nosuchrun")
    assert done.returncode == 2
    assert "no run directory 'runs/nosuchrun'; those that wait or were interrupted in 'runs': none" in done.stderr
    for number in range(1, 8):
        (tmp_path / "runs" / f"run-{number}").mkdir(parents=True)
        if number != 6:
            (tmp_path / "runs" / f"run-{number}" / "checkpoints.sqlite").touch()
    done = cua_vnc(tmp_path, [], "resume", "--vnc", pad.server, "nosuchrun")
    assert "in 'runs': 'run-2', 'run-3', 'run-4', 'run-5', 'run-7'" in done.stderr


@pytest.mark.slow
def test_waiting_run_asked_again_is_resumed_and_denied(tmp_path: Path, pad: QtDesktop) -> None:
    with GeminiServer([RISKY, RISKY, text("bought")]) as server:
        waiting = at_server(server, tmp_path, "run", "--wait-for-approval", "--vnc", pad.server, "--task", "Buy")
        run_id = Path(last_line(waiting)[1]).name
        again = at_server(server, tmp_path, "approve", "--vnc", pad.server, run_id)
        assert again.returncode == 7, again.stderr
        resumed = at_server(server, tmp_path, "resume", "--vnc", pad.server, run_id)
        assert resumed.returncode == 7, resumed.stderr
        denied = at_server(server, tmp_path, "deny", "--vnc", pad.server, run_id)
    assert denied.returncode == 5, denied.stderr


@pytest.mark.slow
def test_desktop_may_come_from_environment(tmp_path: Path, pad: QtDesktop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VNC_USE_SERVER", pad.server)
    waiting = cua_vnc(tmp_path, [RISKY], "run", "--wait-for-approval", "--task", "Buy")
    assert waiting.returncode == 7, waiting.stderr
    run_id = Path(last_line(waiting)[1]).name
    assert cua_vnc(tmp_path, [], "deny", run_id).returncode == 5


@pytest.mark.slow
@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 5), ("\x04", 5)], ids=["yes", "no", "Ctrl-D"])
def test_at_terminal_person_is_asked(tmp_path: Path, pad: QtDesktop, answer: str, code: int) -> None:
    ours, theirs = pty.openpty()
    with GeminiServer([RISKY, text("bought")]) as server:
        process = subprocess.Popen(
            command("run", "--vnc", pad.server, "--task", "Buy"),
            cwd=tmp_path,
            env=environment(server),
            stdin=theirs,
            stdout=subprocess.PIPE,
            text=True,
        )
        os.write(ours, answer.encode())
        output, _ = process.communicate(timeout=400)
    os.close(ours)
    os.close(theirs)
    assert process.returncode == code
    assert "this buys two apples" in output


@pytest.mark.slow
def test_what_is_broken_is_told_as_infra(tmp_path: Path, pad: QtDesktop) -> None:
    refused = cua_vnc(tmp_path, [], "run", "--vnc", "127.0.0.1::1", "--task", "Look")
    assert refused.returncode == 9
    assert "infra: DesktopRefused" in refused.stderr
    quota = cua_vnc(tmp_path, [daily_quota()], "run", "--vnc", pad.server, "--task", "Look")
    assert quota.returncode == 9
    assert "infra: QuotaExhausted" in quota.stderr
    word, directory = last_line(quota)
    assert word == "infra"
    assert (tmp_path / directory).is_dir()


@pytest.mark.parametrize(
    "arguments",
    [["run"], ["run", "--vnc", "h::1", "--task", "x", "--step-limit", "0"], ["policy", "check", "none.toml"]],
)
def test_wrong_usage_exits_with_2(tmp_path: Path, arguments: list[str]) -> None:
    done = cua_vnc(tmp_path, [], *arguments)
    assert done.returncode == 2
    assert done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["run", "--vnc=h::1", "--task=x", "--password", "s3cret"],
        ["run", "--vnc=h::1", "--task=x", "--password=s3cret"],
        ["run", "--vnc=h::1", "--task=x", "-ps3cret"],
        ["policy", "check", "file.toml", "s3cret"],
    ],
)
def test_unknown_option_is_refused_without_its_value(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.main(words)
    output = capsys.readouterr().err
    assert "unrecognized arguments: " in output
    assert "s3cret" not in output
    assert ("--password-env NAME" in output) == any(word.startswith("--password") for word in words)


@pytest.mark.parametrize("words", [["--versio"], ["run", "--hel"], ["policy", "check", "--hel"]])
def test_abbreviated_option_is_unknown(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.main(words)
    assert "usage: cua-vnc" in capsys.readouterr().err


@pytest.mark.parametrize("server", ["xvnc", "qt", "container:shop"])
@pytest.mark.parametrize("words", [["run", "--task", "x"], ["reenact", "none"]], ids=["run", "reenact"])
def test_command_that_starts_no_desktop_says_so(
    server: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([*words, "--vnc", server]) == 2
    said = capsys.readouterr().err
    assert "--vnc must be the address of a running desktop, host::port, " in said
    assert f"got {server!r}" in said


@pytest.mark.desktop
def test_key_missing_is_told_without_option_that_does_not_exist(tmp_path: Path, pad: QtDesktop) -> None:
    without = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    words = ("run", "--vnc", pad.server, "--task", "x")
    done = run_python("pytest_vnc_use.cli", *words, cwd=tmp_path, env=without, timeout=400)
    assert done.returncode == 2
    assert "no API key is set; set GOOGLE_API_KEY. In Python a planner or judge also takes api_key=…" in done.stderr


@pytest.mark.slow
def test_policy_is_checked_and_tried_on_run(tmp_path: Path, pad: QtDesktop) -> None:
    (tmp_path / "policy.toml").write_text('[[rule]]\nname = "apples"\ndecision = "allow"\nexplanation = "apples"\n')
    checked = cua_vnc(tmp_path, [], "policy", "check", "policy.toml")
    assert checked.returncode == 0
    assert "apples" in checked.stdout
    denied = cua_vnc(tmp_path, [RISKY], "run", "--vnc", pad.server, "--task", "Buy")
    tried = cua_vnc(tmp_path, [], "policy", "test", "policy.toml", last_line(denied)[1])
    assert tried.returncode == 0, tried.stderr
    assert "allow" in tried.stdout


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"pytest-vnc-use {version('pytest-vnc-use')}\n"


@pytest.mark.slow
def test_letters_that_terminal_does_not_have_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text(
        '[[rule]]\nname = "über"\ndecision = "deny"\nkeys = "ctrl+q"\n', encoding="utf-8"
    )
    few = os.environ | {"PYTHONIOENCODING": "ascii"}
    told = subprocess.run(
        command("policy", "check", "policy.toml"),
        cwd=tmp_path,
        env=few,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    assert "?ber" in told.stdout


@pytest.mark.slow
def test_reader_that_leaves_ends_it_quietly(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text('[[rule]]\nname = "a"\ndecision = "deny"\nkeys = "ctrl+q"\n')
    reads, writes = os.pipe()
    os.close(reads)
    with os.fdopen(writes, "wb") as pipe:
        done = subprocess.run(
            command("policy", "check", "policy.toml"),
            cwd=tmp_path,
            stdout=pipe,
            stderr=subprocess.PIPE,
            text=True,
            timeout=400,
            check=False,
        )
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.desktop
def test_on_terminal_line_below_steps_says_where_run_is(
    tmp_path: Path, pad: QtDesktop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("CI", raising=False)
    may_end, terminal = Event(), Terminal(400, 24)  # the run's path has one row

    def answer(request: Request) -> Reply:
        if len(request.contents) > 1:
            may_end.wait(30)
        return CLICK if len(request.contents) == 1 else text("done")

    options = ["run", "--vnc", pad.server, "--task", "Buy", "--runs-dir", str(tmp_path)]
    with GeminiServer(answer) as server:
        env = environment(server)
        process = ForkedPython("pytest_vnc_use.cli", *options, cwd=tmp_path, env=env, stdout=terminal.slave)
        try:
            below = "step 1 of 40: asks gemini-3.8-flash, last: open the basket ("
            assert terminal.read_until(lambda: any(row.startswith(below) for row in terminal.rows)), terminal.rows
            assert terminal.rows[0].startswith("1 click(")
            may_end.set()
            assert terminal.read_until(lambda: any(row.startswith("done ") for row in terminal.rows)), terminal.rows
            assert process.wait(20) == 0
        finally:
            process.kill()
            terminal.close()
    assert [row.split()[0] for row in terminal.rows] == ["1", "done", "done"]
