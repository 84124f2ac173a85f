"""The wall-clock limit around another user's code."""

from __future__ import annotations

import threading

import pytest

from pytest_vnc_use.deadline import Deadline, DeadlineExceeded, uncounted


def test_call_raises_error_of_work() -> None:
    def work() -> None:
        raise KeyError("basket")

    with pytest.raises(KeyError, match="basket"):
        Deadline(5).call(work)


def test_call_endless_work_raises() -> None:
    released = threading.Event()
    deadline = Deadline(0.2)
    with pytest.raises(DeadlineExceeded):
        deadline.call(released.wait)
    assert deadline.remaining_s == 0
    released.set()


def test_deadline_frozen_clock_ends_in_real_time() -> None:
    from freezegun import freeze_time

    released = threading.Event()
    with freeze_time("2030-01-02"), pytest.raises(DeadlineExceeded):
        Deadline(0.2).call(released.wait)
    released.set()


def test_call_meanwhile_error_raises_at_once() -> None:
    released = threading.Event()

    def look() -> None:
        raise ConnectionError("gone")

    deadline = Deadline(60)
    with pytest.raises(ConnectionError, match="gone"):
        deadline.call(released.wait, meanwhile=look)
    assert deadline.remaining_s > 20
    released.set()


def test_deadline_while_user_is_asked_stands_still() -> None:
    deadline = Deadline(0.1)
    with uncounted():
        threading.Event().wait(0.15)
        assert deadline.call(lambda: "still time") == "still time"
    assert 0 < deadline.remaining_s <= 0.1
