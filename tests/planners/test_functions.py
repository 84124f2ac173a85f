"""Python functions as declarations for a model."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.planners.common.functions import declare, declare_all


def reset_shop(
    name: str,
    apples: int,
    price: float = 1.5,
    *,
    open_now: bool = True,
    tags: list[str] | None = None,
    colour: Literal["red", "green"] = "red",
    more: dict[str, Any] | None = None,
) -> str:
    """Put the shop back to its first state.

    Takes a moment.
    """
    return f"{name}{apples}{price}{open_now}{tags}{colour}{more}"


def test_function_becomes_declaration() -> None:
    declaration = declare(reset_shop)
    assert declaration.name == "reset_shop"
    assert declaration.description == "Put the shop back to its first state.\n\nTakes a moment."
    assert declaration.parameters == {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "apples": {"type": "integer"},
            "price": {"type": "number"},
            "open_now": {"type": "boolean"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "colour": {"type": "string", "enum": ["red", "green"]},
            "more": {"type": "object"},
        },
        "required": ["name", "apples"],
    }


def without_docstring(name: str) -> None: ...


def without_hint(name) -> None:  # type: ignore[no-untyped-def]
    """Has no hint."""


def with_a_set(names: set[str]) -> None:
    """Takes what JSON does not have."""


def with_many(*names: str) -> None:
    """Takes any number."""


def with_either(name: str | int) -> None:
    """Takes one of two kinds."""


async def awaits(name: str) -> None:
    """Returns a coroutine."""


def yields(name: str) -> Any:
    """Returns a generator."""
    yield name


def with_bytes(name: Literal[b"a"]) -> None:
    """Takes what JSON does not have."""


def with_a_dict(name: Any) -> None:
    """Takes what is no type."""


def with_an_unknown(name: Any) -> None:
    """Takes a type that is nowhere."""


with_a_dict.__annotations__["name"] = {}
with_an_unknown.__annotations__["name"] = "Nowhere"


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (without_docstring, "needs a name and a docstring, got <function without_docstring"),
        (lambda: None, "needs a name and a docstring"),
        (without_hint, "'name' of 'without_hint' needs a type hint"),
        (with_a_set, "'names' of 'with_a_set' must be .*, got set"),
        (with_many, "must be a keyword parameter"),
        (with_either, "'name' of 'with_either' must be"),
        (awaits, "must be a normal function, got the coroutine or generator 'awaits'"),
        (yields, "must be a normal function, got the coroutine or generator 'yields'"),
        (with_bytes, "'name' of 'with_bytes' must be"),
        (with_a_dict, "'with_a_dict' must be"),
        (with_an_unknown, "hints of 'with_an_unknown' cannot be read: NameError: name 'Nowhere' is not defined"),
    ],
)
def test_what_cannot_be_declared_says_why(function: Any, problem: str) -> None:
    with pytest.raises(SettingsError, match=problem):
        declare(function)


def test_names_are_used_once() -> None:
    assert [declaration.name for declaration in declare_all([reset_shop], taken=["click"])] == ["reset_shop"]
    with pytest.raises(SettingsError, match="already has the name 'reset_shop'"):
        declare_all([reset_shop, reset_shop], taken=())
    with pytest.raises(SettingsError, match="already has the name 'reset_shop'"):
        declare_all([reset_shop], taken=["reset_shop"])
