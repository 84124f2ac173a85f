"""A planner for one test, by its marker; and Python functions for the model, by the command line."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pytest_vnc_use.agent.build import named_functions
from pytest_vnc_use.errors import SettingsError
from support.gemini_server import GeminiServer, calls, text


@pytest.mark.desktop
def test_a_marker_names_its_planner_and_a_model_calls_functions_of_a_module(
    pytester: pytest.Pytester, model: Callable[..., GeminiServer], run: Callable[..., pytest.RunResult]
) -> None:
    pytester.syspathinsert()
    pytester.makepyfile(
        warehouse="""
            from os.path import join
            from pathlib import Path

            def stock_of(fruit: str) -> str:
                "How many of a fruit are in stock."
                Path("asked.txt").write_text(fruit)
                return f"3 {fruit}"
        """,
        own="""
            from pytest_vnc_use.planners import finish
            from pytest_vnc_use.types import Click

            def plan(observation):
                return finish({}) if observation.turns else Click(5, 6)
        """,
        test_it="""
            import pytest
            from pathlib import Path

            @pytest.mark.vnc_task("Click", planner="own:plan", expect=None)
            def test_own(vnc_desktop):
                assert "press 5 6 left" in vnc_desktop.read_file("events.txt")

            @pytest.mark.vnc_task("Ask the warehouse", expect=None)
            def test_model(vnc_desktop):
                assert Path("asked.txt").read_text() == "apples"
        """,
    )
    server = model(calls(("stock_of", {"fruit": "apples"})), text("There are 3."))
    run(server, "-ovnc_functions=warehouse").assert_outcomes(passed=2)
    assert server.refusals == []


def test_a_module_that_exits_is_refused(pytester: pytest.Pytester) -> None:
    pytester.syspathinsert(pytester.makepyfile(exits_at_once="import sys\nsys.exit(2)").parent)
    with pytest.raises(SettingsError, match="got 'exits_at_once': SystemExit: 2"):
        named_functions("exits_at_once")


def test_a_module_that_has_none_or_is_none_is_refused() -> None:
    assert named_functions("") == ()
    with pytest.raises(SettingsError, match=r"must be a module that can be imported .*got 'no.such': ModuleNotFound"):
        named_functions("no.such")
    with pytest.raises(SettingsError, match=r"must be a module with functions of its own, got 'pytest_vnc_use.errors'"):
        named_functions("pytest_vnc_use.errors")
