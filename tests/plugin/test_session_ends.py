"""Tests that a session's or a worker's end cuts off: what the results say of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.pad_sessions import QUIET, results
from support.vnc_servers import require_package

DESKTOP = """
import pytest

@pytest.fixture
def vnc_desktop():
    return object()
"""
LOST = ("error", "infra")


@pytest.fixture
def ended(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path / "summary.md"))
    pytester.makeconftest(DESKTOP)
    return pytester


def ends() -> dict[str, tuple[str, str | None]]:
    return {name: (test.result, test.triage) for name, test in results().items()}


WORKERS_END = """
import os, signal
import pytest

@pytest.fixture
def dies():
    os._exit(1)

@pytest.fixture
def dies_late(vnc_desktop):
    yield
    os._exit(0)

def test_before(vnc_desktop): ...
def test_killed(vnc_desktop): os.kill(os.getpid(), signal.SIGKILL)
def test_exits(vnc_desktop): os._exit(0)
def test_in_setup(dies, vnc_desktop): ...
def test_after_failure(dies_late): assert 0
def test_after(vnc_desktop): ...
"""


@pytest.mark.slow
def test_test_that_ends_its_worker_is_infra(ended: pytest.Pytester) -> None:
    ended.makepyfile(test_it=WORKERS_END)
    result = ended.runpytest_subprocess(*QUIET, "-n1", timeout=400)
    assert ends() == {
        "before": ("passed", None),
        "killed": LOST,
        "exits": LOST,
        "in_setup": LOST,
        "after_failure": ("failed", "product"),
        "after": ("passed", None),
    }
    for name in ("killed", "exits", "in_setup"):
        test = results()[name]
        assert f"crashed while running 'test_it.py::test_{name}'" in test.message
        assert test.rule == "the test did not end"
    result.stdout.fnmatch_lines(["vnc-use: 4 failed: 1 product, 3 infra"])
    assert "4 failed: 1 product, 3 infra" in Path("summary.md").read_text()
    assert "test_in_setup" in Path("runs/index.html").read_text("utf-8")


@pytest.mark.slow
def test_rerun_after_end_of_worker_is_one_test(ended: pytest.Pytester) -> None:
    require_package("pytest_rerunfailures")
    ended.makepyfile(
        test_it="""
        import os, pathlib, pytest

        @pytest.fixture
        def dies_first():
            if not pathlib.Path("setup").exists(): pathlib.Path("setup").touch(); os._exit(1)

        def test_in_setup(dies_first, vnc_desktop): ...

        def test_in_call(vnc_desktop):
            if not pathlib.Path("call").exists(): pathlib.Path("call").touch(); os._exit(1)

        def test_always(vnc_desktop): os._exit(1)
        """
    )
    ended.runpytest_subprocess(*QUIET, "-n1", "--reruns=1", timeout=400)
    assert ends() == {"in_setup": ("passed", None), "in_call": ("passed", None), "always": LOST}
    assert {test.retried_for for test in results().values()} == {("infra",)}


@pytest.mark.parametrize(
    ("end", "options", "line"),
    [
        ("raise KeyboardInterrupt", (), "1 test did not end, as you pressed Ctrl-C\n"),
        (
            "raise KeyboardInterrupt",
            ("--vnc-record=rewrite",),
            "1 test did not end, as you pressed Ctrl-C; nothing was recorded of it\n",
        ),
        ("pytest.exit('enough')", (), "1 failed: 1 infra\n"),
        pytest.param("raise KeyboardInterrupt", ("-n2",), "1 failed: 1 infra\n", marks=pytest.mark.slow),
        pytest.param("pytest.exit('enough')", ("-n2",), "1 failed: 1 infra\n", marks=pytest.mark.slow),
    ],
)
def test_test_in_which_session_ends_is_infra(
    ended: pytest.Pytester, end: str, options: tuple[str, ...], line: str
) -> None:
    ended.makepyfile(test_it=f"import pytest\ndef test_before(vnc_desktop): ...\ndef test_ends(vnc_desktop): {end}")
    result = ended.runpytest_subprocess(*QUIET, *options, timeout=400)
    assert result.ret != pytest.ExitCode.OK
    assert ends()["ends"] == LOST
    assert f"vnc-use: {line}" in result.stdout.str()
    assert ("1 infra" in result.stdout.str()) == ("infra" in line)


def test_process_that_exits_writes_no_results(ended: pytest.Pytester) -> None:
    ended.makepyfile(test_it="import os\ndef test_ends(vnc_desktop): os._exit(3)")
    assert ended.runpytest_subprocess(*QUIET).ret == 3
    assert not Path("runs/vnc-results.json").exists()
