"""A page's pictures: inside it, or as files that several processes may write at once."""

from __future__ import annotations

import subprocess
import sys
from base64 import b64decode
from contextlib import ExitStack

from pytest_vnc_use.report.assets import asset_writer, collecting, data_uri

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4000

WRITER = """
import sys
from pathlib import Path
from pytest_vnc_use.report.assets import asset_writer

link = asset_writer(Path(sys.argv[1]), "assets/")
print("ready", flush=True)
sys.stdin.read()
for number in range(100):
    link(bytes([number]) * 300_000)
"""


def test_a_data_uri_holds_the_picture():
    head, body = data_uri(PNG).split(",")
    assert head == "data:image/png;base64"
    assert b64decode(body) == PNG


def test_a_picture_is_written_once_and_linked_from_the_report(tmp_path):
    link = asset_writer(tmp_path / "assets", "assets/")
    address = link(PNG)
    written = (tmp_path / address).stat()
    assert (tmp_path / address).read_bytes() == PNG
    assert link(PNG) == address
    assert (tmp_path / address).stat().st_mtime_ns == written.st_mtime_ns
    assert link(PNG + b"!") != address


def test_pictures_are_collected_for_who_writes_the_report(tmp_path):
    pictures = set()
    link = collecting(pictures, "assets/")
    addresses = [link(png) for png in (PNG, PNG, PNG + b"!")]
    assert pictures == {PNG, PNG + b"!"}
    assert set(addresses) == set(map(asset_writer(tmp_path, "assets/"), pictures))


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
