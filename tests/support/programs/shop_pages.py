"""The windows of the examples' shop, drawn without a screen: a line for each with a
digest of its pixels.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from pathlib import Path

SHOP = Path(__file__).parents[3] / "examples" / "shop"
sys.path.insert(0, str(SHOP))

# as the shop's modules, once its directory is on the path
from PySide6.QtGui import QImage  # noqa: E402
from PySide6.QtWidgets import QApplication, QWidget  # noqa: E402
from rendering import forget_the_users_settings, pin  # noqa: E402
from store import Store  # noqa: E402
from window import Desk, ShopWindow  # noqa: E402


def drawn(window: QWidget) -> str:
    image = window.grab().toImage().convertToFormat(QImage.Format.Format_RGB32)
    return hashlib.sha256(bytes(image.constBits())).hexdigest()


def main(directory: Path) -> None:
    os.environ["QT_QPA_PLATFORM"] = "offscreen"
    forget_the_users_settings()
    pin(QApplication(sys.argv[:1]))
    store = Store(directory)
    window = ShopWindow(store)
    window.resize(1440, 900)
    window.show()
    print("Sign in", drawn(window))
    store.sign_in("alice", "wonderland")
    store.change_quantity("apples", 2)
    desk = window.findChild(Desk)
    for name in desk.names:
        desk.open(name)
        print(name, drawn(window))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        main(Path(made))
