"""A test that types a secret where it can be read: its field is redacted in all
screenshots that are stored or sent.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from base64 import b64decode
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from pytest_vnc_use.recordings.images import pixels_of
from pytest_vnc_use.same_screen import within_caret
from pytest_vnc_use.types import REDACTED_COLOUR
from support.gemini_server import GeminiServer, Reply, Request, calls, text
from support.paths import PROGRAMS

APP = shlex.join([sys.executable, str(PROGRAMS / "sign_in.py")])
HOLDS = text(
    json.dumps(
        {"reason": "it is there", "verdict": "holds", "box_2d": [100, 100, 200, 200]}
    )
)
READ = text(json.dumps({"reason": "it is there", "value": "in"}))
TEST = """
import pytest

@pytest.mark.vnc_task("Sign in", expect="somebody is signed in", secrets=["CODE"])
def test_sign_in(vnc_agent):
    assert vnc_agent.verify("somebody is signed in")
    assert vnc_agent.extract(str, "who?") == "in"
    with open("own.png", "wb") as file:
        file.write(vnc_agent.screenshot())
    assert vnc_agent.type_text("<secret:CODE>") is None, "fails, with its last screenshot"

@pytest.mark.vnc_task("Look at it", expect=None, secrets=["CODE"])
def test_look(): ...
"""
FIELD = np.s_[54:82, 64:356]
"""The inside of the field, which shows the code."""
GREETING = np.s_[220:260, 60:300]
"""Where the program says who is signed in."""


def answer(request: Request) -> Reply:
    """Type the code, press Enter; judge that all claims hold; read a value."""
    if request.computer_use is None:
        return READ if "who?" in str(request.body) else HOLDS
    if "Look at it" in str(request.contents[0]):
        return text("done")
    acts = (
        calls(("type", {"text": "<secret:CODE>"})),
        calls(("press_key", {"key": "enter"})),
        text("done"),
    )
    return acts[min(len(request.contents) // 2, 2)]


EMBEDDED = re.compile(rb"data:image/(?:png|webp);base64,([A-Za-z0-9+/=]+)")


def screenshots(server: GeminiServer) -> Iterator[bytes]:
    """All screenshots in the requests, in files, and in pages."""
    for request in server.requests:
        yield from request.images
    for file in Path().rglob("*"):
        # that one holds differences of screenshots
        if file.suffix in (".png", ".webp") and file.parent.name != "page":
            yield file.read_bytes()
        elif file.suffix == ".html":
            yield from map(b64decode, EMBEDDED.findall(file.read_bytes()))


@pytest.mark.slow
def test_no_screenshot_shows_field_of_secret(
    run: Callable[..., pytest.RunResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODE", "8264017359")
    Path("test_shop.py").write_text(TEST)
    with GeminiServer(answer) as server:
        ended = run(
            server, f"--vnc-app={APP}", "--vnc-record=rewrite", "--html=report.html"
        )
        (recording,) = Path("__vnc_recordings__").rglob("recording.json")
        made = recording.read_text()
        assert '"redacts": true' in made
        recording.write_text(made.replace('"redacts": true,', ""))
        replayed = run(server, f"--vnc-app={APP}", "--vnc-record=replay", "-k", "look")
    assert "fails, with its last screenshot" in ended.stdout.str()
    seen = [pixels_of(each) for each in screenshots(server)]
    whole = [each for each in seen if each.shape == (900, 1440)]
    assert len(server.requests) >= 4
    assert len(whole) >= 8
    fields = [screen[FIELD] for screen in whole]
    assert all(within_caret((field & 0xFF) < 0x60) for field in fields)
    assert sum((field == REDACTED_COLOUR).all() for field in fields) >= 6
    assert not any((screen[GREETING] == REDACTED_COLOUR).any() for screen in whole)
    replayed.assert_outcomes(passed=1)
    replayed.stdout.fnmatch_lines(
        [
            "*test_look/recording.json* was recorded without redaction: *--vnc-record=rewrite*"
        ]
    )
