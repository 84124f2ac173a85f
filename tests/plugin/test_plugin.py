"""The plugin as a user has it: sessions of pytest, a Qt program on Qt's VNC, a fake
model server on HTTP.
"""

from __future__ import annotations

import html
import json
import re
import sys
from collections.abc import Callable
from itertools import chain, islice
from xml.etree import ElementTree

import pytest

from pytest_vnc_use.agent.credentials import GEMINI_KEY_VARIABLES
from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.plugin.tasks import task_spec
from pytest_vnc_use.settings.settings import FIELDS, OPTIONS
from support.gemini_server import GeminiServer, Reply, calls, text, wants_confirmation
from support.pad_sessions import QUIET, results
from support.paths import PAD_LINE
from support.vnc_servers import VncServer

Model = Callable[..., GeminiServer]
Run = Callable[..., pytest.RunResult]

HOLDS = text(
    json.dumps(
        {"reason": "it is there", "verdict": "holds", "box_2d": [100, 100, 200, 200]}
    )
)
FAILS = text(
    json.dumps({"reason": "the basket is empty", "verdict": "fails", "box_2d": None})
)
DONE = text("done")
CLICK = ("click", {"x": 500, "y": 500, "intent": "open the basket"})
RISKY = calls(
    ("click", wants_confirmation({"x": 500, "y": 500}, "this buys two apples"))
)


def value(read: object) -> Reply:
    return text(
        json.dumps(
            {"reason": "it is written there", "value": read, "box_2d": [0, 0, 500, 500]}
        )
    )


LIVE = '''
import pytest
from decimal import Decimal
from pydantic import BaseModel

def task(text, **settings):
    return pytest.mark.vnc_task(text, **{"expect": None, **settings})

def events_of(desktop):
    """Return the events since the last call."""
    events = desktop.read_file("events.txt").splitlines()
    desktop.write_file("events.txt", "")
    return events

@task("Click the corners")
def test_corners(vnc_desktop):
    events = events_of(vnc_desktop)
    presses = [line for line in events if line.startswith("press")]
    assert presses == ["press 0 0 left", "press 720 450 left", "press 1439 899 left"]

@task("Type it")
def test_several_calls(vnc_desktop):
    events = events_of(vnc_desktop)
    assert "".join(line.removeprefix("text ") for line in events if line.startswith("text")) == "two applesa"
    assert (events[0], events[-2:]) == ("press 720 450 left", ["press 14 9 right", "release 14 9 right"])

@task("Buy them")
def test_denied(vnc_desktop):
    raise LookupError("the body is not reached")

@task("Buy them", policy="policy.toml", expect=["the basket is open", "the basket shows 2 apples"])
def test_allowed_by_policy(): ...

@task("Ask the warehouse")
def test_named_functions(): ...

@task("Click it", planner="clicks:plan")
def test_named_planner(vnc_desktop):
    assert "press 5 6 left" in vnc_desktop.read_file("events.txt")

@task("Say the key")
def test_key(): ...

class Basket(BaseModel):
    apples: int
    total: Decimal

@task("Open the basket")
def test_values(vnc_agent):
    basket = vnc_agent.extract(Basket, "what is in the basket?")
    assert basket == Basket(apples=2, total="3.00")
    assert vnc_agent.extracted[-1].region is not None
    vnc_agent.extract(Basket, "and now?")

@pytest.fixture
def basket(vnc_agent):
    vnc_agent.run("Fill the basket", expect=None)
    yield
    assert vnc_agent.verify("the basket is full")
    vnc_agent.run("Empty the basket", expect=None)

@pytest.fixture
def broken(vnc_agent):
    vnc_agent.run("Open the shop", expect=None)
    raise LookupError("no basket")

def test_around(basket, vnc_agent):
    vnc_agent.run("Buy it", expect=None)

def test_setup(broken): ...
'''
WAREHOUSE = """
def stock_of(fruit: str) -> str:
    "How many of a fruit are in stock."
    return f"3 {fruit}"
"""
CLICKS = """
def plan(observation):
    from pytest_vnc_use.types import Click, Decision
    return Decision("finished", "done") if observation.turns else Click(5, 6)
"""
KEY = GeminiServer().api_key
REPLIES = {
    "corners": [
        calls(*(("click", {"x": grid, "y": grid}) for grid in (0, 500, 999))),
        text("clicked"),
    ],
    "several_calls": [
        calls(
            CLICK,
            ("type", {"text": "two apples"}),
            ("press_key", {"key": "a"}),
            ("right_click", {"x": 10, "y": 10}),
        ),
        text("all done"),
    ],
    "denied": [RISKY],
    "allowed_by_policy": [RISKY, text("bought"), HOLDS, FAILS],
    "named_functions": [calls(("stock_of", {"fruit": "apples"})), text("There are 3.")],
    "key": [calls(CLICK), text(f"the key is {KEY}")],
    "values": [
        calls(CLICK),
        DONE,
        value({"apples": 2, "total": "3.00"}),
        value({"apples": "two", "total": "3.00"}),
    ],
    "around": [DONE, DONE, HOLDS, DONE],
    "setup": [DONE],
}
"""The answers of the model, by test, in the order of the tests."""


