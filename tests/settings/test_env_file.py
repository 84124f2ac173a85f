"""The file that `vnc_env_file` names: weaker than the environment, handed to no program, its values never told."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_vnc_use import VncUseAgent
from pytest_vnc_use.agent import build
from pytest_vnc_use.desktops.session import inheritable
from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.planners.common.http import found_key
from pytest_vnc_use.settings import Settings
from pytest_vnc_use.settings.variables import env_file_in_words, read_env_file, read_secret, use_env_file

VALUE = secrets.token_hex(12)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY", "VNC_USE_MAX_STEPS", "VNC_USE_PASSWORD", "SHOP"):
        monkeypatch.delenv(name, raising=False)
    yield tmp_path / ".env"
    use_env_file("", tmp_path)


def test_its_variables_count_where_environment_has_none(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text(f"GOOGLE_API_KEY={VALUE}\nVNC_USE_MAX_STEPS=7\nVNC_USE_PASSWORD='pass word'\nSHOP={VALUE}\n")
    use_env_file(".env", file.parent)
    settings = build.settings_of({})
    assert (settings.max_steps, found_key(None, ("GOOGLE_API_KEY",)), build.given_password(settings)) == (
        7,
        VALUE,
        "pass word",
    )
    assert read_secret("SHOP", "--vnc-secret", file.parent) == ("SHOP", VALUE)
    monkeypatch.setenv("VNC_USE_MAX_STEPS", "9")
    monkeypatch.setenv("GOOGLE_API_KEY", "the environment's")
    assert (build.settings_of({}).max_steps, found_key(None, ("GOOGLE_API_KEY",))) == (9, "the environment's")
    assert env_file_in_words() == (
        "read from the file: VNC_USE_PASSWORD, SHOP; the environment's own count: GOOGLE_API_KEY, VNC_USE_MAX_STEPS"
    )


def test_agent_in_plain_python_reads_file_that_environment_names(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("VNC_USE_VOTES=7\n")
    monkeypatch.setenv("VNC_USE_ENV_FILE", str(file))
    assert VncUseAgent().settings.votes == 7
    monkeypatch.setenv("VNC_USE_VOTES", "9")
    assert VncUseAgent().settings.votes == 9


def test_agent_refuses_named_file_not_there(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VNC_USE_ENV_FILE", str(file))
    with pytest.raises(SettingsError, match=r"\.env' cannot be read: No such file"):
        VncUseAgent()


def test_its_keys_are_redacted_and_no_program_gets_any_variable(file: Path) -> None:
    file.write_text(f"GOOGLE_API_KEY={VALUE}\nOTHER={VALUE}\n")
    use_env_file(".env", file.parent)
    assert build.ambient_secrets(Settings())["GOOGLE_API_KEY"] == VALUE
    assert VALUE not in repr((dict(os.environ), inheritable()))


def test_earlier_variables_come_back(file: Path) -> None:
    file.write_text("VNC_USE_MAX_STEPS=7")
    put_back = use_env_file(".env", file.parent)
    assert build.settings_of({}).max_steps == 7
    put_back()
    assert build.settings_of({}).max_steps == 40


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=b", "b"),
        ("export A = b c # a remark", "b c"),
        ("A='x # $y \\n'  # a remark", "x # $y \\n"),
        ('A="x y"', "x y"),
        ("A=", ""),
        ("A=# nothing", ""),
        ("A=a#b==", "a#b=="),
        ("\ufeff# first\n\n  A=b\r\n", "b"),
    ],
)
def test_lines_read(file: Path, line: str, value: str) -> None:
    file.write_bytes(line.encode())
    assert read_env_file(file) == {"A": value}


@pytest.mark.parametrize(
    "line", ["SK", "9A=SK", "A-B=SK", "A='SK", "A=$SK", 'A="${SK}"', 'A="SK\\n"', "A='SK'SK", "A=`SK`", "A=\0SK"]
)
def test_malformed_line_is_told_by_its_number_only(file: Path, line: str) -> None:
    file.write_text(f"FIRST=1\n{line.replace('SK', VALUE)}\n")
    with pytest.raises(SettingsError, match="line 2, ") as told:
        read_env_file(file)
    assert VALUE not in str(told.value)


def test_name_stands_once(file: Path) -> None:
    file.write_text("A=1\nA=2\n")
    with pytest.raises(SettingsError, match="line 2, has A for the second time"):
        read_env_file(file)


def test_what_is_no_file_of_text_is_refused(file: Path) -> None:
    with pytest.raises(SettingsError, match="No such file"):
        read_env_file(file)
    os.mkfifo(file)
    with pytest.raises(SettingsError, match="it must be a regular file"):
        read_env_file(file)
    file.unlink()
    file.write_bytes(b"A=" + b"x" * (1 << 20))
    with pytest.raises(SettingsError, match="at most 1048576 bytes"):
        read_env_file(file)
    file.write_bytes(b"A=\xff")
    with pytest.raises(SettingsError, match=r"must be UTF-8$"):
        read_env_file(file)
