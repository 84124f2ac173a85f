"""Forty random secrets, typed, claimed, returned, printed and raised: no byte that is written or sent holds one."""

from __future__ import annotations

import json
import random
import shlex
import string
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from html import escape
from pathlib import Path
from urllib.parse import quote

import pytest

from support.gemini_rules import Request
from support.gemini_server import GeminiServer, Reply, calls, text
from support.paths import PAD_LINE

pytestmark = [pytest.mark.desktop, pytest.mark.slow]

COUNT = 40
NAMES = [f"S_{number}" for number in range(COUNT)]
HOLDS = text(json.dumps({"reason": "it is there", "verdict": "holds", "box_2d": [100, 100, 200, 200]}))
PRINTS_S_39 = shlex.join([sys.executable, "-c", "import os; print(os.environ['S_39'])"])

CONFTEST = """
import os
import pathlib
import tempfile
import pytest

VALUES = [value for name, value in os.environ.items() if name.startswith("S_")]

@pytest.fixture
def vnc_functions():
    def lookup(number: int) -> str:
        "The password of a user."
        value = os.environ[f"S_{number}"]
        return f"{value}\\n{value[:5]}\\n  {value[5:]}"
    def fails(text: str) -> str:
        "Fails."
        raise OSError(text)
    return [lookup, fails]

def pytest_vnc_step(item, step):
    "Search what is there for the moment: arguments of processes, and temporary files."
    files = [each for each in pathlib.Path(tempfile.gettempdir()).rglob("*") if each.is_file()]
    for file in [*pathlib.Path("/proc").glob("[0-9]*/cmdline"), *files]:
        try:
            content = file.read_bytes()
        except OSError:
            continue
        if any(value.encode() in content for value in VALUES):
            with open("leaks.txt", "a") as leaks:
                leaks.write(f"{file}\\n")
"""
TESTS = """
import logging
import os
import subprocess
import sys
import warnings
import pytest

NAMES = [f"S_{number}" for number in range(40)]
VALUES = [os.environ[name] for name in NAMES]

@pytest.mark.vnc_task(
    f"Sign in with <secret:S_0> and {VALUES[1]}", expect=f"the pad shows {VALUES[2]}", secrets=NAMES[:20]
)
def test_passes(vnc_agent, record_property):
    vnc_agent.type_text("<secret:S_3>")
    assert vnc_agent.verify(f"{VALUES[4]} is shown")
    record_property("password", VALUES[5])
    print(VALUES[6])
    warnings.warn(VALUES[7])
    logging.getLogger("shop").warning("signed in with %s", VALUES[8])
    subprocess.run([sys.executable, "-c", "import os; print(os.environ['S_9'])"])

@pytest.mark.vnc_task(f"Sign in with {VALUES[10]}", secrets=NAMES, expect=None)
@pytest.mark.parametrize("number", range(20, 26))
def test_fails(vnc_agent, number, request):
    value, other = VALUES[number], VALUES[number + 10]
    def raises():
        try:
            raise KeyError(other)
        except KeyError as exc:
            raise RuntimeError(value) from exc
    match number:
        case 20: raises()
        case 21: assert [value, other] == [other, value]
        case 22: pytest.fail(f"{value} {other}")
        case 23: assert vnc_agent.extract(int, f"is {value} shown?") == 0
        case 24: vnc_agent.check(value == other, f"{value} is {other}")
        case 25: vnc_agent.type_text(f"{value}\\u0007")

@pytest.fixture
def shop():
    yield VALUES[36]
    print(VALUES[37])
    raise LookupError(VALUES[38])

@pytest.mark.parametrize("password", [VALUES[39]])
def test_teardown(shop, password): pass
"""


def new_secrets(seed: int) -> dict[str, str]:
    generator = random.Random(seed)
    letters = string.ascii_letters + string.digits + "!#$%&'()*+,-./:;<=>?@[]^_`{|}~\"\\ "
    made = ["".join(generator.choices(letters, k=generator.randint(10, 40))).strip() for _ in NAMES]
    return dict(zip(NAMES, (f"q{each}Z" for each in made), strict=True))


def answer(request: Request) -> Reply:
    """Type, look up and fail in turn; judge that all claims hold; read a value that is none."""
    if request.computer_use is None:
        return text(json.dumps({"reason": "so", "value": "nothing"})) if "shown?" in str(request.body) else HOLDS
    if len(request.contents) > 1 or "<secret:S_1>" not in str(request.contents):
        return text("done")
    typed = {"text": "<secret:S_11>", "press_enter": True}
    return calls(("type", typed), ("lookup", {"number": 12}), ("fails", {"text": "<secret:S_13>"}))


def spellings(value: str) -> Iterator[bytes]:
    raw = value.encode()
    for each in (value, json.dumps(value)[1:-1], repr(value)[1:-1], quote(value, safe=""), escape(value), value[:9]):
        yield each.encode()
    yield b64encode(raw).rstrip(b"=")


def test_no_byte_holds_secret(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    seed = random.randrange(1 << 32)
    secrets = new_secrets(seed)
    temporary = pytester.mkdir("temporary")
    for name, value in {**secrets, "TMPDIR": str(temporary)}.items():
        monkeypatch.setenv(name, value)
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TESTS)
    with GeminiServer(answer) as server:
        monkeypatch.setenv("GOOGLE_API_KEY", server.api_key)
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
        command = [sys.executable, "-m", "pytest", "-l", "-rA", "-v", "-p", "no:pytest-vnc", "-n2"]
        command += ["--vnc-server=qt", f"--vnc-app={PAD_LINE}", "--vnc-planner=gemini", "--vnc-record=rewrite"]
        command += ["--vnc-scope=session", "--vnc-secret=S_38", f"--vnc-secret=S_39=cmd:{PRINTS_S_39}"]
        command += ["--junit-xml=junit.xml", "-ojunit_logging=all", "--html=report.html", "--log-file=log.txt"]
        ended = subprocess.run(command, capture_output=True, timeout=400, check=False)
        sent = "\n".join(json.dumps(request.body, ensure_ascii=False) for request in server.requests).encode()
    told = ended.stdout.decode()
    assert "6 failed, 2 passed" in told, f"seed {seed}: {told}"
    assert "1 error" in told
    assert "lookup" in sent.decode()
    assert not Path("leaks.txt").exists(), Path("leaks.txt").read_text()
    assert list(Path().rglob("*.json*"))
    places = {"terminal": ended.stdout + ended.stderr, "requests": sent}
    places |= {str(file): file.read_bytes() for file in Path().rglob("*") if file.is_file() and file.suffix != ".pyc"}
    found = [
        (place, name, spelling.decode())
        for name, value in secrets.items()
        for spelling in spellings(value)
        for place, content in places.items()
        if spelling in content
    ]
    assert found == [], f"seed {seed}"
