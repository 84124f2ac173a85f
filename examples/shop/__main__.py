"""Orchard Lane, a small shop to try end-to-end tests on: `python examples/shop`, in any
directory.

It is drawn for a screen of 1440x900. Sign in as alice with the password wonderland.
Every page is reached by mouse, and by Ctrl+1 to Ctrl+7 and Tab. It keeps three files in
the directory it is started in, and writes them as things happen:

- orders.csv: `product;quantity;status`, a line for each product in the basket
  (`apples;2;basket`) or ordered (`apples;2;ordered`);
- state.json: user, page, failed_sign_ins, basket, times_emptied, total, orders (with
  name, street, city, delivery and gift_wrap), gift_box, stock_report (`not loaded`,
  `loading`, `loaded`, `confirmed`), terms_accepted;
- notes.txt: the notes, once they are saved.
"""

from __future__ import annotations

import sys
from pathlib import Path

from PySide6.QtWidgets import QApplication
from rendering import forget_the_users_settings, pin
from store import Store
from window import ShopWindow


def main() -> int:
    forget_the_users_settings()
    application = QApplication(sys.argv)
    pin(application)
    window = ShopWindow(Store(Path.cwd()))
    window.showFullScreen()
    return application.exec()


if __name__ == "__main__":
    sys.exit(main())
