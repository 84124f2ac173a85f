"""A page's pictures: inside it, or as files that several processes may write at once."""

from __future__ import annotations

import subprocess
import sys
from base64 import b64decode
from contextlib import ExitStack

import pytest

from pytest_vnc_use.report.assets import AssetLink, data_uri, keep_asset

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4000

WRITER = """
import sys
from pathlib import Path
from pytest_vnc_use.report.assets import keep_asset

print("ready", flush=True)
sys.stdin.read()
for number in range(100):
    keep_asset(Path(sys.argv[1], f"{number}.png"), bytes([number]) * 300_000)
"""


def test_a_data_uri_holds_the_picture():
    head, body = data_uri(PNG).split(",")
    assert head == "data:image/png;base64"
    assert b64decode(body) == PNG


def test_a_picture_is_noted_once_for_who_writes_the_report():
    link = AssetLink("assets/")
    addresses = [link(png) for png in (PNG, PNG, PNG + b"!")]
    assert addresses[0] == addresses[1] != addresses[2]
    assert {f"assets/{name}": png for name, png in link.pictures.items()} == {
        addresses[0]: PNG,
        addresses[2]: PNG + b"!",
    }


def test_an_asset_is_the_file_of_the_run_where_there_is_one(tmp_path):
    original = tmp_path / "original.png"
    original.write_bytes(PNG)
    keep_asset(tmp_path / "assets" / "1.png", PNG, original)
    assert (tmp_path / "assets" / "1.png").samefile(original)
    original.unlink()  # as --vnc-artifacts may do
    assert (tmp_path / "assets" / "1.png").read_bytes() == PNG


@pytest.mark.parametrize("kind", ["missing", "other", "link"])
def test_an_asset_is_a_copy_where_the_file_of_the_run_is_not_here(tmp_path, kind):
    original = tmp_path / "original.png"
    if kind == "other":
        original.write_bytes(b"of a run on this machine")
    elif kind == "link":
        (tmp_path / "secret").write_bytes(PNG)
        original.symlink_to(tmp_path / "secret")
    keep_asset(tmp_path / "assets" / "1.png", PNG, original)
    asset = tmp_path / "assets" / "1.png"
    assert (asset.read_bytes(), asset.stat().st_nlink, asset.is_symlink()) == (PNG, 1, False)


def test_processes_may_write_the_same_pictures_at_the_same_time(tmp_path):
    command = [sys.executable, "-c", WRITER, str(tmp_path / "assets")]
    with ExitStack() as stack:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        writers = [stack.enter_context(subprocess.Popen(command, **pipes)) for _ in range(4)]
        for writer in writers:
            writer.stdout.readline()
        for writer in writers:
            writer.stdin.close()
    assert [writer.returncode for writer in writers] == [0, 0, 0, 0]
    sizes = [path.stat().st_size for path in (tmp_path / "assets").iterdir()]
    assert sizes == [300_000] * 100
