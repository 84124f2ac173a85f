"""Nothing that pytest reports holds the value of a secret: in the terminal, JUnit's
XML, pytest-html, live logs.
"""

from __future__ import annotations

import base64
import html
import json
import re
from pathlib import Path
from urllib.parse import quote

import pytest

from support.pad_sessions import ON_PAD, QUIET

pytestmark = [pytest.mark.desktop, pytest.mark.slow]

SECRET = "hunter2&corréct horse/battery'staple+0451"
LEAKS = """
import base64, html, json, logging, os, subprocess, sys, urllib.parse, warnings
import pytest

KEY = "".join(["SHOP", "_PASSWORD"])

@pytest.fixture
def value(vnc_settings):
    return os.environ[KEY]

@pytest.fixture
def broken_setup(value):
    print("setup", value)
    raise LookupError(value)

@pytest.fixture
def broken_teardown(value):
    yield
    print("teardown", value)
    raise LookupError(value)

def test_assert(value): assert value == "other"
def test_cut(value): assert value + "x" * 4000 == 2
def test_forms(value):
    print(base64.encodebytes(b"user:" * 12 + value.encode()).decode())
    print(base64.b64encode(value.encode()).decode(), urllib.parse.quote(value), urllib.parse.quote_plus(value))
    print(json.dumps({"p": value}), html.escape(value))
    pytest.fail(value)
def test_chain(value):
    try:
        raise KeyError(value)
    except KeyError as exc:
        raise OSError(5, value, value) from exc
def test_group(value):
    if sys.version_info >= (3, 11):
        raise ExceptionGroup(value, [ValueError(value), ExceptionGroup("b", [KeyError(value)])])
    raise ValueError(value)
def test_xfail(value): pytest.xfail(value)
@pytest.mark.xfail(reason=os.environ[KEY])
def test_xfail_mark(value): assert 0
@pytest.mark.skip(reason=os.environ[KEY])
def test_skip_mark(): pass
def test_output(value):
    print(value); print(value, file=sys.stderr); logging.getLogger().warning("log %s", value)
    subprocess.run([sys.executable, "-c", f"import os; print(os.environ['{KEY}'])"])
    os.write(1, value.encode())
def test_properties(value, record_property):
    record_property("password", value)
    record_property(value, 1)
def test_warning(value): warnings.warn(value)
def test_setup(broken_setup): pass
def test_teardown(broken_teardown): pass
@pytest.mark.parametrize("word", [os.environ[KEY]])
def test_parameter(word, vnc_settings): assert word == 1
def test_subtests(value, subtests):
    with subtests.test(msg="m"):
        print(value)
        assert value == 1
"""


def shapes(value: str) -> list[str]:
    """Return the spellings of a value, and pieces of it that would tell most of it."""
    raw = value.encode()
    whole = [
        value,
        json.dumps(value)[1:-1],
        repr(value)[1:-1],
        ascii(value)[1:-1],
        quote(value),
    ]
    whole += [html.escape(value), base64.b64encode(raw).decode()[:-3]]
    return [*whole, value[:8], value[-8:], "battery"]


OTHERS = """
import os
import pathlib
import pytest
from pytest_vnc_use.planners.local.scripted import ScriptedPlanner
from pytest_vnc_use.types import TypeText

PASSWORD = os.environ["".join(["SHOP", "_PASSWORD"])]

@pytest.fixture
def vnc_planner():
    return ScriptedPlanner([[TypeText("<secret:SHOP_PASSWORD>")]])

@pytest.mark.vnc_task("sign in with " + PASSWORD, expect=None)
def test_task(vnc_desktop):
    assert "text h" in vnc_desktop.read_file("events.txt")

@pytest.mark.vnc_task("Click it", secrets="SHOP_PASSWORD", expect=None)
def test_declares(vnc_desktop): ...

@pytest.fixture
def vnc_password():
    return PASSWORD

class Holder:
    def __str__(self): return "holds " + PASSWORD

def test_properties(vnc_password, record_property):
    for value in (PASSWORD, PASSWORD.encode(), pathlib.Path(PASSWORD), {PASSWORD}, Holder(), 12345678):
        record_property("vnc_login", value)
    print("\\x1b[31m" + PASSWORD[:6] + "\\x1b[0m" + PASSWORD[6:])
    assert vnc_password == 1

def test_coloured():
    assert PASSWORD + "\\n" + "a" * 40 + PASSWORD == PASSWORD + "!\\n" + "a" * 40 + PASSWORD + "!"

def test_exit():
    pytest.exit("no login with " + PASSWORD)
"""
"""Tests of which one declares the secret of all."""
STEP = """
import logging, os, pathlib, tempfile

def pytest_collection():
    logging.warning(os.environ["LATE"])

def pytest_vnc_step(item, step):
    "Search what is there for the moment: arguments of processes, and temporary files."
    files = [each for each in pathlib.Path(tempfile.gettempdir()).rglob("*") if each.is_file()]
    for file in [*pathlib.Path("/proc").glob("[0-9]*/cmdline"), *files]:
        try:
            leaks = os.environ["SHOP_PASSWORD"].encode() in file.read_bytes()
        except OSError:
            continue
        if leaks:
            pathlib.Path("leaks.txt").write_text(str(file))
"""


