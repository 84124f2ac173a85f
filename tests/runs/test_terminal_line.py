"""A line that is rewritten below the output of a terminal, and leaves nothing behind."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from pytest_vnc_use.plain_text import columns_of, fit
from pytest_vnc_use.runs.progress import TerminalLine, can_show
from support.terminal import Terminal


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    screen = Terminal(40, 5)
    yield screen
    screen.close()


def shows(terminal: Terminal, *rows: str) -> bool:
    return terminal.read_until(lambda: terminal.rows == list(rows), 5.0)


def test_it_is_drawn_below_and_erased_whole(terminal: Terminal) -> None:
    os.write(terminal.slave, b"test_a.py ..")
    line = TerminalLine(terminal.slave, lambda columns: "x" * columns)
    line.show()
    assert shows(terminal, "test_a.py ..", "x" * 39)
    assert terminal.cursor == (0, 12)
    line.hide()
    os.write(terminal.slave, b".")
    assert shows(terminal, "test_a.py ...")
    line.close()


def test_at_last_row_output_scrolls_and_goes_on_where_it_was(terminal: Terminal) -> None:
    os.write(terminal.slave, b"1\n2\n3\n4\ntest_a.py ..")
    line = TerminalLine(terminal.slave, lambda _: "where it is")
    line.show()
    assert shows(terminal, "2", "3", "4", "test_a.py ..", "where it is")
    with line.interrupted():
        os.write(terminal.slave, b"F\nlonger than the line was")
    assert shows(terminal, "2", "3", "4", "test_a.py ..F", "longer than the line was") or shows(
        terminal, "3", "4", "test_a.py ..F", "longer than the line was", "where it is"
    )
    line.close()
    os.write(terminal.slave, b"\nend")
    assert terminal.read_until(lambda: terminal.rows[-1] == "end", 5.0)
    assert "where it is" not in terminal.rows


def test_it_keeps_to_width_that_terminal_has_now(terminal: Terminal) -> None:
    line = TerminalLine(terminal.slave, lambda columns: fit("篮" * 40, columns))
    line.show()
    assert shows(terminal, "篮" * 18 + "...")
    terminal.resize(30)
    assert shows(terminal, "篮" * 13 + "...")
    line.close()
    assert shows(terminal)


def test_nothing_is_drawn_while_somebody_else_writes(terminal: Terminal) -> None:
    is_free = False
    line = TerminalLine(terminal.slave, lambda _: "where it is", lambda: is_free)
    line.show()
    assert not terminal.read_until(lambda: bool(terminal.raw), 0.6)
    is_free = True
    assert shows(terminal, "where it is")
    line.close()
    line.close()


def test_terminal_gone_breaks_nothing() -> None:
    terminal = Terminal()
    line = TerminalLine(terminal.slave, lambda _: "where it is")
    line.show()
    terminal.close()
    line.hide()
    line.close()
    line.show()


def test_it_is_for_terminals_with_somebody_before_them(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("CI", raising=False)
    assert can_show(terminal.slave)
    read, write = os.pipe()
    assert not can_show(write)
    os.close(read)
    os.close(write)
    for name, value in ("CI", "true"), ("BUILD_NUMBER", "7"), ("TERM", "dumb"):
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            assert not can_show(terminal.slave)


@pytest.mark.parametrize("columns", range(12))
def test_text_fits(columns: int) -> None:
    for text in "abcdefghijklm", "篮子篮子篮子篮", "e\u0301" * 13, "❤\ufe0f" * 7:
        assert columns_of(fit(text, columns)) <= columns
    assert fit("abc", 3) == "abc"
