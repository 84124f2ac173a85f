"""Prices of models: the dated table, and the user's over it."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from pytest_vnc_use.agent.budget import load_prices
from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.types import Usage

DAY = date(2026, 11, 22)
MILLION = Usage(input=1_000_000, cached=400_000, output=1_000_000, thinking=1_000_000)


@pytest.mark.parametrize(("day", "dollars"), [(date(2026, 12, 31), 0.75), (date(2027, 1, 1), 1.50)])
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
    found = [prices.of(name) for name in ("gemini-3.8-flash", "qwen3-vl-8b", "gemini-3.5-flash-lite")]
    assert [price and price.dollars(MILLION) for price in found[:2]] == [pytest.approx(9), 0]
    assert found[2] is not None
    prices.check("qwen3-vl-8b")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[[price]]\nmodels = ["m"]\ninput = -1\noutput = 1\n', r"price\.0\.input: .*or equal to 0, got -1"),
        ('[[price]]\nmodels = ["m"]\ninput = 1\noutput = 1\nimages = 3\n', r"price\.0\.images: Extra inputs"),
        ("[[price", "must be TOML"),
    ],
)
def test_table_that_makes_no_sense(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "p.toml").write_text(text)
    with pytest.raises(SettingsError, match=problem):
        load_prices(str(tmp_path / "p.toml"))
    with pytest.raises(SettingsError, match=r"vnc_prices must name a TOML file of prices, got 'nowhere.toml'"):
        load_prices("nowhere.toml")
