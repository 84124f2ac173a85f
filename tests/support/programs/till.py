"""A Qt program for tests of recordings: a till with a price, a count and a total, and
faults that options switch on.

It writes `total.txt` whenever Pay is clicked. `--fault=NAME` names what is wrong with
it; `--slow=SECONDS` is how long it takes to react at most; with `--clock` something on
it keeps changing on its own, beside the caret of its field, until there is a file
`noon`. `--panel=SECONDS` opens a panel when Pay is clicked; its text comes so much
later. `--starts=FILE` counts the starts: `--fault-from=2` has the fault from the second
on, `--fault-until=3` until the third.

With `--later` it is a window for what happens later: a button that saves, and a status.
`--error-after=SECONDS` shows an error over a third of the screen so long after a click,
which goes away after `--error-for`; `--vanish-after` takes the result away.
`--blink=TEXT` shows a text every other half second, `--steady=TEXT` all the time. The
file `go` makes it say "gone", with `--go-fails` above the error.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QEvent, QObject, QTimer
from PySide6.QtWidgets import QApplication, QLabel, QLineEdit, QPushButton, QWidget

PRICE = 250
TOASTS = {
    "toast": (0.4, 500, 300),
    "long toast": (6.0, 500, 300),
    "toast on Pay": (3.0, 350, 205),
}


INPUT = (QEvent.Type.KeyPress, QEvent.Type.MouseButtonPress)


class IgnoredInput(QObject):
    def eventFilter(self, _: QObject, event: QEvent) -> bool:
        return event.type() in INPUT


class Till(QWidget):
    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__()
        self._fault = fault = options.fault
        self._slow_s = options.slow
        self._count = 0
        self._late_s = options.panel or 0.0
        self._panel = None if options.panel is None else QLabel(self)
        if self._panel:
            self._panel.setStyleSheet("background: white; border: 3px solid black")
            self._panel.setGeometry(480, 120, 280, 200)
            self._panel.hide()
        self._banner: QLabel | None = None
        self._random = random.Random(1)
        self._name = QLineEdit(self)
        self._name.setGeometry(60, 40, 300, 40)
        self._shown = QLabel("0 apples, total 0.00", self)
        self._shown.setGeometry(60, 120, 400, 40)
        self._status = QLabel("opne" if fault == "spelling" else "open", self)
        self._status.setGeometry(60, 280, 400, 40)
        if fault == "dark":
            self.setStyleSheet("background: navy; color: white")
        add = self._button("Add apple", 60, self._add)
        self._button("Pay", 300, self._pay)
        if fault == "moved button":
            self._name.textChanged.connect(lambda: add.move(160, add.y()))
        self._time = QLabel("10" if options.clock else "0", self)
        self._time.setGeometry(612, 40, 100, 40)
        if options.clock:
            timer = QTimer(self)
            timer.timeout.connect(self._tick)
            timer.start(200)

    def _button(self, text: str, left: int, clicked: Callable[[], None]) -> QPushButton:
        button = QPushButton(text, self)
        button.setGeometry(left, 200, 160, 48)
        button.clicked.connect(
            lambda: QTimer.singleShot(
                int(1000 * self._random.uniform(0, self._slow_s)), clicked
            )
        )
        return button

    def _show(self, text: str, left: int, top: int) -> QLabel:
        box = QLabel(text, self)
        box.setStyleSheet("background: #ffe0a0")
        box.setGeometry(left, top, 200, 40)
        box.show()
        return box

    def _tick(self) -> None:
        if not Path("noon").exists():
            self._time.setText(str(int(self._time.text()) + 1))

    def _add(self) -> None:
        if self._fault in TOASTS:
            seconds, left, top = TOASTS[self._fault]
            toast = self._show("added to the basket", left, top)
            QTimer.singleShot(int(1000 * seconds), toast.deleteLater)
        if self._fault == "lasting banner" and self._banner is None:
            self._banner = self._show("ERROR 500", 500, 300)
        if self._fault == "shaky text":
            self._shown.move(61, 120)
        if self._fault == "raised text":
            self._shown.move(60, 119)
        if self._fault == "stuck" and self._count:
            return
        self._count += 1
        total = self._count * PRICE + (1 if self._fault == "wrong total" else 0)
        self._shown.setText(f"{self._count} apples, total {total / 100:.2f}")

    def _pay(self) -> None:
        Path("total.txt").write_text(
            f"{self._name.text()} pays {self._count * PRICE / 100:.2f}",
            encoding="utf-8",
        )
        if self._banner:
            self._banner.hide()
        if self._panel is not None:
            self._panel.show()
            QTimer.singleShot(
                int(1000 * self._late_s),
                lambda: self._panel.setText("Receipt: thank you"),
            )
        if self._fault != "stale status":
            self._status.setText("paid")
        if self._fault == "another mark":
            self._time.setText("!")


class Later(QWidget):
    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__()
        self._options = options
        button = QPushButton("Save", self)
        button.setGeometry(60, 200, 160, 48)
        button.clicked.connect(self._save)
        self._result = self._label("not saved", 60, 120)
        self._state = self._label(options.blink or options.steady, 500, 120)
        self._error = self._label("ERROR 500", 0, 0)
        self._error.setGeometry(0, 260, 800, 140)
        self._error.setStyleSheet("background: #c00000; color: white; font-size: 40px")
        self._error.hide()
        for duration_ms, call in ((400, self._blink), (50, self._look)):
            timer = QTimer(self)
            timer.timeout.connect(call)
            timer.start(duration_ms)

    def _label(self, text: str, left: int, top: int) -> QLabel:
        label = QLabel(text, self)
        label.setGeometry(left, top, 240, 40)
        return label

    def _save(self) -> None:
        self._result.setText("saved")
        options = self._options
        if options.vanish_after:
            QTimer.singleShot(
                int(1000 * options.vanish_after), lambda: self._result.setText("")
            )
        if options.error_after:
            QTimer.singleShot(int(1000 * options.error_after), self._error.show)
        if options.error_for:
            QTimer.singleShot(
                int(1000 * (options.error_after + options.error_for)), self._error.hide
            )

    def _blink(self) -> None:
        if self._options.blink:
            self._state.setText("" if self._state.text() else self._options.blink)

    def _look(self) -> None:
        if Path("go").exists():
            self._result.setText("gone")
            self._error.setVisible(self._options.go_fails)


def started(starts: Path) -> int:
    with starts.open("a", encoding="utf-8") as file:
        print("started", file=file)
    return len(starts.read_text(encoding="utf-8").splitlines())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for name in ("--fault", "--blink", "--steady"):
        parser.add_argument(name, default="")
    for name in ("--slow", "--error-after", "--error-for", "--vanish-after"):
        parser.add_argument(name, type=float, default=0.0)
    for name in ("--clock", "--later", "--go-fails"):
        parser.add_argument(name, action="store_true")
    parser.add_argument("--panel", type=float)
    parser.add_argument("--starts", type=Path)
    parser.add_argument("--fault-from", type=int, default=1)
    parser.add_argument("--fault-until", type=int, default=1000)
    options = parser.parse_args()
    start = started(options.starts) if options.starts else options.fault_from
    if not options.fault_from <= start <= options.fault_until:
        options.fault = ""
    application = QApplication(sys.argv[:1])
    ignored = IgnoredInput()
    if options.fault == "deaf":
        application.installEventFilter(ignored)
    till = Later(options) if options.later else Till(options)
    till.setGeometry(application.primaryScreen().geometry())
    till.show()
    sys.exit(application.exec())
