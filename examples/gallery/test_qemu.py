"""A program in a virtual machine: QEMU's own VNC server shows it, so it is tested from
its first instruction on.

The guest is one boot sector, an echo on VGA's text screen. It tells each key to QEMU's
debug port too, which is this test's way to know what arrived.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_vnc_use.settings.settings import Settings

BOOT_SECTOR = bytes.fromhex(
    "31c0 8ed8 8ed0 bc007c"  # xor ax, ax; mov ds, ax; mov ss, ax; mov sp, 0x7c00
    "b80300 cd10"  # video mode 3: text of 80 x 25
    "b401 b90726 cd10"  # hide the caret
    "b03e b40e bb0700 cd10"  # show '>'
    "b02e e6e9"  # tell '.': it is ready
    "31c0 cd16 e6e9"  # next: wait for a key, tell it
    "b40e bb0700 cd10 ebf1"  # show it; to next
).ljust(510, b"\0") + bytes.fromhex("55aa")
MACHINE = (
    "-nodefaults -machine pc -accel tcg -m 16 -vga std -display none -debugcon stdio"
)


@pytest.fixture
def guest(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    (tmp_path / "boot").write_bytes(BOOT_SECTOR)
    drive = f"file={tmp_path / 'boot'},format=raw,if=floppy,read-only=on"
    command = [
        "qemu-system-x86_64",
        *MACHINE.split(),
        "-drive",
        drive,
        "-vnc",
        f"unix:{tmp_path / 'vnc'}",
    ]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.read(1) == b"."
        yield process
        process.terminate()


@pytest.fixture
def vnc_settings(vnc_settings: Settings, guest: object, tmp_path: Path) -> Settings:
    return replace(vnc_settings, server=str(tmp_path / "vnc"))


@pytest.mark.needs("qemu-system-x86_64", package="qemu-system-x86")
# the body asks the machine
@pytest.mark.vnc_task("Type 'hello, guest' into the machine", expect=None)
def test_guest_receives_text(
    vnc_desktop: object, guest: subprocess.Popen[bytes]
) -> None:
    assert guest.stdout is not None
    assert os.read(guest.stdout.fileno(), 1000) == b"hello, guest"