@pytest.mark.slow
@pytest.mark.desktop
def test_live_session_carries_out_and_reports(
    pytester: pytest.Pytester, model: Model, run: Run
) -> None:
    pytester.syspathinsert()
    pytester.makepyfile(test_live=LIVE, warehouse=WAREHOUSE, clicks=CLICKS)
    pytester.makefile(
        ".toml",
        policy=(
            '[[rule]]\nname = "apples"\ndecision = "allow"\nexplanation = "apples"\n'
        ),
    )
    server = model(*chain.from_iterable(REPLIES.values()))
    result = run(
        server,
        "-v",
        "--tb=long",
        "-l",
        "--junitxml=junit.xml",
        "--html=report.html",
        "--self-contained-html",
        "--vnc-screen-size=1440x900",
        "-ovnc_functions=warehouse",
        "--vnc-scope=session",
    )
    result.assert_outcomes(passed=6, failed=3, errors=1)
    result.stdout.fnmatch_lines(["*1 click(*open the basket*"])
    result.stdout.fnmatch_lines(
        [
            "*ended as denied*",
            "*this buys two apples*",
            "*run directory:*",
            "*1 of 2 claims*",
            "*holds: 'the basket is open'*",
            "*fails: 'the basket shows 2 apples'*",
            (
                "*the value is not a valid Basket: apples: Input should be a valid"
                " integer*got 'two'*"
            ),
            '*"apples": "two"*',
            f"vnc-use: {sum(map(len, REPLIES.values()))} model calls: *",
            "vnc-use:   $0.0* test_live.py::test_*",
        ]
    )
    junit = (pytester.path / "junit.xml").read_text(encoding="utf-8")
    hidden = (
        "the body is not reached",
        "Traceback",
        "During handling",
        "gemini_judge.py",
        KEY,
    )
    printed = result.stdout.str() + junit
    assert [text for text in hidden if text in printed] == []
    files = [file for file in (pytester.path / "runs").rglob("*") if file.is_file()]
    assert files
    assert not [file for file in files if KEY.encode() in file.read_bytes()]
    assert server.refusals == []
    requests = iter(server.requests)
    of_test = {
        name: [*islice(requests, len(replies))] for name, replies in REPLIES.items()
    }

    def responses(name: str) -> list[dict[str, object]]:
        parts = of_test[name][1].contents[-1]["parts"]
        return [part["functionResponse"] for part in parts]

    first, *_ = responses("corners")
    assert first["name"] == "click"
    assert first["id"] == "call-0-0"
    assert '"mimeType": "image/png"' in json.dumps(responses("corners"))
    names = [response["name"] for response in responses("several_calls")]
    assert names[1:3] == ["type", "press_key"]
    acknowledged = '"safety_acknowledgement": "true"'
    assert acknowledged in json.dumps(responses("allowed_by_policy"))
    assert "3 apples" in json.dumps(responses("named_functions"))
    tests = results()
    around = tests["around"]
    setup = tests["setup"]
    tasks = [run.task for run in around.runs]
    assert tasks == ["Fill the basket", "Buy it", "Empty the basket"]
    assert [run.task for run in setup.runs] == ["Open the shop"]
    page = (pytester.path / "report.html").read_text(encoding="utf-8")
    assert "Fill the basket" in page
    assert "Buy it" in page
    # older pytest-html drops the teardown, in which the basket is emptied
    assert "Open the shop" in page
    assert "what is in the basket?" in page
    assert "it is no Basket" in page
    assert page.count("data:image/png;base64") >= 3
    assert re.search(r'col-cost\\*">\$0\.0', html.unescape(page))
    assert [len(run.verdicts) for run in around.runs] == [0, 1, 0]
    assert around.result == "passed"
    assert setup.triage == "inconclusive"
    properties = ElementTree.fromstring(junit).findall(".//property[@name='vnc_run']")
    in_junit = [str(noted.get("value")) for noted in properties]
    runs = chain.from_iterable(test.runs for test in tests.values())
    assert sorted(in_junit) == sorted(run.directory for run in runs)
    assert setup.dollars
    assert around.dollars == pytest.approx(4 * setup.dollars, abs=1e-5)


