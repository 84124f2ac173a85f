"""Variables: the file that `vnc_env_file` names, where secrets come from, and errors
that never tell a value.
"""

from __future__ import annotations

import os
import secrets
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_vnc_use import VncUseAgent
from pytest_vnc_use.agent import build, credentials
from pytest_vnc_use.desktops.environment import inheritable
from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.planners.common.http import resolve_key
from pytest_vnc_use.settings import Settings
from pytest_vnc_use.settings.variables import (
    format_env_file,
    read_env_file,
    read_secret,
    use_env_file,
)

VALUE = secrets.token_hex(12)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name in (
        "GOOGLE_API_KEY",
        "GEMINI_API_KEY",
        "VNC_USE_MAX_STEPS",
        "VNC_USE_PASSWORD",
        "SHOP",
    ):
        monkeypatch.delenv(name, raising=False)
    yield tmp_path / ".env"
    use_env_file("", tmp_path)


@pytest.fixture
def put_back(file: Path) -> Callable[[], None]:
    """What ends the use of a file with a key, a setting, a password and a secret."""
    file.write_text(
        f"GOOGLE_API_KEY={VALUE}\n"
        "VNC_USE_MAX_STEPS=7\n"
        "VNC_USE_PASSWORD='pass word'\n"
        f"SHOP={VALUE}\n"
    )
    return use_env_file(".env", file.parent)


@pytest.mark.usefixtures("put_back")
def test_variables_come_from_file(file: Path) -> None:
    settings = build.settings_of({})
    assert settings.max_steps == 7
    assert credentials.desktop_password(settings) == "pass word"
    assert resolve_key(None, ("GOOGLE_API_KEY",)) == VALUE
    assert read_secret("SHOP", "--vnc-secret", file.parent) == ("SHOP", VALUE)
    assert credentials.ambient_secrets(Settings())["GOOGLE_API_KEY"] == VALUE


@pytest.mark.usefixtures("put_back")
def test_variables_of_file_are_not_inherited() -> None:
    assert VALUE not in repr(dict(os.environ))
    assert VALUE not in repr(inheritable())


@pytest.mark.usefixtures("put_back")
def test_environment_overrules_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VNC_USE_MAX_STEPS", "9")
    monkeypatch.setenv("GOOGLE_API_KEY", "the environment's")
    assert build.settings_of({}).max_steps == 9
    assert resolve_key(None, ("GOOGLE_API_KEY",)) == "the environment's"
    assert (
        format_env_file()
        == "read from the file: VNC_USE_PASSWORD, SHOP; set in the environment instead:"
        " GOOGLE_API_KEY, VNC_USE_MAX_STEPS"
    )


def test_file_no_more_used_gives_no_variables(put_back: Callable[[], None]) -> None:
    assert build.settings_of({}).max_steps == 7
    put_back()
    assert build.settings_of({}).max_steps == 40


def test_agent_reads_file_named_by_environment(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VNC_USE_ENV_FILE", str(file))
    with pytest.raises(SettingsError, match=r"\.env' cannot be read: No such file"):
        VncUseAgent()
    file.write_text("VNC_USE_VOTES=7\n")
    assert VncUseAgent().settings.votes == 7
    monkeypatch.setenv("VNC_USE_VOTES", "9")
    assert VncUseAgent().settings.votes == 9


def test_file_is_read_as_python_dotenv_does(file: Path) -> None:
    file.write_bytes(
        "\ufeff# first\n\nexport A = b c # a remark\nB='x # $y'\nC=\nD=\"${A} d\"\r\n".encode()
    )
    assert read_env_file(file) == {"A": "b c", "B": "x # $y", "C": "", "D": "b c d"}


@pytest.mark.parametrize("line", ["SK", "A='SK", "A='SK'SK", 'A="SK'])
def test_malformed_line_is_named_without_its_text(file: Path, line: str) -> None:
    file.write_text(f"FIRST=1\n\n{line.replace('SK', VALUE)}\n")
    with pytest.raises(SettingsError, match="line 3, must be NAME=value") as raised:
        read_env_file(file)
    assert VALUE not in str(raised.value)


def test_unreadable_file_is_rejected(file: Path) -> None:
    os.mkfifo(file)
    with pytest.raises(SettingsError, match="it must be a regular file"):
        read_env_file(file)
    file.unlink()
    file.write_bytes(b"A=\xff")
    with pytest.raises(SettingsError, match=r"must be UTF-8$"):
        read_env_file(file)


SECRET = "hunter2 é"


@pytest.fixture
def secrets_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SHOP", SECRET)
    monkeypatch.setenv("PYTHONIOENCODING", "utf-8")
    (tmp_path / "shop.txt").write_text(SECRET + "\n", encoding="utf-8")
    (tmp_path / "empty.txt").write_text("\n", encoding="utf-8")
    return tmp_path


def prints(code: str) -> str:
    return "SHOP=cmd:" + shlex.join([sys.executable, "-c", code])


@pytest.mark.parametrize(
    "text",
    [
        "SHOP",
        "SHOP=env:SHOP",
        "SHOP=file:shop.txt",
        prints("import os; print(os.environ['SHOP'])"),
    ],
)
def test_value_comes_from_its_source(secrets_dir: Path, text: str) -> None:
    name, value = read_secret(text, "--vnc-secret", secrets_dir)
    assert (name, str(value), repr(value)) == ("SHOP", SECRET, "'<secret:SHOP>'")


PROBLEMS = {
    "a b": "must be NAME, NAME=env:VARIABLE",
    "SHOP=hunter2": "got 'SHOP=…'",
    "NO_SUCH": "names the environment variable 'NO_SUCH', which is not set",
    "SHOP=file:no.txt": "cannot be read from the file 'no.txt': No such file",
    "SHOP=file:empty.txt": "which is empty",
    "SHOP=cmd:no-such-program": (
        "cannot be read from the command 'no-such-program': .*No such file"
    ),
    prints("print('hunter2'); raise SystemExit(3)"): "it exited with 3",
}


@pytest.mark.parametrize(("text", "problem"), PROBLEMS.items())
def test_error_names_option_and_problem(
    secrets_dir: Path, text: str, problem: str
) -> None:
    with pytest.raises(SettingsError, match=f"^--vnc-secret.*{problem}"):
        read_secret(text, "--vnc-secret", secrets_dir)


# The error prints a command, so its text may show.
@pytest.mark.parametrize("text", [text for text in PROBLEMS if "cmd:" not in text])
def test_error_never_names_value(secrets_dir: Path, text: str) -> None:
    with pytest.raises(SettingsError) as raised:
        read_secret(text, "--vnc-secret", secrets_dir)
    assert "hunter" not in str(raised.value)
