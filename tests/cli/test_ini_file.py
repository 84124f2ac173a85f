"""Options are added to whatever configures pytest in a project, as pytest itself reads
it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_vnc_use.cli.ini_file import IniFile
from pytest_vnc_use.errors import SettingsError

WANTED = {
    "vnc_app": ("echo \"é\" 'a b' \\ # x", "a comment"),
    "addopts": ("-p no:langsmith_plugin", "why"),
}
PROJECT = '[project]\nname = "x" # ours\nversion = "1"\n'
LAYOUTS = {
    "nothing": ({}, "pytest.ini"),
    "pyproject": (
        {
            "pyproject.toml": (
                f"{PROJECT}[ tool.pytest.ini_options ] # here\nmarkers = [\n "
                " 'a',\n]\n[tool.x]\ny = 1\n"
            )
        },
        "pyproject.toml",
    ),
    "pyproject, native": (
        {"pyproject.toml": f"{PROJECT}[tool.pytest]\nminversion = '8.0'\n"},
        "pyproject.toml",
    ),
    "pyproject with Windows' line ends": (
        {"pyproject.toml": PROJECT.replace("\n", "\r\n")},
        "pyproject.toml",
    ),
    "pytest.ini": (
        {"pytest.ini": "[pytest]\nmarkers =\n  a\n  b\n", "pyproject.toml": PROJECT},
        "pytest.ini",
    ),
    "tox.ini": (
        {
            "tox.ini": "[tox]\nenvlist = a\n\n[pytest]\nmarkers = a\n",
            "pyproject.toml": PROJECT,
        },
        "tox.ini",
    ),
    "setup.cfg": (
        {"setup.cfg": "[metadata]\nname = x\n[tool:pytest]\nmarkers = a"},
        "setup.cfg",
    ),
    "pytest.toml": ({"pytest.toml": "[pytest]\nminversion = '8.0'\n"}, "pytest.toml"),
}


READ = """
import os, sys, pytest

class Reader:
    def pytest_addoption(self, parser): parser.addini("vnc_app", "")
    def pytest_configure(self, config): print("READ", repr((config.getini("vnc_app"), [*config.getini("addopts")])))

pytest.main(["-q", "-s", "--collect-only", "-p", "no:cacheprovider"], plugins=[Reader()])
"""


@pytest.fixture(params=LAYOUTS)
def layout(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str]:
    """A project's directory, and the name of the file that has its options."""
    files, name = LAYOUTS[request.param]
    for path, text in files.items():
        (tmp_path / path).write_bytes(text.encode())
    return tmp_path, name


def test_added_options_leave_other_lines(layout: tuple[Path, str]) -> None:
    directory, name = layout
    ini = IniFile.find(directory)
    assert ini.name == name
    file = directory / name
    before = file.read_bytes().decode() if file.exists() else ""

    changed = ini.with_options(WANTED)
    kept = changed.splitlines()
    assert [line for line in before.splitlines() if line not in kept] == []
    has_windows_ends = changed.count("\n") == changed.count("\r\n")
    assert has_windows_ends == ("\r\n" in before)


def test_added_options_leave_other_options(layout: tuple[Path, str]) -> None:
    directory, name = layout
    ini = IniFile.find(directory)
    (directory / name).write_bytes(ini.with_options(WANTED).encode())
    again = IniFile.find(directory)
    assert again.name == name
    assert {key: again.options[key] for key in ini.options} == dict(ini.options)


def test_added_options_are_read_by_pytest(layout: tuple[Path, str]) -> None:
    directory, name = layout
    changed = IniFile.find(directory).with_options(WANTED)
    (directory / name).write_bytes(changed.encode())
    done = subprocess.run(
        [sys.executable, "-c", READ],
        cwd=directory,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    values = [line for line in done.stdout.splitlines() if line.startswith("READ ")]
    options = (WANTED["vnc_app"][0], ["-p", "no:langsmith_plugin"])
    assert values == [f"READ {options!r}"], done.stderr


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        (
            "pyproject.toml",
            b"tool.pytest.ini_options.markers = ['a']\n",
            "has no separate heading",
        ),
        ("pyproject.toml", b"[tool\n", "pyproject.toml cannot be read"),
        ("tox.ini", b"[pytest]\nmarkers = \xff\n", "tox.ini' is not text in UTF-8"),
        ("pytest.ini", b"", "options cannot be added"),
    ],
)
def test_file_that_cannot_be_changed_is_named(
    tmp_path: Path, name: str, content: bytes, problem: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SettingsError, match=problem):
        IniFile.find(tmp_path).with_options(
            {"vnc_app": ("a\nb", "")} if not content else WANTED
        )
