"""How the users of other VNC clients take a screenshot as PNG bytes, each on a connection of its own."""

from __future__ import annotations

import asyncio
import io
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import numpy as np
from PIL import Image

Capture = Callable[[], bytes]


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


def png_by_pillow(rgba: Any) -> bytes:
    """As the examples of asyncvnc and pytest-vnc save what they got."""
    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(rgba)).save(file, "PNG")
    return file.getvalue()


@contextmanager
def vncdotool_client(address: str) -> Iterator[Any]:
    """vncdotool 1.4.2 through its threaded API, in this process; shares the reactor with whatever uses it."""
    from vncdotool import api

    client = api.connect(address, timeout=60)
    client.captureScreen(io.BytesIO(), format="PNG")  # its first frame is wrong
    yield client
    client.disconnect()


def by_vncdotool(client: Any) -> bytes:
    file = io.BytesIO()
    client.captureScreen(file, format="PNG")
    return file.getvalue()


@contextmanager
def asyncvnc_capture(address: str) -> Iterator[Capture]:
    import asyncvnc

    with closing(asyncio.new_event_loop()) as loop:
        connection = asyncvnc.connect("127.0.0.1", port_of(address))
        client = loop.run_until_complete(connection.__aenter__())
        yield lambda: png_by_pillow(loop.run_until_complete(client.screenshot()))
        loop.run_until_complete(connection.__aexit__(None, None, None))


@contextmanager
def pytest_vnc_capture(address: str) -> Iterator[Capture]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pytest_vnc

    settings = {"vnc_host": "127.0.0.1", "vnc_port": str(port_of(address))}
    config = type("Config", (), {"getini": lambda _, name: settings.get(name, "")})()
    steps = pytest_vnc.vnc.__wrapped__(config)
    client = next(steps)
    yield lambda: png_by_pillow(client.capture())
    steps.close()
