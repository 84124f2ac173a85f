"""Tests whose end nobody reported: they do not read as passed, whatever ended them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_vnc_use.report.results import read_results
from support.vnc_servers import require_package

DESKTOP = """
import pytest

@pytest.fixture
def vnc_desktop():
    return object()
"""
ENDS = """
import os, signal, pytest

def test_before(vnc_desktop): ...

def test_ends(vnc_desktop):
    {end}
"""
OF_A_WORKER = {"killed": "os.kill(os.getpid(), signal.SIGKILL)", "exits": "os._exit(0)"}
OF_A_SESSION = {"pytest.exit": "pytest.exit('enough')", "Ctrl-C": "raise KeyboardInterrupt"}
QUIET = ("-p", "no:cacheprovider", "-p", "no:pytest-vnc")


@pytest.fixture
def ended(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path / "summary.md"))
    pytester.makeconftest(DESKTOP)
    return pytester


def outcome_of(pytester: pytest.Pytester, ends: str, *options: str) -> tuple[dict[str, tuple[str, str | None]], str]:
    """Return how each test ended, by its name; and the terminal's output."""
    pytester.makepyfile(test_it=ENDS.format(end=ends))
    result = pytester.runpytest_subprocess(*QUIET, *options, timeout=400)
    assert result.ret != pytest.ExitCode.OK
    results = read_results(Path("runs/vnc-results.json"))
    return {test.test.rpartition("::")[2]: (test.result, test.triage) for test in results.tests}, result.stdout.str()


@pytest.mark.slow
@pytest.mark.parametrize("end", OF_A_WORKER)
def test_a_test_that_took_its_worker_along_did_not_end(ended: pytest.Pytester, end: str) -> None:
    tests, output = outcome_of(ended, OF_A_WORKER[end], "-n2")
    assert tests == {"test_before": ("passed", None), "test_ends": ("error", "infra")}
    assert "vnc-use: 1 failed: 1 infra\n" in output
    (test,) = [test for test in read_results(Path("runs/vnc-results.json")).tests if test.is_bad]
    assert "crashed while running 'test_it.py::test_ends'" in test.message
    assert test.rule == "the test did not end"
    assert "1 failed: 1 infra" in Path("summary.md").read_text()


IN_SETUP = """
import os

import pytest


@pytest.fixture
def dies():
    os._exit(1)


def test_before(vnc_desktop): ...


def test_ends(dies, vnc_desktop): ...
"""


@pytest.mark.slow
def test_a_test_whose_setup_took_its_worker_along_did_not_end(ended: pytest.Pytester) -> None:
    ended.makepyfile(test_it=IN_SETUP)
    ended.runpytest_subprocess(*QUIET, "-n1", timeout=400)
    found = {test.test.rpartition("::")[2]: test for test in read_results(Path("runs/vnc-results.json")).tests}
    assert {name: (test.result, test.triage) for name, test in found.items()} == {
        "test_before": ("passed", None),
        "test_ends": ("error", "infra"),
    }
    assert "crashed while running" in found["test_ends"].message
    assert "test_ends" in Path("runs/index.html").read_text("utf-8")


@pytest.mark.slow
def test_a_test_that_took_its_worker_along_and_is_tried_again_is_told_once(ended: pytest.Pytester) -> None:
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
    tests = read_results(Path("runs/vnc-results.json")).tests
    assert {test.test.rpartition("::")[2]: (test.result, test.triage, test.retried_for) for test in tests} == {
        "test_in_setup": ("passed", None, ("infra",)),
        "test_in_call": ("passed", None, ("infra",)),
        "test_always": ("error", "infra", ("infra",)),
    }
    assert len(tests) == 3


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("-n2",)], ids=["alone", "on workers"])
@pytest.mark.parametrize("end", OF_A_SESSION)
def test_a_test_in_which_the_session_ended_did_not_end(
    ended: pytest.Pytester, end: str, options: tuple[str, ...]
) -> None:
    tests, output = outcome_of(ended, OF_A_SESSION[end], *options)
    assert tests["test_ends"] == ("error", "infra")
    assert ("vnc-use: 1 failed: 1 infra\n" in output) == (bool(options) or end == "pytest.exit")


@pytest.mark.parametrize(("options", "rest"), [((), ""), (("--vnc-record=rewrite",), "; nothing was recorded of it")])
def test_a_person_who_presses_ctrl_c_is_no_failure(ended: pytest.Pytester, options: tuple[str, ...], rest: str) -> None:
    _, output = outcome_of(ended, "raise KeyboardInterrupt", *options)
    assert f"vnc-use: 1 test did not end, as you pressed Ctrl-C{rest}\n" in output
    assert "infra" not in output


@pytest.mark.slow
@pytest.mark.parametrize(("end", "options"), [("raise LookupError", ()), ("os._exit(0)", ("-n1",))])
def test_what_failed_a_test_first_stays_so(ended: pytest.Pytester, end: str, options: tuple[str, ...]) -> None:
    ended.makepyfile(
        test_it=f"""
        import os, pytest

        @pytest.fixture
        def broken(vnc_desktop):
            yield
            {end}

        def test_it(broken): assert 0
        """
    )
    ended.runpytest_subprocess(*QUIET, *options, timeout=400)
    (test,) = read_results(Path("runs/vnc-results.json")).tests
    assert (test.result, test.triage) == ("failed", "product")


def test_without_a_worker_nothing_is_told_of_a_process_that_exits(ended: pytest.Pytester) -> None:
    ended.makepyfile(test_it=ENDS.format(end="os._exit(3)"))
    assert ended.runpytest_subprocess(*QUIET).ret == 3
    assert not Path("runs/vnc-results.json").exists()


def test_a_skipped_test_is_skipped_wherever_it_says_so(ended: pytest.Pytester) -> None:
    ended.makepyfile(
        test_it="""
        import pytest

        @pytest.fixture
        def skipping(vnc_desktop): pytest.skip("no apples")

        @pytest.mark.xfail(run=False)
        def test_not_run(vnc_desktop): ...

        @pytest.mark.skip
        def test_by_mark(vnc_desktop): ...

        def test_in_setup(skipping): ...

        def test_in_call(vnc_desktop): pytest.skip("no apples")

        def test_passes(vnc_desktop): ...
        """
    )
    ended.runpytest_subprocess(*QUIET).assert_outcomes(passed=1, skipped=3, xfailed=1)
    results = [(test.result, test.triage) for test in read_results(Path("runs/vnc-results.json")).tests]
    assert results == [("xfailed", None), ("skipped", None), ("skipped", None), ("skipped", None), ("passed", None)]


def test_a_setup_alone_tests_nothing(ended: pytest.Pytester) -> None:
    ended.makepyfile(test_it="def test_it(vnc_desktop): ...")
    result = ended.runpytest_subprocess(*QUIET, "--setup-only")
    assert result.ret == pytest.ExitCode.OK
    assert "vnc-use:" not in result.stdout.str()
    assert not Path("runs").exists()
