"""What decides which pixels the shop has, and what another machine, or its user, would
decide otherwise.

The font is the shop's own, drawn as its outlines are, without hints, in shades of grey;
so neither the machine's fonts and their settings nor its version of FreeType are seen.
"""

from __future__ import annotations

import os
from pathlib import Path

from look import FONT, FONT_SIZE_PX, STYLE
from PySide6.QtCore import QLocale, Qt
from PySide6.QtGui import QFont, QFontDatabase
from PySide6.QtWidgets import QApplication, QStyleFactory

FONTS = Path(__file__).parent / "fonts"
OF_THE_USER = (
    "QT_SCALE_FACTOR",
    "QT_SCREEN_SCALE_FACTORS",
    "QT_FONT_DPI",
    "QT_USE_PHYSICAL_DPI",
    "QT_STYLE_OVERRIDE",
    "QT_QPA_PLATFORMTHEME",
)


def forget_the_users_settings() -> None:
    """Before Qt starts."""
    for name in OF_THE_USER:
        os.environ.pop(name, None)
    os.environ["FONTCONFIG_FILE"] = str(FONTS / "fonts.conf")


def pin(application: QApplication) -> None:
    """Style, font, and all that moves by itself. Raises FileNotFoundError where the
    font is not beside the shop.
    """
    for path in (
        FONTS / "OrchardLaneSans-Regular.ttf",
        FONTS / "OrchardLaneSans-Bold.ttf",
    ):
        if QFontDatabase.addApplicationFont(str(path)) < 0:
            raise FileNotFoundError(
                f"the shop's font {str(path)!r} must be there, and is not"
            )
    QLocale.setDefault(QLocale.c())
    style = QStyleFactory.create("Fusion")
    application.setStyle(style)
    application.setPalette(style.standardPalette())
    application.setFont(_font())
    application.setStyleSheet(STYLE)
    application.setLayoutDirection(Qt.LayoutDirection.LeftToRight)
    application.setCursorFlashTime(0)


def _font() -> QFont:
    font = QFont(FONT)
    font.setPixelSize(FONT_SIZE_PX)
    font.setHintingPreference(QFont.HintingPreference.PreferNoHinting)
    font.setStyleStrategy(
        QFont.StyleStrategy.PreferAntialias | QFont.StyleStrategy.NoSubpixelAntialias
    )
    return font
