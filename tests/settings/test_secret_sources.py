"""Where the value of a secret comes from, and errors that never tell it."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.settings.variables import read_secret

VALUE = "hunter2 é"


@pytest.fixture(autouse=True)
def _value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP", VALUE)
    monkeypatch.setenv("PYTHONIOENCODING", "utf-8")
    (tmp_path / "shop.txt").write_text(VALUE + "\n", encoding="utf-8")
    (tmp_path / "empty.txt").write_text("\n", encoding="utf-8")
    (tmp_path / "bytes.bin").write_bytes(b"\xff")


def prints(code: str) -> str:
    return "SHOP=cmd:" + shlex.join([sys.executable, "-c", code])


def test_value_comes_from_its_source(tmp_path: Path) -> None:
    for text in ("SHOP", "SHOP=env:SHOP", "SHOP=file:shop.txt", prints("import os; print(os.environ['SHOP'])")):
        name, value = read_secret(text, "--vnc-secret", tmp_path)
        assert (name, str(value), repr(value)) == ("SHOP", VALUE, "'<secret:SHOP>'")


PROBLEMS = {
    "a b": "must be NAME, NAME=env:VARIABLE",
    "SHOP=hunter2": "got 'SHOP=…'",
    "SHOP=hunter:2": "got 'SHOP=…'",
    "SHOP=env:": "got 'SHOP=…'",
    "NO_SUCH": "names the environment variable 'NO_SUCH', which is not set",
    "SHOP=env:NO_SUCH": "names the environment variable 'NO_SUCH', which is not set",
    "SHOP=file:no.txt": "cannot be read from the file 'no.txt': No such file",
    "SHOP=file:bytes.bin": "it is not UTF-8",
    "SHOP=file:empty.txt": "which is empty",
    "SHOP=cmd:no-such-program": "cannot be read from the command 'no-such-program': .*No such file",
    "SHOP=cmd:'": "No closing quotation",
    prints("print('hunter2'); raise SystemExit(3)"): "it exited with 3",
    prints("import sys; sys.stdout.buffer.write(bytes([255]))"): "its output is not UTF-8",
}


def test_error_names_option_and_never_value(tmp_path: Path) -> None:
    for text, problem in PROBLEMS.items():
        with pytest.raises(SettingsError, match=f"^--vnc-secret.*{problem}") as raised:
            read_secret(text, "--vnc-secret", tmp_path)
        assert "hunter" not in str(raised.value).replace(text.partition("cmd:")[2], "") or "cmd:" in text
