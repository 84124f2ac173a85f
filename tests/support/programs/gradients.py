"""A window without a frame, hard to compress: gradients, noise, text over both. Run as a script: WIDTH HEIGHT"""

import random
import sys

from PySide6.QtCore import QRect, Qt
from PySide6.QtGui import QColor, QImage, QLinearGradient, QPainter, QPaintEvent, QRadialGradient
from PySide6.QtWidgets import QApplication, QWidget


class Gradients(QWidget):
    def __init__(self, width: int, height: int) -> None:
        super().__init__()
        self.setWindowTitle("gradients")
        self.setWindowFlag(Qt.WindowType.FramelessWindowHint)
        self.setGeometry(QRect(0, 0, width, height))
        noise = random.Random(1).randbytes(200 * 150 * 4)
        self._noise = QImage(noise, 200, 150, QImage.Format.Format_RGB32).copy()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        along = QLinearGradient(0, 0, self.width(), self.height() / 3)
        around = QRadialGradient(self.width() / 2, self.height() / 2, self.height() / 2)
        for gradient, colours in ((along, ("#e66465", "#9198e5")), (around, ("#ffffff", "#1f6fb2"))):
            gradient.setColorAt(0, QColor(colours[0]))
            gradient.setColorAt(1, QColor(colours[1]))
        painter.fillRect(0, 0, self.width(), self.height() // 2, along)
        painter.fillRect(0, self.height() // 2, self.width(), self.height() // 2, around)
        painter.drawImage(self.width() - 250, self.height() - 200, self._noise)
        for line in range(20):
            painter.drawText(30, 40 + 25 * line, f"{line}: the quick brown fox jumps over the lazy dog " * 3)


if __name__ == "__main__":
    application = QApplication(sys.argv)
    window = Gradients(int(sys.argv[1]), int(sys.argv[2]))
    window.show()
    sys.exit(application.exec())