@pytest.mark.parametrize(
    "options",
    [
        (
            *QUIET,
            "-n2",
            "-l",
            "-rA",
            "-vv",
            "--vnc-secret=SHOP_PASSWORD=env:SHOP_PASSWORD",
            "test_leaks.py",
        ),
        (
            *ON_PAD,
            *"--tb=native --full-trace -l -rA --color=yes --log-cli-level=INFO".split(),
            "-k",
            "not parameter",
        ),
    ],
    ids=["xdist", "native"],
)
def test_no_report_shows_secret(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    temporary = pytester.mkdir("temporary")
    for name, text in {
        "SHOP_PASSWORD": SECRET,
        "LATE": "late-secret-5",
        "TMPDIR": str(temporary),
    }.items():
        monkeypatch.setenv(name, text)
    pytester.makeconftest(STEP)
    pytester.makepyfile(test_leaks=LEAKS, test_others=OTHERS)
    reports = (
        "--junit-xml=junit.xml",
        "-ojunit_logging=all",
        "--html=report.html",
        "--log-file=log.log",
    )
    result = pytester.runpytest_subprocess(
        *options, *reports, "--vnc-secret=LATE", timeout=400
    )
    terminal = result.stdout.str() + result.stderr.str()
    assert "INTERNALERROR" not in terminal
    assert not Path("leaks.txt").exists(), Path("leaks.txt").read_text()
    counted = result.parseoutcomes()
    assert (counted["failed"] >= 8, counted["errors"]) == (True, 2), terminal
    if "test_leaks.py" not in options:
        assert "no login with <secret:SHOP_PASSWORD>" in terminal
        assert "12345678" in Path("junit.xml").read_text()
    assert "<secret:LATE>" in Path("log.log").read_text()
    files = [file for file in Path().rglob("*") if file.is_file()]
    texts = [file for file in files if file.suffix not in (".py", ".pyc", ".png")]
    terminal += "\n".join(file.read_text("utf-8", "replace") for file in texts)
    secrets = re.compile("|".join(map(re.escape, (*shapes(SECRET), "late-secret"))))
    assert [line for line in terminal.splitlines() if secrets.search(line)] == []


IDS = """
import os
import pytest

task = pytest.mark.vnc_task("Click it", secrets="SHOP_PASSWORD", expect=None)
passwords = pytest.mark.parametrize("word", [os.environ["SHOP_PASSWORD"]])

@passwords
@task
def test_marked(word): ...

@task
class TestClass:
    @passwords
    def test_in_class(self, word): ...
"""


def test_id_shows_name_of_secret(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", SECRET)
    pytester.makepyfile(test_ids=IDS)
    result = pytester.runpytest_subprocess("--collect-only", "-q", *QUIET)
    ids = [line.rpartition("::")[2] for line in result.outlines if "::" in line]
    assert ids == [
        f"test_{name}[<secret:SHOP_PASSWORD>]" for name in ("marked", "in_class")
    ]
    monkeypatch.setenv("SHOP_PASSWORD", SECRET.replace("é", "e"))
    pytester.makepyfile(
        test_ids=IDS.replace('"]])', '"]], ids=[os.environ["SHOP_PASSWORD"]])')
    )
    result = pytester.runpytest_subprocess("--collect-only", "-q", *QUIET)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    output = result.stdout.str() + result.stderr.str()
    assert "the id of a parameter contains a secret: [<secret:SHOP_PASSWORD>]" in output
    assert "hunter2" not in output


def test_report_that_cannot_be_redacted_shows_failure(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", SECRET)
    pytester.makeconftest("""
        from pytest_vnc_use.runs.redactor import Redactor
        def breaks(self, text): raise RecursionError(text)
        Redactor.hide_pieces = breaks
        """)
    pytester.makepyfile("def test_it(): assert 1 == 2")
    result = pytester.runpytest_subprocess("--vnc-secret=SHOP_PASSWORD", *QUIET)
    result.assert_outcomes(failed=1)
    assert (
        "This text is withheld, because its secrets could not be hidden:"
        " RecursionError." in result.stdout.str()
    )
