"""Options are added to whatever configures pytest in a project, as pytest itself reads it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_vnc_use.cli.ini_file import IniFile
from pytest_vnc_use.errors import SettingsError

WANTED = {"vnc_app": ("echo \"é\" 'a b' \\ # x", "a comment"), "addopts": ("-p no:langsmith_plugin", "why")}
PROJECT = '[project]\nname = "x" # ours\nversion = "1"\n'
LAYOUTS = {
    "nothing": ({}, "pytest.ini"),
    "pyproject without pytest": ({"pyproject.toml": PROJECT}, "pyproject.toml"),
    "pyproject without a last newline": ({"pyproject.toml": PROJECT.rstrip()}, "pyproject.toml"),
    "pyproject": (
        {"pyproject.toml": f"{PROJECT}[ tool.pytest.ini_options ] # here\nmarkers = [\n  'a',\n]\n[tool.x]\ny = 1\n"},
        "pyproject.toml",
    ),
    "pyproject, its table last": ({"pyproject.toml": f"{PROJECT}[tool.pytest.ini_options]"}, "pyproject.toml"),
    "pyproject, native": ({"pyproject.toml": f"{PROJECT}[tool.pytest]\nminversion = '8.0'\n"}, "pyproject.toml"),
    "pyproject with Windows' line ends": ({"pyproject.toml": PROJECT.replace("\n", "\r\n")}, "pyproject.toml"),
    "pytest.ini with a mark of byte order": ({"pytest.ini": "\ufeff[pytest]\nmarkers = a\n"}, "pytest.ini"),
    "pytest.ini": ({"pytest.ini": "[pytest]\nmarkers =\n  a\n  b\n", "pyproject.toml": PROJECT}, "pytest.ini"),
    "pytest.ini, empty": ({"pytest.ini": "", "pyproject.toml": PROJECT}, "pytest.ini"),
    "pytest.ini, other section": ({"pytest.ini": "[other]\nx = 1"}, "pytest.ini"),
    "tox.ini": ({"tox.ini": "[tox]\nenvlist = a\n\n[pytest]\nmarkers = a\n", "pyproject.toml": PROJECT}, "tox.ini"),
    "tox.ini without pytest": ({"tox.ini": "[tox]\nenvlist = a\n"}, "pytest.ini"),
    "setup.cfg": ({"setup.cfg": "[metadata]\nname = x\n[tool:pytest]\nmarkers = a"}, "setup.cfg"),
    "pytest.toml": ({"pytest.toml": "[pytest]\nminversion = '8.0'\n"}, "pytest.toml"),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_pytest_reads_what_was_added(tmp_path: Path, layout: str) -> None:
    files, name = LAYOUTS[layout]
    for path, text in files.items():
        (tmp_path / path).write_bytes(text.encode())
    ini = IniFile.find(tmp_path)
    assert ini.name == name
    changed = ini.with_options(WANTED)
    (tmp_path / name).write_bytes(changed.encode())
    before = files.get(name, "")
    assert not [line for line in before.splitlines() if line not in changed.splitlines()]
    assert ("\r\n" in before) == (changed.count("\n") == changed.count("\r\n"))
    again = IniFile.find(tmp_path)
    assert again.name == name
    assert {key: again.options[key] for key in ini.options} == dict(ini.options)
    assert pytests_own(tmp_path) == (WANTED["vnc_app"][0], ["-p", "no:langsmith_plugin"])


def pytests_own(directory: Path) -> tuple[str, list[str]]:
    """Return the values that pytest reads for the two options in this directory."""
    (directory / "conftest.py").write_text(
        "def pytest_addoption(parser): parser.addini('vnc_app', '')\n"
        "def pytest_configure(config):\n"
        "    print('READ', repr((config.getini('vnc_app'), list(config.getini('addopts')))))\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-s", "--collect-only", "-p", "no:cacheprovider"],
        cwd=directory,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    (said,) = [line for line in done.stdout.splitlines() if line.startswith("READ ")] or [done.stdout + done.stderr]
    read: tuple[str, list[str]] = eval(said.removeprefix("READ "))
    return read


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pyproject.toml", "[tool]\npytest.ini_options = {markers = ['a']}\n"),
        ("pyproject.toml", "tool.pytest.ini_options.markers = ['a']\n"),
        ("pyproject.toml", "[tool]\npytest = {ini_options = {markers = ['a']}}\n"),
        ("pyproject.toml", "x = '''\n[tool.pytest.ini_options]\n'''\ntool.pytest.ini_options.markers = ['a']\n"),
    ],
)
def test_table_without_heading_is_left_alone(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(SettingsError, match=r"its table \[tool.pytest.ini_options\] has no separate heading"):
        IniFile.find(tmp_path).with_options(WANTED)


def test_heading_in_text_is_no_heading(tmp_path: Path) -> None:
    text = "x = '''\n[tool.pytest.ini_options]\n'''\n[tool.pytest.ini_options]\nmarkers = ['a']\n"
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(SettingsError, match="has no separate heading"):
        IniFile.find(tmp_path).with_options(WANTED)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("pyproject.toml", b"[tool\n"),
        ("pytest.ini", b"markers = a\n"),
        ("tox.ini", b"[pytest]\nmarkers = \xff\n"),
    ],
)
def test_broken_file_is_named(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SettingsError, match=name):
        IniFile.find(tmp_path)


def test_odd_value_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="options cannot be added"):
        IniFile.find(tmp_path).with_options({"vnc_app": ("a\nb", "")})
