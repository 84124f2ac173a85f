"""The prices of models: the dated table in prices.toml, and the user's own file over it."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from importlib import import_module
from importlib.resources import files

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pytest_vnc_use import clock
from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.files import read_regular
from pytest_vnc_use.plain_text import got
from pytest_vnc_use.types import Usage

tomllib = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")

IMAGE_TOKENS = 2500
"""The most tokens of one picture, for a row that does not say. A 1440x900 screen is 1,728 with Claude."""
_MILLION = 1_000_000
_BUILD = re.compile(r"-(?:\d{3,8}|\d{4}-\d{2}-\d{2})$")


class Price(BaseModel):
    """One row of the table: US dollars for a million tokens of some models, from a day on (UTC)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    models: list[str] = Field(min_length=1)
    since: date = Field(date.min, alias="from")
    input: float = Field(ge=0, allow_inf_nan=False)
    cached: float | None = Field(None, ge=0, allow_inf_nan=False)
    """The price of input tokens that were read from a cache. If it is missing, `input` holds."""
    output: float = Field(ge=0, allow_inf_nan=False)
    image_tokens: int = Field(IMAGE_TOKENS, ge=0)

    def dollars(self, usage: Usage) -> float:
        """Return the price of these tokens. `usage.input` includes the cached ones."""
        cached_price = self.input if self.cached is None else self.cached
        fresh, answered = usage.input - usage.cached, usage.output + usage.thinking
        return (fresh * self.input + usage.cached * cached_price + answered * self.output) / _MILLION


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid")

    dated: date | None = None
    price: list[Price] = []


@dataclass(frozen=True)
class Prices:
    """The prices of one day by model name."""

    by_model: Mapping[str, Price]

    def of(self, model: str) -> Price | None:
        """Return the price of a model, also for a longer name of it: such as `NAME-001` or `NAME-2026-08-01`."""
        name = model.removeprefix("models/")
        return self.by_model.get(name) or self.by_model.get(_BUILD.sub("", name))

    def check(self, model: str) -> None:
        """Raise SettingsError if the model's price is unknown, so that a dollar limit cannot be kept."""
        if self.of(model) is None:
            raise SettingsError(
                f"the price of the model {model!r} is unknown, so a limit in dollars cannot be checked. Put the "
                f'price into a file (-o vnc_prices=prices.toml): [[price]] models = ["{model}"], with input and '
                "output in dollars for a million tokens. Or set a limit in tokens"
            )


def load_prices(path: str = "", *, today: date | None = None) -> Prices:
    """Return the package's table with the user's rows over it. Raises SettingsError if the file is not valid."""
    day = today or clock.utc_now().date()
    own = _rows(_text_of(path), path) if path else []
    shipped = _rows(files(__package__).joinpath("prices.toml").read_text("utf-8"), "prices.toml")
    return Prices(dict(_valid_on(day, shipped)) | dict(_valid_on(day, own)))


def _text_of(path: str) -> str:
    try:
        return read_regular(path).decode()
    except UnicodeDecodeError as exc:
        raise SettingsError(f"vnc_prices={path!r} must be saved as UTF-8: {exc}") from exc
    except OSError as exc:
        raise SettingsError(f"vnc_prices must name a TOML file of prices, got {path!r}: {exc.strerror}") from exc


def _rows(text: str, path: str) -> list[Price]:
    try:
        return _Table.model_validate(tomllib.loads(text)).price
    except ValidationError as exc:
        first = exc.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise SettingsError(f"vnc_prices={path!r}: {place}: {first['msg']}, got {got(first['input'])}") from exc
    except (ValueError, RecursionError) as exc:  # also for a number with too many digits
        raise SettingsError(f"vnc_prices={path!r} must be TOML: {exc}") from exc


def _valid_on(day: date, rows: list[Price]) -> Iterator[tuple[str, Price]]:
    """Yield the prices that hold on a day, by model, later ones last."""
    for row in sorted(rows, key=lambda each: each.since):
        if row.since <= day:
            yield from ((model, row) for model in row.models)