WRONG_ARGUMENTS = [
    *(
        ({"expect": claims}, "expect=…) must be a claim or several, got ")
        for claims in (" ", ["a", ""], [3], False)
    ),
    *(
        ({"votes": votes}, "votes=…) must be an odd number, at least 1, got ")
        for votes in (2, "three")
    ),
    ({"step": 3}, " has no argument 'step'"),
    (
        {"record": "sometimes"},
        (
            "record=…) must be one of auto, replay, accept, rewrite, manual, off, got"
            " 'sometimes'"
        ),
    ),
    ({"secrets": [3]}, "secrets=…) must name environment variables, got "),
    ({"app": 3}, "app=…) must be a command line in one string, got 3"),
]


@pytest.mark.parametrize(("arguments", "problem"), WRONG_ARGUMENTS)
def test_wrong_marker_argument_is_rejected(
    arguments: dict[str, object], problem: str
) -> None:
    with pytest.raises(SettingsError) as raised:
        task_spec(("Open the basket",), arguments)
    assert problem in str(raised.value)


WRONG_MARKERS = """
import unittest
import pytest
from conftest import LATE

click = pytest.mark.vnc_task("Click", expect=None)

@pytest.mark.vnc_task()
def test_wrong(): ...

class TestOfUnittest(unittest.TestCase):
    @click
    def test_method(self): ...

@click
async def test_coroutine(): ...

@pytest.mark.vnc_task("Pay", model="gemini-2", expect=None)
@click
def test_models(): ...

def test_modified(): ...

def test_body(request): request.node.add_marker(LATE)
"""
LATE_MARKER = """
import pytest
LATE = pytest.mark.vnc_task("Click it", expect=None)

def pytest_collection_modifyitems(items):
    next(item for item in items if item.name == "test_modified").add_marker(LATE)
"""


def test_late_or_wrong_marker_on_worker_fails_test(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(LATE_MARKER)
    pytester.makepyfile(WRONG_MARKERS)
    result = pytester.runpytest_subprocess("-n1", *QUIET)
    result.assert_outcomes(failed=1, errors=5)
    result.stdout.fnmatch_lines_random(
        [
            "settings: *test_wrong: vnc_task needs exactly one task*",
            "settings: *test_method: *got 'TestOfUnittest'*",
            "settings: *test_coroutine: *`async def` that no plugin runs. Write `def`*",
            (
                "settings: *test_models: *the same in all markers of a test, got 'None'"
                " and 'gemini-2'*"
            ),
            "vnc-use: 6 failed: 6 settings",
        ]
    )
    assert (
        result.stdout.str().count(
            "settings: vnc_task was added after the test was collected"
        )
        >= 2
    )


@pytest.mark.parametrize(
    ("option", "problem"),
    [
        (
            "--vnc-session-max-dollars=1 --vnc-model=gemini-9-new",
            "the price of the model 'gemini-9-new'*",
        ),
        ("--vnc-policy=policy.toml", "*policy.toml*rule 1*decision*"),
        (
            "--vnc-secret=SHOP=hunter2",
            "--vnc-secret must be NAME, *or NAME=cmd:COMMAND, got 'SHOP=…'",
        ),
        ("", "*test_it: vnc_task needs exactly one task as text, got ()"),
    ],
)
def test_wrong_option_or_marker_is_usage_error(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    option: str,
    problem: str,
) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "unused")
    pytester.makepyfile("import pytest\n@pytest.mark.vnc_task()\ndef test_it(): ...")
    pytester.makefile(
        ".toml", policy='[[rule]]\ndecision = "maybe"\naction = "click"\n'
    )
    result = pytester.runpytest_subprocess(
        *option.split(), "--vnc-planner=gemini", *QUIET
    )
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {problem}"])


