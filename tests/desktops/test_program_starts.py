"""A program that fails before it shows anything: its own fault, a wrong setting, or that of the desktop under it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pytest_vnc_use.report.results import read_results
from support import vnc_servers

pytestmark = pytest.mark.desktop

NO_PLATFORM = "qt.qpa.plugin: Could not find the Qt platform plugin"
STARTS: dict[str, tuple[str, list[str], str]] = {
    "crash": ("product", ["sh", "-c", "echo last words; kill -SEGV $$"], "exited with -11 (SIGSEGV)"),
    "killed": ("product", ["sh", "-c", "kill -KILL $$"], "exited with -9 (SIGKILL)"),
    "exit_3": ("product", ["sh", "-c", "echo last words; exit 3"], "exited with 3"),
    "bug": ("product", [sys.executable, "-c", "{}['basket']"], "exited with 1"),
    "cannot_import": ("product", [sys.executable, "-c", "import no_such_module"], "exited with 1"),
    "missing": ("settings", ["no-such-program"], "cannot start 'no-such-program'"),
    "missing_path": ("settings", ["./no/such/program"], "cannot start"),
    "not_executable": ("settings", ["{place}/plain"], "Permission denied"),
    "a_dir": ("settings", ["{place}"], "Permission denied"),
    "bad_interpreter": ("settings", ["{place}/bad_interpreter"], "cannot start"),
    "no_format": ("settings", ["{place}/no_format"], "Exec format error"),
    "missing_within": ("settings", ["sh", "-c", "exec no-such-program"], "exited with 127"),
    "not_executable_within": ("settings", ["env", "{place}/plain"], "exited with 126"),
    "no_script": ("settings", [sys.executable, "no_such_script.py"], "exited with 2"),
    "no_module": ("settings", [sys.executable, "-m", "no_such_module"], "exited with 1"),
    "no_platform": ("infra", ["sh", "-c", f"echo '{NO_PLATFORM}'; kill -ABRT $$"], "exited with -6"),
    "ends_at_once": ("infra", ["true"], "it must stay in the foreground"),
}
"""By its name: the triage, the words of the program, and what the first line says of its end."""
CONFTEST = """
import pytest

STARTS = {starts!r}

@pytest.fixture
def vnc_app(request):
    name = request.node.name.removeprefix("test_").partition("[")[0]
    return STARTS[name]

@pytest.fixture
def vnc_planner():
    from pytest_vnc_use.planners.local.scripted import ScriptedPlanner
    return ScriptedPlanner([])
"""


def files(place: Path) -> None:
    for name, text, mode in (
        ("plain", "#!/bin/sh\n", 0o644),
        ("bad_interpreter", "#!/no/such/interpreter\n", 0o755),
        ("no_format", "\0\1\2\3 no program", 0o755),
    ):
        (place / name).write_text(text, encoding="utf-8")
        (place / name).chmod(mode)


@pytest.mark.parametrize("server", ["qt", "xvnc"])
def test_program_that_fails_at_its_start(pytester: pytest.Pytester, server: str) -> None:
    if server == "xvnc":
        vnc_servers.require("Xtigervnc")
    files(pytester.path)
    place = str(pytester.path)
    starts = {name: [word.replace("{place}", place) for word in words] for name, (_, words, _) in STARTS.items()}
    pytester.makeconftest(CONFTEST.replace("{starts!r}", repr(starts)))
    pytester.makepyfile("\n".join(f"def test_{name}(vnc_agent): vnc_agent.run('Look', expect=None)" for name in STARTS))
    arguments = ["-p", "no:cacheprovider", "-p", "no:pytest-vnc", "--vnc-app=true"]
    result = pytester.runpytest_subprocess(*arguments, f"--vnc-server={server}", timeout=140)
    tests = {test.test.rpartition("::test_")[2]: test for test in read_results(Path("runs/vnc-results.json")).tests}
    assert {name: test.triage for name, test in tests.items()} == {name: each[0] for name, each in STARTS.items()}
    for name, (_, _, said) in STARTS.items():
        assert said in tests[name].message, (name, tests[name].message)
    assert result.stdout.str().count("\nlast words") == 2
