"""The account of a session, in a file that all its processes share."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from filelock import FileLock, Timeout

from pytest_vnc_use import clock
from pytest_vnc_use.deadline import acquire
from pytest_vnc_use.errors import InfraError
from pytest_vnc_use.files import replace_file

LOCK_S = 30.0
PREFIX = "vnc-use-session-"
"""The beginning of the name of a session's folder for its ledger."""


@dataclass(frozen=True)
class Amount:
    """Steps, tokens (input and output), and US dollars."""

    steps: int = 0
    tokens: int = 0
    dollars: float = 0.0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.steps + other.steps, self.tokens + other.tokens, self.dollars + other.dollars)


@dataclass
class _Account:
    began_s: float
    used: Amount = field(default_factory=Amount)
    reserved: dict[str, Amount] = field(default_factory=dict)

    @property
    def in_all(self) -> Amount:
        """Return the sum of the used and reserved amounts."""
        return sum(self.reserved.values(), self.used)


class Ledger:
    """One account in a folder. Every process opens it by the folder's path and changes it only under a file lock.

    A reservation for a call that never came back, such as after a `kill -9`, stays: the call may have been paid.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder = folder
        self._file = folder / "ledger.json"
        self._lock = FileLock(folder / "ledger.lock", mode=0o600)

    def reserve(self, expected: Amount, refuse: Callable[[Amount, float], None]) -> str:
        """Count `expected` as used until it is settled under the returned name.

        `refuse` is called first and may raise. It gets the sum of used and reserved, and the seconds since the session
        began.
        """
        name = uuid.uuid4().hex
        with self._changing() as account:
            refuse(account.in_all, clock.monotonic() - account.began_s)
            account.reserved[name] = expected
        return name

    def settle(self, name: str, used: Amount) -> None:
        """Replace the reservation of that name by the real use. Without one (`""`), only add the use."""
        with self._changing() as account:
            account.reserved.pop(name, None)
            account.used += used

    def used(self) -> Amount:
        """Return the use, without reservations."""
        with self._changing() as account:
            return account.used

    @contextmanager
    def _changing(self) -> Iterator[_Account]:
        with self._hold_lock():
            account = self._read()
            yield account
            replace_file(self._file, json.dumps(asdict(account)).encode(), mode=0o600)

    @contextmanager
    def _hold_lock(self) -> Iterator[None]:
        try:
            lock = acquire(self._lock, LOCK_S)
        except Timeout as exc:
            raise InfraError(
                f"the session's account in {str(self.folder)!r} stayed locked for {LOCK_S} s; "
                "another process of the session hangs while it writes there"
            ) from exc
        with lock:
            yield

    def _read(self) -> _Account:
        try:
            stored = json.loads(self._file.read_text("utf-8"))
        except FileNotFoundError:
            return _Account(clock.monotonic())
        reserved = {name: Amount(**amount) for name, amount in stored["reserved"].items()}
        return _Account(stored["began_s"], Amount(**stored["used"]), reserved)
