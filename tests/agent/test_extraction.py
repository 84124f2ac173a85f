"""Values read off the screen: what is asked for, what is made of the answer, and what
is said where it does not fit.
"""

from __future__ import annotations

import datetime
import enum
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from pytest_vnc_use.agent.claims import Form
from pytest_vnc_use.errors import Inconclusive, SettingsError
from pytest_vnc_use.planners.common.judge import value_schema
from pytest_vnc_use.planners.local.scripted import NoJudge
from pytest_vnc_use.runs.directory import read_trace
from pytest_vnc_use.types import Region
from support.json_server import problems_of_format, problems_of_schema
from support.judges import ListJudge, agent_before


class Fruit(enum.Enum):
    APPLE = "apple"
    PEAR = "pear"


class Line(BaseModel):
    fruit: Fruit
    count: int = Field(ge=1, description="how many of it")


class Basket(BaseModel):
    """The basket of the shop."""

    lines: list[Line] = Field(max_length=9)
    total: Decimal
    due: datetime.date | None = None
    corner: tuple[int, int] = (0, 0)
    state: Literal["open", "paid"] = "open"
    owner: Annotated[str, Field(min_length=1, pattern="^[a-z]+$")] = "alice"


class Tree(BaseModel):
    name: str
    children: list[Tree] = []


class Anything(BaseModel):
    value: Any


class Prices(BaseModel):
    by_name: dict[str, float]


BASKET = {
    "lines": [{"fruit": "apple", "count": 2}],
    "total": "3.00",
    "due": None,
    "corner": [10, 20],
    "state": "open",
    "owner": "alice",
}


@pytest.mark.parametrize(
    "model", [Basket, Tree, int, float | None, list[Line], tuple[int, str]]
)
def test_every_service_takes_schema(model: Any) -> None:
    schema = value_schema(Form.of(model).schema)
    assert (
        list(
            problems_of_format(
                {"name": "value", "strict": True, "schema": schema}, "text.format"
            )
        )
        == []
    )
    assert (
        list(
            problems_of_schema(
                {**schema, "properties": {**schema["properties"], "box_2d": {}}}
            )
        )
        == []
    )
    assert schema["required"] == ["reason", "value", "box_2d"]


@pytest.mark.parametrize(
    ("model", "problem"),
    [
        (
            type("Foreign", (), {}),
            (
                "extract needs a type with a JSON Schema, such as a pydantic model, got"
                " 'Foreign'"
            ),
        ),
        (
            list["int |"],  # noqa: F722
            (
                "extract needs a type .*, got 'list': Forward reference must be an"
                " expression"
            ),
        ),
        (Prices, "Prices.by_name is a dict with any keys. Use a list of models"),
        (Anything, "Anything.value may be anything"),
    ],
)
def test_extraction_unsupported_model_is_refused_before_any_call(
    model: Any, problem: str, tmp_path: Path
) -> None:
    judge = ListJudge([])
    with pytest.raises(SettingsError, match=problem):
        agent_before(judge, tmp_path).extract(model, "what is in the basket?")
    assert judge.asked == []


def test_extraction_fills_model(tmp_path: Path) -> None:
    agent = agent_before(ListJudge([BASKET]), tmp_path)
    basket = agent.extract(Basket, "what is in the basket?")
    assert basket.total == Decimal("3.00")
    assert basket.lines == [Line(fruit=Fruit.APPLE, count=2)]
    assert basket.corner == (10, 20)
    [reading] = agent.extracted
    assert reading.region == Region(1, 2, 3, 4)
    assert reading.reason == "it is written there"
    assert reading.frame == agent.controller.frame().ref


def test_extraction_invalid_error_shows_text(tmp_path: Path) -> None:
    wrong = {**BASKET, "total": "three", "lines": [{"fruit": "apple", "count": 0}]}
    agent = agent_before(ListJudge([wrong]), tmp_path)
    with pytest.raises(Inconclusive) as raised:
        agent.extract(Basket, "what is in the basket?")
    text = str(raised.value)
    assert (
        "extract: the value is not a valid Basket: lines.0.count: Input should be"
        " greater than or equal to 1" in text
    )
    assert "got 'three'" in text
    assert '"total": "three"' in text
    [reading] = agent.extracted
    assert reading.value == wrong


@pytest.mark.parametrize(
    ("judge", "question", "problem"),
    [
        (
            ListJudge([None]),
            "how many?",
            r"extract: no int is on the screen for 'how many\?': it is written there",
        ),
        (
            NoJudge(),
            "how many?",
            "no planner can read values: NoJudge only judges claims",
        ),
        (ListJudge([]), " ", "`question` must name the value to read, got ' '"),
    ],
)
def test_value_that_cannot_be_read_raises(
    judge: Any, question: str, problem: str, tmp_path: Path
) -> None:
    with pytest.raises((Inconclusive, SettingsError), match=problem):
        agent_before(judge, tmp_path).extract(int, question)


def test_extracted_value_is_in_run_directory_without_secrets(tmp_path: Path) -> None:
    agent = agent_before(
        ListJudge([["pass", "word-1"], "word-1"]),
        tmp_path,
        secrets={"PASSWORD": "word-1"},
    )
    result = agent.run("Open the basket")
    assert agent.extract(list[str], "what is written there?") == ["pass", "word-1"]
    with pytest.raises(Inconclusive, match="got '<secret:PASSWORD>'") as raised:
        agent.extract(int, "how many apples?")
    assert "word-1" not in str(raised.value)
    first, second = read_trace(result.run_dir).extracted
    assert first.reading.value == ["pass", "<secret:PASSWORD>"]
    assert (first.form, first.problem) == ("list", "")
    assert (second.form, second.reading.value) == ("int", "<secret:PASSWORD>")
    assert "got '<secret:PASSWORD>'" in second.problem
    assert (result.run_dir / "screens" / f"{first.reading.frame.digest}.png").exists()
