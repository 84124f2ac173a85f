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

for directory in sys.argv[1:]:
    os.chdir(directory)
    pytest.main(["-q", "-s", "--collect-only", "-p", "no:cacheprovider"], plugins=[Reader()])
"""


def test_pytest_reads_what_was_added(tmp_path: Path) -> None:
    directories = [tmp_path / str(number) for number in range(len(LAYOUTS))]
    for directory, (layout, (files, name)) in zip(
        directories, LAYOUTS.items(), strict=True
    ):
        directory.mkdir()
        for path, text in files.items():
            (directory / path).write_bytes(text.encode())
        ini = IniFile.find(directory)
        assert ini.name == name, layout
        changed = ini.with_options(WANTED)
        (directory / name).write_bytes(changed.encode())
        before = files.get(name, "")
        assert not [
            line for line in before.splitlines() if line not in changed.splitlines()
        ], layout
        assert ("\r\n" in before) == (changed.count("\n") == changed.count("\r\n")), (
            layout
        )
        again = IniFile.find(directory)
        assert (again.name, {key: again.options[key] for key in ini.options}) == (
            name,
            dict(ini.options),
        ), layout
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-c", READ, *map(str, directories)]
    done = subprocess.run(
        command,
        env=environment,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    values = [line for line in done.stdout.splitlines() if line.startswith("READ ")]
    expected = f"READ {(WANTED['vnc_app'][0], ['-p', 'no:langsmith_plugin'])!r}"
    assert dict(zip(LAYOUTS, values, strict=True)) == dict.fromkeys(
        LAYOUTS, expected
    ), done.stderr


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