BY_HAND = """
import pytest

def test_by_hand(vnc_agent, vnc_desktop):
    vnc_agent.click(100, 100)
    assert "press 100 100 left" in vnc_desktop.read_file("events.txt")

def test_no_planner(vnc_agent):
    vnc_agent.run("Click it", expect=None)

@pytest.mark.vnc_task("Click it", expect=None, planner="gemini")
def test_no_key(vnc_agent): ...
"""
ON_THE_PAD = """
import pytest
from pytest_vnc_use.planners.local.scripted import ScriptedPlanner
from pytest_vnc_use.types import Click, Confirmation, Decision, Proposal

TASKS = []

@pytest.fixture
def vnc_planner():
    def turn(observation):
        if observation.turns:
            return Decision("finished", "done")
        TASKS.append(observation.task)
        buys = Proposal(Click(10, 10), "buy", {}, Confirmation("this buys two apples"))
        return [buys] if "Buy" in observation.task else Decision("finished", "done")
    return ScriptedPlanner(turn)
"""
MARKED = f"""{ON_THE_PAD}
from pytest_vnc_use.errors import PolicyDenied

clicked = pytest.mark.vnc_task("Click it", expect=None)
two = [pytest.mark.vnc_task("second", expect=None), pytest.mark.vnc_task("third", expect=None)]

@pytest.mark.vnc_task("zeroth", expect=None)
class TestOrder:
    @pytest.mark.vnc_task("first", expect=None)
    @pytest.mark.parametrize("fruit", [pytest.param("apple", marks=two), "pear"])
    def test_tasks_of_class_first_and_of_parameters_last(self, fruit):
        assert TASKS == ["zeroth", "first", "second", "third", "zeroth", "first"][: 4 if fruit == "apple" else 6]

@pytest.mark.parametrize("fruit", [pytest.param("apple", marks=clicked), "pear"])
def test_only_marked_parameters_get_desktop(fruit, request):
    assert ("vnc_agent" in request.fixturenames) == (fruit == "apple")

@pytest.mark.vnc_task("Buy, strictly", expect=None)
@pytest.mark.vnc_task("Buy", policy="lax.toml", max_steps=1, expect=None)
def test_policy_of_other_task():
    raise LookupError("the body is not reached")

@pytest.mark.vnc_task("Buy", policy="lax.toml", max_steps=7, expect=None)
def test_own_policy(vnc_settings):
    assert (vnc_settings.policy, vnc_settings.max_steps) == ("lax.toml", 7)

def test_denied_as_expected(vnc_agent):
    with pytest.raises(PolicyDenied):
        vnc_agent.run("Buy two apples", expect=None)

@pytest.mark.timeout(50)
@pytest.mark.vcr
@pytest.mark.vnc_task("Click it", expect=None)
def test_with_other_plugins(vnc, record_mode, vnc_agent, vnc_settings):
    assert record_mode == "none"
    assert vnc.capture().shape[:2] == (768, 1024)
    assert len(vnc_agent.runs) == 1
    assert vnc_settings.username == ""
"""


@pytest.mark.slow
@pytest.mark.desktop
def test_markers_combine_beside_other_plugins(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tigervnc: VncServer
) -> None:
    """pytest-vnc, pytest-recording and pytest-timeout are in use by one test; others
    lack a planner, or a key.
    """
    for name in GEMINI_KEY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    pytester.makefile(
        ".toml", lax='[[rule]]\nname = "all"\ndecision = "allow"\naction = "*"\n'
    )
    pytester.makepyfile(test_it=MARKED, test_by_hand=BY_HAND)
    host, port = tigervnc.address.split("::")
    # vnc_user is pytest-vnc's: the user name for its own server
    pytester.makeini(
        f"[pytest]\nvnc_host = {host}\nvnc_port = {port}\nvnc_user = somebody\n"
    )
    options = [
        "--record-mode=none",
        "--block-network",
        "--allowed-hosts=127.0.0.1,/",
        "--timeout=60",
        "-Wignore",
    ]
    options += ["--vnc-server=qt", f"--vnc-app={PAD_LINE}", "--vnc-scope=session"]
    result = pytester.runpytest_subprocess(*options)
    result.assert_outcomes(passed=1 + 2 + 2 + 2 + 1, failed=2, errors=1)
    (plugins,) = (line for line in result.outlines if line.startswith("plugins: "))
    names = ("recording-", "vnc-2", "vnc-use-", "timeout-")
    assert [name for name in names if f" {name}" not in plugins] == []
    result.stdout.fnmatch_lines(
        ["*ended as denied*this buys two apples*", "*task: Buy, strictly"]
    )
    missing = [
        "*no API key*",
        "*no planner is configured. *--vnc-record=manual*--vnc-planner=gemini*",
    ]
    result.stdout.fnmatch_lines(missing)
    assert "agent.py" not in result.stdout.str()
    assert "the body is not reached" not in result.stdout.str()


