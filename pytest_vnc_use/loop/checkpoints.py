"""The checkpoints of a run. Only those of this user's own run are read, because their content is carried out."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from pytest_vnc_use.errors import RunFolderError, VncUseError
from pytest_vnc_use.runs.seal import is_seal_of, seal_of

CHECKPOINTS = "checkpoints.sqlite"
"""Their file in the run folder."""
NO_CHECKPOINT = "run {!r} left no checkpoint to go on from; start its task again"


class Serializer(Protocol):
    """A serializer: it turns a value into bytes and back, each with the name of its kind."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Return the kind of a value and its bytes."""

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Return the value of such a pair."""


@dataclass(frozen=True)
class SealedCheckpoints:
    """A serializer that seals what it writes, and reads only sealed bytes, unless another's are to be trusted too.

    `serializer` must make only plain values: LangGraph's would call whatever the bytes name.
    """

    serializer: Serializer
    run_id: str
    trust: bool = False

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Return the kind of a value and its sealed bytes."""
        kind, data = self.serializer.dumps_typed(obj)
        return f"{kind} {seal_of(*self._parts(kind, data))}", data

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Return the value. Raises RunFolderError if it has no seal, or another seal."""
        kind, _, seal = data[0].partition(" ")
        if not self.trust and not is_seal_of(seal, *self._parts(kind, data[1])):
            raise RunFolderError(
                f"the checkpoint of run {self.run_id!r} was not written by you on this machine, or was changed "
                "since. If you trust it, pass --trust (trust=True)"
            )
        return self.serializer.loads_typed((kind, data[1]))

    def _parts(self, kind: str, data: bytes) -> tuple[bytes, ...]:
        return b"checkpoint", self.run_id.encode(), kind.encode(), data


@contextmanager
def damage_as_error(run_id: str) -> Iterator[None]:
    """Map errors of damaged checkpoints to RunFolderError; a full disk keeps its own error."""
    try:
        yield
    except VncUseError:
        raise
    except Exception as exc:  # for a damaged file SQLite and LangGraph may raise anything
        if isinstance(exc, sqlite3.OperationalError) and "full" in str(exc):
            raise
        raise RunFolderError(
            f"the checkpoints of run {run_id!r} are damaged ({type(exc).__name__}: {exc}), so it cannot continue. "
            "Its run folder shows what it did; start the task again"
        ) from exc
