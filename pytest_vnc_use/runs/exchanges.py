"""The exchanges with models in a run folder: `exchanges.jsonl`, one HTTP exchange a line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Any

from pydantic import NonNegativeInt

from pytest_vnc_use.runs.json_lines import JsonLines, from_line, to_json
from pytest_vnc_use.types import JsonObject, ModelExchange


class Exchanges:
    """The exchanges.jsonl of a run folder. It grows with the number of exchanges, not with its square.

    A request repeats the history before it. `repeats` holds, for each list of the request, how many items equal those
    of the previous request of the same purpose. Only the other items are written, and reading puts them together again.
    """

    def __init__(self, path: Path) -> None:
        self._lines = JsonLines(path / "exchanges.jsonl")
        self._written: int | None = None
        self._requests: dict[str, JsonObject] = {}

    def append(self, exchange: ModelExchange) -> ModelExchange:
        """Write one exchange. Return it as the trace has it: without bodies, with the number of its line."""
        line = to_json(exchange)
        request, previous = line["request"], self._requests.get(exchange.purpose, {})
        repeats = {key: count for key, items in request.items() if (count := _count_shared(previous.get(key), items))}
        rest = {key: items[repeats[key] :] if key in repeats else items for key, items in request.items()}
        self._lines.append({**line, "request": rest, "repeats": repeats})
        self._requests[exchange.purpose] = request
        self._written = self._lines.count() if self._written is None else self._written + 1
        return replace(exchange, request={"line": self._written}, response=None)

    def read(self) -> Iterator[ModelExchange]:
        """Yield all exchanges in order, each with its whole request. Raises RunFolderError at a damaged line."""
        requests: dict[str, JsonObject] = {}
        for line in self._lines.read():
            exchange: ModelExchange = from_line(self._lines.path, ModelExchange, line)
            previous = requests.get(exchange.purpose, {})
            counts = from_line(self._lines.path, dict[str, NonNegativeInt], line.get("repeats", {}))
            repeated = {key: _list(previous.get(key))[:count] for key, count in counts.items()}
            request = {
                key: [*repeated[key], *_list(rest)] if key in repeated else rest
                for key, rest in exchange.request.items()
            }
            requests[exchange.purpose] = request
            yield replace(exchange, request=request)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _count_shared(before: Any, now: Any) -> int:
    if not (isinstance(before, list) and isinstance(now, list)):
        return 0
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, now, strict=False)))


def read_exchanges(path: Path) -> Iterator[ModelExchange]:
    """Return the exchanges with models in the run folder `path`. Raises RunFolderError at a damaged line."""
    return Exchanges(path).read()