LOADED = """
import sys

def pytest_unconfigure():
    heavy = {"langgraph", "google.genai", "twisted", "PIL", "numpy", "vncdotool"}
    ours = [name.partition(".")[2] for name in sys.modules if name.startswith("pytest_vnc_use.")]
    print("loaded", *sorted([*ours, *heavy.intersection(sys.modules)]))
"""


@pytest.mark.usefixtures("without_settings")
def test_session_without_tasks_loads_only_hooks_and_options(
    pytester: pytest.Pytester,
) -> None:
    """A session that only collects tasks loads no library of pixels or models."""
    pytester.makeconftest(LOADED)
    pytester.makepyfile(
        test_idle="def test_it(tmp_path): ...",
        test_task="import pytest\n@pytest.mark.vnc_task('Click')\ndef test_it(): ...",
    )
    off = [f"-pno:{plugin}" for plugin in ("html", "pytest-vnc", "langsmith_plugin")]
    command = [sys.executable, "-m", "pytest", "-s", *off]
    names = ("fixtures", "hookspecs", "options", "registration")
    plugin = ("plugin", *(f"plugin.{name}" for name in names))
    idle = pytester.run(*command, "test_idle.py")
    idle.stdout.fnmatch_lines(
        [" ".join(["*loaded", *plugin, "settings", "settings.settings"])]
    )
    collecting = pytester.run(*command, "--collect-only", "test_task.py")
    (loaded,) = (
        line.split() for line in collecting.outlines if line.startswith("loaded")
    )
    assert "plugin.markers" in loaded
    assert not {"langgraph", "google.genai", "twisted", "PIL", "numpy", "vncdotool"} & {
        *loaded
    }


def test_package_modules_are_not_rewritten(pytester: pytest.Pytester) -> None:
    """pytest parses what it rewrites, in each process that cannot keep bytecode."""
    pytester.makeconftest(
        "import pytest\npytest.register_assert_rewrite('pytest_vnc_use')"
    )
    pytester.makepyfile(
        """
        import importlib

        def test_it():
            importlib.invalidate_caches()
            from pytest_vnc_use.report import pages
            assert type(pages.__loader__).__name__ == "SourceFileLoader"
        """
    )
    options = ("-pno:pytest-vnc", "-pno:langsmith_plugin", "-Wignore")
    result = pytester.run(sys.executable, "-m", "pytest", *options)
    result.assert_outcomes(passed=1)


def test_help_lists_options_on_one_screen(pytester: pytest.Pytester) -> None:
    output = pytester.runpytest_subprocess("--help").stdout.str()
    ours = output.partition("tests over VNC (pytest-vnc-use)")[2].partition("\n\n")[0]
    assert len(ours.splitlines()) <= 50
    settings = [name.replace("_", "-") for name in FIELDS if name in OPTIONS]
    options = re.findall(r"^  --vnc-([\w-]+)=", ours, re.MULTILINE)
    assert options == [*settings, "secret"]
    assert "vnc_rehearse (string)" in output


def test_markers_are_listed(pytester: pytest.Pytester) -> None:
    markers = pytester.runpytest_subprocess("--markers").stdout.str()
    assert "@pytest.mark.vnc_task(task, *, expect=()" in markers
    assert "@pytest.mark.vnc: " in markers


def test_fixtures_are_listed_with_docstrings(pytester: pytest.Pytester) -> None:
    fixtures = pytester.runpytest_subprocess("--fixtures").stdout.str()
    listed = re.findall(r"^(vnc_\w+) -- ", fixtures, re.MULTILINE)
    expected = {
        "vnc_settings",
        "vnc_desktop",
        "vnc_planner",
        "vnc_judge",
        "vnc_functions",
        "vnc_agent",
    }
    assert expected - set(listed) == set()
    assert "no docstring" not in fixtures.partition("vnc_use")[2].partition("\n---")[0]
