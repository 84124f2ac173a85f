"""Agents of the harness on VNC servers, and what their recordings hold."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from support.served_screen import ServedScreen
from support.vnc_servers import VncServer

_LENGTHS = {0: 20, 3: 10, 4: 8, 5: 6, 255: 12}


def place(server: VncServer | ServedScreen) -> dict[str, Any]:
    return {
        "vnc_scheme": "vnc",
        "vnc_host": "127.0.0.1",
        "vnc_port": int(server.address.rpartition(":")[2]),
    }


def actions_in(file: Path) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))
    return records


def client_messages(recording: Path) -> Iterator[bytes]:
    data = (recording / "client.rfb.bin").read_bytes()
    assert data.startswith(b"RFB 003.008\n\1\1")
    data = data[14:]
    while data:
        if data[0] == 2:
            length = 4 + 4 * int.from_bytes(data[2:4], "big")
        elif data[0] == 6:
            length = 8 + abs(int.from_bytes(data[4:8], "big", signed=True))
        else:
            length = _LENGTHS[data[0]]
        yield data[:length]
        data = data[length:]
