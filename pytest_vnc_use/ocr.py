"""Text that is read off pixels (OCR), where the extra `[ocr]` is installed: by the
models in RapidOCR's wheel, on ONNX Runtime. Nothing is downloaded.

A reading may be wrong, so it decides nothing. The model of the toolset `vnc_command`
gets the text of a screen, and the message of a drift the lines that differ.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image

from pytest_vnc_use.types import Region
from pytest_vnc_use.types.elements import Element

Pixels = npt.NDArray[np.uint32]
"""As in `backends.pixels`: an array of shape (height, width), 0xRRGGBB each."""
_MAX_SIDE_PX = 4096
"""The longest side of a screen that is read in its full size."""
_HEIGHT_PX = 48
"""The height of a line for the model that reads it."""
_LEAST_WIDTH_PX = 320
_BLANK = 0
"""The model's class between two characters. The last class is the space."""


class Line(NamedTuple):
    """A line as it was read, and how sure each of its characters is, from 0 to 1."""

    text: str
    sure: tuple[float, ...]


def is_installed() -> bool:
    """Return whether the extra `[ocr]` is installed. It is not imported."""
    return all(find_spec(name) for name in ("rapidocr", "onnxruntime"))


def texts_of(screen: Pixels) -> list[Element]:
    """Return the text on a screen with its boxes, from top to bottom."""
    found = _finder()(_bgr(screen))
    if found.txts is None:
        return []
    return [
        Element("text", text, _region(corners))
        for text, corners in zip(found.txts, found.boxes, strict=True)
    ]


def line_of(crop: Pixels) -> Line:
    """Return the line of text that a crop shows, and nothing else in it.

    RapidOCR can do that too. To import it takes five times as long as all of this.
    """
    height, width = crop.shape
    width = max(1, round(width * _HEIGHT_PX / height))
    image = Image.fromarray(_bgr(crop)).resize(
        (width, _HEIGHT_PX), Image.Resampling.BILINEAR
    )
    padded = np.zeros((1, 3, _HEIGHT_PX, max(width, _LEAST_WIDTH_PX)), np.float32)
    padded[0, :, :, :width] = np.asarray(image).transpose(2, 0, 1) / 127.5 - 1

    session = _line_reader()
    (answer,) = session.run(None, {session.get_inputs()[0].name: padded})
    columns = answer[0]
    classes = columns.argmax(axis=1)
    is_next = np.append(True, classes[1:] != classes[:-1])
    characters = session.get_modelmeta().custom_metadata_map["character"].splitlines()
    names = ["", *characters, " "]
    places = np.flatnonzero(is_next & (classes != _BLANK))
    text = "".join(names[number] for number in classes[places])
    return Line(text, tuple(columns.max(axis=1)[places].tolist()))


def import_reader() -> None:
    """Import what `line_of` needs, in this thread: CPython 3.11 can fail where two
    threads parse modules.
    """
    # Imported here and below, as nothing else may pay for it.
    import onnxruntime as onnxruntime


@cache
def _line_reader() -> Any:
    """Return the session of the model that reads a line."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    # Short lines are read sooner by one thread.
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(
        str(_model("rec")), options, providers=["CPUExecutionProvider"]
    )


@cache
def _finder() -> Any:
    """Return what finds and reads the text on a screen. It gets the paths of its
    models, as it would download a model that it looks for by name.
    """
    from rapidocr import RapidOCR

    return RapidOCR(
        params={
            "Global.log_level": "critical",
            "Global.use_cls": False,
            "Global.max_side_len": _MAX_SIDE_PX,
            "Det.model_path": str(_model("det")),
            "Rec.model_path": str(_model("rec")),
        }
    )


def _model(task: str) -> Path:
    """Return the model of a task that RapidOCR's wheel holds."""
    found = find_spec("rapidocr")
    assert found is not None
    assert found.origin is not None
    (model,) = Path(found.origin).parent.glob(f"models/*_{task}_*.onnx")
    return model


def _bgr(pixels: Pixels) -> npt.NDArray[np.uint8]:
    """Return blue, green and red of each pixel, along a third axis."""
    channels = [pixels >> shift & 0xFF for shift in (0, 8, 16)]
    return np.stack(channels, axis=-1).astype(np.uint8)


def _region(corners: npt.NDArray[np.float32]) -> Region:
    left, top = corners.min(axis=0)
    right, bottom = corners.max(axis=0)
    return Region(int(left), int(top), int(right) + 1, int(bottom) + 1)
