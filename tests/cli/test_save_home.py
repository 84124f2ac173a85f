"""`cua-vnc run --save-home`: a home with which later tests start signed in."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from pytest_vnc_use import cli
from pytest_vnc_use.agent import leasing
from pytest_vnc_use.settings.settings import Settings
from support.forked_python import run_python
from support.vnc_servers import require

PLAN = """
from pytest_vnc_use.types import Decision, TypeText

def sign_in(observation):
    if observation.turns:
        return Decision("finished", "signed in")
    return [TypeText("alice\\n")]

def give_up(observation):
    raise RuntimeError("no service")
"""
SHOP = """\
#!/bin/sh
# Asks for a name once, and then for none. xterm ignores SIGHUP, a shell does not.
xterm -e sh -c '
    token=$XDG_CONFIG_HOME/token
    [ -f $token ] || { read name; echo "token of $name" >$token; }
    echo "hello $(cat $token)"
    sleep 1000
'
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    require("Xtigervnc")
    require("xterm")
    (tmp_path / "plans.py").write_text(PLAN)
    (tmp_path / "shop.sh").write_text(SHOP)
    (tmp_path / "shop.sh").chmod(0o755)
    return tmp_path


def save_home(
    project: Path, planner: str, directory: str = "tests/home"
) -> subprocess.CompletedProcess[str]:
    return run_python(
        "pytest_vnc_use.cli",
        "run",
        "Sign in as alice",
        "--vnc=xvnc",
        "--app=./shop.sh",
        f"--planner=plans:{planner}",
        f"--save-home={directory}",
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(project)},
        timeout=400,
    )


@pytest.mark.desktop
def test_saved_home_starts_program_signed_in(project: Path) -> None:
    done = save_home(project, "sign_in")
    assert done.returncode == 0, done.stderr
    outcome, run_dir = done.stdout.splitlines()[-1].split()
    assert outcome == "done"
    assert "the home is kept in tests/home" in done.stderr
    assert "add it to .gitignore" in done.stderr
    home = project / "tests" / "home"
    assert home.stat().st_mode & 0o777 == 0o700
    assert (home / ".config" / "token").read_text() == "token of alice\n"
    files = [*(project / run_dir).rglob("*.*")]
    assert files
    assert [file for file in files if b"token of alice" in file.read_bytes()] == []
    settings = Settings(server="xvnc", app=str(project / "shop.sh"), home=str(home))
    desktop = leasing.lease_desktop(settings)
    try:
        assert desktop.read_file(".config/token") == "token of alice\n"
    finally:
        desktop.stop()


@pytest.mark.desktop
def test_run_that_is_not_done_keeps_no_home(project: Path) -> None:
    done = save_home(project, "give_up")
    assert done.returncode != 0
    assert "the home is not kept: the task is not done" in done.stderr
    assert not (project / "tests" / "home").exists()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            ["--vnc=xvnc", "--app=a", "--save-home=."],
            "a new or an empty directory, got",
        ),
        (["--vnc=h::1", "--app=a", "--save-home=new"], "needs a program that it can"),
        (["--vnc=xvnc", "--save-home=new"], "got --app='' and --vnc='xvnc'"),
        (["--vnc=h::1", "--app=a"], "--app='a' needs --save-home"),
        (
            ["--vnc=qt", "--app=a", "--save-home=new", "--wait-for-approval"],
            "--wait-for-approval needs a running desktop",
        ),
    ],
)
def test_save_home_wrong_usage_exits_with_2(
    tmp_path: Path,
    arguments: list[str],
    problem: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    code = cli.main(["run", "x", "--planner=plans:sign_in", *arguments])
    error = capsys.readouterr().err
    assert code == 2, error
    assert problem in error, error
    assert not (tmp_path / "new").exists()
