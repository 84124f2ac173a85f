"""What the shop sells. Prices are in cents, so that totals are exact."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Product:
    """One thing to buy; `in_stock` is what the stock report says, `colour` that of its
    picture.
    """

    name: str
    price: int
    in_stock: int
    colour: str


PRODUCTS = (
    Product("apples", 150, 120, "#c8453b"),
    Product("pears", 180, 64, "#7f9f3a"),
    Product("bananas", 95, 210, "#d9a91e"),
    Product("bread", 240, 18, "#a9713b"),
    Product("cheese", 490, 25, "#d98a1e"),
    Product("coffee", 650, 40, "#6b4a36"),
    Product("honey", 520, 33, "#c77d0a"),
    Product("tea", 375, 58, "#3f8f6b"),
)


def money(cents: int) -> str:
    """`3.00` for 300."""
    return f"{cents // 100}.{cents % 100:02d}"
