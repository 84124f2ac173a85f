"""Paths in settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_vnc_use.settings.layers import absolute_files, absolute_text
from pytest_vnc_use.settings.settings import Settings


def test_file_is_absolute_and_preset_is_no_file(tmp_path: Path) -> None:
    assert absolute_files(Settings(policy="a.toml"), tmp_path).policy == str(tmp_path / "a.toml")
    assert absolute_files(Settings(policy="strict"), tmp_path).policy == "strict"
    assert absolute_files(Settings(policy="./strict"), tmp_path).policy == str(tmp_path / "strict")
    assert absolute_files(Settings(), tmp_path).policy == ""


@pytest.mark.parametrize(
    ("name", "text", "absolute"),
    [
        ("app", "python ./app.py --file a/b", "python {base}/app.py --file a/b"),
        ("app", "python app.py", "python app.py"),
        ("app", "python './app.py", "python './app.py"),
        ("exec", "./app.py {{host}}", "{base}/app.py '{{host}}'"),
        ("server", "a::5900, ./socket", "a::5900,{base}/socket"),
        ("container_args", "-v ./app.py:/app.py -v data:/data", "-v {base}/app.py:/app.py -v data:/data"),
        ("container_args", "--volume=app.py:/a:ro -vapp.py:/b", "--volume={base}/app.py:/a:ro -v{base}/app.py:/b"),
        ("container_args", "-e A=app.py:x --network none", "-e A=app.py:x --network none"),
        ("tls", "ca.pem", "{base}/ca.pem"),
        ("tls", "require", "require"),
        ("tls", "sha256:00", "sha256:00"),
        ("model", "a/b", "a/b"),
    ],
)
def test_path_in_text_of_setting_begins_at_dir(tmp_path: Path, name: str, text: str, absolute: str) -> None:
    (tmp_path / "app.py").touch()
    assert absolute_text(name, text.format(), tmp_path) == absolute.format(base=tmp_path)
