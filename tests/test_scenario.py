"""The tasks of a test: what a marker says holds for its own task only; and which bodies check nothing."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from painted import ListPlanner, PaintedController, act, finished

from pytest_vnc_use import VncUseAgent
from pytest_vnc_use.errors import TaskFailed
from pytest_vnc_use.marker import TaskSpec
from pytest_vnc_use.scenario import carry_out, checks_nothing
from pytest_vnc_use.settings import Settings
from pytest_vnc_use.types import Click, Confirmation, Proposal

CLICK = Proposal(Click(10, 10), "open the basket")
RISKY = Proposal(Click(20, 20), "buy", {}, Confirmation("this buys two apples"))
LAX = '[[rule]]\nname = "anything"\ndecision = "allow"\naction = "*"\n'


def agent_of(planner: ListPlanner, controller: PaintedController, folder: Path) -> VncUseAgent:
    settings = Settings(runs_dir=str(folder / "runs"))
    return VncUseAgent(settings=settings, planner=planner, controller=controller, hitl_mode=False)


@pytest.fixture
def lax(tmp_path: Path) -> str:
    path = tmp_path / "lax.toml"
    path.write_text(LAX, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("order", [1, -1], ids=["strict first", "lax first"])
def test_a_policy_holds_for_the_task_that_names_it_only(tmp_path: Path, lax: str, order: int) -> None:
    specs = [TaskSpec("under the default"), TaskSpec("under a lax policy", settings={"policy": lax})][::order]
    controller = PaintedController()
    agent = agent_of(ListPlanner([act(RISKY), finished()]), controller, tmp_path)
    with pytest.raises(TaskFailed, match=r"ended as denied(.|\n)*task: under the default"):
        carry_out(agent, specs, judge_end_state=False)
    assert len(controller.performed) == [1, -1].index(order)


def test_limits_hold_for_the_task_that_names_them_only(tmp_path: Path) -> None:
    specs = [TaskSpec("short", settings={"steps": 1}), TaskSpec("long")]
    one_step = ListPlanner([act(CLICK), finished()])
    carry_out(agent_of(one_step, PaintedController(), tmp_path), specs, judge_end_state=False)
    two_steps = ListPlanner([act(CLICK), act(CLICK), finished()])
    carry_out(agent_of(two_steps, PaintedController(), tmp_path), specs[1:], judge_end_state=False)
    with pytest.raises(TaskFailed, match=r"ended as step_limit: the limit of 1 steps(.|\n)*task: short"):
        carry_out(agent_of(two_steps, PaintedController(), tmp_path), specs, judge_end_state=False)


def test_a_claim_that_nobody_can_judge_fails_and_is_told(tmp_path: Path) -> None:
    agent = agent_of(ListPlanner([finished("I did it")]), PaintedController(), tmp_path)
    specs = [TaskSpec("Buy apples", ("the basket shows 2 apples",))]
    with pytest.raises(TaskFailed, match="1 of 1 claims not shown to hold\n  unsure: 'the basket shows 2 apples'"):
        carry_out(agent, specs, judge_end_state=False)


# --- bodies ----------------------------------------------------------------------------------------------------------

logger = logging.getLogger(__name__)


def wrapping(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: object, **options: object) -> object:
        return function(*args, **options)

    return call


def check_orders(desktop: object) -> None:
    raise AssertionError(desktop)


def just_a_docstring() -> None:
    """Only the judge can tell."""


def dots() -> None:
    ...  # noqa: PIE790
    ...  # noqa: PIE790


def two_passes() -> None:
    """
    Text that begins further left than the function does.
    """
    pass  # noqa: PIE790
    pass  # noqa: PIE790


def returns() -> None:
    return None


@wrapping
def decorated() -> None: ...


def prints() -> None:
    print("looks fine")  # noqa: T201


def logs() -> None:
    logger.info("looks %s", "fine")
    logging.getLogger(__name__).warning("very")


def sets() -> None:
    total = 1 + 2
    del total


def defines(desktop: object = None) -> None:
    def never_called() -> None:
        assert desktop


class Tests:
    def method(self) -> None:
        """In a class."""

    async def coroutine(self) -> None: ...

    def checking(self) -> None:
        assert self


NOTHING = [just_a_docstring, dots, two_passes, returns, decorated, prints, logs, sets, defines]


@pytest.mark.parametrize("function", [*NOTHING, Tests().method, Tests.coroutine, lambda: None])
def test_a_body_that_cannot_fail_checks_nothing(function: Callable[..., object]) -> None:
    assert checks_nothing(function)


def asserts(total: int = 2) -> None:
    assert total == 2


def raises() -> None:
    raise ValueError


def expects() -> None:
    with pytest.raises(ValueError, match="two"):
        raise ValueError("two apples")


def calls_a_check() -> None:
    check_orders(1)


def prints_what_a_check_says() -> None:
    print(check_orders(1))  # noqa: T201


def checks_in_a_loop() -> None:
    for number in (1, 2):
        if number:
            assert number


@wrapping
def decorated_check() -> None:
    assert check_orders


def calls_what_it_defines() -> None:
    def check() -> None:
        assert logger

    check()


CHECKS = [asserts, raises, expects, calls_a_check, prints_what_a_check_says, checks_in_a_loop, decorated_check]


@pytest.mark.parametrize("function", [*CHECKS, calls_what_it_defines, Tests().checking, lambda: check_orders(1)])
def test_a_body_that_can_fail_checks_something(function: Callable[..., object]) -> None:
    assert not checks_nothing(function)


@pytest.mark.parametrize(
    ("body", "nothing"),
    [("pass", True), ("...\n ...", True), ("'''a docstring'''\n pass", True), ("assert x", False), ("x()", False)],
)
def test_without_a_source_the_byte_code_tells(body: str, nothing: bool) -> None:
    names: dict[str, Any] = {}
    exec(f"def test_it(x=None):\n {body}", names)
    assert checks_nothing(names["test_it"]) == nothing
