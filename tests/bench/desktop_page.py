"""The desktop that the eyes are measured on: openbox on Xtigervnc, chromium with text and a photograph, an xterm.

A click on the page changes its heading at once.
"""

from __future__ import annotations

import base64
import io
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
from PIL import Image, ImageFilter

from pytest_vnc_use.backends.screen import SettleRules
from pytest_vnc_use.backends.vnc import VNCController, connect
from support import vnc_servers
from support.vnc_servers import VncServer
from support.witness_programs import openbox, xterm

_REST = SettleRules(first_change_s=5.0, quiet_s=1.0, limit_s=30.0)
_CHROMIUM = ["chromium", "--no-sandbox", "--no-first-run", "--disable-gpu", "--disable-dev-shm-usage", "--disable-sync",
             "--disable-background-networking", "--disable-component-update", "--password-store=basic"]  # fmt: skip
_WORDS = "The basket holds two apples, a pear and a total of 3.00 euros; pay now, or continue looking. "


@contextmanager
def desktop_page(size: tuple[int, int]) -> Iterator[VncServer]:
    """That desktop, once its screen has become stable."""
    with vnc_servers.tigervnc(size) as server, openbox(server), tempfile.TemporaryDirectory() as directory:
        page = Path(directory) / "page.html"
        page.write_text(_page(), "utf-8")
        places = [f"--user-data-dir={directory}/profile", "--window-position=0,0", f"--window-size={size[0]},{size[1]}"]
        with server.run(*_CHROMIUM, *places, page.as_uri()), at_rest(server, coloured=True):
            corner = f"60x12+{size[0] - 500}+{size[1] - 300}"
            with xterm(server, "seq 300; printf '\\033[?25l'; exec sleep 10000", geometry=corner), at_rest(server):
                yield server


@contextmanager
def at_rest(server: VncServer, *, coloured: bool = False) -> Iterator[None]:
    """Once the screen changes no more; with `coloured`, once it shows the photograph."""
    with closing(connect(server.address, settle_rules=_REST)) as controller:
        controller.settle()
        if coloured:
            vnc_servers.wait_for(lambda: _shows_photograph(controller), "the page", 30)
            controller.settle()
    yield


def _shows_photograph(controller: VNCController) -> bool:
    time.sleep(0.1)
    return len(controller.frame().png) > 150_000


def _page() -> str:
    photograph = base64.b64encode(_photograph()).decode()
    paragraphs = "".join(f"<p>{number}. {_WORDS * 12}</p>" for number in range(40))
    return (
        f'<title>page</title><body style="font:16px sans-serif;background:linear-gradient(#fff,#dde6f0)" '
        """onclick="document.querySelector('h1').textContent = 'Clicked ' + Date.now()">"""
        f'<h1>A shop</h1><img src="data:image/jpeg;base64,{photograph}" style="float:right"><button>Pay</button>'
        f"{paragraphs}"
    )


def _photograph() -> bytes:
    """A JPEG of soft noise, as hard to compress as a photograph."""
    noise = np.random.default_rng(5).integers(0, 256, (360, 480, 3), np.uint8)
    image = Image.fromarray(noise).filter(ImageFilter.GaussianBlur(3))
    file = io.BytesIO()
    image.point(lambda value: max(0, min(255, (value - 128) * 4 + 128))).save(file, "JPEG", quality=85)
    return file.getvalue()
