"""The call of a test: its tasks, its body, and what its end shows."""

from __future__ import annotations

import functools
from collections.abc import Generator
from typing import Any

import pytest

from pytest_vnc_use.plugin.collecting import check_markers, has_the_rest


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Run the marker's tasks in the call phase, before the body; report soft checks after it."""
    check_markers(pyfuncitem)
    if "vnc_agent" not in pyfuncitem.funcargs:
        result = yield
        check_markers(pyfuncitem)  # the body may have added one, whose task nobody carried out
        return result
    from unittest import SkipTest

    from pytest_vnc_use.agent.agent import VncUseAgent
    from pytest_vnc_use.plugin import markers, recordings, tasks

    agent: VncUseAgent = pyfuncitem.funcargs["vnc_agent"]  # type: ignore[assignment]  # the fixture's type
    tell = functools.partial(pyfuncitem.add_report_section, "call", "checks")
    drift = None
    try:
        with tasks.checks_failed(agent, tell, skips=(pytest.skip.Exception, SkipTest)):
            drift = tasks.carry_out(
                agent, markers.tasks_of(pyfuncitem), pyfuncitem.stash.get(recordings.RECORDED, None)
            )
            result = yield
            check_markers(pyfuncitem)
    except BaseException as exc:
        if drift is None or tasks.decides(exc):
            if drift:
                pyfuncitem.add_report_section("call", "drift", str(drift))
            raise
        pyfuncitem.add_report_section("call", "error of the test's body", f"{type(exc).__name__}: {exc}")
        raise drift from exc
    if drift:
        raise drift
    return result


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test that would pass if its last task broke, its program crashed, or a replay's end is gone."""
    result = yield
    if has_the_rest(item.config):
        from pytest_vnc_use.plugin import stash

        if agent := item.stash.get(stash.AGENT, None):
            agent.end_body()
            if (broken := agent.broken_task) and not broken.is_expected:
                raise broken
        _check_program(stash.desktop_of(item))
    return result


def _check_program(desktop: Any) -> None:
    """Raise ProgramCrashed if the program has crashed by the end of the test."""
    from pytest_vnc_use.errors import ProgramCrashed
    from pytest_vnc_use.triage.failure_text import crash_of, format_program_end

    try:
        crash = crash_of(desktop, of_itself=True) if desktop is not None else ""
    except Exception:  # noqa: BLE001  # a user's own desktop may raise anything, and the test does not depend on it
        return
    if crash:
        raise ProgramCrashed(format_program_end(crash, " before the test did"))
