"""What a test and a session may use: the account of one test, the ledger that processes
share, and prices.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from pytest_vnc_use.agent.budget import Amount, Budget, CostLimits, Ledger, load_prices
from pytest_vnc_use.errors import BudgetExceeded, InfraError, SettingsError
from pytest_vnc_use.types import (
    FrameRef,
    ModelExchange,
    ModelRequest,
    RunStarted,
    Usage,
)

PRICES = load_prices(today=date(2026, 11, 22))
MODEL = "gemini-3.8-flash"
SMALL = ModelRequest("planner", MODEL, characters=300, images=0, answer_tokens=100)
SMALL_TOKENS = 100 + 100
SESSION = CostLimits("--vnc-session-max-")
SMALL_DOLLARS = (100 * 0.75 + 100 * 3.75) / 1e6
NO_ANSWER = ModelExchange(
    "planner", 1, {}, None, 0.1, "no answer", model=MODEL, uncounted=True
)


def exchange(
    usage: Usage, model: str = MODEL, purpose: str = "planner"
) -> ModelExchange:
    return ModelExchange(purpose, 1, {}, {}, 0.1, model=model, usage=usage)


def asked_until_refused(
    budget: Budget, used: Usage, asked: ModelRequest = SMALL
) -> tuple[int, str]:
    """Return the number of calls that were allowed, and the message of the first that
    was not.
    """
    for calls in range(1000):
        try:
            budget.before(asked)
        except BudgetExceeded as refused:
            return calls, str(refused)
        budget.after(exchange(used))
    raise AssertionError("never refused")


def test_tokens_or_dollars_of_test_used_up() -> None:
    calls, message = asked_until_refused(
        Budget(PRICES, CostLimits(tokens=1000), SESSION), Usage(input=100, output=100)
    )
    assert calls == 5
    assert message == (
        "the tokens of this test are used up: 1,000 of 1,000, and the next call may"
        " take 200; the model is not asked again. --vnc-max-tokens sets the limit"
    )
    budget = Budget(PRICES, CostLimits(dollars=0.01), SESSION)
    calls, message = asked_until_refused(
        budget, Usage(input=1500, cached=300, output=40, thinking=60)
    )
    assert calls == 7
    assert "the dollars of this test are used up: 0.0091 of 0.01" in message
    assert budget.spent.dollars == pytest.approx(
        7 * (1200 * 0.75 + 300 * 0.075 + 100 * 3.75) / 1e6
    )


def test_estimate_includes_longest_answer() -> None:
    budget = Budget(PRICES, CostLimits(tokens=10_000), SESSION)
    long_winded = ModelRequest("planner", MODEL, 0, 0, answer_tokens=8192)
    budget.before(long_winded)
    budget.after(exchange(Usage(output=3000, thinking=3000)))
    with pytest.raises(
        BudgetExceeded, match="6,000 of 10,000, and the next call may take 6,000"
    ):
        budget.before(long_winded)
    budget.before(ModelRequest("judge", MODEL, 0, 0, answer_tokens=8192))


@pytest.mark.parametrize(
    ("started", "judgings"),
    [
        ({"expect": ("it is open", "it is full")}, 6),
        ({}, 3),
        ({"body_checks": True}, 0),
        ({"custom_judge": True}, 0),
        ({"test_id": ""}, 0),
    ],
)
def test_planner_leaves_cost_of_judgings(
    started: dict[str, Any], judgings: int
) -> None:
    def budget(tokens: int) -> Budget:
        made = Budget(PRICES, CostLimits(tokens=tokens), SESSION, judge_model=MODEL)
        given = {"test_id": "test_it", "settings": {"votes": 3}, **started}
        made.receive(
            RunStarted(
                "run", "Open it", "now", "gemini", FrameRef("0" * 64, 1, 1), **given
            )
        )
        return made

    price = PRICES.of(MODEL)
    assert price
    judging = 1000 + price.image_tokens + 500  # the prompt, the screen, the answer
    enough = SMALL_TOKENS + judgings * judging
    with pytest.raises(
        BudgetExceeded, match=f"0 of .*, and the next call may take {enough:,}"
    ):
        budget(enough - 1).before(SMALL)
    sufficient = budget(enough)
    sufficient.before(SMALL)
    sufficient.after(exchange(Usage(input=100, output=100)))
    if judgings:
        sufficient.before(replace(SMALL, purpose="judge"))


@pytest.mark.parametrize(
    ("test", "session"),
    [(CostLimits(dollars=9.0), CostLimits()), (CostLimits(), CostLimits(dollars=9.0))],
)
def test_dollar_limit_needs_price(test: CostLimits, session: CostLimits) -> None:
    budget = Budget(PRICES, test, session)
    with pytest.raises(
        SettingsError,
        match=r"the price of the model 'qwen3-vl-8b' is unknown, .*vnc_prices",
    ):
        budget.before(ModelRequest("judge", "qwen3-vl-8b", 300, 0, 100))
    budget.before(SMALL)


def test_uncounted_call_costs_its_estimate() -> None:
    budget = Budget(PRICES, CostLimits(tokens=500), SESSION)
    budget.before(SMALL)
    assert budget.after(NO_ANSWER).dollars == pytest.approx(SMALL_DOLLARS)
    budget.before(SMALL)
    budget.after(exchange(Usage(input=50, output=20)))
    budget.before(SMALL)
    budget.after(replace(NO_ANSWER, uncounted=False))
    spent = budget.spent
    assert spent.calls == 3
    assert spent.uncounted == 1
    assert spent.usage == Usage(input=50, output=20)
    assert (spent.tokens, spent.estimated.tokens) == (SMALL_TOKENS + 70, SMALL_TOKENS)
    assert spent.dollars == pytest.approx(SMALL_DOLLARS + (50 * 0.75 + 20 * 3.75) / 1e6)
    budget.before(SMALL)
    budget.after(NO_ANSWER)
    with pytest.raises(BudgetExceeded, match="470 of 500"):
        budget.before(SMALL)


def test_call_under_way_costs_its_estimate() -> None:
    """Also where Ctrl-C or pytest-timeout ended its test, so that nothing waits for its
    thread.
    """
    budget = Budget(PRICES, CostLimits(tokens=SMALL_TOKENS + 1), SESSION)
    asked = threading.Event()
    answered = threading.Event()

    def call() -> None:
        budget.before(SMALL)
        asked.set()
        answered.wait(timeout=400)
        budget.after(exchange(Usage(input=30)))

    asking = threading.Thread(target=call)
    asking.start()
    assert asked.wait(timeout=400)
    spent = budget.spent
    assert (spent.calls, spent.uncounted, spent.tokens) == (1, 1, SMALL_TOKENS)
    assert spent.dollars == pytest.approx(SMALL_DOLLARS)
    with pytest.raises(BudgetExceeded, match="200 of 201"):
        budget.before(SMALL)
    answered.set()
    asking.join()
    assert budget.spent.calls == 1
    assert budget.spent.uncounted == 0
    assert budget.spent.tokens == 30


def test_second_request_ends_interrupted_one(tmp_path: Path) -> None:
    budget = Budget(
        PRICES, CostLimits(tokens=SMALL_TOKENS * 2), SESSION, Ledger(tmp_path)
    )
    budget.before(SMALL)
    budget.before(SMALL)
    budget.after(exchange(Usage(input=60)))
    assert budget.spent.tokens == Ledger(tmp_path).used().tokens == SMALL_TOKENS + 60


@pytest.mark.parametrize("has_ledger", [False, True])
def test_session_limits_name_their_option(tmp_path: Path, has_ledger: bool) -> None:
    session = CostLimits("--vnc-session-max-", steps=2)
    budget = Budget(
        PRICES, CostLimits(), session, Ledger(tmp_path) if has_ledger else None
    )
    for _ in range(2):
        budget.before(SMALL)
        budget.stepped()
    with pytest.raises(
        BudgetExceeded,
        match=r"steps of this session are used up: 2 of 2; .*--vnc-session-max-steps",
    ):
        budget.before(SMALL)


def test_call_of_other_test_is_reserved(tmp_path: Path) -> None:
    budgets = [
        Budget(
            PRICES,
            CostLimits(),
            CostLimits("--vnc-session-max-", tokens=350),
            Ledger(tmp_path),
        )
        for _ in range(2)
    ]
    budgets[0].before(SMALL)
    with pytest.raises(BudgetExceeded):
        budgets[1].before(SMALL)
    budgets[0].after(exchange(Usage(input=10)))
    budgets[1].before(SMALL)
    budgets[1].after(NO_ANSWER)
    used = Ledger(tmp_path).used()
    assert used.tokens == 10 + SMALL_TOKENS
    assert used.dollars == pytest.approx(SMALL_DOLLARS + 10 * 0.75 / 1e6)
    with pytest.raises(
        BudgetExceeded,
        match=r"tokens of this session are used up: 210 of 350, .*session-max-tokens",
    ):
        budgets[0].before(SMALL)


def test_ledger_locked_raises_infra_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_vnc_use.agent.budget.LOCK_S", 0.1)
    ledger = Ledger(tmp_path)
    with (
        FileLock(tmp_path / "ledger.lock"),
        pytest.raises(InfraError, match=r"stayed locked for 0\.1 s"),
    ):
        ledger.used()


def test_seconds_count_from_session_start(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.settle("", Amount())
    with pytest.raises(BudgetExceeded, match="seconds of this session are used up"):
        Budget(
            PRICES, CostLimits(), CostLimits("--vnc-session-max-", seconds=1e-9), ledger
        ).before(SMALL)


DAY = date(2026, 11, 22)
MILLION = Usage(input=1_000_000, cached=400_000, output=1_000_000, thinking=1_000_000)


@pytest.mark.parametrize(
    ("day", "dollars"), [(date(2026, 12, 31), 0.75), (date(2027, 1, 1), 1.50)]
)
def test_price_holds_from_its_day_on(day: date, dollars: float) -> None:
    price = load_prices(today=day).of("gemini-3.8-flash")
    assert price is not None
    assert price.dollars(Usage(input=1_000_000)) == pytest.approx(dollars)


@pytest.mark.parametrize(
    ("name", "input_price"),
    [
        ("gemini-3.5-flash", 1.5),
        ("gemini-3.5-flash-lite-20260801", 0.3),
        ("gemini-3.8-flash-2026-04-23", 0.75),
        ("gemini-3.8-flash-image", None),
    ],
)
def test_models_by_their_names(name: str, input_price: float | None) -> None:
    price = load_prices(today=DAY).of(name)
    assert (price.input if price else None) == input_price


def test_users_prices_stand_over_those_of_package(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text(
        '[[price]]\nmodels = ["gemini-3.8-flash"]\ninput = 9\noutput = 0\n'
        '[[price]]\nmodels = ["qwen3-vl-8b"]\ninput = 0\noutput = 0\n'
    )
    prices = load_prices(str(own), today=DAY)
    found = [
        prices.of(name)
        for name in ("gemini-3.8-flash", "qwen3-vl-8b", "gemini-3.5-flash-lite")
    ]
    assert [price and price.dollars(MILLION) for price in found[:2]] == [
        pytest.approx(9),
        0,
    ]
    assert found[2] is not None
    prices.check("qwen3-vl-8b")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            '[[price]]\nmodels = ["m"]\ninput = -1\noutput = 1\n',
            r"price\.0\.input: .*or equal to 0, got -1",
        ),
        (
            '[[price]]\nmodels = ["m"]\ninput = 1\noutput = 1\nimages = 3\n',
            r"price\.0\.images: Extra inputs",
        ),
        ("[[price", "must be TOML"),
    ],
)
def test_table_that_makes_no_sense(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "p.toml").write_text(text)
    with pytest.raises(SettingsError, match=problem):
        load_prices(str(tmp_path / "p.toml"))
    with pytest.raises(
        SettingsError,
        match=r"vnc_prices must name a TOML file of prices, got 'nowhere.toml'",
    ):
        load_prices("nowhere.toml")
