"""Draw one sheet of cells for `same_drawing` with one renderer: drawing_sheets.py RENDERER JOB.json SHEET.png

For Pango the interpreter of the system runs this, which has PyGObject; so it needs nothing of this package.
"""

from __future__ import annotations

import html
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

Job = dict[str, Any]


def chromium(job: Job, image: Path) -> None:
    """Draw with Chromium. With a device scale it hints nothing, so hinted cells are drawn larger at scale 1 instead."""
    scale = job["scale"]
    device, zoom = (1, scale) if job["hints"] else (scale, 1)
    body = []
    for cell in job["cells"]:
        left, top, _, _ = cell["at"]
        place = f"left:{(left + 10 + cell['offset']) / device}px;top:{(top + 5) / device}px"
        font = f"font:{cell['px'] * zoom}px '{cell['font']}';color:{cell['colour']}"
        text = cell["markup"] if "<" in cell["markup"] or "&" in cell["markup"] else html.escape(cell["markup"])
        body.append(f'<div style="position:absolute;white-space:pre;{place};{font}">{text}</div>')
    page = image.with_suffix(".html")
    style = "body{margin:0;background:#fff} button,input{font:inherit} input,progress{height:1em;width:1em;margin:0}"
    page.write_text(f'<!doctype html><meta charset="utf-8"><style>{style}</style>{"".join(body)}', "utf-8")
    width, height = (int(side / device) + 1 for side in job["size"])
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        f"--force-device-scale-factor={device}",
    ]
    options += [f"--window-size={width},{height}", "--enable-lcd-text" if job["lcd"] else "--disable-lcd-text"]
    profile = f"--user-data-dir={image.parent / 'profile'}"
    subprocess.run(["chromium", *options, profile, f"--screenshot={image}", page.as_uri()], timeout=200, check=True)


def pango(job: Job, image: Path) -> None:
    """Draw as GTK 3 and 4 do, without a window."""
    import cairo  # type: ignore[import-not-found]
    import gi  # type: ignore[import-not-found]

    gi.require_version("Pango", "1.0")
    gi.require_version("PangoCairo", "1.0")
    from gi.repository import Pango, PangoCairo  # type: ignore[import-not-found]

    surface = cairo.ImageSurface(cairo.FORMAT_RGB24, *job["size"])
    context = cairo.Context(surface)
    context.set_source_rgb(1, 1, 1)
    context.paint()
    options = cairo.FontOptions()
    options.set_antialias(cairo.ANTIALIAS_SUBPIXEL if job["lcd"] else cairo.ANTIALIAS_GRAY)
    options.set_hint_style(cairo.HINT_STYLE_SLIGHT if job["hints"] else cairo.HINT_STYLE_NONE)
    options.set_hint_metrics(cairo.HINT_METRICS_OFF)
    for cell in job["cells"]:
        layout = PangoCairo.create_layout(context)
        PangoCairo.context_set_font_options(layout.get_context(), options)
        layout.get_context().set_round_glyph_positions(False)
        font = Pango.FontDescription(cell["font"])
        font.set_absolute_size(cell["px"] * job["scale"] * Pango.SCALE)
        layout.set_font_description(font)
        layout.set_text(cell["markup"], -1)
        context.set_source_rgb(*(int(cell["colour"][at : at + 2], 16) / 255 for at in (1, 3, 5)))
        context.move_to(cell["at"][0] + 10 + cell["offset"], cell["at"][1] + 5)
        PangoCairo.show_layout(context, layout)
    surface.write_to_png(str(image))


def qt(job: Job, image: Path) -> None:
    """Draw as Qt's widgets do, without a window."""
    from PySide6.QtCore import QPointF
    from PySide6.QtGui import QColor, QFont, QFontMetricsF, QGuiApplication, QImage, QPainter

    references = [None] * 10_000_000  # some calls below give back a reference to None that they never took
    app = QGuiApplication(sys.argv[:1])
    drawn = QImage(job["size"][0], job["size"][1], QImage.Format.Format_RGB32)
    drawn.fill(QColor("white"))
    painter = QPainter(drawn)
    for cell in job["cells"]:
        font = QFont(cell["font"])
        font.setPixelSize(round(cell["px"] * job["scale"]))
        hinting = QFont.HintingPreference
        font.setHintingPreference(hinting.PreferVerticalHinting if job["hints"] else hinting.PreferNoHinting)
        if not job["lcd"]:
            font.setStyleStrategy(QFont.StyleStrategy.NoSubpixelAntialias)
        painter.setFont(font)
        painter.setPen(QColor(cell["colour"]))
        baseline = round(cell["at"][1] + 5 + QFontMetricsF(font).ascent())
        painter.drawText(QPointF(cell["at"][0] + 10 + cell["offset"], baseline), cell["markup"])
    painter.end()
    drawn.save(str(image))
    del app, references


if __name__ == "__main__":
    {"chromium": chromium, "pango": pango, "qt": qt}[sys.argv[1]](
        json.loads(Path(sys.argv[2]).read_text("utf-8")), Path(sys.argv[3])
    )
